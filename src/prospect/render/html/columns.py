"""Columns of numbers → bytes that a browser takes as typed arrays without a loop.

Comes in: named columns and values that JSON has. Goes out: a block of bytes: the length of its
header, u32; the header, JSON in UTF-8; then the columns, each from a multiple of 8 bytes on, in the
smallest of u8, u16 and u32 that holds it, or f64; fractions in f32; all little-endian.
`assets/unpack.js` reads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prospect.render.encoding import encoded

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ALIGNMENT = 8
_SMALL = ((1 << 8, "u1"), (1 << 16, "u2"), (1 << 32, "u4"))


class ColumnBlock:
    """A block that is being filled."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, column: NDArray[Any]) -> dict[str, Any]:
        """Take a column and return where it stands, as the header has it.

        Args:
            column: [n] whole numbers that are not negative, or floating-point numbers.
        """
        kind = "f4"
        if column.dtype.kind != "f":
            kind = next((name for end, name in _SMALL if column.max(initial=0) < end), "f8")
        data = column.astype("<" + kind).tobytes()
        place = {"type": kind, "at": self._size, "length": len(column)}
        data += bytes(-len(data) % _ALIGNMENT)
        self._parts.append(data)
        self._size += len(data)
        return place

    def block(self, header: dict[str, Any]) -> bytes:
        """Return the whole block."""
        text = encoded(header)
        text += b" " * (-(len(text) + 4) % _ALIGNMENT)
        return b"".join((len(text).to_bytes(4, "little"), text, *self._parts))
