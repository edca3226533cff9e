"""Who called whom, from a recording and what was asked for to the renderer that writes it.

Comes in: the path of a recording and `CallsOptions`. Goes out: the figures, their error bars, and
the renderer of the chosen format. The command line and the Python interface share it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from prospect.analysis.pipeline import PipelineOptions
from prospect.analysis.reading import read_profile
from prospect.api.returned import as_text, returned_report
from prospect.errors import UsageError
from prospect.estimate.errors.calls import estimate_calls
from prospect.figures.calls.call_shares import call_shares, has_call_shares
from prospect.figures.calls.calls_view import SECTIONS, TOTALS, CallsChoice, calls_view
from prospect.figures.calls.sample_choice import SampleChoice
from prospect.figures.processes import DETAILS
from prospect.records import Record, field, replace
from prospect.render.json.call_shares import JsonCallShares
from prospect.render.json.calls import JsonCalls
from prospect.render.text.call_shares import TextCallShares
from prospect.render.text.calls import TextCalls

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from prospect.announcing import Announce
    from prospect.profile.model import Profile

FORMATS = ("text", "json")


class CallsOptions(Record):
    """What was asked for.

    Attributes:
        choice: which samples, and what is shown of them.
        format: "text" or "json".
        colour: see `TextCalls`.
        naming: how addresses are named.
    """

    choice: CallsChoice = field(default_factory=CallsChoice)
    format: str = "text"
    colour: bool = False
    naming: PipelineOptions = field(default_factory=PipelineOptions)


def examine_calls(path: str, options: CallsOptions) -> Callable[[BinaryIO], None]:
    """Read a recording, find out who called whom, and return what writes it to a file.

    Args:
        path: a recording or a profile of another tool, "-" for a recording on standard input.
        options: what was asked for.

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
    profile = read_profile(path, replace(options.naming, stacks=True))
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
    system_map: str = "",
    kernel_image: str = "",
    use_cache: bool = True,
    debuginfod_s: float = 30.0,
    program: str = "",
    announce: Announce | None = None,
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
        system_map: a System.map to name the kernel with.
        kernel_image: an uncompressed kernel image to name the kernel with.
        use_cache: whether symbol tables are kept on disk between runs.
        debuginfod_s: how long the servers of DEBUGINFOD_URLS may delay it; 0 asks none.
        program: of a gmon.out, the program that wrote it; "" for ``a.out`` beside it.
        announce: told what is being done, and how far it is.

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
    naming = PipelineOptions(
        lines=inline,
        system_map=system_map,
        kernel_image=kernel_image,
        use_cache=use_cache,
        debuginfod_s=debuginfod_s,
        program=program,
        announce=announce,
    )
    choice = CallsChoice(samples, tuple(sections), callers_of, rows, share)
    options = CallsOptions(choice, format, naming=naming)
    return as_text(returned_report(output, lambda: examine_calls(os.fsdecode(path), options)))
