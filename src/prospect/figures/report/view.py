"""What a report shows, computed once: every renderer formats this and computes nothing itself.

Comes in: a Profile, `-V`, `-m` and `-k`. Goes out: a `ReportView` with the figures of every
section. docs/report.md says what they mean.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.buffers import segments
from prospect.columns.grouping import RowsByGroup, rows_by_group
from prospect.columns.sorting import distinct
from prospect.errors import UsageError
from prospect.figures.by_routine import by_routine
from prospect.figures.causes import CauseFigures, cause_figures
from prospect.figures.portions import PORTION_COUNT, PORTION_USER, ROUNDING_S, event_hits
from prospect.figures.processes import (
    DETAILS,
    Detail,
    ProcessTotals,
    chosen_by_detail,
    ended_by_exec,
    forking_parents,
    process_totals,
    shown_detail,
    throttled,
)
from prospect.figures.ranked_rows import ranked
from prospect.figures.remarks import is_widened, run_notes, run_warnings
from prospect.figures.report.accounting import AccountedTime, accounted_times
from prospect.figures.report.counters import run_counters
from prospect.figures.report.kernel import KernelProfiles, kernel_profiles
from prospect.figures.report.quality import SymbolQuality, symbol_quality
from prospect.figures.report.routines import RoutineTable, RoutineTables, routine_tables
from prospect.figures.report.syscalls import SyscallFigures, SyscallRows, syscall_figures
from prospect.figures.report.waits import without_waits
from prospect.figures.runtime_hints import RuntimeHint, runtime_hints
from prospect.profile.complete import complete
from prospect.profile.memory_map import MemoryMap
from prospect.profile.model import CUT_OBJECT
from prospect.records import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.figures.portions import EventHits
    from prospect.figures.ranked_rows import RankedRows
    from prospect.figures.report.sample_data import DataFigures
    from prospect.figures.report.waiting import Waiting
    from prospect.profile.complete import CompleteProfile, ProfileByRoutine
    from prospect.profile.model import Profile
    from prospect.profile.run_info import EventInfo, Throttled

# Who starts others to do the work, as make does, has less of it than this.
_SMALL_PART = 0.1


class EventView(Record):
    """The figures of one event's hits.

    Attributes:
        event: what was sampled.
        event_index: its row in `RunInfo.events`.
        has_time: whether its hits are worth seconds.
        processes: totals by process row.
        detailed: i64[d] process rows to show in detail, in report order.
        detail_skipped: how many processes `-V` chose that pass no threshold.
        routines: routine tables of `detailed` by process row and portion; see `routine_table`.
        kernel: the kernel's profiles; None where `-V` asks for none.
        quality: where names came from.
        causes: kernel time by cause.
        calls: system calls, sampled and counted.
        chosen_calls: those of all processes that `-V` chooses together, shown or not.
        accounted: sampled time beside the kernel's own accounting, as far as there is any.
        user_threshold_s, kernel_threshold_s: `-m` and `-k`.
    """

    event: EventInfo
    event_index: int
    has_time: bool
    processes: ProcessTotals
    detailed: NDArray[np.int64]
    detail_skipped: int
    routines: RoutineTables
    kernel: KernelProfiles | None
    quality: SymbolQuality
    causes: CauseFigures
    calls: SyscallFigures
    chosen_calls: SyscallRows
    accounted: tuple[AccountedTime, ...]
    user_threshold_s: float
    kernel_threshold_s: float

    @property
    def hits(self) -> NDArray[np.int64]:
        """All hits by portion, i64[PORTION_COUNT]."""
        total: NDArray[np.int64] = self.processes.hits.sum(axis=0)
        return total

    @property
    def seconds(self) -> NDArray[np.float64]:
        """All seconds by portion, f64[PORTION_COUNT]."""
        total: NDArray[np.float64] = self.processes.seconds.sum(axis=0)
        return total

    def routine_rows(self, process: int, portion: int) -> slice:
        """Return where the routines of one portion of one process are in `routines`."""
        group, start = process * PORTION_COUNT + portion, self.routines.start
        return slice(int(start[group]), int(start[group + 1]))

    def ranked_routines(self) -> RankedRows:
        """Return the rows of `routines`: each process's and portion's are ranked apart."""
        tables = self.routines
        length = np.diff(tables.start)
        is_user = np.arange(len(length)) % PORTION_COUNT == PORTION_USER
        threshold_s = np.where(is_user, self.user_threshold_s, self.kernel_threshold_s)
        is_shown = tables.seconds >= np.repeat(threshold_s, length) - ROUNDING_S
        rows = ranked(tables.row_of_hit, is_shown)
        rows.above[tables.start[:-1][length > 0]] = -1
        return rows

    def shown_routines(self, groups: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many rows each of these tables shows, i64[g].

        Args:
            groups: i64[g] processes times PORTION_COUNT, plus the portion.
        """
        tables = self.routines
        begin, length = tables.start[groups], np.diff(tables.start)[groups]
        if not tables.has_time:
            return length
        rows = segments(begin, length)
        is_user = groups % PORTION_COUNT == PORTION_USER
        threshold_s = np.where(is_user, self.user_threshold_s, self.kernel_threshold_s)
        is_shown = tables.seconds[rows] >= np.repeat(threshold_s, length) - ROUNDING_S
        shown = np.append(0, np.cumsum(is_shown))
        ends = np.cumsum(length)
        return np.asarray(shown[ends] - shown[ends - length], np.int64)

    def routine_table(self, process: int, portion: int) -> RoutineTable:
        """Return the routines of one portion of one process, `-m` or `-k` applied."""
        is_user = portion == PORTION_USER
        threshold_s = self.user_threshold_s if is_user else self.kernel_threshold_s
        return self.routines.table(process * PORTION_COUNT + portion, threshold_s)


class ReportView(Record):
    """Every figure of a report.

    Attributes:
        profile: the profile, completed: each index of each table is a row.
        by_routine: the same with fewer hits: what knows no addresses is computed from these.
        detail: the `-V` that is shown; differs from what was asked for where no command is known.
        user_threshold_s, kernel_threshold_s: `-m` and `-k`.
        asked: the `-V` that was asked for.
        notes: what this run could not see and how to get it.
        hints: what names functions of language runtimes, those with most time first.
        warnings: what was lost or damaged.
        counters: Statistics of Run.
        events: one view an event with hits; of the first event where none has any.
        mapping_rows: rows of `profile.mappings` by process.
        parents: i64[p] the row that forked each process, -1 where unknown.
        ended_by_exec: bool[p] rows whose process went on as another program.
        waiting: what threads did and where they waited; None where switches were not recorded.
        data: what event sources say of samples, by event.
        throttled: see `figures.processes.throttled`.
    """

    profile: CompleteProfile
    by_routine: ProfileByRoutine
    detail: Detail
    user_threshold_s: float
    kernel_threshold_s: float
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    counters: dict[str, float]
    events: tuple[EventView, ...]
    mapping_rows: RowsByGroup
    parents: NDArray[np.int64]
    ended_by_exec: NDArray[np.bool_]
    waiting: Waiting | None = None
    hints: tuple[RuntimeHint, ...] = ()
    data: tuple[DataFigures, ...] = ()
    throttled: tuple[Throttled, ...] = ()
    asked: Detail = "4"

    @property
    def is_widened(self) -> bool:
        """Whether every process is shown though the command's own were asked for."""
        return is_widened(self.profile.run, self.asked, self.detail)

    @property
    def has_short_stacks(self) -> bool:
        """Whether stacks were copied, or some are known to be cut."""
        profile = self.profile
        is_cut = bool(profile.run.cut_chains) or CUT_OBJECT in profile.objects.path
        return is_cut or profile.stack_copies is not None

    def memory_map(self, process: int) -> MemoryMap:
        """Return what a process had mapped, in the order of addresses."""
        profile, rows = self.profile, self.mapping_rows.rows(process)
        hit, paths = profile.mappings, profile.objects.path
        unhit = profile.unhit_mappings(process) if profile.unhit_mappings else MemoryMap.empty()
        start = np.concatenate((hit.start.take(rows), unhit.start))
        end = np.concatenate((hit.end.take(rows), unhit.end))
        path = [paths[row] for row in hit.object_index.take(rows).tolist()] + unhit.path
        order = np.lexsort((end, start))
        return MemoryMap(
            start=start[order],
            end=end[order],
            pgoff=np.concatenate((hit.pgoff.take(rows), unhit.pgoff))[order],
            prot=np.concatenate((hit.prot.take(rows), unhit.prot))[order],
            hits=np.concatenate((hit.hits.take(rows), unhit.hits))[order],
            path=[path[row] for row in order.tolist()],
            read_ns=unhit.read_ns,
        )


def report_view(
    profile: Profile,
    detail: Detail = "3",
    user_threshold_s: float = 0.02,
    kernel_threshold_s: float = 0.02,
) -> ReportView:
    """Compute every figure of a report.

    Args:
        profile: what was recorded.
        detail: "2" the command, "3" with its descendants, "4" every process, "k" the kernel only.
        user_threshold_s: `-m`: user time under which rows are left out.
        kernel_threshold_s: `-k`: the same for kernel time.

    Raises:
        UsageError: an unknown detail, or a threshold that is no time.
    """
    if detail not in DETAILS:
        raise UsageError(f"-V {detail} is not one of {', '.join(DETAILS)}")
    for option, threshold_s in (("-m", user_threshold_s), ("-k", kernel_threshold_s)):
        if not (math.isfinite(threshold_s) and threshold_s >= 0):
            raise UsageError(f"{option} {threshold_s} is not a time in seconds of 0 or more")
    whole = complete(profile)
    profile = without_waits(whole)
    added_up = by_routine(profile)
    shown = shown_detail(profile.processes, detail)
    hints = runtime_hints(added_up, shown)
    present = distinct(added_up.hits.event).tolist() or [0]
    events = tuple(
        _event_view(added_up, index, shown, (user_threshold_s, kernel_threshold_s))
        for index in present
    )
    counters = run_counters(profile)
    return ReportView(
        profile=profile,
        by_routine=added_up,
        detail=shown,
        user_threshold_s=user_threshold_s,
        kernel_threshold_s=kernel_threshold_s,
        notes=(
            *run_notes(profile, [view.event for view in events], asked=detail, shown=shown),
            *_descendants_note(profile, events[0], shown),
            *(hint.sentence for hint in hints),
        ),
        hints=hints,
        warnings=run_warnings(profile, counters),
        counters=counters,
        events=events,
        mapping_rows=rows_by_group(profile.mappings.process_index, len(profile.processes)),
        parents=forking_parents(profile.processes),
        ended_by_exec=ended_by_exec(profile.processes),
        waiting=_waiting(whole, shown),
        data=_data(whole, shown),
        asked=detail,
        throttled=throttled(profile, shown),
    )


def _data(profile: CompleteProfile, detail: Detail) -> tuple[DataFigures, ...]:
    if not profile.sample_data:
        return ()
    from prospect.figures.report.sample_data import data_figures  # noqa: PLC0415 - few have any

    return data_figures(profile, detail)


def _waiting(profile: CompleteProfile, detail: Detail) -> Waiting | None:
    if profile.threads is None:
        return None
    from prospect.figures.report.waiting import waiting  # noqa: PLC0415 - of switches only

    return waiting(profile, detail)


def _descendants_note(profile: CompleteProfile, view: EventView, shown: Detail) -> tuple[str, ...]:
    """Say what shows the processes that COMMAND started, where they did nearly all of the work."""
    seconds = view.processes.seconds.sum(axis=1)
    own_s = float(seconds[profile.processes.is_command].sum())
    whole_s = float(seconds[profile.processes.is_descendant].sum())
    if shown != "2" or not view.has_time or own_s >= _SMALL_PART * whole_s:
        return ()
    times = f"COMMAND itself took {own_s:.2f} s of CPU time, with its descendants {whole_s:.2f} s"
    return (f"{times}: -V 3 details that too.",)


def _event_view(
    profile: ProfileByRoutine, event_index: int, detail: Detail, thresholds_s: tuple[float, float]
) -> EventView:
    hits = event_hits(profile, event_index)
    user_threshold_s, kernel_threshold_s = thresholds_s
    totals = process_totals(hits, len(profile.processes), user_threshold_s, kernel_threshold_s)
    chosen = chosen_by_detail(profile.processes, detail)
    calls = syscall_figures(profile, event_index)
    # The command is what was asked about: shown even where it took no time to speak of. Where
    # nothing is to be left out, so is whatever ran at all.
    is_shown = totals.kept | profile.processes.is_command
    if not any(thresholds_s):
        is_shown |= profile.processes.is_descendant | calls.is_calling
    detailed = chosen & is_shown
    return EventView(
        event=hits.event,
        event_index=event_index,
        has_time=hits.has_time,
        processes=totals,
        detailed=totals.order[detailed.take(totals.order)],
        detail_skipped=int(np.count_nonzero(chosen & ~detailed)),
        routines=_routines_of(hits, detailed),
        kernel=(
            kernel_profiles(profile.processes, hits, kernel_threshold_s)
            if detail in ("4", "k")
            else None
        ),
        quality=symbol_quality(profile, hits.of_processes(chosen)),
        causes=cause_figures(profile, event_index, totals, kernel_threshold_s),
        calls=calls,
        chosen_calls=calls.of_processes(chosen),
        accounted=accounted_times(profile, totals, hits.event) if hits.has_time else (),
        user_threshold_s=user_threshold_s,
        kernel_threshold_s=kernel_threshold_s,
    )


def _routines_of(hits: EventHits, detailed: NDArray[np.bool_]) -> RoutineTables:
    by_portion = hits.process * PORTION_COUNT + hits.portion
    group = np.where(detailed.take(hits.process), by_portion, -1)
    return routine_tables(hits, group, len(detailed) * PORTION_COUNT)
