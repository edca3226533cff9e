"""Recordings of very many mappings: one MMAP2 record, varied by whole columns."""

import struct

import numpy as np

from builders import perfdata as build
from builders.sources import CLOCK, CLOCK_ID

_BASE, _PAGE, _PID = 0x400000, 0x1000, 11
_TAIL = {"id": CLOCK_ID, "cpu": 1}
_INODE, _TIME = 0x7777777777, 0x6666666666


def mapped_over(count: int, width: int) -> bytes:
    """Let a process map `count` times, over what it mapped before, up to `width` pages at once.

    Two mappings that follow each other are of different files, so each is an epoch of its own.
    """
    number = np.arange(count)
    return _recording(
        start=_BASE + number * 7919 % count * _PAGE if width > 1 else np.full(count, _BASE),
        length=_PAGE * (1 + number % width),
        inode=1 + number % 5,
        time=1000 + number,
    )


def _recording(start, length, inode, time) -> bytes:
    records = build.RecordBuilder()
    pattern = records.mmap2(
        _PID, _PID, _BASE, _PAGE, "/none/library.so", inode=_INODE, time=_TIME, **_TAIL
    )
    table = np.frombuffer(pattern * len(time), np.uint8).reshape(len(time), -1).copy()
    places = {16: start, 24: length}
    places[pattern.index(struct.pack("<Q", _INODE))] = inode
    places[pattern.rindex(struct.pack("<Q", _TIME))] = time
    for place, column in places.items():
        table[:, place : place + 8] = column.astype("<u8").reshape(-1, 1).view(np.uint8)
    samples = [
        records.sample(
            ip=_BASE + tick * _PAGE,
            pid=_PID,
            tid=_PID,
            time=int(time[-1]) + 1 + tick,
            period=10_000_000,
            **_TAIL,
        )
        for tick in range(1000)
    ]
    return build.FileBuilder([CLOCK], [table.tobytes(), *samples]).file()
