"""Attributes and feature sections of perf.data files, byte by byte."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.abi.attr import EventAttr, EventDescription


_MISC_USER = 2
_ATTR = "IIQQQQQIIQQQQIiQIHHIIQQ"


def pack_attr(attr: EventAttr, order: str = "<", size: int = 136) -> bytes:
    """struct perf_event_attr of `size` bytes as a machine of either byte order stores it."""
    fields = list(struct.unpack("<" + _ATTR, attr.pack()))
    fields[1] = size
    if order == ">":
        # Bit-fields begin at the other end; the two bits of precise_ip keep their own order.
        flags = fields[6]
        flags = flags & ~(3 << 15) | (flags >> 15 & 1) << 16 | (flags >> 16 & 1) << 15
        fields[6] = int(f"{flags:064b}"[::-1], 2)
    return struct.pack(order + _ATTR, *fields)[:size].ljust(size, b"\0")


def feature_string(text: str, order: str = "<") -> bytes:
    raw = text.encode() + b"\0"
    raw += bytes(-len(raw) % 64)
    return struct.pack(order + "I", len(raw)) + raw


def feature_strings(texts: Sequence[str], order: str = "<") -> bytes:
    return struct.pack(order + "I", len(texts)) + b"".join(feature_string(t, order) for t in texts)


def feature_event_desc(
    events: Sequence[EventDescription], order: str = "<", attr_size: int = 136
) -> bytes:
    content = struct.pack(order + "II", len(events), attr_size)
    for event in events:
        content += pack_attr(event.attr, order, attr_size)
        content += struct.pack(order + "I", len(event.ids)) + feature_string(event.name, order)
        content += struct.pack(f"{order}{len(event.ids)}Q", *event.ids)
    return content


def build_id_record(
    name: bytes, build_id: bytes, *, pid=-1, misc=_MISC_USER, order="<", type_=0, sized=True
) -> bytes:
    """An entry of HEADER_BUILD_ID; `type_` 67 makes it a record of pipe mode."""
    body = struct.pack(order + "i", pid) + build_id.ljust(20, b"\0")
    body += bytes([len(build_id) if sized else 0, 0, 0, 0])
    body += name + bytes(64 - len(name) % 64)
    misc |= sized << 15
    return struct.pack(order + "IHH", type_, misc, 8 + len(body)) + body
