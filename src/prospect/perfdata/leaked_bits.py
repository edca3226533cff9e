"""Records with the bit of a build id and no build id: the bit is taken away.

Comes in: a recording whose records are complete. Goes out: the same, as the kernel should have
written it. A recorder beside ours that asks for build ids makes the kernel set the bit in the
MMAP2 records of all others, too, and `perf report` aborts at them.

Source: ``perf_event_mmap_output`` (``kernel/events/core.c``, 6.18), which sets the bit in a header
that the next event gets as well.
"""

from __future__ import annotations

import os
import struct

from prospect.abi import constants as abi

_HEADER = struct.Struct("<IHH")
_MISC_OFFSET = 4
_CHUNK_BYTES = 1 << 22


def clear_build_id_bits(fd: int, begin: int) -> None:
    """Clear the bit in all MMAP2 records from `begin` to the file's end.

    Raises:
        OSError: the file cannot be read or written.
    """
    reading = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        at = begin
        while chunk := os.pread(reading, _CHUNK_BYTES, at):
            whole = _clear_in(fd, chunk, at)
            if not whole:
                break
            at += whole
    finally:
        os.close(reading)


def _clear_in(fd: int, chunk: bytes, offset: int) -> int:
    """Clear it in the whole records of a piece of the file; return how many bytes they have."""
    at = 0
    unpack, head, end = _HEADER.unpack_from, _HEADER.size, len(chunk)
    while at + head <= end:
        kind, misc, size = unpack(chunk, at)
        if size < head or at + size > end:
            break
        if kind == abi.PERF_RECORD_MMAP2 and misc & abi.PERF_RECORD_MISC_MMAP_BUILD_ID:
            misc &= ~abi.PERF_RECORD_MISC_MMAP_BUILD_ID
            os.pwrite(fd, misc.to_bytes(2, "little"), offset + at + _MISC_OFFSET)
        at += size
    return at
