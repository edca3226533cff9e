"""The stores of many hosts are read as one, and each window once."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import sys
import zlib
from contextlib import closing

import pytest

from builders.examples import nightly
from builders.fleet import Hit, fill_host
from builders.stacks import stacks_profile
from builders.stored import BEGIN_S, by_function, fill, lose_a_value, samples_file, window_at
from prospect.api.store_part import read_store
from prospect.cli.main import main
from prospect.errors import StoreError
from prospect.profile.complete import complete
from prospect.records import replace
from prospect.store import file_schema, writing
from prospect.store.directory import StoreDirectory
from prospect.store.engine import Engine, Placed
from prospect.store.file_schema import COLUMNS
from prospect.store.hosts import HostsDirectory, segments_of_names
from prospect.store.segments import COVERAGE, FUNCTIONS, HOUR, KINDS, SAMPLES, STACKS, Segment

pytest.importorskip("duckdb")


@pytest.fixture(name="filled", scope="module")
def _filled(tmp_path_factory):
    path = tmp_path_factory.mktemp("filled") / "f"
    path.mkdir(mode=0o700)
    fill(path / "host=a", [window_at(minute) for minute in range(4)])
    fill(path / "host=b%2F1", [window_at(minute) for minute in range(2)])
    return path


@pytest.fixture(name="hosts")
def _hosts(filled, tmp_path):
    shutil.copytree(filled, tmp_path / "f")
    return tmp_path / "f"


def text_of(capfd, *words):
    assert main(list(words)) == 0
    return capfd.readouterr().out


def rows_of(capfd, path, query):
    return json.loads(text_of(capfd, "sql", query, "--store", str(path), "--format", "json"))


def test_a_report_adds_up_the_hosts(hosts):
    whole = read_store(str(hosts))
    assert by_function(whole) == by_function(stacks_profile(), times=6)
    assert (whole.run.hostname, whole.run.cpus) == ("2 hosts", 2)
    # All time of CPUs is that of each host: 240 s of one CPU and 120 s of another.
    assert whole.run.wall_seconds * whole.run.cpus == 360
    assert "6 windows of 2 hosts, from" in whole.run.limits[0]
    assert read_store(f"file://{hosts}").run.wall_seconds == 180


def test_a_host_of_many_is_what_its_own_store_is(hosts):
    alone = read_store(str(hosts / "host=a"), stacks=True)
    chosen = read_store(str(hosts), ["host:a"], stacks=True)
    assert by_function(chosen) == by_function(alone)
    for name in ("wall_seconds", "cpus", "started_at", "hostname"):
        if name != "hostname":
            assert getattr(chosen.run, name) == getattr(alone.run, name)
    assert by_function(read_store(str(hosts), ["host:b/*"])) == by_function(stacks_profile(), 2)
    with pytest.raises(StoreError, match="host a, b/1"):
        read_store(str(hosts), ["host:c"])


def test_every_table_says_which_host(hosts, tmp_path, capfd):
    for table in ("hits", "samples", "coverage"):
        query = f"SELECT DISTINCT host FROM {table} ORDER BY host"
        assert rows_of(capfd, hosts, query) == [{"host": "a"}, {"host": "b/1"}]
    query = "SELECT host, sum(n)::BIGINT AS n FROM hits GROUP BY host ORDER BY host"
    assert rows_of(capfd, hosts, query) == [{"host": "a", "n": 120}, {"host": "b/1", "n": 60}]
    # A machine that was given another name meanwhile.
    renamed = replace(stacks_profile(), run=replace(stacks_profile().run, hostname="new"))
    fill(tmp_path / "s", [window_at(0), window_at(1, renamed)])
    names = sorted([stacks_profile().run.hostname, "new"])
    assert [row["host"] for row in rows_of(capfd, tmp_path / "s", query)] == names
    assert [row["n"] for row in rows_of(capfd, tmp_path / "s", query)] == [30, 30]


def test_two_hosts_are_compared_and_listed(hosts, capfd):
    words = ("host:a", "--against", "host:b/1")
    assert "s per second of wall time" in text_of(capfd, "diff", "--store", str(hosts), *words)
    listed = json.loads(text_of(capfd, "store", "list", "--store", str(hosts), "--format", "json"))
    assert [(day["host"], day["samples"]) for day in listed["days"]] == [("a", 120), ("b/1", 60)]
    assert "whole" in text_of(capfd, "store", "check", "--store", str(hosts))


def damage(file):
    """Change a column; what the end of the file says stays as it was."""
    content = bytearray(file.read_bytes())
    content[4:400] = bytes(396)
    file.write_bytes(content)


def test_what_is_damaged_within_a_file_is_left_out_and_said(tmp_path):
    segments = fill(tmp_path / "s", [window_at(0), window_at(1)])
    damage(samples_file(tmp_path / "s", segments[1]))
    found = read_store(str(tmp_path / "s"))
    assert by_function(found) == by_function(stacks_profile())
    assert any("left out" in one for one in found.run.limits)


def test_what_is_damaged_on_one_host_is_left_out_and_said(hosts):
    (segment,) = fill(hosts / "host=c", [window_at(0)])
    damage(samples_file(hosts / "host=c", segment))
    found = read_store(str(hosts))
    assert by_function(found) == by_function(stacks_profile(), times=6)
    assert any("host=c" in one and "left out" in one for one in found.run.limits)


@pytest.mark.parametrize("column", ["start", "service", "w"])
def test_what_one_host_has_no_value_of_is_left_out_and_said(hosts, column):
    (segment,) = fill(hosts / "host=c", [window_at(0)])
    lose_a_value(samples_file(hosts / "host=c", segment), column)
    found = read_store(str(hosts))
    assert by_function(found) == by_function(stacks_profile(), times=6)
    assert any("host=c" in one and "left out" in one for one in found.run.limits)


def test_books_of_one_host_without_a_value_are_left_out_and_said(hosts, capfd):
    (segment,) = fill(hosts / "host=c", [window_at(0)])
    lose_a_value(hosts / "host=c" / segment.path(COVERAGE), "until")
    words = ("fleet", "coverage", "--store", str(hosts), "--format", "json")
    said = json.loads(text_of(capfd, *words))
    assert sorted(one["host"] for one in said["hosts"]) == ["a", "b/1"]
    assert any("host=c" in one and "left out" in one for one in said["remarks"])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("window_us", "Infinity"),
        ("cpus", "1" + "0" * 400),
        ("arch", r'"\ud800"'),
        ("arch", "[" * 50_000),
    ],
)
def test_a_damaged_head_of_one_host_is_left_out_and_said(hosts, field, value, monkeypatch):
    def damaged(head):
        text = zlib.decompress(base64.b64decode(file_schema.written_head(head))).decode()
        text = re.sub(f'"{field}": [^,]+', lambda _: f'"{field}": {value}', text)
        return base64.b64encode(zlib.compress(text.encode())).decode()

    with monkeypatch.context() as other:
        other.setattr(writing, "written_head", damaged)
        fill(hosts / "host=c", [window_at(5)])
    found = read_store(str(hosts))
    assert by_function(found) == by_function(stacks_profile(), times=6)
    said = [one for one in found.run.limits if "left out" in one]
    assert len(said) == 1
    assert "host=c" in said[0]
    assert "its head is damaged" in said[0]


def test_a_kernel_that_another_boot_loaded_elsewhere_has_the_same_functions(tmp_path):
    profile = stacks_profile()
    address = profile.functions.address.copy()
    address[profile.functions.name.index("vfs_read")] += 6 << 20
    moved = replace(profile, functions=replace(profile.functions, address=address))
    fill(tmp_path / "s", [window_at(0), window_at(1, moved)])
    found = complete(read_store(str(tmp_path / "s"), stacks=True))
    assert found.functions.name.count("vfs_read") == 1
    assert by_function(found) == by_function(profile, times=2)


def test_a_host_that_began_a_new_store_has_both(hosts):
    for name in ("store=1", "store=2"):
        shutil.copytree(hosts / "host=a", hosts / "host=d" / name)
    (hosts / "host=d").chmod(0o700)
    assert by_function(read_store(str(hosts), ["host:d"])) == by_function(stacks_profile(), 8)


def test_names_that_say_what_files_hold_are_of_one_segment():
    one = Segment(HOUR, BEGIN_S, BEGIN_S + 3600, "current", 0, 59, "host=a/store=1")
    there = {COVERAGE: f"{1:032x}", FUNCTIONS: f"{2:032x}", SAMPLES: f"{4:032x}"}
    sent = one._replace(digests=tuple(there.get(kind, "") for kind in KINDS))
    names = [sent.path(kind) for kind in KINDS if sent.digests[KINDS.index(kind)]]
    assert names[0].endswith(f".coverage.{there[COVERAGE]}.parquet")
    assert segments_of_names(one.place, HOUR, names) == [sent]
    assert segments_of_names(one.place, HOUR, names[:2]) == []
    assert segments_of_names(one.place, HOUR, [one.path(SAMPLES)]) == [one]


@pytest.mark.parametrize(("name", "quoted"), [("x[1]", "x%5B1%5D"), ("x*", "x%2A"), ("x?", "x%3F")])
def test_a_host_whose_directory_is_a_pattern_is_refused_and_read_once_renamed(
    tmp_path, name, quoted
):
    fleet = tmp_path / "f"
    for count, host in ((3, name), (5, "x1"), (7, "x2")):
        fill_host(fleet, host, {0: [Hit("work", count)]})
    with pytest.raises(StoreError) as error:
        read_store(str(fleet))
    assert f"host={name} is a pattern: rename it host={quoted}" in str(error.value)
    (fleet / f"host={name}").rename(fleet / f"host={quoted}")
    assert sum(by_function(read_store(str(fleet))).values()) == 15


@pytest.mark.parametrize("name", ["x{1}", *nightly("x\\1"), "x'1", *nightly("x 1;", "x]")])
def test_other_signs_in_the_name_of_a_host_are_its_name(tmp_path, name):
    fleet = tmp_path / "f"
    for count, host in ((3, name), (5, "x1"), (7, "x2")):
        fill_host(fleet, host, {0: [Hit("work", count)]})
    sums = {
        host: sum(by_function(read_store(str(fleet), [f"host:{host}"])).values())
        for host in (name.replace("]", "[]]"), "x1", "x2")
    }
    assert list(sums.values()) == [3, 5, 7]


def test_what_is_no_store_of_hosts_is_refused(tmp_path):
    (tmp_path / "others").mkdir()
    with pytest.raises(StoreError, match="host=NAME"):
        HostsDirectory(str(tmp_path / "others"))
    with pytest.raises(StoreError, match="file:///"):
        read_store("ftp://somewhere/else")


def test_no_bar_of_progress_gets_into_the_output_of_notebooks(hosts):
    # DuckDB takes `python -c` for one, and draws a bar where a query takes two seconds.
    asks = (
        "from prospect.store.engine import Engine; from prospect.store.hosts import HostsDirectory;"
        f" print(Engine(HostsDirectory({str(hosts)!r})).rows("
        "\"SELECT current_setting('enable_progress_bar')\"))"
    )
    ran = subprocess.run([sys.executable, "-c", asks], capture_output=True, text=True, check=True)
    assert ran.stdout == "[(False,)]\n"


@pytest.mark.parametrize("numbers", [range(5, 45), [*range(20), *range(60, 80)], range(79, 0, -2)])
@pytest.mark.parametrize("has_hosts", [False, True])
def test_rows_know_the_segment_of_their_file(tmp_path, numbers, has_hosts):
    """Also of more files out of order than conditions are made for."""
    with (
        StoreDirectory(str(tmp_path / "store"), create=True) as store,
        closing(Engine(store)) as of,
    ):
        columns = ", ".join(f"{{0}}::{type_} AS {name}" for name, type_ in COLUMNS[STACKS].items())
        paths = [f"{at}.parquet" for at in range(40)]
        for at, path in enumerate(paths):
            of.run(f"COPY (SELECT {columns.format(at)}) TO '{store.root}{path}'")
        hosts = [f"h{number}" for number in numbers] if has_hosts else []
        of.table("placed", STACKS, Placed(paths, list(numbers), hosts))
        found = of.columns("SELECT * FROM placed ORDER BY stack")
    assert found["segment"].tolist() == list(numbers)
    assert found["host"].tolist() == hosts if has_hosts else "host" not in found
