"""Say what was recorded, in a sentence, and what to type next.

Without numpy, which `prospect record` never loads.
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
from prospect.perfdata.format import PERF_RECORD_COMPRESSED

_DATA_SECTION = struct.Struct("<QQ")
_PIPE_HEADER = struct.Struct("<QQ")  # struct perf_pipe_file_header
_DATA_SECTION_AT = 40  # of struct perf_file_header
_ATTRS = struct.Struct("<QQQ")  # the size of one with its ids, then the section
_ATTRS_AT = 16  # of struct perf_file_header
_ATTR_HEAD = struct.Struct("<IIQQQQQ")  # struct perf_event_attr as far as its flags
_WORD_BYTES = 8
_SIZE_AT_BIT = 48  # of the first word of a record, struct perf_event_header
# Larger recordings are counted at some places only: walking 10,000 records takes 2 ms.
_MOST_WORDS = (512 << 10) // _WORD_BYTES
_PLACES = 64
_PLACE_WORDS = (4 << 10) // _WORD_BYTES
# A record has at most so many words; so many behind each other are no accident.
_LONGEST_WORDS = 1 << 13
_CHAIN = 8
_MOST_KINDS = 1 << 7


def closing_words(descriptor: int, path: str, default_path: str) -> str:
    """Say how large a recording is, how many samples it has, and which command reads it.

    Args:
        descriptor: the recording, complete.
        path: what it is called.
        default_path: the recording that commands read by default.
    """
    count, is_exact = count_samples(descriptor)
    parts = [_size(os.fstat(descriptor).st_size), *_samples(count, is_exact=is_exact)]
    file = ""
    if path != default_path:
        from prospect.shell import shell_operand  # noqa: PLC0415 - not for the usual name

        file = f" {shell_operand(path)}"
    return f"{path}: {', '.join(parts)}; next: prospect report{file}"


def count_samples(descriptor: int) -> tuple[int, bool]:
    """Count the samples of a recording that this program wrote; up to where it is damaged.

    Returns:
        how many, and whether each was counted: of a large one they are estimated from records at
        places that are evenly spread. Those of packed records, and of perf's pipe mode, are not
        counted: -1.
    """
    if os.fstat(descriptor).st_size < _DATA_SECTION_AT + _DATA_SECTION.size:
        return 0, True
    with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as data:
        if _PIPE_HEADER.unpack_from(data)[1] == _PIPE_HEADER.size:
            return -1, True
        begin, size = _DATA_SECTION.unpack_from(data, _DATA_SECTION_AT)
        # The size is written at the end: a recording that was cut has none.
        size = size or len(data) - begin
        size = max(0, min(size, len(data) - begin)) // _WORD_BYTES * _WORD_BYTES
        with memoryview(data)[begin : begin + size] as part, part.cast("Q") as words:
            if words and words[0] & 0xFFFF_FFFF == PERF_RECORD_COMPRESSED:
                return -1, True
            others = _ids_of_others(data)
            if len(words) <= _MOST_WORDS:
                return _walk(words, 0, len(words), others)[0], True
            return _estimated(words, others), False


def _ids_of_others(data: mmap.mmap) -> frozenset[int]:
    """Return the ids of events whose records are not samples: Python frames, and waits."""
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


def _estimated(words: memoryview, others: frozenset[int]) -> int:
    """Return about how many samples there are, -1 if no place shows whole records."""
    samples = walked = 0
    for place in range(_PLACES):
        at = _first_record(words, (2 * place + 1) * len(words) // (2 * _PLACES))
        found, end = _walk(words, at, min(at + _PLACE_WORDS, len(words)), others)
        samples, walked = samples + found, walked + end - at
    return round(samples / walked * len(words)) if walked else -1


def _first_record(words: memoryview, begin: int) -> int:
    """Return where a record begins from which several others follow each other."""
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
    """Return how many samples begin before `end`, and where the record after them begins.

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


def _samples(count: int, *, is_exact: bool) -> list[str]:
    """Say how many samples there are, if that is known."""
    if count < 0:
        return []
    if not is_exact:
        unit = 10 ** max(0, len(str(count)) - 2)
        return [f"about {round(count / unit) * unit} samples"]
    return ["1 sample" if count == 1 else f"{count} samples"]


def _size(count: int) -> str:
    if count < 10 << 20:
        return f"{count >> 10} KiB"
    return f"{count >> 20} MiB"
