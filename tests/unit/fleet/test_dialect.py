"""Every query of a store is one of Spark's and of ClickHouse's too; chDB answers it alike."""

from __future__ import annotations

import importlib
from contextlib import closing

import pytest

from builders.fleet import fleet_store
from prospect.api.store_part import read_store
from prospect.cli.main import main
from prospect.fleet.opening import opened
from prospect.store.engine import Engine, EngineError
from prospect.store.segment_reading import choose
from prospect.store.specification import Specification
from prospect.store.tables import local_engine, make_tables

sqlglot = pytest.importorskip("sqlglot")
pytest.importorskip("duckdb")
dialect = importlib.import_module("prospect.fleet.spark.spark_engine")


@pytest.fixture(name="asked", scope="module")
def _asked(tmp_path_factory):
    """Return every query that the commands ask, as they say it."""
    path = str(fleet_store(tmp_path_factory.mktemp("stores") / "fleet"))
    queries = {}
    patch = pytest.MonkeyPatch()
    for name in ("rows", "columns", "keep", "view"):
        ask = getattr(Engine, name)

        def noting(engine, *words, _ask=ask, _at=int(name in ("keep", "view"))):
            if "read_parquet" not in words[_at] and "parquet_kv_metadata" not in words[_at]:
                queries[words[_at]] = words[_at + 1 :]
            return _ask(engine, *words)

        patch.setattr(Engine, name, noting)
    for words in (
        ["top"],
        ["outliers"],
        ["outliers", "--by", "build"],
        ["deploys"],
        ["deploys", "b"],
        ["coverage"],
    ):
        assert main(["fleet", *words, "symbol:f*", "--store", path, "-f", "/dev/null"]) == 0
    assert main(["store", "compact", "--store", path]) == 0
    read_store(path, ["service:w*", "tgid:0-3", "event:*"][:1], stacks=True)
    assert main(["sql", "SELECT count(*) FROM frames", "--store", path, "-f", "/dev/null"]) == 0
    patch.undo()
    return queries


@pytest.mark.parametrize("name", ["spark", "clickhouse"])
def test_every_query_is_one_of_other_engines(asked, name):
    assert len(asked) > 25
    for query in asked:
        translated = dialect.translated(query, name)
        if "?" not in query or name == "spark":  # ClickHouse's parameters have names
            assert sqlglot.parse_one(translated, read=name)


def test_recursion_of_spark_ends_and_counts_nothing_twice(asked):
    (query,) = (each for each in asked if "RECURSIVE" in each)
    translated = dialect.translated(query)
    assert "UNION ALL" in translated
    assert translated.endswith("SELECT DISTINCT * FROM used")


def test_what_is_no_sql_is_said_in_one_line():
    with pytest.raises(EngineError) as error:
        dialect.translated("SELECT FROM WHERE (")
    assert "\n" not in str(error.value)


def test_chdb_adds_up_what_duckdb_adds_up(tmp_path):
    chdb = pytest.importorskip("chdb")
    path = fleet_store(tmp_path / "fleet")
    query = (
        # ClickHouse takes a name for an alias of the same query before it is a column's.
        "SELECT process, count(*) AS rows, sum(n) AS hits, sum(n * n), max(stack)"
        " FROM samples WHERE regexp_matches(process, '^[a-z]') AND t // 60000000 > 0"
        " GROUP BY process ORDER BY hits DESC, process"
    )
    files = f"(SELECT * FROM file('{path}/*/minute/*/*/*.samples.parquet', Parquet)) AS samples"
    translated = dialect.translated(query, "clickhouse").replace("FROM samples", f"FROM {files}")
    found = str(chdb.query(translated, "CSV")).strip().splitlines()
    with opened(str(path)) as store, closing(local_engine(store)) as engine:
        make_tables(store, engine, choose(store, engine.planner, Specification()))
        wanted = engine.rows(query)
    assert [line.replace('"', "").split(",") for line in found] == [
        [str(value) for value in row] for row in wanted
    ]
