"""Which processes' whole memory maps are read, and when."""

from __future__ import annotations

import os
import random
import resource
from pathlib import Path

import pytest

from builders.command_line import running
from prospect.assembly.tables.process_table import WholeMaps
from prospect.capture.machine import map_reader
from prospect.capture.machine.map_reader import MapReader
from prospect.capture.machine.mapped_files import documents_in

NOW, NEVER = 0, (1 << 64) - 1
LINE = b"%x-%x rw-p 00000000 00:00 0  [heap]\n"


@pytest.fixture
def clock(monkeypatch):
    """Time that stands still until it is moved."""

    class Clock:
        now_ns = 10**9
        spent_ns = 0

    monkeypatch.setattr(map_reader, "monotonic_ns", lambda: Clock.now_ns)
    monkeypatch.setattr(map_reader.time, "thread_time_ns", lambda: Clock.spent_ns)
    return Clock


@pytest.fixture
def process(tmp_path, monkeypatch):
    """Write what /proc says of a process, which has a mapping of 4 KiB for each of its ticks."""
    alive = set()

    def kill(pid, _signal):
        if pid not in alive:
            raise ProcessLookupError

    monkeypatch.setattr(map_reader.os, "kill", kill)

    def write(pid, ticks, text=None, *, parent=1):
        alive.add(pid)
        (tmp_path / str(pid)).mkdir(exist_ok=True)
        fields = [
            "S",
            str(parent),
            "1",
            "1",
            "0",
            "0",
            "0",
            "0",
            "0",
            "0",
            "0",
            str(ticks),
            *"000000",
        ]
        (tmp_path / f"{pid}/stat").write_text(f"{pid} (name) {' '.join(fields)}\n")
        told = LINE % (0x1000, 0x1000 + 0x1000 * ticks) if text is None else text
        (tmp_path / f"{pid}/maps").write_bytes(told)

    write.proc = str(tmp_path)
    write.gone = alive.discard
    return write


def kept(reader):
    """Return {pid: KiB of its map} of what a report finds."""
    fd = os.memfd_create("maps")
    reader.finish(fd)
    document = documents_in(fd).get("memory_maps", {})
    os.close(fd)
    maps = WholeMaps({"memory_maps": document})
    found = {pid: maps.of(pid, NOW, NEVER) for pid in document.get("pid", ())}
    return {pid: one.mapped_bytes // 1024 if one else 0 for pid, one in found.items()}


def looks(reader, clock, *after_ms):
    for ms in after_ms:
        clock.now_ns = 10**9 + ms * 10**6
        reader.look()


def test_a_map_is_read_20_ms_after_code_was_mapped_if_the_cpu_was_used(clock, process):
    process(7, 1)
    process(8, 0)
    reader = MapReader(-1, process.proc)
    reader.see([7, 8])
    assert reader.wait_ms() == 21
    looks(reader, clock, 19)
    process.gone(7)
    process.gone(8)
    (gone,) = [MapReader(-1, process.proc)]
    assert kept(gone) == {}
    process(7, 1)
    looks(reader, clock, 20)
    assert kept(reader) == {7: 4}


def test_the_map_of_command_is_read_at_once_and_used_cpu_or_not(clock, process):
    process(7, 0, LINE % (0, 0x2000))
    reader = MapReader(7, process.proc)
    reader.see([7])
    looks(reader, clock, 0)
    assert kept(reader) == {7: 8}


def test_a_process_is_looked_at_again_when_it_is_twice_as_old_and_has_used_as_much_again(
    clock, process
):
    process(7, 2)
    reader = MapReader(-1, process.proc)
    reader.see([7])
    looks(reader, clock, 20)
    process(7, 3)
    looks(reader, clock, 40)
    assert reader._texts[7][1] == LINE % (0x1000, 0x3000)
    process(7, 4)
    looks(reader, clock, 79)
    assert reader._texts[7][1] == LINE % (0x1000, 0x3000)
    looks(reader, clock, 80)
    assert reader._texts[7][1] == LINE % (0x1000, 0x5000)


def test_what_has_ended_is_forgotten_and_its_map_kept(clock, process):
    process(7, 1)
    reader = MapReader(-1, process.proc)
    reader.see([7])
    looks(reader, clock, 20)
    process.gone(7)
    looks(reader, clock, 40)
    assert reader.wait_ms() is None
    assert kept(reader) == {7: 4}


def test_children_that_map_nothing_are_followed_and_theirs(clock, process, tmp_path):
    for pid, children in ((7, "8 9 "), (8, "10 "), (9, ""), (10, "")):
        process(pid, 0 if pid == 9 else 1)
        (tmp_path / f"{pid}/task/{pid}").mkdir(parents=True)
        (tmp_path / f"{pid}/task/{pid}/children").write_text(children)
    reader = MapReader(-1, process.proc)
    reader.see([7])
    looks(reader, clock, 20, 40)
    assert set(reader._texts) == {7, 8}
    looks(reader, clock, 60)
    assert kept(reader) == {7: 4, 8: 4, 10: 4}


def test_what_ran_before_is_read_at_the_end_where_it_used_the_cpu_meanwhile(clock, process):
    for pid in (6, 7, 8):
        process(pid, 5)
    reader = MapReader(-1, process.proc)
    reader.see_before({6: 5, 7: 4, 8: 3, 9: 1})
    assert reader.wait_ms() is None
    assert kept(reader) == {8: 20}


def test_beside_command_only_what_it_started_is_watched(clock, process):
    for pid, parent in ((5, 2), (6, 5), (7, 6), (8, 2), (9, 8), (10, 8)):
        process(pid, 1, parent=parent)
    reader = MapReader(5, process.proc)
    reader.see([5])
    looks(reader, clock, 0)
    reader.see([7, 9, 10])  # 6 has only forked
    looks(reader, clock, 20)
    assert set(reader._texts) == {5, 7}
    assert set(reader._watched) == {5, 7}


def test_looks_that_cost_too_much_wait_and_those_at_command_do_not(clock, process):
    process(5, 1)
    process(7, 1, parent=5)
    reader = MapReader(5, process.proc)
    reader.see([7])
    reader._spent_ns = 10**8
    clock.now_ns += 20 * 10**6
    reader.see([5])
    reader.look()
    assert set(reader._texts) == {5}
    assert reader.wait_ms() >= 20
    clock.now_ns += 300 * 10**9
    reader.look()
    assert set(reader._texts) == {5, 7}


def test_large_maps_and_too_many_of_them_are_not_kept(clock, process, monkeypatch):
    monkeypatch.setattr(map_reader, "MOST_MAP_BYTES", 2 * len(LINE))
    monkeypatch.setattr(map_reader, "MOST_PACKED_BYTES", 100)
    process(7, 1, LINE * 3)
    for pid in (8, 9, 10):
        process(pid, 1)
    reader = MapReader(-1, process.proc)
    reader.see([7, 8, 9, 10])
    looks(reader, clock, 20)
    assert kept(reader) == {8: 4, 9: 4}


def test_a_storm_of_processes_is_not_followed_without_bounds(process):
    reader = MapReader(-1, process.proc)
    reader.see(range(1, 10**5))
    assert len(reader._watched) == len(reader._due) == 4096


def test_the_map_of_a_real_process_is_the_one_that_the_kernel_shows():
    reader = MapReader(os.getpid())
    with running(["sleep", "60"]) as child:
        reader.see([os.getpid(), child.pid])
        reader.look()
        fd = os.memfd_create("maps")
        reader.finish(fd)
    found = WholeMaps(documents_in(fd)).of(os.getpid(), NOW, NEVER)
    os.close(fd)
    assert found
    assert {"[heap]", "[stack]"} <= set(found.path)
    assert found.permissions[found.path.index("[stack]")] == "rw-"


def test_where_files_may_not_grow_so_large_there_are_no_maps_rather_than_a_part(process):
    process(7, 0, LINE % (0, 0x2000) + random.Random(1).randbytes(40_000))
    reader = MapReader(7, process.proc)
    reader.see([7])
    reader.look()
    fd, before = os.memfd_create("maps"), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16384, before[1]))
    try:
        reader.finish(fd)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert documents_in(fd) == {}
    reader.finish(fd)
    assert documents_in(fd)["memory_maps"]["pid"] == [7]
    os.close(fd)


def test_the_group_and_session_are_those_of_the_last_look(clock, process):
    process(7, 1)
    reader = MapReader(-1, process.proc)
    reader.see([7])
    looks(reader, clock, 20)
    stat = Path(process.proc) / "7/stat"
    stat.write_text(stat.read_text().replace("S 1 1 1", "S 1 7 6"))
    looks(reader, clock, 45)
    process.gone(7)
    stat.unlink()
    fd = os.memfd_create("maps")
    reader.finish(fd)
    assert documents_in(fd)["groups"] == {7: (7, 6, clock.now_ns)}
    os.close(fd)
