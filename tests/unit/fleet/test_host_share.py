"""A share of hosts stands for all of them, and error bars know that others were not asked."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from builders.command_line import run
from builders.stacks import stacks_profile
from builders.stored import BEGIN_S, fill, samples_file, window_at
from prospect.api.store_part import read_store
from prospect.cli.main import main
from prospect.errors import StoreError
from prospect.estimate.errors.design import Design
from prospect.estimate.errors.error_bars import error_bars, host_error
from prospect.fleet.sending import Shipment, is_chosen, waiting
from prospect.fleet.shipping import ship
from prospect.store.directory import StoreDirectory
from prospect.store.file_schema import read_head, written_head

pytest.importorskip("duckdb")

SHARE = 0.4
NOW_S = BEGIN_S + 86400
HOSTS = ("web-1", "web-2", "web-3")
HOURS = (0, 60, 120)


@pytest.fixture(name="target", scope="module")
def _target(tmp_path_factory):
    """Return a directory to which three hosts sent some of three hours, and how many."""
    path = tmp_path_factory.mktemp("share")
    target = path / "t"
    target.mkdir(mode=0o700)
    sent = 0
    for host in HOSTS:
        segments = fill(path / host, [window_at(minute) for minute in HOURS])
        sent += sum(is_chosen(one, host, SHARE) for one in segments)
        with StoreDirectory(str(path / host)) as store:
            assert ship(store, Shipment(str(target), SHARE, host=host), NOW_S).complaint == ""
    return target, sent


def test_times_are_those_of_all_hosts_and_say_so(target):
    path, sent = target
    assert 0 < sent < len(HOSTS) * len(HOURS)
    found, one = read_store(str(path)), stacks_profile()
    assert found.hits.count.sum() == sent * one.hits.count.sum()
    assert found.hits.period.sum() == pytest.approx(sent * one.hits.period.sum() / SHARE, rel=1e-6)
    # A window is a minute of one CPU.
    assert found.run.wall_seconds * found.run.cpus == pytest.approx(60 * sent / SHARE)
    assert any("40 % of the hosts" in limit for limit in found.run.limits)
    assert found.run.host_share == SHARE
    assert len(set(found.hits.host_hour.tolist())) == sent


def total_of(path, capfd):
    """Return the time of all processes of a report, its error, and the report."""
    assert main(["report", "--store", str(path)]) == 0
    text = " ".join(capfd.readouterr().out.split())
    found = re.search(r"Every process: ([0-9.]+) ± ([0-9.]+) CPU s", text)
    return (*map(float, found.groups()), text)


def test_a_report_has_wider_bars_than_of_samples_alone(target, capfd):
    path, sent = target
    seconds, error, text = total_of(path, capfd)
    assert "± includes the choice of hosts" in text
    of_one, _, text = total_of(path.parent / HOSTS[0], capfd)
    assert "chosen" not in text
    assert seconds == pytest.approx(sent / SHARE * of_one / len(HOURS), rel=0.1)
    # Of hours that are all alike, as many as were chosen: a share of 0.6 of each is chance.
    assert error > 1.9 * seconds * (0.6 / sent) ** 0.5


def test_stacks_and_sql_weigh_likewise(target, capfd):
    path, sent = target
    stacked = read_store(str(path), stacks=True)
    assert stacked.hits.period.sum() == read_store(str(path)).hits.period.sum()
    query = "SELECT sum(n)::BIGINT AS n, sum(w)::BIGINT AS w FROM hits"
    assert main(["sql", query, "--store", str(path), "--format", "json"]) == 0
    (row,) = json.loads(capfd.readouterr().out)
    assert row["n"] == sent * stacks_profile().hits.count.sum()
    assert row["w"] == stacked.hits.period.sum()


def test_the_fleet_is_as_busy_as_its_hosts(target, capfd):
    path, _ = target
    busy = []
    for store in (path, path.parent / HOSTS[0]):
        assert main(["fleet", "top", "--store", str(store), "--format", "json"]) == 0
        found = json.loads(capfd.readouterr().out)
        busy.append(found["busy_cpus"] / found["cpus"])
        assert any("of the hosts" in one for one in found["remarks"]) == (store == path)
    assert busy[0] == pytest.approx(busy[1], rel=0.01)


def test_what_is_damaged_here_holds_nothing_up(tmp_path):
    segments = fill(tmp_path / "s", [window_at(minute) for minute in range(3)])
    file = samples_file(tmp_path / "s", segments[1])
    file.write_bytes(file.read_bytes()[:-40])
    (tmp_path / "t").mkdir(mode=0o700)
    with StoreDirectory(str(tmp_path / "s")) as store:
        shipment = Shipment(str(tmp_path / "t"), 0.999999)
        assert ship(store, shipment, NOW_S).complaint == ""
        assert waiting(store, shipment, NOW_S).segments == []
    found = read_store(str(tmp_path / "t"))
    assert found.hits.count.sum() == 2 * stacks_profile().hits.count.sum()


def design_of(seconds, host_hour, share):
    hits = np.ones(len(seconds), np.int64)
    event = stacks_profile().run.events[0]
    return Design(
        event=event,
        clocks=1,
        has_time=True,
        hits=hits,
        seconds=np.asarray(seconds, np.float64),
        of_hits=len(seconds),
        of_seconds=float(np.sum(seconds)),
        known_share=1.0,
        sequence=None,
        ticks=None,
        blocks=None,
        squares=np.asarray(seconds, np.float64) ** 2,
        host_hour=np.asarray(host_hour, np.int32),
        host_share=share,
    )


def test_bars_hold_the_truth_of_all_hosts():
    random = np.random.default_rng(1)
    share, hours = 0.1, 600
    # Of two rows, one is everywhere and the other on few hosts.
    truth = np.stack((random.gamma(4.0, 25.0, hours), random.gamma(0.3, 30.0, hours)))
    held = np.zeros(2)
    held_difference = 0
    trials = 300
    for _ in range(trials):
        chosen = np.flatnonzero(random.random(hours) < share)
        seconds = truth[:, chosen].ravel() / share
        row_of_hit = np.repeat([0, 1], len(chosen)).astype(np.int32)
        design = design_of(seconds, np.tile(chosen, 2), share)
        half, between = host_error(design, row_of_hit, np.array([1, -1]), 1.96)
        sums = np.bincount(row_of_hit, seconds, 2)
        held += np.abs(sums - truth.sum(axis=1)) <= half
        apart = truth[0].sum() - truth[1].sum()
        held_difference += abs(sums[0] - sums[1] - apart) <= between[0]
    assert 0.90 * trials <= held[0] <= 0.99 * trials
    assert 0.88 * trials <= held[1] <= 0.99 * trials
    assert 0.90 * trials <= held_difference <= 0.99 * trials


def test_hosts_that_stand_for_themselves_add_nothing():
    seconds, rows = [1.0, 2.0, 3.0], np.array([0, 0, 1], np.int32)
    other = np.array([1, -1])
    half, between = host_error(design_of(seconds, [-1, -1, -1], 0.5), rows, other, 1.96)
    assert half.tolist() == between.tolist() == [0.0, 0.0]
    alone = error_bars(design_of(seconds, [-1, -1, -1], 0.5), rows, 2, other)
    chosen = error_bars(design_of(seconds, [0, 1, 1], 0.5), rows, 2, other)
    assert (chosen.half_width_s > alone.half_width_s).all()
    assert chosen.difference_half_width_s[0] > alone.difference_half_width_s[0]
    whole = error_bars(design_of(seconds, [0, 1, 1], 1.0), rows, 2, other)
    assert whole.half_width_s.tolist() == alone.half_width_s.tolist()


def test_a_share_that_is_none_is_refused(tmp_path, capfd):
    head = window_at(0).head
    for share in ("0", "1.5", "nan", '"x"'):
        written = written_head(head)
        assert read_head(written.encode()).host_share == 1.0
        assert main(["daemon", "--ship", f"file://{tmp_path}", "--host-share", share]) == 2
        assert "give a share over 0" in capfd.readouterr().err
    with pytest.raises(StoreError, match="damaged"):
        read_head(written_head(head.__class__(**{**vars(head), "host_share": 2.0})).encode())
    # A daemon gives up rights, which this process needs for other tests.
    refused = run("daemon", "--store", str(tmp_path / "s"), "--host-share", "0.5")
    assert (refused.returncode, "needs --ship" in refused.stderr) == (2, True)
