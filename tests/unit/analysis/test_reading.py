from __future__ import annotations

import os

import pytest

import prospect
from builders.gmon import gmon_out, histogram
from prospect.errors import RecordingError, UsageError

FOLDED = b"make;main;work 3\nmake;main 1\n"


def test_contents_and_not_names_say_what_a_file_is(tmp_path):
    file = tmp_path / "perf.data"
    file.write_bytes(FOLDED)
    profile = prospect.open(file)
    assert profile.functions.name == ["main", "work"]
    text = prospect.calls(file, sections=("totals",))
    assert "4 samples" in text


def test_the_program_of_a_gmon_out_is_asked_for(tmp_path):
    file = tmp_path / "gmon.out"
    file.write_bytes(gmon_out(histogram(0, 8, [1, 2])))
    with pytest.raises(RecordingError, match=r"no program .*a.out; name the one .* --program FILE"):
        prospect.open(file)
    (tmp_path / "text").write_bytes(b"no ELF")
    with pytest.raises(RecordingError, match="text: not an ELF file"):
        prospect.open(file, program=str(tmp_path / "text"))


def test_stacks_are_no_choice_where_there_are_none(tmp_path):
    file = tmp_path / "stacks"
    file.write_bytes(FOLDED)
    with pytest.raises(UsageError, match=r"nothing|no "):
        prospect.calls(file, callers_of="absent")


@pytest.mark.parametrize("data", [b"", b"#!/bin/sh\nexit\n", b"\0" * 100, b"a;b 1\nno count\n"])
def test_other_files_are_refused_in_one_line(data, tmp_path):
    file = tmp_path / "file"
    file.write_bytes(data)
    with pytest.raises(RecordingError) as caught:
        prospect.open(file)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_fifo_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(RecordingError, match="not a regular file"):
        prospect.open(tmp_path / "fifo")
