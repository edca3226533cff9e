"""A window as bytes, for the child that writes it.

Text is JSON, columns of numbers follow as they lie in memory. Parent and child are one program.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.store.schema import read_head, written_head
from prospect.store.segments import Segment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prospect.store.engine import Columns
    from prospect.store.schema import Head

_LENGTH_BYTES = 8


def packed(segment: Segment, head: Head, tables: Mapping[str, Columns]) -> bytes:
    """Return a window as bytes."""
    pieces: list[bytes] = []
    described: dict[str, dict[str, Any]] = {}
    for kind, columns in tables.items():
        described[kind] = {}
        for name, column in columns.items():
            if isinstance(column, np.ndarray):
                pieces.append(np.ascontiguousarray(column).tobytes())
                described[kind][name] = {"type": column.dtype.str, "rows": len(column)}
            else:
                described[kind][name] = {"text": list(column)}
    header = {"segment": list(segment), "head": written_head(head), "tables": described}
    text = json.dumps(header).encode()
    return b"".join((len(text).to_bytes(_LENGTH_BYTES, "little"), text, *pieces))


def unpacked(data: bytes) -> tuple[Segment, Head, dict[str, Columns]]:
    """Return what `packed` was given."""
    length = int.from_bytes(data[:_LENGTH_BYTES], "little")
    at = _LENGTH_BYTES + length
    header = json.loads(data[_LENGTH_BYTES:at])
    tables: dict[str, Columns] = {}
    for kind, described in header["tables"].items():
        columns: dict[str, Any] = {}
        for name, one in described.items():
            if "text" in one:
                columns[name] = one["text"]
                continue
            columns[name] = np.frombuffer(data, one["type"], one["rows"], at)
            at += columns[name].nbytes
        tables[kind] = columns
    head = read_head(header["head"].encode())
    segment = Segment(*header["segment"])
    return segment._replace(digests=tuple(segment.digests)), head, tables
