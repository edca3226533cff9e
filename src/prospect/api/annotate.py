"""The Python interface of annotations: `annotate`, with a keyword for each option.

Comes in: the path of a recording and keywords. Goes out: the text or JSON of an annotation, or of
annotated source files. Documented in docs/python.md and docs/annotate.md.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from prospect.analysis.annotation import AnnotateOptions
from prospect.analysis.annotation import annotate as annotate_recording
from prospect.analysis.source_annotation import SourceOptions, annotate_sources
from prospect.analysis.wanted import Sinks
from prospect.api.keywords import chosen, takes
from prospect.api.returned import as_text, returned_report
from prospect.errors import UsageError
from prospect.figures.routine_choice import RoutineChoice
from prospect.lines.source_files import SourcePlaces
from prospect.options import DisassemblerOptions, NamingOptions

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Unpack

    from prospect.announcing import Announce
    from prospect.api.returned import Written
    from prospect.options import DisassemblerKeywords, NamingKeywords

    class AnnotateKeywords(DisassemblerKeywords, NamingKeywords):
        """Keywords of instructions and of names."""


@takes(DisassemblerOptions, NamingOptions)
def annotate(
    path: str | os.PathLike[str],
    what: str = "",
    *,
    detail: str | int = "3",
    user_threshold_s: float = 0.02,
    kernel_threshold_s: float = 0.02,
    most_routines: int = 5,
    source: bool = True,
    source_files: bool = False,
    output_dir: str = "",
    search_dirs: Sequence[str] = (),
    base_dirs: Sequence[str] = (),
    include_files: Sequence[str] = (),
    exclude_files: Sequence[str] = (),
    whole: bool = False,
    format: str = "text",
    output: str = "",
    announce: Announce | None = None,
    **keywords: Unpack[AnnotateKeywords],
) -> str:
    """Return the instructions of routines with their hits, as ``prospect annotate`` writes them.

    Args:
        path: a perf.data file, "-" for a pipe on standard input.
        what: a routine or an image by name or pattern, "" for the hottest routines.
        detail: "2" hits of the command, "3" and of its descendants, "4" all, "k" the kernel's.
        user_threshold_s: leave out routines with less user time, unless they are named.
        kernel_threshold_s: leave out kernel routines with less time, unless they are named.
        most_routines: how many routines, unless they are named.
        source: whether source lines and inlined functions are shown.
        source_files: whether source files with their hits are returned instead.
        output_dir: of source files: a directory to write a tree of annotated ones to; what is
            returned is then a sentence on how many there are. "" for none.
        search_dirs: directories to look for sources below, first.
        base_dirs: where sources were compiled; taken off their paths for `search_dirs`.
        include_files: patterns of source files to show, all where there are none.
        exclude_files: patterns of source files not to show.
        whole: whether instructions or lines far from all hits are shown too.
        format: "text" or "json".
        output: a file to write it to as well, "" for none.
        announce: called with what is being done, and how far it is.
        **keywords: see `prospect.options`.

    Raises:
        RecordingError: the recording cannot be read, or is none.
        UsageError: an option has no meaning, or nothing with hits is called `what`.
        RenderError: the file cannot be written.
    """
    if output_dir and (output or not source_files):
        raise UsageError("annotate: output_dir is for source_files, and excludes output")
    recording, reading = os.fsdecode(path), (chosen(NamingOptions, keywords), Sinks(announce))
    choice = RoutineChoice(
        what,
        str(detail),  # type: ignore[arg-type]  # checked by those who annotate
        user_threshold_s,
        kernel_threshold_s,
        most_routines,
    )
    if not source_files:
        instructions = AnnotateOptions(
            choice, chosen(DisassemblerOptions, keywords), source, whole, format
        )
        return as_text(
            returned_report(output, lambda: _instructions(recording, instructions, *reading))
        )
    places = SourcePlaces(tuple(search_dirs), tuple(base_dirs))
    patterns = tuple(include_files), tuple(exclude_files)
    of_source = SourceOptions(what, choice.detail, places, *patterns, whole, format)
    if output_dir:
        return annotate_sources(recording, of_source, *reading).write_tree(output_dir)
    return as_text(
        returned_report(output, lambda: annotate_sources(recording, of_source, *reading).render)
    )


def _instructions(
    path: str, options: AnnotateOptions, naming: NamingOptions, sinks: Sinks
) -> Written:
    view, renderer = annotate_recording(path, options, naming, sinks)
    return lambda out: renderer.render(view, out)
