"""One user's files and mappings take nothing of what the watcher has for others."""

from __future__ import annotations

import marshal
import os
import time

import pytest

from prospect.abi import cpython
from prospect.capture.machine.mapping_records import MappingRecord
from prospect.capture.runtimes import image_reader, users
from prospect.capture.runtimes.elf_lookup import Segment
from prospect.capture.runtimes.image_reader import Answer, ImageReader
from prospect.capture.runtimes.runtime import Image, Unknown
from prospect.capture.runtimes.users import Users, user_of

STRANGER, OTHER = 23001, 23002
DEVICE = (0, 40)


@pytest.fixture
def clock(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(users.time, "monotonic", lambda: now[0])
    return now


def test_a_user_whose_files_took_long_has_none_read_for_a_while(clock):
    some = Users()
    some.has_read(STRANGER, 0.5)
    assert not some.may_read(STRANGER, DEVICE)
    assert some.may_read(OTHER, DEVICE)
    clock[0] += 60
    assert some.may_read(STRANGER, DEVICE)


def test_a_user_who_maps_all_the_time_is_looked_at_so_often_and_no_more(clock):
    some = Users()
    looked = sum(some.may_look(STRANGER) for _ in range(100_000))
    assert looked == users._MAPPINGS - 1
    assert some.may_look(OTHER)
    clock[0] += 1
    assert some.may_look(STRANGER)


def test_a_device_that_did_not_answer_is_left_alone_and_then_its_user(clock):
    some = Users()
    for minor in range(users.MOST_HELD_UP):
        assert some.may_read(STRANGER, (0, minor))
        for uid in (STRANGER, 0):
            some.was_held_up(uid, (0, minor))
            assert not some.may_read(uid, (0, minor))
    assert not some.may_read(STRANGER, DEVICE)
    assert some.may_read(0, DEVICE)
    assert some.may_read(OTHER, (0, 0))
    clock[0] += users.HELD_UP_S + 1
    assert some.may_read(STRANGER, (0, 0))


def test_a_process_is_its_real_users():
    assert user_of(os.getpid()) == os.getuid()
    assert user_of(1 << 30) == users._NOBODY


def mapping(path):
    status = path.stat()
    device = os.major(status.st_dev), os.minor(status.st_dev)
    name = os.fsencode(path)
    return MappingRecord((*device, status.st_ino), os.getpid(), 0, 4096, name, 0, 0)


@pytest.fixture
def reader():
    pids = []
    with ImageReader(pids.append) as found:
        found.pids = pids
        yield found


def test_a_file_system_that_does_not_answer_holds_nobody_up(tmp_path, reader, monkeypatch):
    files = [tmp_path / "python3.11", tmp_path / "python3.12"]
    for path in files:
        path.write_bytes(b"x")
    monkeypatch.setattr(image_reader, "FILE_ANSWER_S", 0.2)
    monkeypatch.setattr(image_reader, "read_image", lambda _, name: time.sleep(9 * (b"11" in name)))
    begun = time.monotonic()
    assert reader.read(mapping(files[0]), STRANGER).is_held_up
    assert time.monotonic() - begun < 2
    monkeypatch.setattr(image_reader, "FILE_ANSWER_S", 5)
    assert reader.read(mapping(files[1]), OTHER)[0] is None
    assert not reader.read(mapping(files[1]), OTHER).is_held_up
    assert len(reader.pids) == 2
    assert os.getpriority(os.PRIO_PROCESS, reader.pids[1]) >= 0


def test_a_file_is_read_once_by_user_and_again_when_it_has_changed(tmp_path, monkeypatch):
    path, read = tmp_path / "python3.11", []
    path.write_bytes(b"x")
    monkeypatch.setattr(image_reader, "read_image", lambda _, name: read.append(name))
    files = image_reader._Files()
    for _ in range(3):
        assert files.read(mapping(path), STRANGER) == Answer()
    assert len(read) == 1
    files.read(mapping(path), OTHER)
    assert len(read) == 2
    before = path.stat()
    path.write_bytes(b"y")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    files.read(mapping(path), STRANGER)
    assert len(read) == 3


def test_nobody_empties_what_is_known_of_others_files(tmp_path, monkeypatch):
    read = []
    monkeypatch.setattr(image_reader, "read_image", lambda _, name: read.append(name))
    files = image_reader._Files()
    mine = tmp_path / "python3"
    mine.write_bytes(b"x")
    files.read(mapping(mine), OTHER)
    for number in range(image_reader.MOST_USER_FILES + 8):
        path = tmp_path / f"python3.{number}"
        path.write_bytes(b"x")
        files.read(mapping(path), STRANGER)
    known = len(read)
    files.read(mapping(mine), OTHER)
    assert len(read) == known
    assert len(files._known[STRANGER]) == image_reader.MOST_USER_FILES


@pytest.mark.parametrize("words", [(), (1, cpython.NO_OFFSET)])
def test_what_a_reader_found_is_what_it_answers(words):
    segments = (Segment(0, 4096, 100, True), Segment(4096, 8192, 5, False))
    image = Image(0, 0x30B, 9, (7, 8), words, (1, 2), (3, 4), False, segments)
    for found in (image, Unknown(0, 0x310), None):
        sent = marshal.loads(marshal.dumps(image_reader._as_plain(found)))
        assert image_reader._from_plain(sent) == found
        assert type(image_reader._from_plain(sent)) is type(found)
