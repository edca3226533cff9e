"""Values that change with the address in a function, as Go's linker packs them.

A list has pairs of numbers in LEB128: how much the value differs from the one before, signed by
zigzag, and for how many instructions it holds. It begins with -1 at the function's start and ends
with a difference of 0; only the first difference may be 0 itself.
Source: ``runtime/symtab.go`` pcvalue() and step(), Go 1.16 to 1.27.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.buffers import segments
from prospect.columns.sorting import distinct
from prospect.records import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_LIST_BYTES = 4 << 20
"""Bytes of lists that are unpacked together: 40,000 lists of usual size."""

_MOST_CONTENT_BYTES = 64 << 20
_PIECE = 1 << 20
_LONGEST_NUMBER_BYTES = 5
_LONGEST_DISTANCE = 1 << 31


class GoValues(Record, eq=False):
    """All lists of an image.

    Attributes:
        content: u8[b]; what is beyond `_MOST_CONTENT_BYTES` is not read.
        quantum: bytes of the smallest instruction, in which distances count.
    """

    content: NDArray[np.uint8]
    quantum: int

    def unpacked(self, lists: NDArray[np.int64]) -> ValueLists:
        """Read lists, `MOST_LIST_BYTES` of them; what is beyond has no values.

        Args:
            lists: i64[n] where they begin, in any order; there is none at 0, or outside.
        """
        begin = distinct(lists.clip(0, min(len(self.content), _MOST_CONTENT_BYTES)))
        # Lists are disjoint, so that one without an end costs no more than all bytes once.
        end = np.minimum(self._ends(begin), np.append(begin[1:], len(self.content)))
        length = np.where(begin > 0, end - begin, 0)
        length = np.minimum(length, (MOST_LIST_BYTES - np.cumsum(length) + length).clip(0))
        number, count = _numbers(self.content.take(segments(begin, length)), length)
        pairs = count >> 1  # a cut list may end within a pair
        at = segments(np.zeros(len(begin), np.int64), pairs) * 2
        at += (np.cumsum(count) - count).repeat(pairs)
        difference, step = number.take(at), number.take(at + 1) * self.quantum
        value = _sums((difference >> 1) ^ -(difference & 1), pairs) - 1
        stop = _sums(step, pairs).clip(max=_LONGEST_DISTANCE)
        return ValueLists(begin, np.arange(len(begin)).repeat(pairs), stop, value)

    def _ends(self, begin: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return where the zero is that ends each list; the end of all if there is none."""
        zeros = self._zeros
        row = np.searchsorted(zeros, (begin + 1).astype(np.uint32))
        if not len(zeros):
            return np.full(len(begin), len(self.content))
        end = zeros.take(row, mode="clip").astype(np.int64)
        return np.where(row < len(zeros), end, len(self.content))

    @cached_property
    def _zeros(self) -> NDArray[np.uint32]:
        found = [np.zeros(0, np.uint32)]
        for begin in range(0, min(len(self.content), _MOST_CONTENT_BYTES), _PIECE):
            piece = np.flatnonzero(self.content[begin : begin + _PIECE] == 0)
            found.append((piece + begin).astype(np.uint32))
        return np.concatenate(found)


class ValueLists(Record, eq=False):
    """Values of several lists, one list after another.

    Attributes:
        begin: i64[n] where the lists begin in the image's, rising.
        row: i64[m] which list each value is of, rising.
        stop: i64[m] distance from the function's start of the first byte that does not have it.
        value: i64[m].
    """

    begin: NDArray[np.int64]
    row: NDArray[np.int64]
    stop: NDArray[np.int64]
    value: NDArray[np.int64]

    @property
    def start(self) -> NDArray[np.int64]:
        """i64[m]: the distance of the first byte that has the value."""
        before = np.append(0, self.stop[:-1])[: len(self.stop)]
        is_first = np.diff(self.row, prepend=-1) != 0
        return np.where(is_first, 0, before)

    def rows_of(self, lists: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the row of each list by where it begins, i64[k]; -1 for one that was not read."""
        row = np.searchsorted(self.begin, lists)
        return np.where(np.append(self.begin, -1).take(row) == lists, row, -1)

    def at(self, lists: NDArray[np.int64], distance: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the value at each address, i64[k]; -1 if its list has none.

        Args:
            lists: i64[k] where each one's list begins.
            distance: i64[k] from the start of the function, in bytes.
        """
        row = self.rows_of(lists)
        key = row.clip(0) << 32 | distance.clip(0, _LONGEST_DISTANCE)
        found = np.searchsorted(self._key, key, side="right")
        is_there = np.append(self.row, -1).take(found) == row
        is_there &= (row >= 0) & (distance >= 0)
        return np.where(is_there, np.append(self.value, -1).take(found), -1)

    @cached_property
    def _key(self) -> NDArray[np.int64]:
        return self.row << 32 | self.stop


def _numbers(
    octets: NDArray[np.uint8], length: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Decode the numbers of lists: i64[k], and i64[n] how many each of the n lists has.

    Args:
        octets: u8[b] all lists, one after another.
        length: i64[n] bytes of each.
    """
    end = np.cumsum(length)
    is_last = octets < 0x80
    is_last[end[length > 0] - 1] = True  # no number goes on in the next list
    last = np.flatnonzero(is_last)
    first = np.append(-1, last[:-1])[: len(last)] + 1
    number = octets.take(first).astype(np.int64) & 0x7F
    for k in range(1, _LONGEST_NUMBER_BYTES):
        rows = np.flatnonzero(last - first >= k)
        number[rows] |= (octets.take(first.take(rows) + k).astype(np.int64) & 0x7F) << 7 * k
    before = np.append(0, np.cumsum(is_last)).take(np.append(0, end))
    return number, np.diff(before)


def _sums(value: NDArray[np.int64], count: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return running sums within lists of `count` values each."""
    total = np.append(0, np.cumsum(value))
    end = np.cumsum(count)
    summed: NDArray[np.int64] = total[1:] - total.take(end - count).repeat(count)
    return summed
