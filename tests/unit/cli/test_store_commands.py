"""Commands on a part of a store: every format, calls, comparisons, and what is refused."""

from __future__ import annotations

import json
import shlex
import shutil
from contextlib import closing

import pytest

from builders.hostile_names import with_hostile_names
from builders.stacks import stacks_profile
from builders.stored import fill, samples_file, window_at
from prospect.cli.main import main
from prospect.records import replace
from prospect.render.registry import FORMATS
from prospect.store.compaction import Made, compact
from prospect.store.directory import StoreDirectory
from prospect.store.engine import Engine

duckdb = pytest.importorskip("duckdb")


@pytest.fixture(name="filled", scope="module")
def _filled(tmp_path_factory):
    path = tmp_path_factory.mktemp("filled") / "s"
    fill(path, [window_at(minute) for minute in range(4)])
    return path


@pytest.fixture(name="store")
def _store(filled, tmp_path, monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    shutil.copytree(filled, tmp_path / "s")
    return str(tmp_path / "s")


def text_of(capfd, *words):
    assert main(list(words)) == 0
    return capfd.readouterr().out


def refused(capfd, *words):
    assert main(list(words)) != 0
    told = capfd.readouterr()
    assert told.out == ""
    assert len(told.err.splitlines()) == 1
    return told.err


def at(minute):
    return f"2026-11-22T14:{5 + minute:02}+00:00"


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_shows_a_part(store, tmp_path, name):
    file = tmp_path / "out"
    words = ["report", "--store", store, "comm:comm", "--format", name, "-f", str(file)]
    assert main(words) == 0
    assert file.stat().st_size > 100


def test_threads_are_chosen_by_name_and_by_number(tmp_path, store, capfd):
    """tid is a number, which a store keeps on request; comm is a name; thread is either."""
    fill(tmp_path / "apart", [window_at(minute, separate=("thread",)) for minute in range(2)])
    apart = str(tmp_path / "apart")

    def rows(where, *words):
        shown = text_of(capfd, "report", "--store", where, "--format", "csv", *words)
        return [line.split(",")[1].strip('"') for line in shown.splitlines()[1:]]

    for sort, thread, other in (("comm", "comm", "a b;c"), ("tid", "77", "0")):
        assert rows(apart, "--sort", sort) == [thread, other]
        for word in ("tid:77", "thread:77", "comm:comm", "thread:comm"):
            assert rows(apart, "--sort", sort, word) == [thread]
    assert rows(apart, "--sort", "thread") == ["comm (77)", "a b;c (0)"]
    assert rows(store, "--sort", "comm") == rows(store, "--sort", "thread") == ["comm", "a b;c"]
    assert rows(store, "--sort", "thread", "thread:comm") == ["comm"]
    for words in (("thread:77",), ("tid:77",), ("--sort", "tid")):
        assert "--separate thread" in refused(capfd, "report", "--store", store, *words)


def test_hints_suit_a_store(store, capfd):
    report = text_of(capfd, "report", "--store", store, "comm:comm")
    first = report.split("---")[0]
    assert "--save" not in first
    assert "COMMAND" not in first
    assert "annotate" not in first
    assert f"        prospect view --store {store} comm:comm\n" in first
    assert "4 windows, from 2026-11-22 14:05:00 to 2026-11-22 14:09:00." in report
    assert "--off-cpu" not in first


def test_the_commands_that_follow_a_store_can_be_typed(store, capfd):
    first = text_of(
        capfd, "report", "--store", store, "-V", "4", f"since:{at(0)}", f"until:{at(4)}"
    )
    more, compared = first.split("Next: ")[1].split("\n\n")[0].splitlines()
    assert compared.split()[:2] == ["prospect", "diff"]
    assert f" until:{at(2)[:16]}:00" in compared
    for line in (more, compared):
        words = shlex.split(line)
        assert words[:2] in (["prospect", "report"], ["prospect", "calls"], ["prospect", "diff"])
        assert text_of(capfd, *words[1:])


def test_calls_are_those_of_the_part(store, capfd):
    shown = json.loads(text_of(capfd, "calls", "--store", store, "-V4", "--format", "json"))
    half = [f"since:{at(0)}", f"until:{at(2)}"]
    words = ["calls", "--store", store, *half, "-V4", "--format", "json"]
    of_half = json.loads(text_of(capfd, *words))
    hits = [one["events"][0]["samples"] for one in (shown, of_half)]
    assert hits[0] == 2 * hits[1] > 0


def test_two_parts_are_compared(store, capfd):
    nights = (f"until:{at(2)}", "--against", f"since:{at(2)}")
    shown = text_of(capfd, "diff", "--store", store, *nights)
    assert f"A: {store} until:{at(2)}: every process" in shown
    assert f"B: {store} since:{at(2)}: every process" in shown
    assert "s per second of wall time" in shown
    assert "0 significant changes" in shown or "No significant change" in shown
    assert json.loads(text_of(capfd, "diff", "--store", store, *nights, "--format", "json"))


def test_a_comparison_asks_for_two_parts(store, capfd):
    assert "give two parts" in refused(capfd, "diff", "--store", store, f"until:{at(2)}")


@pytest.mark.parametrize(
    "words",
    [
        ["report", "-e"],
        ["report", "--lines"],
        ["report", "--inline"],
        ["calls", "--inline"],
        ["calls", "--between", "1,2"],
    ],
)
def test_what_a_store_does_not_keep_is_refused(store, capfd, words):
    assert "a store keeps" in refused(capfd, *words, "--store", store)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["comm:nginx"], "comm: there is comm, a b;c"),
        (["symbol:nginx", "comm:c*"], "symbol: there is "),
        (["lib-image:*nginx*"], "/libc.so"),
        (["event:cycles"], "event: there is cpu-clock"),
        (["host:elsewhere"], "host: there is "),
        (["service:web"], "service: there is none"),
        (["comm:a*", "symbol:jitted"], "each word matches some samples"),
        (["since:-0s"], "; prospect control dump writes a daemon's current window"),
    ],
)
def test_an_empty_choice_says_what_there_is(store, capfd, words, said):
    assert said in refused(capfd, "report", "--store", store, *words)


def test_hostile_names_are_escaped(tmp_path, capfd):
    fill(tmp_path / "s", [window_at(0, with_hostile_names(stacks_profile()))])
    for command in ("report", "calls"):
        shown = text_of(capfd, command, "--store", str(tmp_path / "s"), "-V4")
        assert not [char for char in shown if ord(char) < 32 and char != "\n"]


def test_a_list_has_days_services_and_hosts(tmp_path, capfd):
    rows = stacks_profile().processes.name
    served = {rows.index("work"): "web.service"}
    fill(tmp_path / "s", [window_at(0, services=served)], session="before")
    fill(tmp_path / "s", [window_at(1440), window_at(1441)])
    words = ["store", "list", "--store", str(tmp_path / "s"), "--format", "json"]
    found = json.loads(text_of(capfd, *words))
    assert [day["windows"] for day in found["days"]] == [1, 2]
    assert [day["session"] for day in found["days"]] == ["before", "current"]
    assert [day["measured_s"] for day in found["days"]] == [60, 120]
    assert all(day["size_bytes"] > 1000 for day in found["days"])
    assert {"service": "web.service", "samples": 21} in found["services"]
    shown = text_of(capfd, *words[:-2], "session:before")
    assert "2026-11-22  before" in shown
    assert "current" not in shown


def test_a_list_takes_no_words_that_choose_hits(store, capfd):
    assert "prospect report --store" in refused(capfd, "store", "list", "comm:x", "--store", store)
    assert "did you mean check?" in refused(capfd, "store", "chek", "--store", store)


def test_a_check_finds_what_is_damaged_and_what_has_no_names(tmp_path, capfd):
    segments = fill(tmp_path / "s", [window_at(minute) for minute in range(3)])
    words = ["store", "check", "--store", str(tmp_path / "s")]
    assert "3 segments, whole" in text_of(capfd, *words)
    samples_file(tmp_path / "s", segments[1]).write_bytes(b"PAR1")
    assert main(words) == 1
    shown = capfd.readouterr().out
    assert f"Damaged: {segments[1].path('samples')} is left out" in shown
    assert "3 segments, damaged" in shown
    assert main([*words, "--format", "json"]) == 1
    assert len(json.loads(capfd.readouterr().out)["damaged"]) == 1


def other_names(path, kind):
    """Replace a file of names by one that is whole, and has other rows."""
    columns = "* REPLACE ({0} + 1 AS {0})".format("function" if kind == "functions" else "stack")
    duckdb.sql(f"COPY (SELECT {columns} FROM '{path}') TO '{path}.new' (FORMAT parquet)")
    path.with_name(f"{path.name}.new").replace(path)
    path.chmod(0o600)


HARMS = {
    "emptied": lambda path, _: path.write_bytes(b""),
    "overwritten": lambda path, _: path.write_bytes(b"x" * path.stat().st_size),
    "removed": lambda path, _: path.unlink(),
    "replaced": other_names,
}


@pytest.mark.parametrize("kind", ["functions", "stacks"])
@pytest.mark.parametrize("harm", HARMS)
def test_lost_names_are_found_and_never_merged(tmp_path, capfd, kind, harm):
    segments = fill(tmp_path / "s", [window_at(minute) for minute in range(3)])
    words = ["--store", str(tmp_path / "s")]
    for segment in segments:  # only the first has names
        path = tmp_path / "s" / segment.path(kind)
        if path.exists():
            HARMS[harm](path, kind)
    assert main(["store", "check", *words]) == 1
    shown = capfd.readouterr().out
    assert "damaged; " in shown
    assert "names are lost" in shown
    if kind == "functions":
        assert "; 0.0 % of" not in shown
        assert "[name lost: damaged segment]" in shown
        assert "[name lost: damaged segment]" in text_of(capfd, "report", *words)
        query = "SELECT sum(n) FROM hits WHERE symbol = '[name lost: damaged segment]'"
        assert text_of(capfd, "sql", query, *words).split()[-1] == "90"
    with StoreDirectory(str(tmp_path / "s")) as store, closing(Engine(store)) as engine:
        assert compact(store, engine) == Made(0, 0)
        assert set(store.segments()) == set(segments)


def test_a_query_sees_hits_with_their_names(store, capfd):
    query = "SELECT sum(n) AS n FROM hits WHERE comm = 'comm'"
    assert json.loads(text_of(capfd, "sql", query, "--store", store, "--format", "json")) == [
        {"n": 84}
    ]
    assert text_of(capfd, "sql", query, "--store", store, "--format", "csv") == "n\r\n84\r\n"
    assert text_of(capfd, "sql", query, "--store", store) == " n\n84\n"
    query = "SELECT count(*) FROM hits WHERE symbol IS NULL"
    assert text_of(capfd, "sql", query, "--store", store).split()[-1] == "0"
    query = "SELECT sum(recorded) - sum(n) FROM coverage, (SELECT sum(n) AS n FROM samples)"
    assert main(["sql", query, "--store", store]) == 0


def test_a_query_has_the_cpu_time_of_the_report(tmp_path, capfd):
    profile = stacks_profile()
    bank = replace(profile.run.events[0], clocks=4, seconds_per_period=2.5e-10)
    events = (bank, *profile.run.events[1:])
    fill(tmp_path / "s", [window_at(0, replace(profile, run=replace(profile.run, events=events)))])
    words = ["--store", str(tmp_path / "s"), "--format", "json"]
    report = json.loads(text_of(capfd, "report", "comm:comm", "event:cpu-clock", *words))
    for table in ("samples", "samples"):
        query = f"SELECT sum(cpu_ns) / 1e9 AS cpu_s FROM {table} WHERE comm = 'comm'"
        (found,) = json.loads(text_of(capfd, "sql", query, *words))
        assert found["cpu_s"] == pytest.approx(report["summary"]["seconds"], abs=1e-6)


def test_hits_of_an_event_without_time_have_no_cpu_time(tmp_path, capfd):
    profile = stacks_profile()
    events = [
        replace(one, seconds_per_period=0.0, seconds_per_hit=0.0) for one in profile.run.events
    ]
    run = replace(profile.run, events=tuple(events))
    fill(tmp_path / "s", [window_at(0, replace(profile, run=run))])
    query = "SELECT count(cpu_ns) AS known, sum(n)::BIGINT AS n FROM hits"
    words = ["--store", str(tmp_path / "s"), "--format", "json"]
    (found,) = json.loads(text_of(capfd, "sql", query, *words))
    assert found == {"known": 0, "n": int(profile.hits.count.sum())}


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("COPY (SELECT 1) TO '/tmp/prospect-made'", "one SELECT"),
        ("SELECT 1; DROP VIEW hits", "one SELECT"),
        ("EXPLAIN ANALYZE COPY (SELECT 1) TO '/tmp/prospect-made'", "one SELECT"),
        ("ATTACH '/tmp/prospect-made'", "one SELECT"),
        ("INSTALL httpfs", "one SELECT"),
        ("SET memory_limit='1TB'", "one SELECT"),
        ("", "one SELECT"),
        ("SELECT * FROM read_text('/etc/passwd')", "one SELECT"),
        ("SELECT * FROM '/etc/passwd'", "one SELECT"),
        ("SELECT * FROM glob('/etc/*')", "one SELECT"),
        ("SELECT * FROM information_schema.tables", "one SELECT"),
        ("SELECT * FROM query('SELECT 1')", "one SELECT"),
        ("SELECT * FROM json_execute_serialized_sql('')", "one SELECT"),
        ("CALL enable_logging()", "one SELECT"),
        ("PRAGMA database_list", "one SELECT"),
        ("SELECT nosuch(1)", "Catalog Error"),
        ("SELECT * FROM store", "there are samples, functions"),
        ("SELECT * FROM nothing", "there are samples, functions"),
        ("SELEC", "Parser Error"),
        ("SELECT process::INT FROM samples", "Conversion Error"),
    ],
)
def test_a_query_only_reads_and_only_the_store(store, capfd, query, said):
    assert said in refused(capfd, "sql", query, "--store", store)


WRITES = (
    "COPY (SELECT 1 AS a) TO '{path}' (FORMAT {format})",
    "INSERT INTO samples_of VALUES (1, 2, 'x') RETURNING *",
    "UPDATE samples_of SET host = 'x' RETURNING *",
    "DELETE FROM samples_of RETURNING *",
)
PLACES = (
    "WITH x AS ({}) SELECT * FROM x",
    "WITH x AS MATERIALIZED ({}) SELECT 1",
    "WITH RECURSIVE y AS ({}), x AS (SELECT 1) SELECT * FROM x",
    "WITH x AS (WITH y AS ({}) SELECT * FROM y) SELECT * FROM x",
    "SELECT (WITH y AS ({}) SELECT count(*) FROM y)",
    "SELECT 1 UNION ALL (WITH y AS ({}) SELECT 1 FROM y)",
    "DESCRIBE (WITH y AS ({}) SELECT 1 FROM y)",
    "SELECT * FROM samples JOIN (WITH y AS ({}) SELECT 1 FROM y) ON true",
)


def test_nothing_in_a_query_writes(tmp_path, capfd):
    (segment,) = fill(tmp_path / "s", [window_at(0)])
    files = {path: path.read_bytes() for path in (tmp_path / "s").rglob("*") if path.is_file()}
    paths = (samples_file(tmp_path / "s", segment), tmp_path / "s" / "format.json")
    for place in PLACES:
        for write in {one.format(path=path, format="csv") for one in WRITES for path in paths}:
            refused(capfd, "sql", place.format(write), "--store", str(tmp_path / "s"))
    assert files == {
        path: path.read_bytes() for path in (tmp_path / "s").rglob("*") if path.is_file()
    }


@pytest.mark.parametrize(
    "query",
    [
        "DESCRIBE samples",
        "SHOW TABLES",
        "FROM main.hits LIMIT 1",
        'WITH "a/b" AS (SELECT 1) SELECT * FROM "a/b"',
        "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 5) FROM t",
        "SELECT unnest([1, 2]), n::DECIMAL(9, 2) FROM samples, range(2) ORDER BY 1 LIMIT 1",
        "SELECT DISTINCT ON (comm) comm, row_number() OVER (PARTITION BY comm) FROM hits",
        "SELECT * FROM (VALUES (1)) AS v(a) WHERE EXISTS (SELECT 1 FROM samples)",
        "UNPIVOT (SELECT 1 AS a, 2 AS b) ON a, b INTO NAME k VALUE v",
    ],
)
def test_a_query_may_be_any_that_reads(store, capfd, query):
    assert text_of(capfd, "sql", query, "--store", store)


def test_answers_are_escaped_on_a_terminal(store, capfd):
    shown = text_of(capfd, "sql", "SELECT chr(27) || '[31m' AS x", "--store", store)
    assert "\x1b" not in shown


def test_a_file_that_is_no_longer_there_has_no_instructions(store, capfd):
    shown = text_of(capfd, "annotate", "--store", store, "work")
    assert "- No instructions: " in shown


def test_objects_of_a_damaged_store_are_no_files(tmp_path, capfd):
    profile = stacks_profile()
    objects = profile.objects
    harmed = replace(
        objects, path=[f"{path}\0\udcff" for path in objects.path], build_id=["zz"] * len(objects)
    )
    fill(tmp_path / "s", [window_at(0, replace(profile, objects=harmed))])
    assert "No instructions" in text_of(capfd, "annotate", "--store", str(tmp_path / "s"))


@pytest.mark.parametrize("name", ["std::sort(int*, int*)", "<T as a::B>::c", "call(std::less)"])
def test_a_name_with_colons_is_a_function(store, capfd, name):
    assert "no function" in refused(capfd, "annotate", "--store", store, name)


def test_annotated_sources_need_a_recording(store, capfd):
    assert "a store keeps no lines" in refused(capfd, "annotate", "--source", "--store", store)
