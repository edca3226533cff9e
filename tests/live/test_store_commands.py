"""Commands on the store of a daemon that ran a few seconds on this kernel."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
import time
from urllib.parse import urlsplit

import pytest

from builders.command_line import run_here, running
from builders.daemon import HALF_BUSY
from builders.opreport_schema import by_symbol, read

pytest.importorskip("duckdb")
pytestmark = [pytest.mark.live, pytest.mark.parallel]


def prospect(*words):
    return [sys.executable, "-m", "prospect", *map(str, words)]


def answer(*words):
    ran = run_here(*words)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture(name="store", scope="module")
def _store(tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "s"
    words = prospect("daemon", "--store", path, "--window", "1", "-H", "199")
    with (
        subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as daemon,
        running([sys.executable, "-c", HALF_BUSY]),
    ):
        assert "sampling into" in daemon.stderr.readline()
        for _ in range(4):
            time.sleep(0.6)
            subprocess.run(prospect("control", "dump", "--store", path), check=True, timeout=300)
        daemon.send_signal(signal.SIGTERM)
        daemon.communicate(timeout=60)
    return path


def test_every_command_counts_the_same_hits(store):
    report = json.loads(answer("report", "--store", store, "-V4", "--format", "json"))
    hits = report["summary"]["samples"]
    listed = json.loads(answer("store", "list", "--store", store, "--format", "json"))
    query = "SELECT sum(n) AS n FROM hits"
    (row,) = json.loads(answer("sql", query, "--store", store, "--format", "json"))
    xml = read(answer("report", "--store", store, "-V4", "--format", "xml"))
    health = json.loads(answer("store", "check", "--store", store, "--format", "json"))
    assert row["n"] == health["samples"] == sum(day["samples"] for day in listed["days"])
    assert sum(by_symbol(xml).values()) == row["n"]
    assert 100 < hits <= row["n"]
    assert health["damaged"] == []


def test_calls_and_comparisons_are_of_the_load(store):
    calls = json.loads(answer("calls", "--store", store, "-V4", "--format", "json"))
    assert calls["events"][0]["samples"] > 100
    query = "SELECT DISTINCT t FROM coverage ORDER BY t"
    windows = json.loads(answer("sql", query, "--store", store, "--format", "json"))
    assert len(windows) >= 4
    middle = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(windows[2]["t"] / 1e6))
    words = (f"until:{middle}", "--against", f"since:{middle}")
    found = answer("diff", "--store", store, *words).decode()
    assert "s per second of wall time" in found
    assert "python" in found


def test_instructions_are_those_of_files_that_are_there(store):
    query = (
        "SELECT symbol, object, sum(n)::BIGINT AS n FROM hits WHERE object LIKE '/%.so%'"
        " AND symbol <> '' GROUP BY ALL ORDER BY n DESC LIMIT 1"
    )
    (row,) = json.loads(answer("sql", query, "--store", store, "--format", "json"))
    words = ("-V4", "-m0", "-k0", "--format", "json")
    found = json.loads(answer("annotate", "--store", store, row["symbol"], *words))
    hits = [one["samples"] for event in found["events"] for one in event["functions"]]
    assert row["n"] in hits


def test_a_browser_gets_the_time_axis_and_the_page_of_a_span(store):
    words = prospect("view", "--store", store)
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as served:
        address = urlsplit(served.stderr.readline().split()[3])

        def got(path):
            connection = http.client.HTTPConnection(address.hostname, address.port, timeout=120)
            connection.request("GET", path)
            found = connection.getresponse()
            body = found.read()
            connection.close()
            assert found.status == 200, path
            return body

        axis = got(address.path).decode()
        begins = [int(one.split('"')[0]) for one in axis.split("?begin=")[1:]]
        assert len(begins) >= 3
        part = f"{address.path}part/{begins[0]}_{begins[-1] + 60}/"
        assert got(part).startswith(b"<!DOCTYPE html>")
        assert json.loads(got(f"{part}data/report"))["events"][0]["processes"]
        served.send_signal(signal.SIGTERM)
        assert served.wait(60) == 0


def test_the_same_words_choose_a_part_of_a_recording(tmp_path):
    file = tmp_path / "recorded"
    line = prospect(
        "record", "-o", file, "-H", "997", sys.executable, "-c", "sum(range(4 * 10**7))"
    )
    subprocess.run(line, capture_output=True, check=True, timeout=300)
    words = ("report", file, "-V4", "--format", "json")
    whole = json.loads(answer(*words))["summary"]["samples"]
    every = json.loads(answer(*words, "cpu:0-4095"))["summary"]["samples"]
    none = subprocess.run(prospect("report", file, "comm:nobody"), capture_output=True, check=False)
    assert every == whole > 100
    assert none.returncode != 0
    assert b"comm: there is " in none.stderr
