"""What a process floods a session with is left out, and nothing else."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr, EventDescription
from prospect.abi.recorded_facts import RecordBlock
from prospect.capture.machine.synthesis import Map, user_map_record
from prospect.events.decode import decode
from prospect.events.record_columns import TASK_COMM, TASK_EXEC
from prospect.events.sample_schema import schema_of
from prospect.live.live_limits import MOST_NAMED_PROCESSES, MOST_OF_A_PROCESS
from prospect.live.record_limiters import RecordLimiter
from prospect.live.source import Drained

EVENTS = [
    EventDescription(
        EventAttr(
            sample_type=abi.PERF_SAMPLE_IDENTIFIER | abi.PERF_SAMPLE_TID | abi.PERF_SAMPLE_TIME,
            flags=abi.FLAG_SAMPLE_ID_ALL,
        ),
        (7,),
    )
]


def with_tail(record, pid, tid, time_ns):
    header, misc, size = struct.unpack_from("<IHH", record)
    tail = struct.pack("<IIQQ", pid, tid, time_ns, 7)
    return struct.pack("<IHH", header, misc, size + len(tail)) + record[8:] + tail


def renamed(pid, tid, name, time_ns, misc=0):
    record = struct.pack("<IHHII16s", abi.PERF_RECORD_COMM, misc, 32, pid, tid, name)
    return with_tail(record, pid, tid, time_ns)


def mapped(pid, start, time_ns):
    record = user_map_record(pid, Map(start, 4096, 0, 8, 1, 99, 5, 2, b"/usr/lib/libx.so"))
    return with_tail(record, pid, pid, time_ns)


def forked(pid, time_ns):
    record = struct.pack("<IHHIIIIQ", abi.PERF_RECORD_FORK, 0, 32, pid, 1, pid, 1, time_ns)
    return with_tail(record, 1, 1, time_ns)


def decoded(data):
    return decode([RecordBlock(memoryview(data))], EVENTS)


@pytest.fixture
def gate():
    return RecordLimiter(schema_of(EVENTS))


def test_of_a_threads_names_the_last_in_time_is_kept(gate):
    # Not the last in the bytes: each CPU's records are drained in turn.
    renames = [renamed(9, 10 + i % 2, b"%x" % i, 5000 - i) for i in range(1000)]
    data = b"".join([forked(9, 1), *renames, mapped(9, 4096, 6000)])
    events = decoded(gate.passed(data))
    assert events.damage == ()
    tasks = events.tasks
    is_name = tasks.kind == TASK_COMM
    names = [events.names[row] for row in tasks.name[is_name]]
    assert dict(zip(tasks.tid[is_name].tolist(), names, strict=True)) == {10: b"0", 11: b"1"}
    assert np.count_nonzero(~is_name) == 1
    assert events.mmaps.start.tolist() == [4096]
    assert gate.limits == []


def test_an_exec_is_no_rename(gate):
    exec_ = abi.PERF_RECORD_MISC_COMM_EXEC
    data = b"".join(renamed(9, 9, b"x", time_ns, exec_) for time_ns in range(1, 500))
    assert gate.passed(data) == data
    assert (decoded(data).tasks.kind == TASK_EXEC).all()


def test_a_process_that_maps_too_often_is_said_and_takes_nothing_from_others(gate):
    flood = [mapped(9, 4096 * i, i) for i in range(1, 3 * MOST_OF_A_PROCESS)]
    data = b"".join([*flood, mapped(8, 4096, 10**6)])
    pids = decoded(gate.passed(data)).mmaps.pid
    assert np.count_nonzero(pids == 9) == MOST_OF_A_PROCESS
    assert np.count_nonzero(pids == 8) == 1
    assert len(gate.limits) == 1
    assert "Process 9 " in gate.limits[0]
    # No more of it until somebody looks.
    assert np.count_nonzero(decoded(gate.passed(data)).mmaps.pid == 9) == 0
    gate.open()
    assert np.count_nonzero(decoded(gate.passed(data)).mmaps.pid == 9) == MOST_OF_A_PROCESS
    assert len(gate.limits) == 1


def test_of_many_processes_that_do_so_some_are_named(gate):
    for pid in range(100, 100 + 3 * MOST_NAMED_PROCESSES):
        gate.passed(b"".join(mapped(pid, 4096 * i, i) for i in range(1, 2 * MOST_OF_A_PROCESS)))
    assert len(gate.limits) == MOST_NAMED_PROCESSES + 1


def test_what_is_made_of_processes_passes_and_is_counted(gate):
    data = b"".join(forked(pid, pid) for pid in range(2, 1002))
    assert gate.passed(data) == data
    assert gate.side_records == 1000


def test_no_more_is_drained_than_a_look_can_take_in(gate, monkeypatch):
    monkeypatch.setattr("prospect.live.record_limiters.MOST_SIDE_RECORDS", 500)
    drained = Drained(gate)
    forks = b"".join(forked(pid, pid) for pid in range(2, 402))
    drained.append([forks])
    assert not drained.is_full
    drained.append([forks])
    assert drained.is_full
    assert drained.take() == forks + forks
    assert not drained.is_full


def test_few_and_damaged_records_pass_as_they_are(gate):
    few = b"".join(renamed(9, 9, b"%x" % i, i) for i in range(1, 9))
    assert gate.passed(few) == few
    damaged = few * 100 + bytes(64)
    assert gate.passed(damaged) == damaged
