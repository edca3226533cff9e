"""Who came and went unsampled between two looks is left out, and nobody else."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest

from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr, EventDescription
from prospect.abi.recorded_facts import RecordBlock
from prospect.capture.machine.synthesis import Map, user_map_record
from prospect.events.decode import decode
from prospect.events.sample_schema import schema_of
from prospect.live.record_limiters import ShortLivesLimiter
from prospect.live.source import Drained
from prospect.live.tasks import LiveTasks

_TIMES = abi.PERF_SAMPLE_IDENTIFIER | abi.PERF_SAMPLE_TID | abi.PERF_SAMPLE_TIME
# The second event's samples have no address, as those of Python's frames have none.
EVENTS = [
    EventDescription(EventAttr(sample_type=kinds, flags=abi.FLAG_SAMPLE_ID_ALL), (id_,))
    for kinds, id_ in ((_TIMES | abi.PERF_SAMPLE_IP, 7), (_TIMES, 8))
]
NEVER = 1 << 62


def record(type_, body, pid, time_ns, misc=0):
    tail = struct.pack("<IIQQ", pid, pid, time_ns, 7)
    return struct.pack("<IHH", type_, misc, 8 + len(body) + len(tail)) + body + tail


def task(type_, pid, parent, tid, time_ns):
    body = struct.pack("<IIIIQ", pid, parent, tid, parent, time_ns)
    return record(type_, body, parent, time_ns)


def forked(pid, parent, time_ns, tid=0):
    return task(abi.PERF_RECORD_FORK, pid, parent, tid or pid, time_ns)


def ended(pid, time_ns, tid=0):
    return task(abi.PERF_RECORD_EXIT, pid, 1, tid or pid, time_ns)


def executed(pid, name, time_ns):
    body = struct.pack("<II16s", pid, pid, name)
    return record(abi.PERF_RECORD_COMM, body, pid, time_ns, abi.PERF_RECORD_MISC_COMM_EXEC)


def mapped(pid, start, time_ns):
    written = user_map_record(pid, Map(start, 4096, 0, 8, 1, 99, 5, 2, b"/usr/lib/libx.so"))
    return record(abi.PERF_RECORD_MMAP2, written[8:], pid, time_ns)


def sampled(pid, time_ns, *, of_python=False):
    ids = (8,) if of_python else (7, 0x401000)
    body = struct.pack(f"<{len(ids)}QIIQ", *ids, pid, pid, time_ns)
    return struct.pack("<IHH", abi.PERF_RECORD_SAMPLE, 0, 8 + len(body)) + body


def life(pid, begin_ns, parent=1):
    """Return the records of a process from its birth to its end, 40 ns later."""
    return [
        forked(pid, parent, begin_ns),
        executed(pid, b"true", begin_ns + 10),
        mapped(pid, 4096, begin_ns + 20),
        ended(pid, begin_ns + 40),
    ]


def condensed(*records, until_ns=NEVER):
    return ShortLivesLimiter(schema_of(EVENTS)).condensed(b"".join(records), until_ns)


def state_after(data):
    """Return the records of who runs, as a set, and the samples of each process."""
    events = decode([RecordBlock(memoryview(data))], EVENTS)
    assert events.damage == ()
    tasks = LiveTasks()
    tasks.take_in(events)
    return sorted(tasks.records()), events.samples.task.tolist()


def test_who_came_and_went_unsampled_is_left_out():
    stays = [forked(8, 1, 5), executed(8, b"make", 6), mapped(8, 4096, 7)]
    assert condensed(*life(9, 10), *stays, sampled(8, 30)) == b"".join([*stays, sampled(8, 30)])


@pytest.mark.parametrize("of_python", [False, True])
def test_who_was_sampled_stays(of_python):
    records = [*life(9, 10), sampled(9, 35, of_python=of_python)]
    assert condensed(*records) == b"".join(records)


def test_of_a_number_that_is_given_again_each_life_is_looked_at():
    first, second, third = life(9, 100), life(9, 200), life(9, 300)
    hit = sampled(9, 225)
    assert condensed(*third, *second, hit, *first) == b"".join([*second, hit])


def test_who_was_there_before_stays_with_its_end():
    records = [mapped(9, 4096, 15), ended(9, 20)]
    assert condensed(*records) == b"".join(records)


def test_whose_child_is_kept_stays_and_so_do_its_ancestors():
    # 9 forks 10 and ends, 10 forks 11 and ends, 11 is sampled with what 9 had mapped.
    records = [*life(9, 100), forked(10, 9, 125), ended(10, 150), forked(11, 10, 130)]
    hit = sampled(11, 170)
    assert condensed(*records, hit) == b"".join([*records, hit])
    # The same number before has nothing to do with it.
    assert condensed(*life(9, 40), *records, hit) == b"".join([*records, hit])
    assert condensed(*records, ended(11, 160)) == b""


def test_whose_threads_go_on_stays():
    records = [forked(9, 1, 10), forked(9, 9, 12, tid=21), ended(9, 20)]
    assert condensed(*records) == b"".join(records)
    assert condensed(*records, ended(9, 30, tid=21)) == b""
    # An end whose beginning was lost is not that of the first thread.
    records = [forked(9, 1, 10), ended(9, 20, tid=21)]
    assert condensed(*records) == b"".join(records)


def test_of_whom_a_sample_may_still_come_stays():
    records = life(9, 100)
    assert condensed(*records, until_ns=140) == b"".join(records)
    assert condensed(*records, until_ns=141) == b""


def test_times_may_be_of_a_year():
    day_ns = 86_400 * 10**9
    records = [sampled(8, 1), *life(9, 365 * day_ns), sampled(8, 366 * day_ns)]
    assert condensed(*records) == records[0] + records[-1]


def test_records_that_no_kernel_writes_do_no_harm():
    short = struct.pack("<IHH", abi.PERF_RECORD_FORK, 0, 8)
    assert condensed(*life(9, 10), short) == short
    damaged = b"".join(life(9, 10)) + bytes(64)
    assert condensed(damaged) == damaged
    chain = [forked(pid, pid - 1, 10 + pid) for pid in range(100, 400)]
    ends = [ended(pid, 1000 + pid) for pid in range(100, 400)]
    assert condensed(*chain, *ends) == b""
    # Longer than is looked for: all of it stays.
    records = [*chain, *ends[:-1]]
    assert condensed(*records) == b"".join(records)


class _Machine:
    """Processes that do this and that, and the records of it."""

    def __init__(self, seed):
        self.choose = random.Random(seed)
        self.alive = {1: {1}}
        self.time_ns = 100
        self.records = []

    def step(self):
        self.time_ns += self.choose.randrange(1, 50)
        pid = self.choose.choice(list(self.alive))
        does = [self.fork, self.start_thread, self.map, self.execute, self.hit, self.end]
        (what,) = self.choose.choices(does, [30, 10, 10, 10, 4, 36])
        what(pid)

    def fork(self, pid):
        child = self.choose.randrange(2, 60)
        if child not in self.alive:
            self.alive[child] = {child}
            self.records.append(forked(child, pid, self.time_ns))

    def start_thread(self, pid):
        tid = self.choose.randrange(100, 1000)
        if all(tid not in tids for tids in self.alive.values()):
            self.alive[pid].add(tid)
            self.records.append(forked(pid, pid, self.time_ns, tid=tid))

    def map(self, pid):
        self.records.append(mapped(pid, 4096 * self.choose.randrange(1, 20), self.time_ns))

    def execute(self, pid):
        if self.alive[pid] == {pid}:
            self.records.append(executed(pid, b"%d" % self.choose.randrange(9), self.time_ns))

    def hit(self, pid):
        of_python = self.choose.random() < 0.5
        self.records.append(sampled(pid, self.time_ns, of_python=of_python))

    def end(self, pid):
        if pid == 1:
            return
        tid = self.choose.choice(sorted(self.alive[pid]))
        self.alive[pid].discard(tid)
        if not self.alive[pid]:
            del self.alive[pid]
        self.records.append(ended(pid, self.time_ns, tid=tid))


@pytest.mark.parametrize("seed", range(40))
def test_who_runs_afterwards_is_the_same_and_no_sample_is_lost(seed):
    machine = _Machine(seed)
    for _ in range(600):
        machine.step()
    # CPUs are drained one after the other.
    on_cpu = [[], []]
    for one in machine.records:
        on_cpu[machine.choose.randrange(2)].append(one)
    data = b"".join(on_cpu[0] + on_cpu[1])
    left = condensed(data)
    assert len(left) < 0.9 * len(data)
    assert state_after(b"".join(machine.records)) == state_after(in_order(left))
    assert condensed(left) == left


def in_order(data):
    """Return records in the order of time, as the decoder sorts what it is given."""
    found, place = [], 0
    while place < len(data):
        size = struct.unpack_from("<H", data, place + 6)[0]
        found.append(data[place : place + size])
        place += size
    times = [
        struct.unpack_from("<Q", one, len(one) - (16 if one[0] != abi.PERF_RECORD_SAMPLE else 8))[0]
        for one in found
    ]
    return b"".join(found[row] for row in np.argsort(times, kind="stable").tolist())


def test_what_waits_is_condensed_again_and_again(monkeypatch):
    monkeypatch.setattr(ShortLivesLimiter, "condensed_bytes", 10_000)
    drained = Drained(ShortLivesLimiter(schema_of(EVENTS)))
    most = 0
    for number in range(400):
        drained.begun_ns = (1 << 40) + 1000 * number
        pid = 100 + number % 50
        records = life(pid, drained.begun_ns - 10**9)
        drained.append([b"".join(records)])
        most = max(most, drained.size_bytes)
    assert most < 12_000
    late = life(9, drained.begun_ns)
    drained.append([b"".join(late)])
    assert drained.take() == b"".join(late)


def test_a_flood_that_is_followed_stops_the_draining():
    gate = ShortLivesLimiter(schema_of(EVENTS))
    drained = Drained(gate)
    for begin in range(0, 400_000, 1000):
        pids = range(10 + begin, 1010 + begin)
        drained.append([b"".join(forked(pid, 1, pid) for pid in pids)])
        if drained.is_full:
            break
    assert drained.is_full
    drained.take()
    assert not drained.is_full
