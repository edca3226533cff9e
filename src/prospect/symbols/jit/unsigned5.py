"""Compressed numbers of HotSpot: one to five bytes each, of 6 bits but for the last one.

Defined by: ``src/hotspot/share/utilities/unsigned5.hpp`` (OpenJDK 20 and later, which add 1 to each
byte, so that none is 0) and ``code/compressedStream.hpp`` (before).
"""

from __future__ import annotations

_LAST_BELOW, _BITS, _MOST_OCTETS = 192, 6, 5
_MASK = (1 << 32) - 1


def read_unsigned(data: bytes | memoryview, at: int, shift: int) -> tuple[int, int]:
    """Return the number at a place, and where the next one is.

    Args:
        data: of any origin.
        at: the place.
        shift: what is added to each byte, 0 or 1.

    Raises:
        IndexError: the data end before the number does.
    """
    total = 0
    for number in range(_MOST_OCTETS):
        byte = data[at + number] - shift
        total += byte << _BITS * number
        if byte < _LAST_BELOW - shift:
            return total & _MASK, at + number + 1
    return total & _MASK, at + _MOST_OCTETS


def read_signed(data: bytes | memoryview, at: int, shift: int) -> tuple[int, int]:
    """Return a signed number, whose sign is its lowest bit; otherwise as `read_unsigned`."""
    value, at = read_unsigned(data, at, shift)
    return value >> 1 ^ -(value & 1), at
