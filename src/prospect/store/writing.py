"""Write windows as files of segments, and pass them as bytes to the process that writes them."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.profile.run_info import counted_notes
from prospect.records import NamedTuple, replace
from prospect.store.engine import EngineError
from prospect.store.file_schema import COLUMNS, HEAD_KEY, ORDER, read_head, written_head
from prospect.store.segments import FUNCTIONS, KINDS, MINUTE, SAMPLES, STACKS, Segment
from prospect.store.store_limits import MOST_KNOWN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prospect.columns.array_types import U64
    from prospect.store.directory import StoreDirectory
    from prospect.store.engine import Columns, Engine
    from prospect.store.file_schema import Head
    from prospect.store.windows import Span, Window

_TABLE = "written"
# Each group of rows has a dictionary of each column, and is in memory until it is written.
_ONE_GROUP = 1_000_000
_US = 10**6
_LENGTH_BYTES = 8


def segment_for(span: Span, session: str, number: int) -> Segment:
    """Return the segment of one window."""
    end_s = max(math.ceil(span.end_us / _US), span.begin_us // _US)
    return Segment(MINUTE, span.begin_us // _US, end_s, session, number, number)


def write_segment(
    store: StoreDirectory,
    engine: Engine,
    segment: Segment,
    head: Head,
    tables: Mapping[str, Columns],
) -> None:
    """Write the files of a segment; the last one makes it whole.

    Raises:
        EngineError: DuckDB cannot write one, as on a full disk.
        OSError: one cannot be synced or named.
    """
    for kind in KINDS:
        if kind not in tables:
            continue
        columns = tables[kind]
        rows = len(next(iter(columns.values())))
        if not rows and kind in (FUNCTIONS, STACKS):
            continue
        engine.register(_TABLE, columns)
        chosen = ", ".join(f"{name}::{type_} AS {name}" for name, type_ in COLUMNS[kind].items())
        query = f"SELECT {chosen} FROM {_TABLE} ORDER BY {ORDER[kind]}"
        try:
            own_head = head if kind == SAMPLES else None
            copy_to_file(store, engine, Content(query), segment.path(kind), own_head)
        finally:
            engine.unregister(_TABLE)


class Content(NamedTuple):
    """The contents of a file: the result of a query.

    Attributes:
        hits: the number of hits that it must have; None if it has no hits.
        level: the compression level of `zstd`.
        group: the number of rows that share dictionaries.
    """

    query: str
    parameters: Sequence[Any] = ()
    hits: int | None = None
    level: int = 3
    group: int = _ONE_GROUP


def copy_to_file(
    store: StoreDirectory, engine: Engine, content: Content, path: str, head: Head | None
) -> None:
    """Write a Parquet file of the store.

    `path` is below the store; `head` is that of the segment, None if another file has it.

    Raises:
        EngineError: it cannot be written, or has the wrong number of hits.
        OSError: it cannot be synced or renamed.
    """
    options = (
        f"FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL {content.level},"
        f" ROW_GROUP_SIZE {content.group}"
    )
    if head is not None:
        options += f", KV_METADATA {{{HEAD_KEY}: '{written_head(head)}'}}"

    def put(part: str) -> None:
        engine.run(f"COPY ({content.query}) TO '{part}' ({options})", content.parameters)
        if content.hits is not None:
            ((written,),) = engine.rows("SELECT sum(n)::BIGINT FROM read_parquet(?)", [part])
            if (written or 0) != content.hits:
                raise EngineError(f"{written} samples were written instead of {content.hits}")

    store.write(path, put)


class Known(NamedTuple):
    """Numbers of functions and stacks, u64 ascending, that files of a directory already have."""

    directory: str
    numbers: dict[str, U64]


def without_known(
    window: Window, directory: str, known: Known | None
) -> tuple[dict[str, Columns], Known]:
    """Leave out the functions and stacks that files of the directory already have.

    Another directory begins again: it may outlive this one. `known` is from the last call.

    Returns:
        The tables to write, and `Known` for the next call.
    """
    numbers = known.numbers if known is not None and known.directory == directory else {}
    if sum(map(len, numbers.values())) > MOST_KNOWN:
        numbers = {}
    tables, after = dict(window.tables), {}
    for kind, name in ((FUNCTIONS, "function"), (STACKS, "stack")):
        columns = window.tables[kind]
        there, first = np.unique(np.asarray(columns[name], np.uint64), return_index=True)
        seen = numbers.get(kind, there[:0])
        is_new = np.isin(there, seen, assume_unique=True, invert=True)
        rows = np.sort(first[is_new]).tolist()
        tables[kind] = {
            key: column.take(rows)
            if isinstance(column, np.ndarray)
            else [column[row] for row in rows]
            for key, column in columns.items()
        }
        after[kind] = np.union1d(seen, there)
    return tables, Known(directory, after)


def joined(windows: Sequence[Window]) -> Window:
    """Return consecutive windows as one; their hits keep their times.

    There is at least one, and all have the same `kind_of` head.
    """
    if len(windows) == 1:
        return windows[0]
    last = windows[-1]
    tables = {
        kind: {name: _concatenated([one.tables[kind][name] for one in windows]) for name in columns}
        for kind, columns in last.tables.items()
    }
    limits = counted_notes(note for one in windows for note in one.head.run["limits"])
    head = replace(last.head, run={**last.head.run, "limits": limits})
    span = last.span._replace(begin_us=windows[0].span.begin_us)
    return replace(last, span=span, head=head, tables=tables)


def _concatenated(columns: Sequence[Any]) -> Any:
    if isinstance(columns[0], np.ndarray):
        return np.concatenate(columns)
    return [value for column in columns for value in column]


def next_number(store: StoreDirectory) -> int:
    """Return the number of the next window."""
    return max((one.last for one in store.segments()), default=-1) + 1


def packed(segment: Segment, head: Head, tables: Mapping[str, Columns]) -> bytes:
    """Serialize a segment for another process of this program: JSON, then columns of numbers."""
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
    """Return the arguments of `packed`."""
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
