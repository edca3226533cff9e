"""Show callers and callees, for the command line and for `calls` of the Python interface.

Documented in docs/python.md and docs/calls.md.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from prospect.analysis.profile_request import Callbacks, ProfileRequest
from prospect.api.keywords import ReturnedOptions, as_text, returned_report, takes
from prospect.errors import UsageError
from prospect.estimate.errors.call_estimates import estimate_calls
from prospect.figures.calls.call_shares import call_shares, has_call_shares
from prospect.figures.calls.calls_view import SECTIONS, CallsChoice, calls_view
from prospect.figures.calls.sample_choice import SampleChoice
from prospect.figures.processes import DETAILS
from prospect.options import CallingOptions, NamingOptions, needed, option
from prospect.records import Record, field
from prospect.render.json.calls_document import call_shares_json, calls_json
from prospect.render.renderer import write_pieces
from prospect.render.text.call_sections import call_shares_text, calls_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from prospect.api.recorded_profile import Profile as RecordedProfile
    from prospect.profile.model import Profile

FORMATS = ("text", "json")


class CallsOptions(Record):
    """The calls to show, and how.

    Attributes:
        inline: whether inlined functions are separate functions.
        program: the program that wrote a gmon.out; "" for ``a.out`` in the same directory.
        format: "text" or "json".
        colour: mark titles and cut lines for a terminal.
    """

    choice: CallsChoice = field(default_factory=CallsChoice)
    inline: bool = False
    program: str = ""
    format: str = "text"
    colour: bool = False


def examine_calls(
    path: str | Profile, asked: CallsOptions, naming: NamingOptions, sinks: Callbacks
) -> Callable[[BinaryIO], None]:
    """Read a recording, find callers and callees, and return a function that writes them.

    `path` is a recording or a profile of another tool, "-" for a recording on standard input; or a
    profile with its stacks.

    Raises:
        RecordingError: it cannot be read, or is no recording.
        UsageError: an option is invalid, or no function has the name.
    """
    for name, given, known in (
        ("format", (asked.format,), FORMATS),
        ("sections", asked.choice.sections, SECTIONS),
        ("detail", (asked.choice.samples.detail,), DETAILS),
    ):
        for value in given:
            if value not in known:
                raise UsageError(f"calls: {name} is of {', '.join(known)}, not {value!r}")
    profile = read_stacks(path, asked, naming, sinks) if isinstance(path, str) else path
    if has_call_shares(profile):
        return _counted_calls(profile, asked)
    view = calls_view(profile, asked.choice)
    estimates = estimate_calls(view)
    if asked.format == "json":
        return lambda out: write_pieces(calls_json(view, estimates), out)
    return lambda out: write_pieces(calls_text(view, estimates, colour=asked.colour), out)


def read_stacks(
    path: str, asked: CallsOptions, naming: NamingOptions, sinks: Callbacks
) -> RecordedProfile:
    """Read a recording with its stacks; arguments and errors as those of `examine_calls`."""
    from prospect.api.recorded_profile import read  # a store needs none of it

    wanted = ProfileRequest(lines=asked.inline, stacks=True, path=False)
    return read(path, naming, wanted, sinks, asked.program)


def _counted_calls(profile: Profile, asked: CallsOptions) -> Callable[[BinaryIO], None]:
    """Show counted calls of a recording without stacks, which filters need."""
    choice = asked.choice
    if choice.callers_of or choice.samples != SampleChoice(choice.samples.detail):
        raise UsageError("calls: its calls were counted without stacks, which filters need")
    shares = call_shares(profile)
    if asked.format == "json":
        return lambda out: write_pieces(call_shares_json(shares), out)
    return lambda out: write_pieces(call_shares_text(shares, choice, colour=asked.colour), out)


class CallsKeywords(CallingOptions, NamingOptions):
    """Keywords of `calls` that ``prospect calls`` has as options."""

    detail: str | int = option(
        default="3",
        doc='"2" samples of the command, "3" and of its descendants, "4" all, "k" the kernel\'s',
    )
    inline: bool = option(default=False, doc="show inlined functions as separate functions")
    format: str = option(default="text", doc='"text" or "json"')
    program: str = option(
        default="",
        doc='of a gmon.out, the program that wrote it; "" for ``a.out`` in the same directory',
    )


def calls_options(asked: CallsKeywords, *, colour: bool = False) -> CallsOptions:
    """Return the options of keywords."""
    samples = SampleChoice(
        str(asked.detail),  # type: ignore[arg-type]  # checked by `examine_calls`
        asked.process,
        asked.thread,
        asked.cpus,
        asked.object,
        asked.function,
        asked.through,
        asked.entry_reason,
        asked.between,
    )
    choice = CallsChoice(samples, asked.sections, asked.callers_of, asked.rows, asked.share)
    return CallsOptions(choice, asked.inline, asked.program, asked.format, colour)


class CallsRequest(CallsKeywords, ReturnedOptions):
    """Arguments of `calls`."""

    path: str | os.PathLike[str] = needed(
        kw_only=False, doc='a perf.data file, "-" for a pipe on standard input'
    )


@takes(CallsRequest)
def calls(asked: CallsRequest) -> str:
    """Return who called whom, as ``prospect calls`` writes it.

    Raises:
        RecordingError: the recording cannot be read, or is none.
        UsageError: an option has no meaning, or nothing with samples is called what was asked for.
        RenderError: the file cannot be written.
    """
    path, sinks = os.fsdecode(asked.path), Callbacks(asked.announce)
    make = partial(examine_calls, path, calls_options(asked), asked, sinks)
    return as_text(returned_report(asked.output, make))
