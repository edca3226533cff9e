"""Which process logs its code to which jitdump file, and until when."""

from __future__ import annotations

import random

import numpy as np
import pytest

from builders.sideband import EventLog
from prospect.assembly.placing import jit
from prospect.events.record_columns import TASK_EXEC
from prospect.records import replace

NEVER = (1 << 64) - 1
DUMP, OTHER = b"/tmp/jit-7.dump", b"/tmp/jit-8.dump"


def found(events):
    return [(one.pid, one.path, one.end_ns) for one in jit._markers(events)]


def mapped(log, time, pid, path=DUMP):
    log.mmap(time, pid, 0x1000, 0x1000, path)


def test_a_dump_is_of_a_process_until_it_runs_another_program():
    log = EventLog()
    log.exec(1, 7, b"jit")
    for time in (2, 3):
        mapped(log, time, 7)
    mapped(log, 4, 7, OTHER)
    log.exec(5, 9, b"else")
    log.exec(6, 7, b"jit")
    mapped(log, 7, 7)
    mapped(log, 8, 7, b"/tmp/jit-7.txt")
    mapped(log, 9, 8)
    assert found(log.events()) == [
        (7, DUMP, 6),
        (7, OTHER, 6),
        (7, DUMP, NEVER),
        (8, DUMP, NEVER),
    ]


def test_no_dump_is_none():
    log = EventLog()
    log.exec(1, 7, b"jit")
    assert found(log.events()) == []


def test_of_the_execs_behind_a_mapping_the_earliest_counts():
    """By the place in the recording they are behind it, by their times in any order."""
    chance = random.Random(4)
    log = EventLog()
    for time in range(300):
        pid = chance.choice((-1, 7, 8))
        if chance.random() < 0.3:
            log.exec(time, pid, b"jit")
        else:
            mapped(log, time, pid, chance.choice((DUMP, OTHER)))
    events = log.events()
    times = np.array(chance.sample(range(1000), len(events.tasks.order)), np.uint64)
    events = replace(events, tasks=replace(events.tasks, time_ns=times))
    tasks, mmaps = events.tasks, events.mmaps
    expected = dict.fromkeys(
        (
            pid,
            events.names[name],
            min(tasks.time_ns[(tasks.pid == pid) & (tasks.order > order)].tolist(), default=NEVER),
        )
        for pid, name, order in zip(
            mmaps.pid.tolist(), mmaps.name.tolist(), mmaps.order.tolist(), strict=True
        )
    )
    assert found(events) == list(expected)


@pytest.mark.timeout(60)
def test_many_mappings_among_many_execs_cost_no_more_than_their_number():
    log = EventLog()
    log.exec(1, 7, b"jit")
    mapped(log, 2, 7)
    events = log.events()
    execs, mappings = np.zeros(1_000_000, np.int64), np.zeros(300_000, np.int64)

    def repeated(table, rows, order):
        columns = {name: column.take(rows) for name, column in vars(table).items()}
        return replace(table, **columns | {"order": order})

    tasks = repeated(events.tasks, execs, np.arange(len(execs)))
    mmaps = repeated(events.mmaps, mappings, np.arange(len(mappings)) + len(execs) // 2)
    many = replace(events, tasks=tasks, mmaps=mmaps)
    assert tasks.kind[0] == TASK_EXEC
    assert found(many) == [(7, DUMP, 1)]
