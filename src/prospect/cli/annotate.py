"""``prospect annotate``: write a recording's instructions or source lines with their samples."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from prospect.cli.analysis import Unread, get_ready, put, sinks, takes_colour
from prospect.cli.operands import STDIN, StorePart, looks_like_recording, readable
from prospect.cli.progress import Progress
from prospect.cli.terminal import say, takes_escapes
from prospect.errors import UsageError
from prospect.files.outputs import ReportFile
from prospect.records import project

if TYPE_CHECKING:
    from prospect.options import Settings

# The begin of perf.data, in either byte order.
_MAGICS = (b"PERFILE2", b"2ELIFREP")


def run(settings: Settings, words: list[str], _command_line: tuple[str, ...]) -> int:
    """Annotate the function or image, of the recording, that `words` name; both are optional.

    Raises:
        ProspectError: the recording cannot be read, nothing in it has that name, or the annotation
            cannot be written.
    """
    unread = Unread()
    _check_source_options(settings)
    if settings.store:
        return _of_store(settings, words, unread)
    what, recording = _operands(words)
    recording = readable(recording, "annotate", output=settings.output)
    if settings.output_dir:
        _write_sources(what, recording, settings, None, unread)
        return unread.exit_status()
    with ReportFile(settings.output) as target:
        write = _write_sources if settings.source_files else _write
        write(what, recording, settings, target, unread)
    return unread.exit_status()


def _of_store(settings: Settings, words: list[str], unread: Unread) -> int:
    """Annotate functions with hits in a part of a store, from files that are still there."""
    if settings.source_files:
        raise UsageError("--source: a store keeps no lines: make a recording")
    is_named = bool(words) and not _is_specification(words[0])
    part = StorePart(settings.store, words[is_named:], settings.engine)
    with ReportFile(settings.output) as target:
        _write(words[0] if is_named else "", part, settings, target, unread)
    return unread.exit_status()


def _is_specification(word: str) -> bool:
    """Return whether a word is of the form name:value; names of C++ and Rust have "::"."""
    name, colon, value = word.partition(":")
    return bool(colon) and name.replace("-", "").isalpha() and not value.startswith(":")


def _operands(words: list[str]) -> tuple[str, str]:
    """Return the function or image, and the recording, "" for none; one word may be either."""
    if len(words) == 2:
        return words[0], words[1]
    word = words[0] if words else ""
    if word == STDIN or looks_like_recording(word) or _is_recording(word):
        return "", word
    return word, ""


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
    what: str, recording: str, settings: Settings, target: ReportFile | None, unread: Unread
) -> None:
    """Write annotated sources to a file, or below the chosen directory if `target` is None."""
    get_ready()
    from prospect.analysis.annotation import annotate_sources
    from prospect.api.annotations import AnnotateKeywords, source_options

    with Progress("reading the recording") as progress:
        options = source_options(
            what,
            project(settings, AnnotateKeywords),
            colour=target is not None and takes_colour(target),
        )
        sources = annotate_sources(recording, options, settings, sinks(progress, unread))
        if target:
            put(target, sources.render, progress, settings)
            return
        progress.announce(f"writing annotated sources to {settings.output_dir}")
        outcome = sources.write_tree(settings.output_dir)
    say(outcome)


def _write(
    what: str, recording: str | StorePart, settings: Settings, target: ReportFile, unread: Unread
) -> None:
    get_ready()
    from prospect.analysis.annotation import annotate
    from prospect.api.annotations import AnnotateKeywords, instruction_options

    has_boxes = takes_escapes(target.descriptor) and sys.stdout.encoding.lower().startswith("utf")
    options = instruction_options(
        what, project(settings, AnnotateKeywords), colour=takes_colour(target), boxes=has_boxes
    )
    with Progress("reading the recording") as progress:
        read = recording.read(addresses=True) if isinstance(recording, StorePart) else recording
        write = annotate(read, options, settings, sinks(progress, unread))
        put(target, write, progress, settings)
