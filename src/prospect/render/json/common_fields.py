"""Fields that several JSON documents have: of the run, events, call stacks, ± and instructions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.figures.processes import DETAILS
from prospect.profile.naming import NameSource
from prospect.profile.optional_tables import FLOW_NAMES, NO_TARGET
from prospect.records import NamedTuple
from prospect.render.json.document_fields import (
    ABSENT,
    AMOUNT,
    COUNT,
    FLAG,
    INTEGER,
    NAME,
    NUMBER,
    ROUNDED,
    SECONDS,
    SHARE,
    TEXT,
    TEXTS,
    Mapping,
    Object,
    Rows,
    each,
    gather,
    itself,
    numbered,
    one_of,
    present,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prospect.columns.array_types import I64
    from prospect.estimate.annotate.annotation_view import AnnotatedFunction
    from prospect.profile.complete import CompleteProfile
    from prospect.profile.optional_tables import CodeTable

DETAIL = one_of(DETAILS)
SOURCE = numbered({int(source): source.name for source in NameSource})
NOTES = TEXTS("sentences: what could not be seen, and how to get it")
WARNINGS = TEXTS("sentences: what was lost or damaged")
NOTES_AND_WARNINGS = Object("", notes=NOTES, warnings=WARNINGS)

EVENT = Object(
    "event",
    name=TEXT("name of the event"),
    frequency_hz=AMOUNT("samples a second that were asked for, 0 if no rate was"),
    seconds_per_period=AMOUNT("0 if periods are not times"),
    seconds_per_hit=AMOUNT("0 if no rate was requested"),
    unit=TEXT(
        "unit of the periods of a pprof profile, absent otherwise",
        lambda event: event.unit or ABSENT,
        optional=True,
    ),
    counts=TEXT(
        "name of the samples of a pprof profile, absent otherwise",
        lambda event: event.counts if event.unit else ABSENT,
        optional=True,
    ),
)

RUN = Object(
    "run",
    command=TEXTS("the command and its arguments, empty if it is not of a command"),
    origin=TEXT("name of the recording"),
    recorder=TEXT("the program that recorded"),
    recorder_command_line=TEXTS("how it was called"),
    hostname=TEXT("the recorded machine"),
    os_release=TEXT(),
    uname=TEXT(),
    arch=TEXT(),
    cpu_description=TEXT("model of its CPUs"),
    cpu_mhz=NUMBER.or_null("their clock rate, 0 if unknown"),
    cpus=INTEGER("how many were sampled"),
    started_at=NUMBER.or_null("seconds since 1970, 0 if unknown"),
    wall_seconds=NUMBER.or_null("length of the interval"),
    system_wide=FLAG("whether every process was sampled"),
    clock=TEXT("the sampling clock, in words"),
    events=Rows(EVENT)("all events"),
    accounting=Mapping(NUMBER.or_null)(
        "the kernel's own figures for the interval, by name",
        lambda run: {
            key: value for key, value in run.accounting.items() if isinstance(value, (int, float))
        },
    ),
)

ERROR_BAR = Object(
    "",
    half_width_s=SECONDS.or_null("see [error bars](#error-bars)"),
    low_s=SECONDS.or_null(),
    high_s=SECONDS.or_null(),
)

STACK_QUALITY = Object(
    "stack_quality",
    stacks=COUNT("call stacks of samples, counted if any is cut"),
    cut_stacks=COUNT("stacks that a limit of the recording cut; `[cut]` is their outermost frame"),
    most_frames=COUNT(
        "frames that the kernel recorded of a stack at most (`kernel.perf_event_max_stack`); 0 "
        "for copies"
    ),
    samples=COUNT("samples with registers, for unwinding copies of user stacks"),
    without_copy=COUNT("those without a copy of the stack"),
    copy_bytes=COUNT("size of a copy that was asked for"),
    by_end=Mapping(COUNT)(
        "samples by the reason why unwinding ended: `complete`, `cut`, and others"
    ),
    continued=COUNT("stacks that frame pointers continued"),
    cut_frames_median=COUNT("frames of the cut stacks", lambda quality: quality.cut_frames[0]),
    cut_frames_most=COUNT(get=lambda quality: quality.cut_frames[1]),
    size_for_99=COUNT(
        "bytes that would have held 99 % of the stacks whole, 0 if the recorded ones did"
    ),
    is_size_least=FLAG("even more bytes may be needed"),
    places=each(object=TEXT(get="object_path"), reason=TEXT(), samples=INTEGER.within(1)())(
        "where stacks ended early"
    ),
)
ANY_STACK_QUALITY = Object(
    "",
    stack_quality=STACK_QUALITY(
        "how many call stacks of the processes that `-V` selects are whole; absent if no stack "
        "was copied or cut",
        present,
        optional=True,
    ),
)

CALLEES_ROW = Object(
    "",
    name=TEXT(),
    object=TEXT(get="object_path"),
    samples=COUNT("samples with it on their stack", "hits"),
    seconds=ROUNDED("with all that it calls"),
    half_width_s=ROUNDED.or_null(),
    share=ROUNDED(),
    program=TEXT("where most of it was spent"),
    other_programs=COUNT(),
    end=NAME("the last function on the way down that has nearly all of the time, or `null`"),
    own_code=FLAG("neither the system's code nor an installed package's", "is_own"),
)
WITH_CALLEES = Rows(CALLEES_ROW)
WITH_CALLEES_ABOUT = (
    "up to five functions that spend most with all that they call, beyond starts of programs, "
    "dispatchers and functions that pass their time on to one other; empty if callers in user "
    "space are not known"
)
FLOW = numbered(FLOW_NAMES)


class CodeFunction(NamedTuple):
    """A function and its instructions in a document."""

    profile: CompleteProfile
    code: CodeTable
    function: AnnotatedFunction
    instructions: I64

    def address(self, instruction: int) -> int | None:
        """Return the address of one of its instructions, None for -1."""
        if instruction < 0:
            return None
        return int(self.code.address[self.function.rows.start + instruction])

    @property
    def targets(self) -> list[int | None]:
        """The target of each direct call or jump, None for other instructions."""
        targets = of_code("target")(self).tolist()
        return [None if target == NO_TARGET else target for target in targets]


def of_function(name: str) -> Callable[[CodeFunction], Any]:
    """Return a getter of the function's value in a column."""
    return lambda one: getattr(one.profile.functions, name)[one.function.function]


def of_object(name: str) -> Callable[[CodeFunction], Any]:
    """Return a getter of the value of the function's object in a column."""
    object_index = of_function("object_index")
    return lambda one: getattr(one.profile.objects, name)[int(object_index(one))]


def of_code(name: str) -> Callable[[CodeFunction], Any]:
    """Return a getter of the instructions' values in a column of the code table."""
    return lambda one: gather(getattr(one.code, name), one.function.rows.start + one.instructions)


def of_instruction(name: str) -> Callable[[CodeFunction], Any]:
    """Return a getter of a column of the instructions' samples; None for each if unknown."""

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
