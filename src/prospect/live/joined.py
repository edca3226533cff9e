"""Join the profiles of consecutive intervals into one profile.

The profiles are of the same machine and events in chronological order, such as a live session makes
every few seconds. Rows are joined by identity: processes by pid and birth, objects by path and
build id, functions by object, address and name. Each row of a part costs a Python step, and each
part a copy of the whole.

A thread that lives at the end of a part is the same at the begin of the next part. Its times add
up, and its program and name are the last. `longest_ns` is that of a wait within one part.

A wait over several parts is a row of the waits in each. It has the stack of its row in the part
before, and its length is the time in this part. If the wait's own sample was lost, it has the stack
of the thread's wait before.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from prospect.columns.buffers import appended, gather, tuples
from prospect.columns.grouping import alike
from prospect.figures.selection import only_used
from prospect.profile.model import LossTable
from prospect.profile.run_info import counted_notes
from prospect.records import NamedTuple, Record, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from numpy.typing import NDArray

    from prospect.columns.array_types import I32, I64, U64, Bools
    from prospect.profile.model import (
        ClockStopTable,
        ClockTable,
        HitTable,
        ObjectTable,
        ProcessTable,
        Profile,
        SampleTable,
        StackTable,
        ThreadTimes,
        WaitTable,
    )
    from prospect.profile.run_info import EventInfo, RunInfo

_Key = TypeVar("_Key", bound="Hashable")
_Placed = TypeVar("_Placed", "HitTable", "WaitTable")
_Stacked = TypeVar("_Stacked", "SampleTable", "WaitTable")
_NS = 1e-9
_SECONDS = "_s"


def join_runs(runs: Sequence[RunInfo]) -> RunInfo:
    """Return the run from the start of the first to the end of the last; there is at least one.

    Counts and times add up; everything else is from the last run.
    """
    first, last = runs[0], runs[-1]
    return replace(
        last,
        started_at=first.started_at,
        begin_ns=first.begin_ns,
        end_ns=last.end_ns,
        events=tuple(map(_joined_event, zip(*(run.events for run in runs), strict=False))),
        wall_seconds=max(last.end_ns - first.begin_ns, 0) * _NS,
        limits=counted_notes(limit for run in runs for limit in run.limits),
        process_notes=_distinct(note for run in runs for note in run.process_notes),
        damage=_distinct(sentence for run in runs for sentence in run.damage),
        cut_chains=tuple(cut for run in runs for cut in run.cut_chains),
        statistics=_sums(run.statistics for run in runs),
        accounting={
            key: value for key, value in last.accounting.items() if not key.endswith(_SECONDS)
        }
        | _sums(
            {key: value for key, value in run.accounting.items() if key.endswith(_SECONDS)}
            for run in runs
        ),
        cpu_accounting={
            cpu: _sums(run.cpu_accounting.get(cpu, {}) for run in runs)
            for cpu in sorted({cpu for run in runs for cpu in run.cpu_accounting})
        },
    )


def _joined_event(parts: Sequence[EventInfo]) -> EventInfo:
    """Return the last of the parts that know best the time of a counter's period."""
    weighed = [part for part in parts if part.weighs_periods]
    if not weighed:
        return parts[-1]
    return min(
        reversed(weighed), key=lambda part: (not part.seconds_per_period, part.relative_error)
    )


def _distinct(items: Iterable[_Key]) -> tuple[_Key, ...]:
    return tuple(dict.fromkeys(items))


def _sums(counted: Iterable[dict[_Key, Any]]) -> dict[_Key, Any]:
    result: dict[_Key, Any] = {}
    for counts in counted:
        for key, count in counts.items():
            result[key] = result.get(key, 0) + count
    return result


def join_losses(losses: Sequence[LossTable]) -> LossTable:
    """Add up losses by CPU."""
    cpu, row = np.unique(np.concatenate([part.cpu for part in losses]), return_inverse=True)
    lost, throttled = np.zeros(len(cpu), np.int64), np.zeros(len(cpu), np.int64)
    np.add.at(lost, row, np.concatenate([part.lost for part in losses]))
    np.add.at(throttled, row, np.concatenate([part.throttled for part in losses]))
    return LossTable(cpu, lost, throttled)


def join_clocks(whole: ClockTable, part: ClockTable) -> tuple[ClockTable, I32]:
    """Extend the clocks of `whole` that go on in `part`, and append the others.

    Returns:
        The clocks, and i32 the row of each clock of the part.
    """
    known = {key: row for row, key in enumerate(_clock_keys(whole, whole.end_ns))}
    row = [known.get(key, -1) for key in _clock_keys(part, part.begin_ns)]
    new = np.flatnonzero(np.array(row, np.int64) < 0)
    joined = appended(whole, part, new)
    for offset, each in enumerate(new.tolist()):
        row[each] = len(whole) + offset
    rows = np.array(row, np.int32)
    joined.end_ns[rows] = part.end_ns
    goes_on = rows < len(whole)
    np.add.at(joined.lost, rows[goes_on], part.lost[goes_on])
    return joined, rows


def lost_in_parts(clocks: ClockTable, parts: Iterable[ClockTable]) -> I64:
    """Return i64[c] the samples that parts lost; the first row of a clock has all of them."""
    lost: dict[tuple[int, int, int], int] = {}
    for part in parts:
        for key, count in zip(_identities(part), part.lost.tolist(), strict=True):
            lost[key] = lost.get(key, 0) + count
    return np.array([lost.pop(key, 0) for key in _identities(clocks)], np.int64)


def _identities(clocks: ClockTable) -> Iterable[tuple[int, int, int]]:
    columns = clocks.event.tolist(), clocks.clock.tolist(), clocks.cpu.tolist()
    return zip(*columns, strict=True)


def _clock_keys(clocks: ClockTable, at_ns: U64) -> Iterable[tuple[float, ...]]:
    columns = (clocks.event, clocks.clock, clocks.cpu, clocks.period_ns, at_ns)
    return zip(*(column.tolist() for column in columns), strict=True)


ProcessKey = tuple[int, int]
"""The pid of a process, and the time when its program began."""

_SUMS = (
    "cpu_ns",
    "runnable_ns",
    "blocked_ns",
    "unknown_ns",
    "stackless_ns",
    "since_before_ns",
    "blocks",
    "preemptions",
)


class PartOfThreads(NamedTuple):
    """The times of threads in an interval.

    `since_before_ns` of a thread is 0 if its wait began in an earlier part.
    """

    threads: ThreadTimes
    programs: list[ProcessKey | None]
    begin_ns: int
    end_ns: int


def part_of_threads(
    threads: ThreadTimes, processes: ProcessTable, run: RunInfo, known_ns: I64
) -> PartOfThreads:
    """Return a part's times.

    Args:
        known_ns: i64[t] the part of `stackless_ns` with the stack of a wait in the part before.
    """
    keys = list(zip(processes.pid.tolist(), processes.start_ns.tolist(), strict=True))
    return PartOfThreads(
        threads=replace(
            threads,
            stackless_ns=threads.stackless_ns - known_ns,
            since_before_ns=threads.since_before_ns - known_ns,
        ),
        programs=[keys[row] if row >= 0 else None for row in threads.process_index.tolist()],
        begin_ns=run.begin_ns,
        end_ns=run.end_ns,
    )


class JoinedThreads(Record, frozen=False):
    """The sum of parts; the rows are in the order in which threads appeared."""

    whole: PartOfThreads | None = None

    def add(self, part: PartOfThreads) -> None:
        """Add the times of the next interval."""
        if self.whole is None:
            self.whole = part
            return
        whole, threads = self.whole, part.threads
        lives = np.flatnonzero(whole.threads.end_ns == np.uint64(whole.end_ns)).tolist()
        row_of = {
            tid: row for row, tid in zip(lives, whole.threads.tid[lives].tolist(), strict=True)
        }
        was_there = (threads.begin_ns == np.uint64(part.begin_ns)).tolist()
        known = zip(threads.tid.tolist(), was_there, strict=True)
        row = np.array([row_of.get(tid, -1) if before else -1 for tid, before in known], np.int64)
        goes_on, new = np.flatnonzero(row >= 0), np.flatnonzero(row < 0)
        joined = appended(whole.threads, threads, new)
        programs = [*whole.programs, *(part.programs[at] for at in new.tolist())]
        rows = row[goes_on]
        # `appended` has just made these columns.
        for name in _SUMS:
            getattr(joined, name)[rows] += getattr(threads, name)[goes_on]
        joined.end_ns[rows] = threads.end_ns[goes_on]
        joined.longest_ns[rows] = np.maximum(joined.longest_ns[rows], threads.longest_ns[goes_on])
        for at, into in zip(goes_on.tolist(), rows.tolist(), strict=True):
            joined.name[into] = threads.name[at]
            programs[into] = part.programs[at]
        self.whole = PartOfThreads(joined, programs, whole.begin_ns, part.end_ns)

    def table(self, rows_of: Callable[[Iterable[ProcessKey | None]], list[int]]) -> ThreadTimes:
        """Return the times of all threads.

        Args:
            rows_of: returns the rows of processes, -1 for none.

        Raises:
            ValueError: there is no part yet.
        """
        if self.whole is None:
            raise ValueError("times of no parts")
        threads, programs, *_ = self.whole
        index = np.array(rows_of(programs), np.int32)
        found = replace(threads, process_index=index)
        return gather(found, np.lexsort((found.begin_ns, found.tid)))


def merged_waits(waits: WaitTable) -> WaitTable:
    """Merge the waits of a thread with the same stack into one, at the time of the last of them.

    Otherwise the waits of a busy machine would use most of a session's memory.
    """
    keys: list[NDArray[Any]] = [
        waits.is_runnable,
        *(waits.process_index, waits.comm_index, waits.location_index, waits.mode),
        *(waits.entry_reason_index, waits.tid),
        *([] if waits.stack_index is None else [waits.stack_index]),
    ]
    place = alike(keys).place
    order = np.lexsort((waits.begin_ns, place))
    is_last = np.append(np.diff(place.take(order)) != 0, True)[: len(order)]
    last = order[is_last]
    length_ns = waits.length_ns.copy()
    np.add.at(length_ns, last.take(place.take(order[~is_last])), length_ns[order[~is_last]])
    return gather(replace(waits, length_ns=length_ns), np.sort(last))


class OpenWaits:
    """The row of each thread's last wait of the last part in the joined waits."""

    def __init__(self) -> None:
        self._row: dict[int, int] = {}

    def renumber(self, is_kept: Bools) -> None:
        """Follow the removal of waits; `is_kept` marks those that stay, bool[w]."""
        new_row = (np.cumsum(is_kept) - 1).tolist()
        self._row = {tid: new_row[row] for tid, row in self._row.items() if is_kept[row]}

    def go_on(
        self, waits: WaitTable, first: int, threads: ThreadTimes, begin_ns: int
    ) -> tuple[WaitTable, I64]:
        """Add the pieces of waits that go on in a part.

        Args:
            waits: all waits so far, the part's last.
            first: the part's first wait.
            threads: those of the part.
            begin_ns: the begin of the part.

        Returns:
            The waits with the pieces, and i64[t] the lengths of these.
        """
        known_ns = np.zeros(len(threads), np.int64)
        waited = np.flatnonzero(
            (threads.begin_ns == np.uint64(begin_ns)) & (threads.since_before_ns > 0)
        )
        tids = threads.tid.take(waited).tolist()
        before = np.array([self._row.get(tid, -1) for tid in tids], np.intp)
        waited, before = waited[before >= 0], before[before >= 0]
        known_ns[waited] = threads.since_before_ns.take(waited)
        pieces = replace(
            gather(waits, before),
            begin_ns=np.full(len(before), begin_ns, np.uint64),
            length_ns=known_ns.take(waited).astype(np.uint64),
        )
        own = first + np.argsort(waits.begin_ns[first:], kind="stable")
        tids = threads.tid.take(waited).tolist()
        self._row = {tid: row for row, tid in enumerate(tids, len(waits))}
        self._row |= dict(zip(waits.tid.take(own).tolist(), own.tolist(), strict=True))
        return appended(waits, pieces, np.arange(len(before))), known_ns


_NOTHING = np.empty(0, np.intp)
_TABLES = (
    *("processes", "objects", "functions", "locations", "entry_reasons", "hits", "samples"),
    *("clocks", "clock_stops", "stacks", "waits"),
)


class JoinedProfile:
    """The parts so far, as one profile.

    It has hits, samples, stacks and times of threads, and the tables that these refer to. It has no
    mappings, exact counts, lines or code; the recording has those. The waits of a thread with one
    stack are one wait a part; so is a part's piece of a wait that began earlier.
    """

    def __init__(self) -> None:
        self._runs: deque[RunInfo] = deque()
        self._losses: deque[LossTable] = deque()
        self._clocks: deque[ClockTable] = deque()
        self._rows = _Rows()
        self._whole: Profile | None = None
        self._threads: deque[PartOfThreads] = deque()
        self._lives = JoinedThreads()
        self._open_waits = OpenWaits()

    def __len__(self) -> int:
        """Return the number of its samples and waits."""
        return _rows(self._whole) if self._whole else 0

    @property
    def parts(self) -> int:
        """The number of its parts."""
        return len(self._runs)

    def end_of_part(self, part: int) -> int:
        """Return the end of a part in ns; the oldest part is 0."""
        return self._runs[part].end_ns

    def profile(self) -> Profile:
        """Return the profile of all parts.

        Raises:
            ValueError: there is no part yet.
        """
        if self._whole is None:
            raise ValueError("a profile of no parts")
        return replace(
            self._whole,
            run=join_runs(self._runs),
            losses=join_losses(self._losses),
            threads=self._lives.table(self._rows.processes) if self._threads else None,
        )

    def add(self, part: Profile) -> None:
        """Add the profile of the next interval.

        `processes.start_ns` of the part has the births of all processes, even before the part.
        """
        self._runs.append(part.run)
        self._losses.append(part.losses)
        self._clocks.append(part.clocks)
        threads = part.threads
        if threads is None:
            self._append(only_used(part))
            return
        first = len(self._whole.waits or ()) if self._whole else 0
        waits = part.waits and merged_waits(part.waits)
        part = replace(part, waits=waits)
        whole = self._append(only_used(part, processes=threads.process_index))
        known_ns = np.zeros(len(threads), np.int64)
        if whole.waits is not None:
            waits, known_ns = self._open_waits.go_on(whole.waits, first, threads, part.run.begin_ns)
            self._whole = replace(whole, waits=waits)
        one = part_of_threads(threads, part.processes, part.run, known_ns)
        self._threads.append(one)
        self._lives.add(one)

    def forget_before(self, time_ns: int) -> None:
        """Drop the parts that ended before `time_ns`, with their samples."""
        if self._whole is None:
            return
        while len(self._runs) > 1 and self._runs[0].end_ns <= time_ns:
            self._runs.popleft()
            self._losses.popleft()
            self._clocks.popleft()
        whole, begin_ns = self._whole, np.uint64(self._runs[0].begin_ns)
        if whole.waits is not None:
            is_kept = whole.waits.begin_ns >= begin_ns
            whole = replace(whole, waits=gather(whole.waits, np.flatnonzero(is_kept)))
            self._open_waits.renumber(is_kept)
        is_kept = whole.samples.time_ns >= begin_ns
        kept = only_used(whole, is_kept, self._forget_threads(int(begin_ns)))
        clocks = kept.clocks
        runs_on = np.flatnonzero(clocks.end_ns > begin_ns)
        row = np.full(len(clocks) + 1, -1, np.int32)
        row[runs_on] = np.arange(len(runs_on), dtype=np.int32)
        begun_ns = np.maximum(clocks.begin_ns, begin_ns)
        clocks = gather(replace(clocks, begin_ns=begun_ns), runs_on)
        kept = replace(
            kept,
            clocks=replace(clocks, lost=lost_in_parts(clocks, self._clocks)),
            clock_stops=_stops_since(kept.clock_stops, row, begin_ns),
        )
        self._rows, self._whole = _Rows(), None
        self._append(kept)

    def _forget_threads(self, begin_ns: int) -> I32:
        """Drop the times of earlier parts; return the processes of the other ones, i32."""
        while self._threads and self._threads[0].begin_ns < begin_ns:
            self._threads.popleft()
        self._lives = JoinedThreads()
        for part in self._threads:
            self._lives.add(part)
        if not self._threads:
            return np.empty(0, np.int32)
        return self._lives.table(self._rows.processes).process_index

    def _append(self, part: Profile) -> Profile:
        whole = self._whole or _without_rows(part)
        # A profile without samples does not show whether samples have stacks.
        if not _rows(whole):
            whole = _with_columns_of(whole, part)
        elif not _rows(part):
            part = _with_columns_of(part, whole)
        self._whole = self._rows.joined(whole, part)
        return self._whole


def _rows(profile: Profile) -> int:
    return len(profile.samples) + len(profile.waits or ())


def _with_columns_of(profile: Profile, other: Profile) -> Profile:
    """Return a profile without samples, with the optional columns of the other one."""
    none = _without_rows(other)
    return replace(profile, samples=none.samples, stacks=none.stacks, waits=none.waits)


def _stops_since(
    stops: ClockStopTable | None, clock: I32, begin_ns: np.uint64
) -> ClockStopTable | None:
    if stops is None:
        return None
    lasts = np.flatnonzero((stops.end_ns >= begin_ns) & (clock[stops.clock_index] >= 0))
    kept = gather(stops, lasts)
    return replace(kept, clock_index=clock[kept.clock_index])


def _without_rows(profile: Profile) -> Profile:
    """Return a profile of the same run with empty tables."""
    tables = ((name, getattr(profile, name)) for name in _TABLES)
    empty = {name: gather(table, _NOTHING) for name, table in tables if table is not None}
    return replace(profile, comms=[], **empty)


class _Numbers:
    """The row of each key, in the order in which keys appeared."""

    def __init__(self) -> None:
        self._row: dict[object, int] = {}

    def rows(self, keys: Iterable[object]) -> list[int]:
        """Return the row of each key, -1 for unknown keys."""
        return [self._row.get(key, -1) for key in keys]

    def find(
        self, keys: Iterable[object], rows: list[int] | None = None
    ) -> tuple[I32, NDArray[np.intp]]:
        """Return i32 the row of each key, and the places of the keys that are new.

        The rows end with -1, so that index -1 stays none.

        Args:
            keys: consumed one by one.
            rows: gets the row of each key before the next key is consumed.
        """
        rows = [] if rows is None else rows
        new = []
        for place, key in enumerate(keys):
            row = self._row.get(key)
            if row is None:
                row = self._row[key] = len(self._row)
                new.append(place)
            rows.append(row)
        rows.append(-1)
        return np.array(rows, np.int32), np.array(new, np.intp)


class _Rows:
    """The rows of the joined tables, by identity."""

    def __init__(self) -> None:
        self._comms = _Numbers()
        self._processes = _Numbers()
        self._objects = _Numbers()
        self._functions = _Numbers()
        self._locations = _Numbers()
        self._entry_reasons = _Numbers()
        self._stacks = _Numbers()
        self._hits = _Numbers()

    def processes(self, keys: Iterable[ProcessKey | None]) -> list[int]:
        """Return the rows of processes, -1 for None."""
        return self._processes.rows(keys)

    def joined(self, whole: Profile, part: Profile) -> Profile:
        """Return `whole` with the part appended."""
        comm, new_comms = self._comms.find(part.comms)
        process, new_processes = self._processes.find(
            tuples(part.processes.pid, part.processes.start_ns)
        )
        of_object, new_objects = self._objects.find(
            zip(part.objects.path, part.objects.kind.tolist(), part.objects.build_id, strict=True)
        )
        functions = replace(part.functions, object_index=of_object[part.functions.object_index])
        function, new_functions = self._functions.find(
            (owner, address, name) if name else (owner, None, source)
            for owner, address, name, source in zip(
                functions.object_index.tolist(),
                functions.address.tolist(),
                functions.linkage_name,
                functions.source.tolist(),
                strict=True,
            )
        )
        locations = replace(part.locations, function_index=function[part.locations.function_index])
        location, new_locations = self._locations.find(
            tuples(locations.function_index, locations.address)
        )
        entry_reason, new_entry_reasons = self._entry_reasons.find(
            zip(part.entry_reasons.kind.tolist(), part.entry_reasons.name, strict=True)
        )

        def renumbered(table: _Placed) -> _Placed:
            return replace(
                table,
                process_index=process[table.process_index],
                comm_index=comm[table.comm_index],
                location_index=location[table.location_index],
                entry_reason_index=entry_reason[table.entry_reason_index],
            )

        hits, hit = self._join_hits(whole.hits, renumbered(part.hits))
        samples = replace(part.samples, hit_index=hit[part.samples.hit_index])
        stacks, stack = self._join_stacks(whole.stacks, part.stacks, location)
        clocks, clock = join_clocks(whole.clocks, part.clocks)
        return replace(
            whole,
            comms=[*whole.comms, *(part.comms[row] for row in new_comms.tolist())],
            processes=_join_processes(whole.processes, part.processes, process, new_processes),
            objects=_join_objects(whole.objects, part.objects, of_object, new_objects),
            functions=appended(whole.functions, functions, new_functions),
            locations=appended(whole.locations, locations, new_locations),
            entry_reasons=appended(whole.entry_reasons, part.entry_reasons, new_entry_reasons),
            hits=hits,
            samples=_join_with_stacks(whole.samples, samples, stack),
            stacks=stacks,
            waits=_join_waits(whole.waits, part.waits and renumbered(part.waits), stack),
            clocks=clocks,
            clock_stops=_join_stops(whole.clock_stops, part.clock_stops, clock),
        )

    def _join_hits(self, whole: HitTable, part: HitTable) -> tuple[HitTable, I32]:
        row, new = self._hits.find(
            tuples(
                part.process_index,
                part.comm_index,
                part.location_index,
                part.mode,
                part.event,
                part.entry_reason_index,
            )
        )
        none = np.zeros(len(part), np.int64)
        table = appended(whole, replace(part, count=none, period=none), new)
        # `appended` has just made these columns.
        np.add.at(table.count, row[:-1], part.count)
        np.add.at(table.period, row[:-1], part.period)
        return table, row

    def _join_stacks(
        self, whole: StackTable | None, part: StackTable | None, location: I32
    ) -> tuple[StackTable | None, I32]:
        if whole is None or part is None:
            return None, np.empty(0, np.int32)
        known = replace(part, location_index=location[part.location_index])
        rows: list[int] = []

        def keys() -> Iterable[tuple[int, int, int]]:
            # A caller is before its callees: its row is known when they are consumed.
            for caller, at, mode in tuples(known.caller_index, known.location_index, known.mode):
                yield rows[caller] if caller >= 0 else -1, at, mode

        row, new = self._stacks.find(keys(), rows)
        caller = row[known.caller_index]
        return appended(whole, replace(known, caller_index=caller), new), row


def _join_processes(
    whole: ProcessTable, part: ProcessTable, row: I32, new: NDArray[np.intp]
) -> ProcessTable:
    """Append new processes; known ones get their current name and end."""
    rows = row[:-1]
    joined = appended(whole, replace(part, parent_index=row[part.parent_index]), new)
    joined.end_ns[rows] = part.end_ns
    for place, name in zip(rows.tolist(), part.name, strict=True):
        joined.name[place] = name
    for whole_column, column in (
        (joined.control_group, part.control_group),
        (joined.service, part.service),
        (joined.image, part.image),
    ):
        if whole_column is not None and column is not None:
            for place, text in zip(rows.tolist(), column, strict=True):
                whole_column[place] = text or whole_column[place]
    return joined


def _join_objects(
    whole: ObjectTable, part: ObjectTable, row: I32, new: NDArray[np.intp]
) -> ObjectTable:
    """Append new objects; known ones get the part's source of names and its note."""
    joined = appended(whole, part, new)
    rows = row[:-1]
    joined.source[rows] = part.source
    for place, note in zip(rows.tolist(), part.note, strict=True):
        joined.note[place] = note
    return joined


def _join_with_stacks(whole: _Stacked, part: _Stacked, stack: I32) -> _Stacked:
    """Append samples or waits of a part, whose stacks have the rows `stack` in the joined table."""
    has_stacks = part.stack_index is not None and len(stack) > 0
    if not has_stacks:  # one of the two has none
        whole = replace(whole, stack_index=None)
    stack_index = stack[part.stack_index] if has_stacks else None
    return appended(whole, replace(part, stack_index=stack_index), np.arange(len(part)))


def _join_waits(whole: WaitTable | None, part: WaitTable | None, stack: I32) -> WaitTable | None:
    if part is None:
        return whole
    before = gather(part, _NOTHING) if whole is None else whole
    return _join_with_stacks(before, part, stack)


def _join_stops(
    whole: ClockStopTable | None, part: ClockStopTable | None, clock: I32
) -> ClockStopTable | None:
    if whole is None or part is None:
        return None
    renumbered = replace(part, clock_index=clock[part.clock_index])
    return appended(whole, renumbered, np.arange(len(part)))
