"""The daemon on the running kernel sends what it wrote, and stays small."""

from __future__ import annotations

import pytest

from builders.command_line import run
from builders.daemon import RunningDaemon, status, until
from builders.s3_server import BUCKET
from builders.stored import by_routine, fill, window_at
from prospect.api.store import read_store

pytest.importorskip("duckdb")
pytest.importorskip("obstore")
pytestmark = [pytest.mark.live, pytest.mark.parallel]

URL = f"s3://{BUCKET}/fleet"


def test_what_it_sampled_is_in_the_bucket_once_it_has_ended(s3_server, tmp_path):
    fill(tmp_path / "s", [window_at(minute) for minute in range(3)])
    with RunningDaemon(tmp_path / "s", "--ship", URL, "--keep", "900w,2G") as daemon:
        first = until(lambda: status(daemon), lambda said: said["ship_sent_bytes"])
        assert first["ship_waiting_bytes"] == 0
        assert daemon.control("dump").returncode == 0
        said = status(daemon)
        assert said["ship_complaint"] == ""
        assert said["memory_bytes"] < 150e6
        assert said["child_memory_bytes"] < 250e6
        assert "unsent     0.0 MB" in daemon.control("status").stdout
        assert daemon.end() == 0
    here, there = (read_store(str(each)) for each in (tmp_path / "s", URL))
    assert by_routine(here) == by_routine(there)
    assert here.hits.count.sum() > 3 * 30
    assert "waits" not in daemon.said()


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
