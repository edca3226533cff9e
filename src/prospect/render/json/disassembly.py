"""Fields of a disassembled profile: routines with those of their instructions that have hits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.profile.source import FLOW_NAMES, NO_TARGET
from prospect.records import NamedTuple
from prospect.render.json.document_fields import (
    AMOUNT,
    COUNT,
    INTEGER,
    NAME,
    ROUNDED,
    SECONDS,
    SHARE,
    TEXT,
    Object,
    Rows,
    one_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from prospect.estimate.annotate.annotation_view import AnnotatedRoutine
    from prospect.profile.complete import CompleteProfile
    from prospect.profile.source import CodeTable


class Disassembled(NamedTuple):
    """A routine, the code that it is part of, and the profile."""

    profile: CompleteProfile
    code: CodeTable
    routine: AnnotatedRoutine

    @property
    def function(self) -> int:
        """Its row of the functions."""
        return self.routine.function

    @property
    def with_hits(self) -> NDArray[np.int64]:
        """Which of its instructions have hits."""
        return np.flatnonzero(self.routine.counted)

    def address(self, instruction: int) -> int | None:
        """Return the address of one of its instructions, None for -1."""
        if instruction < 0:
            return None
        return int(self.code.address[self.routine.rows.start + instruction])


def _of_function(name: str) -> Callable[[Disassembled], Any]:
    return lambda one: getattr(one.profile.functions, name)[one.function]


def _of_code(name: str) -> Callable[[Disassembled], Any]:
    def column(one: Disassembled) -> Any:
        found, rows = getattr(one.code, name), one.routine.rows.start + one.with_hits
        if isinstance(found, np.ndarray):
            return found.take(rows)
        return [found[row] for row in rows.tolist()]

    return column


def _of_instruction(name: str) -> Callable[[Disassembled], Any]:
    def column(one: Disassembled) -> Any:
        found = getattr(one.routine, name)
        return [None] * len(one.with_hits) if found is None else found[one.with_hits]

    return column


INSTRUCTION = Object(
    "instruction",
    address=INTEGER(get=_of_code("address")),
    size_bytes=INTEGER.within(1)(get=_of_code("size_bytes")),
    text=TEXT(get=_of_code("text")),
    flow=one_of(FLOW_NAMES)(
        ", ".join(f"`{name}`" for name in FLOW_NAMES),
        lambda one: [FLOW_NAMES[flow] for flow in _of_code("flow")(one).tolist()],
    ),
    target=INTEGER.or_null(
        "of a direct call or jump, or `null`",
        lambda one: [
            None if target == NO_TARGET else target for target in _of_code("target")(one).tolist()
        ],
    ),
    target_name=NAME(get=_of_code("target_name")),
    hits=INTEGER.within(1)("its hits and time", _of_instruction("counted")),
    seconds=SECONDS(get=_of_instruction("instruction_seconds")),
    error_s=ROUNDED.or_null(get=_of_instruction("instruction_half_width_s")),
    share=SHARE("of the routine", _of_instruction("instruction_share")),
)
DISASSEMBLED_ROUTINE = Object(
    "disassembled_routine",
    address=INTEGER("of the routine, as in the table", _of_function("address")),
    name=NAME(get=_of_function("name")),
    object=TEXT(get=lambda one: one.profile.objects.path[int(_of_function("object_index")(one))]),
    hits=COUNT(get="routine.hits"),
    seconds=SECONDS(get="routine.seconds"),
    error_s=ROUNDED.or_null(get="routine.half_width_s"),
    share=AMOUNT(get="routine.share"),
    no_instructions_because=NAME("why it has none, or `null`", "routine.reason"),
    hits_between_instructions=COUNT(
        "its hits at addresses where no instruction begins", "routine.stray_hits"
    ),
    hottest=INTEGER.or_null(
        "address of the instruction with the most hits, `null` without any",
        lambda one: one.address(one.routine.hottest),
    ),
    likely_meant=INTEGER.or_null(
        "the one that these are likely meant for, `null` where that cannot be said",
        lambda one: one.address(one.routine.likely),
    ),
    interrupts_on_at=INTEGER.or_null(
        "the instruction before `hottest` that lets a timer's interrupts in: these hits are of "
        "the time without interrupts too; `null` where there is none",
        lambda one: one.address(one.routine.unmasking),
    ),
    instructions=Rows(INSTRUCTION, by_column=True)("those with hits", lambda one: one),
)


def disassembled(
    profile: CompleteProfile, code: CodeTable, routines: Iterable[AnnotatedRoutine]
) -> list[Disassembled]:
    """Return routines of a profile as sources of `DISASSEMBLED_ROUTINE`."""
    return [Disassembled(profile, code, routine) for routine in routines]


def disassembly_fields(
    profile: CompleteProfile, code: CodeTable, routines: Iterable[AnnotatedRoutine]
) -> list[dict[str, Any]]:
    """Return routines as JSON has them."""
    return Rows(DISASSEMBLED_ROUTINE).convert(disassembled(profile, code, routines)) or []
