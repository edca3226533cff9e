"""The daemon on the running kernel sends what it wrote, and stays small."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from builders.collector import Collector
from builders.command_line import run
from builders.daemon import RunningDaemon, children_of, status, until
from builders.s3_server import BUCKET
from builders.stored import by_function, fill, window_at
from prospect.api.store_part import read_store
from prospect.store.directory import StoreDirectory

pytest.importorskip("duckdb")
pytest.importorskip("obstore")
pytestmark = [pytest.mark.live, pytest.mark.parallel]

URL = f"s3://{BUCKET}/fleet"


def check_that_it_loads_nothing(daemon):
    """What sends does so in processes of its own."""
    maps = Path(f"/proc/{daemon.process.pid}/maps").read_text()
    assert not [name for name in ("obstore", "duckdb", "_ssl") if name in maps]


@pytest.mark.nightly
def test_what_it_sampled_is_in_the_bucket_once_whatever_ends_it(s3_server, tmp_path):
    fill(tmp_path / "s", [window_at(minute) for minute in range(3)])
    s3_server.fault, s3_server.faults_from = "slow", 6
    with RunningDaemon(tmp_path / "s", "--ship", URL, "--keep", "900w,2G") as daemon:
        until(lambda: s3_server.seen[6:], bool)
        children = children_of(daemon.process.pid)
        daemon.end(signal.SIGKILL)
    assert children
    alive = [Path(f"/proc/{pid}/exe") for pid in children]
    assert not until(lambda: [one for one in alive if one.exists()], lambda left: not left)
    assert 0 < len(s3_server.objects) < 6
    s3_server.fault = ""
    with RunningDaemon(tmp_path / "s", "--ship", URL, "--keep", "900w,2G") as daemon:
        first = until(lambda: status(daemon), lambda said: said["ship_sent_bytes"])
        assert first["ship_waiting_bytes"] == 0
        daemon.ask("dump")
        said = status(daemon)
        assert said["ship_complaint"] == ""
        check_that_it_loads_nothing(daemon)
        assert "unsent     0.0 MB" in daemon.control("status").stdout
        assert daemon.end() == 0
    here, there = (read_store(str(each)) for each in (tmp_path / "s", URL))
    assert by_function(here) == by_function(there)
    assert here.hits.count.sum() > 3 * 30
    assert "waits" not in daemon.said()


def test_a_collector_gets_each_window_and_each_command(tmp_path):
    with Collector() as collector:
        with RunningDaemon(tmp_path / "s", "--otlp", collector.url) as daemon:
            daemon.ask("dump")
            until(lambda: status(daemon), lambda said: said["push_windows"])
            check_that_it_loads_nothing(daemon)
            assert daemon.end() == 0
        windows = len(StoreDirectory(str(tmp_path / "s")).segments())
        assert len(collector.requests) == windows
        sent = sum(collector.samples)
        assert abs(sent - read_store(str(tmp_path / "s")).hits.count.sum()) <= 0.2 * sent
        done = run("--otlp", collector.url, "true")
        assert done.returncode == 0, done.stderr
        assert len(collector.requests) == windows + 1
        collector.answers = [500]
        failed = run("--otlp", collector.url, "true", env={"TMPDIR": str(tmp_path)})
    assert failed.returncode == 1
    assert failed.stdout.splitlines()[1:2]
    kept, why = failed.stderr.splitlines()
    assert "status 500" in why
    path = kept.partition("prospect report ")[2]
    assert run("report", path).returncode == 0


def test_a_target_that_is_none_is_refused_before_anything_is_sampled(tmp_path):
    for url, said in (
        ("s3://me:sesame@bucket/x", "is refused"),
        ("gs://bucket/x", "give a directory"),
    ):
        failed = run("daemon", "--store", str(tmp_path / "s"), "--ship", url)
        assert failed.returncode in (1, 2)
        assert said in failed.stderr
        assert "sesame" not in failed.stderr
    failed = run("daemon", "--store", "s3://bucket/x")
    assert failed.returncode == 2
    assert "--ship s3://bucket/x sends there" in failed.stderr
