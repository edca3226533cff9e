"""The tables of a report as partitions of its hits: which row of which table each hit is in.

Comes in: a completed Profile and the view of one event. Goes out: a `Partition` a table, with rows
in the table's order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.figures.portions import (
    PORTION_COUNT,
    PORTION_USER,
    ROUNDING_S,
    hit_portions,
    is_kernel_portion,
)
from prospect.profile.model import CAUSE_SYSCALL
from prospect.records import NamedTuple, Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.figures.report.routines import RoutineTable
    from prospect.figures.report.view import EventView
    from prospect.profile.complete import ProfileByRoutine


class Partition(NamedTuple):
    """A table: the row of each hit, the row above each row, and whether it is shown.

    Attributes:
        row_of_hit: i32[h], -1 for hits in none.
        above: i64[r] -1 for none: a table's first row, or the first of a part of it.
        is_shown: bool[r].
    """

    row_of_hit: NDArray[np.int32]
    above: NDArray[np.int64]
    is_shown: NDArray[np.bool_]


class EventPartitions(Record):
    """All tables of an event by name; `kernel_parts` and `causes` name those in order.

    `cause_place` says where a cause is in all tables of `causes`, one behind the other; see
    `report.CauseEstimates` for its keys.
    """

    tables: dict[str, Partition]
    kernel_parts: tuple[str, ...]
    causes: tuple[str, ...]
    cause_place: dict[tuple[int, int, str], int]


class _Hits(NamedTuple):
    """Columns of the profile's hits, i64[h]; `is_here` bool[h] whether they are the event's."""

    process: NDArray[np.int64]
    portion: NDArray[np.int64]
    is_here: NDArray[np.bool_]


def event_partitions(profile: ProfileByRoutine, event: EventView) -> EventPartitions:
    """Return the partitions of an event's hits that its report shows."""
    hits = profile.hits
    columns = _Hits(
        process=hits.process_index.astype(np.int64),
        portion=hit_portions(profile),
        is_here=hits.event == event.event_index,
    )
    tables = {
        "processes": _processes(event, columns),
        "totals": _whole(np.where(columns.is_here, columns.portion, -1), PORTION_COUNT),
        "skipped": _skipped(event, columns),
        "routines": _routines(event),
    }
    kernel_parts = _kernel(event, tables)
    causes, place = _causes(profile, columns, tables)
    return EventPartitions(tables, kernel_parts, causes, place)


def _whole(row: NDArray[np.int64], rows: int) -> Partition:
    """Return a table without an order, all of it shown."""
    return Partition(row.astype(np.int32), np.full(rows, -1, np.int64), np.ones(rows, np.bool_))


def _processes(event: EventView, columns: _Hits) -> Partition:
    row = np.where(columns.is_here, columns.process * PORTION_COUNT + columns.portion, -1)
    partition = _whole(row, len(event.processes.order) * PORTION_COUNT)
    kept = event.processes.kept_rows * PORTION_COUNT + PORTION_USER
    partition.above[kept[1:]] = kept[:-1]
    return partition


def _skipped(event: EventView, columns: _Hits) -> Partition:
    is_skipped = columns.is_here & ~event.processes.kept.take(columns.process)
    return _whole(np.where(is_skipped, columns.portion, -1), PORTION_COUNT)


def _routines(event: EventView) -> Partition:
    tables = event.routines
    rows = len(tables.function)
    groups = len(tables.start) - 1
    group = np.repeat(np.arange(groups), np.diff(tables.start))
    is_user = group % PORTION_COUNT == PORTION_USER
    threshold_s = np.where(is_user, event.user_threshold_s, event.kernel_threshold_s)
    is_shown = tables.seconds >= threshold_s - ROUNDING_S
    above = np.arange(-1, rows - 1)
    above[tables.start[:-1][np.diff(tables.start) > 0]] = -1
    return Partition(_shown_rows(tables.row_of_hit, is_shown), above, is_shown)


def _kernel(event: EventView, tables: dict[str, Partition]) -> tuple[str, ...]:
    """Add the kernel's profiles to `tables`; return the names of its parts."""
    kernel = event.kernel
    if kernel is None:
        return ()
    tables["kernel"] = _routine_table(kernel.whole, kernel.row_of_hit)
    names = []
    first = 0
    for name, table in kernel.parts:
        names.append(f"kernel: {name}")
        row = kernel.part_row_of_hit - np.int32(first)
        tables[names[-1]] = _routine_table(table, np.where(row < len(table), row, np.int32(-1)))
        first += len(table)
    return tuple(names)


def _routine_table(table: RoutineTable, row_of_hit: NDArray[np.int32]) -> Partition:
    """Return the partition of one routine table; rows below 0 are of no hit of it."""
    rows = len(table)
    is_shown = np.arange(rows) < table.shown
    row = _shown_rows(np.maximum(row_of_hit, -1), is_shown)
    return Partition(row, np.arange(-1, rows - 1), is_shown)


def _shown_rows(row_of_hit: NDArray[np.int32], is_shown: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Return the row of each hit, i32[h], -1 also for rows that are not shown."""
    shown = np.append(is_shown, False).take(row_of_hit)  # -1 takes the last one
    return np.where(shown, row_of_hit, np.int32(-1))


def _causes(
    profile: ProfileByRoutine, columns: _Hits, tables: dict[str, Partition]
) -> tuple[tuple[str, ...], dict[tuple[int, int, str], int]]:
    """Add kernel time by cause to `tables`; return their names, and where each cause is."""
    kind, name = profile.causes.kind.tolist(), profile.causes.name
    causes = len(name)
    is_kernel = columns.is_here & is_kernel_portion(columns.portion)
    cause = profile.hits.cause_index.astype(np.int64)
    is_call = profile.causes.kind.take(cause) == CAUSE_SYSCALL
    place = {(-1, kind[row], name[row]): row for row in range(causes)}
    tables["causes"] = _whole(np.where(is_kernel, cause, -1), causes)
    rows = causes
    # All system calls of a process together are one cause more.
    for table, chosen, of_hit in (
        ("causes by process", is_kernel, cause),
        ("calls by process", is_kernel & is_call, np.full(len(cause), causes)),
    ):
        key = np.where(chosen, columns.process * (causes + 1) + of_hit, -1)
        distinct, row = np.unique(key, return_inverse=True)
        others = int(np.count_nonzero(distinct < 0))
        distinct = distinct[others:]
        tables[table] = _whole(row - others, len(distinct))
        for number, packed in enumerate(distinct.tolist()):
            process, which = divmod(packed, causes + 1)
            named = (kind[which], name[which]) if which < causes else (CAUSE_SYSCALL, "")
            place[process, *named] = rows + number
        rows += len(distinct)
    return ("causes", "causes by process", "calls by process"), place
