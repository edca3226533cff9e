"""What a runtime's functions are described by: name and file, and the line of each frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from prospect.abi import runtime_frames as wire

if TYPE_CHECKING:
    from prospect.symbols.runtime_code import RuntimeFunction

_CODECS = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le", wire.IS_UTF8: "utf-8"}


class Lines(Protocol):
    """The lines of one function."""

    @property
    def last(self) -> int:
        """The last line that it has."""

    @property
    def size_bytes(self) -> int:
        """Memory that it takes."""

    def at(self, last: int) -> int:
        """Return the line of a frame by its `last`; 0 if it is not known."""


class Described(NamedTuple):
    """A function, and its lines where they are known."""

    function: RuntimeFunction
    lines: Lines | None = None


def decoded(text: tuple[int, bytes]) -> str:
    """Return text as a report may show it, from the status and the content of a record."""
    status, payload = text
    codec = _CODECS.get(status & wire.BYTES_A_CHARACTER, "latin-1")
    found = payload.decode(codec, "replace")
    if not found.isprintable():
        found = "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in found)
    return found + "…" if status & wire.CUT else found
