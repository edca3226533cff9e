"""DuckDB, which writes and queries the Parquet files of a store: the only module that imports it.

It loads no extension and opens no file outside of its store. Values never become part of a query's
text: they are parameters, or registered columns.

A user's query runs only if the tree of DuckDB's parser does nothing but read tables. Every node
that is not known to read is refused: a statement within WITH, a file by its name, a table function
that opens files or runs the text of another query. Source of the names: the header
``parsed_expression.hpp`` and its siblings in ``src/include/duckdb/parser``, DuckDB 2.0.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.errors import StoreError
from prospect.records import NamedTuple
from prospect.store.file_schema import COLUMNS
from prospect.store.store_limits import MOST_RUNS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import ModuleType

    from numpy.typing import NDArray

    from prospect.store.directory import StoreDirectory

    Columns = Mapping[str, "NDArray[Any] | Sequence[str]"]


_DISTRIBUTION = "prospect-profiler[store]"
# DuckDB raises a RuntimeError, not one of its own errors.
_INTERRUPTED = "Query interrupted"
_SETTINGS = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "temp_directory": "",
    # A name in a query must not be a variable of this program.
    "python_enable_replacements": "false",
}
_SERIALIZED = "SELECT json_serialize_sql(?::VARCHAR)::VARCHAR"
_DESERIALIZED = "SELECT json_deserialize_sql(?::JSON)"
_FUNCTIONS = (
    "SELECT DISTINCT function_name FROM duckdb_functions()"
    " WHERE function_type NOT IN ('table', 'table_macro', 'pragma')"
)
_SELECTIONS = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
_TABLES = frozenset(
    {"BASE_TABLE", "SUBQUERY", "JOIN", "EMPTY", "EXPRESSION_LIST", "SHOW_REF", "PIVOT"}
)
_TABLE_FUNCTION = "TABLE_FUNCTION"
TABLE_FUNCTIONS = frozenset({"range", "generate_series", "unnest"})
_SCHEMAS = frozenset({"", "main"})
_NAME = re.compile(r"\w+")


class EngineError(Exception):
    """DuckDB cannot execute a statement; `str()` is the reason, in one line."""


class OutOfMemoryError(EngineError):
    """A query needs more memory than DuckDB may use."""


class Placed(NamedTuple):
    """Files of one kind, and the segment and host of each.

    Attributes:
        paths: the files, below the store.
        segments: the number of each file's segment in its part; empty for no such column.
        hosts: the host that each file is about; empty for no such column.
    """

    paths: list[str]
    segments: list[int]
    hosts: list[str]


class Engine:
    """An in-memory database that sees one store.

    Attributes:
        most_rows: see `tables.Queries`.
        root, reads_all: see `StoreDirectory`.
    """

    # A group needs about 150 bytes, in each of a few tables.
    most_rows: int | None = 3_000_000

    def __init__(self, store: StoreDirectory, *, threads: int = 1, memory: str = "1GB") -> None:
        """Start DuckDB for a store, which has to stay open.

        Raises:
            StoreError: DuckDB is not installed.
        """
        require_engine()
        duckdb = _loaded()
        self._error = duckdb.Error
        self.root = store.root
        self.reads_all = store.reads_all
        self._connection = duckdb.connect(
            ":memory:", config=_SETTINGS | {"threads": threads, "memory_limit": memory}
        )
        # The root is our path: /proc, digits and slashes.
        self._connection.execute(f"SET allowed_directories=['{self.root}']")
        self._connection.execute("SET enable_external_access=false")
        # Notebooks and `python -c` would get it between their lines of output.
        self._connection.execute("SET enable_progress_bar=false")
        self._connection.execute("SET lock_configuration=true")

    @property
    def planner(self) -> Engine:
        """See `tables.Queries`."""
        return self

    def table(self, name: str, kind: str, placed: Placed) -> None:
        """See `tables.Queries`."""
        columns = COLUMNS[kind]
        if not placed.paths:
            nulls = ", ".join(f"NULL::{type_} AS {_quoted(one)}" for one, type_ in columns.items())
            self.view(name, f"SELECT {nulls}, 0 AS segment, '' AS host WHERE false")
            return
        typed = ", ".join(
            f"{self._value(one, type_)} AS {_quoted(one)}" for one, type_ in columns.items()
        )
        quoted = (path.replace("'", "''") for path in placed.paths)
        listed = ", ".join(f"'{self.root}{path}'" for path in quoted)
        source = f"read_parquet([{listed}], hive_partitioning=false)"
        if not placed.segments:
            self.view(name, f"SELECT {typed} FROM {source}")
            return
        runs = _runs(placed.segments)
        if not placed.hosts and len(runs) <= MOST_RUNS:
            # The number is constant within a file. A join takes half as long as the reading.
            self.view(name, f"SELECT {typed}, {_segment(runs)} AS segment FROM {source}")
            return
        # Looking up the file of a row in a list would copy the list for every row.
        self.run(f"CREATE OR REPLACE TABLE {name}_of (file UBIGINT, segment INTEGER, host VARCHAR)")
        self.run(
            f"INSERT INTO {name}_of SELECT unnest(range(len(?)))::UBIGINT, unnest(?), unnest(?)",
            [placed.segments, placed.segments, list(map(storable, placed.hosts)) or [""]],
        )
        own = "o.segment, o.host" if placed.hosts else "o.segment"
        self.view(
            name,
            f"SELECT {typed}, {own} FROM {source} AS r"
            f" JOIN {name}_of AS o ON r.file_index = o.file",
        )

    def _value(self, column: str, type_: str) -> str:
        """Return the expression for a column of a file.

        Our files have no NULLs, and no query expects one: a NULL is an error like other damage,
        unless all of the file was read before.
        """
        value = f"{_quoted(column)}::{type_}"
        if self.reads_all:
            return value
        # The text is no number, so the cast fails. error() is volatile: DuckDB would not push
        # conditions into the reading of the file, and take a third longer.
        missing = f"'a value of {column} is missing'::BIGINT::{type_}"
        return f"CASE WHEN {_quoted(column)} IS NULL THEN {missing} ELSE {value} END"

    def view(self, name: str, query: str) -> None:
        """See `tables.Queries`."""
        self.run(f"CREATE OR REPLACE VIEW {name} AS {query}")

    def keep(self, name: str, query: str, parameters: Sequence[Any] = ()) -> None:
        """See `tables.Queries`."""
        self.run(f"CREATE TABLE {name} AS {query}", parameters)

    def drop(self, name: str) -> None:
        """See `tables.Queries`."""
        self.run(f"DROP TABLE {name}")

    def run(self, query: str, parameters: Sequence[Any] = ()) -> None:
        """Execute a statement.

        Raises:
            EngineError: it cannot be executed.
        """
        with self._translated_errors():
            self._connection.execute(query, list(parameters))

    def columns(self, query: str, parameters: Sequence[Any] = ()) -> dict[str, NDArray[Any]]:
        """See `tables.Queries`."""
        with self._translated_errors():
            found: dict[str, NDArray[Any]] = self._connection.execute(
                query, list(parameters)
            ).fetchnumpy()
        return found

    def rows(self, query: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """See `tables.Queries`."""
        with self._translated_errors():
            found: list[tuple[Any, ...]] = self._connection.execute(
                query, list(parameters)
            ).fetchall()
        return found

    def heads(
        self, query: str, parameters: Sequence[Any] = ()
    ) -> tuple[list[str], Iterator[tuple[Any, ...]]]:
        """See `tables.Queries`."""
        with self._translated_errors():
            cursor = self._connection.execute(query, list(parameters))

        def rows() -> Iterator[tuple[Any, ...]]:
            with self._translated_errors():
                yield from iter(cursor.fetchone, None)

        return [head[0] for head in cursor.description or ()], rows()

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Translate DuckDB's errors.

        Raises:
            EngineError: a statement cannot be executed.
            KeyboardInterrupt: DuckDB has caught a Ctrl-C.
        """
        try:
            yield
        except self._error as error:
            is_memory = isinstance(error, _loaded().OutOfMemoryException)
            kind = OutOfMemoryError if is_memory else EngineError
            # DuckDB shows the query after the first line.
            line = str(error).partition("\n")[0].strip()
            raise kind(line or type(error).__name__) from None
        except RuntimeError as error:
            if str(error) != _INTERRUPTED:
                raise
            raise KeyboardInterrupt from None

    def selection(self, query: str) -> str | None:
        """Return the tree of a query, None if it is not one statement that only reads tables.

        The tree is JSON, as `json_serialize_sql` returns it.

        Raises:
            EngineError: it is no SQL.
        """
        with self._translated_errors():
            statements = self._connection.extract_statements(query)
            if [one.type for one in statements] != [_loaded().StatementType.SELECT]:
                return None
            text = str(self._connection.execute(_SERIALIZED, [query]).fetchall()[0][0])
        try:
            tree = json.loads(text)
        except RecursionError:
            raise EngineError("the query is nested too deeply") from None
        return None if tree.get("error") or not only_reads(tree) else text

    def plain(self, tree: str) -> tuple[str, list[str]]:
        """Return the text of a tree for another engine, and its functions that DuckDB lacks.

        The text has no comments or unusual literals, which another parser might misunderstand.

        Raises:
            EngineError: it cannot be written.
        """
        with self._translated_errors():
            known = {name for (name,) in self._connection.execute(_FUNCTIONS).fetchall()}
            text = str(self._connection.execute(_DESERIALIZED, [tree]).fetchall()[0][0])
        called = functions_in(json.loads(tree))
        return text, sorted(called - known - TABLE_FUNCTIONS)

    def register(self, name: str, columns: Columns) -> None:
        """See `tables.Queries`."""
        # DuckDB takes an empty column of objects for numbers. It never sees the extra row.
        arrays = {
            key: column
            if isinstance(column, np.ndarray)
            else np.array([storable(text) for text in column] + [""], object)[: len(column)]
            for key, column in columns.items()
        }
        self._connection.register(name, arrays)

    def unregister(self, name: str) -> None:
        """Forget registered columns."""
        self._connection.unregister(name)

    def close(self) -> None:
        """Close the database."""
        self._connection.close()


def require_engine() -> None:
    """Check that DuckDB is installed, without loading it.

    Raises:
        StoreError: it is not; says how to install it.
    """
    if find_spec("duckdb") is None:
        raise StoreError(
            f"a store needs DuckDB: {shlex.quote(sys.executable)} -m pip install '{_DISTRIBUTION}'"
        )


def _loaded() -> ModuleType:
    """Load DuckDB, which takes 60 MB.

    Prefer its compiled module: importing the package around it takes twice as long.
    """
    try:
        return import_module("_duckdb")
    except ImportError:
        return import_module("duckdb")


def _runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Return the first place, and number minus place, of each run of consecutive numbers."""
    runs: list[tuple[int, int]] = []
    for place, number in enumerate(numbers):
        if not runs or number - place != runs[-1][1]:
            runs.append((place, number - place))
    return runs


def _segment(runs: list[tuple[int, int]]) -> str:
    """Return the expression for the number of a file's segment."""
    cases = [f"WHEN file_index < {end} THEN {shift}" for (_, shift), (end, _) in pairwise(runs)]
    last = str(runs[-1][1])
    added = f"CASE {' '.join(cases)} ELSE {last} END" if cases else last
    return f"file_index::INTEGER + {added}"


def _quoted(name: str) -> str:
    return f'"{name}"'


def storable(text: str) -> str:
    """Return text that is valid UTF-8: invalid bytes become a backslash and digits."""
    if text.isascii():
        return text.replace("\0", "\\x00")
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def only_reads(tree: Any) -> bool:
    """Return whether a query, as `json_serialize_sql` returns it, only reads tables by name."""
    nodes = list(_nodes(tree))
    own = {str(node["key"]).lower() for node in nodes if isinstance(node.get("key"), str)}
    return all(_is_reading(node, own) for node in nodes)


def functions_in(tree: Any) -> set[str]:
    """Return the names of all functions that a query calls, in lower case."""
    return {str(node["function_name"]).lower() for node in _nodes(tree) if "function_name" in node}


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    left = [tree]
    while left:
        node = left.pop()
        if isinstance(node, dict):
            yield node
            left += node.values()
        elif isinstance(node, list):
            left += node


def _is_reading(node: dict[str, Any], own: set[str]) -> bool:
    """Return whether a node is neither a statement nor a table that might do more than read.

    `own` are the names of the query's common table expressions.
    """
    kind = node.get("type")
    if "class" in node or not isinstance(kind, str):
        return True  # an expression, or no node at all
    if kind == _TABLE_FUNCTION:
        return str(node["function"].get("function_name")).lower() in TABLE_FUNCTIONS
    if kind == "BASE_TABLE":
        # Anything but a name may be a path, which DuckDB reads as a file.
        name = str(node.get("table_name"))
        is_name = bool(_NAME.fullmatch(name)) or name.lower() in own
        return is_name and node.get("schema_name") in _SCHEMAS and not node.get("catalog_name")
    if kind.endswith("_NODE"):
        return kind in _SELECTIONS
    return kind in _TABLES or "sample" not in node
