"""Columns → Protocol Buffers: many messages of one kind at once, without a loop over messages.

Source: Protocol Buffers documentation, "Encoding".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.columns.array_types import I64, U8, Ints

_VARINT = 0
_FIXED64 = 1
_LENGTH = 2


class Rows(NamedTuple):
    """Encoded rows: `data` u8[m], concatenated, and the bytes of each, `size` i64[n]."""

    data: U8
    size: I64

    @property
    def start(self) -> I64:
        """The begin of each row, i64[n]."""
        return np.cumsum(self.size) - self.size


def varints(values: Ints) -> Rows:
    """Encode integers, [n] of any type; negative ones as int64 has them, in ten bytes."""
    rest = values.astype(np.int64).view(np.uint64) if values.dtype.kind == "i" else values
    rest = rest.astype(np.uint64)
    size = np.ones(len(rest), np.int64)
    for bits in range(7, 64, 7):
        size += rest >= np.uint64(1 << bits)
    data = np.empty(int(size.sum()), np.uint8)
    place, left = np.cumsum(size) - size, size
    while len(rest):
        data[place] = (rest & np.uint64(0x7F)).astype(np.uint8) | ((left > 1) * np.uint8(0x80))
        goes_on = np.flatnonzero(left > 1)
        rest = rest.take(goes_on) >> np.uint64(7)
        place, left = place.take(goes_on) + 1, left.take(goes_on) - 1
    return Rows(data, size)


def texts(values: Sequence[str]) -> Rows:
    """Encode strings in UTF-8, undecodable bytes as U+FFFD."""
    encoded = [value.encode("utf-8", "surrogateescape") for value in map(_whole, values)]
    clean = [value.decode("utf-8", "replace").encode() for value in encoded]
    return Rows(
        np.frombuffer(b"".join(clean), np.uint8), np.array([len(v) for v in clean], np.int64)
    )


def grouped(rows: Rows, start: I64) -> Rows:
    """Join neighbouring rows: those from `start[g]` to `start[g + 1]` become row g."""
    return Rows(rows.data, np.diff(np.append(0, np.cumsum(rows.size)).take(start)))


def chosen(rows: Rows, row: Ints) -> Rows:
    """Return rows by number, in any order and any number of times."""
    size = rows.size.take(row)
    end = np.cumsum(size)
    source = np.arange(int(end[-1]) if len(end) else 0)
    source += np.repeat(rows.start.take(row) - (end - size), size)
    return Rows(rows.data.take(source), size)


def joined(*parts: Rows) -> Rows:
    """Join parts of messages row by row."""
    size = np.zeros(len(parts[0].size), np.int64)
    for part in parts:
        size += part.size
    data = np.empty(int(size.sum()), np.uint8)
    place = np.cumsum(size) - size
    for part in parts:
        data[np.arange(len(part.data)) + np.repeat(place - part.start, part.size)] = part.data
        place = place + part.size
    return Rows(data, size)


def number_field(number: int, values: Ints) -> Rows:
    """Encode a field of integers; zeros, as the default, take no bytes."""
    is_set = values != 0
    if not is_set.all():
        rows = number_field(number, values[is_set])
        size = np.zeros(len(values), np.int64)
        size[is_set] = rows.size
        return Rows(rows.data, size)
    return joined(_tags(number, _VARINT, len(values)), varints(values))


def fixed64_field(number: int, value: int) -> bytes:
    """Encode a field of 64 bits of one message."""
    return bytes([number << 3 | _FIXED64]) + value.to_bytes(8, "little")


def bytes_field(number: int, rows: Rows) -> Rows:
    """Encode a field of bytes, strings, packed numbers or messages, empty ones as well."""
    return joined(_tags(number, _LENGTH, len(rows.size)), varints(rows.size), rows)


def message(number: int, *fields: Rows) -> bytes:
    """Encode messages as the repeated field `number` of the message around them."""
    return bytes_field(number, joined(*fields)).data.tobytes()


def single(*parts: bytes | Rows) -> Rows:
    """Return one row of all parts."""
    data = b"".join(p if isinstance(p, bytes) else p.data.tobytes() for p in parts)
    return Rows(np.frombuffer(data, np.uint8), np.array([len(data)], np.int64))


def _tags(number: int, wire_type: int, count: int) -> Rows:
    assert number < 16  # noqa: S101 - fields of these formats have tags of one byte
    return Rows(np.full(count, number << 3 | wire_type, np.uint8), np.ones(count, np.int64))


def _whole(value: str) -> str:
    """Replace surrogates that are not escaped bytes; JSON can carry them."""
    if value.isascii():
        return value
    return "".join(
        "\ufffd" if 0xD800 <= ord(c) < 0xDC80 or 0xDCFF < ord(c) < 0xE000 else c for c in value
    )
