"""Copies of mapped files: which are made, of which bytes, and within which bounds."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from builders.elf import Section, code, elf_file
from prospect.capture.machine import image_copies
from prospect.capture.machine.image_copies import ImageCopies, ImageCopy, pieces_of
from prospect.capture.machine.mapping_records import MappingRecord
from prospect.elf.image import ElfImage

ID = bytes(range(1, 21))
DEBUG = Section(".debug_info", b"\1" * 0x8000)


@pytest.fixture
def copies_fd():
    fd = os.memfd_create("copies")
    yield fd
    os.close(fd)


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program"
    path.write_bytes(elf_file(sections=[code(), DEBUG], build_id=ID))
    return path


def mapping(path, *, pid=None, time_ns=1, start=0x1000):
    status = path.stat()
    device = os.major(status.st_dev), os.minor(status.st_dev)
    pid = os.getpid() if pid is None else pid
    file = (*device, status.st_ino)
    return MappingRecord(file, pid, start, start + 0x1000, os.fsencode(path), time_ns)


def consider(copies, path, one=None, *, is_new=True):
    fd = os.open(path, os.O_PATH)
    try:
        copies.consider(one or mapping(path), fd, ID, is_new=is_new)
    finally:
        os.close(fd)


def found(copies, status_at=lambda _: None):
    rows, left_out = copies.finish(status_at)
    return [ImageCopy(*row) for row in rows], left_out


def test_a_temporary_file_is_copied_once_with_each_place_where_it_is_mapped(copies_fd, program):
    copies = ImageCopies(copies_fd, time.time_ns())
    consider(copies, program)
    consider(copies, program, is_new=False)
    copies.see([mapping(program), mapping(program, start=0x5000)])
    ((copy,), left_out) = found(copies, os.stat)
    assert (left_out, copy.build_id, copy.path) == (0, ID, os.fsencode(program))
    assert copy.ranges == [(0x1000, 0x2000), (0x5000, 0x6000)]
    assert os.pread(copies_fd, 1 << 20, copy.at) == program.read_bytes()


def test_a_usual_file_is_not_copied(copies_fd):
    usual = Path("/usr/bin/env").resolve()
    copies = ImageCopies(copies_fd, time.time_ns())
    consider(copies, usual)
    assert found(copies, os.stat) == ([], 0)
    assert os.fstat(copies_fd).st_size == 0


def test_what_was_mapped_before_is_copied_of_processes_that_were_attached_to(copies_fd, program):
    others, attached = (
        ImageCopies(copies_fd, time.time_ns()),
        ImageCopies(copies_fd, 0, (os.getpid(),)),
    )
    for copies, count in ((others, 0), (attached, 1)):
        consider(copies, program, mapping(program, time_ns=0))
        assert len(found(copies)[0]) == count
    consider(others, program, is_new=False)  # now it is mapped meanwhile
    assert len(found(others)[0]) == 1


def test_a_file_made_meanwhile_is_dropped_if_it_is_still_there(copies_fd, program, monkeypatch):
    monkeypatch.setattr(image_copies, "_TEMPORARY", ())
    monkeypatch.delenv("TMPDIR", raising=False)
    copies = ImageCopies(copies_fd, time.time_ns() + 20_000_000)
    consider(copies, program)
    assert found(copies, os.stat) == ([], 0)
    copies = ImageCopies(copies_fd, time.time_ns())
    program.write_bytes(elf_file(sections=[code()], build_id=ID))
    consider(copies, program)
    assert found(copies, os.stat) == ([], 0)
    program.write_bytes(b"another")
    assert len(found(copies, os.stat)[0]) == 1


@pytest.fixture
def installed(program, monkeypatch):
    """A program that is older than the recording, and not in a directory for temporary files."""
    monkeypatch.setattr(image_copies, "_TEMPORARY", ())
    monkeypatch.setattr(image_copies, "_LASTING", (program.parent,))
    monkeypatch.setattr(image_copies, "_PASSING_TYPES", frozenset())
    monkeypatch.delenv("TMPDIR", raising=False)
    return program


def later():
    """Return a time after that of all files."""
    return time.time_ns() + 20_000_000


@pytest.mark.parametrize("is_seen", [False, True])
def test_an_installed_file_is_copied_only_if_it_is_removed(
    copies_fd, installed, monkeypatch, is_seen
):
    monkeypatch.setattr(image_copies, "HELD_LOOK_S", 0.0)
    content, one = installed.read_bytes(), mapping(installed)
    copies = ImageCopies(copies_fd, later())
    consider(copies, installed)
    assert os.fstat(copies_fd).st_size == 0
    installed.unlink()
    if is_seen:  # it takes no space on the disk any more
        copies.see([one])
        assert os.fstat(copies_fd).st_size == len(content)
    ((copy,), left_out) = found(copies)
    assert (left_out, copy.build_id, copy.ranges) == (0, ID, [(0x1000, 0x2000)])
    assert os.pread(copies_fd, 1 << 20, copy.at) == content


def test_an_installed_file_is_copied_if_another_one_is_in_its_place(copies_fd, installed):
    content = installed.read_bytes()
    copies = ImageCopies(copies_fd, later())
    consider(copies, installed)
    other = installed.with_name("other")
    other.write_bytes(b"another")
    other.rename(installed)
    ((copy,), left_out) = found(copies, os.stat)
    assert (left_out, os.pread(copies_fd, 1 << 20, copy.at)) == (0, content)


def test_an_installed_file_that_was_written_to_is_not_taken_for_what_was_mapped(
    copies_fd, installed
):
    copies = ImageCopies(copies_fd, later())
    consider(copies, installed)
    installed.write_bytes(b"another")
    assert found(copies, os.stat) == ([], 0)


@pytest.mark.parametrize("bound", ["MOST_HELD_FILES", "MOST_UNLIKELY_BYTES"])
def test_installed_files_without_room_are_counted_if_they_are_gone(
    copies_fd, installed, monkeypatch, bound
):
    monkeypatch.setattr(image_copies, bound, 0)
    if bound == "MOST_UNLIKELY_BYTES":
        monkeypatch.setattr(image_copies, "_LASTING", ())
    copies = ImageCopies(copies_fd, later())
    consider(copies, installed)
    assert found(copies, os.stat) == ([], 0)
    assert found(copies) == ([], 1)


def test_a_file_on_a_disk_that_can_be_unmounted_is_copied_and_not_held_open(
    copies_fd, installed, monkeypatch
):
    monkeypatch.setattr(image_copies, "_LASTING", ())
    copies = ImageCopies(copies_fd, later())
    before = len(list(Path("/proc/self/fd").iterdir()))
    consider(copies, installed)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert found(copies, os.stat) == ([], 0)
    assert len(found(copies)[0]) == 1


def test_files_beyond_the_bounds_are_left_out_and_counted(copies_fd, program, monkeypatch):
    size = program.stat().st_size
    monkeypatch.setattr(image_copies, "MOST_COPIED_BYTES", 2 * size - 1)
    copies = ImageCopies(copies_fd, time.time_ns())
    consider(copies, program)
    second = program.with_name("second")
    second.write_bytes(program.read_bytes())
    consider(copies, second)
    copied, left_out = found(copies)
    assert (len(copied), left_out) == (1, 1)
    assert os.fstat(copies_fd).st_size == size


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file to another user")
def test_files_of_other_users_leave_room_for_ours(copies_fd, program, monkeypatch):
    monkeypatch.setattr(image_copies, "MOST_OTHERS_BYTES", 0)
    copies = ImageCopies(copies_fd, time.time_ns())
    os.chown(program, 12345, 12345)
    consider(copies, program)
    assert found(copies) == ([], 1)


def test_of_a_large_file_what_names_are_read_of_is_copied(program):
    content = program.read_bytes()
    with program.open("rb") as file:
        pieces = pieces_of(file.fileno(), len(content), 1)
    left_out = bytearray(content)
    for offset, length in pieces:
        left_out[offset : offset + length] = bytes(length)
    assert left_out.count(b"\1" * 0x8000) == 1  # the debug information
    kept = bytearray(len(content))
    for offset, length in pieces:
        kept[offset : offset + length] = content[offset : offset + length]
    image = ElfImage.parse(memoryview(bytes(kept)))
    assert image.build_id == ID
    assert image.find_section(b".debug_info") >= 0


@pytest.mark.parametrize("content", [b"", b"#!/bin/sh\n", b"\x7fELF" + b"\xff" * 100])
def test_what_is_no_program_is_not_copied_or_whole(tmp_path, content):
    path = tmp_path / "file"
    path.write_bytes(content)
    with path.open("rb") as file:
        pieces = pieces_of(file.fileno(), len(content), 1 << 20)
        assert pieces == ([(0, len(content))] if content[:4] == b"\x7fELF" else [])
        for largest in (1, 50):  # damaged tables end nothing
            assert sum(
                length for _, length in pieces_of(file.fileno(), len(content), largest)
            ) <= len(content)


def test_files_of_the_family_alone_are_copied(copies_fd, program):
    of_parent = ImageCopies(copies_fd, time.time_ns(), family=(os.getppid(),))
    of_strangers = ImageCopies(copies_fd, time.time_ns(), family=((1 << 22) + 1,))
    for copies, count in ((of_parent, 1), (of_strangers, 0)):
        consider(copies, program)
        assert len(found(copies)[0]) == count
