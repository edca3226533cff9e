"""Annotate instructions or source files, for the command line and for `annotate` of Python.

Documented in docs/python.md and docs/annotate.md.
"""

from __future__ import annotations

import os

from prospect.analysis.annotation import AnnotateOptions, SourceOptions, annotate_sources
from prospect.analysis.annotation import annotate as annotate_recording
from prospect.analysis.profile_request import Callbacks
from prospect.api.keywords import ReturnedOptions, as_text, returned_report, takes
from prospect.errors import UsageError
from prospect.figures.function_choice import FunctionChoice
from prospect.lines.source_files import SourcePlaces
from prospect.options import AnnotatingOptions, DisassemblerOptions, NamingOptions, needed, option


class AnnotateKeywords(AnnotatingOptions, DisassemblerOptions, NamingOptions):
    """Keywords of `annotate` that ``prospect annotate`` has as options."""

    detail: str | int = option(
        default="3",
        doc='"2" samples of the command, "3" and of its descendants, "4" all, "k" the kernel\'s',
    )
    user_threshold_s: float = option(
        default=0.02, doc="leave out functions with less user time, unless they are named"
    )
    kernel_threshold_s: float = option(
        default=0.02, doc="leave out kernel functions with less time, unless they are named"
    )
    format: str = option(default="text", doc='"text" or "json"')


def instruction_options(
    what: str, asked: AnnotateKeywords, *, colour: bool = False, boxes: bool = False
) -> AnnotateOptions:
    """Return the options of keywords, for instructions of `what`."""
    choice = FunctionChoice(
        what,
        str(asked.detail),  # type: ignore[arg-type]  # checked by those who annotate
        asked.user_threshold_s,
        asked.kernel_threshold_s,
        asked.most_functions,
    )
    return AnnotateOptions(choice, asked, asked.source, asked.whole, asked.format, colour, boxes)


def source_options(what: str, asked: AnnotateKeywords, *, colour: bool = False) -> SourceOptions:
    """Return the options of keywords, for source files of `what`."""
    return SourceOptions(
        what=what,
        detail=str(asked.detail),  # type: ignore[arg-type]  # checked by those who annotate
        places=SourcePlaces(tuple(asked.search_dirs), tuple(asked.base_dirs)),
        include=tuple(asked.include_files),
        exclude=tuple(asked.exclude_files),
        whole=asked.whole,
        format=asked.format,
        colour=colour,
    )


class AnnotateRequest(AnnotateKeywords, ReturnedOptions):
    """Arguments of `annotate`."""

    path: str | os.PathLike[str] = needed(
        kw_only=False, doc='a perf.data file, "-" for a pipe on standard input'
    )
    what: str = option(
        default="",
        kw_only=False,
        doc='a function or an image by name or pattern, "" for the hottest functions',
    )


@takes(AnnotateRequest)
def annotate(asked: AnnotateRequest) -> str:
    """Return functions' instructions with their samples, as ``prospect annotate`` writes them.

    Raises:
        RecordingError: the recording cannot be read, or is none.
        UsageError: an option has no meaning, or nothing with samples is called `what`.
        RenderError: the file cannot be written.
    """
    if asked.output_dir and (asked.output or not asked.source_files):
        raise UsageError("annotate: output_dir is for source_files, and excludes output")
    recording, sinks = os.fsdecode(asked.path), Callbacks(asked.announce)
    if not asked.source_files:
        instructions = instruction_options(asked.what, asked)
        return as_text(
            returned_report(
                asked.output, lambda: annotate_recording(recording, instructions, asked, sinks)
            )
        )
    sources = source_options(asked.what, asked)
    if asked.output_dir:
        return annotate_sources(recording, sources, asked, sinks).write_tree(asked.output_dir)
    return as_text(
        returned_report(
            asked.output, lambda: annotate_sources(recording, sources, asked, sinks).render
        )
    )
