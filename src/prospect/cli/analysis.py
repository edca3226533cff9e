"""Set up a process for an analysis, and write its answer.

Nothing here runs before COMMAND's exec. `get_ready` imports numpy.
"""

from __future__ import annotations

import gc
import io
import os
from typing import TYPE_CHECKING

from prospect.cli.commands import ANNOTATE, CALLS, DIFF, RECORD, REPORT, VIEW, Command
from prospect.cli.option_parser import given_options
from prospect.cli.terminal import fit_for, is_ascii_locale, say, takes_escapes
from prospect.options import NamingOptions
from prospect.records import field_names

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import BinaryIO

    from prospect.analysis.profile_request import Callbacks
    from prospect.cli.progress import Progress
    from prospect.files.outputs import ReportFile
    from prospect.options import Settings
    from prospect.render.next_commands import Repeated

_USUAL_PAGER = "less"
# As git does: quit if everything fits one screen, show colours, leave the text on the screen.
_LESS_OPTIONS = "FRX"
# Options of the recorder that are not repeated: the next recording has the usual name.
_NOT_RECORDED = ("save", "help", "version")
# Options that choose samples, and the way to name and read them.
_READING = ("detail", "scope", "inline", "engine", "program")
_READERS = (REPORT, CALLS, ANNOTATE, VIEW, DIFF)


def get_ready() -> None:
    """Set this process up for one analysis, and import numpy."""
    from prospect.columns.process import keep_freed_memory, start_numpy

    start_numpy()
    # The tables have no cycles, and the process ends with the report. Looking for cycles among the
    # records of 100,000 processes takes a sixth of the time.
    gc.disable()
    keep_freed_memory()


class Unread:
    """Collects sentences about unread records, and reports them at the end."""

    def __init__(self) -> None:
        self._sentences: list[str] = []

    def add(self, sentence: str) -> None:
        """Add a sentence."""
        self._sentences.append(sentence)

    def exit_status(self) -> int:
        """Report them, and return 1; return 0 if there are none."""
        for sentence in self._sentences:
            say(sentence)
        return 1 if self._sentences else 0


def sinks(progress: Progress, unread: Unread) -> Callbacks:
    """Return the receivers of progress and remarks while recordings are read."""
    from prospect.analysis.profile_request import Callbacks

    return Callbacks(announce=progress.announce, on_unread=unread.add)


def takes_colour(target: ReportFile) -> bool:
    """Return whether a report is shown in colour."""
    return takes_escapes(target.descriptor) and not os.environ.get("NO_COLOR")


def put(
    target: ReportFile, write: Callable[[BinaryIO], object], progress: Progress, settings: Settings
) -> None:
    """Write a report to its place.

    On a terminal, the progress line goes first, and a pager shows a report longer than the screen.

    Raises:
        RenderError: the report cannot be written.
    """
    progress.announce("working out the report and its error bars")
    if not (os.isatty(target.descriptor) or (target.is_stdout and is_ascii_locale())):
        target.put(write)
        return
    text = io.BytesIO()
    write(text)
    progress.end()
    shown = fit_for(target.descriptor, text.getvalue(), settings.format)
    is_paged = target.is_stdout and settings.pager and takes_escapes(target.descriptor)
    if not (is_paged and show_paged(shown)):
        target.put(lambda out: out.write(shown))


def show_paged(text: bytes) -> bool:
    """Show text with ``$PAGER``, or ``less`` if it is not set, as git does but without a shell.

    Returns:
        False if nothing was shown: the text fits the terminal, or there is no such program.
    """
    import shlex
    import shutil
    import signal
    import subprocess

    if text.count(b"\n") < shutil.get_terminal_size().lines:
        return False
    try:
        words = shlex.split(os.environ.get("PAGER", _USUAL_PAGER))
    except ValueError:  # an open quote
        return False
    program = shutil.which(words[0]) if words else None
    if program is None or words == ["cat"]:
        return False
    environment = {"LESS": _LESS_OPTIONS, "LV": "-c", **os.environ}
    try:
        pager = subprocess.Popen([program, *words[1:]], stdin=subprocess.PIPE, env=environment)
    except OSError:
        return False
    # The pager handles Ctrl-C, which ends a search.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        pager.communicate(text)  # leaving a pager early is no error
    finally:
        signal.signal(signal.SIGINT, before)
    return True


def repeated(command: Command, arguments: Sequence[str]) -> Repeated:
    """Return the options, and COMMAND, that suggested commands repeat.

    Args:
        arguments: the words after the command's name, without errors.
    """
    from prospect.render.next_commands import Repeated  # numpy: not before `get_ready`

    rest = list(arguments)
    options = rest[:1] if command.runs_another else rest
    if not any(word.startswith("-") for word in options):
        return Repeated(tuple(rest) if command.runs_another else ())
    from prospect.cli.option_table import options_of  # slow to import

    reading = {*_READING, *field_names(NamingOptions)} - {"label"}
    given = list(given_options(command, options_of(command), rest, []))

    def kept(other: Command, keywords: set[str]) -> tuple[str, ...]:
        taken = {(one.keyword, name) for one in options_of(other) for name in one.spellings}
        words: list[str] = []
        for spelling, option, text in given:
            if option.keyword in keywords and (option.keyword, spelling) in taken:
                words += (spelling, text) if option.check else (spelling,)
        return tuple(words)

    record: tuple[str, ...] = ()
    if command.runs_another:
        keywords = {option.keyword for option in options_of(RECORD)} - {*_NOT_RECORDED}
        end = ("--",) if rest and rest[0].startswith("-") else ()
        record = (*kept(RECORD, keywords), *end, *rest)
    return Repeated(record, {other.name: kept(other, reading) for other in _READERS})
