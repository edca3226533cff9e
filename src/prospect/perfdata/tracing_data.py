"""The formats of tracepoints → the section without which perf opens no recording of them.

Comes in: files of tracefs. Goes out: the bytes of feature TRACING_DATA.

Defined by: ``trace-event-read.c`` (trace_report()) in ``tools/perf/util``, Linux 6.18; the format
is that of trace-cmd, trace.dat(5), version 6.
"""

from __future__ import annotations

import mmap
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MAGIC = b"\x17\x08\x44tracing"
_VERSION = b"0.6\0"
_LITTLE_ENDIAN = 0
_LONG_BYTES = 8


def encode_tracing_data(
    header_page: bytes, header_event: bytes, formats: Mapping[str, Sequence[bytes]]
) -> bytes:
    """Return the section that describes tracepoints.

    Args:
        header_page: the file of this name in ``events`` of tracefs.
        header_event: likewise.
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


def _sized(content: bytes) -> bytes:
    return struct.pack("<Q", len(content)) + content
