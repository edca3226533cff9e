"""Code that a JIT logged stands at its address at its time, whatever else was mapped there."""

import numpy as np
from tests.builders.sideband import EventLog

from prospect.spaces.attribution import attribute
from prospect.spaces.code_loads import CodeLoads, insert_code_loads
from prospect.spaces.process_history import build_spaces

ANON = b"//anon"
DUMP = b"[jitdump] /tmp/jit-7.dump"
PID = 7


def loads(*rows, begin_order=0, end_ns=2**64 - 1):
    """Loads of (time, start, length, pgoff)."""
    columns = np.array(rows, np.uint64).reshape(-1, 4).T
    return CodeLoads(PID, DUMP, begin_order, end_ns, *columns)


def located(log, *logs):
    """The name and offset at every sample."""
    events = log.events()
    names = np.array([name == ANON for name in events.names], np.bool_)
    changed = insert_code_loads(events, logs, names)
    history = build_spaces(changed)
    hits = attribute(changed.samples, history.timeline)
    mapping = history.address_spaces.locate(hits.space, hits.epoch, hits.address)
    mappings = history.mappings
    found = []
    for row in hits.sample_row.tolist():
        one = int(mapping[row])
        if one < 0:
            found.append(None)
            continue
        offset = hits.address[row] - mappings.start[one] + mappings.pgoff[one]
        found.append((history.names[mappings.name[one]], int(offset)))
    return found


def started():
    log = EventLog()
    log.exec(1, PID, b"jit")
    log.mmap(10, PID, 0x1000, 0x1000, b"/tmp/jit-7.dump")
    log.mmap(11, PID, 0x10000, 0x2000, ANON)
    return log


def test_the_code_of_the_time():
    log = started()
    for time in (15, 25, 35):
        log.sample(time, PID, 0x10010)
    code = loads((20, 0x10000, 0x40, 0xA000), (30, 0x10000, 0x80, 0xB000), begin_order=1)
    assert located(log, code) == [(ANON, 0x10), (DUMP, 0xA010), (DUMP, 0xB010)]


def test_memory_whose_protection_changes_keeps_its_code():
    log = started()
    log.mmap(25, PID, 0x10000, 0x2000, ANON)
    for time, ip in ((30, 0x10010), (31, 0x10040), (32, 0x10FFF)):
        log.sample(time, PID, ip)
    code = loads((20, 0x10000, 0x40, 0xA000), (40, 0x10040, 0x40, 0xB000), begin_order=1)
    assert located(log, code) == [(DUMP, 0xA010), (ANON, 0x40), (ANON, 0xFFF)]


def test_a_file_over_the_code_wins():
    log = started()
    log.mmap(25, PID, 0x10000, 0x2000, b"/lib/x.so")
    log.sample(30, PID, 0x10010)
    assert located(log, loads((20, 0x10000, 0x40, 0xA000), begin_order=1)) == [(b"/lib/x.so", 0x10)]


def test_another_process_is_not_touched():
    log = started()
    log.exec(1, 8, b"other")
    log.mmap(11, 8, 0x10000, 0x2000, ANON)
    log.sample(30, 8, 0x10010)
    assert located(log, loads((20, 0x10000, 0x40, 0xA000), begin_order=3)) == [(ANON, 0x10)]


def test_the_next_program_of_the_process_has_none_of_it():
    log = started()
    log.exec(22, PID, b"next")
    log.mmap(25, PID, 0x10000, 0x2000, ANON)
    log.sample(30, PID, 0x10010)
    code = loads((20, 0x10000, 0x40, 0xA000), begin_order=1, end_ns=22)
    assert located(log, code) == [(ANON, 0x10)]


def test_a_forked_child_has_the_code_of_then():
    log = started()
    log.fork(25, PID, 9)
    log.sample(35, 9, 0x10010)
    log.sample(35, PID, 0x10010)
    code = loads((20, 0x10000, 0x40, 0xA000), (30, 0x10000, 0x40, 0xB000), begin_order=1)
    assert located(log, code) == [(DUMP, 0xA010), (DUMP, 0xB010)]


def test_against_the_definition():
    """Random loads and protections: the last load that covers an address by then."""
    random = np.random.default_rng(5)
    log = started()
    rows = [
        (
            time,
            0x10000 + 16 * int(random.integers(0, 256)),
            16 * int(random.integers(1, 9)),
            time << 16,
        )
        for time in range(20, 1000, 7)
    ]
    for time in range(24, 1000, 13):
        log.mmap(time, PID, 0x10000, 0x2000, ANON)
    asked = [(int(time), 0x10000 + int(random.integers(0, 0x1100))) for time in range(21, 1100, 2)]
    for time, ip in asked:
        log.sample(time, PID, ip)
    expected = []
    for time, ip in asked:
        covering = [one for one in rows if one[0] <= time and one[1] <= ip < one[1] + one[2]]
        start, pgoff = (covering[-1][1], covering[-1][3]) if covering else (0x10000, 0)
        expected.append((DUMP if covering else ANON, ip - start + pgoff))
    assert located(log, loads(*rows, begin_order=1)) == expected
