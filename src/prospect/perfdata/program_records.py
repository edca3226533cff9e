"""Records of BPF programs that the kernel wrote too large → records as they ought to be.

Where several events watch for BPF programs on a CPU, also those of other recorders, the kernel adds
the size of each one's tail to one header: the record says more bytes than it has, and its tail does
not stand at its end, where readers look for it. perf then refuses the file. Here the tail is moved.

Source: perf_event_ksymbol_output() and perf_event_bpf_output() in ``kernel/events/core.c``, Linux
6.18, which do not put header.size back as perf_event_mmap_output() does.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct

from prospect.abi import constants as abi
from prospect.abi.layout import layout_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from prospect.abi.attr import EventDescription

_HEADER = struct.Struct("<IHH")
# address, length, kind, flags; then the name. Of the other kind: type, flags, id, tag.
_KSYMBOL = struct.Struct("<IHHQIHH")
_BPF_EVENT_BYTES = 24
# Programs, and the trampolines and dispatchers that call them.
_NAME = b"bpf_"
_ID = struct.Struct("<Q")
_MOST_NAME = 512
# Behind the symbols of a program, of which it may have several, comes the record of it.
_MOST_BEHIND = 64


def mend_program_records(fd: int, events: Sequence[EventDescription]) -> int:
    """Move the tails of such records where they belong; return how many there were.

    Args:
        fd: a regular file, whole records among what it holds.
        events: of the recording, with PERF_SAMPLE_IDENTIFIER; all have tails of one size.

    Raises:
        OSError: the file cannot be read or changed.
    """
    tail_bytes = 8 * layout_of(events[0].attr).tail_words if events else 0
    ids = {number for event in events for number in event.ids}
    mended = 0
    again = os.open(f"/proc/self/fd/{fd}", os.O_RDWR | os.O_CLOEXEC)
    try:
        if not tail_bytes or not os.fstat(again).st_size:
            return 0
        with mmap.mmap(again, 0) as data:
            for at in _names(data):
                begin = at - _KSYMBOL.size
                if begin >= 0 and _is_symbol(data, begin):
                    known = data.find(b"\0", at, at + _MOST_NAME) + 1 - begin
                    mended += _mend(data, begin, -(-known // 8) * 8, tail_bytes, ids)
                    mended += _mend_behind(data, begin, tail_bytes, ids)
    finally:
        os.close(again)
    return mended


def _names(data: mmap.mmap) -> Iterator[int]:
    """Give where names of programs stand: by memmem(3), a third of what `data.find` takes."""
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


def _is_symbol(data: mmap.mmap, begin: int) -> bool:
    type_, _, size, _, _, kind, _ = _KSYMBOL.unpack_from(data, begin)
    is_symbol = (type_, kind) == (abi.PERF_RECORD_KSYMBOL, abi.PERF_RECORD_KSYMBOL_TYPE_BPF)
    return is_symbol and size % 8 == 0 and begin + size <= len(data)


def _mend_behind(data: mmap.mmap, begin: int, tail_bytes: int, ids: Collection[int]) -> int:
    """Mend the first record of a program behind its symbol."""
    for _ in range(_MOST_BEHIND):
        begin += _HEADER.unpack_from(data, begin)[2]
        if begin + _HEADER.size > len(data):
            return 0
        type_, _, size = _HEADER.unpack_from(data, begin)
        if size < _HEADER.size or begin + size > len(data):
            return 0
        if type_ == abi.PERF_RECORD_BPF_EVENT:
            return _mend(data, begin, _BPF_EVENT_BYTES, tail_bytes, ids)
    return 0


def _mend(data: mmap.mmap, begin: int, body: int, tail: int, ids: Collection[int]) -> int:
    """Move a record's tail to its end if it stands right behind its `body` bytes, and not there."""
    size = _HEADER.unpack_from(data, begin)[2]
    if size <= body + tail or begin + size > len(data):
        return 0
    there = begin + body
    if _ID.unpack_from(data, there + tail - _ID.size)[0] not in ids:
        return 0
    moved = data[there : there + tail]
    data[there : begin + size] = bytes(size - body - tail) + moved
    return 1
