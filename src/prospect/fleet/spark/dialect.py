"""Queries in DuckDB's dialect → those of Spark and ClickHouse."""

from __future__ import annotations

from functools import lru_cache

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from prospect.store.engine import EngineError

SPARK, CLICKHOUSE = "spark", "clickhouse"
_JAVA = frozenset({"reflect", "try_reflect", "java_method"})


@lru_cache(maxsize=256)
def translated(query: str, dialect: str = SPARK) -> str:
    """Return a query in another dialect.

    Raises:
        EngineError: it is no SQL that this dialect has.
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
    """Refuse functions of Spark that call any method of Java, and tables that are files.

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

    Spark has no other recursion: what this adds are the callers that several stacks have.
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
