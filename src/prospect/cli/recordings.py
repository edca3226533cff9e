"""Which recording is meant, and what to say where there is none of that name."""

from __future__ import annotations

import os
from itertools import islice

from prospect.errors import RecordingError, UsageError
from prospect.files.outputs import are_same_file
from prospect.options import DEFAULT_RECORDING

STDIN = "-"
_SUFFIXES = (".data", ".archive")
_MOST_FILES = 10_000
_MOST_SHOWN = 3


def readable(
    recording: str, command: str, *, maker: str = "prospect record COMMAND", output: str = ""
) -> str:
    """Return the recording that is meant, before anything is read or written.

    Args:
        recording: its path, "-" for a pipe on standard input, "" for the usual name.
        command: the subcommand, for errors.
        maker: the command line that makes such a recording.
        output: the file that is going to be written, "" for standard output.

    Raises:
        RecordingError: there is no such file.
        UsageError: standard input is a terminal, or the output would replace the recording.
    """
    recording = recording or DEFAULT_RECORDING
    if recording == STDIN:
        if os.isatty(0):
            raise UsageError(f"{command} -: standard input is a terminal; pipe a recording into it")
        return recording
    if are_same_file(output, recording):
        raise UsageError(f"-f {output}: the report would replace its recording")
    refuse_missing(recording, maker)
    return recording


def refuse_missing(recording: str, maker: str = "prospect record COMMAND") -> None:
    """Say what could be meant where there is no such file, and what makes one.

    Raises:
        RecordingError: there is none.
    """
    if "\0" in recording or os.path.lexists(recording):
        return  # what is wrong with it says who opens it
    directory, name = os.path.split(recording)
    others = _files(directory or ".")
    near = _nearest(name, others)
    found = [os.path.join(directory, one) for one in ([near] if near else _recordings(others))]
    if recording == DEFAULT_RECORDING:
        hint = f"; recordings here: {', '.join(found)}" if found else ""
        raise RecordingError(f"no {recording} here; make one with: {maker}{hint}")
    if near:
        raise RecordingError(f"{recording}: no such file; did you mean {found[0]}?")
    if found:
        raise RecordingError(f"{recording}: no such file; recordings there: {', '.join(found)}")
    raise RecordingError(f"{recording}: no such file; make a recording with: {maker}")


def looks_like_recording(word: str) -> bool:
    """Say whether a word can only be meant as the name of a recording."""
    return word.endswith(_SUFFIXES)


def _nearest(name: str, others: list[os.DirEntry[str]]) -> str:
    from prospect.spelling import nearest

    return nearest(name, (entry.name for entry in others))


def _files(directory: str) -> list[os.DirEntry[str]]:
    """Return what a directory holds, nothing of one that cannot be read."""
    try:
        with os.scandir(directory) as entries:
            return [entry for entry in islice(entries, _MOST_FILES) if entry.is_file()]
    except OSError:
        return []


def _recordings(files: list[os.DirEntry[str]]) -> list[str]:
    """Return the names of what are recordings by their names, the newest first."""
    dated = []
    for entry in files:
        if entry.name.endswith(_SUFFIXES):
            try:
                dated.append((entry.stat().st_mtime, entry.name))
            except OSError:
                continue
    return [name for _, name in sorted(dated, reverse=True)[:_MOST_SHOWN]]
