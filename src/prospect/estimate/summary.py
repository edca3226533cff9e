"""The report in short: the programs and functions with most time, and their errors.

It is of one event and of the processes that `-V` chooses. Idle CPUs and Prospect itself are in no
row.
"""

from __future__ import annotations

import math
from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.grouping import group_sums
from prospect.columns.sorting import distinct, run_starts
from prospect.estimate.breakdown import Bound, breakdown
from prospect.estimate.errors.error_bars import half_widths, parts_of
from prospect.estimate.wall_seconds import WallTime, wall_seconds
from prospect.figures.entry_reasons import ENTRY_REASON_KIND_NAMES
from prospect.figures.hit_keys import hit_keys
from prospect.figures.modes import MODE_COUNT, MODE_USER, hit_modes
from prospect.figures.processes import busy_of_run, chosen_by_detail, chosen_hits, idle_hits
from prospect.figures.shown_rows import main_callers, shown_name, shown_names
from prospect.profile.model import ENTRY_REASON_NONE
from prospect.profile.naming import NameSource
from prospect.records import NamedTuple, Record, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prospect.columns.array_types import F64, I64, Bools
    from prospect.estimate.breakdown import Breakdown
    from prospect.estimate.errors.error_bars import Parts
    from prospect.estimate.finished_report import EventReport
    from prospect.estimate.with_callees import CalleesRow
    from prospect.figures.hit_keys import Keys
    from prospect.profile.run_info import EventInfo

MOST_SERVICES = MOST_PROGRAMS = 3
MOST_FUNCTIONS = 5
_MOST_ENTRY_REASONS = 4
_MOST_OTHERS = 3
_OF_COMMAND = ("2", "3")
# Other programs are named if they used as much as the chosen ones, and this share of all CPUs.
_LEAST_OF_OTHERS = 0.05
_BRACKETS = (NameSource.BRACKET, NameSource.BOUNDS)


class _WallOfRows:
    """The wall time of each row of a table, computed for formats that show it."""

    def __init__(self, of_hit: Callable[[], F64 | None], table: Breakdown) -> None:
        self._of_hit, self._table = of_hit, table

    @cached_property
    def seconds(self) -> list[float]:
        """Seconds of each row; NaN if samples do not show them."""
        of_hit = self._of_hit()
        if of_hit is None:
            return [math.nan] * len(self._table)
        seconds: list[float] = self._table.sums_of(of_hit).tolist()
        return seconds


class ProgramRow(NamedTuple):
    """A program: all processes of a name together.

    Attributes:
        processes: how many there were.
        seconds, half_width_s: time, and half of its 95 % interval; NaN if the event has none.
        user_share: in user mode, 0 to 1.
        by_mode: seconds, or hits if there is no time, by mode.
        service: the service, container or other control group with most of its hits, "" for none.
        other_services: how many others have hits.
        wall, row: the wall time of all rows, and its number among them.
    """

    name: str
    processes: int
    hits: int
    seconds: float
    half_width_s: float
    user_share: float
    by_mode: tuple[float, ...]
    service: str = ""
    other_services: int = 0
    wall: _WallOfRows | None = None
    row: int = 0

    @property
    def wall_s(self) -> float:
        """Wall time (`estimate.wall_seconds`), NaN if samples do not show it."""
        return self.wall.seconds[self.row] if self.wall else math.nan


class OtherRow(NamedTuple):
    """A program that was not chosen: its name, main service ("" for none) and seconds."""

    name: str
    service: str
    seconds: float


class ServiceRow(NamedTuple):
    """A service, container or other control group: all of its processes together.

    Attributes:
        name: "" for processes in none.
        hits, seconds, half_width_s, user_share: as in `ProgramRow`.
        program: the one with most of its hits.
        other_programs: how many others have hits.
    """

    name: str
    hits: int
    seconds: float
    half_width_s: float
    user_share: float
    program: str
    other_programs: int


class FunctionRow(NamedTuple):
    """A function, of all programs together or of one process.

    Attributes:
        function: row of the profile's functions.
        name: or in brackets why it has none.
        object_path: of the mapped object with its code.
        hits, seconds, half_width_s: as in `ProgramRow`; its own, without its callees.
        share: of all chosen hits, 0 to 1.
        is_like_above: whether it ties with the row above.
        program: the one with most of its time.
        other_programs: how many others have hits.
        caller: its most frequent caller, "" if unknown.
        pid: of its process, -1 for all.
        caller_object: the file of the caller's code.
        wall, row: as in `ProgramRow`.
    """

    function: int
    name: str
    object_path: str
    hits: int
    seconds: float
    half_width_s: float
    share: float
    is_like_above: bool
    program: str
    other_programs: int
    caller: str
    pid: int = -1
    caller_object: str = ""
    wall: _WallOfRows | None = None
    row: int = 0

    @property
    def wall_s(self) -> float:
        """As in `ProgramRow`."""
        return self.wall.seconds[self.row] if self.wall else math.nan


class Summary(Record):
    """The first screen of a report.

    Attributes:
        has_time: whether hits are time: samples of a timer.
        hits, seconds, half_width_s: of all chosen hits.
        busy_s: of all processes of the system but idle CPUs; NaN if not all were sampled.
        busy_share: of all CPUs' time, 0 to 1; the same.
        programs, functions: the first ones, or all down to the least time that is shown.
        more_programs, more_functions: how many others there are.
        with_callees: the functions that spend most with all that they call, beyond the trivial;
            none if callers in user space are unknown.
        needed_s: the length of a run that would separate the first functions; 0 if they
            are, infinite if no run would do.
        entry_reasons: most time first: name, and seconds or hits.
        kernel_s: time in the kernel, interrupts included; hits if there is no time.
        nameless: share of the hits in code without names, 0 to 1.
        nameless_source: the most frequent reason for that; None if all have names.
        bracketed: share of the hits between two named functions, 0 to 1.
        seen_s: time of all CPUs without that of lost ticks; 0 if unknown.
        has_services: whether more than one control group has chosen hits.
        services: the first ones, of a store's part that has more than one; else none.
        more_services: how many others there are.
        wall: the wall time of a command or of attached processes; None for the whole system, and
            if samples do not show it.
        others_s: CPU time of all programs that were not chosen, without Prospect's own.
        others: those of them with most time, if together they used more than the chosen ones.
    """

    has_time: bool
    event: EventInfo
    hits: int
    seconds: float
    half_width_s: float
    busy_s: float
    busy_share: float
    programs: tuple[ProgramRow, ...]
    more_programs: int
    functions: tuple[FunctionRow, ...]
    more_functions: int
    needed_s: float
    entry_reasons: tuple[tuple[str, float], ...]
    kernel_s: float
    nameless: float
    nameless_source: NameSource | None = None
    bracketed: float = 0.0
    seen_s: float = 0.0
    has_services: bool = False
    services: tuple[ServiceRow, ...] = ()
    more_services: int = 0
    with_callees: tuple[CalleesRow, ...] = ()
    wall: WallTime | None = None
    others_s: float = 0.0
    others: tuple[OtherRow, ...] = ()

    @property
    def first_programs(self) -> tuple[ProgramRow, ...]:
        """Those of the first screen."""
        return self.programs[:MOST_PROGRAMS]

    @property
    def first_functions(self) -> tuple[FunctionRow, ...]:
        """Those of the first screen."""
        return self.functions[:MOST_FUNCTIONS]

    def first_with_callees(self, most: int) -> tuple[CalleesRow, ...]:
        """Return those for `most` lines: the user's own functions are chosen before others."""
        by_worth = sorted(self.with_callees, key=lambda row: not row.is_own)
        shown = by_worth[:most]
        return tuple(row for row in self.with_callees if row in shown)

    @property
    def programs_after(self) -> int:
        """How many programs are not in the first screen."""
        return self.more_programs + len(self.programs) - len(self.first_programs)

    @property
    def functions_after(self) -> int:
        """How many functions are not in the first screen."""
        return self.more_functions + len(self.functions) - len(self.first_functions)


def summary(event: EventReport, least_s: float = np.inf) -> Summary:
    """Sum an event of a report up.

    Rows beyond those of the first screen have at least `least_s` seconds.
    """
    return replace(_Builder(event).made(least_s), with_callees=event.with_callees)


def functions_by_process(event: EventReport, least_s: float) -> tuple[tuple[FunctionRow, ...], int]:
    """Return the functions of each process, and how many have less time than `least_s`."""
    return _Builder(event).by_process(least_s)


class _Builder:
    """The common state of the parts: the chosen hits, and their owners."""

    def __init__(self, event: EventReport) -> None:
        report, design = event.report, event.design
        profile = report.by_function
        hits, processes = profile.hits, profile.processes
        self._detail, self._design, self._profile = report.detail, design, profile
        self._event = event.event
        self._entry_reason_kind = profile.entry_reasons.kind.take(hits.entry_reason_index)
        is_busy = (hits.event == event.event_index) & ~idle_hits(profile)
        if profile.run.busy:
            self._busy_hits, self._busy_s = busy_of_run(profile.run, event.event_index)
        else:
            self._busy_hits = int(hits.count[is_busy].sum())
            self._busy_s = float(design.seconds[is_busy].sum())
        self._is_work = is_busy & ~processes.is_recorder.take(hits.process_index)
        self._chosen = self._is_work & chosen_hits(profile, report.detail)
        self._function = profile.locations.function_index.take(hits.location_index).astype(np.int64)
        self._program = hit_keys(profile, "program")
        self._service = hit_keys(profile, "service")

    @cached_property
    def _wall_by_hit(self) -> F64 | None:
        return wall_seconds(self._profile, self._design, self._chosen)

    def made(self, least_s: float) -> Summary:
        """Return the summary."""
        chosen, hits = self._chosen, self._profile.hits
        programs = self._table([self._program.number], Bound(MOST_PROGRAMS, least_s))
        functions = self._table([self._function], Bound(MOST_FUNCTIONS, least_s))
        count = int(hits.count[chosen].sum())
        every = np.where(chosen, 0, -1).astype(np.int32)
        has_services = len(distinct(self._service.number[chosen])) > 1
        # A store is for operators, who know services.
        shows_services = has_services and bool(self._profile.run.store_part)
        services = self._table([self._service.number], Bound(MOST_SERVICES * shows_services))
        parts = parts_of(
            self._design, (every, programs.row_of_hit, functions.row_of_hit, services.row_of_hit)
        )
        rows, needed_s = self._function_rows(functions, parts)
        is_kernel = chosen & (self._entry_reason_kind != ENTRY_REASON_NONE)
        source = self._profile.functions.source
        of_source = np.bincount(source.take(self._function[chosen]), hits.count[chosen], 64)
        of_reason = of_source[NameSource.NO_STRIPPED :]
        nameless_hits = of_reason.sum()
        commonest = NameSource(NameSource.NO_STRIPPED + int(of_reason.argmax()))
        is_time = self._design.has_time and self._event.is_cpu_time
        is_whole = self._profile.run.system_wide and is_time
        seconds = float(self._design.seconds[chosen].sum())
        others_s = float(self._design.seconds[self._others].sum()) if is_whole else 0.0
        return Summary(
            has_time=self._design.has_time,
            event=self._event,
            hits=count,
            seconds=seconds,
            half_width_s=float(half_widths(self._design, every, 1, parts)[0]),
            busy_s=self._busy_s if is_whole else np.nan,
            busy_share=self._busy_share() if is_whole else np.nan,
            programs=self._program_rows(programs, parts),
            more_programs=programs.left_out,
            functions=rows,
            more_functions=functions.left_out,
            needed_s=needed_s,
            entry_reasons=self._entry_reasons(is_kernel),
            kernel_s=float(self._amounts(is_kernel).sum()),
            nameless=float(nameless_hits) / max(count, 1),
            nameless_source=commonest if nameless_hits else None,
            bracketed=float(of_source[list(_BRACKETS)].sum()) / max(count, 1),
            seen_s=self._profile.run.wall_seconds
            * self._profile.run.cpus
            * self._design.known_share,
            has_services=has_services,
            services=self._service_rows(services, parts) if shows_services else (),
            more_services=services.left_out if shows_services else 0,
            wall=self._wall() if is_time else None,
            others_s=others_s,
            others=self._other_rows() if others_s > max(seconds, self._least_of_others_s) else (),
        )

    @cached_property
    def _others(self) -> Bools:
        """The hits of neither COMMAND nor its descendants, nor of Prospect."""
        if self._detail not in _OF_COMMAND:
            return np.zeros(len(self._is_work), np.bool_)
        others: Bools = self._is_work & ~chosen_hits(self._profile, "3")
        return others

    @property
    def _least_of_others_s(self) -> float:
        run = self._profile.run
        return _LEAST_OF_OTHERS * run.wall_seconds * run.cpus

    def _other_rows(self) -> tuple[OtherRow, ...]:
        keys = [self._program.number]
        table = breakdown(self._profile, self._design, self._others, keys, Bound(_MOST_OTHERS))
        names = self._program.texts(table.example)
        services = self._mostly(table, self._service)
        return tuple(
            OtherRow(name, service, float(seconds))
            for name, (service, _), seconds in zip(names, services, table.seconds, strict=True)
        )

    def _wall(self) -> WallTime | None:
        total_s = self._profile.run.wall_seconds
        is_all = chosen_by_detail(self._profile.processes, self._detail).all()
        if is_all or total_s <= 0 or self._wall_by_hit is None:
            return None
        busy_s = float(self._wall_by_hit.sum())
        return WallTime(total_s, busy_s, float(self._design.seconds[self._chosen].sum()) / busy_s)

    def _wall_of(self, table: Breakdown) -> _WallOfRows:
        return _WallOfRows(lambda: self._wall_by_hit, table)

    def _busy_share(self) -> float:
        """Return the share of all CPUs' time in which they were busy; NaN if unknown.

        Lost ticks count neither as busy nor as idle.
        """
        run, known = self._profile.run, self._design.known_share
        if run.due_ticks:
            # A part of a store. Its ticks, not its time: windows have up to one tick of each clock
            # more, or less, than their length.
            share = self._busy_hits / max(run.due_ticks * known, 1.0)
        elif run.wall_seconds * run.cpus > 0:
            share = self._busy_s / (run.wall_seconds * run.cpus * known)
        else:
            return np.nan
        # A part of a recording, too, may have a tick more than its time.
        return min(share, 1.0)

    def by_process(self, least_s: float) -> tuple[tuple[FunctionRow, ...], int]:
        """Return the rows of `functions_by_process`, and how many others there are."""
        process = self._profile.hits.process_index
        table = self._table([process.astype(np.int64), self._function], Bound(0, least_s))
        pids = self._profile.processes.pid.take(process.take(table.example)).tolist()
        rows, _ = self._function_rows(table, None)
        found = tuple(row._replace(pid=pid) for row, pid in zip(rows, pids, strict=True))
        return found, table.left_out

    def _table(self, keys: Sequence[I64], bound: Bound) -> Breakdown:
        return breakdown(self._profile, self._design, self._chosen, keys, bound)

    def _by_mode(self, table: Breakdown) -> F64:
        """Return the amounts of each row by mode, f64[row, MODE_COUNT]."""
        member = table.row_of_hit >= 0
        row, amounts = table.row_of_hit[member], self._amounts(member)
        rows = len(table)
        cell = row * np.int64(MODE_COUNT) + hit_modes(self._profile)[member]
        of_cell = np.bincount(cell, amounts, rows * MODE_COUNT).astype(np.float64)
        return of_cell.reshape(rows, MODE_COUNT)

    def _service_rows(self, table: Breakdown, parts: Parts) -> tuple[ServiceRow, ...]:
        user = _user_shares(self._by_mode(table))
        halves = half_widths(self._design, table.row_of_hit, len(table), parts)
        programs = self._mostly(table, self._program)
        return tuple(
            ServiceRow(
                name=name,
                hits=int(table.hits[at]),
                seconds=float(table.seconds[at]),
                half_width_s=float(halves[at]),
                user_share=float(user[at]),
                program=programs[at][0],
                other_programs=programs[at][1],
            )
            for at, name in enumerate(self._service.texts(table.example))
        )

    def _program_rows(self, table: Breakdown, parts: Parts) -> tuple[ProgramRow, ...]:
        rows, modes = len(table), self._by_mode(table)
        user = _user_shares(modes)
        member = table.row_of_hit >= 0
        processes = self._profile.processes
        is_asked_for = chosen_by_detail(processes, self._detail)
        has_hits = np.zeros(len(processes), np.bool_)
        has_hits[self._profile.hits.process_index[member]] = True
        counted = np.flatnonzero(is_asked_for & (has_hits | processes.is_descendant))
        number = Counter(processes.name[row] for row in counted.tolist())
        halves = half_widths(self._design, table.row_of_hit, rows, parts)
        services = self._mostly(table, self._service)
        wall = self._wall_of(table)
        return tuple(
            ProgramRow(
                name=name,
                processes=number[name],
                hits=int(table.hits[at]),
                seconds=float(table.seconds[at]),
                half_width_s=float(halves[at]),
                user_share=float(user[at]),
                by_mode=tuple(modes[at].tolist()),
                service=services[at][0],
                other_services=services[at][1],
                wall=wall,
                row=at,
            )
            for at, name in enumerate(self._program.texts(table.example))
        )

    def _function_rows(
        self, table: Breakdown, parts: Parts | None
    ) -> tuple[tuple[FunctionRow, ...], float]:
        """Return the rows, and the length of a run that would separate the first ones.

        `parts` are as in `error_bars`.
        """
        profile, rows = self._profile, len(table)
        of_row = self._function.take(table.example)
        errors = table.errors(parts)
        is_alike = errors.is_like_above[:MOST_FUNCTIONS]
        needed_s = float(errors.needed_s[:MOST_FUNCTIONS].max(initial=0.0, where=is_alike))
        programs = self._mostly(table, self._program)
        callers = main_callers(profile, table.row_of_hit, rows)
        names = shown_names(profile.functions, of_row.tolist())
        wall = self._wall_of(table)
        paths, object_of = profile.objects.path, profile.functions.object_index
        found = tuple(
            FunctionRow(
                function=function,
                name=names[row],
                object_path=paths[object_of[function]],
                hits=int(table.hits[row]),
                seconds=float(table.seconds[row]),
                half_width_s=float(errors.half_width_s[row]),
                share=float(table.share[row]),
                is_like_above=bool(errors.is_like_above[row]),
                program=programs[row][0],
                other_programs=programs[row][1],
                caller=shown_name(profile.functions, callers[row]) if callers[row] >= 0 else "",
                caller_object=paths[object_of[callers[row]]] if callers[row] >= 0 else "",
                wall=wall,
                row=row,
            )
            for row, function in enumerate(of_row.tolist())
        )
        return found, needed_s

    def _mostly(self, table: Breakdown, keys: Keys) -> list[tuple[str, int]]:
        """Return for each row the key with most of its hits, and how many other keys there are."""
        member = table.row_of_hit >= 0
        of_row = table.row_of_hit[member].astype(np.int64), keys.number[member]
        (row, owner), (count,) = group_sums(of_row, (self._profile.hits.count[member],))
        # The owner of a row is the key with most hits, the first of ties.
        order = np.lexsort((-count, row))
        starts = run_starts(row)  # the groups are in the order of rows already
        others = np.diff(np.append(starts, len(row))) - 1
        mains = owner.take(order).take(starts).tolist()
        return [(keys.names[main], more) for main, more in zip(mains, others.tolist(), strict=True)]

    def _entry_reasons(self, is_kernel: Bools) -> tuple[tuple[str, float], ...]:
        entry_reasons = self._profile.entry_reasons
        entry_reason = self._profile.hits.entry_reason_index[is_kernel]
        amount = np.bincount(entry_reason, self._amounts(is_kernel), len(entry_reasons))
        first = np.argsort(-amount, kind="stable")[:_MOST_ENTRY_REASONS]
        return tuple(
            (
                entry_reasons.name[row] or ENTRY_REASON_KIND_NAMES[entry_reasons.kind[row]],
                float(amount[row]),
            )
            for row in first.tolist()
            if amount[row] > 0
        )

    def _amounts(self, chosen: Bools) -> F64:
        """Return the seconds of some hits; their number if the event has no time."""
        amounts = self._design.seconds if self._design.has_time else self._profile.hits.count
        return amounts[chosen].astype(np.float64)


def _user_shares(modes: F64) -> F64:
    shares: F64 = modes[:, MODE_USER] / np.maximum(modes.sum(axis=1), 1e-12)
    return shares
