"""Spark as the engine of queries: `store.tables.Queries` on a standalone cluster.

This process finds the files and reads their heads; Spark's workers read the columns, below the same
path. Unsigned 64-bit numbers are decimals, as Spark has no such type. Queries in DuckDB's dialect
are translated to Spark's or ClickHouse's.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from prospect.fleet.spark.spark_session import session_at
from prospect.store.engine import Engine, EngineError, storable
from prospect.store.file_schema import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from prospect.store.directory import StoreDirectory
    from prospect.store.engine import Columns, Placed


SPARK, CLICKHOUSE = "spark", "clickhouse"
_JAVA = frozenset({"reflect", "try_reflect", "java_method"})


@lru_cache(maxsize=256)
def translated(query: str, dialect: str = SPARK) -> str:
    """Return a query in another dialect.

    Raises:
        EngineError: it has no translation.
    """
    try:
        tree = sqlglot.parse_one(query, read="duckdb")
        _refuse_java(tree)
        if dialect == SPARK:
            _keep_duplicates(tree)
        return str(tree.sql(dialect=dialect, unsupported_level=sqlglot.ErrorLevel.RAISE))
    except SqlglotError as error:
        raise EngineError(str(error).partition("\n")[0]) from None


def _refuse_java(tree: exp.Expression) -> None:
    """Refuse functions of Spark that call Java methods, and tables that are files.

    Raises:
        EngineError: there is one.
    """
    for function in tree.find_all(exp.Anonymous):
        if function.name.lower() in _JAVA:
            raise EngineError(f"there is no function {function.name}")
    for table in tree.find_all(exp.Table):
        if table.db or table.catalog:
            raise EngineError(f"there is no table {table.sql()}")


def _keep_duplicates(tree: exp.Expression) -> None:
    """Make each UNION of a recursive query UNION ALL; remove duplicates from its result.

    Spark has no other recursion. The duplicates are the callers that several stacks share.
    """
    for clause in tree.find_all(exp.With):
        if not clause.recursive:
            continue
        for table in clause.expressions:
            union = table.this
            is_recursive = isinstance(union, exp.Union) and any(
                source.name == table.alias for source in union.find_all(exp.Table)
            )
            if not is_recursive or not union.args.get("distinct"):
                continue
            union.set("distinct", False)
            outer = clause.parent
            if isinstance(outer, exp.Select):
                outer.set("distinct", exp.Distinct())


_TYPES = {
    "VARCHAR": "STRING",
    "UTINYINT": "SMALLINT",
    "USMALLINT": "INT",
    "SMALLINT": "SMALLINT",
    "INTEGER": "INT",
    "BIGINT": "BIGINT",
    "UBIGINT": "DECIMAL(20, 0)",
    "BOOLEAN": "BOOLEAN",
}
# Spark takes paths with these for patterns, or for several paths, and reads files twice.
_PATTERN = re.compile(r"[\[\]{}*?;,\\]")
_UNSIGNED = {
    name for columns in COLUMNS.values() for name, type_ in columns.items() if type_ == "UBIGINT"
} | {"number"}  # of a name: that of a function


class SparkEngine:
    """Tables of one part of a store, on a cluster."""

    most_rows: int | None = None  # it writes to disk what does not fit into memory

    def __init__(self, store: StoreDirectory, master: str) -> None:
        """Connect to a cluster for a store, which has to stay open.

        `master` is spark://HOST:PORT.

        Raises:
            StoreError: Spark or DuckDB is not installed, or the cluster does not answer.
        """
        self._session = session_at(master).newSession()
        self._path = os.path.realpath(store.root)
        self._kept: list[Any] = []
        self.planner = Engine(store)

    def table(self, name: str, kind: str, placed: Placed) -> None:
        """See `tables.Queries`."""
        schema = ", ".join(f"`{one}` {_TYPES[type_]}" for one, type_ in COLUMNS[kind].items())
        if wrong := next((one for one in placed.paths if _PATTERN.search(self._path + one)), ""):
            raise EngineError(f"Spark takes {wrong} for a pattern: rename the host's directory")
        with _errors():
            if not placed.paths:
                columns = f"{schema}, segment INT, host STRING"
                self._session.createDataFrame([], columns).createOrReplaceTempView(name)
                return
            files = (
                self._session.read.schema(schema)
                .option("__globPaths__", "false")
                .parquet(*(f"{self._path}/{path}" for path in placed.paths))
            )
            if placed.segments:
                columns_of_files: Columns = {
                    "file_path": [uri_of(f"{self._path}/{path}") for path in placed.paths],
                    "segment": np.array(placed.segments, np.int32),
                }
                if placed.hosts:
                    columns_of_files = {**columns_of_files, "host": placed.hosts}
                places = self._frame(columns_of_files)
                files = files.selectExpr("*", "_metadata.file_path")
                files = files.join(places.hint("broadcast"), "file_path").drop("file_path")
            files.createOrReplaceTempView(name)

    def view(self, name: str, query: str) -> None:
        """See `tables.Queries`."""
        with _errors():
            self._session.sql(translated(query)).createOrReplaceTempView(name)

    def keep(self, name: str, query: str, parameters: Sequence[Any] = ()) -> None:
        """See `tables.Queries`."""
        with _errors():
            kept = self._session.sql(translated(query), args=_arguments(parameters)).cache()
            kept.createOrReplaceTempView(name)
            self._kept.append(kept)

    def drop(self, name: str) -> None:
        """Do nothing: lazy queries may still need the table."""

    def register(self, name: str, columns: Columns) -> None:
        """See `tables.Queries`."""
        self._frame(columns).createOrReplaceTempView(name)

    def _frame(self, columns: Columns) -> Any:
        """Return columns as a data frame; rows of Python would need a Python on each worker."""
        import pyarrow as pa  # noqa: PLC0415 - where Spark is asked

        arrays = {key: _arrow_column(column) for key, column in columns.items()}
        return self._session.createDataFrame(pa.table(arrays))

    def rows(self, query: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """See `tables.Queries`."""
        return list(self.heads(query, parameters)[1])

    def columns(self, query: str, parameters: Sequence[Any] = ()) -> dict[str, NDArray[Any]]:
        """See `tables.Queries`."""
        table = self._answered(query, parameters)
        return {name: _numpy_column(name, table.column(name)) for name in table.column_names}

    def heads(
        self, query: str, parameters: Sequence[Any] = ()
    ) -> tuple[list[str], Iterator[tuple[Any, ...]]]:
        """See `tables.Queries`."""
        table = self._answered(query, parameters)
        columns = [_python_column(column) for column in table.columns]
        return table.column_names, iter(zip(*columns, strict=True))

    def _answered(self, query: str, parameters: Sequence[Any]) -> Any:
        with _errors():
            return self._session.sql(translated(query), args=_arguments(parameters)).toArrow()

    def close(self) -> None:
        """Drop all tables; the session stays for the next part."""
        from py4j.protocol import Py4JError  # noqa: PLC0415 - where Spark is asked

        self.planner.close()
        # Ctrl-C also ends the driver's Java.
        with suppress(Py4JError, OSError):
            for kept in self._kept:
                kept.unpersist()


def uri_of(path: str) -> str:
    """Return a path as a URI of Java, which Spark's column of paths has."""
    quoted = "".join(
        quote(sign, safe="/_-!.~'()*,;:$&+=@") if sign.isascii() else sign for sign in path
    )
    return f"file:{quoted}"


@contextmanager
def _errors() -> Iterator[None]:
    """Translate Spark's errors.

    Raises:
        EngineError: the reason, in one line.
    """
    from py4j.protocol import Py4JError  # noqa: PLC0415 - where Spark is asked
    from pyspark.errors import PySparkException  # noqa: PLC0415 - where Spark is asked

    try:
        yield
    except (PySparkException, Py4JError, OSError) as error:
        first = str(error).strip().partition("\n")[0]
        raise EngineError(f"Spark: {first or type(error).__name__}") from None


def _arguments(parameters: Sequence[Any]) -> list[Any]:
    return [storable(one) if isinstance(one, str) else one for one in parameters]


def _arrow_column(column: Any) -> Any:
    import pyarrow as pa  # noqa: PLC0415 - where Spark is asked

    if isinstance(column, np.ndarray):
        if column.dtype == np.uint64:
            return pa.array(column).cast(pa.decimal128(20, 0))
        return pa.array(column)
    return [storable(text) for text in column]


def _numpy_column(name: str, column: Any) -> NDArray[Any]:
    import pyarrow as pa  # noqa: PLC0415 - where Spark is asked

    type_ = column.type
    if pa.types.is_decimal(type_):
        if name in _UNSIGNED:
            numbers: NDArray[Any] = column.cast(pa.uint64()).to_numpy()
            return numbers
        return np.array([float(value or 0) for value in column.to_pylist()], np.float64)
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return np.array([*column.to_pylist(), ""], object)[:-1]
    values: NDArray[Any] = column.to_numpy()
    return values


def _python_column(column: Any) -> list[Any]:
    """Return values of the types that DuckDB returns: whole numbers are int."""
    import pyarrow as pa  # noqa: PLC0415 - where Spark is asked

    values: list[Any] = column.to_pylist()
    if pa.types.is_decimal(column.type) and column.type.scale == 0:
        return [None if value is None else int(value) for value in values]
    return values
