"""What an annotation shows, computed once: hits by instruction, by block and by routine.

Comes in: a Profile with `code`, the choice that it was made for, and who knows how far off times
are (`estimate`, which this room does not import). Goes out: an `AnnotationView` that renderers
format. docs/annotate.md says what its figures mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.sorting import distinct
from prospect.figures.annotate.annotated_routine import (
    AnnotatedRoutine,
    InstructionSums,
    RoutineSums,
    annotated_routine,
    skid,
)
from prospect.figures.nothing_chosen import below_thresholds, nothing_chosen
from prospect.figures.portions import event_seconds, event_weight
from prospect.figures.processes import chosen_hits, shown_detail
from prospect.figures.remarks import limits_of, run_warnings
from prospect.figures.report.counters import run_counters
from prospect.profile.complete import complete
from prospect.records import NamedTuple, Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from prospect.figures.annotate.routine_choice import RoutineChoice
    from prospect.figures.processes import Detail
    from prospect.profile.complete import CompleteProfile
    from prospect.profile.model import Profile
    from prospect.profile.run_info import EventInfo
    from prospect.profile.source import CodeTable

    HalfWidths = Callable[
        [CompleteProfile, int, NDArray[np.int32], int], NDArray[np.float64] | None
    ]
    """Of a profile, an event, the row of each hit (-1: none) and the number of rows: half of each
    row's 95 % interval in seconds; None where the event has no time."""


class EventAnnotation(Record):
    """The routines of one event.

    Attributes:
        event: what was sampled.
        has_time: whether its hits can be told in seconds.
        hits, seconds: all that was chosen by `-V`, annotated or not.
        skid: a sentence about which instruction hits mean; "" where they are exact.
        routines: heaviest first.
    """

    event: EventInfo
    has_time: bool
    hits: int
    seconds: float
    skid: str
    routines: list[AnnotatedRoutine]


class AnnotationView(Record):
    """Every figure of an annotation.

    Attributes:
        profile: the profile, completed.
        code: its instructions.
        choice: what was asked for.
        detail: the `-V` that is shown.
        notes: what could not be seen or found.
        warnings: what was lost or damaged.
        events: one an event with hits in the routines.
        nothing: where there are none, what there is and which option shows it; else "".
    """

    profile: CompleteProfile
    code: CodeTable
    choice: RoutineChoice
    detail: Detail
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    events: list[EventAnnotation]
    nothing: str


def annotation_view(
    profile: Profile, choice: RoutineChoice, half_widths: HalfWidths | None = None
) -> AnnotationView:
    """Compute every figure of an annotation.

    Args:
        profile: made with `code` for this choice.
        choice: what was asked for.
        half_widths: estimates the error of rows; None for no error bars.
    """
    if profile.code is None:
        raise ValueError("the profile was made without code")
    code = profile.code
    profile = complete(profile)
    member = chosen_hits(profile, choice.detail)
    rows = _Rows(
        function=profile.locations.function_index.take(profile.hits.location_index),
        instruction=instruction_of_hits(profile, code),
        half_widths=half_widths,
    )
    events = []
    for event in distinct(profile.hits.event[member]).tolist():
        at = np.flatnonzero(member & (profile.hits.event == event))
        events.append(_event(profile, code, event, at, rows))
    shown = [event for event in events if event.routines]
    counters = run_counters(profile)
    detail = shown_detail(profile.processes, choice.detail)
    return AnnotationView(
        profile=profile,
        code=code,
        choice=choice,
        detail=detail,
        notes=_notes(profile, code, detail),
        warnings=run_warnings(profile, counters),
        events=shown,
        nothing="" if shown else _why_nothing(profile, choice, events),
    )


def _why_nothing(
    profile: CompleteProfile, choice: RoutineChoice, events: list[EventAnnotation]
) -> str:
    if not any(event.hits for event in events):
        return nothing_chosen(profile, choice.detail)
    most_s = max(event.seconds for event in events)
    return below_thresholds(most_s, choice.user_threshold_s, choice.kernel_threshold_s)


def instruction_of_hits(profile: CompleteProfile, code: CodeTable) -> NDArray[np.int64]:
    """Return i64[h] each hit's row among the instructions, -1 for none of them."""
    locations = profile.locations
    row = np.full(len(locations), -1, np.int64)
    order = np.argsort(locations.function_index, kind="stable")
    bounds = np.searchsorted(
        locations.function_index.take(order),
        np.stack((code.function_index, code.function_index + 1)),
    )
    for routine, (begin, end) in enumerate(bounds.T.tolist()):
        first, last = code.start[routine : routine + 2].tolist()
        if first == last:
            continue
        at = order[begin:end]
        address, own = locations.address.take(at), code.address[first:last]
        found = np.minimum(np.searchsorted(own, address), last - first - 1)
        row[at] = np.where(own.take(found) == address, found + first, -1)
    return row.take(profile.hits.location_index)


class _Rows(NamedTuple):
    """The function and the instruction of each hit, and who estimates the error of their sums."""

    function: NDArray[np.int32]
    instruction: NDArray[np.int64]
    half_widths: HalfWidths | None

    def errors(
        self,
        profile: CompleteProfile,
        event: int,
        at: NDArray[np.int64],
        *,
        by_function: bool,
        rows: int,
    ) -> NDArray[np.float64] | None:
        """Estimate the error of each function's or instruction's time, of the hits `at` alone."""
        if self.half_widths is None:
            return None
        of_hit = self.function if by_function else self.instruction
        row = np.full(len(profile.hits), -1, np.int32)
        row[at] = of_hit.take(at)
        return self.half_widths(profile, event, row, rows)


class _Sums(NamedTuple):
    """Hits, periods, weights and errors of rows; weights are what shares are of."""

    hits: NDArray[np.int64]
    period: NDArray[np.int64]
    weight: NDArray[np.float64]
    half_width_s: NDArray[np.float64] | None = None

    def by(
        self, group: NDArray[np.integer], groups: int, half_width_s: NDArray[np.float64] | None
    ) -> _Sums:
        """Add up by group; -1 is none."""
        known = group >= 0
        hits, period, weight = (
            np.bincount(group[known], column[known], groups)
            for column in (self.hits, self.period, self.weight)
        )
        return _Sums(
            hits.astype(np.int64),
            period.astype(np.int64),
            weight.astype(np.float64),
            half_width_s,
        )


def _event(
    profile: CompleteProfile, code: CodeTable, event_index: int, at: NDArray[np.int64], rows: _Rows
) -> EventAnnotation:
    """Annotate one event; `at` are the rows of its hits that count."""
    event = profile.run.events[event_index]
    count, period = profile.hits.count.take(at), profile.hits.period.take(at)
    sums = _Sums(count, period, event_weight(event, count, period))
    functions, instructions = len(profile.functions), len(code.address)
    by_function = sums.by(
        rows.function.take(at),
        functions,
        rows.errors(profile, event_index, at, by_function=True, rows=functions),
    )
    by_instruction = sums.by(
        rows.instruction.take(at),
        instructions,
        rows.errors(profile, event_index, at, by_function=False, rows=instructions),
    )
    routines = [
        _routine(code, routine, event, by_function, by_instruction)
        for routine, row in enumerate(code.function_index.tolist())
        if by_function.hits[row]
    ]
    return EventAnnotation(
        event=event,
        has_time=event.seconds_per_period > 0 or event.seconds_per_hit > 0,
        hits=int(count.sum()),
        seconds=float(event_seconds(event, count, period).sum()),
        skid=skid(event),
        routines=sorted(routines, key=lambda one: (-one.share, -one.hits, one.function)),
    )


def _routine(
    code: CodeTable, routine: int, event: EventInfo, functions: _Sums, instructions: _Sums
) -> AnnotatedRoutine:
    row = int(code.function_index[routine])
    rows = slice(int(code.start[routine]), int(code.start[routine + 1]))
    weight, error = float(functions.weight[row]), functions.half_width_s
    errors = instructions.half_width_s
    whole = RoutineSums(
        hits=int(functions.hits[row]),
        seconds=float(event_seconds(event, functions.hits, functions.period)[row]),
        half_width_s=None if error is None else float(error[row]),
        share=weight / max(float(functions.weight.sum()), 1.0),
        weight=weight,
    )
    parts = InstructionSums(
        hits=instructions.hits[rows],
        seconds=event_seconds(event, instructions.hits[rows], instructions.period[rows]),
        half_width_s=None if errors is None else errors[rows],
        weight=instructions.weight[rows],
    )
    return annotated_routine(code, routine, event, whole, parts)


def _notes(profile: CompleteProfile, code: CodeTable, detail: Detail) -> tuple[str, ...]:
    notes = list(limits_of(profile, detail))
    for row, note in (code.lines.notes if code.lines else {}).items():
        notes.append(f"{profile.objects.path[row]}: {note}.")
    return tuple(notes)
