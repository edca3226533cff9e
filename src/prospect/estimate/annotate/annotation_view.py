"""The figures of an annotation, computed once: hits by instruction, by block and by function.

An `AnnotatedFunction` is one function and its hits, for annotations and for the report's
disassembled profiles, with the instruction that the hits likely belong to. An `AnnotationView` has
those of a Profile that was made with `code`. docs/annotate.md explains the figures. A basic block
is entered at its first instruction only and left at its last; calls return and end none.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from prospect.columns.sorting import distinct
from prospect.estimate.errors.design import sampling_design
from prospect.estimate.errors.error_bars import half_widths
from prospect.figures.modes import event_has_time, event_seconds, event_weight
from prospect.figures.processes import chosen_hits, shown_detail
from prospect.figures.remarks import below_thresholds, limits_of, nothing_chosen, run_warnings
from prospect.figures.report.counters import run_counters
from prospect.profile.complete import complete
from prospect.profile.optional_tables import (
    FLOW_BRANCH,
    FLOW_JUMP,
    FLOW_NAMES,
    FLOW_NEXT,
    FLOW_RETURN,
    FLOW_STOP,
)
from prospect.profile.run_info import grouped
from prospect.records import NamedTuple, Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.columns.array_types import F64, I64, Ints
    from prospect.estimate.errors.design import Design
    from prospect.figures.function_choice import FunctionChoice
    from prospect.options import Detail
    from prospect.profile.complete import CompleteProfile
    from prospect.profile.model import Profile
    from prospect.profile.optional_tables import CodeTable
    from prospect.profile.run_info import EventInfo


class RowSums(Record):
    """Sums of rows [r].

    Attributes:
        hits, period: i64[r].
        seconds: f64[r] zeros if the event has no time.
        weight: f64[r] for shares, see `event_weight`.
        half_width_s: f64[r] half of the time's 95 % interval; None if the event has no time.
        share: f64[r] of the weight of all hits that count, in a row or none.
    """

    hits: I64
    period: I64
    seconds: F64
    weight: F64
    half_width_s: F64 | None
    share: F64


class EventSums(Record):
    """Adds up hits of one event of a profile; `design` is how its samples were taken."""

    profile: CompleteProfile
    design: Design

    def by(self, at: I64, row_of_hit: Ints, rows: int) -> RowSums:
        """Add up the hits `at` by their rows, `row_of_hit`, -1 for none."""
        hits, event = self.profile.hits, self.design.event
        count, period = hits.count.take(at), hits.period.take(at)
        weight = event_weight(event, count, period)
        known = row_of_hit >= 0
        counted, periods, weights = (
            np.bincount(row_of_hit[known], column[known], rows)
            for column in (count, period, weight)
        )
        row = np.full(len(hits), -1, np.int32)
        row[at] = row_of_hit
        whole, whole_periods = counted.astype(np.int64), periods.astype(np.int64)
        return RowSums(
            hits=whole,
            period=whole_periods,
            seconds=event_seconds(event, whole, whole_periods),
            weight=weights.astype(np.float64),
            half_width_s=half_widths(self.design, row, rows) if self.design.has_bars else None,
            share=weights / max(float(weight.sum()), 1.0),
        )


def event_sums(profile: CompleteProfile, event: int) -> EventSums:
    """Return the `EventSums` of an event, a row of `RunInfo.events`."""
    return EventSums(profile, sampling_design(profile, event))


_Number = TypeVar("_Number", np.int64, np.float64)
_IS_JUMP = np.zeros(len(FLOW_NAMES), np.bool_)
_IS_JUMP[[FLOW_JUMP, FLOW_BRANCH]] = True
_IS_END = _IS_JUMP.copy()
_IS_END[[FLOW_RETURN, FLOW_STOP]] = True

_CLOCK_SKID = (
    "The sampling clock is a timer: a sample is at the instruction that would have come next when "
    "the interrupt was taken. Time that an instruction takes shows at the one after it."
)
_COUNTER_SKID = (
    "The counter interrupts some instructions late: time that an instruction takes shows at one of "
    "the next."
)
_GOES_ON = (FLOW_NEXT, FLOW_BRANCH)
# Instructions that enable interrupts: sti, popf and the like of x86, DAIFClr of AArch64.
_UNMASKS = re.compile(r"(sti|popf[qlwd]?|iretq?|msr\s+daifclr\b.*)\s*", re.IGNORECASE)
# The CPU takes none before the end of the instruction after sti (Intel SDM, volume 2, STI).
_SHADOW = "sti"


class Blocks(Record):
    """The basic blocks of a function; rows count from its first instruction.

    Attributes:
        start: i64[b] first row of each block.
        jump_from, jump_to: i64[j] rows of the jumps that stay in the function, and their targets.
    """

    start: I64
    jump_from: I64
    jump_to: I64

    def sums(self, column: NDArray[_Number]) -> NDArray[_Number]:
        """Add up a column of the function's instructions by block."""
        if not len(self.start):
            return column[:0]
        total: NDArray[_Number] = np.add.reduceat(column, self.start)
        return total


def find_blocks(code: CodeTable, function: int) -> Blocks:
    """Find the blocks of one function of a code table."""
    rows = slice(int(code.start[function]), int(code.start[function + 1]))
    address, target, flow = code.address[rows], code.target[rows], code.flow[rows]
    if not len(address):
        none = np.zeros(0, np.int64)
        return Blocks(none, none, none)
    jump = np.flatnonzero(_IS_JUMP.take(flow))
    led_to = np.searchsorted(address, target.take(jump))
    inside = address.take(np.minimum(led_to, len(address) - 1)) == target.take(jump)
    jump, led_to = jump[inside], led_to[inside]
    after = np.flatnonzero(_IS_END.take(flow)) + 1
    start = distinct(np.concatenate(([0], led_to, after[after < len(address)])))
    return Blocks(start.astype(np.int64), jump, led_to)


class AnnotatedFunction(Record):
    """One function and one event's hits in it.

    Attributes:
        function: row of the profile's functions.
        reason: why it has no instructions; "" if it has some.
        rows: its instructions in the code table.
        half_width_s: half of the 95 % interval of `seconds`, None if unknown.
        share: of the event, or of its table in a report, 0 to 1.
        counted: i64[n] hits by instruction.
        instruction_seconds: f64[n].
        instruction_half_width_s: f64[n] as `half_width_s`, None if unknown.
        instruction_share: f64[n] of the function's weight, 0 to 1.
        stray_hits: hits in the function that are at no instruction's first byte.
        hottest: its instruction with the most hits, -1 without any.
        likely: the instruction likely responsible for those hits, -1 if unknown.
        unmasking: the instruction before `hottest` that lets a timer's interrupts in, so that
            the hits include the time with interrupts off; -1 for none.
    """

    function: int
    reason: str
    rows: slice
    hits: int
    seconds: float
    half_width_s: float | None
    share: float
    counted: I64
    instruction_seconds: F64
    instruction_half_width_s: F64 | None
    instruction_share: F64
    stray_hits: int
    blocks: Blocks
    hottest: int
    likely: int
    unmasking: int = -1


class FunctionSums(NamedTuple):
    """The sums of a whole function; see `AnnotatedFunction`. Shares are of its `weight`."""

    hits: int
    seconds: float
    half_width_s: float | None
    share: float
    weight: float


class InstructionSums(NamedTuple):
    """The sums of each instruction of a function, [n]."""

    hits: I64
    seconds: F64
    half_width_s: F64 | None
    weight: F64


def annotated_function(
    code: CodeTable, function: int, event: EventInfo, whole: FunctionSums, parts: InstructionSums
) -> AnnotatedFunction:
    """Combine a function and its instructions."""
    rows = slice(int(code.start[function]), int(code.start[function + 1]))
    blocks = find_blocks(code, function)
    hottest = int(parts.hits.argmax()) if parts.hits.any() else -1
    unmasking = _unmasking(code, rows.start, hottest) if is_timer(event) else -1
    likely = hottest
    if skid(event):
        likely = -1 if unmasking >= 0 else _instruction_before(code, rows.start, hottest, blocks)
    return AnnotatedFunction(
        function=int(code.function_index[function]),
        reason=code.reason[function],
        rows=rows,
        hits=whole.hits,
        seconds=whole.seconds,
        half_width_s=whole.half_width_s,
        share=whole.share,
        counted=parts.hits,
        instruction_seconds=parts.seconds,
        instruction_half_width_s=parts.half_width_s,
        instruction_share=parts.weight / max(whole.weight, 1.0),
        stray_hits=whole.hits - int(parts.hits.sum()) if len(parts.hits) else 0,
        blocks=blocks,
        hottest=hottest,
        likely=likely,
        unmasking=unmasking,
    )


def skid(event: EventInfo) -> str:
    """Say which instruction hits mean; "" if the event is precise.

    Source: perf-list(1), EVENT MODIFIERS: p requests precision; for a timer it has no effect.
    """
    if is_timer(event):
        return _CLOCK_SKID
    modifiers = event.name.rpartition(":")[2] if ":" in event.name else ""
    return "" if set(modifiers) & {"p", "P"} else _COUNTER_SKID


def is_timer(event: EventInfo) -> bool:
    """Return whether a timer took the samples."""
    return event.seconds_per_period > 0 and not event.weighs_periods


def ran_before(code: CodeTable, function: int, instructions: list[int]) -> list[tuple[int, bool]]:
    """Return the instruction before each one with hits, which late hits are likely for.

    Instructions are counted from the function's first.

    Returns:
        For each the instruction before, -1 if another may have run; and whether one let a
        timer's interrupts in there, whose hits then mean no instruction.
    """
    start, blocks = int(code.start[function]), find_blocks(code, function)
    return [
        (_instruction_before(code, start, row, blocks), _unmasking(code, start, row) >= 0)
        for row in instructions
    ]


def _instruction_before(code: CodeTable, start: int, hottest: int, blocks: Blocks) -> int:
    """Return the instruction that ran before the hottest; -1 if another one may have.

    A jump may have led to the hottest. After a call it was the callee's return. The
    instruction after a jump or a return is reached from elsewhere.
    """
    if hottest <= 0 or hottest in blocks.jump_to:
        return -1
    return hottest - 1 if code.flow[start + hottest - 1] in _GOES_ON else -1


def _unmasking(code: CodeTable, start: int, hottest: int) -> int:
    for distance in (1, 2):
        row = hottest - distance
        text = code.text[start + row].strip() if row >= 0 else ""
        if _UNMASKS.fullmatch(text) and (distance == 1 or text == _SHADOW):
            return row
    return -1


class EventAnnotation(Record):
    """The functions of one event.

    Attributes:
        hits, seconds: of all hits that `-V` chose, annotated or not.
        skid: a sentence about which instruction hits mean; "" if they are exact.
        functions: heaviest first.
    """

    event: EventInfo
    has_time: bool
    hits: int
    seconds: float
    skid: str
    functions: list[AnnotatedFunction]


class AnnotationView(Record):
    """Every figure of an annotation.

    Attributes:
        detail: the `-V` that is shown.
        notes: what could not be seen or found.
        warnings: of losses and damage.
        events: those with hits in the functions.
        nothing: if there are none, the existing hits and the option that shows them; else "".
    """

    profile: CompleteProfile
    code: CodeTable
    choice: FunctionChoice
    detail: Detail
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    events: list[EventAnnotation]
    nothing: str


def annotation_view(profile: Profile, choice: FunctionChoice) -> AnnotationView:
    """Compute every figure of an annotation.

    The profile must be made with `code` for this choice.
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
    shown = [event for event in events if event.functions]
    detail = shown_detail(profile.processes, choice.detail)
    notes = code.lines.notes if code.lines else {}
    of_lines = grouped((profile.objects.path[row], note) for row, note in notes.items())
    return AnnotationView(
        profile=profile,
        code=code,
        choice=choice,
        detail=detail,
        notes=(*limits_of(profile, detail), *of_lines),
        warnings=run_warnings(profile, run_counters(profile)),
        events=shown,
        nothing="" if shown else _why_nothing(profile, choice, events),
    )


def _why_nothing(
    profile: CompleteProfile, choice: FunctionChoice, events: list[EventAnnotation]
) -> str:
    if not any(event.hits for event in events):
        return nothing_chosen(profile, choice.detail)
    most_s = max(event.seconds for event in events)
    return below_thresholds(most_s, choice.user_threshold_s, choice.kernel_threshold_s)


def instruction_of_hits(profile: CompleteProfile, code: CodeTable) -> I64:
    """Return i64[h] each hit's row among the instructions, -1 for none."""
    locations = profile.locations
    row = np.full(len(locations), -1, np.int64)
    order = np.argsort(locations.function_index, kind="stable")
    bounds = np.searchsorted(
        locations.function_index.take(order),
        np.stack((code.function_index, code.function_index + 1)),
    )
    for function, (begin, end) in enumerate(bounds.T.tolist()):
        first, last = code.start[function : function + 2].tolist()
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
    at: I64,
    by_function: RowSums,
    by_instruction: RowSums,
) -> EventAnnotation:
    """Annotate one event; `at` are the rows of its hits that count."""
    code = profile.code
    assert code is not None  # noqa: S101 - the view was made of it
    event = profile.run.events[event_index]
    count, period = profile.hits.count.take(at), profile.hits.period.take(at)
    functions = [
        _function(code, function, event, by_function, by_instruction)
        for function, row in enumerate(code.function_index.tolist())
        if by_function.hits[row]
    ]
    return EventAnnotation(
        event=event,
        has_time=event_has_time(event),
        hits=int(count.sum()),
        seconds=float(event_seconds(event, count, period).sum()),
        skid=skid(event),
        functions=sorted(functions, key=lambda one: (-one.share, -one.hits, one.function)),
    )


def _function(
    code: CodeTable, function: int, event: EventInfo, functions: RowSums, instructions: RowSums
) -> AnnotatedFunction:
    row = int(code.function_index[function])
    rows = slice(int(code.start[function]), int(code.start[function + 1]))
    weight, error = float(functions.weight[row]), functions.half_width_s
    errors = instructions.half_width_s
    whole = FunctionSums(
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
    return annotated_function(code, function, event, whole, parts)
