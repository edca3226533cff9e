"""Records of BPF programs that the kernel wrote wrong → records that perf accepts.

If several events on a CPU watch for BPF programs, also those of other recorders, the kernel adds
the size of each one's tail to one header: the record says more bytes than it has, and its tail is
not at its end, where readers look for it. perf then refuses the file. The tail is moved. Copies of
stacks are part of a recording, and may hold whatever a profiled program likes: such a record is one
only if the chain of records leads to it. The chain is followed only if something looks like one, as
most recordings have none.

Source: perf_event_ksymbol_output() and perf_event_bpf_output() in ``kernel/events/core.c``, Linux
6.18, which do not put header.size back as perf_event_mmap_output() does.
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

    import numpy as np
    from numpy.typing import NDArray

    from prospect.abi.attr import EventDescription

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
# If so many names are in nothing that looks like a record, following the chain takes less.
_MOST_NAMES = 10_000


def mend_program_records(data: Records, begin: int, events: Sequence[EventDescription]) -> int:
    """Move the tails of such records where they belong; return how many there were.

    `data` are whole records, those of a file up to its last one, and are changed; the first begins
    at `begin`. The events have PERF_SAMPLE_IDENTIFIER; all have tails of one size.

    Raises:
        ImportError: there are such records, but no numpy, which finds them among the others.
    """
    tail_bytes = 8 * layout_of(events[0].attr).tail_words if events else 0
    ids = {number for event in events for number in event.ids}
    if not tail_bytes or not _may_have_some(data, tail_bytes, ids):
        return 0
    return sum(_mend(data, at, tail_bytes, ids) for at in _places(data, begin, events))


def _may_have_some(data: Records, tail_bytes: int, ids: Collection[int]) -> bool:
    """Say whether anything looks like such a record of a symbol, which each program has."""
    for number, at in enumerate(_names(data)):
        begin = at - _KSYMBOL.size
        if begin >= 0 and _is_symbol(data, begin) and _tail_of(data, begin, tail_bytes, ids) >= 0:
            return True
        if number == _MOST_NAMES:
            return True
    return False


def _names(data: Records) -> Iterator[int]:
    """Give the places of names of programs: by memmem(3), a third of what `data.find` takes."""
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


def _is_symbol(data: Records, begin: int) -> bool:
    type_, _, size, _, _, kind, _ = _KSYMBOL.unpack_from(data, begin)
    is_symbol = (type_, kind) == (abi.PERF_RECORD_KSYMBOL, abi.PERF_RECORD_KSYMBOL_TYPE_BPF)
    return is_symbol and size % 8 == 0 and begin + size <= len(data)


def _places(data: Records, begin: int, events: Sequence[EventDescription]) -> list[int]:
    """Return where the records of symbols and of programs begin, in bytes."""
    import numpy as np  # noqa: PLC0415 - most recordings have no program

    from prospect.events.decode import looks_of  # noqa: PLC0415 - most recordings have no program
    from prospect.events.record_starts import Ignored, find_records  # noqa: PLC0415 - most recordings have no program
    from prospect.events.sample_schema import schema_of  # noqa: PLC0415 - most recordings have no program

    words = np.frombuffer(data, "<u8", (len(data) - begin) // 8, begin)
    found = _Programs()
    find_records(words, looks_of(schema_of(events)), Ignored(), found)
    return [begin + 8 * place for place in found.places]


class _Programs:
    """Takes all records but samples, and keeps where those of symbols and programs are."""

    def __init__(self) -> None:
        self.places: list[int] = []

    def append(self, words: NDArray[np.uint64], positions: NDArray[np.int64]) -> None:
        """Look at the types of the records whose headers are at `positions`."""
        types = words.take(positions) & 0xFFFFFFFF
        is_wanted = (types == abi.PERF_RECORD_KSYMBOL) | (types == abi.PERF_RECORD_BPF_EVENT)
        self.places += positions[is_wanted].tolist()


def _mend(data: Records, begin: int, tail_bytes: int, ids: Collection[int]) -> int:
    """Move a record's tail to its end if it is before that; return how many were moved."""
    there = _tail_of(data, begin, tail_bytes, ids)
    if there < 0:
        return 0
    end = begin + _HEADER.unpack_from(data, begin)[2]
    moved = data[there : there + tail_bytes]
    data[there:end] = bytes(end - there - tail_bytes) + moved
    return 1


def _tail_of(data: Records, begin: int, tail_bytes: int, ids: Collection[int]) -> int:
    """Return where the tail of a record is that is larger than its content, -1 for others."""
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
