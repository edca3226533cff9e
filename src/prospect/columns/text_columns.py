"""Lines of text → columns: the bounds of lines and fields, and the values of hexadecimal numbers.

For /proc/kallsyms, System.map and perf map files: hundreds of thousands of lines, parsed as arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from prospect.columns.array_types import I64, U64, Bools

# Precedes and follows the text, so that eight bytes can be read at any place.
PADDING = bytes(16)

_NEWLINE = 0x0A
_SPACE = 0x20


def _each_byte(value: int) -> np.uint64:
    return np.uint64(value * 0x0101010101010101)


_HIGH_BITS = _each_byte(0x80)
_ZEROS = _each_byte(ord("0"))


def padded(text: bytes) -> bytes:
    """Return the text between paddings; all positions below count from the first padding byte."""
    return PADDING + text + PADDING


def line_bounds(text: bytes) -> tuple[I64, I64]:
    """Find the lines of a padded text.

    Returns:
        i64[n], i64[n]: the first byte of each line, and its end without the newline. An unfinished
        last line counts.
    """
    octets = np.frombuffer(text, np.uint8)
    last = len(text) - len(PADDING)
    end = np.flatnonzero(octets[:last] == _NEWLINE)
    if last > len(PADDING) and octets[last - 1] != _NEWLINE:
        end = np.append(end, last)
    start = np.empty(len(end), np.int64)
    if len(end):
        start[0] = len(PADDING)
        start[1:] = end[:-1] + 1
    return start, end


def next_spaces(text: bytes, position: I64, count: int) -> tuple[I64, ...]:
    """Find the next `count` spaces from each position, i64[n], on.

    Returns:
        `count` columns of i64[n], each strictly above the one before if it is found; the text's
        length if it is not.
    """
    octets = np.frombuffer(text, np.uint8)
    spaces = np.append(np.flatnonzero(octets == _SPACE), np.full(count, len(text)))
    first = np.searchsorted(spaces[: len(spaces) - count], position)
    return tuple(spaces.take(first + number) for number in range(count))


def hexadecimal(text: bytes, start: I64, end: I64) -> tuple[U64, Bools]:
    """Read hexadecimal numbers, with or without ``0x``, from `start` to `end`, i64[n].

    Returns:
        u64[n] values, and bool[n] whether the field is a number of 1 to 16 digits.
    """
    octets = np.frombuffer(text, np.uint8)
    # Eight bytes from every position, whatever the alignment; `take` would copy all of them first.
    words = np.ndarray((len(text) - 7,), np.dtype("<u8"), text, strides=(1,))
    has_prefix = (octets.take(start) == ord("0")) & ((octets.take(start + 1) | 0x20) == ord("x"))
    start = start + 2 * has_prefix
    length = end - start
    is_number = (length >= 1) & (length <= 16)
    end = np.where(is_number, end, len(PADDING))
    low, low_is_number = _digits(words[end - 8], np.minimum(length, 8))
    high, high_is_number = _digits(words[end - 16], length - 8)
    return high << np.uint64(32) | low, is_number & low_is_number & high_is_number


def _digits(word: U64, count: I64) -> tuple[U64, Bools]:
    """Read the last `count` (at most 8, none if below 1) of the eight characters in each word."""
    bits = (np.clip(count, 0, 8) * 8).astype(np.uint64)
    unused = np.uint64(64) - bits
    # A shift by 64 is undefined; in two steps it is a shift by at most 32.
    half = unused >> np.uint64(1)
    mask = (_each_byte(0xFF) << half) << (unused - half)
    word = (word & mask) | (_ZEROS & ~mask)
    folded = word | _each_byte(0x20)
    # A byte below 0x80 plus a constant has its high bit set if it is at or above a bound.
    below = word & ~_HIGH_BITS
    folded &= ~_HIGH_BITS
    is_digit = (below + _each_byte(0x80 - 0x30)) & ~(below + _each_byte(0x80 - 0x3A))
    is_letter = (folded + _each_byte(0x80 - 0x61)) & ~(folded + _each_byte(0x80 - 0x67))
    is_number = ((is_digit | is_letter) & ~word & _HIGH_BITS) == _HIGH_BITS
    letter_bit = (is_letter >> np.uint64(7)) & _each_byte(1)
    nibble = (word & _each_byte(0x0F)) + np.uint64(9) * letter_bit
    return _packed(nibble), is_number


def _packed(nibble: U64) -> U64:
    """Pack eight nibbles, the first in the lowest byte, into 32 bits, the first the highest."""
    value = nibble.byteswap()
    for shift, mask in ((4, 0x00FF00FF00FF00FF), (8, 0x0000FFFF0000FFFF), (16, 0xFFFFFFFF)):
        value = (value | value >> np.uint64(shift)) & np.uint64(mask)
    return value
