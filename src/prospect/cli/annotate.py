"""``prospect annotate``: read a recording, go back to its images, write instructions with hits.

Nothing here is on the way to a command's exec: numpy and all stages may be imported.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING

from prospect.cli.option_table import DEFAULT_RECORDING
from prospect.cli.progress import progress
from prospect.cli.terminal import takes_escapes
from prospect.errors import RecordingError, UsageError
from prospect.outputs import ReportFile, are_same_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from prospect.cli.option_table import Settings
    from prospect.pipeline import PipelineOptions

# How perf.data begins, in either byte order.
_MAGICS = (b"PERFILE2", b"2ELIFREP")


def run(settings: Settings, words: list[str], _command_line: tuple[str, ...]) -> int:
    """Annotate what `words` name: a routine or an image, a recording, both in this order, or none.

    Raises:
        ProspectError: the recording cannot be read, nothing in it is called that, or the
            annotation cannot be written.
    """
    what, recording = _operands(words)
    if recording == "-" and os.isatty(0):
        raise UsageError("annotate -: standard input is a terminal; pipe a recording into it")
    if recording == DEFAULT_RECORDING and not os.path.lexists(recording):
        raise RecordingError(f"no {recording} here; make one with: prospect record COMMAND")
    _check_source_options(settings)
    if are_same_file(settings.output, recording):
        raise UsageError(f"-f {settings.output}: the annotation would replace its recording")
    if settings.output_dir:
        _write_sources(what, recording, settings, None)
        return 0
    target = ReportFile(settings.output)
    try:
        write = _write_sources if settings.source_files else _write
        write(what, recording, settings, target)
    finally:
        target.close()
    return 0


def _operands(words: list[str]) -> tuple[str, str]:
    """Tell a routine or image from a recording: one word that is a recording is taken for it."""
    if len(words) == 2:
        return words[0], words[1]
    if words and (words[0] == "-" or _is_recording(words[0])):
        return "", words[0]
    return (words[0] if words else ""), DEFAULT_RECORDING


def _is_recording(path: str) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return False
    try:
        return os.read(descriptor, 8) in _MAGICS
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _check_source_options(settings: Settings) -> None:
    for name in ("output_dir", "search_dirs", "base_dirs", "include_files", "exclude_files"):
        if getattr(settings, name) and not settings.source_files:
            raise UsageError(f"--{name.replace('_', '-')} is for source files: give --source too")
    if settings.output_dir and settings.output:
        raise UsageError("--output-dir and -f: give one of them")


def _write_sources(
    what: str, recording: str, settings: Settings, target: ReportFile | None
) -> None:
    """Write annotated sources to a file, or below the chosen directory where that is None."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as in report
    gc.disable()
    from prospect.lines.source_files import SourcePlaces
    from prospect.source_annotation import SourceOptions, annotate_sources

    is_terminal = target is not None and takes_escapes(target.descriptor)
    with progress("reading the recording, its images and their debug information ...") as tell:
        options = SourceOptions(
            what=what,
            detail=settings.detail,  # type: ignore[arg-type]  # checked by the options' table
            places=SourcePlaces(settings.search_dirs, settings.base_dirs),
            include=settings.include_files,
            exclude=settings.exclude_files,
            whole=settings.whole,
            format=settings.format,
            colour=is_terminal and not os.environ.get("NO_COLOR"),
            naming=_naming(settings, tell),
        )
        sources = annotate_sources(recording, options)
        said = "" if target else sources.write_tree(settings.output_dir)
    if target:
        target.put(sources.render)
    else:
        sys.stderr.write(f"prospect: {said}\n")


def _naming(settings: Settings, tell: Callable[[str], None]) -> PipelineOptions:
    from prospect.pipeline import PipelineOptions

    return PipelineOptions(
        system_map=settings.system_map or None,
        kernel_image=settings.kernel_image or None,
        use_cache=settings.use_cache,
        debuginfod_s=settings.debuginfod_s,
        announce=tell,
    )


def _write(what: str, recording: str, settings: Settings, target: ReportFile) -> None:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as in report
    gc.disable()
    from dataclasses import replace

    from prospect.annotation import AnnotateOptions, annotate
    from prospect.profile.routine_choice import RoutineChoice

    is_terminal = takes_escapes(target.descriptor)
    options = AnnotateOptions(
        choice=RoutineChoice(
            what=what,
            detail=settings.detail,  # type: ignore[arg-type]  # checked by the options' table
            user_threshold_s=settings.user_threshold_s,
            kernel_threshold_s=settings.kernel_threshold_s,
            most=settings.most_routines,
        ),
        syntax=settings.syntax,  # type: ignore[arg-type]  # likewise
        disassembler=settings.disassembler,  # type: ignore[arg-type]  # likewise
        gdb_processes=settings.gdb_processes,
        source=settings.source,
        whole=settings.whole,
        format=settings.format,
        colour=is_terminal and not os.environ.get("NO_COLOR"),
        boxes=is_terminal and sys.stdout.encoding.lower().startswith("utf"),
    )
    with progress("reading the recording, its images and their debug information ...") as tell:
        view, renderer = annotate(recording, replace(options, naming=_naming(settings, tell)))
    target.put(lambda out: renderer.render(view, out))
