"""Protocol Buffers → fields, none of whose lengths is believed.

Source: Protocol Buffers documentation, "Encoding".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.errors import RecordingError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

VARINT = 0
_FIXED64 = 1
LENGTH = 2
_FIXED32 = 5
_FIXED_BYTES = {_FIXED64: 8, _FIXED32: 4}
_LONGEST_VARINT = 10
_PACKED_AT_ONCE = 1 << 20
_MASK = 2**64 - 1


def fields(data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """Yield of each field its number, its wire type, its number and its bytes.

    A field has either a number (VARINT and the fixed ones) or bytes (LENGTH).

    Raises:
        RecordingError: the bytes are no message.
    """
    at, end = 0, len(data)
    while at < end:
        # Nearly all tags and lengths have one byte.
        tag = data[at]
        tag, at = (tag, at + 1) if tag < 0x80 else _varint(data, at)
        kind = tag & 7
        if kind in (VARINT, LENGTH):
            value = data[at] if at < end else 0x80
            value, at = (value, at + 1) if value < 0x80 else _varint(data, at)
            if kind == VARINT:
                yield tag >> 3, kind, value, b""
                continue
            if value > end - at:
                raise _damaged()
            yield tag >> 3, kind, 0, data[at : at + value]
            at += value
        elif kind in _FIXED_BYTES:
            size = _FIXED_BYTES[kind]
            if size > end - at:
                raise _damaged()
            yield tag >> 3, kind, int.from_bytes(data[at : at + size], "little"), b""
            at += size
        else:
            raise _damaged()


def begins_as_message(head: bytes, last_field: int) -> bool:
    """Return whether bytes can be the beginning of a message with fields up to a number."""
    at = 0
    while at < len(head):
        tag = head[at]
        number, kind = tag >> 3, tag & 7
        if not 1 <= number <= last_field or kind not in (VARINT, LENGTH):
            return False
        try:
            value, at = _varint(head, at + 1)
        except RecordingError:
            return len(head) - at <= _LONGEST_VARINT
        if kind == LENGTH:
            at += value
    return bool(head)


def signed(value: int) -> int:
    """Return an int64 of the bits of a varint."""
    return value - 2**64 if value >= 2**63 else value


def packed(parts: Sequence[bytes]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Decode packed numbers of many messages at once.

    Args:
        parts: the packed field of each message.

    Returns:
        u64[m] the numbers, and i64[n + 1] where those of each message begin.

    Raises:
        RecordingError: a number is cut off or has more than 64 bits.
    """
    data = np.frombuffer(b"".join(parts), np.uint8)
    ends = np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)))
    is_last = data < 0x80
    if len(data) and not is_last[ends[ends > 0] - 1].all():
        raise _damaged()
    before = np.append(np.int32(0), np.cumsum(is_last, dtype=np.int32))
    numbers = np.empty(int(before[-1]), np.uint64)
    begin = 0
    while begin < len(data):
        # The cost of a number is its columns: a part of them at a time.
        end = min(begin + _PACKED_AT_ONCE, len(data))
        end -= int(is_last[begin:end][::-1].argmax())
        numbers[before[begin] : before[end]] = _decoded(data[begin:end], is_last[begin:end])
        begin = end
    return numbers, np.append(0, before.take(ends)).astype(np.int64)


def count_packed(parts: Sequence[bytes]) -> int:
    """Return how many packed numbers there are, before any is decoded."""
    return int(np.count_nonzero(np.frombuffer(b"".join(parts), np.uint8) < 0x80))


def _decoded(data: NDArray[np.uint8], is_last: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Decode numbers that follow each other; the last one ends with the data."""
    last = np.flatnonzero(is_last)
    if not len(last):
        raise _damaged()
    first = np.append(0, last[:-1] + 1)
    size = last - first + 1
    if size.max() > _LONGEST_VARINT:
        raise _damaged()
    numbers = np.zeros(len(last), np.uint64)
    for nth in range(int(size.max())):
        rows = np.flatnonzero(size > nth)
        bits = data.take(first.take(rows) + nth).astype(np.uint64) & np.uint64(0x7F)
        numbers[rows] |= bits << np.uint64(7 * nth)
    return numbers


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for nth, byte in enumerate(data[at : at + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << (7 * nth)
        if byte < 0x80:
            return value & _MASK, at + nth + 1
    raise _damaged()


def encode_varint(value: int) -> bytes:
    """Encode a number, as a packed field of one has it."""
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _damaged() -> RecordingError:
    return RecordingError("damaged pprof profile: it ends too early, or is none")
