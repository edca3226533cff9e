"""Give queries the files of a part of a store as tables, in any engine.

Queries of this room and of `fleet` use only the part of DuckDB's SQL that Spark and ClickHouse have
too; see `Queries`. The tables are `TABLES`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Protocol

import numpy as np

from prospect.errors import StoreError, UsageError
from prospect.store.engine import Engine, EngineError, Placed
from prospect.store.file_schema import COLUMNS, LOST
from prospect.store.hosts import HostsDirectory
from prospect.store.segment_reading import all_files, choose, hit_files, name_files
from prospect.store.segments import COVERAGE, FUNCTIONS, KINDS, NAMED, SAMPLES, STACKS, SUMS, TOTALS
from prospect.store.specification import Specification

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from prospect.store.directory import StoreDirectory
    from prospect.store.engine import Columns
    from prospect.store.segment_reading import Part

HITS, OBJECTS, FRAMES, HOSTS = "hits", "objects", "frames", "hosts"
TABLES = (SAMPLES, FUNCTIONS, STACKS, COVERAGE, HITS, OBJECTS, FRAMES, HOSTS)
_THREADS = 2
SEGMENTS = "segments"
_FUNCTION_ROWS, _STACK_ROWS = "function_rows", "stack_rows"
# Files may name a function or stack differently, if versions of a program do. Each column gives its
# least value, so that the engines agree.
_OF_EACH = {
    FUNCTIONS: ("function", _FUNCTION_ROWS, COLUMNS[FUNCTIONS]),
    STACKS: ("stack", _STACK_ROWS, COLUMNS[STACKS]),
    OBJECTS: (
        "object",
        _FUNCTION_ROWS,
        {
            name: COLUMNS[FUNCTIONS][name]
            for name in ("object", "path", "object_kind", "build_id", "object_source", "note")
        },
    ),
}
_HITS = (
    "SELECT host, began, service, process, comm, mode, cause,"
    f" coalesce(f.name, '{LOST}') AS symbol, coalesce(f.path, '{LOST}') AS object,"
    " pid, tid, cpu, n, w, cpu_ns"
    " FROM samples LEFT JOIN functions AS f USING (function)"
)
_FRAMES = (
    f"SELECT stack, caller, depth, mode, coalesce(f.name, '{LOST}') AS symbol,"
    f" coalesce(f.path, '{LOST}') AS object, stacks.address"
    " FROM stacks LEFT JOIN functions AS f USING (function)"
)
_MORE = {
    SAMPLES: ", make_timestamp(t)::TIMESTAMP AS began",
    COVERAGE: (
        ', make_timestamp(t)::TIMESTAMP AS began, make_timestamp("until")::TIMESTAMP AS ended'
    ),
}


class Queries(Protocol):
    """An engine that answers queries in DuckDB's dialect about the tables of one part.

    Attributes:
        most_rows: how many groups of rows it can add up at once; None for any number.
    """

    most_rows: int | None

    @property
    def planner(self) -> Engine:
        """The engine that finds the files and reads their heads."""

    def table(self, name: str, kind: str, placed: Placed) -> None:
        """Let queries read files as a table, with `segment` and `host` if `placed` has them.

        Raises:
            EngineError: a file cannot be read.
        """

    def view(self, name: str, query: str) -> None:
        """Give a query a name.

        Raises:
            EngineError: it cannot be answered.
        """

    def keep(self, name: str, query: str, parameters: Sequence[Any] = ()) -> None:
        """Keep the result of a query, as a table of this name.

        Raises:
            EngineError: it cannot be executed.
        """

    def drop(self, name: str) -> None:
        """Drop a table that `keep` made."""

    def register(self, name: str, columns: Columns) -> None:
        """Let queries read columns as a table of this name."""

    def rows(self, query: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the result of a query as rows.

        Raises:
            EngineError: it cannot be executed.
        """

    def columns(self, query: str, parameters: Sequence[Any] = ()) -> dict[str, NDArray[Any]]:
        """Return the result of a query as columns; text is an array of str objects.

        Raises:
            EngineError: it cannot be executed.
        """

    def heads(
        self, query: str, parameters: Sequence[Any] = ()
    ) -> tuple[list[str], Iterator[tuple[Any, ...]]]:
        """Return the names of a query's columns, and an iterator over its rows.

        Raises:
            EngineError: it cannot be executed.
        """

    def close(self) -> None:
        """End the session."""


EngineMaker = Callable[["StoreDirectory"], Queries]


def local_engine(store: StoreDirectory) -> Queries:
    """Return DuckDB, which needs no other machine."""
    return Engine(store, threads=_THREADS)


def make_tables(
    store: StoreDirectory,
    engine: Queries,
    part: Part,
    kinds: Collection[str] = KINDS,
    *,
    for_sums: bool = False,
) -> None:
    """Let queries read a part of a store by the names `TABLES`.

    Args:
        kinds: the kinds of files that queries need; all tables need all.
        for_sums: whether to leave out what sums over hosts do not need: the accounting that heads
            have, and the names of hosts in samples and coverage. `segments` has their numbers.

    Raises:
        EngineError: a file cannot be read.
    """
    for kind in (SAMPLES, COVERAGE):
        if kind in kinds:
            if kind == SAMPLES:
                placed = placed_hits(store, part, stacks=STACKS in kinds)
            else:
                accounted = part.accounted if for_sums else ()
                segments = [one for one in part.segments if one not in accounted]
                placed = _placed(store, part, (kind,), all_files(store, segments, kind))
            paths, rows = [path for path, _ in placed], [row for _, row in placed]
            hosts = [] if for_sums else part.only(rows).hosts
            engine.table(f"{kind}_files", kind, Placed(paths, rows, hosts))
            more = f", {_cpu_ns(part)} AS cpu_ns" if kind == SAMPLES else ""
            engine.view(kind, f"SELECT *{_MORE[kind]}{more} FROM {kind}_files")
    for kind, name in ((FUNCTIONS, _FUNCTION_ROWS), (STACKS, _STACK_ROWS)):
        if kind in kinds:
            found = name_files(store, engine.planner, part.segments, kind, part.remarks)
            paths = [path.removeprefix(store.root) for path in found]
            engine.table(name, kind, Placed(paths, [], []))
    for name, (key, source, columns) in _OF_EACH.items():
        if (STACKS if source == _STACK_ROWS else FUNCTIONS) in kinds:
            least = ", ".join(f"min({one}) AS {one}" for one in columns if one != key)
            engine.view(name, f"SELECT {key}, {least} FROM {source} GROUP BY {key}")
    _make_hosts(engine, part)
    if set(kinds) >= set(KINDS):
        engine.view(HITS, _HITS)
        engine.view(FRAMES, _FRAMES)


def _cpu_ns(part: Part) -> str:
    """Return the CPU time in ns of a row of samples, as SQL; NULL if its event is no clock.

    Each clock of a bank counts all of the time, so a sum of periods is a multiple of it.
    """
    worth = []
    for number, event in enumerate(part.heads[-1].events):
        column, seconds = "w", event.seconds_per_period
        if seconds <= 0:
            column, seconds = "n", event.seconds_per_hit
        if 0 < seconds < math.inf:
            worth.append(f" WHEN {number} THEN round({column} * {seconds * 1e9:.15e})::BIGINT")
    return f"CASE event{''.join(worth)} END" if worth else "NULL::BIGINT"


def placed_hits(store: StoreDirectory, part: Part, *, stacks: bool) -> list[tuple[str, int]]:
    """Return the files of `hit_files`, below the store, and the place of each one's segment.

    Raises:
        EngineError: as `hit_files`.
    """
    paths = hit_files(store, part, stacks=stacks)
    return _placed(store, part, (SAMPLES, TOTALS, SUMS, NAMED), paths)


def _placed(
    store: StoreDirectory, part: Part, kinds: Sequence[str], paths: Sequence[str]
) -> list[tuple[str, int]]:
    there = set(paths)
    return [
        (path, row)
        for row, one in enumerate(part.segments)
        for path in map(one.path, kinds)
        if store.root + path in there
    ]


def host_numbers(part: Part) -> list[int]:
    """Return the number of each segment's host, in the order of hosts' names.

    Grouping by numbers is faster than by names.
    """
    hosts = part.hosts
    number = {host: at for at, host in enumerate(sorted(set(hosts)))}
    return [number[host] for host in hosts]


def _make_hosts(engine: Queries, part: Part) -> None:
    """Register the host of each segment, and the facts of each host from its latest segment."""
    hosts, numbers = part.hosts, np.array(host_numbers(part), np.int32)
    engine.register(
        SEGMENTS, {"segment": np.arange(len(hosts), dtype=np.int32), "host_number": numbers}
    )
    latest = dict(zip(hosts, part.heads, strict=True))
    number = dict(zip(hosts, numbers.tolist(), strict=True))
    runs = [head.run for head in latest.values()]
    columns: dict[str, Any] = {
        "host": list(latest),
        "host_number": np.array([number[host] for host in latest], np.int32),
        "cpus": np.array([run["cpus"] for run in runs], np.int64),
    }
    for name in ("arch", "os_release", "cpu_description"):
        columns[name] = [run[name] for run in runs]
    engine.register(HOSTS, columns)


@contextmanager
def answered(
    store: StoreDirectory, query: str, make_engine: EngineMaker = local_engine
) -> Iterator[tuple[list[str], Iterator[tuple[Any, ...]], list[str]]]:
    """Answer a user's query, one SELECT on the tables `TABLES`, while the block runs.

    It sees no file outside of the store, loads no extension, and changes no setting: see `engine`.

    Yields:
        The names of columns, the rows, and a sentence for each thing that is left out.

    Raises:
        UsageError: it is no such query, or has an error.
        StoreError: nothing is in the store, or nothing can be read.
    """
    # Once some of its rows were shown, a query cannot be repeated.
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
            reason = str(error).replace(engine.planner.root, "")
            tables = f"; there are {', '.join(TABLES)}" if reason.startswith("Catalog") else ""
            raise UsageError(f"sql: {reason}{tables}") from None
