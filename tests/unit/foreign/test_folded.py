from __future__ import annotations

import gzip
import io
import time

import pytest

from prospect.errors import RecordingError
from prospect.foreign.detection import foreign_kind
from prospect.foreign.folded_profile import folded_profile
from prospect.profile.model import CPUMODE_KERNEL, KIND_JIT, KIND_KERNEL
from prospect.render.registry import make_renderer

STACKS = b"""\
cc1;[cc1];main;read_[k];ext4_read_[k] 7
cc1;main;[libc.so.6] 12
cc1;main;inner_[i];leaf_[j] 3
make;main;work;work;work 2
make;main;work;work;work;\xff\xfe 1
"""


def read(data):
    return folded_profile("stacks", memoryview(data))


def folded(profile):
    out = io.BytesIO()
    make_renderer("folded", detail="4").render(profile, out)
    return out.getvalue()


def test_what_is_written_again_is_the_same():
    first = folded(read(b"".join(sorted(STACKS.splitlines(keepends=True)))))
    lines = STACKS.replace(b"\xff\xfe", b"\\xff\\xfe").splitlines(keepends=True)
    assert first == b"".join(sorted(lines))
    assert folded(read(first)) == first


def test_marks_are_kinds_of_objects():
    profile = read(STACKS)
    kinds = dict(
        zip(
            profile.functions.name,
            profile.objects.kind.take(profile.functions.object_index).tolist(),
            strict=True,
        )
    )
    assert kinds["ext4_read"] == KIND_KERNEL
    assert kinds["leaf"] == KIND_JIT
    assert profile.hits.count.sum() == 25
    assert profile.hits.count[profile.hits.mode == CPUMODE_KERNEL].tolist() == [7]
    assert profile.processes.name == ["cc1", "make"]


def test_equal_beginnings_of_stacks_are_one():
    stacks = read(b"a;b;c 1\na;b;d 2\na;b 3\n").stacks
    assert len(stacks) == 3


@pytest.mark.parametrize(
    "data", [b"no count\n", b"a;b 1\na;b x\nc\n", b" 12\n", b"a 1" + b"0" * 30]
)
def test_what_is_no_stack_is_refused(data):
    with pytest.raises(RecordingError):
        read(data)


def test_a_stack_as_deep_as_no_program_has_is_refused():
    with pytest.raises(RecordingError, match="frames"):
        read(b"a;" * 20000 + b"b 1\n")


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (STACKS, "folded"),
        (b"a;b 1", "folded"),
        (b"PERFILE2" + b"a 1\n", ""),
        (b"", ""),
        (b"\n\n", ""),
        (b"# comment\nodd\na;b 1.5\nc;d 2\ne;f 3\n", "folded"),
        (b"#!/bin/sh\nexit 1\n", ""),
        (b"a;b  c \t 1.\na;b x\n 12\na 1 2\n", ""),
        (b"a;b  c \t 1.\na;b x\na 1 2\n", "folded"),
        (b"\x7fELF\x02\x01\x01\0", ""),
        (b"\x1f\x8b\x08\0", ""),
        (gzip.compress(b"a;b 1\n", mtime=0), "folded"),
    ],
)
def test_contents_say_what_a_file_is(head, kind):
    assert foreign_kind(head) == kind


def test_blanks_within_a_line_cost_no_more_than_their_length():
    began_s = time.process_time()
    assert foreign_kind(b"x" + b" " * 65_000 + b"y") != "folded"
    assert time.process_time() - began_s < 2


def test_comments_and_a_few_odd_lines_are_left_out_and_said():
    profile = read(b"# made by hand 2\n\na;b 3\nhalf a line\n#!x\na;c 4\n  \n")
    assert profile.hits.count.tolist() == [3, 4]
    assert profile.run.limits == (
        "1 line is no folded stack with a count and left out; the first is line 4.",
    )


def test_a_frame_that_begins_like_a_comment_is_one():
    assert read(b"#1;b 3\n").hits.count.tolist() == [3]


def test_fractions_of_counts_keep_their_proportions():
    profile = read(b"a;b 1.5\na;c 0.25\na;d 2\n")
    assert profile.hits.count.tolist() == [150, 25, 200]
    assert profile.run.events[0].name == "samples/100"
    assert profile.run.limits == (
        "Counts have fractions: a sample is 1/100 of what the file counts.",
    )


def test_fractions_that_say_nothing_change_nothing():
    profile = read(b"a;b 1.000\na;c 2.\n")
    assert profile.hits.count.tolist() == [1, 2]
    assert (profile.run.events[0].name, profile.run.limits) == ("samples", ())


def test_a_large_file_is_read_in_parts_and_costs_little():
    """The parts overlap no line, and the columns of a stack are not Python's objects."""
    count = 60_000
    data = b"".join(b"t%d;main;f%d;leaf%d 2\n" % (n % 7, n % 100, n) for n in range(count))
    assert len(data) > 1 << 20
    began_s = time.process_time()
    profile = read(data)
    assert profile.hits.count.tolist() == [2] * count
    assert profile.functions.name[-1] == f"leaf{count - 1}"
    assert time.process_time() - began_s < 6


def test_more_frames_than_are_read_are_refused(monkeypatch):
    monkeypatch.setattr("prospect.foreign.stack_profile.MOST_FRAMES", 5)
    with pytest.raises(RecordingError, match="more than 5 frames together"):
        read(b"a;b;c;d 1\na;b;c;d 1\n")


def test_a_line_without_an_end_is_refused(monkeypatch):
    monkeypatch.setattr("prospect.foreign.stack_profile.LONGEST_LINE_BYTES", 10)
    monkeypatch.setattr("prospect.foreign.stack_profile._CHUNK_BYTES", 8)
    with pytest.raises(RecordingError, match="line 2 has more than"):
        read(b"a;b 1\n" + b"x" * 40)
