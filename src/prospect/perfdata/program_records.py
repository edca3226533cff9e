"""Moves misplaced tails of BPF programs' records, so that perf accepts the recording.

If several events on a CPU, even of different recorders, watch for BPF programs, the kernel adds the
size of each event's tail to one header. The record's size is then too large, and its tail is not at
its end, where readers expect it. perf refuses such a file. Copies of stacks may contain bytes that
look like such a record: only the chain of records shows the real ones. The chain is followed only
    if
something looks like such a record, because most recordings have none.

Source: perf_event_ksymbol_output() and perf_event_bpf_output() in ``kernel/events/core.c``, Linux
6.18, which do not restore header.size as perf_event_mmap_output() does.
"""

from __future__ import annotations

import ctypes
import struct

from prospect.abi import constants as abi
from prospect.abi.record_layout import HEADER, layout_of, record_struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    import mmap
    from collections.abc import Collection, Iterator, Sequence

    from prospect.abi.attr import EventDescription
    from prospect.columns.array_types import I64, U64

    Records = mmap.mmap | bytearray

_HEADER = struct.Struct("<" + HEADER)
# address, length, kind, flags; then the name. The other kind has: type, flags, id, tag.
_KSYMBOL = record_struct(abi.PERF_RECORD_KSYMBOL)
_BPF_EVENT_BYTES = 24
# Programs, and the trampolines and dispatchers that call them.
_NAME = b"bpf_"
_ID = struct.Struct("<Q")
# KSYM_NAME_LEN, include/linux/kallsyms.h.
_MOST_NAME = 512
# After so many names outside of records, following the chain is faster.
_MOST_NAMES = 10_000


def mend_program_records(data: Records, begin: int, events: Sequence[EventDescription]) -> int:
    """Move the tails of such records to their ends, in place; return the number of moved tails.

    `data` has whole records from `begin` on, up to a file's last one. The events have
    PERF_SAMPLE_IDENTIFIER and tails of one size.

    Raises:
        ImportError: there are such records, but no numpy to find them.
    """
    tail_bytes = 8 * layout_of(events[0].attr).tail_words if events else 0
    ids = {number for event in events for number in event.ids}
    if not tail_bytes or not _may_have_some(data, tail_bytes, ids):
        return 0
    return sum(_mend(data, at, tail_bytes, ids) for at in _places(data, begin, events))


def _may_have_some(data: Records, tail_bytes: int, ids: Collection[int]) -> bool:
    """Return whether anything looks like such a record of a symbol, which each program has."""
    for number, at in enumerate(_names(data)):
        begin = at - _KSYMBOL.size
        if number == _MOST_NAMES:
            return True
        if begin >= 0:
            type_, _, size, _, _, kind, _ = _KSYMBOL.unpack_from(data, begin)
            is_symbol = (type_, kind) == (abi.PERF_RECORD_KSYMBOL, abi.PERF_RECORD_KSYMBOL_TYPE_BPF)
            is_whole = size % 8 == 0 and begin + size <= len(data)
            if is_symbol and is_whole and _tail_of(data, begin, tail_bytes, ids) >= 0:
                return True
    return False


def _names(data: Records) -> Iterator[int]:
    """Yield the places of names of programs, by memmem(3), which takes a third of `data.find`."""
    libc = ctypes.CDLL(None)
    libc.memmem.restype = ctypes.c_void_p
    first = ctypes.addressof(ctypes.c_char.from_buffer(data))
    at, size = first, ctypes.c_size_t(len(_NAME))
    while True:
        rest = first + len(data) - at
        found = libc.memmem(ctypes.c_void_p(at), ctypes.c_size_t(rest), _NAME, size)
        if not found:
            return
        yield found - first
        at = found + len(_NAME)


def _places(data: Records, begin: int, events: Sequence[EventDescription]) -> list[int]:
    """Return the offsets of the records of symbols and programs."""
    import numpy as np  # noqa: PLC0415 - most recordings have no program

    from prospect.events.decode import looks_of  # noqa: PLC0415 - most recordings have no program
    from prospect.events.record_starts import Ignored, find_records  # noqa: PLC0415 - most recordings have no program
    from prospect.events.sample_schema import schema_of  # noqa: PLC0415 - most recordings have no program

    words = np.frombuffer(data, "<u8", (len(data) - begin) // 8, begin)
    found = _Programs()
    find_records(words, looks_of(schema_of(events)), Ignored(), found)
    return [begin + 8 * place for place in found.places]


class _Programs:
    """Receives all records except samples, and keeps the places of symbols and programs."""

    def __init__(self) -> None:
        self.places: list[int] = []

    def append(self, words: U64, positions: I64) -> None:
        """Check the types of the records whose headers are at `positions`."""
        types = words.take(positions) & 0xFFFFFFFF
        is_wanted = (types == abi.PERF_RECORD_KSYMBOL) | (types == abi.PERF_RECORD_BPF_EVENT)
        self.places += positions[is_wanted].tolist()


def _mend(data: Records, begin: int, tail_bytes: int, ids: Collection[int]) -> int:
    """Move a record's tail to its end if it is before that; return the number of moved tails."""
    there = _tail_of(data, begin, tail_bytes, ids)
    if there < 0:
        return 0
    end = begin + _HEADER.unpack_from(data, begin)[2]
    moved = data[there : there + tail_bytes]
    data[there:end] = bytes(end - there - tail_bytes) + moved
    return 1


def _tail_of(data: Records, begin: int, tail_bytes: int, ids: Collection[int]) -> int:
    """Return the offset of a misplaced tail, -1 for another record."""
    type_, _, size = _HEADER.unpack_from(data, begin)
    there = begin + _BPF_EVENT_BYTES
    if type_ == abi.PERF_RECORD_KSYMBOL:
        name = begin + _KSYMBOL.size
        end = data.find(b"\0", name, min(name + _MOST_NAME, begin + size))
        if end < 0:
            return -1
        there = begin + -(-(end + 1 - begin) // 8) * 8
    if there + tail_bytes >= begin + size:
        return -1
    is_ours = _ID.unpack_from(data, there + tail_bytes - _ID.size)[0] in ids
    return there if is_ours else -1
