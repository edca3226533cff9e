"""Find the recording, the store, or the part of one that a command line names."""

from __future__ import annotations

import os
from itertools import islice
from typing import TYPE_CHECKING

from prospect.errors import RecordingError, UsageError
from prospect.files.outputs import are_same_file
from prospect.options import DEFAULT_RECORDING
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.api.recorded_profile import Profile
    from prospect.cli.commands import Command
    from prospect.options import Settings

STDIN = "-"
_SUFFIXES = (".data", ".archive")
_MOST_FILES = 10_000
_MOST_SHOWN = 3
_OF_ROOT = "/var/lib/prospect"


def readable(
    recording: str, command: str, *, maker: str = "prospect record COMMAND", output: str = ""
) -> str:
    """Return the path of a recording, after checking it.

    Args:
        recording: its path, "-" for a pipe on standard input, "" for the usual name.
        command: the subcommand, for errors.
        maker: the command line that makes such a recording.
        output: the output file, "" for standard output.

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
    """Refuse a recording that does not exist, with suggestions.

    Raises:
        RecordingError: there is no such file.
    """
    if "\0" in recording or os.path.lexists(recording):
        return  # opening it reports other errors
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
    """Return whether a word has the suffix of a recording."""
    return word.endswith(_SUFFIXES)


def _nearest(name: str, others: list[os.DirEntry[str]]) -> str:
    from prospect.spelling import nearest

    return nearest(name, (entry.name for entry in others))


def _files(directory: str) -> list[os.DirEntry[str]]:
    """Return the files of a directory, none if it cannot be read."""
    try:
        with os.scandir(directory) as entries:
            return [entry for entry in islice(entries, _MOST_FILES) if entry.is_file()]
    except OSError:
        return []


def _recordings(files: list[os.DirEntry[str]]) -> list[str]:
    """Return the names of files with the suffix of a recording, the newest first."""
    dated = []
    for entry in files:
        if entry.name.endswith(_SUFFIXES):
            try:
                dated.append((entry.stat().st_mtime, entry.name))
            except OSError:
                continue
    return [name for _, name in sorted(dated, reverse=True)[:_MOST_SHOWN]]


def usual_store(target: str = "") -> str:
    """Return the path of this user's store: root's, or one below XDG_STATE_HOME.

    `target`: another machine; the stores of targets have a directory next to this machine's store.
    """
    if target:
        name = "".join(c if c.isalnum() or c in "@._-" else "_" for c in target)
        return os.path.join(f"{usual_store()}-targets", name.strip(".") or "_")
    if os.geteuid() == 0:
        return _OF_ROOT
    state = os.environ.get("XDG_STATE_HOME", "")
    if not state.startswith("/"):
        state = os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(state, "prospect")


class StorePart(NamedTuple):
    """A store, specifications of a part of it, and the engine that reads it."""

    path: str
    words: list[str]
    engine: str = "local"

    def read(
        self, *, stacks: bool = False, addresses: bool = False, apart: Sequence[str] = ()
    ) -> Profile:
        """Read the part; arguments as those of `read_store`.

        Raises:
            ProspectError: nothing matches, or the store cannot be read.
        """
        from prospect.api.store_part import read_store

        return read_store(
            self.path,
            self.words,
            stacks=stacks,
            addresses=addresses,
            apart=apart,
            engine=self.engine,
        )


class RecordingPart(NamedTuple):
    """A recording, and specifications of a part of it."""

    path: str
    words: list[str]

    def of(self, profile: Profile, sort: Sequence[str] = (), columns: str = "") -> Profile:
        """Choose the part; keep the keys of rows and columns separate.

        Raises:
            UsageError: nothing matches, or the recording lacks the facts that a word compares.
        """
        from prospect.api.store_part import part_of

        return part_of(profile, self.words, sort, columns)


def divided(command: Command, words: list[str]) -> tuple[str, list[str]]:
    """Return the recording that words begin with, "" for none, and the specifications after it.

    Raises:
        UsageError: a word is neither.
    """
    if len(words) < 2 and not (words and ":" in words[0]):
        return (words[0] if words else ""), []
    from prospect.store.specification import KNOWN

    def is_specification(word: str) -> bool:
        name, colon, _ = word.partition(":")
        return bool(colon) and name in KNOWN and not os.path.lexists(word)

    first = "" if is_specification(words[0]) else words[0]
    others = words[bool(first) :]
    for word in others:
        if not is_specification(word):
            raise UsageError(command.unexpected(word))
    return first, others


def specified(settings: Settings) -> list[str]:
    """Return the specifications of options that opreport has too."""
    found = []
    if settings.event_names:
        found.append(f"event:{','.join(settings.event_names)}")
    if settings.include_symbols:
        found.append(f"symbol:{','.join(settings.include_symbols)}")
    if settings.exclude_symbols:
        found.append(f"exclude-symbol:{','.join(settings.exclude_symbols)}")
    if settings.exclude_dependent:
        found.append("dependent:no")
    return found


def refuse(settings: Settings, **options: str) -> None:
    """Refuse options that need times within a window or code, which stores do not have.

    `options` are the spellings, by the field that they set.

    Raises:
        UsageError: one is given.
    """
    for name, option in options.items():
        if getattr(settings, name):
            why = (
                "sums by window, as since:14:05 until:14:06"
                if name == "between"
                else "no code: make a recording"
            )
            raise UsageError(f"{option}: a store keeps {why}")
