"""The daemon sends by a child, says what waits, and loses nothing without saying so."""

from __future__ import annotations

import os
import select
import time
from pathlib import Path

import pytest

from builders.s3_server import BUCKET
from builders.stacks import stacks_profile
from builders.stored import by_function, fill, window_at
from prospect.api.store_part import read_store
from prospect.cli.control import status_text
from prospect.daemon.ceiling import Ceiling
from prospect.daemon.daemon_options import DaemonOptions
from prospect.daemon.metrics import metrics_text
from prospect.daemon.senders import Shipping
from prospect.daemon.status import Totals, figures_of
from prospect.daemon.window_writing import StoreWriting
from prospect.fleet.shipping import accounting_aside
from prospect.store.directory import StoreDirectory
from prospect.store.retention import FULL_DISK, Keep, drop

pytest.importorskip("duckdb")
pytest.importorskip("obstore")

URL = f"s3://{BUCKET}"
OPTIONS = DaemonOptions(ship=URL)


@pytest.fixture(name="store")
def _store(tmp_path):
    fill(tmp_path / "s", [window_at(minute) for minute in range(4)])
    with StoreDirectory(str(tmp_path / "s")) as store:
        yield store


def begun(store, options=OPTIONS):
    said = []
    found = Shipping(store, options, said.append)
    return found, said


def go_on(found):
    found.go_on()
    while found.answer_fd >= 0:
        select.select([found.answer_fd], [], [], 60)
        found.finish()


def status_of(store, found):
    totals = Totals()
    writing = StoreWriting(store, Keep(), lambda _: None)
    figures = figures_of(store, writing, totals, Ceiling(OPTIONS, 2), None) | found.figures()
    return {**figures, "segments": 4, "store_bytes": 0}


def test_what_waited_is_sent_at_once_and_then_hour_by_hour(s3_server, store):
    found, said = begun(store)
    assert found.due_s() <= 0
    go_on(found)
    assert said == []
    assert by_function(read_store(URL)) == by_function(stacks_profile(), times=4)
    assert 0 < found.due_s() < 3600 + 300
    status = status_of(store, found)
    assert status["ship_waiting_s"] == status["ship_waiting_bytes"] == 0
    assert status["ship_sent_bytes"] == sum(map(len, s3_server.objects.values()))
    assert "prospect_ship_waiting_seconds" in metrics_text(status)
    assert "ship_" not in metrics_text(status | {"ship": ""})


def test_a_target_that_is_away_is_said_once_and_asked_again(s3_server, store, monkeypatch):
    s3_server.fault = "full"
    found, said = begun(store)
    waits = []
    for _ in range(3):
        go_on(found)
        waits.append(found.due_s())
        monkeypatch.setattr(found, "_due_s", 0.0)
    assert said == [f"finished files wait: {URL}: it is full"]
    assert [round(wait, -1) for wait in waits] == [60, 120, 240]
    status = status_of(store, found)
    assert status["ship_waiting_bytes"] > 0
    text = status_text(status)
    assert f"sends to   {URL}" in text
    assert "h old" in text
    assert "it is full" in text
    s3_server.fault = ""
    go_on(found)
    assert said[1:] == ["finished files are sent again"]
    assert read_store(URL).hits.count.sum() > 0


def test_a_child_that_takes_too_long_is_ended(s3_server, store, monkeypatch):
    s3_server.fault, s3_server.slow_s = "slow", 5.0
    found, said = begun(store)
    found.go_on()
    assert found.answer_fd >= 0
    monkeypatch.setattr(found, "_killed_s", time.monotonic())
    go_on(found)
    assert "it took too long" in said[0]


def test_at_the_end_the_hour_that_is_not_over_is_sent_too(s3_server, store):
    found, _ = begun(store)
    found.end(time.monotonic() + 60)
    assert len({key.rpartition("/")[0] for key in s3_server.objects}) == 1
    s3_server.reset()
    s3_server.fault, s3_server.slow_s = "slow", 5.0
    fill(store.path, [window_at(5)])
    found.end(time.monotonic() + 0.2)
    assert "it took too long" in found.complaint


def test_what_goes_unsent_is_counted_as_lost_in_the_target(s3_server, store):
    found, _ = begun(store)
    gone = sorted(store.segments(), key=lambda one: one.first)[:2]
    drop(store, [(one, FULL_DISK) for one in gone], found.set_aside)
    assert [one.first for one in accounting_aside(store)] == [0, 1]
    left, new = (Path(store.path, "unsent", f"{name}.made.0123.part") for name in ("old", "new"))
    left.write_bytes(b"")
    new.write_bytes(b"")
    os.utime(left, (1, 1))
    go_on(found)
    assert not left.exists()
    assert new.exists()
    assert found.lost_windows == 2
    assert accounting_aside(store) == []
    here, there = read_store(store.path), read_store(URL)
    assert by_function(there) == by_function(here)
    # 240 s were measured, and half of the ticks did not get here.
    assert there.run.wall_seconds == 240
    assert here.run.wall_seconds == 120
    assert any("expected samples were lost" in limit for limit in there.run.limits)
    assert "2 windows removed" in status_text(status_of(store, found))
    # What was sent goes without a word, and so does what nobody wants to be sent.
    drop(store, [(one, FULL_DISK) for one in store.segments()[:1]], found.set_aside)
    assert accounting_aside(store) == []
    other, _ = begun(store, DaemonOptions())
    drop(store, [(one, FULL_DISK) for one in store.segments()], other.set_aside)
    assert accounting_aside(store) == []
    assert other.due_s() == float("inf")
