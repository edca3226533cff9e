"""A process whose main thread has ended keeps its mappings, its files and its key."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from builders.ended_main_thread import process_without_main_thread
from prospect.capture.kernel.procfs import living_thread, read_maps
from prospect.capture.machine.mapped_file_reader import Mounts
from prospect.capture.machine.mapping_records import MappingRecord
from prospect.capture.machine.process_snapshot import Snapshot
from prospect.capture.machine.runtime_processes import process_key
from prospect.symbols.live_process import live_process, mapped_file_links


@pytest.fixture(scope="module")
def pid():
    with process_without_main_thread() as pid:
        yield pid


def test_a_thread_that_lives_answers_for_it(pid):
    thread = living_thread(pid)
    assert thread != pid
    assert Path(f"/proc/{thread}/exe").readlink()
    assert b" [stack]\n" in read_maps(pid)
    assert living_thread(os.getpid()) == os.getpid()
    with pytest.raises(OSError, match="No such"):
        read_maps(2**22 + 1)


def test_its_mappings_are_recorded(pid):
    snapshot = Snapshot(only=(pid,))
    records = b"".join(snapshot.portions())
    assert any(path.name.startswith(b"/") for _, path in snapshot.files.values())
    assert b"libc.so" in records


@pytest.mark.skipif(os.geteuid() != 0, reason="links to mapped files need privilege")
def test_a_mapped_file_is_opened_by_its_mapping(pid, tmp_path):
    snapshot = Snapshot(only=(pid,))
    list(snapshot.portions())
    file, (_, path) = next(iter(snapshot.files.items()))
    elsewhere = os.fsencode(tmp_path / "gone")  # a deleted file has no path that leads to it
    mapping = MappingRecord(
        file=file,
        pid=pid,
        start=path.start,
        end=path.start + path.length,
        path=elsewhere,
        time_ns=0,
        offset=path.pgoff,
    )
    fd = Mounts().open_mapped(mapping)
    assert os.fstat(fd).st_ino == file[2]
    os.close(fd)


def test_its_key_is_that_of_its_memory(pid):
    assert process_key(pid) == process_key(living_thread(pid))
    assert any(process_key(pid))


def test_its_files_are_found_through_the_thread(pid):
    process = live_process(pid, 0.0)
    assert process.pid == living_thread(pid)
    assert process.own_pid == pid
    assert not process.has_other_root
    program = str(Path(f"/proc/{process.pid}/exe").readlink())
    links = list(mapped_file_links(process, os.fsencode(program)))
    assert links[0] == b"/proc/%d/exe" % process.pid
    assert len(links) == 2
    assert Path(os.fsdecode(links[0])).samefile(program)
