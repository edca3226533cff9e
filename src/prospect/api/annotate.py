"""The Python interface of annotations: `annotate`, with a keyword for each option.

Comes in: the path of a recording and keywords. Goes out: the text or JSON of an annotation, or of
annotated source files. Documented in docs/python.md and docs/annotate.md.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from prospect.analysis.annotation import AnnotateOptions
from prospect.analysis.annotation import annotate as annotate_recording
from prospect.analysis.pipeline import PipelineOptions
from prospect.analysis.source_annotation import SourceOptions, annotate_sources
from prospect.api.returned import as_text, returned_report
from prospect.errors import UsageError
from prospect.figures.annotate.routine_choice import RoutineChoice
from prospect.lines.source_files import SourcePlaces

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.announcing import Announce
    from prospect.api.returned import Written


def annotate(
    path: str | os.PathLike[str],
    what: str = "",
    *,
    detail: str | int = "3",
    user_threshold_s: float = 0.02,
    kernel_threshold_s: float = 0.02,
    most_routines: int = 5,
    syntax: str = "att",
    disassembler: str = "library",
    gdb_processes: int = 8,
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
    system_map: str = "",
    kernel_image: str = "",
    use_cache: bool = True,
    debuginfod_s: float = 30.0,
    announce: Announce | None = None,
) -> str:
    """Return the instructions of routines with their hits, as ``prospect annotate`` writes them.

    Args:
        path: a perf.data file, "-" for a pipe on standard input.
        what: a routine or an image by name or pattern, "" for the hottest routines.
        detail: "2" hits of the command, "3" and of its descendants, "4" all, "k" the kernel's.
        user_threshold_s: leave out routines with less user time, unless they are named.
        kernel_threshold_s: leave out kernel routines with less time, unless they are named.
        most_routines: how many routines, unless they are named.
        syntax: of x86 instructions, "att" or "intel".
        disassembler: "library", with GDB for what that does not know, or "gdb".
        gdb_processes: how many GDB processes may be open at once.
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
        system_map: a System.map to name the kernel with.
        kernel_image: an uncompressed kernel image, for names and code of the kernel.
        use_cache: whether symbol and line tables are kept on disk between runs.
        debuginfod_s: how long the servers of DEBUGINFOD_URLS may delay it; 0 asks none.
        announce: told what is being done, and how far it is.

    Raises:
        RecordingError: the recording cannot be read, or is none.
        UsageError: an option has no meaning, or nothing with hits is called `what`.
        RenderError: the file cannot be written.
    """
    if output_dir and (output or not source_files):
        raise UsageError("annotate: output_dir is for source_files, and excludes output")
    naming = PipelineOptions(
        system_map=system_map,
        kernel_image=kernel_image,
        use_cache=use_cache,
        debuginfod_s=debuginfod_s,
        announce=announce,
    )
    choice = RoutineChoice(
        what,
        str(detail),  # type: ignore[arg-type]  # checked by those who annotate
        user_threshold_s,
        kernel_threshold_s,
        most_routines,
    )
    if not source_files:
        instructions = AnnotateOptions(
            choice,
            syntax,  # type: ignore[arg-type]  # likewise
            disassembler,  # type: ignore[arg-type]  # likewise
            gdb_processes,
            source,
            whole,
            format,
            naming=naming,
        )
        return as_text(
            returned_report(output, lambda: _instructions(os.fsdecode(path), instructions))
        )
    places = SourcePlaces(tuple(search_dirs), tuple(base_dirs))
    patterns = tuple(include_files), tuple(exclude_files)
    options = SourceOptions(what, choice.detail, places, *patterns, whole, format, naming=naming)
    if output_dir:
        return annotate_sources(os.fsdecode(path), options).write_tree(output_dir)
    report = returned_report(output, lambda: annotate_sources(os.fsdecode(path), options).render)
    return as_text(report)


def _instructions(path: str, options: AnnotateOptions) -> Written:
    view, renderer = annotate_recording(path, options)
    return lambda out: renderer.render(view, out)
