"""Code that a process logged → separate mappings, at their times.

Each piece of code that a JIT logged becomes a mapping, so look-ups include the time, as for
libraries. A JIT changes the protection of its memory around every write, and each time the kernel
records an anonymous mapping of all of it. The memory still holds the code, so such records are cut
around it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.abi import constants as abi
from prospect.columns.buffers import gather
from prospect.events.record_columns import Mmaps
from prospect.records import Record, field_names, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.columns.array_types import U64, Bools
    from prospect.events.record_columns import Events

# More than the pieces of a JIT that toggles 64 KiB a thousand times a second for minutes.
_MOST_PIECES = 1 << 20


class CodeLoads(Record):
    """Code of one process; columns as in `events.columns.Mmaps`.

    Attributes:
        name: of the object that the record gives as the code's file.
        begin_order: the record from which on the process logs, by `Mmaps.order`.
        end_ns: when the process became another program.
        time_ns: u64[n] when each piece was written.
    """

    pid: int
    name: bytes
    begin_order: int
    end_ns: int
    time_ns: U64
    start: U64
    length: U64
    pgoff: U64


def insert_code_loads(events: Events, logs: Sequence[CodeLoads], is_anonymous: Bools) -> Events:
    """Return events in which the code is mapped.

    Args:
        logs: each of one process and one program.
        is_anonymous: bool[k] which of `events.names` are of anonymous memory.
    """
    mmaps, tasks = events.mmaps, events.tasks
    names = list(events.names)
    added = [mmaps]
    for log in logs:
        names.append(log.name)
        mmaps = _cut_around(mmaps, log, is_anonymous)
        added.append(_as_mmaps(log, len(names) - 1))
    added[0] = mmaps
    joined = {
        name: np.concatenate([getattr(table, name) for table in added])
        for name in field_names(mmaps)
    }
    # Leave room for all added records between two records.
    room = len(joined["order"]) + 1
    side_order = np.concatenate((tasks.order, events.mmaps.order))
    side_time = np.concatenate((tasks.time_ns, events.mmaps.time_ns))
    by_order = np.argsort(side_order, kind="stable")
    side_order, side_time = side_order.take(by_order), side_time.take(by_order)
    is_added = np.arange(len(joined["order"])) >= len(mmaps.start)
    rows = np.flatnonzero(is_added)
    rows = rows.take(np.argsort(joined["time_ns"].take(rows), kind="stable"))
    before = np.searchsorted(side_time, joined["time_ns"].take(rows), side="right") - 1
    place = np.maximum(side_order.take(before, mode="clip"), joined["order"].take(rows))
    order = joined["order"] * room
    order[rows] = place * room + 1 + np.arange(len(rows))
    joined["order"] = order
    by_time = np.argsort(order, kind="stable")
    columns = {name: column.take(by_time) for name, column in joined.items()}
    return replace(
        events,
        mmaps=replace(mmaps, **columns),
        tasks=replace(tasks, order=tasks.order * room),
        names=names,
    )


def _as_mmaps(log: CodeLoads, name: int) -> Mmaps:
    count = len(log.start)
    none = np.zeros(count, np.uint32)
    return Mmaps(
        order=np.full(count, log.begin_order, np.int64),
        time_ns=log.time_ns,
        pid=np.full(count, log.pid, np.int32),
        tid=np.full(count, log.pid, np.int32),
        start=log.start,
        length=log.length,
        pgoff=log.pgoff,
        name=np.full(count, name, np.int32),
        build_id=np.full(count, -1, np.int32),
        major=none,
        minor=none,
        inode=none.astype(np.uint64),
        prot=none + np.uint32(abi.PROT_EXEC),
        mode=np.full(count, abi.PERF_RECORD_MISC_USER, np.uint8),
    )


def _cut_around(mmaps: Mmaps, log: CodeLoads, is_anonymous: Bools) -> Mmaps:
    """Cut the process's later records of anonymous memory around the code that is there."""
    asked = np.flatnonzero(
        (mmaps.pid == log.pid)
        & (mmaps.order > log.begin_order)
        & (mmaps.time_ns < np.uint64(min(log.end_ns, (1 << 64) - 1)))
        & is_anonymous.take(mmaps.name)
    )
    by_start = np.argsort(log.start, kind="stable")
    start, end = log.start.take(by_start), (log.start + log.length).take(by_start)
    time_ns = log.time_ns.take(by_start)
    longest = log.length.max(initial=np.uint64(0))
    row: list[int] = []
    pieces: list[tuple[int, int]] = []
    for one in asked.tolist():
        first, last = mmaps.start[one], mmaps.start[one] + mmaps.length[one]
        low = np.searchsorted(start, first - min(longest, first))
        high = np.searchsorted(start, last)
        is_there = (time_ns[low:high] <= mmaps.time_ns[one]) & (end[low:high] > first)
        at = np.flatnonzero(is_there) + low
        if not len(at):
            continue
        gaps = _gaps(int(first), int(last), start.take(at).tolist(), end.take(at).tolist())
        if len(pieces) + len(gaps) > _MOST_PIECES:
            gaps = []
        row += [one] * max(len(gaps), 1)
        pieces += gaps or [(int(first), int(first))]
    if not row:
        return mmaps
    kept = np.ones(len(mmaps.start), np.bool_)
    kept[row] = False
    chosen = np.concatenate((np.flatnonzero(kept), np.array(row, np.int64)))
    # These columns are new, so they may be changed.
    cut = gather(mmaps, chosen)
    bounds = np.array(pieces, np.uint64)
    fresh = slice(len(chosen) - len(row), None)
    cut.pgoff[fresh] += bounds[:, 0] - cut.start[fresh]
    cut.start[fresh] = bounds[:, 0]
    cut.length[fresh] = bounds[:, 1] - bounds[:, 0]
    return gather(cut, np.argsort(cut.order, kind="stable"))


def _gaps(first: int, last: int, starts: list[int], ends: list[int]) -> list[tuple[int, int]]:
    """Return the parts of [first, last) outside of the ranges, which ascend by start."""
    gaps = []
    for start, end in zip(starts, ends, strict=True):
        if start > first:
            gaps.append((first, start))
        first = max(first, end)
    if first < last:
        gaps.append((first, last))
    return gaps
