"""The snapshot of /proc, of processes that call themselves whatever they like."""

from __future__ import annotations

import struct

import pytest

from builders.perfdata import USUAL
from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr, EventDescription
from prospect.abi.recorded_facts import RecordBlock
from prospect.capture.events.event_choice import SAMPLE_TYPE
from prospect.capture.machine.process_snapshot import Snapshot, parse_stat
from prospect.events.decode import decode
from prospect.events.record_columns import TASK_FORK

USER_FLAGS = 0x400000
PF_KTHREAD = 0x00200000
PF_WQ_WORKER = 0x20


def stat_line(pid, comm, ppid=1, flags=USER_FLAGS, threads=1):
    rest = f"S {ppid} 11 12 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 {threads} 0 25 0 0"
    return b"%d (%s) %s\n" % (pid, comm, rest.encode())


@pytest.mark.parametrize(
    "comm",
    [b"sh", b"a b", b"a)b (c", b") S 1 2 3", b"line\nfeed", b"((", b"\xff\x01", b""],
)
def test_names_of_any_bytes_are_read(comm):
    stat = parse_stat(stat_line(5, comm, ppid=4, threads=3))
    assert (stat.comm, stat.ppid, stat.pgrp, stat.session) == (comm, 4, 11, 12)
    assert stat.threads == 3
    assert not stat.is_kernel_thread


@pytest.mark.parametrize(
    ("shown", "comm"),
    [
        (b"kworker/0:1-events", b"kworker/0:1"),
        (b"kworker/u8:2+flush-8:0", b"kworker/u8:2"),
        (b"kworker/R-rcu_gp", b"kworker/R-rcu_gp"),
    ],
)
def test_a_kernel_workers_name_is_without_its_present_work(shown, comm):
    stat = parse_stat(stat_line(5, shown, flags=PF_KTHREAD | PF_WQ_WORKER))
    assert stat.comm == comm
    assert stat.is_kernel_thread


@pytest.mark.parametrize("text", [b"", b"5", b"5 (sh", b"5 (sh)", b"5 (sh) S 1 2", b") 5 ("])
def test_cut_off_text_is_no_process(text):
    with pytest.raises(ValueError, match="not a /proc"):
        parse_stat(text)


MAPS = (
    b"55d0c0000000-55d0c0001000 r--p 00000000 fe:00 100                        /usr/bin/tool\n"
    b"55d0c0001000-55d0c0004000 r-xp 00001000 fe:00 100                        /usr/bin/tool\n"
    b"7f0000000000-7f0000001000 rwxp 00000000 00:00 0 \n"
    b"7f0000001000-7f0000002000 --xs 00002000 08:10 7      /tmp/a b (deleted)\n"
    b"7f0000002000-7f0000003000 r-xp 00000000 00:01 9      /memfd:x\\012y (deleted)\n"
    b"7f0000003000-7f0000004000 r-xp 00000000 00:00 0      [anon:v8 code]\n"
    b"7f0000004000-7f0000005000 rw-p 00000000 00:00 0      [heap]\n"
    b"7ffc00000000-7ffc00002000 r-xp 00000000 00:00 0                          [vdso]\n"
    b"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n"
)


def test_executable_mappings_are_named_as_the_kernels_own_records_name_them():
    maps = Snapshot().wanted_maps(MAPS)
    assert [found.name for found in maps] == [
        b"/usr/bin/tool",
        b"//anon",
        b"/tmp/a b (deleted)",
        b"/memfd:x\ny (deleted)",
        b"//anon",
        b"[vdso]",
        b"[vsyscall]",
    ]


def test_numbers_of_a_mapping_are_read():
    tool, anonymous, shared, *_ = Snapshot().wanted_maps(MAPS)
    assert tool[:8] == (0x55D0C0001000, 0x3000, 0x1000, 0xFE, 0, 100, 5, 2)
    assert (anonymous.prot, anonymous.flags) == (7, 2)
    assert (shared.prot, shared.flags, shared.major, shared.minor) == (4, 1, 8, 0x10)


@pytest.mark.parametrize("text", [b"", b"\n\n", b"nonsense", MAPS[:100], b"r-xp " * 100])
def test_damaged_maps_give_what_can_be_read(text):
    assert Snapshot().wanted_maps(text) == []


@pytest.fixture
def proc(tmp_path):
    """A /proc with a kernel thread, a program of two threads, one that is ending, and one hidden.

    Only listing order and readability are made up; the texts are the kernel's.
    """

    def add(pid, stat, maps=None):
        directory = tmp_path / str(pid)
        (directory / "task" / str(pid)).mkdir(parents=True)
        (directory / "stat").write_bytes(stat)
        if maps is not None:
            (directory / "maps").write_bytes(maps)
        return directory

    add(2, stat_line(2, b"kthreadd", ppid=0, flags=PF_KTHREAD))
    program = add(70, stat_line(70, b"a name of more than 15", threads=2), MAPS)
    (program / "task" / "71").mkdir()
    (program / "task" / "71" / "comm").write_bytes(b"worker (2)\n\n")
    add(80, b"")
    add(90, stat_line(90, b"ending"))
    (tmp_path / "self").mkdir()
    return tmp_path


def decoded(snapshot):
    data = b"".join(snapshot.portions())
    attr = EventAttr(sample_type=SAMPLE_TYPE, flags=abi.FLAG_SAMPLE_ID_ALL)
    block = RecordBlock(memoryview(data))
    damage = []
    events = decode([block], (EventDescription(attr, (1,), "cpu-clock"),), damage)
    assert damage == []
    return events


def test_snapshot_decodes_to_what_stood_in_proc(proc):
    snapshot = Snapshot(str(proc))
    events = decoded(snapshot)
    tasks = events.tasks
    names = {
        (pid, tid): events.names[name]
        for pid, tid, name in zip(
            tasks.pid.tolist(), tasks.tid.tolist(), tasks.name.tolist(), strict=True
        )
        if name >= 0
    }
    assert names == {
        (2, 2): b"kthreadd",
        (70, 70): b"a name of more ",
        (70, 71): b"worker (2)\n",
        (90, 90): b"ending",
    }
    assert set(tasks.time_ns.tolist()) == {0}
    assert set(events.mmaps.pid.tolist()) == {70}
    assert len(events.mmaps.pid) == 7
    assert events.names[events.mmaps.name[3]] == b"/memfd:x\ny (deleted)"
    assert snapshot.processes == {2: [0, 11, 12, 1], 70: [1, 11, 12, 0], 90: [1, 11, 12, 0]}
    assert snapshot.unreadable == {}


def test_births_say_that_mappings_were_not_inherited(proc):
    data = b"".join(Snapshot(str(proc)).portions())
    kind, misc, size = struct.unpack_from("<IHH", data)
    assert (kind, misc) == (abi.PERF_RECORD_FORK, abi.PERF_RECORD_MISC_FORK_EXEC)
    assert size % 8 == 0


def test_layout_is_the_builders():
    # A control group stands in samples alone.
    assert SAMPLE_TYPE & ~abi.PERF_SAMPLE_CGROUP == USUAL & ~abi.PERF_SAMPLE_PERIOD


def test_very_many_processes_come_in_portions(tmp_path):
    for pid in range(1, 101):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_bytes(stat_line(pid, b"x", flags=PF_KTHREAD))
    assert len(list(Snapshot(str(tmp_path)).portions())) > 4


def test_parents_are_born_before_their_children(tmp_path):
    for pid in (1, 5, 30):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_bytes(stat_line(pid, b"x", flags=PF_KTHREAD))
    tasks = decoded(Snapshot(str(tmp_path))).tasks
    assert tasks.pid[tasks.kind == TASK_FORK].tolist() == [1, 5, 30]
