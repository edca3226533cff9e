"""The one protocol of output: a Profile goes in, bytes come out.

A renderer has all options of a report, and reads those that its format has. `registry` knows all
renderers by name.
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

    from prospect.profile.model import Profile


_CHUNK_BYTES = 1 << 18
_LINES_AT_ONCE = 256


class Renderer(ReportOptions, ABC):
    """A format that a profile can be written in.

    Attributes:
        suffix: what its files end with.
        recording: what a command line would call the recording, "" if it is not kept.
        repeated: what the commands to type next repeat of the command line.
        colour: mark titles, warnings and cut lines for a terminal.
    """

    suffix: ClassVar[str]

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
    """Return lines as bytes, a few hundred to a piece."""
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
