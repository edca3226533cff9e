"""What every command that analyses a recording does first: this process, and how names are found.

Nothing here is on the way to a command's exec: numpy and all stages may be imported.
"""

from __future__ import annotations

import gc
import io
import os
from typing import TYPE_CHECKING

from prospect.cli.terminal import fit_for, is_ascii_locale, say, takes_escapes

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from prospect.analysis.wanted import Sinks
    from prospect.cli.progress import Progress
    from prospect.files.outputs import ReportFile
    from prospect.options import Settings


def get_ready() -> None:
    """Set this process up for one analysis; before numpy is imported."""
    from prospect.columns.process import keep_freed_memory, start_numpy

    start_numpy()
    # The tables hold no cycles, and the process ends with the report: looking for some among the
    # records of 100,000 processes took a sixth of the time.
    gc.disable()
    keep_freed_memory()


class Unread:
    """Takes what of recordings could not be read, which is said when all else is written."""

    def __init__(self) -> None:
        self._sentences: list[str] = []

    def add(self, sentence: str) -> None:
        """Take a sentence in."""
        self._sentences.append(sentence)

    def exit_status(self) -> int:
        """Say it, and return 1; 0 where there is nothing."""
        for sentence in self._sentences:
            say(sentence)
        return 1 if self._sentences else 0


def sinks(progress: Progress, unread: Unread) -> Sinks:
    """Return what receives progress and remarks while recordings are read."""
    from prospect.analysis.wanted import Sinks

    return Sinks(announce=progress.announce, on_unread=unread.add)


def takes_colour(target: ReportFile) -> bool:
    """Say whether a report is shown in colour."""
    return takes_escapes(target.descriptor) and not os.environ.get("NO_COLOR")


def put(
    target: ReportFile,
    write: Callable[[BinaryIO], object],
    progress: Progress,
    settings: Settings,
) -> None:
    """Write a report in the format that was chosen and put it in its place.

    On a terminal the report waits until the progress is taken away, both may be the same one, and
    is shown by a pager where it is longer.

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
    if target.is_stdout and settings.pager and takes_escapes(target.descriptor):
        from prospect.cli.pager import show_paged

        if show_paged(shown):
            return
    target.put(lambda out: out.write(shown))
