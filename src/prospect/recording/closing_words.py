"""What was recorded, in a sentence, and what to type next.

Comes in: a finished recording. Goes out: a line for a person. Free of numpy, which `prospect
record` never loads.
"""

from __future__ import annotations

import mmap
import os
import struct
from shlex import quote

from prospect.abi.constants import PERF_RECORD_SAMPLE
from prospect.perfdata.format import PERF_RECORD_COMPRESSED

_HEADER = struct.Struct("<IHH")  # struct perf_event_header
_DATA_SECTION = struct.Struct("<QQ")
_DATA_SECTION_AT = 40  # of struct perf_file_header
# Larger recordings are not counted: that would take longer than a glance at the line.
_MOST_BYTES = 64 << 20


def closing_words(descriptor: int, path: str, default_path: str) -> str:
    """Say how large a recording is, how many samples it has, and which command reads it.

    Args:
        descriptor: the recording, complete.
        path: what it is called.
        default_path: the recording that commands read by default.
    """
    size = os.fstat(descriptor).st_size
    parts = [_size(size)]
    samples = count_samples(descriptor) if size <= _MOST_BYTES else -1
    if samples >= 0:
        parts.append("1 sample" if samples == 1 else f"{samples} samples")
    operand = "" if path == default_path else f" {quote(path)}"
    return f"{path}: {', '.join(parts)}; next: prospect report{operand}"


def count_samples(descriptor: int) -> int:
    """Count the samples of a recording that this program wrote; up to where it is damaged.

    Those of packed records are not counted: -1.
    """
    if os.fstat(descriptor).st_size < _DATA_SECTION_AT + _DATA_SECTION.size:
        return 0
    found = 0
    with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as data:
        at, size = _DATA_SECTION.unpack_from(data, _DATA_SECTION_AT)
        end = min(at + size, len(data))
        while at + _HEADER.size <= end:
            kind, _, length = _HEADER.unpack_from(data, at)
            if kind == PERF_RECORD_COMPRESSED:
                return -1
            if length < _HEADER.size:
                break
            found += kind == PERF_RECORD_SAMPLE
            at += length
    return found


def _size(count: int) -> str:
    if count < 10 << 20:
        return f"{count >> 10} KiB"
    return f"{count >> 20} MiB"
