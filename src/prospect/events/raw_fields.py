"""Raw data of samples: fields of tracepoints' records, and whole data of PMUs.

The tracepoints' formats in the recording give the places of fields (``EventDescription.fields``).

Source: the comment of PERF_SAMPLE_RAW in ``include/uapi/linux/perf_event.h`` (Linux 6.18): u32
size, then bytes up to a whole word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.buffers import segments
from prospect.events.record_columns import RawData, RawFields
from prospect.records import replace

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from prospect.columns.array_types import I64, U64
    from prospect.events.record_columns import Samples

    Values = NDArray[np.signedinteger[Any]]
    Fields = tuple[tuple[int, int], ...]

_SIZE_BYTES = 4
_WORD_BYTES = 8
_MASK_LOW = np.uint64((1 << 32) - 1)


class RawColumns:
    """The wanted raw data of all samples so far."""

    def __init__(self, fields: tuple[Fields, ...], whole: tuple[int, ...]) -> None:
        self._fields = _FieldColumns(fields) if fields else None
        self._data = _DataColumns(whole) if whole else None

    @property
    def mark(self) -> tuple[int, int]:
        """A moment that `rewind` can return to."""
        return self._fields.mark if self._fields else 0, self._data.mark if self._data else 0

    def rewind(self, mark: tuple[int, int]) -> None:
        """Forget what was appended since `mark`."""
        for columns, at in zip((self._fields, self._data), mark, strict=True):
            if columns:
                columns.rewind(at)

    def append(self, words: U64, at: I64, end: I64, rows: I64, first_sample: int) -> None:
        """Append the raw data of consecutive samples.

        Args:
            words: u64 the block.
            at: i64[n] the ends of the samples' call chains.
            end: i64[n] the ends of the samples.
            rows: i64[n] their events.
            first_sample: the row of the first among all samples.
        """
        for columns in (self._fields, self._data):
            if columns:
                columns.append(words, at, end, rows, first_sample)

    def added_to(self, samples: Samples) -> Samples:
        """Return samples with their raw data."""
        return replace(
            samples,
            raw=self._fields.finish() if self._fields else None,
            data=self._data.finish() if self._data else None,
        )


class _DataColumns:
    """Whole raw data of the samples of some events."""

    def __init__(self, events: tuple[int, ...]) -> None:
        self._events = np.array(events, np.int64)
        self._parts: list[tuple[I64, I64, U64]] = []

    @property
    def mark(self) -> int:
        return len(self._parts)

    def rewind(self, mark: int) -> None:
        del self._parts[mark:]

    def append(self, words: U64, at: I64, end: I64, rows: I64, first_sample: int) -> None:
        found = np.flatnonzero(np.isin(rows, self._events))
        begin = at[found]
        size = (words.take(begin, mode="clip") & _MASK_LOW).view(np.int64)
        length = (size + _SIZE_BYTES + _WORD_BYTES - 1) // _WORD_BYTES
        is_whole = begin + length <= end[found]
        found, begin, length = found[is_whole], begin[is_whole], length[is_whole]
        data = words.take(segments(begin, length))
        self._parts.append((first_sample + found, length, data))

    def finish(self) -> RawData | None:
        if not self._parts:
            return None
        sample, length, words = (np.concatenate(part) for part in zip(*self._parts, strict=True))
        return RawData(sample, np.append(0, np.cumsum(length)), words)


class _FieldColumns:
    """The fields of all samples so far."""

    def __init__(self, fields: tuple[Fields, ...]) -> None:
        self._fields = fields
        self._columns = max(map(len, fields))
        self._parts: list[tuple[I64, list[Values]]] = []

    @property
    def mark(self) -> int:
        return len(self._parts)

    def rewind(self, mark: int) -> None:
        del self._parts[mark:]

    def append(self, words: U64, at: I64, end: I64, rows: I64, first_sample: int) -> None:
        for row, fields in enumerate(self._fields):
            of_event = np.flatnonzero(rows == row) if fields else ()
            if not len(of_event):
                continue
            begin = at[of_event]
            size = (words.take(begin, mode="clip") & _MASK_LOW).view(np.int64)
            last = begin + (size + _SIZE_BYTES + _WORD_BYTES - 1) // _WORD_BYTES
            is_whole = (last <= end[of_event]) & (
                size >= max(offset + max(width, _SIZE_BYTES) for offset, width in fields)
            )
            of_event, begin = of_event[is_whole], begin[is_whole]
            values: list[Values] = [
                _narrow(_read(words, _WORD_BYTES * begin + _SIZE_BYTES + offset, width))
                for offset, width in fields
            ]
            nothing = np.broadcast_to(np.int16(0), len(of_event))
            values += [nothing] * (self._columns - len(fields))
            self._parts.append((first_sample + of_event, values))

    def finish(self) -> RawFields | None:
        """Return the fields in the order of the samples; None for none."""
        if not self._parts:
            return None
        sample = np.concatenate([part[0] for part in self._parts])
        order = np.argsort(sample, kind="stable")
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        # Values take the most memory: each column's parts end before the next column is made.
        columns = [
            _joined([part[1].pop() for part in self._parts], place) for _ in range(self._columns)
        ]
        return RawFields(sample.take(order), tuple(reversed(columns)))


def _joined(parts: list[Values], place: I64) -> Values:
    """Return the values of all parts at their places, as the largest type of any."""
    column = np.empty(len(place), np.result_type(*{part.dtype for part in parts}))
    first = 0
    for part in parts:
        column[place[first : first + len(part)]] = part
        first += len(part)
    return column


def _narrow(values: I64) -> Values:
    """Return values in the smallest of i16, i32 and i64 that holds all."""
    least, most = int(values.min(initial=0)), int(values.max(initial=0))
    for dtype in (np.int16, np.int32):
        if np.iinfo(dtype).min <= least and most <= np.iinfo(dtype).max:
            return values.astype(dtype)
    return values


def _read(words: U64, byte: I64, width: int) -> I64:
    """Read little-endian signed numbers of 4 or 8 bytes, i64[n]; 4 bytes for a width of 2."""
    data = words.view("<u4")
    if width <= _SIZE_BYTES:
        found: I64 = data.take(byte // _SIZE_BYTES).view(np.int32).astype(np.int64)
        return found
    low, high = data.take(byte // _SIZE_BYTES), data.take(byte // _SIZE_BYTES + 1)
    whole: I64 = (low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32)).view(np.int64)
    return whole
