"""gmon.out files in memory."""

from __future__ import annotations

import struct

MAGIC = b"gmon"


def gmon_out(*records: bytes, order: str = "<", version: int = 1) -> bytes:
    return MAGIC + struct.pack(f"{order}I12x", version) + b"".join(records)


def histogram(
    low: int,
    high: int,
    hits: list[int],
    *,
    rate_hz: int = 100,
    order: str = "<",
    width: str = "Q",
) -> bytes:
    head = struct.pack(f"{order}{width}{width}II", low, high, len(hits), rate_hz)
    return (
        b"\0"
        + head
        + b"seconds".ljust(15, b"\0")
        + b"s"
        + struct.pack(f"{order}{len(hits)}H", *hits)
    )


def arc(caller: int, callee: int, calls: int, *, order: str = "<", width: str = "Q") -> bytes:
    return b"\1" + struct.pack(f"{order}{width}{width}I", caller, callee, calls)


def blocks(runs: dict[int, int], *, order: str = "<", width: str = "Q") -> bytes:
    body = b"".join(struct.pack(f"{order}{width}{width}", *pair) for pair in runs.items())
    return b"\2" + struct.pack(f"{order}I", len(runs)) + body


def bsd_gmon_out(
    low: int,
    high: int,
    hits: list[int],
    arcs: list[tuple[int, int, int]],
    *,
    order: str,
    width: str,
) -> bytes:
    bytes_wide = struct.calcsize(f"{order}{width}")
    size = 2 * bytes_wide + 24 + 2 * len(hits)
    head = struct.pack(f"{order}{width}{width}iii12x", low, high, size, 0x51879, 100)
    body = struct.pack(f"{order}{len(hits)}H", *hits)
    return head + body + b"".join(struct.pack(f"{order}3{width}", *one) for one in arcs)
