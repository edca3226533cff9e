"""Functions of PHP → names and lines. A frame's `last` is its line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.assembly.runtimes.described import Described, decoded
from prospect.records import NamedTuple
from prospect.symbols.runtime_code import RuntimeFunction

if TYPE_CHECKING:
    from prospect.events.runtime_records import CodeText, RuntimeImage

_MOST_LINE = 1 << 24
_LINE_MASK, _LAST_SHIFT = 0xFFFFFFFF, 32


class _Lines(NamedTuple):
    """The lines of a function: frames have them."""

    last: int
    size_bytes: int = 0

    def at(self, last: int) -> int:
        """Return the line of a frame; 0 if it is none of the function's."""
        return last if last <= self.last else 0


def describe_php(text: CodeText, image: RuntimeImage) -> Described:  # noqa: ARG001 - as others
    """Return a function; one that is written in C has no file and no lines."""
    first, last = text.beginning & _LINE_MASK, text.beginning >> _LAST_SHIFT
    is_known = 0 < first <= last < _MOST_LINE
    name = (decoded(text.name) if text.name else "") or "{main}"
    if text.scope:
        name = f"{decoded(text.scope)}::{name}"
    file = decoded(text.file) if text.file else ""
    function = RuntimeFunction(file or "[php]", name, first if is_known else 0)
    return Described(function, _Lines(last) if is_known and file else None)
