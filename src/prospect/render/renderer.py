"""The protocol of all formats of a report: a Profile → bytes.

A renderer has all options of a report, and uses those of its format. Most formats write either a
report's figures (`FiguresRenderer`) or call stacks (`StackRenderer`). `registry` has all renderers
by name.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from prospect.errors import RenderError
from prospect.options import ReportOptions
from prospect.render.next_commands import NOTHING, Repeated

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import BinaryIO

    from prospect.estimate.finished_report import Report
    from prospect.figures.stacks.stack_weights import StackSamples
    from prospect.profile.model import Profile

_CHUNK_BYTES = 1 << 18
_LINES_AT_ONCE = 256


class Renderer(ReportOptions, ABC):
    """A format of profiles.

    Attributes:
        recording: the recording as a command line names it, "" if it is not kept.
        repeated: the words of the command line that next commands repeat.
        colour: mark titles, warnings and cut lines for a terminal.
    """

    recording: str = ""
    repeated: Repeated = NOTHING
    colour: bool = False

    @abstractmethod
    def render(self, profile: Profile, out: BinaryIO) -> None:
        """Write `profile` to `out`, which stays open.

        Raises:
            RenderError: `out` cannot be written.
            UsageError: an option has no meaning.
        """


def encoded(lines: Iterable[str]) -> Iterator[bytes]:
    """Return lines as bytes, a few hundred in a piece."""
    waiting = iter(lines)
    while some := list(itertools.islice(waiting, _LINES_AT_ONCE)):
        yield ("\n".join(some) + "\n").encode()


def write_pieces(pieces: Iterable[bytes], out: BinaryIO) -> None:
    """Write many small pieces in few large writes.

    Raises:
        RenderError: `out` cannot be written; its cause is the OSError.
    """
    waiting: list[bytes] = []
    waiting_bytes = 0
    try:
        for piece in pieces:
            waiting.append(piece)
            waiting_bytes += len(piece)
            if waiting_bytes >= _CHUNK_BYTES:
                out.write(b"".join(waiting))
                waiting.clear()
                waiting_bytes = 0
        out.write(b"".join(waiting))
        out.flush()
    except OSError as error:
        raise RenderError(f"the report cannot be written: {error.strerror}") from error


class FiguresRenderer(Renderer):
    """A format that writes the figures of the report."""

    shows_code: ClassVar[bool] = False
    shows_lines: ClassVar[bool] = False

    def render(self, profile: Profile, out: BinaryIO) -> None:
        """Write the figures; see `Renderer`."""
        with self.report(profile) as report:
            write_pieces(self.pieces(report), out)

    def report(self, profile: Profile) -> Report:
        """Return the report of a profile.

        Raises:
            UsageError: an option has no meaning.
        """
        from prospect.estimate.finished_report import Report  # noqa: PLC0415 - not for stacks
        from prospect.figures.processes import chosen_seconds  # noqa: PLC0415 - not for stacks

        thresholds_s = self.user_threshold_s, self.kernel_threshold_s
        if self.threshold:
            thresholds_s = (self.threshold / 100.0 * chosen_seconds(profile, self.detail),) * 2
        return Report(
            profile,
            self.detail,
            *thresholds_s,
            disassemble=self.disassemble if self.shows_code else 0,
            lines=self.lines and self.shows_lines,
        )

    @abstractmethod
    def pieces(self, report: Report) -> Iterable[bytes]:
        """Return the document in pieces."""


class StackRenderer(Renderer):
    """A format that writes call stacks, for other tools.

    Its kernel detail, "k", is all samples in the kernel.
    """

    def render(self, profile: Profile, out: BinaryIO) -> None:
        """Write the stacks; see `Renderer`."""
        from prospect.figures.selection import only_exported  # noqa: PLC0415 - not for figures
        from prospect.figures.stacks.stack_weights import (  # noqa: PLC0415 - not for figures
            stack_samples,
            with_waits,
        )

        if self.critical_path:
            from prospect.figures.critical_path import on_critical_path  # noqa: PLC0415 - rarely asked for

            profile = on_critical_path(profile)
        samples = only_exported(stack_samples(with_waits(profile), self.detail))
        write_pieces(self.pieces(samples), out)

    @abstractmethod
    def pieces(self, samples: StackSamples) -> Iterable[bytes]:
        """Return the document in pieces."""
