"""RecordingWriter: what it writes is what the reader, and a struct-level look, find."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from builders.perfdata import USUAL, RecordBuilder
from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr, EventDescription
from prospect.abi.recorded_facts import BuildId, RecordingInfo
from prospect.errors import RecordingError
from prospect.perfdata.reader import open_recording
from prospect.perfdata.writer import RecordingWriter

FLAGS = abi.FLAG_SAMPLE_ID_ALL | abi.FLAG_FREQ | abi.FLAG_MMAP2
EVENT = EventDescription(
    EventAttr(sample_type=USUAL, sample_period=1000, flags=FLAGS, sample_max_stack=127),
    ids=(11, 12),
    name="cpu-clock",
)
INFO = RecordingInfo(
    hostname="machine",
    os_release="6.18.0",
    arch="x86_64",
    cpus_online=2,
    cpus_available=4,
    cpu_description="A CPU @ 3 GHz",
    cpuid="GenuineIntel,6,85,7",
    total_memory_kib=16_000_000,
    command_line=("prospect", "record", "a b", "\udcff"),
    perf_version="prospect-0.1.0",
    build_ids=(
        BuildId(b"[kernel.kallsyms]", bytes(range(20)), -1, 1),
        BuildId(b"/bin/md5-id", bytes(range(16)), -1, 2),
        BuildId(b"/bin/" + b"\xff" * 70, bytes(20), -1, 2),
    ),
    first_sample_ns=1000,
    last_sample_ns=9000,
    recorded_at=0.0,
    extras={"clocks": [1, 2.5], "path": "ü\udcff", "nested": {"yes": True}},
)
RECORDS = RecordBuilder(USUAL)
SAMPLES = b"".join(RECORDS.sample(ip=i, time=i, id=11 + i % 2) for i in range(50))


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "perf.data"
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    yield str(path), fd
    os.close(fd)


def read(path):
    with open_recording(path) as recording:
        data = b"".join(block.data for block in recording.blocks())
        return recording.info, data, recording.damage


def test_everything_written_is_read_back(file):
    path, fd = file
    writer = RecordingWriter(fd, [EVENT])
    os.write(fd, SAMPLES)
    writer.finish(INFO, [EVENT])
    info, data, damage = read(path)
    assert damage == []
    assert data == SAMPLES
    written_at = os.fstat(fd).st_mtime
    assert info == INFO._replace(origin=path, events=(EVENT,), recorded_at=written_at)


def test_the_records_begin_at_a_multiple_of_8_where_the_descriptor_stands(file):
    _, fd = file
    writer = RecordingWriter(fd, [EVENT, EVENT._replace(ids=(5,))])
    assert os.lseek(fd, 0, os.SEEK_CUR) == writer.data_offset
    assert writer.data_offset % 8 == 0


def test_a_recorder_that_was_killed_leaves_events_and_records(file):
    path, fd = file
    RecordingWriter(fd, [EVENT])
    os.write(fd, SAMPLES)
    info, data, damage = read(path)
    assert data == SAMPLES
    assert info.events == (EVENT,)
    assert len(damage) == 1
    assert "stopped before it finished" in damage[0]


def test_ids_that_grew_while_recording_go_behind_the_data(file):
    path, fd = file
    writer = RecordingWriter(fd, [EVENT])
    os.write(fd, SAMPLES)
    grown = EVENT._replace(ids=tuple(range(11, 30)))
    second = EventDescription(EventAttr(config=9, sample_type=USUAL), ids=(99,), name="dummy")
    writer.finish(INFO, [grown, second])
    info, data, damage = read(path)
    assert info.events == (grown, second)
    assert (data, damage) == (SAMPLES, [])


def test_what_the_file_held_before_is_gone(file):
    path, fd = file
    os.write(fd, b"x" * 100_000)
    writer = RecordingWriter(fd, [EVENT])
    os.write(fd, SAMPLES)
    writer.finish(RecordingInfo(), [EVENT])
    assert read(path)[1] == SAMPLES


def test_absent_facts_give_no_section(file):
    path, fd = file
    writer = RecordingWriter(fd, [EVENT])
    os.write(fd, SAMPLES)
    writer.finish(RecordingInfo(), [EVENT])
    features = struct.unpack("<4Q", Path(path).read_bytes()[72:104])
    assert features == (1 << 12, 0, 0, 0)


def test_attrs_are_small_enough_for_readers_of_linux_4_8(file):
    path, fd = file
    RecordingWriter(fd, [EVENT])
    head = Path(path).read_bytes()
    assert struct.unpack_from("<Q", head, 16) == (112 + 16,)
    assert struct.unpack_from("<I", head, 104 + 4) == (112,)


def test_a_clock_of_their_own_is_related_to_the_wall_clock(file):
    path, fd = file
    flags = EVENT.attr.flags | abi.FLAG_USE_CLOCKID
    event = EVENT._replace(attr=EVENT.attr._replace(flags=flags, clockid=1))
    writer = RecordingWriter(fd, [event])
    os.write(fd, SAMPLES)
    writer.finish(RecordingInfo(), [event])
    info, _, damage = read(path)
    assert damage == []
    assert abs(info.recorded_at - os.fstat(fd).st_mtime) < 60


def test_a_descriptor_that_cannot_be_written_is_our_own_error(tmp_path):
    path = tmp_path / "perf.data"
    path.touch()
    fd = os.open(path, os.O_RDONLY)
    try:
        with pytest.raises(RecordingError, match="cannot be written"):
            RecordingWriter(fd, [EVENT])
    finally:
        os.close(fd)


def test_a_full_disk_is_our_own_error():
    with Path("/dev/full").open("wb") as full, pytest.raises(RecordingError, match="cannot be"):
        RecordingWriter(full.fileno(), [EVENT])


def test_importing_the_writer_loads_nothing_heavy():
    code = (
        "import sys; import prospect.perfdata.writer; heavy = "
        "{'numpy', 'json', 'dataclasses', 'subprocess', 'tempfile', 'zstandard'}; "
        "print(*heavy & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_a_recorder_that_was_killed_had_said_what_it_knew(file):
    path, fd = file
    writer = RecordingWriter(fd, [EVENT], early_bytes=4096)
    writer.describe(INFO, [EVENT])
    os.write(fd, SAMPLES)
    info, data, damage = read(path)
    assert data == SAMPLES
    assert info.extras == INFO.extras
    assert (info.os_release, info.events) == (INFO.os_release, (EVENT,))
    (sentence,) = damage
    assert "killed before it finished" in sentence


def test_a_finished_file_says_all_at_its_end_and_nothing_twice(file):
    path, fd = file
    writer = RecordingWriter(fd, [EVENT], early_bytes=4096)
    writer.describe(INFO._replace(extras={"early": 1}, hostname="before"), [EVENT])
    os.write(fd, SAMPLES)
    writer.finish(INFO._replace(build_ids=INFO.build_ids[:1]), [EVENT])
    info, data, damage = read(path)
    assert (data, damage) == (SAMPLES, [])
    assert (info.extras, info.hostname) == (INFO.extras, INFO.hostname)
    assert info.build_ids == INFO.build_ids[:1]


def test_what_has_no_room_before_the_records_is_left_out_the_rest_is_not(file):
    path, fd = file
    writer = RecordingWriter(fd, [EVENT], early_bytes=256)
    writer.describe(INFO, [EVENT])
    os.write(fd, SAMPLES)
    info, data, _ = read(path)
    assert data == SAMPLES
    assert info.extras == INFO.extras
    assert info.build_ids == ()


@pytest.mark.parametrize("size", [0, 8, 16, 2**32 - 1])
@pytest.mark.parametrize("entry", [b"", struct.pack("<QQ", 255, 2**64 - 1)])
def test_a_size_that_cannot_be_before_the_records_is_no_exception(file, size, entry):
    path, fd = file
    writer = RecordingWriter(fd, [EVENT], early_bytes=256)
    writer.describe(INFO, [EVENT])
    os.write(fd, SAMPLES)
    os.pwrite(fd, struct.pack("<I", size), writer.data_offset - 4)
    os.pwrite(fd, entry, writer.data_offset - 256)
    info, data, _ = read(path)
    assert data == SAMPLES
    assert info.extras == {}


def test_a_file_without_a_record_has_no_less_than_none(file):
    path, fd = file
    writer = RecordingWriter(fd, [EVENT], early_bytes=4096)
    writer.finish(INFO, [EVENT])
    info, data, damage = read(path)
    assert (info.extras, data, damage) == (INFO.extras, b"", [])
