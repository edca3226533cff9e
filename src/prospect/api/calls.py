"""Who called whom, from a recording and what was asked for to the renderer that writes it.

Comes in: the path of a recording and `CallsOptions`. Goes out: the figures, their error bars, and
the renderer of the chosen format. The command line and the Python interface share it.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from prospect.analysis.wanted import Sinks, Wanted
from prospect.api.keywords import chosen, takes
from prospect.api.returned import as_text, returned_report
from prospect.errors import UsageError
from prospect.estimate.errors.call_estimates import estimate_calls
from prospect.figures.calls.call_shares import call_shares, has_call_shares
from prospect.figures.calls.calls_view import SECTIONS, TOTALS, CallsChoice, calls_view
from prospect.figures.calls.sample_choice import SampleChoice
from prospect.figures.processes import DETAILS
from prospect.options import NamingOptions
from prospect.records import Record, field
from prospect.render.json.calls import JsonCalls, JsonCallShares
from prospect.render.text.calls import TextCalls, TextCallShares

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO, Unpack

    from prospect.announcing import Announce
    from prospect.options import NamingKeywords
    from prospect.profile.model import Profile

FORMATS = ("text", "json")


class CallsOptions(Record):
    """What was asked for.

    Attributes:
        choice: which samples, and what is shown of them.
        inline: whether inlined functions are routines of their own.
        program: of a gmon.out, the program that wrote it; "" for ``a.out`` beside it.
        format: "text" or "json".
        colour: see `TextCalls`.
    """

    choice: CallsChoice = field(default_factory=CallsChoice)
    inline: bool = False
    program: str = ""
    format: str = "text"
    colour: bool = False


def examine_calls(
    path: str | Profile, options: CallsOptions, naming: NamingOptions, sinks: Sinks
) -> Callable[[BinaryIO], None]:
    """Read a recording, find out who called whom, and return what writes it to a file.

    Args:
        path: a recording or a profile of another tool, "-" for a recording on standard input; or
            a profile with its stacks.
        options: what was asked for.
        naming: how addresses are named.
        sinks: what receives progress and remarks meanwhile.

    Raises:
        RecordingError: it cannot be read, or is no recording.
        UsageError: an option has no meaning, or nothing is called what was asked for.
    """
    for name, given, known in (
        ("format", (options.format,), FORMATS),
        ("sections", options.choice.sections, SECTIONS),
        ("detail", (options.choice.samples.detail,), DETAILS),
    ):
        for value in given:
            if value not in known:
                raise UsageError(f"calls: {name} is of {', '.join(known)}, not {value!r}")
    if isinstance(path, str):
        from prospect.analysis.reading import read_profile  # a store needs none of it

        wanted = Wanted(lines=options.inline, stacks=True)
        profile: Profile = read_profile(path, naming, wanted, sinks, options.program)
    else:
        profile = path
    if has_call_shares(profile):
        return _counted_calls(profile, options)
    view = calls_view(profile, options.choice)
    estimates = estimate_calls(view)
    renderer = JsonCalls() if options.format == "json" else TextCalls(options.colour)
    return lambda out: renderer.render(view, estimates, out)


def _counted_calls(profile: Profile, options: CallsOptions) -> Callable[[BinaryIO], None]:
    """Show calls that were counted, where no stacks were recorded: nothing else can be chosen."""
    choice = options.choice
    if choice.callers_of or choice.samples != SampleChoice(choice.samples.detail):
        raise UsageError("calls: its calls were counted without stacks, which filters need")
    shares = call_shares(profile)
    if options.format == "json":
        return lambda out: JsonCallShares().render(shares, out)
    renderer = TextCallShares(
        flat=TOTALS in choice.sections,
        graph=choice.sections != (TOTALS,),
        most=choice.most,
        share=choice.share,
        colour=options.colour,
    )
    return lambda out: renderer.render(shares, out)


@takes(NamingOptions)
def calls(
    path: str | os.PathLike[str],
    *,
    detail: str | int = "3",
    sections: tuple[str, ...] = ("totals", "callees"),
    callers_of: str = "",
    through: str = "",
    cause: str = "",
    process: str = "",
    thread: str = "",
    object: str = "",
    routine: str = "",
    cpus: tuple[int, ...] | None = None,
    between: tuple[float, float] | None = None,
    share: float = 0.01,
    rows: int = 20,
    inline: bool = False,
    format: str = "text",
    output: str = "",
    program: str = "",
    announce: Announce | None = None,
    **keywords: Unpack[NamingKeywords],
) -> str:
    """Return who called whom, as ``prospect calls`` writes it.

    Args:
        path: a perf.data file, "-" for a pipe on standard input.
        detail: "2" hits of the command, "3" and of its descendants, "4" all, "k" the kernel's.
        sections: of "totals", "callees", "callers" and "graph".
        callers_of: a routine whose callers are shown, what it called included.
        through: only samples on whose stack this routine stands.
        cause: only samples in the kernel for this cause, a kind or one of a kind.
        process: only samples of processes of this name or number.
        thread: only samples of threads of this name or number.
        object: only samples that hit this image.
        routine: only samples that hit this routine itself.
        cpus: only samples of these CPUs.
        between: only samples between these seconds since the recording began.
        share: leave out of trees and of the graph what has less than this share of the hits.
        rows: how many routines the table of totals has.
        inline: show inlined functions as routines of their own.
        format: "text" or "json".
        output: a file to write it to as well, "" for none.
        program: of a gmon.out, the program that wrote it; "" for ``a.out`` beside it.
        announce: called with what is being done, and how far it is.
        **keywords: see `prospect.options.NamingOptions`.

    Raises:
        RecordingError: the recording cannot be read, or is none.
        UsageError: an option has no meaning, or nothing with samples is called what was asked for.
        RenderError: the file cannot be written.
    """
    samples = SampleChoice(
        str(detail),  # type: ignore[arg-type]  # checked by `examine_calls`
        process,
        thread,
        cpus,
        object,
        routine,
        through,
        cause,
        between,
    )
    choice = CallsChoice(samples, tuple(sections), callers_of, rows, share)
    asked = CallsOptions(choice, inline, program, format)
    naming, sinks = chosen(NamingOptions, keywords), Sinks(announce)
    make = partial(examine_calls, os.fsdecode(path), asked, naming, sinks)
    return as_text(returned_report(output, make))
