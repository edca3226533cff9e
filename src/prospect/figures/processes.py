"""Processes of a report: their hits and seconds, their order, and the choice of `-V`.

Totals are sorted by user time; thresholds and `-V` choose the processes that are shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.buffers import gather
from prospect.columns.grouping import group_sums
from prospect.figures.modes import (
    KERNEL_MODES,
    MODE_COUNT,
    MODE_USER,
    ROUNDING_S,
    event_has_time,
    event_seconds,
    event_weight,
    hit_modes,
    rows_of_rows,
)
from prospect.figures.shown_rows import unranked
from prospect.profile.complete import complete
from prospect.profile.model import (
    BIRTH_EXEC,
    BIRTH_FORK,
    BIRTH_PREEXISTING,
    CPUMODE_KERNEL,
    ENTRY_REASON_IDLE,
    ENTRY_REASON_NONE,
    ENTRY_REASON_UNCLASSIFIED,
    ENTRY_REASON_UNRECORDED,
)
from prospect.records import Record

if TYPE_CHECKING:
    from prospect.columns.array_types import F64, I32, I64, Bools, Ints
    from prospect.figures.modes import EventHits
    from prospect.figures.shown_rows import RankedRows
    from prospect.options import Detail
    from prospect.profile.complete import CompleteProfile, ProfileByFunction
    from prospect.profile.model import ProcessTable, Profile, WaitTable
    from prospect.profile.run_info import RunInfo, Throttled

DETAILS: tuple[Detail, ...] = ("2", "3", "4", "k")
DETAIL_WORDS: dict[Detail, str] = {
    "2": "the command",
    "3": "the command and its descendants",
    "4": "every process",
    "k": "the kernel",
}
BIRTH_NAMES = {BIRTH_PREEXISTING: "preexisting", BIRTH_FORK: "fork", BIRTH_EXEC: "exec"}
STILL_RUNNING_NS = 2**64 - 1
# Hits of process zero with these entry reasons are idle.
IDLE_ENTRY_REASONS = (ENTRY_REASON_NONE, ENTRY_REASON_UNCLASSIFIED, ENTRY_REASON_UNRECORDED)


class ProcessTotals(Record):
    """Hits and seconds of each process row.

    Attributes:
        hits, seconds: i64 and f64[p, MODE_COUNT].
        kept: bool[p] whether the process passes a threshold: user time over -m, or time of
            another mode over -k; any hit if the event has no time.
        order: i64[p] all rows by descending user time, then the other modes' time, then row.
        row_of_hit: i32 of each hit of the profile, its process times MODE_COUNT, plus its mode; -1
            for hits of other events.
    """

    hits: I64
    seconds: F64
    kept: Bools
    order: I64
    row_of_hit: I32

    @property
    def kept_rows(self) -> I64:
        """The rows that pass a threshold, i64, in report order."""
        return self.order[self.kept.take(self.order)]

    @property
    def skipped_rows(self) -> I64:
        """The other rows, i64, in report order."""
        return self.order[~self.kept.take(self.order)]

    def by_mode(self) -> RankedRows:
        """Return the rows of processes and modes, the kept ones ranked by user time."""
        rows = unranked(self.row_of_hit, self.hits.size)
        user = self.kept_rows * MODE_COUNT + MODE_USER
        rows.above[user[1:]] = user[:-1]
        return rows

    def totals(self) -> RankedRows:
        """Return the modes of all processes together."""
        return self._modes(np.ones_like(self.kept))

    def skipped(self) -> RankedRows:
        """Return the modes of the processes that pass no threshold."""
        return self._modes(~self.kept)

    def _modes(self, chosen: Bools) -> RankedRows:
        mode = np.tile(np.arange(MODE_COUNT, dtype=np.int32), len(chosen))
        mode[~np.repeat(chosen, MODE_COUNT)] = -1
        return unranked(rows_of_rows(self.row_of_hit, mode), MODE_COUNT)


def process_totals(
    hits: EventHits, process_count: int, user_threshold_s: float, kernel_threshold_s: float
) -> ProcessTotals:
    """Sum an event's hits by process and mode."""
    (process, mode), (count, period) = group_sums(
        (hits.process, hits.mode), (hits.count, hits.period)
    )
    count_by = np.zeros((process_count, MODE_COUNT), np.int64)
    seconds_by = np.zeros((process_count, MODE_COUNT))
    count_by[process, mode] = count
    seconds_by[process, mode] = event_seconds(hits.event, count, period)
    if event_has_time(hits.event):
        threshold = np.full(MODE_COUNT, kernel_threshold_s)
        threshold[MODE_USER] = user_threshold_s
        passes = seconds_by > threshold + ROUNDING_S
        weight = seconds_by
    else:
        passes = count_by > 0
        weight = np.zeros((process_count, MODE_COUNT))
        weight[process, mode] = event_weight(hits.event, count, period)
    user = weight[:, MODE_USER]
    order = np.lexsort((user - weight.sum(axis=1), -user))
    row = (hits.process * MODE_COUNT + hits.mode).astype(np.int32)
    return ProcessTotals(
        hits=count_by,
        seconds=seconds_by,
        kept=np.any(passes, axis=1),
        order=order,
        row_of_hit=rows_of_rows(hits.row_of_hit, row),
    )


def asked_for(run: RunInfo, detail: Detail) -> str:
    """Describe the choice of `-V`; processes that were attached to are not a command."""
    words = DETAIL_WORDS[detail]
    return words if run.command else words.replace("the command", "the process")


def shown_detail(processes: ProcessTable, detail: Detail) -> Detail:
    """Return "4" if the command's own processes are requested and none is known, else `detail`."""
    if detail in ("2", "3") and not processes.is_command.any():
        return "4"
    return detail


def chosen_by_detail(processes: ProcessTable, detail: Detail) -> Bools:
    """Return bool[p]: the processes of `-V detail`; for the kernel, all."""
    if detail == "2":
        return processes.is_command
    if detail == "3":
        return processes.is_command | processes.is_descendant
    return np.ones(len(processes), np.bool_)


def shown_processes(processes: ProcessTable, detail: Detail) -> Bools:
    """Return bool[p]: the processes in a report with `-V detail`."""
    return chosen_by_detail(processes, shown_detail(processes, detail))


def throttled(profile: Profile, detail: Detail) -> tuple[Throttled, ...]:
    """Return the limited groups of the processes that `-V` shows, the most throttled first."""
    if not profile.run.throttled:
        return ()
    shown = shown_processes(profile.processes, detail)
    pids = set(profile.processes.pid[shown].tolist())
    found = [one for one in profile.run.throttled if pids.intersection(one.pids)]
    return tuple(sorted(found, key=lambda one: -one.seconds))


def chosen_hits(profile: ProfileByFunction, detail: Detail) -> Bools:
    """Return bool[h]: the hits of a completed profile that `-V` chooses."""
    shown = shown_detail(profile.processes, detail)
    chosen = chosen_by_detail(profile.processes, shown).take(profile.hits.process_index)
    if shown == "k":
        chosen &= np.isin(hit_modes(profile), KERNEL_MODES)
    return chosen


def chosen_waits(profile: CompleteProfile, detail: Detail) -> WaitTable | None:
    """Return the waits of a profile that `-V` chooses; with "k", those in the kernel."""
    waits = profile.waits
    if waits is None:
        return None
    return gather(waits, np.flatnonzero(are_chosen_waits(profile, waits, detail)))


def are_chosen_waits(profile: CompleteProfile, waits: WaitTable, detail: Detail) -> Bools:
    """Return bool[w]: the waits that `-V` chooses; with "k", those in the kernel."""
    chosen = shown_processes(profile.processes, detail).take(waits.process_index)
    if detail == "k":
        chosen = chosen & (waits.mode == CPUMODE_KERNEL)
    return chosen


def idle_hits(profile: ProfileByFunction) -> Bools:
    """Return bool[h]: the hits of a completed profile on an idle CPU."""
    hits = profile.hits
    is_of_zero = (profile.processes.pid == 0).take(hits.process_index)
    return are_idle(profile.entry_reasons.kind.take(hits.entry_reason_index), is_of_zero)


def are_idle(kind: Ints, is_of_zero: Bools) -> Bools:
    """Return the hits on an idle CPU, bool[h].

    Args:
        kind: [h] of their entry reasons.
        is_of_zero: bool[h] whether they are of process zero.
    """
    # Without call chains, hits of idle CPUs do not have ENTRY_REASON_IDLE.
    is_idle: Bools = np.isin(kind, IDLE_ENTRY_REASONS)
    is_idle &= is_of_zero
    is_idle |= kind == ENTRY_REASON_IDLE
    return is_idle


def busy_of_run(run: RunInfo, event_index: int) -> tuple[int, float]:
    """Return the samples of busy CPUs in `RunInfo.busy`, and their time in s."""
    count, period = run.busy[event_index]
    seconds = event_seconds(run.events[event_index], np.full(1, count), np.full(1, period))
    return count, float(seconds[0])


def chosen_locations(profile: Profile, detail: Detail) -> Bools:
    """Return bool[l]: the locations with hits that `-V` chooses."""
    whole, known = complete(profile), len(profile.locations)
    found = np.zeros(known + 1, np.bool_)  # the last for hits without a location
    found[np.minimum(whole.hits.location_index[chosen_hits(whole, detail)], known)] = True
    return found[:known]


def chosen_seconds(profile: Profile, detail: Detail) -> float:
    """Return the time of all hits that `-V` chooses, of the first event that has time."""
    whole = complete(profile)
    hits, chosen = whole.hits, chosen_hits(whole, detail)
    for index, event in enumerate(whole.run.events):
        at = np.flatnonzero(chosen & (hits.event == index))
        if len(at) and event_has_time(event):
            return float(event_seconds(event, hits.count.take(at), hits.period.take(at)).sum())
    return 0.0


def ended_by_exec(processes: ProcessTable) -> Bools:
    """Return bool[p]: the rows that an exec of the process ended."""
    parent = processes.parent_index
    again = (processes.birth == BIRTH_EXEC) & (parent >= 0)
    rows = np.flatnonzero(again)
    above = parent.take(rows)
    same = processes.pid.take(rows) == processes.pid.take(above)
    ended = np.zeros(len(processes), np.bool_)
    ended[above[same]] = True
    return ended


def forking_parents(processes: ProcessTable) -> I64:
    """Return i64[p]: the row of the process that forked each one, -1 if unknown.

    Rows that an exec made are skipped by pointer jumping: a chain of d execs takes log d rounds,
    and a circle in a damaged table ends, too.
    """
    count = len(processes)
    above = processes.parent_index.astype(np.int64)
    up = np.maximum(above, 0)
    same = (above >= 0) & (processes.pid.take(up) == processes.pid)
    first = np.where(same, above, np.arange(count))
    for _ in range(count.bit_length()):
        first = first.take(first)
    parent = above.take(first)
    # A row in a circle of execs never reaches the one that was forked.
    parent[same.take(first)] = -1
    return parent
