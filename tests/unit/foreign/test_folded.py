from __future__ import annotations

import io

import pytest

from prospect.errors import RecordingError
from prospect.foreign.detection import foreign_kind
from prospect.foreign.folded import folded_profile
from prospect.profile.model import KIND_JIT, KIND_KERNEL, MODE_KERNEL
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
    assert profile.hits.count[profile.hits.mode == MODE_KERNEL].tolist() == [7]
    assert profile.processes.name == ["cc1", "make"]


def test_equal_beginnings_of_stacks_are_one():
    stacks = read(b"a;b;c 1\na;b;d 2\na;b 3\n").stacks
    assert len(stacks) == 3


@pytest.mark.parametrize("data", [b"no count\n", b"a;b 1\na;b x\n", b" 12\n", b"a 1" + b"0" * 30])
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
        (b"#!/bin/sh\nexit 1\n", ""),
        (b"\x7fELF\x02\x01\x01\0", ""),
        (b"\x1f\x8b\x08\0", "pprof"),
    ],
)
def test_contents_say_what_a_file_is(head, kind):
    assert foreign_kind(head) == kind
