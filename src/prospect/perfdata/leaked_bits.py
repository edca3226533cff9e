"""Clears the bit for a build id in MMAP2 records without one.

The kernel sets the bit if another recorder requests build ids. `perf report` aborts at such
records. This module needs no numpy, because a target's recorder uses it too.

Source: perf_event_mmap_output() in ``kernel/events/core.c``, Linux 6.18, which sets the bit in a
header that it writes for the next event too.
"""

from __future__ import annotations

import os
import struct

from prospect.abi import constants as abi
from prospect.abi.record_layout import HEADER
from prospect.light import Descriptor

_HEADER = struct.Struct("<" + HEADER)
_MISC_OFFSET = 4
_BIT = abi.PERF_RECORD_MISC_MMAP_BUILD_ID
_MMAP2_TYPE = abi.PERF_RECORD_MMAP2.to_bytes(4, "little")
_CHUNK_BYTES = 1 << 22


def clear_build_id_bits(fd: int, begin: int) -> None:
    """Clear the bit in all MMAP2 records from `begin` to the file's end.

    Raises:
        OSError: the file cannot be read or written.
    """
    with Descriptor(os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)) as reading:
        at = begin
        while chunk := os.pread(reading, _CHUNK_BYTES, at):
            places, whole = _leaked(chunk)
            for place, misc in places:
                os.pwrite(fd, misc.to_bytes(2, "little"), at + place)
            if not whole:
                break
            at += whole


def clear_bits_in_memory(records: bytearray) -> None:
    """Clear the bit in whole records in memory."""
    at = records.find(_MMAP2_TYPE)
    while at >= 0 and (at % 8 or not records[at + _MISC_OFFSET + 1] << 8 & _BIT):
        at = records.find(_MMAP2_TYPE, at + 1)
    if at < 0:
        return
    # Copies of stacks may look like such a header: only the chain of records shows the real ones.
    for place, misc in _leaked(records)[0]:
        records[place : place + 2] = misc.to_bytes(2, "little")


def _leaked(chunk: bytes | bytearray) -> tuple[list[tuple[int, int]], int]:
    """Return place and right `misc` of records with the bit, and the size of the whole records."""
    places = []
    at = 0
    unpack, head, end = _HEADER.unpack_from, _HEADER.size, len(chunk)
    while at + head <= end:
        kind, misc, size = unpack(chunk, at)
        if size < head or at + size > end:
            break
        if kind == abi.PERF_RECORD_MMAP2 and misc & _BIT:
            places.append((at + _MISC_OFFSET, misc & ~_BIT))
        at += size
    return places, at
