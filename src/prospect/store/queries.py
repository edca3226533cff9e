"""Questions in SQL about the files of a store: its tables as views, and nothing but reading.

A query is one SELECT. It sees no file outside of the store, loads no extension, and changes no
setting: see `engine`.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from prospect.errors import StoreError, UsageError
from prospect.store.engine import EngineError
from prospect.store.hosts import HostsDirectory
from prospect.store.segment_reading import choose
from prospect.store.specification import Specification
from prospect.store.tables import TABLES, local_engine, make_tables

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from prospect.store.directory import StoreDirectory
    from prospect.store.tables import EngineMaker


@contextmanager
def answered(
    store: StoreDirectory, query: str, make_engine: EngineMaker = local_engine
) -> Iterator[tuple[list[str], Iterator[tuple[Any, ...]], list[str]]]:
    """Answer a query while the block runs.

    Args:
        store: to read.
        query: one SELECT, on the tables `TABLES`.
        make_engine: what answers it.

    Yields:
        The names of columns, the rows, and a sentence for each thing that is left out.

    Raises:
        UsageError: it is no such query, or has an error.
        StoreError: nothing is in the store, or nothing can be read.
    """
    # A query cannot be asked again once some of its rows have gone.
    store.reads_all |= not isinstance(store, HostsDirectory)
    with closing(make_engine(store)) as engine:
        try:
            tree = engine.planner.selection(query)
            if tree is None:
                raise UsageError(
                    "sql: give one SELECT of the store's tables; queries read no files and"
                    " change nothing"
                )
            if engine.planner is not engine:
                query, unknown = engine.planner.plain(tree)
                if unknown:
                    raise UsageError(f"sql: there is no function {unknown[0]}")
        except EngineError as error:
            raise UsageError(f"sql: {error}") from None
        part = choose(store, engine.planner, Specification())
        try:
            make_tables(store, engine, part)
        except EngineError as error:
            raise StoreError(f"{store.path}: cannot be read: {error}") from None
        try:
            names, rows = engine.heads(query)
            yield names, rows, part.remarks
        except EngineError as error:
            told = str(error).replace(engine.planner.root, "")
            tables = f"; there are {', '.join(TABLES)}" if told.startswith("Catalog") else ""
            raise UsageError(f"sql: {told}{tables}") from None
