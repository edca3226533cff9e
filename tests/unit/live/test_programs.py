"""BPF programs that were loaded in one part of a session have their names in those after it."""

import numpy as np

from builders.sideband import EventLog
from prospect.events.record_columns import KernelSymbols
from prospect.live import carried as module
from prospect.live.carried import LoadedPrograms
from prospect.records import replace
from prospect.symbols.kernel.kernel_names import kernel_symbol_table

BASE = 0xFFFF_FFFF_C000_0000


def part(*records):
    """Events of (offset, length, name, is gone) records."""
    offset, length, name, is_gone = zip(*records, strict=True) if records else ((), (), (), ())
    count = len(records)
    table = KernelSymbols(
        order=np.arange(count),
        time_ns=np.arange(1, count + 1, dtype=np.uint64),
        address=np.array(offset, np.uint64) + np.uint64(BASE),
        length=np.array(length, np.uint64),
        kind=np.ones(count, np.uint8),
        unregister=np.array(is_gone, np.bool_),
        name=np.arange(2, 2 + count, dtype=np.int32),
    )
    return replace(EventLog().events(), kernel_symbols=table, names=[b"comm", b"file", *name])


def names_at(programs, events, *offsets):
    found = programs.carried(events)
    table = kernel_symbol_table(found.kernel_symbols, found.names)
    rows = table.lookup(np.array(offsets, np.uint64) + np.uint64(BASE)).tolist()
    return [table.name(row) if row >= 0 else None for row in rows]


def test_what_is_loaded_keeps_its_name_until_it_is_unloaded():
    programs = LoadedPrograms()
    programs.take_in(part((0, 64, b"first", False), (64, 64, b"second", False)))
    assert names_at(programs, part(), 5, 70, 130) == [b"first", b"second", None]
    last = part((64, 64, b"second", True), (128, 8, b"third", False))
    assert names_at(programs, last, 5, 70, 130) == [b"first", b"second", b"third"]
    programs.take_in(last)
    assert names_at(programs, part(), 5, 70, 130) == [b"first", None, b"third"]
    programs.take_in(part((0, 16, b"first", True), (0, 16, b"another", False)))
    assert names_at(programs, part((32, 8, b"own", False)), 5, 20, 33) == [b"another", None, b"own"]
    assert len(programs) == 2


def test_programs_whose_end_was_lost_are_forgotten(monkeypatch):
    monkeypatch.setattr(module, "MOST_PROGRAMS", 3)
    programs = LoadedPrograms()
    programs.take_in(part(*((64 * at, 64, b"p%d" % at, False) for at in range(9))))
    assert len(programs) == 3
    assert names_at(programs, part(), 64 * 8) == [b"p8"]


def test_without_any_a_part_stays_as_it_is():
    events = part((0, 8, b"own", False))
    assert LoadedPrograms().carried(events) is events
