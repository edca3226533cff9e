"""Fields of a disassembled profile: functions with those of their instructions that have hits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.profile.optional_tables import FLOW_NAMES, NO_TARGET
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
    gather,
    itself,
    numbered,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from prospect.estimate.annotate.annotation_view import AnnotatedFunction
    from prospect.profile.complete import CompleteProfile
    from prospect.profile.optional_tables import CodeTable


FLOW = numbered(FLOW_NAMES)


class CodeFunction(NamedTuple):
    """A function and those of its instructions that are written."""

    profile: CompleteProfile
    code: CodeTable
    function: AnnotatedFunction
    instructions: NDArray[np.int64]

    def address(self, instruction: int) -> int | None:
        """Return the address of one of its instructions, None for -1."""
        if instruction < 0:
            return None
        return int(self.code.address[self.function.rows.start + instruction])

    @property
    def targets(self) -> list[int | None]:
        """The target of each call or jump, None if it does not or is indirect."""
        targets = of_code("target")(self).tolist()
        return [None if target == NO_TARGET else target for target in targets]


def of_function(name: str) -> Callable[[CodeFunction], Any]:
    """Return what gets a column's value of the function."""
    return lambda one: getattr(one.profile.functions, name)[one.function.function]


def of_object(name: str) -> Callable[[CodeFunction], Any]:
    """Return what gets a column's value of the function's object."""
    object_index = of_function("object_index")
    return lambda one: getattr(one.profile.objects, name)[int(object_index(one))]


def of_code(name: str) -> Callable[[CodeFunction], Any]:
    """Return what gets a column of the code table, of the instructions."""
    return lambda one: gather(getattr(one.code, name), one.function.rows.start + one.instructions)


def of_instruction(name: str) -> Callable[[CodeFunction], Any]:
    """Return what gets a column of the instructions' hits; None for each if it is not known."""

    def column(one: CodeFunction) -> Any:
        found = getattr(one.function, name)
        return [None] * len(one.instructions) if found is None else found[one.instructions]

    return column


INSTRUCTION = Object(
    "instruction",
    address=INTEGER(get=of_code("address")),
    size_bytes=INTEGER.within(1)(get=of_code("size_bytes")),
    text=TEXT(get=of_code("text")),
    flow=FLOW("what happens after it", of_code("flow")),
    target=INTEGER.or_null("of a direct call or jump, or `null`", "targets"),
    target_name=NAME(get=of_code("target_name")),
    samples=INTEGER.within(1)("its samples and time", of_instruction("counted")),
    seconds=SECONDS(get=of_instruction("instruction_seconds")),
    half_width_s=ROUNDED.or_null(get=of_instruction("instruction_half_width_s")),
    share=SHARE("of the function", of_instruction("instruction_share")),
)
DISASSEMBLED_FUNCTION = Object(
    "disassembled_function",
    address=INTEGER("of the function, as in the table", of_function("address")),
    name=NAME(get=of_function("name")),
    object=TEXT(get=of_object("path")),
    samples=COUNT(get="function.hits"),
    seconds=SECONDS(get="function.seconds"),
    half_width_s=ROUNDED.or_null(get="function.half_width_s"),
    share=AMOUNT(get="function.share"),
    no_instructions_because=NAME("why it has none, or `null`", "function.reason"),
    samples_between_instructions=COUNT(
        "its samples at addresses within instructions", "function.stray_hits"
    ),
    hottest=INTEGER.or_null(
        "address of the instruction with the most samples, `null` without any",
        lambda one: one.address(one.function.hottest),
    ),
    likely_meant=INTEGER.or_null(
        "the one that these are likely meant for, `null` if that is unknown",
        lambda one: one.address(one.function.likely),
    ),
    interrupts_on_at=INTEGER.or_null(
        "the instruction before `hottest` that lets a timer's interrupts in: these samples are of "
        "the time without interrupts too; `null` if there is none",
        lambda one: one.address(one.function.unmasking),
    ),
    instructions=Rows(INSTRUCTION, by_column=True)("those with samples", itself),
)


def disassembled(
    profile: CompleteProfile, code: CodeTable, functions: Iterable[AnnotatedFunction]
) -> list[CodeFunction]:
    """Return functions of a profile, with the instructions that have hits."""
    return [
        CodeFunction(profile, code, function, np.flatnonzero(function.counted))
        for function in functions
    ]


def disassembly_fields(
    profile: CompleteProfile, code: CodeTable, functions: Iterable[AnnotatedFunction]
) -> list[dict[str, Any]]:
    """Return functions as JSON has them."""
    return Rows(DISASSEMBLED_FUNCTION).convert(disassembled(profile, code, functions)) or []
