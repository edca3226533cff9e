"""Windows → the files of segments."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from prospect.records import NamedTuple
from prospect.store.schema import COLUMNS, HEAD_KEY, ORDER, written_head
from prospect.store.segments import FUNCTIONS, KINDS, MINUTE, SAMPLES, STACKS, Segment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prospect.store.directory import StoreDirectory
    from prospect.store.engine import Columns, Engine
    from prospect.store.schema import Head
    from prospect.store.windows import Span, Window

_TABLE = "written"
_US = 10**6
# Of functions and stacks; an hour of very many different ones begins to write them twice.
_MOST_KNOWN = 500_000


def segment_for(span: Span, session: str, number: int, tier: str = MINUTE) -> Segment:
    """Return the segment of one window."""
    end_s = max(math.ceil(span.end_us / _US), span.begin_us // _US)
    return Segment(tier, span.begin_us // _US, end_s, session, number, number)


def write_segment(
    store: StoreDirectory,
    engine: Engine,
    segment: Segment,
    head: Head,
    tables: Mapping[str, Columns],
) -> None:
    """Write the files of a segment; that which makes it whole gets its name last.

    Raises:
        EngineError: DuckDB cannot write one, as where the disk is full.
        OSError: one cannot be synced or named.
    """
    for kind in KINDS:
        columns = tables[kind]
        rows = len(next(iter(columns.values())))
        if not rows and kind in (FUNCTIONS, STACKS):
            continue
        engine.register(_TABLE, columns)
        chosen = ", ".join(f"{name}::{type_} AS {name}" for name, type_ in COLUMNS[kind].items())
        query = f"SELECT {chosen} FROM {_TABLE} ORDER BY {ORDER[kind]}"
        try:
            copy_to_file(
                store, engine, query, segment.path(kind), head if kind == SAMPLES else None
            )
        finally:
            engine.unregister(_TABLE)


def copy_to_file(
    store: StoreDirectory, engine: Engine, query: str, path: str, head: Head | None
) -> None:
    """Write the result of a query as a Parquet file of the store; raises as `write_segment`."""
    options = "FORMAT parquet, COMPRESSION zstd"
    if head is not None:
        options += f", KV_METADATA {{{HEAD_KEY}: '{written_head(head)}'}}"
    store.write(path, lambda part: engine.run(f"COPY ({query}) TO '{part}' ({options})"))


class Known(NamedTuple):
    """Numbers of functions and stacks that the segments of one directory have already."""

    directory: str
    numbers: dict[str, set[int]]


def without_known(
    window: Window, directory: str, known: Known | None
) -> tuple[dict[str, Columns], Known]:
    """Leave out the functions and stacks that earlier windows of a directory brought.

    Args:
        window: what is to be written.
        directory: where; another one begins anew, for it may outlive this one.
        known: what the last call returned.

    Returns:
        The tables to write, and what is known once they are written.
    """
    numbers: dict[str, set[int]] = {FUNCTIONS: set(), STACKS: set()}
    if known is not None and known.directory == directory:
        numbers = known.numbers
    if sum(map(len, numbers.values())) > _MOST_KNOWN:
        numbers = {FUNCTIONS: set(), STACKS: set()}
    tables, after = dict(window.tables), {}
    for kind, name in ((FUNCTIONS, "function"), (STACKS, "stack")):
        columns = window.tables[kind]
        there: list[int] = np.asarray(columns[name]).tolist()
        seen = set(numbers[kind])
        rows = [row for row, one in enumerate(there) if one not in seen and not seen.add(one)]  # type: ignore[func-returns-value]
        tables[kind] = {
            key: column.take(rows)
            if isinstance(column, np.ndarray)
            else [column[row] for row in rows]
            for key, column in columns.items()
        }
        after[kind] = seen
    return tables, Known(directory, after)


def next_number(store: StoreDirectory) -> int:
    """Return the number of the next window."""
    return max((one.last for one in store.segments()), default=-1) + 1
