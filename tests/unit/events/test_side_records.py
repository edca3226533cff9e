"""Side records: mappings, tasks, losses, kernel symbols; their names, tails and time order."""

from __future__ import annotations

import struct
import tracemalloc

import numpy as np
import pytest

from builders import perfdata
from builders.perfdata import RecordBuilder
from prospect.abi.attr import EventAttr, EventDescription
from prospect.abi.recorded_facts import RecordBlock
from prospect.events import side_tables
from prospect.events.decode import decode
from prospect.events.record_columns import TASK_COMM, TASK_EXEC, TASK_EXIT, TASK_FORK

_SAMPLE_ID_ALL, _ASKS_FOR_BUILD_IDS = 1 << 18, 1 << 34
_PERF = perfdata.IP | perfdata.TID | perfdata.TIME | perfdata.ID | perfdata.CPU | perfdata.PERIOD
_KERNEL, _USER, _MMAP_DATA, _LOST_SAMPLES_BPF = 1, 2, 1 << 13, 1 << 15
_READ, _WRITE, _EXEC = 1, 2, 4
_TAILS = [perfdata.USUAL, _PERF, perfdata.TID, perfdata.TIME, 0]


def event(sample_type=perfdata.USUAL, ids=(7,), flags=_SAMPLE_ID_ALL):
    return EventDescription(EventAttr(sample_type=sample_type, flags=flags), ids)


def decoded(*parts, events=None):
    found = decode([RecordBlock(memoryview(b"".join(parts)))], events or [event()])
    assert found.damage == ()
    return found


def names(found, table):
    return [found.names[row] if row >= 0 else None for row in table.name.tolist()]


@pytest.mark.parametrize("sample_type", _TAILS)
@pytest.mark.parametrize("sample_id_all", [True, False])
@pytest.mark.parametrize("name", ["a", "/bin/sh12", "/usr/lib/libc.so.6", "[kernel.kallsyms]_text"])
def test_names_and_tails_of_every_layout(sample_type, sample_id_all, name):
    make = RecordBuilder(sample_type, sample_id_all=sample_id_all)
    parts = [
        make.mmap(5, 6, 0x1000, 0x2000, name, pgoff=0x3000, time=4),
        make.mmap2(5, 6, 0x1000, 0x2000, name, time=5),
        make.comm(5, 6, name, time=6),
        make.ksymbol(0x9000, 64, name, time=7),
    ]
    found = decoded(*parts, events=[event(sample_type, flags=_SAMPLE_ID_ALL * sample_id_all)])
    times = [4, 5, 6, 7] if sample_id_all and sample_type & perfdata.TIME else [0] * 4
    assert found.names == [name.encode()]
    assert found.mmaps.time_ns.tolist() == times[:2]
    assert found.tasks.time_ns.tolist() == times[2:3]
    assert found.kernel_symbols.time_ns.tolist() == times[3:]


@pytest.mark.parametrize("length", range(1, 70))
def test_a_name_is_never_read_as_a_tail(length):
    name = b"n" * length
    bare = RecordBuilder(sample_id_all=False)
    found = decoded(bare.comm(1, 1, name), bare.mmap2(1, 1, 0, 4096, name))
    assert found.names == [name]
    assert found.tasks.time_ns.tolist() == [0]
    assert found.mmaps.time_ns.tolist() == [0]


def test_a_tail_is_never_read_as_a_name():
    make = RecordBuilder()
    found = decoded(
        make.comm(1, 1, "", time=0x4141_4141_4141_4141, id=0x4242, cpu=0x4343),
        perfdata.record(3, bytes(8)),
    )
    assert names(found, found.tasks) == [b"", b""]


def test_a_mapping_with_its_inode():
    make = RecordBuilder()
    mapping = make.mmap2(
        5, 6, 0x7F00_0000_1000, 0x2000, "/lib/a", pgoff=0x3000, device=(8, 1), inode=1 << 40, time=9
    )
    table = decoded(mapping).mmaps
    assert table.pid.tolist() == [5]
    assert table.tid.tolist() == [6]
    assert table.start.tolist() == [0x7F00_0000_1000]
    assert table.length.tolist() == [0x2000]
    assert table.pgoff.tolist() == [0x3000]
    assert (table.major.tolist(), table.minor.tolist(), table.inode.tolist()) == (
        [8],
        [1],
        [1 << 40],
    )
    assert table.build_id.tolist() == [-1]
    assert table.prot.tolist() == [5]
    assert table.mode.tolist() == [_USER]
    assert table.time_ns.tolist() == [9]


def build_ids_of(found):
    return [found.build_ids[row] if row >= 0 else None for row in found.mmaps.build_id.tolist()]


def asking(ids=(7,)):
    return event(ids=ids, flags=_SAMPLE_ID_ALL | _ASKS_FOR_BUILD_IDS)


@pytest.mark.parametrize("size", [20, 16, 8, 1])
def test_a_mapping_with_its_build_id(size):
    build_id = bytes(range(size))
    make = RecordBuilder()
    found = decoded(
        make.mmap2(1, 1, 0, 4096, "/lib/a", build_id=build_id),
        make.mmap2(1, 1, 0, 4096, "/lib/b", build_id=build_id[::-1]),
        make.mmap2(1, 1, 0, 4096, "/lib/a", build_id=build_id),
        make.mmap2(1, 1, 0, 4096, "/lib/c", build_id=b""),
        make.mmap2(1, 1, 0, 4096, "/lib/d", inode=5),
        events=[asking()],
    )
    assert build_ids_of(found) == [build_id, build_id[::-1], build_id, None, None]
    assert found.mmaps.inode.tolist() == [0, 0, 0, 0, 5]
    assert found.mmaps.prot.tolist() == [5] * 5


def test_a_build_id_that_claims_more_bytes_than_there_are_is_cut():
    record = bytearray(RecordBuilder().mmap2(1, 1, 0, 4096, "/lib/a", build_id=b"\1" * 20))
    record[40] = 255
    assert decoded(bytes(record), events=[asking()]).build_ids == [b"\1" * 20]


_LEAKED = _USER | perfdata.MISC_MMAP_BUILD_ID
# sda1, virtio, overlayfs, md with an odd minor, a device whose major would be SHA-1's size.
_DEVICES = [(8, 1), (254, 0), (0, 35), (9, 0xFFFFF), (20, 4)]


@pytest.mark.parametrize("device", _DEVICES)
@pytest.mark.parametrize("inode", [5, 0xFFFFFFFF, (1 << 40) + 3])
def test_a_bit_that_leaked_from_an_event_that_asks_is_not_believed(device, inode):
    record = RecordBuilder().mmap2(
        1, 1, 0, 4096, "/lib/a", device=device, inode=inode, misc=_LEAKED
    )
    table = decoded(record).mmaps
    assert (table.major.tolist(), table.minor.tolist()) == ([device[0]], [device[1]])
    assert (table.inode.tolist(), table.build_id.tolist()) == ([inode], [-1])


@pytest.mark.parametrize("size", [20, 16, 8])
def test_a_build_id_that_was_written_in_afterwards_is_believed(size):
    build_id = bytes(range(0xC0, 0xC0 + size))
    found = decoded(RecordBuilder().mmap2(1, 1, 0, 4096, "/lib/a", build_id=build_id))
    assert build_ids_of(found) == [build_id]


def test_each_record_is_read_as_the_event_that_wrote_it_asks():
    make = RecordBuilder()
    small = bytes([3, 0, 0, 0, 9, 0, 0, 0])  # reads as a minor and an inode
    found = decoded(
        make.mmap2(1, 1, 0, 4096, "/lib/a", build_id=small, id=7),
        make.mmap2(1, 1, 0, 4096, "/lib/b", device=(8, 3), inode=9, misc=_LEAKED, id=8),
        make.mmap2(1, 1, 0, 4096, "/lib/c", build_id=small, id=0),
        events=[asking(), event(ids=(8,))],
    )
    assert build_ids_of(found) == [small, None, small]
    assert found.mmaps.inode.tolist() == [0, 9, 0]


def test_mappings_of_data_are_dropped():
    make = RecordBuilder()
    found = decoded(
        make.mmap(1, 1, 0, 1, "data", misc=_USER | _MMAP_DATA),
        make.mmap(1, 1, 0, 1, "code"),
        make.mmap2(1, 1, 0, 1, "data", prot=_READ | _WRITE, misc=_USER | _MMAP_DATA),
        make.mmap2(1, 1, 0, 1, "reserved", prot=0, misc=_USER | _MMAP_DATA),
        make.mmap2(1, 1, 0, 1, "base.vdex", prot=_READ, misc=_USER | _MMAP_DATA),
        make.mmap2(1, 1, 0, 1, "JIT of simpleperf", prot=0x4000),
        make.mmap2(1, 1, 0, 1, "code2", prot=_READ | _EXEC),
        make.mmap2(-1, 0, 0, 1, "[kernel.kallsyms]_text", prot=0, misc=_KERNEL),
    )
    assert names(found, found.mmaps) == [
        b"code",
        b"base.vdex",
        b"JIT of simpleperf",
        b"code2",
        b"[kernel.kallsyms]_text",
    ]
    assert found.mmaps.prot.tolist() == [_EXEC, _READ, 0x4000, 5, 0]
    assert found.mmaps.pid.tolist() == [1, 1, 1, 1, -1]
    assert found.counts == {1: 2, 10: 6}


def test_tasks_begin_end_and_change_their_names():
    make = RecordBuilder()
    found = decoded(
        make.fork(10, 1, 11, 2, time=1),
        make.comm(10, 11, "sh", time=2),
        make.comm(10, 11, "ls", is_exec=True, time=3),
        make.exit(10, 1, 11, 2, time=4),
    )
    tasks = found.tasks
    assert tasks.kind.tolist() == [TASK_FORK, TASK_COMM, TASK_EXEC, TASK_EXIT]
    assert tasks.pid.tolist() == [10] * 4
    assert tasks.tid.tolist() == [11] * 4
    assert tasks.parent_pid.tolist() == [1, -1, -1, 1]
    assert tasks.parent_tid.tolist() == [2, -1, -1, 2]
    assert names(found, tasks) == [None, b"sh", b"ls", None]
    assert tasks.time_ns.tolist() == [1, 2, 3, 4]


def test_the_time_of_fork_and_exit_is_their_own():
    make = RecordBuilder()
    fork = make.side(7, struct.pack("<iiiiQ", 5, 1, 5, 1, 100), time=999)
    bare = RecordBuilder(sample_id_all=False).exit(5, 1, time=200)
    assert decoded(fork, bare).tasks.time_ns.tolist() == [100, 200]


def test_losses_say_what_how_much_and_where():
    make = RecordBuilder()
    found = decoded(
        make.lost(7, 1000, time=1, cpu=1),
        make.lost_samples(30, time=2, id=8, cpu=2),
        make.throttle(3, 9, time=555, cpu=3),
        make.throttle(4, 9, undo=True, time=555, cpu=0),
        RecordBuilder(sample_id_all=False).lost_samples(31, misc=_LOST_SAMPLES_BPF),
    )
    losses = found.losses
    assert losses.kind.tolist() == [13, 2, 13, 5, 6]
    assert losses.count.tolist() == [0, 1000, 30, 0, 0]  # what perf's filter dropped is not lost
    assert losses.id.tolist() == [0, 7, 8, 9, 9]
    assert losses.cpu.tolist() == [-1, 1, 2, 3, 0]
    assert losses.time_ns.tolist() == [0, 1, 2, 3, 4]


def test_losses_that_perf_adds_up_at_the_end_are_not_counted_twice():
    make, without_time = RecordBuilder(), RecordBuilder(sample_id_all=False)
    kernel = make.lost(7, 1000, time=1, cpu=1), make.lost_samples(30, time=2, id=8, cpu=2)
    losses = decoded(*kernel, without_time.lost_samples(400)).losses
    assert losses.kind.tolist() == [13, 2, 13]
    assert losses.count.tolist() == [400, 0, 30]


def test_kernel_symbols_come_and_go():
    make = RecordBuilder()
    found = decoded(
        make.ksymbol(0xFFFF_FFFF_C000_0000, 0xFFFF_FFFF, "bpf_prog_1", time=1),
        make.ksymbol(0xFFFF_FFFF_C000_0000, 80, "bpf_prog_1", kind=2, flags=1, time=2),
    )
    table = found.kernel_symbols
    assert table.address.tolist() == [0xFFFF_FFFF_C000_0000] * 2
    assert table.length.tolist() == [0xFFFF_FFFF, 80]
    assert table.kind.tolist() == [1, 2]
    assert table.unregister.tolist() == [False, True]
    assert names(found, table) == [b"bpf_prog_1"] * 2


def test_tables_are_in_time_order_and_can_be_merged_again():
    make = RecordBuilder()
    found = decoded(
        make.comm(1, 1, "late", time=30),
        make.mmap2(1, 1, 0, 1, "first of ten", time=10),
        make.comm(2, 2, "second of ten", time=10),
        make.mmap2(1, 1, 0, 1, "third of ten", time=10),
        make.mmap2(1, 1, 0, 1, "data", time=10, prot=_READ | _WRITE),
        make.ksymbol(1, 1, "middle", time=20),
        make.comm(3, 3, "synthesised", time=0),
    )
    side_tables = (found.mmaps, found.tasks, found.kernel_symbols)
    for table in side_tables:
        assert np.array_equal(table.time_ns, np.sort(table.time_ns))
    order = np.concatenate([table.order for table in side_tables])
    merged = [name for table in side_tables for name in names(found, table)]
    assert [merged[row] for row in np.argsort(order)] == [
        b"synthesised",
        b"first of ten",
        b"second of ten",
        b"third of ten",
        b"middle",
        b"late",
    ]
    assert len(set(order.tolist())) == len(order)


def test_tails_of_different_sample_types_are_told_apart_by_their_id():
    short = perfdata.IDENTIFIER | perfdata.TIME
    long = perfdata.USUAL | perfdata.STREAM_ID
    events = [event(short, (7,)), event(long, (8,))]
    a, b = RecordBuilder(short), RecordBuilder(long)
    found = decoded(
        a.comm(1, 1, "of the first", time=11, id=7),
        b.comm(2, 2, "of the second", time=22, id=8, cpu=3),
        b.lost(8, 5, time=33, id=8, cpu=3),
        a.lost(7, 6, time=44, id=7),
        a.comm(3, 3, "synthesised"),
        events=events,
    )
    assert names(found, found.tasks) == [b"synthesised", b"of the first", b"of the second"]
    assert found.tasks.time_ns.tolist() == [0, 11, 22]
    assert found.losses.time_ns.tolist() == [33, 44]
    assert found.losses.cpu.tolist() == [3, -1]


@pytest.mark.parametrize("type_", [1, 2, 3, 4, 5, 6, 7, 10, 13, 17])
def test_records_shorter_than_their_type_are_left_out_and_named(type_):
    found = decode([RecordBlock(memoryview(perfdata.record(type_)))], [event()])
    assert found.damage == ("records left out, shorter than their type's fields: 1",)
    assert found.counts == {type_: 1}
    side_tables = (found.mmaps, found.tasks, found.losses, found.kernel_symbols)
    assert [len(table.time_ns) for table in side_tables] == [0] * 4


def test_names_that_repeat_are_kept_once():
    make = RecordBuilder()
    parts = [make.mmap2(row, row, 0, 1, f"/lib/{row % 3}", time=row) for row in range(30)]
    parts += [make.comm(row, row, f"/lib/{row % 3}", time=row) for row in range(30)]
    found = decoded(*parts)
    assert sorted(found.names) == [b"/lib/0", b"/lib/1", b"/lib/2"]
    assert names(found, found.mmaps) == [b"/lib/%d" % (row % 3) for row in range(30)]


def test_a_tail_of_no_known_event_is_laid_out_as_the_firsts():
    first = perfdata.IDENTIFIER | perfdata.TIME
    last = perfdata.USUAL | perfdata.STREAM_ID
    events = [event(first, (7,)), event(last, (8,))]
    found = decoded(RecordBuilder(first).comm(1, 1, "name", time=5, id=99), events=events)
    assert found.tasks.time_ns.tolist() == [5]


def mixed_records():
    make, bare = RecordBuilder(), RecordBuilder(sample_id_all=False)
    for row in range(40):
        name = "/lib/" + "x" * (row % 23)
        yield make.mmap2(5, 6, 0x1000 * row, 0x1000, name, prot=_EXEC, time=100 - row)
        yield make.mmap2(5, 6, 0x1000 * row, 0x1000, "heap", prot=_READ | _WRITE, time=row)
        yield bare.comm(5, 6, "n" * (row % 16))
        yield make.comm(5, 6, f"task{row % 7}", time=row)
        yield make.ksymbol(0x9000, 64, f"bpf{row % 3}", time=row)
        yield make.fork(5, 4, 5, 4, time=50 + row)


def test_records_that_are_packed_one_by_one_say_the_same(monkeypatch):
    whole = decoded(*mixed_records())
    monkeypatch.setattr(side_tables, "_PACKED_WORDS", 0)
    blocks = [RecordBlock(memoryview(one)) for one in mixed_records()]
    found = decode(blocks, [event()])
    assert found.names == whole.names
    for table in ("mmaps", "tasks", "kernel_symbols"):
        one, other = getattr(found, table), getattr(whole, table)
        for column in ("order", "name", "time_ns"):
            assert getattr(one, column).tolist() == getattr(other, column).tolist(), column
    assert found.mmaps.start.tolist() == whole.mmaps.start.tolist()


def test_long_names_take_memory_once_each(monkeypatch):
    make = RecordBuilder()
    flood = [make.mmap2(5, 6, 0x1000, 0x1000, "/" + "x" * 4000, time=1)] * 1000
    monkeypatch.setattr(side_tables, "_PACKED_WORDS", 1 << 16)
    blocks = [RecordBlock(memoryview(b"".join(flood))) for _ in range(20)]
    tracemalloc.start()
    found = decode(blocks, [event()])
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found.mmaps.start) == 20_000
    assert peak_bytes < 40_000_000  # of 80 MB


def test_names_beyond_what_they_may_take_are_left_out_and_counted(monkeypatch):
    make = RecordBuilder()
    monkeypatch.setattr(side_tables, "MOST_NAME_BYTES", 10)
    records = [make.comm(5, 6, name, time=1) for name in ("first", "second", "last", "first")]
    found = decode([RecordBlock(memoryview(b"".join(records)))], [event()])
    assert names(found, found.tasks) == [b"first", b"//toolong", b"last", b"first"]
    (sentence,) = found.damage
    assert "names left out" in sentence
    assert sentence.endswith(": 1")
