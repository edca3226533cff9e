"""The closing line of `prospect record`: size, samples, and the command to type next.

It needs no numpy, which `prospect record` never loads.
"""

from __future__ import annotations

import mmap
import os
import struct

from prospect.abi.constants import (
    FLAG_CONTEXT_SWITCH,
    PERF_COUNT_SW_BPF_OUTPUT,
    PERF_RECORD_SAMPLE,
    PERF_SAMPLE_IDENTIFIER,
    PERF_TYPE_SOFTWARE,
)
from prospect.announcing import pluralize
from prospect.perfdata.format import PERF_RECORD_COMPRESSED

_DATA_SECTION = struct.Struct("<QQ")
_PIPE_HEADER = struct.Struct("<QQ")  # struct perf_pipe_file_header
_DATA_SECTION_AT = 40  # of struct perf_file_header
_ATTRS = struct.Struct("<QQQ")  # the size of one with its ids, then the section
_ATTRS_AT = 16  # of struct perf_file_header
_ATTR_HEAD = struct.Struct("<IIQQQQQ")  # struct perf_event_attr as far as its flags
_WORD_BYTES = 8
_SIZE_AT_BIT = 48  # of the first word of a record, struct perf_event_header
# In larger recordings only some places are counted: walking 10,000 records takes 2 ms.
_MOST_WORDS = (512 << 10) // _WORD_BYTES
_PLACES = 64
_PLACE_WORDS = (4 << 10) // _WORD_BYTES
# The most words of a record, and the number of consecutive records that are no accident.
_LONGEST_WORDS = 1 << 13
_CHAIN = 8
_MOST_KINDS = 1 << 7


def closing_words(descriptor: int, path: str, default_path: str) -> str:
    """Return a sentence with a recording's size, its samples, and the command that reads it.

    Args:
        descriptor: the recording, complete.
        path: of the recording.
        default_path: the recording that commands read by default.
    """
    size = os.fstat(descriptor).st_size
    parts = [f"{size >> 10} KiB" if size < 10 << 20 else f"{size >> 20} MiB"]
    count, is_exact = count_samples(descriptor)
    if count >= 0 and not is_exact:
        unit = 10 ** max(0, len(str(count)) - 2)
        parts.append(f"about {round(count / unit) * unit} samples")
    elif count >= 0:
        parts.append(pluralize(count, "sample"))
    file = ""
    if path != default_path:
        from prospect.shell import shell_operand  # noqa: PLC0415 - not for the usual name

        file = f" {shell_operand(path)}"
    return f"{path}: {', '.join(parts)}; next: prospect report{file}"


def count_samples(descriptor: int) -> tuple[int, bool]:
    """Count the samples of a recording that this program wrote, as far as it is undamaged.

    Returns:
        Their number, and whether it is exact: that of a large recording is estimated from records
        at evenly spread places. It is -1 for packed records and perf's pipe mode.
    """
    if os.fstat(descriptor).st_size < _DATA_SECTION_AT + _DATA_SECTION.size:
        return 0, True
    with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as data:
        if _PIPE_HEADER.unpack_from(data)[1] == _PIPE_HEADER.size:
            return -1, True
        begin, size = _DATA_SECTION.unpack_from(data, _DATA_SECTION_AT)
        # The recorder writes the size at the end: a recording that was cut has none.
        size = size or len(data) - begin
        size = max(0, min(size, len(data) - begin)) // _WORD_BYTES * _WORD_BYTES
        with memoryview(data)[begin : begin + size] as part, part.cast("Q") as words:
            if words and words[0] & 0xFFFF_FFFF == PERF_RECORD_COMPRESSED:
                return -1, True
            others = _ids_of_others(data)
            if len(words) <= _MOST_WORDS:
                return _walk(words, 0, len(words), others)[0], True
            return _estimate(words, others), False


def _ids_of_others(data: mmap.mmap) -> frozenset[int]:
    """Return the ids of events whose records do not count: Python frames, and waits."""
    ids: set[int] = set()
    try:
        each, begin, size = _ATTRS.unpack_from(data, _ATTRS_AT)
        is_whole = _ATTR_HEAD.size <= each <= size <= len(data) - begin
        for at in range(begin, begin + size, each) if is_whole else ():
            kind, _, config, _, sampled, _, flags = _ATTR_HEAD.unpack_from(data, at)
            is_output = (kind, config) == (PERF_TYPE_SOFTWARE, PERF_COUNT_SW_BPF_OUTPUT)
            if sampled & PERF_SAMPLE_IDENTIFIER and (is_output or flags & FLAG_CONTEXT_SWITCH):
                ids_at, ids_size = _DATA_SECTION.unpack_from(data, at + each - _DATA_SECTION.size)
                some = data[ids_at : ids_at + ids_size // _WORD_BYTES * _WORD_BYTES]
                ids.update(memoryview(some).cast("Q"))
    except struct.error:
        pass  # damaged
    return frozenset(ids)


def _estimate(words: memoryview, others: frozenset[int]) -> int:
    """Return the approximate number of samples, -1 if no place has whole records."""
    samples = walked = 0
    for place in range(_PLACES):
        at = _first_record(words, (2 * place + 1) * len(words) // (2 * _PLACES))
        found, end = _walk(words, at, min(at + _PLACE_WORDS, len(words)), others)
        samples, walked = samples + found, walked + end - at
    return round(samples / walked * len(words)) if walked else -1


def _first_record(words: memoryview, begin: int) -> int:
    """Return the place of a record that several others follow."""
    for at in range(begin, min(begin + _LONGEST_WORDS, len(words))):
        end = at
        for _ in range(_CHAIN):
            head = words[end] if end < len(words) else 0
            if not (0 < head & 0xFFFF_FFFF < _MOST_KINDS and head >> _SIZE_AT_BIT + 3):
                break
            end += head >> _SIZE_AT_BIT + 3
        else:
            return at
    return len(words)


def _walk(words: memoryview, at: int, end: int, others: frozenset[int]) -> tuple[int, int]:
    """Return the number of samples that begin before `end`, and the place of the next record.

    A sample's first word is the id of its event; samples of `others` do not count.
    """
    samples = 0
    while at < end:
        head = words[at]
        size = head >> _SIZE_AT_BIT + 3
        if not size:
            break
        if head & 0xFFFF_FFFF == PERF_RECORD_SAMPLE:
            samples += not others or words[min(at + 1, len(words) - 1)] not in others
        at += size
    return samples, at
