"""Profiles of one interval after another → one profile of them all.

Comes in: profiles of the same machine and events in the order of time, such as a live session
makes every few seconds. Goes out: a profile whose rows are the same things: processes are known by
pid and birth, objects by path and build id, functions by object, address and name. What is done
for a part takes a Python step for each of its rows, and a copy of what is there.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.table_rows import appended, taken, tuples
from prospect.figures.selection import only_used
from prospect.live.joined_runs import join_clocks, join_losses, join_runs, lost_in_parts
from prospect.live.joined_threads import JoinedThreads, part_of_threads
from prospect.live.open_waits import OpenWaits, with_merged_waits
from prospect.records import replace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from prospect.live.joined_threads import PartOfThreads, ProcessKey
    from prospect.profile.model import (
        ClockStopTable,
        ClockTable,
        HitTable,
        LossTable,
        ObjectTable,
        ProcessTable,
        Profile,
        SampleTable,
        StackTable,
    )
    from prospect.profile.run_info import RunInfo

_NOTHING = np.empty(0, np.intp)


class JoinedProfile:
    """What was added so far, as one profile.

    It has what hits, samples, stacks and times of threads refer to; no mappings, exact counts,
    lines or code: the recording has those. The waits of a thread with one stack are one sample a
    part; so is a part's piece of a wait that began earlier.
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
        """Return how many samples it has."""
        return len(self._whole.samples) if self._whole else 0

    @property
    def parts(self) -> int:
        """How many parts it has."""
        return len(self._runs)

    def end_of_part(self, part: int) -> int:
        """Return when a part ended, in ns; the oldest is 0."""
        return self._runs[part].end_ns

    def profile(self) -> Profile:
        """Return the profile of all parts.

        Raises:
            ValueError: nothing was added yet.
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
        """Add the profile of an interval that follows the earlier ones.

        Args:
            part: its `processes.start_ns` says of every process when it was born, also where that
                was before the part began.
        """
        self._runs.append(part.run)
        self._losses.append(part.losses)
        self._clocks.append(part.clocks)
        threads = part.threads
        if threads is None:
            self._append(only_used(part))
            return
        first = len(self)
        whole = self._append(only_used(with_merged_waits(part), processes=threads.process_index))
        begin_ns = part.run.begin_ns
        self._whole, known_ns = self._open_waits.go_on(whole, first, threads, begin_ns)
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
        is_kept = whole.samples.time_ns >= begin_ns
        kept = only_used(whole, is_kept, self._forget_threads(int(begin_ns)))
        self._open_waits.renumber(is_kept)
        clocks = kept.clocks
        runs_on = np.flatnonzero(clocks.end_ns > begin_ns)
        row = np.full(len(clocks) + 1, -1, np.int32)
        row[runs_on] = np.arange(len(runs_on), dtype=np.int32)
        begun_ns = np.maximum(clocks.begin_ns, begin_ns)
        clocks = taken(replace(clocks, begin_ns=begun_ns), runs_on)
        kept = replace(
            kept,
            clocks=replace(clocks, lost=lost_in_parts(clocks, self._clocks)),
            clock_stops=_stops_since(kept.clock_stops, row, begin_ns),
        )
        self._rows, self._whole = _Rows(), None
        self._append(kept)

    def _forget_threads(self, begin_ns: int) -> NDArray[np.int32]:
        """Drop the times of parts before; return the processes of the others, i32."""
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
        # Whether what has no samples would have had stacks is not known.
        if not len(whole.samples):
            whole = _with_columns_of(whole, part)
        elif not len(part.samples):
            part = _with_columns_of(part, whole)
        self._whole = self._rows.joined(whole, part)
        return self._whole


def _with_columns_of(profile: Profile, other: Profile) -> Profile:
    """Return a profile without samples, as if its samples had what those of the other have."""
    none_of_other = _without_rows(other)
    return replace(profile, samples=none_of_other.samples, stacks=none_of_other.stacks)


def _stops_since(
    stops: ClockStopTable | None, clock: NDArray[np.int32], begin_ns: np.uint64
) -> ClockStopTable | None:
    if stops is None:
        return None
    lasts = np.flatnonzero((stops.end_ns >= begin_ns) & (clock[stops.clock_index] >= 0))
    kept = taken(stops, lasts)
    return replace(kept, clock_index=clock[kept.clock_index])


def _without_rows(profile: Profile) -> Profile:
    """Return what a profile says of its run, with tables without a row."""
    stops, stacks = profile.clock_stops, profile.stacks
    return replace(
        profile,
        comms=[],
        processes=taken(profile.processes, _NOTHING),
        objects=taken(profile.objects, _NOTHING),
        functions=taken(profile.functions, _NOTHING),
        locations=taken(profile.locations, _NOTHING),
        causes=taken(profile.causes, _NOTHING),
        hits=taken(profile.hits, _NOTHING),
        samples=taken(profile.samples, _NOTHING),
        clocks=taken(profile.clocks, _NOTHING),
        clock_stops=stops and taken(stops, _NOTHING),
        stacks=stacks and taken(stacks, _NOTHING),
    )


class _Numbers:
    """The row of each key, in the order in which they were met."""

    def __init__(self) -> None:
        self._row: dict[object, int] = {}

    def rows(self, keys: Iterable[object]) -> list[int]:
        """Return the row of each key, -1 for those that were not met."""
        return [self._row.get(key, -1) for key in keys]

    def find(
        self, keys: Iterable[object], rows: list[int] | None = None
    ) -> tuple[NDArray[np.int32], NDArray[np.intp]]:
        """Return i32 the row of each key, and which keys are the first of a new row.

        Behind the rows stands -1: what was no row is none.

        Args:
            keys: asked for one by one.
            rows: takes the row of each key before the next is asked for.
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
    """Which row each thing has in the joined tables."""

    def __init__(self) -> None:
        self._comms = _Numbers()
        self._processes = _Numbers()
        self._objects = _Numbers()
        self._functions = _Numbers()
        self._locations = _Numbers()
        self._causes = _Numbers()
        self._stacks = _Numbers()
        self._hits = _Numbers()

    def processes(self, keys: Iterable[ProcessKey | None]) -> list[int]:
        """Return the rows of processes, -1 for None."""
        return self._processes.rows(keys)

    def joined(self, whole: Profile, part: Profile) -> Profile:
        """Return `whole` with the part behind it."""
        comm, new_comms = self._comms.find(part.comms)
        process, new_processes = self._processes.find(
            tuples(part.processes.pid, part.processes.start_ns)
        )
        of_object, new_objects = self._objects.find(_object_keys(part.objects))
        functions = replace(part.functions, object_index=of_object[part.functions.object_index])
        function, new_functions = self._functions.find(
            (owner, address, name) if name else (owner, None, source)
            for owner, address, name, source in zip(
                functions.object_index.tolist(),
                functions.address.tolist(),
                functions.raw_name,
                functions.source.tolist(),
                strict=True,
            )
        )
        locations = replace(part.locations, function_index=function[part.locations.function_index])
        location, new_locations = self._locations.find(
            tuples(locations.function_index, locations.address)
        )
        cause, new_causes = self._causes.find(
            zip(part.causes.kind.tolist(), part.causes.name, strict=True)
        )
        hits, hit = self._join_hits(
            whole.hits,
            replace(
                part.hits,
                process_index=process[part.hits.process_index],
                comm_index=comm[part.hits.comm_index],
                location_index=location[part.hits.location_index],
                cause_index=cause[part.hits.cause_index],
            ),
        )
        stacks, stack = self._join_stacks(whole.stacks, part.stacks, location)
        clocks, clock = join_clocks(whole.clocks, part.clocks)
        return replace(
            whole,
            comms=[*whole.comms, *(part.comms[row] for row in new_comms.tolist())],
            processes=_join_processes(whole.processes, part.processes, process, new_processes),
            objects=_join_objects(whole.objects, part.objects, of_object, new_objects),
            functions=appended(whole.functions, functions, new_functions),
            locations=appended(whole.locations, locations, new_locations),
            causes=appended(whole.causes, part.causes, new_causes),
            hits=hits,
            samples=_join_samples(whole.samples, part.samples, hit, stack),
            stacks=stacks,
            clocks=clocks,
            clock_stops=_join_stops(whole.clock_stops, part.clock_stops, clock),
        )

    def _join_hits(self, whole: HitTable, part: HitTable) -> tuple[HitTable, NDArray[np.int32]]:
        row, new = self._hits.find(
            tuples(
                part.process_index,
                part.comm_index,
                part.location_index,
                part.mode,
                part.event,
                part.cause_index,
            )
        )
        none = np.zeros(len(part), np.int64)
        table = appended(whole, replace(part, count=none, period=none), new)
        # The columns are new ones: nobody else has them yet.
        np.add.at(table.count, row[:-1], part.count)
        np.add.at(table.period, row[:-1], part.period)
        return table, row

    def _join_stacks(
        self, whole: StackTable | None, part: StackTable | None, location: NDArray[np.int32]
    ) -> tuple[StackTable | None, NDArray[np.int32]]:
        if whole is None or part is None:
            return None, np.empty(0, np.int32)
        known = replace(part, location_index=location[part.location_index])
        rows: list[int] = []

        def keys() -> Iterable[tuple[int, int, int]]:
            # A caller's row is known when its callees' are asked for: it stands before them.
            for caller, at, mode in tuples(known.caller_index, known.location_index, known.mode):
                yield rows[caller] if caller >= 0 else -1, at, mode

        row, new = self._stacks.find(keys(), rows)
        caller = row[known.caller_index]
        return appended(whole, replace(known, caller_index=caller), new), row


def _object_keys(objects: ObjectTable) -> Iterable[tuple[object, ...]]:
    return zip(objects.path, objects.kind.tolist(), objects.build_id, strict=True)


def _join_processes(
    whole: ProcessTable, part: ProcessTable, row: NDArray[np.int32], new: NDArray[np.intp]
) -> ProcessTable:
    """Append new processes; those that are known have the name and end that they have now."""
    rows = row[:-1]
    joined = appended(whole, replace(part, parent_index=row[part.parent_index]), new)
    joined.end_ns[rows] = part.end_ns
    for place, name in zip(rows.tolist(), part.name, strict=True):
        joined.name[place] = name
    if joined.control_group is not None and part.control_group is not None:
        for place, group in zip(rows.tolist(), part.control_group, strict=True):
            joined.control_group[place] = group or joined.control_group[place]
    return joined


def _join_objects(
    whole: ObjectTable, part: ObjectTable, row: NDArray[np.int32], new: NDArray[np.intp]
) -> ObjectTable:
    """Append new objects; where most names came from, and why not, is as the part has it."""
    joined = appended(whole, part, new)
    rows = row[:-1]
    joined.source[rows] = part.source
    for place, note in zip(rows.tolist(), part.note, strict=True):
        joined.note[place] = note
    return joined


def _join_samples(
    whole: SampleTable, part: SampleTable, hit: NDArray[np.int32], stack: NDArray[np.int32]
) -> SampleTable:
    has_stacks = part.stack_index is not None and len(stack) > 0
    if not has_stacks:  # one of the two has none
        whole = replace(whole, stack_index=None)
    renumbered = replace(
        part,
        hit_index=hit[part.hit_index],
        stack_index=stack[part.stack_index] if has_stacks else None,
    )
    return appended(whole, renumbered, np.arange(len(part)))


def _join_stops(
    whole: ClockStopTable | None, part: ClockStopTable | None, clock: NDArray[np.int32]
) -> ClockStopTable | None:
    if whole is None or part is None:
        return None
    renumbered = replace(part, clock_index=clock[part.clock_index])
    return appended(whole, renumbered, np.arange(len(part)))
