"""Children read files that a server may hold up: what they copy, and that nobody waits for them."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from builders.elf import Section, code, elf_file
from prospect.capture.machine import served_file_copier, served_files
from prospect.capture.machine.image_copies import ImageCopies, ImageCopy
from prospect.capture.machine.mapped_file_reader import FileReader, Mounts
from prospect.capture.machine.mapping_records import MappingRecord
from prospect.capture.machine.read_files import ReadFiles
from prospect.capture.machine.served_file_copier import Asked, Outcome, take_on_rights_of
from prospect.capture.machine.served_files import ServedFiles
from prospect.elf.image import ElfImage
from prospect.files.child import Child

ID, OTHER_ID = bytes(range(1, 21)), bytes(range(2, 22))
DEBUG = Section(".debug_info", b"\1" * 0x8000)
NO_PROCESS = (1 << 22) + 1


@pytest.fixture
def served():
    with ServedFiles() as one:
        yield one


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program"
    path.write_bytes(elf_file(sections=[code(), DEBUG], build_id=ID))
    return path


def mapping(path, *, pid=None, start=0x1000):
    status = path.stat()
    file = os.major(status.st_dev), os.minor(status.st_dev), status.st_ino
    pid = os.getpid() if pid is None else pid
    return MappingRecord(file, pid, start, start + 0x1000, os.fsencode(path), time.monotonic_ns())


def asked(path, *, largest=1 << 20, known=(), **facts):
    return Asked(mapping(path, **facts), 1, 0, largest, known)


def answers(served, *files, seconds=10.0):
    """Ask for files, and return the answers: (file's name, answer, content of the copy)."""
    assert all(served.ask(*one) for one in files)
    found = []
    until = time.monotonic() + seconds
    while served.is_busy and time.monotonic() < until:
        served.start()
        select.select((served.fd,), (), (), min(0.1, (served.wait_ms() or 0) / 1000))
        for one in served.answers():
            content = os.pread(one.fd, 1 << 30, 0) if one.answer else b""
            name = Path(os.fsdecode(one.asked.mapping.path)).name
            found.append((name, one.answer, content))
    return found


def test_a_file_is_copied_and_copied_again_only_if_it_has_changed(served, program):
    status = program.stat()
    facts = (status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    ((name, answer, content),) = answers(served, asked(program))
    assert (name, answer.outcome, content) == ("program", Outcome.COPIED, program.read_bytes())
    assert (answer.size, answer.modified_ns, answer.changed_ns) == facts
    ((_, answer, content),) = answers(served, asked(program, known=facts))
    assert (answer.outcome, content) == (Outcome.UNCHANGED, b"")


def test_of_a_large_file_what_names_are_read_of_is_copied_to_its_place(served, program):
    ((_, answer, content),) = answers(served, asked(program, largest=1))
    assert (answer.outcome, len(content)) == (Outcome.COPIED, program.stat().st_size)
    image = ElfImage.parse(memoryview(content))
    assert image.build_id == ID
    assert DEBUG.data not in content


def test_what_is_no_program_has_no_content(served, program):
    program.write_bytes(b"#!/bin/sh\n")
    assert [content for _, _, content in answers(served, asked(program))] == [bytes(10)]


def test_another_file_at_the_path_or_none_is_not_read(served, program):
    gone, other = asked(program), asked(program)
    other = other._replace(mapping=other.mapping._replace(file=(*gone.device, 1)))
    named = gone._replace(mapping=gone.mapping._replace(path=b"relative"))
    found = answers(served, other, named)
    assert [answer for _, answer, _ in found] == [None, None]


@pytest.mark.parametrize("kind", [os.mkfifo, os.mkdir])
def test_what_is_no_regular_file_is_not_opened(served, tmp_path, kind):
    kind(tmp_path / "other")
    assert [answer for _, answer, _ in answers(served, asked(tmp_path / "other"))] == [None]


def test_nothing_is_read_for_a_process_that_has_ended(served, program):
    assert [answer for _, answer, _ in answers(served, asked(program, pid=NO_PROCESS))] == [None]


def test_what_a_child_has_no_room_for_is_read_by_the_next_one(served, program, monkeypatch):
    second = program.with_name("second")
    second.write_bytes(program.read_bytes())
    monkeypatch.setattr(served_file_copier, "MOST_SERVED_BYTES", program.stat().st_size)
    found = answers(served, asked(program), asked(second))
    assert [(name, len(content)) for name, _, content in found] == [
        (path.name, path.stat().st_size) for path in (program, second)
    ]
    assert len(served.pids) == 2


def held_up(*_):
    time.sleep(60)


def test_a_child_that_is_held_up_is_given_up_and_so_is_its_file_system(
    served, program, monkeypatch
):
    monkeypatch.setattr(served_files, "copy_files", held_up)
    monkeypatch.setattr(served_files, "SERVED_ANSWER_S", 0.2)
    began = time.monotonic()
    assert [answer for _, answer, _ in answers(served, asked(program))] == [None]
    assert time.monotonic() - began < 5
    assert not served.ask(*asked(program))
    assert not served.is_busy
    assert not any(Path(f"/proc/{pid}").exists() for pid in served.pids)


def test_after_some_children_that_cannot_be_killed_nothing_is_read(served, program, monkeypatch):
    left = []
    monkeypatch.setattr(served_files, "copy_files", held_up)
    monkeypatch.setattr(served_files, "SERVED_ANSWER_S", 0.1)
    monkeypatch.setattr(served_files, "MOST_LOST_CHILDREN", 2)
    with monkeypatch.context() as patched:
        patched.setattr(Child, "kill", lambda child, *_: left.append(child))
        for number in (1, 2):
            one = asked(program)
            other = one._replace(mapping=one.mapping._replace(file=(0, number, 5)))
            assert [answer for _, answer, _ in answers(served, other)] == [None]
        assert not served.ask(*asked(program))
    assert len(left) == 2
    for child in left:
        child.kill()


def test_one_child_reads_from_a_file_system_and_holds_nothing_else(served, program, monkeypatch):
    def held_up_in_proc(_pid):
        os.chdir("/proc")
        held_up()

    monkeypatch.setattr(served_file_copier, "take_on_rights_of", held_up_in_proc)
    with program.open() as other:
        for one in (asked(program), asked(program, pid=os.getppid())):
            assert served.ask(*one)
            served.start()
        (pid,) = served.pids
        held = Path(f"/proc/{pid}/fd")
        until = time.monotonic() + 5
        while Path(f"/proc/{pid}/cwd").resolve() != Path("/proc") and time.monotonic() < until:
            time.sleep(0.01)
        links = {str(link.readlink()).partition(":")[0] for link in held.iterdir()}
        assert other.name not in links
        assert links == {"/dev/null", "pipe", "/memfd"}
    served.close()
    assert not Path(f"/proc/{pid}").exists()


def test_answers_that_are_not_expected_are_dropped(served, program):
    for number, row in ((7, 0), (0, 5)):
        os.write(served._answer_fd, served_file_copier.ANSWER.pack(number, row, 2, 0, 0, 0))
    assert [len(content) for _, _, content in answers(served, asked(program))] == [
        program.stat().st_size
    ]


@pytest.fixture
def copies_fd():
    fd = os.memfd_create("copies")
    yield fd
    os.close(fd)


class _Reader:
    """A reader of mapped files to which all file systems are FUSE, of a trusted user."""

    def __init__(self, monkeypatch, served, copies_fd):
        monkeypatch.setattr(Mounts, "open_mapped", lambda *_: -1)
        monkeypatch.setattr(Mounts, "server_of", lambda *_: 0)
        self.found, self._fd = ReadFiles(), copies_fd
        self._copies = ImageCopies(copies_fd, time.time_ns())
        self._reader, self._served = FileReader(self.found, self._copies, served), served

    def look(self, *mappings):
        self._reader.look(iter(mappings))
        return self

    def wait(self):
        until = time.monotonic() + 10
        while self._served.is_busy and time.monotonic() < until:
            select.select((self._served.fd,), (), (), 0.1)
            self.look()
        return self

    def kept(self):
        """Return the copies, whatever is at the paths now, and their content."""
        rows, left_out = self._copies.finish(os.stat)
        assert not left_out
        found = [ImageCopy(*row) for row in rows]
        return [(one, os.pread(self._fd, one.size, one.at)) for one in found]


def test_a_file_is_kept_though_it_is_there_with_all_places_where_it_was_mapped(
    served, program, copies_fd, monkeypatch
):
    reader = _Reader(monkeypatch, served, copies_fd)
    reader.look(mapping(program)).look(mapping(program, start=0x5000)).wait()
    reader.look(mapping(program, start=0x9000))
    ((copy, content),) = reader.kept()
    assert (copy.build_id, copy.path, content) == (ID, os.fsencode(program), program.read_bytes())
    assert copy.modified_ns == program.stat().st_mtime_ns
    assert {start for start, _ in copy.ranges} == {0x1000, 0x5000, 0x9000}
    (row,) = reader.found.rows()
    assert (row.build_id, row.path) == (ID, os.fsencode(program))
    assert (len(served.pids), reader.found.counts().late) == (1, 0)


def test_a_file_that_is_mapped_again_later_is_looked_at_again(
    served, program, copies_fd, monkeypatch
):
    reader = _Reader(monkeypatch, served, copies_fd).look(mapping(program)).wait()
    monkeypatch.setattr("prospect.capture.machine.mapped_file_reader.SERVED_AGAIN_S", 0.0)
    reader.look(mapping(program)).wait()
    assert (len(served.pids), len(reader.kept())) == (2, 1)
    time.sleep(0.02)
    other = elf_file(sections=[code(), DEBUG], build_id=OTHER_ID)
    assert len(other) == program.stat().st_size
    program.write_bytes(other)
    reader.look(mapping(program)).wait()
    assert [copy.build_id for copy, _ in reader.kept()] == [ID, OTHER_ID]
    first, second = reader.found.rows()
    assert first.until_ns <= second.since_ns


def test_the_same_inode_at_another_path_is_another_file(served, program, copies_fd, monkeypatch):
    """The device of a file system that is unmounted is the next one's."""
    program.write_bytes(elf_file(sections=[code()]))  # without a build id
    reader = _Reader(monkeypatch, served, copies_fd)
    one = mapping(program)
    reader.look(one).wait()
    second = program.with_name("second")
    program.rename(second)
    reader.look(one._replace(path=os.fsencode(second))).wait()
    assert [copy.path for copy, _ in reader.kept()] == [*map(os.fsencode, (program, second))]


def test_a_file_that_is_not_read_is_counted_and_tried_a_few_times_at_once(
    served, program, copies_fd, monkeypatch
):
    monkeypatch.setattr("prospect.capture.machine.mapped_file_reader.MOST_SERVED_TRIES", 2)
    reader = _Reader(monkeypatch, served, copies_fd)
    for _ in range(4):
        reader.look(mapping(program, pid=NO_PROCESS)).wait()
    assert (len(served.pids), reader.found.counts().late) == (2, 4)
    assert reader.kept() == []


def test_the_end_waits_for_no_child_that_is_held_up(served, program, copies_fd, monkeypatch):
    monkeypatch.setattr(served_files, "copy_files", held_up)
    reader = _Reader(monkeypatch, served, copies_fd).look(mapping(program))
    began = time.monotonic()
    assert reader._reader.finish() == served.pids
    assert time.monotonic() - began < 2
    assert reader.found.counts().late == 1
    assert not Path(f"/proc/{served.pids[0]}").exists()


_WAITS = """
import ctypes, os, sys
os.setgroups([12346, 12347])
os.setresgid(12345, 12345, 12345)
os.setresuid(12344, 12344, 12344)
libc = ctypes.CDLL(None)
libc.prctl(4, 1)  # PR_SET_DUMPABLE: the files in /proc are its own
if "namespace" in sys.argv:
    assert not libc.unshare(0x10000000)  # CLONE_NEWUSER
    open("/proc/self/setgroups", "w").write("deny")
    open("/proc/self/uid_map", "w").write("7 12344 1")
    open("/proc/self/gid_map", "w").write("8 12345 1")
print("ready", flush=True)
sys.stdin.read()
"""
_ACTS = """
import os, sys
from prospect.capture.machine.served_file_copier import take_on_rights_of
take_on_rights_of(int(sys.argv[1]))
print(*os.getresuid(), *os.getresgid(), *sorted(os.getgroups()))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="takes on the rights of other users")
@pytest.mark.parametrize("is_in_namespace", [False, True])
def test_a_child_acts_as_the_process_that_mapped_the_file(is_in_namespace):
    words = [sys.executable, "-c", _WAITS, *["namespace"] * is_in_namespace]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True) as process:
        if process.stdout.readline() != "ready\n":
            pytest.skip("there can be no user namespace here")
        acts = [sys.executable, "-c", _ACTS, str(process.pid)]
        said = subprocess.run(acts, capture_output=True, text=True, check=True).stdout.split()
        process.stdin.close()
    users, groups = said[:6], said[6:]
    assert users == (["7"] * 3 + ["8"] * 3 if is_in_namespace else ["12344"] * 3 + ["12345"] * 3)
    assert groups == (["65534"] * 2 if is_in_namespace else ["12346", "12347"])


def test_the_rights_of_a_process_of_ours_are_our_own():
    before = os.getresuid(), os.getresgid(), os.getgroups()
    take_on_rights_of(os.getpid())
    assert (os.getresuid(), os.getresgid(), os.getgroups()) == before
