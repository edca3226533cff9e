"""Directories of `perf record --threads`: a recording, and files of records alone."""

from __future__ import annotations

import os

import pytest

from builders.perfdata import FileBuilder
from builders.usual_file import BUILDER, CLOCK, DUMMY, RECORDS, features
from prospect.errors import RecordingError
from prospect.events.decode import decode
from prospect.files.rights import EVERYBODY
from prospect.perfdata.reader import open_recording

OF_THREADS = [
    b"".join(RECORDS.sample(ip=0x1000, pid=5, tid=5, time=at, id=1) for at in times)
    for times in ((5000, 5002), (4000, 5001, 5003), (), ())
]


def directory(tmp_path, *contents, data=None):
    (tmp_path / "data").write_bytes(BUILDER.file() if data is None else data)
    for number, content in enumerate(contents):
        (tmp_path / f"data.{number}").write_bytes(content)
    return str(tmp_path)


def read(path):
    with open_recording(path) as recording:
        blocks = list(recording.blocks())
        return recording, decode(blocks, recording.info.events, recording.damage)


def test_samples_of_all_files(tmp_path):
    path = directory(tmp_path, *OF_THREADS)
    with open_recording(path) as recording:
        assert recording.size_bytes == sum(len(block.data) for block in recording.blocks())
    recording, events = read(path)
    assert len(events.samples) == 2005
    assert sorted(events.samples.time_ns[-5:].tolist()) == [4000, 5000, 5001, 5002, 5003]
    assert recording.damage == []
    assert recording.unread_bytes == 0
    assert recording.named_by == os.geteuid()


def test_each_file_is_packed_by_itself(tmp_path):
    packed = [
        b"".join(FileBuilder([CLOCK, DUMMY], [one], features()).compress()) for one in OF_THREADS
    ]
    path = directory(tmp_path, *packed, data=BUILDER.compressed())
    recording, events = read(path)
    assert len(events.samples) == 2005
    assert recording.damage == []
    assert recording.unread_bytes == 0


def test_a_file_that_is_cut(tmp_path):
    recording, events = read(directory(tmp_path, OF_THREADS[0][:-3], OF_THREADS[1]))
    assert len(events.samples) == 2004
    assert len(recording.damage) == 1
    assert "data.0" in recording.damage[0]


def test_a_directory_of_kcore_has_one_file(tmp_path):
    (tmp_path / "kcore_dir").mkdir()
    _, events = read(directory(tmp_path))
    assert len(events.samples) == 2000


def test_other_directories_are_no_recordings(tmp_path):
    with pytest.raises(RecordingError, match="a directory, not a recording"):
        open_recording(str(tmp_path))
    (tmp_path / "data").mkdir()
    with pytest.raises(RecordingError, match="not a regular file"):
        open_recording(str(tmp_path))


def test_links_are_not_followed(tmp_path):
    (tmp_path / "else").write_bytes(OF_THREADS[0])
    (tmp_path / "whole").write_bytes(BUILDER.file())
    (tmp_path / "here").mkdir()
    path = directory(tmp_path / "here")
    (tmp_path / "here/data.0").symlink_to(tmp_path / "else")
    with pytest.raises(RecordingError, match="symbolic"):
        open_recording(path)
    (tmp_path / "here/data").unlink()
    (tmp_path / "here/data").symlink_to(tmp_path / "whole")
    with pytest.raises(RecordingError, match="symbolic"):
        open_recording(path)


def test_a_file_of_records_that_is_none(tmp_path):
    path = directory(tmp_path)
    os.mkfifo(tmp_path / "data.0")
    with pytest.raises(RecordingError, match="not a regular file"):
        open_recording(path)


@pytest.mark.parametrize("changed", ["", "data", "data.1"])
def test_whoever_may_write_one_of_them_speaks_in_it(tmp_path, changed):
    path = directory(tmp_path, *OF_THREADS)
    (tmp_path / changed).chmod(0o777)
    assert read(path)[0].named_by == EVERYBODY
