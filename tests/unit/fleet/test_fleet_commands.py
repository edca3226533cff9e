"""Questions about many hosts get the answers that their stores were made to give."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter

import pytest

from builders.examples import nightly
from builders.fleet import NEW, OLD, TICK_NS, Hit, canaries, fill_host, fleet_store, usual
from builders.json_schema import document_errors
from prospect.cli.main import main
from prospect.fleet import hits
from prospect.fleet.answers import path_end
from prospect.fleet.asking import Wanted
from prospect.fleet.opening import engine_of
from prospect.fleet.top_functions import top
from prospect.store import segment_reading
from prospect.store.engine import Engine, OutOfMemoryError
from prospect.store.hosts import HostsDirectory
from prospect.store.segments import FUNCTIONS, NAMED, SAMPLES, SUMS, TOTALS
from prospect.store.specification import Specification

duckdb = pytest.importorskip("duckdb")


@pytest.fixture(name="fleet", scope="module")
def _fleet(tmp_path_factory):
    return str(fleet_store(tmp_path_factory.mktemp("stores") / "fleet"))


def said(capfd, *words):
    assert main(["fleet", *words]) == 0
    return capfd.readouterr().out


def answer(capfd, *words):
    found = json.loads(said(capfd, *words, "--format", "json"))
    assert document_errors(found) == []
    return found


def test_top_is_what_all_hosts_do_most(fleet, capfd):
    found = answer(capfd, "top", "--store", fleet)
    assert (found["hosts"], found["cpus"], found["functions"]) == (8, 8, 33)
    first, spin = found["rows"][0], next(r for r in found["rows"] if r["function"] == "spin")
    samples = 31 * 905 + 4 * 400 + 15 * 80
    assert found["samples"] == samples
    assert first["function"] == "f0"
    assert first["share"] == pytest.approx(first["samples"] / samples)
    assert first["low"] < 900 / 905 / 3.995 < first["high"]
    # What one host of eight does is known of the fleet by that much.
    assert (spin["hosts"], spin["low"]) == (1, 0)
    assert spin["high"] > 4 * spin["share"]
    assert sum(one["cpus"] for one in found["rows"]) < found["busy_cpus"] < 8
    assert found["measured"]["measured_share"] == pytest.approx(31 / 32)


def test_top_begins_with_services_if_there_are_several(tmp_path, fleet, capfd):
    place = tmp_path / "fleet"
    pod = "pod shop/web-7d9c4f8b9-x2x5k-0123456789 nginx"
    for host in range(6):
        hits = [Hit(f"f{row}", 40, service=f"s{row}.service") for row in range(4)]
        hits += [Hit("main", 300 if host < 3 else 100, service=pod), Hit("other", 10, service="")]
        fill_host(place, f"h{host}", {0: hits})
    found = answer(capfd, "top", "--store", str(place))
    first, second, third = found["services"]
    assert (first["service"], first["hosts"], first["samples"]) == (pod, 6, 1200)
    assert first["share"] == pytest.approx(1200 / (6 * 170 + 1200))
    # Three of six hosts have thrice as much of it: other hosts may.
    assert first["high"] - first["low"] > 0.1
    assert (second["service"], third["service"]) == ("s0.service", "s1.service")
    assert second["high"] - second["low"] > 0
    assert found["every_service"] == 6
    lines = said(capfd, "top", "--store", str(place)).splitlines()
    assert lines[2].startswith("Service")
    assert lines[3].startswith("pod shop/web-7d9c4f8b9-x2x...123456789 nginx  54.1 %")
    assert lines[6:8] == ["... and 3 services more", ""]
    assert lines[8].split() == ["Function", "Share", "±", "CPUs", "Hosts", "Object"]
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 24
    with_rows = said(capfd, "top", "--store", str(place), "--format", "csv")
    assert with_rows.startswith("function,object,share")
    # One service is no table.
    assert answer(capfd, "top", "--store", fleet)["services"] == []


def test_words_choose_and_symbols_keep_their_share_of_all(fleet, capfd):
    every = answer(capfd, "top", "--store", fleet)["rows"]
    chosen = answer(capfd, "top", "symbol:f0,sp*", "--store", fleet)["rows"]
    assert [one["function"] for one in chosen] == ["f0", "spin"]
    assert chosen == [one for one in every if one["function"] in ("f0", "spin")]
    assert answer(capfd, "top", "host:h1,h2", "--store", fleet)["hosts"] == 2


@pytest.mark.parametrize("words", [("top",), ("top", "symbol:f1*")])
def test_hosts_that_take_turns_add_up_alike(fleet, capfd, monkeypatch, words):
    at_once = answer(capfd, *words, "--store", fleet)
    turns = []
    drop = Engine.drop
    monkeypatch.setattr(Engine, "most_rows", 300)
    monkeypatch.setattr(Engine, "drop", lambda engine, name: turns.append(drop(engine, name)))
    assert answer(capfd, *words, "--store", fleet) == at_once
    assert len(turns) > 4


def test_turns_say_how_far_they_are(fleet, monkeypatch):
    said = []
    monkeypatch.setattr(Engine, "most_rows", 300)
    monkeypatch.setattr(hits, "_LOOK_S", 1000.0)
    with HostsDirectory(fleet) as store:
        top(store, Specification(), engine_of("local"), Wanted(5, announce=said.append))
        first, *rest = said
        assert first == "reading the names of functions"
        assert rest == [f"adding up, {done} of 8 hosts done" for done in (0, 2, 4, 6)]
        said.clear()
        monkeypatch.setattr(hits, "_LOOK_S", -1.0)
        whole = top(store, Specification(), engine_of("local"), Wanted(5, announce=said.append))
    assert said[1] == "adding up, 0 of 8 hosts done"
    # The answer so far of three quarters of the hosts is about that of all.
    named = re.fullmatch(
        r"adding up, 6 of 8 hosts done, f0 (.+) %, f1 (.+) %, (?:f2|spin) (.+) %", said[-1]
    )
    assert float(named[1]) == pytest.approx(100 * whole.rows[0].share, rel=0.2)


@pytest.mark.nightly
def test_days_say_what_their_minutes_say_whatever_files_they_have(tmp_path, capfd):
    place = tmp_path / "fleet"
    for host in range(3):
        hits = [*usual(host, service="web"), *usual(9 + host, 7, service="db"), Hit("f0", 3, pid=0)]
        fill_host(place, f"h{host}", {0: hits, 7: usual(20 + host)}, lost=host)
    words = ("--store", str(place), "--rows", "100")

    def answers():
        found = [answer(capfd, "top", *more, *words) for more in ((), ("service:web",))]
        return [*found, answer(capfd, "coverage", *words)]

    by_minute = answers()
    assert by_minute[0]["services"]
    assert by_minute[2]["hosts"][0]["windows"] == 2
    for host in range(3):
        assert main(["store", "compact", "--store", str(place / f"host=h{host}")]) == 0
        capfd.readouterr()
        assert answers() == by_minute
    assert len(list(place.glob("**/*.named.parquet"))) == 3
    for path in place.glob("host=h[01]/**/*.named.parquet"):
        path.unlink()
    for path in place.glob("host=h1/**/*.sums.parquet"):
        path.unlink()
    assert answers() == by_minute


def test_of_whole_days_only_the_ends_of_files_that_are_read_are_looked_at(
    tmp_path, capfd, monkeypatch
):
    place = tmp_path / "fleet"
    for host in range(2):
        fill_host(place, f"h{host}", {0: usual(host)})
        assert main(["store", "compact", "--store", str(place / f"host=h{host}")]) == 0
    capfd.readouterr()
    by_hour = answer(capfd, "top", "--store", str(place))
    looked = []
    check = segment_reading.refuse_bombs

    def refuse(engine, paths, kind):
        looked.extend(kind for _ in paths)
        check(engine, paths, kind)

    monkeypatch.setattr(segment_reading, "refuse_bombs", refuse)
    assert answer(capfd, "top", "--store", str(place)) == by_hour
    assert Counter(looked) == {NAMED: 2, FUNCTIONS: 2}
    looked.clear()
    assert answer(capfd, "top", "comm:*", "--store", str(place)) == by_hour
    assert Counter(looked) == {SUMS: 2, FUNCTIONS: 2}
    looked.clear()
    assert main(["report", "--store", str(place), "--columns", "hour"]) == 0
    assert looked.count(TOTALS) == 2


@pytest.mark.parametrize("turns", [*nightly(1), 12])
def test_times_of_all_hosts_may_be_more_than_64_bits_hold(tmp_path, capfd, monkeypatch, turns):
    hosts, samples = 12, 16 * 10**9
    for host in range(hosts):
        fill_host(tmp_path / "fleet", f"h{host}", {0: usual(host, 150, samples)})
    path = str(tmp_path / "fleet")
    if turns > 1:
        monkeypatch.setattr(Engine, "most_rows", 300)
    found = answer(capfd, "top", "--store", path)
    assert found["samples"] == hosts * samples
    seconds = hosts * samples * TICK_NS * 1e-9
    assert seconds * 1e9 > 2**63
    assert found["busy_cpus"] == pytest.approx(seconds / 60, rel=1e-3)
    usual_share = 1 / sum(1 / rank for rank in range(1, 151))
    assert found["rows"][0]["share"] == pytest.approx(usual_share, rel=1e-3)
    assert answer(capfd, "outliers", "--store", path)["rows"] == []
    assert main(["store", "compact", "--store", path]) == 0
    capfd.readouterr()
    kept = answer(capfd, "top", "--store", path)
    assert "as sums of all hosts" in kept["remarks"][-1]
    assert (kept["samples"], kept["busy_cpus"]) == (
        found["samples"],
        pytest.approx(found["busy_cpus"]),
    )


def test_too_little_memory_is_no_damage(fleet, capfd, monkeypatch):
    def out_of_memory(*_):
        raise OutOfMemoryError("Out of Memory Error: 953 MiB used")

    read = []
    monkeypatch.setattr(Engine, "keep", out_of_memory)
    monkeypatch.setattr("prospect.store.segment_reading._read_all", lambda *_: read.append(1))
    assert main(["fleet", "top", "--store", fleet]) == 1
    assert "cannot be read: Out of Memory" in capfd.readouterr().err
    assert not read


# What a file of the evil host has instead: its rows, and the name of the file that they are in.
BOMBS = {
    "a name of 40 MB": ("SELECT * REPLACE (repeat('A', 40000000) AS name) FROM {}", FUNCTIONS),
    "4 MB for each": ("SELECT * REPLACE (repeat('A', 4000000) AS path) FROM {}", FUNCTIONS),
    "2 million rows": ("SELECT s.* FROM (FROM {} LIMIT 1) AS s, range(2000000)", SAMPLES),
}


def put(path, query):
    """Replace a Parquet file by the result of a query on it, with what it says of its segment."""
    said = duckdb.execute("SELECT key, value FROM parquet_kv_metadata(?)", [str(path)]).fetchall()
    keys = ", ".join(f"{key.decode()}: '{value.decode()}'" for key, value in said)
    options = f", KV_METADATA {{{keys}}}" if keys else ""
    query = query.format(f"'{path}'")
    duckdb.execute(f"COPY ({query}) TO '{path}.new' (FORMAT parquet, COMPRESSION zstd{options})")
    path.with_name(f"{path.name}.new").replace(path)
    path.chmod(0o600)


@pytest.mark.parametrize("bomb", ["a name of 40 MB", *nightly("4 MB for each"), "2 million rows"])
def test_a_bomb_of_one_host_leaves_the_others_their_answer(tmp_path, capfd, bomb):
    path = tmp_path / "fleet"
    for host in ("evil", "good"):
        fill_host(path, host, {0: usual(1)})
    query, kind = BOMBS[bomb]
    (file,) = (path / "host=evil").rglob(f"*.{kind}.parquet")
    put(file, query)
    assert file.stat().st_size < 200_000
    for words in (["fleet", "top"], ["report"]):
        assert main([*words, "--store", str(path), "--format", "json"]) == 0
        shown = capfd.readouterr().out
        assert "host=evil" in shown
        assert f"its {kind} unpack to" in shown
        assert '"f1"' in shown


def test_a_host_that_takes_all_memory_is_left_out_and_named(tmp_path, capfd, monkeypatch):
    path = tmp_path / "fleet"
    for host in ("evil", "good", "better"):
        fill_host(path, host, {0: usual(1)})
    (file,) = (path / "host=evil").rglob(f"*.{FUNCTIONS}.parquet")
    texts = ", ".join(f"repeat('A', 4000000) AS {name}" for name in ("name", "path", "note"))
    put(file, f"SELECT * REPLACE ({texts}) FROM {{}}")
    # As if the footer said less than there is.
    monkeypatch.setattr("prospect.store.segment_reading.refuse_bombs", lambda *_: None)
    monkeypatch.setitem(Engine.__init__.__kwdefaults__, "memory", "80MB")
    assert main(["report", "--store", str(path), "--format", "json"]) == 0
    shown = capfd.readouterr().out
    assert "host evil is left out: its files take all the memory there is" in shown
    assert '"f1"' in shown


def test_outliers_are_the_hosts_that_differ(fleet, capfd):
    found = answer(capfd, "outliers", "--store", fleet)
    assert [(one["host"], one["function"]) for one in found["rows"]] == [("h5", "spin")]
    assert found["tests"] == 8 * 33
    few = answer(capfd, "outliers", "host:h1,h2", "--store", fleet)
    assert few["rows"] == []
    assert "are too few to compare" in few["remarks"][-1]


def test_builds_that_differ_are_found_wherever_their_program_spends_it(tmp_path, capfd):
    path = str(canaries(tmp_path / "fleet"))
    found = answer(capfd, "outliers", "--by", "build", "--store", path)
    (row,) = (one for one in found["rows"] if one["function"] == "deflate")
    assert (row["process"], row["object"]) == ("web", "/usr/bin/web")
    assert (row["build_id"], row["usual_build_id"]) == (NEW, OLD)
    assert (row["hosts"], row["usual_hosts"]) == (3, 8)
    assert row["samples"] == pytest.approx(3 * 2 * 1200, rel=0.02)
    assert row["share"] - row["half"] < 300 / 1200 < row["share"] + row["half"]
    assert row["usual"] == pytest.approx(30 / 930, rel=0.2)
    # What takes more of the time leaves less for the rest, of which the largest shows.
    assert {one["function"] for one in found["rows"]} <= {"deflate", "f0", "f1", "f2"}
    assert (found["differing_builds"], found["builds"], found["programs"]) == (1, 1, 1)
    assert any("several builds of it ran there in turn: 1 host" in one for one in found["remarks"])
    assert any("1 build on one host each" in one for one in found["remarks"])
    lines = said(capfd, "outliers", "--by", "build", "--store", path).splitlines()
    assert "bbbbbbbb is of /usr/bin/web; usual is aaaaaaaa, on 8 hosts" in lines
    assert max(map(len, lines[1:-2])) <= 80


def test_builds_after_one_another_are_compared_with_the_first(fleet, capfd):
    found = answer(capfd, "outliers", "--by", "build", "--store", fleet)
    assert [(one["build_id"], one["function"]) for one in found["rows"]] == [(NEW, "new")]
    few = answer(capfd, "outliers", "--by", "build", "host:h1", "--store", fleet)
    assert (few["rows"], few["tests"]) == ([], 0)


def test_deploys_are_listed_and_compared(fleet, capfd):
    builds = answer(capfd, "deploys", "--store", fleet)["builds"]
    assert [(one["build_id"], one["hosts"]) for one in builds] == [(OLD, 8), (NEW, 8)]
    found = answer(capfd, "deploys", "bbb", "--store", fleet)
    assert (found["build"]["build_id"], found["processes"], found["hosts"]) == (NEW, ["web"], 8)
    first = found["changes"][0]
    assert (first["function"], first["before"]) == ("new", 0)
    assert first["q"] < 0.001
    assert first["after"] - first["half"] < 1200 / (15 * 985 + 800) < first["after"] + first["half"]
    assert main(["fleet", "deploys", "dd", "--store", fleet]) == 1
    assert "no build dd" in capfd.readouterr().err


def test_coverage_says_what_is_missing(fleet, capfd):
    found = answer(capfd, "coverage", "--store", fleet)
    assert (found["hosts"][0]["host"], found["hosts"][0]["measured_s"]) == ("h6", 180)
    assert found["nameless_samples"] == 31 * 5
    (nameless,) = found["nameless"]
    assert (nameless["build_id"], nameless["hosts"], nameless["why"]) == ("cc" * 20, 8, "stripped")


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/usr/lib/x86_64-linux-gnu/libc.so.6", "...x86_64-linux-gnu/libc.so.6"),
        ("/v/lib/_duckdb.cpython-311-x86_64-linux-gnu.so", "_duckdb.cpython-3...ux-gnu.so"),
        ("a-host-with-a-rather-long-name", "...st-with-a-rather-long-name"),
    ],
)
def test_a_long_path_keeps_the_name_of_its_file(path, shown):
    assert path_end(path, 29) == shown


@pytest.mark.parametrize(
    "question", [("top",), *nightly(("outliers",), ("deploys",), ("deploys", "b"))]
)
def test_text_fits_a_terminal_and_csv_has_the_rows(fleet, capfd, question):
    lines = said(capfd, *question, "--store", fleet).splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines[1:])) <= 80
    rows = list(
        csv.reader(io.StringIO(said(capfd, *question, "--store", fleet, "--format", "csv")))
    )
    assert len({len(row) for row in rows}) == 1
    assert len(said(capfd, "coverage", "--store", fleet).splitlines()) <= 24


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["top", "--by", "build"], "works with prospect fleet outliers, not with top"),
        ([], "give a question: top, outliers, deploys, coverage"),
        (["tpo"], "did you mean top?"),
        (["top", "nonsense"], "unexpected 'nonsense'"),
        (["outliers", "--by", "kernel"], "host or build"),
        (["top", "--engine", "duck"], "spark://HOST:PORT"),
        (["top", "--engine", "spark://nowhere"], "spark://HOST:PORT"),
    ],
)
def test_what_is_wrong_is_said(fleet, capfd, words, says):
    assert main(["fleet", *words, "--store", fleet]) == 2
    assert says in capfd.readouterr().err


def test_lost_ticks_are_no_idle_time(tmp_path, capfd):
    """A daemon that was stopped for two thirds of a window saw a third of what its CPU did."""
    fill_host(tmp_path / "whole", "h", {0: usual(1)})
    fill_host(tmp_path / "stopped", "h", {0: usual(1, samples=300)}, lost=760)
    busy = [
        answer(capfd, "top", "--store", str(tmp_path / name))["busy_cpus"]
        for name in ("whole", "stopped")
    ]
    assert busy == [pytest.approx(900 / 1140)] * 2
