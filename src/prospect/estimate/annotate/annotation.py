"""What an annotation shows, computed once: hits by instruction, by block and by routine.

Comes in: a Profile with `code`, and the choice that it was made for. Goes out: an `AnnotationView`
that renderers format. docs/annotate.md says what its figures mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.sorting import distinct
from prospect.estimate.annotate.annotated_routine import (
    AnnotatedRoutine,
    InstructionSums,
    RoutineSums,
    annotated_routine,
    skid,
)
from prospect.estimate.annotate.row_sums import event_sums
from prospect.figures.nothing_chosen import below_thresholds, nothing_chosen
from prospect.figures.portions import event_seconds
from prospect.figures.processes import chosen_hits, shown_detail
from prospect.figures.remarks import limits_of, run_warnings
from prospect.figures.report.counters import run_counters
from prospect.profile.complete import complete
from prospect.profile.notes import grouped
from prospect.records import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.estimate.annotate.row_sums import RowSums
    from prospect.figures.processes import Detail
    from prospect.figures.routine_choice import RoutineChoice
    from prospect.profile.complete import CompleteProfile
    from prospect.profile.model import Profile
    from prospect.profile.run_info import EventInfo
    from prospect.profile.source import CodeTable


class EventAnnotation(Record):
    """The routines of one event.

    Attributes:
        event: what was sampled.
        has_time: whether its hits are worth seconds.
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


def annotation_view(profile: Profile, choice: RoutineChoice) -> AnnotationView:
    """Compute every figure of an annotation.

    Args:
        profile: made with `code` for this choice.
        choice: what was asked for.
    """
    if profile.code is None:
        raise ValueError("the profile was made without code")
    code = profile.code
    profile = complete(profile)
    member = chosen_hits(profile, choice.detail)
    function = profile.locations.function_index.take(profile.hits.location_index)
    instruction = instruction_of_hits(profile, code)
    events = []
    for event in distinct(profile.hits.event[member]).tolist():
        at = np.flatnonzero(member & (profile.hits.event == event))
        sums = event_sums(profile, event)
        by_function, by_instruction = (
            sums.by(at, row_of_hit.take(at), rows)
            for row_of_hit, rows in (
                (function, len(profile.functions)),
                (instruction, len(code.address)),
            )
        )
        events.append(_event(profile, event, at, by_function, by_instruction))
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


def _event(
    profile: CompleteProfile,
    event_index: int,
    at: NDArray[np.int64],
    by_function: RowSums,
    by_instruction: RowSums,
) -> EventAnnotation:
    """Annotate one event; `at` are the rows of its hits that count."""
    code = profile.code
    assert code is not None  # noqa: S101 - the view was made of it
    event = profile.run.events[event_index]
    count, period = profile.hits.count.take(at), profile.hits.period.take(at)
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
    code: CodeTable, routine: int, event: EventInfo, functions: RowSums, instructions: RowSums
) -> AnnotatedRoutine:
    row = int(code.function_index[routine])
    rows = slice(int(code.start[routine]), int(code.start[routine + 1]))
    weight, error = float(functions.weight[row]), functions.half_width_s
    errors = instructions.half_width_s
    whole = RoutineSums(
        hits=int(functions.hits[row]),
        seconds=float(functions.seconds[row]),
        half_width_s=None if error is None else float(error[row]),
        share=weight / max(float(functions.weight.sum()), 1.0),
        weight=weight,
    )
    parts = InstructionSums(
        hits=instructions.hits[rows],
        seconds=instructions.seconds[rows],
        half_width_s=None if errors is None else errors[rows],
        weight=instructions.weight[rows],
    )
    return annotated_routine(code, routine, event, whole, parts)


def _notes(profile: CompleteProfile, code: CodeTable, detail: Detail) -> tuple[str, ...]:
    notes = code.lines.notes if code.lines else {}
    of_lines = grouped((profile.objects.path[row], note) for row, note in notes.items())
    return (*limits_of(profile, detail), *of_lines)
