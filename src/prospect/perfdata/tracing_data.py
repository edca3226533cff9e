"""The formats of tracepoints ↔ feature TRACING_DATA, which perf requires in recordings of them.

`encode_tracing_data` packs files of tracefs; `described_tracepoints` reads names and formats.

Source: ``trace-event-read.c`` (trace_report()) in ``tools/perf/util``, Linux 6.18; the format is
that of trace-cmd, trace.dat(5), version 6.
"""

from __future__ import annotations

import mmap
import re
import struct
from typing import TYPE_CHECKING

from prospect.errors import RecordingError
from prospect.perfdata.format import FieldReader
from prospect.perfdata.perfdata_limits import MOST_FORMAT_BYTES
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MAGIC = b"\x17\x08\x44tracing"
_VERSION = b"0.6\0"
_LITTLE_ENDIAN = 0
_LONG_BYTES = 8
# The first lines of a tracepoint's ``format`` file.
_FORMAT = re.compile(rb"name: (\S+)\nID: (\d{1,10})\n")
# A field has its own line, so a search takes linear time.
_FIELD = rb"^\tfield:[^;\n]{0,256}\b%s;\toffset:(\d{1,5});\tsize:([248]);"
# Fields of tracepoints' records that reports read, in the order of `EventDescription.fields`. The
# type is the first half of a word; its second half shows whether this was in an interrupt.
_WANTED_FIELDS = {
    "sched:sched_waking": (b"pid", b"common_type"),
    "sched:sched_switch": (b"prev_state", b"next_pid"),
}
# Fields of records that our BPF programs wrote (``--wall``).
_OWN_FIELDS = {"sched:sched_switch": (b"syscall", b"followed", b"ran_ns")}


def encode_tracing_data(
    header_page: bytes, header_event: bytes, formats: Mapping[str, Sequence[bytes]]
) -> bytes:
    """Return the section that describes tracepoints.

    Args:
        header_page, header_event: the files of these names in ``events`` of tracefs.
        formats: group → the ``format`` files of its tracepoints.
    """
    parts = [
        _MAGIC + _VERSION,
        struct.pack("<BBI", _LITTLE_ENDIAN, _LONG_BYTES, mmap.PAGESIZE),
        b"header_page\0" + _sized(header_page),
        b"header_event\0" + _sized(header_event),
        struct.pack("<I", 0),  # of ftrace's own events
        struct.pack("<I", len(formats)),
    ]
    for group, files in formats.items():
        parts += (group.encode() + b"\0", struct.pack("<I", len(files)), *map(_sized, files))
    # No symbols of the kernel, no formats of trace_printk(), no names of tasks.
    parts.append(struct.pack("<IIQ", 0, 0, 0))
    return b"".join(parts)


class Tracepoint(NamedTuple):
    """A tracepoint: ``group:name``, and offset and size of its fields that reports read."""

    name: str
    fields: tuple[tuple[int, int], ...]


def described_tracepoints(section: memoryview) -> dict[int, Tracepoint]:
    """Return the tracepoints that a section describes, by number.

    Raises:
        RecordingError: it is cut or no such section.
    """
    head = len(_MAGIC) + len(_VERSION)
    if bytes(section[: len(_MAGIC)]) != _MAGIC or len(section) <= head:
        raise RecordingError("it does not begin as one")
    fields = FieldReader(section[head:], "<" if section[head] == _LITTLE_ENDIAN else ">")
    fields.take(struct.calcsize("<BBI"))
    for name in (b"header_page\0", b"header_event\0"):
        fields.take(len(name))
        fields.take(fields.u64())
    for _ in range(fields.u32()):  # ftrace's own events; each has a size of 8 bytes at least
        fields.take(fields.u64())
    found: dict[int, Tracepoint] = {}
    for _ in range(fields.u32()):
        group = fields.name()
        for _ in range(fields.u32()):
            content = bytes(fields.take(fields.u64())[:MOST_FORMAT_BYTES])
            described = _FORMAT.match(content)
            if described:
                full = f"{group}:{described[1].decode(errors='replace')}"
                found[int(described[2])] = Tracepoint(full, _fields(full, content))
    return found


def _fields(name: str, content: bytes) -> tuple[tuple[int, int], ...]:
    """Return the places of the wanted fields; none if one is missing."""
    own = _places(content, _OWN_FIELDS.get(name, ()))
    places = _places(content, _WANTED_FIELDS.get(name, ()))
    return places + own if places else ()


def _places(content: bytes, fields: tuple[bytes, ...]) -> tuple[tuple[int, int], ...]:
    """Return the places of these fields; none if one is missing."""
    found = [re.search(_FIELD % field, content, re.MULTILINE) for field in fields]
    places = tuple((int(one[1]), int(one[2])) for one in found if one)
    is_known = len(places) == len(fields) and all(offset % 4 == 0 for offset, _ in places)
    return places if is_known else ()


def _sized(content: bytes) -> bytes:
    return struct.pack("<Q", len(content)) + content
