"""Which recording is meant, and what is said where there is none of that name."""

from __future__ import annotations

import os

import pytest

from prospect.cli.instead import explained
from prospect.cli.operands import readable
from prospect.errors import CommandError, RecordingError, UsageError


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(name, **keywords):
    with pytest.raises(RecordingError) as caught:
        readable(name, "report", **keywords)
    return str(caught.value)


def make(directory, *names):
    """Make files, each newer than the one before."""
    for second, name in enumerate(names):
        (directory / name).touch()
        os.utime(directory / name, (second, second))


def test_a_file_that_is_there_is_meant(here):
    make(here, "run.data", "perf.data")
    assert readable("run.data", "report") == "run.data"
    assert readable("", "report") == "perf.data"


def test_a_name_that_is_nearly_there_is_offered(here):
    make(here, "run.data", "other.data")
    assert refused("rnu.data") == "rnu.data: no such file; did you mean run.data?"
    (here / "old").mkdir()
    make(here / "old", "base.profile")
    assert refused("old/bse.profile").endswith("did you mean old/base.profile?")


def test_else_the_newest_recordings_are_named(here):
    make(here, "a.data", "b.data", "c.archive", "d.data", "notes.txt")
    (here / "directory.data").mkdir()
    assert (
        refused("nothing") == "nothing: no such file; recordings there: d.data, c.archive, b.data"
    )
    assert refused("") == (
        "no perf.data here; make one with: prospect record COMMAND; "
        "recordings here: d.data, c.archive, b.data"
    )


def test_where_there_is_none_it_says_what_makes_one(here):
    make(here, "notes.txt")
    assert refused("nothing").endswith("make a recording with: prospect record COMMAND")
    assert refused("", maker="this").endswith("no perf.data here; make one with: this")
    assert refused("no/such/directory").startswith("no/such/directory: no such file; make")


def test_the_output_is_another_file(here):
    with pytest.raises(UsageError, match="would replace its recording"):
        readable("x", "report", output="./x")


def test_what_is_wrong_with_a_name_says_who_opens_it(here):
    (here / "link").symlink_to("nowhere")
    assert readable("link", "report") == "link"
    assert readable("a\0b", "report") == "a\0b"


@pytest.mark.parametrize("status", [126, 127])
def test_a_recording_in_the_place_of_a_command_is_told_from_a_program(here, status):
    make(here, "perf.data")
    error = explained(CommandError("perf.data: no", status), ["perf.data", "x"])
    assert str(error) == "perf.data: no; to look at a recording: prospect report perf.data"
    assert error.exit_status == status
    assert "report" not in str(explained(CommandError("b.data: no", status), ["b.data"]))
