"""Questions in SQL about the files of a store: its tables as views, and nothing but reading.

A query is one SELECT. It sees no file outside of the store, loads no extension, and changes no
setting: see `engine`.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from prospect.errors import StoreError, UsageError
from prospect.store.engine import Engine, EngineError, storable
from prospect.store.hosts import HostsDirectory
from prospect.store.reading import PLACE, choose, files, name_files
from prospect.store.schema import COLUMNS
from prospect.store.segments import COVERAGE, FUNCTIONS, SAMPLES, STACKS
from prospect.store.specification import Specification

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from prospect.store.directory import StoreDirectory
    from prospect.store.reading import Part

VIEWS = (SAMPLES, FUNCTIONS, STACKS, COVERAGE, "hits")
_THREADS = 2
_READ = "SELECT {columns} FROM read_parquet([{paths}], hive_partitioning=false, filename=true)"
# Of functions and stacks that several files have, any row says the same.
_KEYS = {FUNCTIONS: "function", STACKS: "stack"}
_MORE = {
    SAMPLES: ", make_timestamp(t) AS began, {host} AS host",
    COVERAGE: ', make_timestamp(t) AS began, make_timestamp("until") AS ended, {host} AS host',
}
_HITS = (
    "CREATE VIEW hits AS SELECT host, began, service, process, comm, mode, cause, f.name AS symbol,"
    " f.path AS object, pid, tid, cpu, n, w FROM samples LEFT JOIN functions AS f USING (function)"
)


@contextmanager
def answered(
    store: StoreDirectory, query: str
) -> Iterator[tuple[list[str], Iterator[tuple[Any, ...]], list[str]]]:
    """Answer a query while the block runs.

    Args:
        store: to read.
        query: one SELECT, on the views `VIEWS`.

    Yields:
        The names of columns, the rows, and a sentence for each thing that is left out.

    Raises:
        UsageError: it is no such query, or has an error.
        StoreError: nothing is in the store, or nothing can be read.
    """
    # A query cannot be asked again once some of its rows have gone.
    store.reads_all |= not isinstance(store, HostsDirectory)
    with closing(Engine(store, threads=_THREADS)) as engine:
        try:
            is_reading = engine.is_one_selection(query)
        except EngineError as error:
            raise UsageError(f"sql: {error}") from None
        if not is_reading:
            raise UsageError("sql: one SELECT, please: a query reads the store and changes nothing")
        part = choose(store, engine, Specification())
        try:
            make_views(store, engine, part)
        except EngineError as error:
            raise StoreError(f"{store.path}: cannot be read: {error}") from None
        try:
            names, rows = engine.heads(query)
            yield names, engine.guarded(rows), part.remarks
        except EngineError as error:
            told = str(error).replace(engine.root, "")
            tables = f"; there are {', '.join(VIEWS)}" if told.startswith("Catalog") else ""
            raise UsageError(f"sql: {told}{tables}") from None


def make_views(store: StoreDirectory, engine: Engine, part: Part) -> None:
    """Make views of a part of a store by the names `VIEWS`.

    Raises:
        EngineError: a file cannot be read.
    """
    host = _host_expression(engine, part)
    for kind in (SAMPLES, COVERAGE, FUNCTIONS, STACKS):
        if kind in _KEYS:
            paths = name_files(store, engine, part.segments, kind)
        else:
            paths = files(store, part.segments, kind)
        columns = ", ".join(
            f'"{name}"::{type_} AS "{name}"' for name, type_ in COLUMNS[kind].items()
        )
        if paths:
            # Digits, slashes, and names of segments, which have no quotation marks.
            listed = ", ".join(f"'{path}'" for path in paths)
            select = _READ.format(
                columns=columns + _MORE.get(kind, "").format(host=host), paths=listed
            )
        else:
            # Of samples and coverage there is always a file.
            nulls = ", ".join(f'NULL::{type_} AS "{name}"' for name, type_ in COLUMNS[kind].items())
            select = f"SELECT {nulls} WHERE false"
        if key := _KEYS.get(kind):
            select = f"SELECT DISTINCT ON ({key}) * FROM ({select})"
        engine.run(f"CREATE VIEW {kind} AS {select}")
    engine.run(_HITS)


def _host_expression(engine: Engine, part: Part) -> str:
    """Return what, of a row with its file's name, is the host that was sampled."""
    hosts = dict.fromkeys(part.hosts)
    names = {one.place: host for one, host in zip(part.segments, part.hosts, strict=True)}
    if len(hosts) > 1 and len(names) == 1:  # a machine that was given another name
        names = {f"{one.stem}.": host for one, host in zip(part.segments, part.hosts, strict=True)}
        key = r"regexp_extract(filename, '([^/.]*\.[^/.]*\.[0-9-]*\.)[^/]*$', 1)"
    else:
        key = PLACE
    engine.run("CREATE TABLE host_names (names MAP(VARCHAR, VARCHAR))")
    engine.run(
        "INSERT INTO host_names SELECT map(?, ?)",
        [list(names), list(map(storable, names.values()))],
    )
    return f"(SELECT names FROM host_names)[{key}]"
