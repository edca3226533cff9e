"""The figures of a report that are counted from its samples, each computed when first read.

`prospect.estimate.finished_report` adds the estimates. docs/report.md explains the figures.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.buffers import segments
from prospect.columns.grouping import RowsByGroup, rows_by_group
from prospect.columns.sorting import distinct
from prospect.errors import UsageError
from prospect.figures.entry_reasons import EntryReasonFigures, entry_reason_figures
from prospect.figures.modes import MODE_COUNT, MODE_USER, ROUNDING_S, event_has_time, event_hits
from prospect.figures.processes import (
    DETAILS,
    ProcessTotals,
    chosen_by_detail,
    ended_by_exec,
    forking_parents,
    process_totals,
    shown_detail,
    throttled,
)
from prospect.figures.remarks import is_widened, run_notes, run_warnings
from prospect.figures.report.accounting import AccountedTime, accounted_times
from prospect.figures.report.counters import run_counters
from prospect.figures.report.function_profiles import (
    FunctionProfile,
    FunctionProfiles,
    KernelProfiles,
    function_tables,
    kernel_profiles,
)
from prospect.figures.report.symbol_quality import (
    RuntimeHint,
    SymbolQuality,
    runtime_hints,
    symbol_quality,
)
from prospect.figures.report.syscalls import SyscallFigures, SyscallRows, syscall_figures
from prospect.figures.selection import by_function
from prospect.figures.shown_rows import ranked
from prospect.profile.complete import complete
from prospect.profile.model import CUT_OBJECT
from prospect.profile.optional_tables import MemoryMap

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from prospect.columns.array_types import F64, I64, Bools
    from prospect.figures.modes import EventHits
    from prospect.figures.report.event_figures import DataFigures, SideBySide
    from prospect.figures.report.waiting import Waiting
    from prospect.figures.shown_rows import RankedRows
    from prospect.figures.stacks.stack_quality import StackQuality
    from prospect.options import Detail
    from prospect.profile.complete import CompleteProfile, ProfileByFunction
    from prospect.profile.model import Profile
    from prospect.profile.run_info import EventInfo, Throttled

# A command that starts others to do the work, as make does, has a smaller share of it.
_SMALL_PART = 0.1


class EventView:
    """The figures of one event's hits."""

    def __init__(self, report: ReportView, event_index: int) -> None:
        self.report = report
        self.event_index = event_index
        self.event: EventInfo = report.by_function.run.events[event_index]

    @cached_property
    def _by_function(self) -> EventHits:
        return event_hits(self.report.by_function, self.event_index)

    @cached_property
    def _is_chosen(self) -> Bools:
        """The processes that `-V` chooses, bool[p]."""
        return chosen_by_detail(self.report.profile.processes, self.report.detail)

    @cached_property
    def _is_detailed(self) -> Bools:
        # The command is shown even if it took hardly any time. Without thresholds, every process
        # that ran is shown.
        report, processes = self.report, self.report.profile.processes
        is_shown = self.processes.kept | processes.is_command
        if not (report.user_threshold_s or report.kernel_threshold_s):
            is_shown |= processes.is_descendant | self.calls.is_calling
        return self._is_chosen & is_shown

    @property
    def has_time(self) -> bool:
        """Whether its hits are time."""
        return event_has_time(self.event)

    @cached_property
    def processes(self) -> ProcessTotals:
        """Totals by process row."""
        report = self.report
        return process_totals(
            self._by_function,
            len(report.profile.processes),
            report.user_threshold_s,
            report.kernel_threshold_s,
        )

    @cached_property
    def detailed(self) -> I64:
        """The process rows to show in detail, i64[d], in report order."""
        order = self.processes.order
        rows: I64 = order[self._is_detailed.take(order)]
        return rows

    @property
    def detail_skipped(self) -> int:
        """How many processes `-V` chose that pass no threshold."""
        return int(np.count_nonzero(self._is_chosen & ~self._is_detailed))

    @cached_property
    def functions(self) -> FunctionProfiles:
        """Function tables of `detailed` by process row and mode; see `function_table`."""
        hits, detailed = self._by_function, self._is_detailed
        by_mode = hits.process * MODE_COUNT + hits.mode
        group = np.where(detailed.take(hits.process), by_mode, -1)
        return function_tables(hits, group, len(detailed) * MODE_COUNT)

    @cached_property
    def kernel(self) -> KernelProfiles | None:
        """The kernel's profiles; None if `-V` chooses none."""
        report = self.report
        if report.detail not in ("4", "k"):
            return None
        processes = report.profile.processes
        return kernel_profiles(processes, self._by_function, report.kernel_threshold_s)

    @cached_property
    def quality(self) -> SymbolQuality:
        """The sources of names."""
        chosen = self._by_function.of_processes(self._is_chosen)
        return symbol_quality(self.report.by_function, chosen)

    @cached_property
    def entry_reasons(self) -> EntryReasonFigures:
        """Kernel time by entry reason."""
        report = self.report
        return entry_reason_figures(
            report.by_function, self.event_index, self.processes, report.kernel_threshold_s
        )

    @cached_property
    def calls(self) -> SyscallFigures:
        """System calls, sampled and counted."""
        return syscall_figures(self.report.by_function, self.event_index)

    @cached_property
    def chosen_calls(self) -> SyscallRows:
        """Those of all processes together that `-V` chooses, shown or not."""
        return self.calls.of_processes(self._is_chosen)

    @property
    def accounted(self) -> tuple[AccountedTime, ...]:
        """Sampled time and the kernel's own accounting of the same, if there is any."""
        if not self.has_time:
            return ()
        return accounted_times(self.report.by_function, self.processes, self.event)

    @property
    def hits(self) -> I64:
        """All hits by mode, i64[MODE_COUNT]."""
        total: I64 = self.processes.hits.sum(axis=0)
        return total

    @property
    def seconds(self) -> F64:
        """All seconds by mode, f64[MODE_COUNT]."""
        total: F64 = self.processes.seconds.sum(axis=0)
        return total

    @property
    def _thresholds_s(self) -> tuple[float, float]:
        return self.report.user_threshold_s, self.report.kernel_threshold_s

    def function_rows(self, process: int, mode: int) -> slice:
        """Return the rows in `functions` of one mode of one process."""
        group, start = process * MODE_COUNT + mode, self.functions.start
        return slice(int(start[group]), int(start[group + 1]))

    def ranked_functions(self) -> RankedRows:
        """Return the rows of `functions`: each process and mode is ranked separately."""
        tables = self.functions
        length = np.diff(tables.start)
        is_user = np.arange(len(length)) % MODE_COUNT == MODE_USER
        threshold_s = np.where(is_user, *self._thresholds_s)
        is_shown = tables.seconds >= np.repeat(threshold_s, length) - ROUNDING_S
        rows = ranked(tables.row_of_hit, is_shown)
        rows.above[tables.start[:-1][length > 0]] = -1
        return rows

    def shown_functions(self, groups: I64) -> I64:
        """Return how many rows each of these tables shows, i64[g].

        `groups`, i64[g], are processes times MODE_COUNT, plus the mode.
        """
        tables = self.functions
        begin, length = tables.start[groups], np.diff(tables.start)[groups]
        if not tables.has_time:
            return length
        rows = segments(begin, length)
        is_user = groups % MODE_COUNT == MODE_USER
        threshold_s = np.where(is_user, *self._thresholds_s)
        is_shown = tables.seconds[rows] >= np.repeat(threshold_s, length) - ROUNDING_S
        shown = np.append(0, np.cumsum(is_shown))
        ends = np.cumsum(length)
        return np.asarray(shown[ends] - shown[ends - length], np.int64)

    def function_table(self, process: int, mode: int) -> FunctionProfile:
        """Return the functions of one mode of one process, `-m` or `-k` applied."""
        user_s, kernel_s = self._thresholds_s
        threshold_s = user_s if mode == MODE_USER else kernel_s
        return self.functions.table(process * MODE_COUNT + mode, threshold_s)


class ReportView:
    """The figures of a report.

    Its events refer to it. A ``with`` statement removes them; otherwise large profiles stay in
    memory until the next garbage collection.

    Attributes:
        profile: completed.
        asked: the `-V` of the user.
        user_threshold_s, kernel_threshold_s: `-m` and `-k`.
    """

    def __init__(
        self,
        profile: Profile,
        detail: Detail = "3",
        user_threshold_s: float = 0.02,
        kernel_threshold_s: float = 0.02,
    ) -> None:
        """Check the options.

        Args:
            detail: "2" the command, "3" with its descendants, "4" every process, "k" the kernel.
            user_threshold_s: `-m`: rows with less user time are left out.
            kernel_threshold_s: `-k`: the same for kernel time.

        Raises:
            UsageError: an unknown detail, or an invalid threshold.
        """
        if detail not in DETAILS:
            raise UsageError(f"-V {detail} is not one of {', '.join(DETAILS)}")
        for option, threshold_s in (("-m", user_threshold_s), ("-k", kernel_threshold_s)):
            if not (math.isfinite(threshold_s) and threshold_s >= 0):
                raise UsageError(f"{option} {threshold_s} is not a time in seconds of 0 or more")
        self.profile: CompleteProfile = complete(profile)
        self.asked = detail
        self.user_threshold_s = user_threshold_s
        self.kernel_threshold_s = kernel_threshold_s

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.__dict__.pop("events", None)

    @cached_property
    def by_function(self) -> ProfileByFunction:
        """The same with fewer hits, for figures without addresses."""
        return by_function(self.profile)

    @cached_property
    def detail(self) -> Detail:
        """The `-V` that is shown; differs from the user's if no command is known."""
        return shown_detail(self.profile.processes, self.asked)

    def present_events(self) -> list[int]:
        """Return the rows of the events with hits; of the first event if none has any."""
        return distinct(self.by_function.hits.event).tolist() or [0]

    @cached_property
    def events(self) -> Sequence[EventView]:
        """The events with hits, or the first event."""
        return tuple(EventView(self, index) for index in self.present_events())

    @cached_property
    def hints(self) -> tuple[RuntimeHint, ...]:
        """Ways to name functions of language runtimes, those with most time first."""
        return runtime_hints(self.by_function, self.detail)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Limits of this run, with their remedies."""
        events = [view.event for view in self.events]
        return (
            *run_notes(self.profile, events, asked=self.asked, shown=self.detail),
            *_descendants_note(self.profile, self.events[0], self.detail),
            *(hint.sentence for hint in self.hints),
        )

    @cached_property
    def counters(self) -> dict[str, float]:
        """Statistics of Run."""
        return run_counters(self.profile)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Sentences on losses and damage."""
        return run_warnings(self.profile, self.counters)

    @cached_property
    def mapping_rows(self) -> RowsByGroup:
        """Rows of `profile.mappings` by process."""
        return rows_by_group(self.profile.mappings.process_index, len(self.profile.processes))

    @cached_property
    def parents(self) -> I64:
        """The row that forked each process, i64[p], -1 if unknown."""
        return forking_parents(self.profile.processes)

    @cached_property
    def ended_by_exec(self) -> Bools:
        """The rows that an exec of the process ended, bool[p]."""
        return ended_by_exec(self.profile.processes)

    @cached_property
    def waiting(self) -> Waiting | None:
        """The lives of threads and their waits; None if switches were not recorded."""
        if self.profile.threads is None:
            return None
        from prospect.figures.report.waiting import waiting  # noqa: PLC0415 - of switches only

        return waiting(self.profile, self.detail)

    @cached_property
    def data(self) -> tuple[DataFigures, ...]:
        """The data that event sources attached to samples, by event."""
        if not self.profile.sample_data:
            return ()
        from prospect.figures.report.event_figures import data_figures  # noqa: PLC0415 - few have any

        return data_figures(self.profile, self.detail)

    @cached_property
    def throttled(self) -> tuple[Throttled, ...]:
        """See `figures.processes.throttled`."""
        return throttled(self.profile, self.detail)

    @property
    def is_widened(self) -> bool:
        """Whether every process is shown although only the command's were requested."""
        return is_widened(self.profile.run, self.asked, self.detail)

    @cached_property
    def stack_quality(self) -> StackQuality | None:
        """How far call stacks can be trusted; None if none was copied or cut."""
        if not self.has_short_stacks:
            return None
        from prospect.figures.stacks.stack_quality import stack_quality  # noqa: PLC0415 - few have any

        return stack_quality(self.profile, self.detail)

    @cached_property
    def side_by_side(self) -> SideBySide:
        """The hits of each function by event."""
        from prospect.figures.report.event_figures import side_by_side  # noqa: PLC0415 - of several events only

        return side_by_side(self.profile, [event.event_index for event in self.events], self.detail)

    @property
    def has_short_stacks(self) -> bool:
        """Whether stacks were copied, or some are known to be cut."""
        profile = self.profile
        is_cut = bool(profile.run.cut_chains) or CUT_OBJECT in profile.objects.path
        return is_cut or profile.stack_copies is not None

    def memory_map(self, process: int) -> MemoryMap:
        """Return the mappings of a process, in the order of addresses."""
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


def _descendants_note(profile: CompleteProfile, view: EventView, shown: Detail) -> tuple[str, ...]:
    """Name the option for COMMAND's descendants, if they did nearly all of the work."""
    seconds = view.processes.seconds.sum(axis=1)
    own_s = float(seconds[profile.processes.is_command].sum())
    whole_s = float(seconds[profile.processes.is_descendant].sum())
    if shown != "2" or not view.has_time or own_s >= _SMALL_PART * whole_s:
        return ()
    times = f"COMMAND itself took {own_s:.2f} s of CPU time, with its descendants {whole_s:.2f} s"
    return (f"{times}: -V 3 details that too.",)
