"""One routine with hits at its instructions, and which instruction these are likely meant for.

Comes in: a routine of a code table, what it and each of its instructions have. Goes out: an
`AnnotatedRoutine`, for annotations and for the report's disassembled profiles.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prospect.estimate.annotate.blocks import find_blocks
from prospect.profile.source import FLOW_BRANCH, FLOW_NEXT
from prospect.records import NamedTuple, Record

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from prospect.estimate.annotate.blocks import Blocks
    from prospect.profile.run_info import EventInfo
    from prospect.profile.source import CodeTable

_CLOCK_SKID = (
    "The sampling clock is a timer: a hit is at the instruction that would have come next when "
    "the interrupt was taken. Time that an instruction takes shows at the one after it."
)
_COUNTER_SKID = (
    "The counter interrupts some instructions late: time that an instruction takes shows at one of "
    "the next."
)
_GOES_ON = (FLOW_NEXT, FLOW_BRANCH)
# What lets interrupts in: sti, popf and their kin of x86, DAIFClr of AArch64.
_UNMASKS = re.compile(r"(sti|popf[qlwd]?|iretq?|msr\s+daifclr\b.*)\s*", re.IGNORECASE)
# The processor takes none before the instruction behind sti is done (Intel SDM, volume 2, STI).
_SHADOW = "sti"


class AnnotatedRoutine(Record):
    """One routine and one event's hits in it.

    Attributes:
        function: row of the profile's functions.
        reason: why it has no instructions; "" where it has some.
        rows: its instructions in the code table.
        hits, seconds: of the routine.
        half_width_s: half of the 95 % interval of `seconds`, None where unknown.
        share: its part of what the event counted, or of its table in a report, 0 to 1.
        counted: i64[n] hits by instruction.
        instruction_seconds: f64[n].
        instruction_half_width_s: f64[n] as `half_width_s`, None where unknown.
        instruction_share: f64[n] part of the routine's weight, 0 to 1.
        stray_hits: hits in the routine that are at no instruction's first byte.
        blocks: its basic blocks and jumps.
        hottest: its instruction with the most hits, -1 without any.
        likely: the one that is likely meant by those hits, -1 where that cannot be said.
        unmasking: the instruction before `hottest` that lets a timer's interrupts in, so that
            the hits stand for the time without them too; -1 for none.
    """

    function: int
    reason: str
    rows: slice
    hits: int
    seconds: float
    half_width_s: float | None
    share: float
    counted: NDArray[np.int64]
    instruction_seconds: NDArray[np.float64]
    instruction_half_width_s: NDArray[np.float64] | None
    instruction_share: NDArray[np.float64]
    stray_hits: int
    blocks: Blocks
    hottest: int
    likely: int
    unmasking: int = -1


class RoutineSums(NamedTuple):
    """What a routine has as a whole; see `AnnotatedRoutine`. Shares are of its `weight`."""

    hits: int
    seconds: float
    half_width_s: float | None
    share: float
    weight: float


class InstructionSums(NamedTuple):
    """What each instruction of a routine has, [n]."""

    hits: NDArray[np.int64]
    seconds: NDArray[np.float64]
    half_width_s: NDArray[np.float64] | None
    weight: NDArray[np.float64]


def annotated_routine(
    code: CodeTable,
    routine: int,
    event: EventInfo,
    whole: RoutineSums,
    parts: InstructionSums,
) -> AnnotatedRoutine:
    """Put a routine and its instructions together.

    Args:
        code: the code table.
        routine: its row there.
        event: what was sampled.
        whole: of the routine.
        parts: of its instructions.
    """
    rows = slice(int(code.start[routine]), int(code.start[routine + 1]))
    blocks = find_blocks(code, routine)
    hottest = int(parts.hits.argmax()) if parts.hits.any() else -1
    unmasking = _unmasking(code, rows.start, hottest) if is_timer(event) else -1
    likely = hottest
    if skid(event):
        likely = -1 if unmasking >= 0 else _instruction_before(code, rows.start, hottest, blocks)
    return AnnotatedRoutine(
        function=int(code.function_index[routine]),
        reason=code.reason[routine],
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
    """Say which instruction hits mean; "" where the event is precise.

    Source: perf-list(1), EVENT MODIFIERS: p asks for precision; of a timer it changes nothing.
    """
    if is_timer(event):
        return _CLOCK_SKID
    modifiers = event.name.rpartition(":")[2] if ":" in event.name else ""
    return "" if set(modifiers) & {"p", "P"} else _COUNTER_SKID


def is_timer(event: EventInfo) -> bool:
    """Return whether a timer took the samples."""
    return event.seconds_per_period > 0 and not event.weighs_periods


def ran_before(code: CodeTable, routine: int, instructions: list[int]) -> list[tuple[int, bool]]:
    """Say what ran before instructions that have hits: what hits that come late are meant for.

    Args:
        code: the code table.
        routine: its row there.
        instructions: counted from the routine's first.

    Returns:
        Of each the instruction before, -1 where another may have run; and whether one let a timer's
        interrupts in there, whose hits then mean no instruction.
    """
    start, blocks = int(code.start[routine]), find_blocks(code, routine)
    return [
        (_instruction_before(code, start, row, blocks), _unmasking(code, start, row) >= 0)
        for row in instructions
    ]


def _instruction_before(code: CodeTable, start: int, hottest: int, blocks: Blocks) -> int:
    """Return the instruction that ran before the hottest; -1 where another one may have.

    A jump may have led to the hottest; behind a call it was the callee's return; and what stands
    behind a jump or a return is come to from elsewhere.
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
