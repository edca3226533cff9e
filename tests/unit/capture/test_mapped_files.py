"""Build ids of mapped files: which file is meant, since when it holds what it holds."""

from __future__ import annotations

import os
import random
import struct
import time
from pathlib import Path

import pytest

from builders.elf import build_id_note
from prospect.abi import constants as abi
from prospect.capture.capture_limits import MOST_MAPPED_FILES
from prospect.capture.machine import mapped_file_reader
from prospect.capture.machine.mapped_file_reader import FileReader
from prospect.capture.machine.mapped_files import (
    MappedFiles,
)
from prospect.capture.machine.mapping_records import MappingRecord
from prospect.capture.machine.read_files import ReadFile, ReadFiles
from prospect.recording.document import build_ids_by_path, describe_files

ID, OTHER_ID = bytes(range(1, 21)), bytes(range(2, 22))
NO_PROCESS = (1 << 22) + 1


def image(build_id=ID, *, is_64=True):
    """Return an ELF header and one segment of notes, as the kernel and the loader read them."""
    notes = build_id_note(b"\0" * 4).replace(b"GNU", b"Go\0")
    notes += build_id_note(build_id) if build_id else b""
    header, segment = (64, 56) if is_64 else (52, 32)
    content = bytearray(header + segment) + notes
    content[:6] = b"\x7fELF" + bytes([1 + is_64, 1])
    if is_64:
        struct.pack_into("<Q", content, 32, header)
        struct.pack_into("<HH", content, 54, segment, 1)
        struct.pack_into("<IIQQQQ", content, header, 4, 4, header + segment, 0, 0, len(notes))
    else:
        struct.pack_into("<I", content, 28, header)
        struct.pack_into("<HH", content, 42, segment, 1)
        struct.pack_into("<IIIII", content, header, 4, header + segment, 0, 0, len(notes))
    return bytes(content)


def mapping(path, time_ns=0, *, inode=None):
    status = path.stat()
    device = os.major(status.st_dev), os.minor(status.st_dev)
    file = (*device, status.st_ino if inode is None else inode)
    return MappingRecord(file, NO_PROCESS, 0x1000, 0x2000, os.fsencode(path), time_ns)


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program"
    path.write_bytes(image())
    return path


def look(*batches):
    """Return what a reader finds that meets these mappings, one batch after the other."""
    found = ReadFiles()
    reader = FileReader(found)
    for batch in batches:
        reader.look(iter(batch() if callable(batch) else batch))
    return found


def test_a_file_of_a_process_that_has_ended_is_read_at_its_path(program):
    before_ns = time.monotonic_ns()
    (row,) = look([mapping(program)]).rows()
    assert (row.build_id, row.path) == (ID, os.fsencode(program))
    assert (row.major, row.minor, row.inode) == mapping(program).file
    assert 0 < row.since_ns <= before_ns <= row.until_ns <= time.monotonic_ns()


def test_another_file_at_the_path_is_not_read(program):
    found = look([mapping(program, inode=program.stat().st_ino + 1)])
    assert (found.rows(), found.counts().late) == ([], 1)


def test_a_deleted_file_that_is_still_mapped_is_read_where_it_is_mapped(program):
    import mmap  # noqa: PLC0415 - of this test

    with program.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    one = mapping(program)
    with Path("/proc/self/maps").open("rb") as maps:
        (line,) = [line for line in maps if os.fsencode(program) in line]
    start, _, end = line.split()[0].partition(b"-")
    program.unlink()
    one = one._replace(pid=os.getpid(), start=int(start, 16), end=int(end, 16))
    (row,) = look([one]).rows()
    assert row.build_id == ID
    mapped.close()


def test_a_file_that_is_written_anew_has_a_second_version(program):
    one = mapping(program)

    def rewritten():
        time.sleep(0.02)
        program.write_bytes(image(OTHER_ID))
        os.utime(program, (1, 1))  # as `cp -p` does
        return [one]

    first, second = look([one], [one], rewritten, [one]).rows()
    assert (first.build_id, second.build_id) == (ID, OTHER_ID)
    assert first.since_ns < first.until_ns < second.since_ns <= second.until_ns


def test_a_file_of_the_same_size_whose_time_was_set_back_has_a_second_version(program):
    one, before = mapping(program), program.stat()

    def rewritten():
        program.write_bytes(image(OTHER_ID))
        os.utime(program, ns=(before.st_atime_ns, before.st_mtime_ns))
        return [one]

    assert len(image(OTHER_ID)) == before.st_size
    assert [row.build_id for row in look([one], rewritten, [one]).rows()] == [ID, OTHER_ID]


def test_a_file_that_has_another_mode_or_no_name_any_more_is_the_same_version(program):
    one = mapping(program, time.monotonic_ns())
    found = look([one], lambda: program.chmod(0o700) or [one])
    assert [row.build_id for row in found.rows()] == [ID]
    assert found.counts().late == 0


def test_a_mapping_made_before_the_file_was_written_is_counted_as_late(program):
    long_before_ns = time.monotonic_ns() - 10**9
    found = look([mapping(program, long_before_ns)])
    assert [row.build_id for row in found.rows()] == [ID]
    assert found.counts().late == 1


@pytest.mark.parametrize("content", [b"", b"#!/bin/sh\n", b"\x7fELF", image(None), image()[:70]])
def test_what_has_no_build_id_has_none(program, content):
    program.write_bytes(content)
    (row,) = look([mapping(program)]).rows()
    assert row.build_id == b""
    assert describe_files([row])["inode"] == []


def test_images_of_both_classes_are_read(program):
    program.write_bytes(image(is_64=False))
    assert [row.build_id for row in look([mapping(program)]).rows()] == [ID]


def test_damaged_images_do_not_end_the_reader(program):
    whole, draw = image(), random.Random(1)
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(draw.randint(1, 8)):
            damaged[draw.randrange(min(len(damaged), 400))] = draw.randrange(256)
        program.write_bytes(damaged)
        assert len(look([mapping(program)]).rows()) == 1


def test_a_fifo_at_the_path_is_not_opened(program, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    assert [row.build_id for row in look([mapping(fifo)]).rows()] == [b""]


def test_there_is_room_for_so_many_files_and_no_more():
    found = ReadFiles()
    row = ReadFile(8, 1, 5, 0, 1, ID, b"/bin/program")
    assert [found.add(row._replace(inode=n)) for n in range(MOST_MAPPED_FILES)] == list(
        range(MOST_MAPPED_FILES)
    )
    assert found.add(row) == -1
    assert len(found.rows()) == MOST_MAPPED_FILES


def test_a_reader_that_is_held_up_does_not_hold_the_recorder_up(monkeypatch):
    monkeypatch.setattr(mapped_file_reader, "serve", lambda *_: time.sleep(60))
    files = MappedFiles((os.getpid(),), [0])
    files.wait()
    files.look_at({}, {})
    began = time.monotonic()
    assert files.finish() == []
    assert time.monotonic() - began < 5
    assert "did not answer" in files.limits[0]
    files.close()
    assert files.reader.pid == 0


def test_perfs_table_names_only_paths_that_mean_one_file():
    row = ReadFile(8, 1, 5, 0, 1, ID, b"/bin/program")
    rows = [
        row,
        row._replace(path=b"/app", inode=6),
        row._replace(path=b"/app", inode=7, build_id=OTHER_ID),
        row._replace(path=b"/none", inode=8, build_id=b""),
        row._replace(path=b"anon_inode:x", inode=9),
    ]
    (entry,) = build_ids_by_path(rows)
    assert (entry.name, entry.build_id, entry.cpumode) == (
        b"/bin/program",
        ID,
        abi.PERF_RECORD_MISC_USER,
    )
