"""The one protocol of output: a Profile goes in, bytes come out.

A renderer is a `Record`. Its fields are its options, with their defaults: the command line,
the Python interface and the documentation derive from them. `registry` knows all renderers by name.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, ClassVar, Protocol

from prospect.errors import RenderError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import BinaryIO

    from prospect.profile.model import Profile


_CHUNK_BYTES = 1 << 18
_LINES_AT_ONCE = 256


class Renderer(Protocol):
    """A format that a profile can be written in.

    Attributes:
        suffix: what its files end with.
    """

    suffix: ClassVar[str]

    def render(self, profile: Profile, out: BinaryIO) -> None:
        """Write `profile` to `out`, which stays open.

        Raises:
            RenderError: `out` cannot be written.
            UsageError: an option has no meaning.
        """


def encoded(lines: Iterable[str]) -> Iterator[bytes]:
    """Return lines as bytes, some hundred to a piece."""
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
