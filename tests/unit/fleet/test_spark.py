"""A Spark cluster gives the rows that DuckDB gives, also where a worker dies meanwhile.

This runs where pyspark and a Java are installed: scripts/check-fleet.
"""

from __future__ import annotations

import json
import shutil
import threading
from contextlib import closing
from pathlib import Path

import pytest

from builders.fleet import fill_host, fleet_store, usual
from builders.spark_cluster import SparkCluster
from builders.stored import by_function, fill, window_at
from prospect.api.store_part import read_store
from prospect.cli.main import main
from prospect.errors import StoreError
from prospect.fleet.opening import engine_of, opened
from prospect.store.segment_reading import choose
from prospect.store.specification import Specification
from prospect.store.tables import TABLES, make_tables

pytest.importorskip("pyspark")
duckdb = pytest.importorskip("duckdb")
if shutil.which("java") is None:
    pytest.skip("no java", allow_module_level=True)

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(name="cluster", scope="module")
def _cluster(tmp_path_factory):
    with closing(SparkCluster(tmp_path_factory.mktemp("spark"))) as cluster:
        yield cluster


@pytest.fixture(name="fleet", scope="module")
def _fleet(tmp_path_factory):
    return str(fleet_store(tmp_path_factory.mktemp("stores") / "a fleet"))


def said(capfd, cluster, *words):
    assert main([*words, "--engine", cluster.url if cluster else "local"]) == 0
    return capfd.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ("fleet", "top"),
        ("fleet", "top", "symbol:f1*", "host:h[1-4]"),
        ("fleet", "outliers"),
        ("fleet", "outliers", "--by", "build"),
        ("fleet", "deploys"),
        ("fleet", "deploys", "bb"),
        ("fleet", "coverage"),
    ],
)
def test_every_question_gets_the_same_answer(fleet, cluster, capfd, words):
    words = (*words, "--store", fleet, "--format", "json")
    assert json.loads(said(capfd, cluster, *words)) == json.loads(said(capfd, None, *words))


@pytest.mark.parametrize("table", TABLES)
def test_every_table_has_the_same_rows(fleet, cluster, capfd, table):
    words = ("sql", f"SELECT * FROM {table}", "--store", fleet, "--format", "csv")
    on_spark, here = (said(capfd, one, *words).splitlines() for one in (cluster, None))
    columns = [line.split(",") for line in (on_spark[0], here[0])]
    assert sorted(columns[0]) == sorted(columns[1])
    order = [columns[0].index(name) for name in columns[1]]
    rows = [[line.split(",")[at] for at in order] for line in on_spark[1:]]
    assert sorted(rows) == sorted(line.split(",") for line in here[1:])
    assert len(here) > 3


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT java_method('java.lang.System', 'getenv', 'HOME')", "no function java_method"),
        ("SELECT reflect('java.lang.Runtime', 'getRuntime')", "no function reflect"),
        ('SELECT * FROM parquet."/etc/passwd"', "one SELECT"),
        ("WITH x AS (COPY (SELECT 1) TO '/tmp/prospect-made') SELECT * FROM x", "one SELECT"),
    ],
)
def test_a_query_calls_no_java_and_reads_no_file(fleet, cluster, capfd, query, said):
    assert main(["sql", query, "--store", fleet, "--engine", cluster.url]) == 2
    assert said in capfd.readouterr().err


def test_a_report_and_its_stacks_are_the_same(fleet, cluster, tmp_path):
    fill(tmp_path / "s", [window_at(0), window_at(1)])
    for path, words in ((tmp_path / "s", []), (fleet, ["host:h2", "service:web*"])):
        sides = [
            read_store(str(path), words, stacks=True, engine=one) for one in (cluster.url, "local")
        ]
        assert by_function(sides[0]) == by_function(sides[1])
        assert len(sides[0].stacks.depth) == len(sides[1].stacks.depth) > 0
        assert sides[0].run.limits == sides[1].run.limits


def test_days_of_all_hosts_are_the_same(cluster, capfd, tmp_path):
    answers = []
    for number, one in enumerate((cluster, None)):
        path = str(fleet_store(tmp_path / f"f{number}"))
        made = json.loads(said(capfd, one, "store", "compact", "--store", path, "--format", "json"))
        assert made == {"days": 1, "left": 0}
        (day,) = Path(path).glob("fleet/date=*/*.functions.parquet")
        rows = duckdb.sql(f"SELECT * FROM read_parquet('{day}') ORDER BY ALL").fetchall()
        answers.append((day.name, rows))
        if one is None:
            fill_host(Path(path), "new", {1450: usual(5)})
            words = ("fleet", "top", "--store", path, "--format", "json")
            assert json.loads(said(capfd, cluster, *words)) == json.loads(said(capfd, None, *words))
    assert answers[0] == answers[1]
    assert len(answers[0][1]) > 60


def test_names_that_paths_quote_are_read(cluster, tmp_path):
    fill_host(tmp_path / "f", "b%2F1", {0: [], 1: []})
    fill(tmp_path / "f" / "host=b%2F1", [window_at(5)])
    found = read_store(str(tmp_path / "f"), ["host:b/1"], engine=cluster.url)
    assert sum(by_function(found).values()) == 30
    fill_host(tmp_path / "f", "x{1}", {0: []})
    with pytest.raises(StoreError, match=r"host=x\{1\}.*rename"):
        read_store(str(tmp_path / "f"), engine=cluster.url)


def test_a_query_without_an_answer_says_why(fleet, cluster, capfd):
    words = ("--store", fleet, "--engine", cluster.url)
    assert main(["sql", "SELECT nothing FROM samples", *words]) == 2
    error = capfd.readouterr().err
    assert "nothing" in error
    assert len(error.splitlines()) == 1


# Last: it leaves the cluster with one worker.
def test_a_worker_that_is_killed_changes_no_row(fleet, cluster):
    query = (
        "SELECT a.host, sum((a.n * b.n + c.n) % 7)::BIGINT AS s FROM samples AS a"
        " CROSS JOIN samples AS b CROSS JOIN (SELECT n FROM samples ORDER BY n, t, host LIMIT 300)"
        " AS c GROUP BY a.host ORDER BY a.host"
    )
    with opened(fleet) as store:
        with closing(engine_of("local")(store)) as engine:
            make_tables(store, engine, choose(store, engine.planner, Specification()))
            wanted = engine.rows(query)
        with closing(engine_of(cluster.url)(store)) as engine:
            make_tables(store, engine, choose(store, engine.planner, Specification()))
            found = []
            asking = threading.Thread(target=lambda: found.append(engine.rows(query)))
            asking.start()
            asking.join(3)
            is_under_way = asking.is_alive()
            cluster.kill_worker()
            asking.join()
    assert is_under_way
    assert found == [wanted]
