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
from prospect.figures.report.kernel import PART_NAMES, kernel_part
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
    function: NDArray[np.int64]
    is_here: NDArray[np.bool_]


def event_partitions(profile: ProfileByRoutine, event: EventView) -> EventPartitions:
    """Return the partitions of an event's hits that its report shows."""
    hits = profile.hits
    columns = _Hits(
        process=hits.process_index.astype(np.int64),
        portion=hit_portions(profile),
        function=profile.locations.function_index.take(hits.location_index).astype(np.int64),
        is_here=hits.event == event.event_index,
    )
    tables = {
        "processes": _processes(event, columns),
        "totals": _whole(np.where(columns.is_here, columns.portion, -1), PORTION_COUNT),
        "skipped": _skipped(event, columns),
        "routines": _routines(event, columns),
    }
    kernel_parts = _kernel(profile, event, columns, tables)
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


def _routines(event: EventView, columns: _Hits) -> Partition:
    tables = event.routines
    rows = len(tables.function)
    groups = len(tables.start) - 1
    group = np.repeat(np.arange(groups), np.diff(tables.start))
    is_user = group % PORTION_COUNT == PORTION_USER
    threshold_s = np.where(is_user, event.user_threshold_s, event.kernel_threshold_s)
    is_shown = tables.seconds >= threshold_s - ROUNDING_S
    above = np.arange(-1, rows - 1)
    above[tables.start[:-1][np.diff(tables.start) > 0]] = -1
    row = _row_of(
        group,
        tables.function,
        np.where(columns.is_here, columns.process * PORTION_COUNT + columns.portion, -1),
        columns.function,
    )
    shown = np.append(is_shown, False).take(row)  # -1 takes the last one
    return Partition(np.where(shown, row, -1).astype(np.int32), above, is_shown)


def _kernel(
    profile: ProfileByRoutine, event: EventView, columns: _Hits, tables: dict[str, Partition]
) -> tuple[str, ...]:
    """Add the kernel's profiles to `tables`; return the names of its parts."""
    if event.kernel is None:
        return ()
    is_kernel = columns.is_here & is_kernel_portion(columns.portion)
    group = np.where(is_kernel, 0, -1)
    tables["kernel"] = _routine_table(event.kernel.whole, 0, group, columns)
    part = np.where(is_kernel, kernel_part(profile.processes).take(columns.process), -1)
    names = []
    for name, table in event.kernel.parts:
        names.append(f"kernel: {name}")
        tables[names[-1]] = _routine_table(table, PART_NAMES.index(name), part, columns)
    return tuple(names)


def _routine_table(
    table: RoutineTable, number: int, group: NDArray[np.int64], columns: _Hits
) -> Partition:
    """Return the partition of one routine table, whose hits are those of group `number`."""
    rows = len(table)
    row = _row_of(np.full(rows, number), table.function, group, columns.function)
    is_shown = np.arange(rows) < table.shown
    shown = np.append(is_shown, False).take(row)
    return Partition(np.where(shown, row, -1).astype(np.int32), np.arange(-1, rows - 1), is_shown)


def _row_of(
    group: NDArray[np.int64],
    function: NDArray[np.int64],
    group_of_hit: NDArray[np.int64],
    function_of_hit: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the row of each hit in a table with the columns `group` and `function`, i64[h]."""
    if not len(function):
        return np.full(len(group_of_hit), -1, np.int64)
    functions = int(max(function.max(), function_of_hit.max(initial=0))) + 1
    key = group * functions + function
    order = np.argsort(key)
    wanted = group_of_hit * functions + function_of_hit
    place = np.minimum(np.searchsorted(key, wanted, sorter=order), len(order) - 1)
    row = order.take(place)
    return np.where((key.take(row) == wanted) & (group_of_hit >= 0), row, -1)


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
