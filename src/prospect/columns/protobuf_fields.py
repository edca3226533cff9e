"""Protocol Buffers → fields, with every length checked. Recorders load this without numpy.

Source: Protocol Buffers documentation, "Encoding".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.errors import RecordingError

if TYPE_CHECKING:
    from collections.abc import Iterator

VARINT = 0
_FIXED64 = 1
LENGTH = 2
_FIXED32 = 5
_FIXED_BYTES = {_FIXED64: 8, _FIXED32: 4}
LONGEST_VARINT = 10
_MASK = 2**64 - 1


def fields(data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """Yield the number of each field, its wire type, its value and its bytes.

    A field has either a value (VARINT and the fixed types) or bytes (LENGTH).

    Raises:
        RecordingError: the bytes are not a message.
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
                raise damaged()
            yield tag >> 3, kind, 0, data[at : at + value]
            at += value
        elif kind in _FIXED_BYTES:
            size = _FIXED_BYTES[kind]
            if size > end - at:
                raise damaged()
            yield tag >> 3, kind, int.from_bytes(data[at : at + size], "little"), b""
            at += size
        else:
            raise damaged()


def begins_as_message(head: bytes, last_field: int) -> bool:
    """Return whether bytes can begin a message whose fields have numbers up to `last_field`."""
    at = 0
    while at < len(head):
        tag = head[at]
        number, kind = tag >> 3, tag & 7
        if not 1 <= number <= last_field or kind not in (VARINT, LENGTH):
            return False
        try:
            value, at = _varint(head, at + 1)
        except RecordingError:
            return len(head) - at <= LONGEST_VARINT
        if kind == LENGTH:
            at += value
    return bool(head)


def signed(value: int) -> int:
    """Return the int64 that has the bits of a varint."""
    return value - 2**64 if value >= 2**63 else value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for nth, byte in enumerate(data[at : at + LONGEST_VARINT]):
        value |= (byte & 0x7F) << (7 * nth)
        if byte < 0x80:
            return value & _MASK, at + nth + 1
    raise damaged()


def encode_varint(value: int) -> bytes:
    """Encode a number in LEB128."""
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def damaged() -> RecordingError:
    """Return the error for a message that cannot be read."""
    return RecordingError("damaged pprof profile: it ends too early, or is none")
