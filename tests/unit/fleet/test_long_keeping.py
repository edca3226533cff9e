"""Days kept as sums of all hosts answer as the hosts' stores did, and no window counts twice."""

from __future__ import annotations

import json
import os
import shutil

import numpy as np
import pytest

from builders.examples import nightly
from builders.fleet import CYCLES, fill_host, fleet_store, usual
from prospect.cli.main import main
from prospect.errors import StoreError
from prospect.fleet import keeping
from prospect.fleet.host_counts import SKETCH, STANDARD_ERROR, bits_of_hosts, estimated
from prospect.fleet.keeping import keep_days
from prospect.fleet.opening import opened
from prospect.store.tables import local_engine

pytest.importorskip("duckdb")
# Of the windows that builders write, the day is over then.
DAY = 1440


def compacted(capfd, fleet, *words):
    assert main(["store", "compact", "--store", str(fleet), "--format", "json", *words]) == 0
    return json.loads(capfd.readouterr().out)


def top(capfd, fleet, *words):
    assert main(["fleet", "top", "--store", str(fleet), "--format", "json", *words]) == 0
    return json.loads(capfd.readouterr().out)


def figures(answer):
    """Return what an answer says, but how sums of periods and squares are rounded."""
    rows = [
        {name: pytest.approx(value) if isinstance(value, float) else value for name, value in each}
        for each in (sorted(row.items()) for row in answer["rows"])
    ]
    return rows, {name: answer[name] for name in ("functions", "hosts", "hosts_hit", "samples")}


@pytest.fixture(name="filled", scope="module")
def _filled(tmp_path_factory):
    return fleet_store(tmp_path_factory.mktemp("filled") / "fleet")


@pytest.fixture(name="fleet")
def _fleet(filled, tmp_path):
    shutil.copytree(filled, tmp_path / "fleet")
    return tmp_path / "fleet"


@pytest.fixture(name="all_kept", scope="module")
def _all_kept(filled, tmp_path_factory):
    path = tmp_path_factory.mktemp("kept") / "fleet"
    shutil.copytree(filled, path)
    with opened(str(path)) as store:
        assert keep_days(store, local_engine, 2e9).days == 1
    return path


@pytest.fixture(name="kept")
def _kept(all_kept, tmp_path):
    """Return a fleet whose day is kept as sums already."""
    shutil.copytree(all_kept, tmp_path / "kept")
    return tmp_path / "kept"


def kept_files(fleet):
    return sorted(path.name for path in fleet.glob("fleet/date=*/*.parquet"))


@pytest.mark.parametrize(
    "words", [("service:web*",), *nightly((), ("symbol:f1*",), ("lib-image:*x.so",))]
)
def test_a_day_of_all_hosts_says_what_the_hosts_said(fleet, capfd, words):
    before = top(capfd, fleet, *words)
    assert compacted(capfd, fleet) == {"days": 1, "left": 0}
    for is_gone in (False, True):
        if is_gone:
            for host in fleet.glob("host=*"):
                shutil.rmtree(host)
        after = top(capfd, fleet, *words)
        assert figures(after) == figures(before)
        assert after["busy_cpus"] == pytest.approx(before["busy_cpus"])
        assert after["measured"] == pytest.approx(before["measured"])
        assert after["remarks"][-1] == "1 day as sums of all hosts."


def test_what_is_compacted_twice_is_there_once(fleet, capfd):
    assert compacted(capfd, fleet)["days"] == 1
    files = kept_files(fleet)
    assert len(files) == 3
    assert compacted(capfd, fleet)["days"] == 0
    assert kept_files(fleet) == files


@pytest.mark.parametrize("after", [*nightly(1), 2, *nightly(3)])
def test_who_is_killed_meanwhile_leaves_nothing_that_counts_twice(fleet, capfd, monkeypatch, after):
    before = top(capfd, fleet)
    write, written = keeping.copy_to_file, []

    def until(*words):
        if len(written) == after:
            raise KeyboardInterrupt
        written.append(write(*words))

    monkeypatch.setattr(keeping, "copy_to_file", until)
    if after < 3:
        with opened(str(fleet)) as store, pytest.raises(KeyboardInterrupt):
            keep_days(store, local_engine, 2e9)
    else:
        compacted(capfd, fleet)
    assert figures(top(capfd, fleet)) == figures(before)
    monkeypatch.undo()
    compacted(capfd, fleet)
    assert len(kept_files(fleet)) == 3
    assert figures(top(capfd, fleet)) == figures(before)


def test_a_host_that_comes_late_belongs_to_the_day(kept, capfd):
    old = kept_files(kept)
    fill_host(kept, "late", {0: usual(77), 1: usual(78)})
    samples = top(capfd, kept)["samples"]
    assert samples == 31 * 905 + 4 * 400 + 15 * 80 + 1800
    copies = {path: path.read_bytes() for path in kept.glob("fleet/date=*/*.parquet")}
    assert compacted(capfd, kept)["days"] == 1
    assert set(kept_files(kept)).isdisjoint(old)
    after = top(capfd, kept)
    assert (after["samples"], after["hosts"]) == (samples, 9)
    # As after a crash before the old one was removed.
    for path, content in copies.items():
        path.write_bytes(content)
        path.chmod(0o600)
    assert figures(top(capfd, kept)) == figures(after)


def test_who_comes_when_the_others_are_gone_is_a_sum_beside_theirs(kept, capfd):
    shutil.rmtree(kept / "host=h0")
    fill_host(kept, "late", {0: usual(77), 1: usual(78)})
    before = top(capfd, kept)
    assert before["hosts"] == 9
    assert compacted(capfd, kept)["days"] == 1
    after = top(capfd, kept)
    assert len(kept_files(kept)) == 6
    assert figures(after) == figures(before)
    # No host is in both: the error bars are exact.
    assert after["remarks"][-1] == "2 days as sums of all hosts."


def test_two_days_have_the_error_bars_of_the_worst_case(tmp_path, capfd):
    fleet = tmp_path / "fleet"
    for host in range(4):
        # Each host does the same on both days: the worst case is the truth.
        windows = {minute: usual(host) for minute in (0, DAY)}
        fill_host(fleet, f"h{host}", windows)
    before = top(capfd, fleet)
    assert compacted(capfd, fleet)["days"] == 2
    after = top(capfd, fleet)
    assert figures(after) == figures(before)
    assert "worst case" in after["remarks"][-1]
    one = top(capfd, fleet, "service:web.service")
    assert figures(one) == figures(before)


def test_services_that_are_chosen_together_have_at_least_their_error_bars(tmp_path, capfd):
    fleet = tmp_path / "fleet"
    for host in range(4):
        hits = usual(host, service="web.service") + usual(9 - host, service="db.service")
        fill_host(fleet, f"h{host}", {0: hits})
    before = top(capfd, fleet, "service:web*,db*")
    compacted(capfd, fleet)
    after = top(capfd, fleet, "service:web*,db*")
    assert after["samples"] == before["samples"]
    for one, other in zip(before["rows"], after["rows"], strict=True):
        assert (one["function"], one["samples"], one["hosts"]) == (
            *(other["function"], other["samples"]),
            other["hosts"],
        )
        assert one["high"] - one["low"] <= (other["high"] - other["low"]) * (1 + 1e-9)


def test_what_a_day_cannot_say_is_asked_of_hosts_or_said_to_be_left_out(filled, kept, capfd):
    before = top(capfd, filled, "host:h1")
    assert top(capfd, kept, "host:h1") == before
    shutil.rmtree(kept / "host=h0")
    found = top(capfd, kept, "host:h1")
    assert any("left out" in one and "whole days" in one for one in found["remarks"])
    assert found["samples"] == before["samples"]


def test_where_only_days_are_left_that_is_said(kept, capfd):
    for host in kept.glob("host=*"):
        shutil.rmtree(host)
    for words in (["report"], ["fleet", "coverage"], ["fleet", "top", "host:h1"]):
        assert main([*words, "--store", str(kept)]) == 1
        assert "prospect fleet top reads them" in capfd.readouterr().err


def test_a_day_of_another_event_than_the_clock_says_what_the_hosts_said(tmp_path, capfd):
    fleet = tmp_path / "fleet"
    for host in range(4):
        fill_host(fleet, f"h{host}", {0: usual(host), 1: usual(host + 10)}, event=CYCLES)
    before = top(capfd, fleet)
    # 900 of 1,140 ticks a minute, on four CPUs.
    assert before["busy_cpus"] == pytest.approx(4 * 900 / 1140)
    assert compacted(capfd, fleet)["days"] == 1
    after = top(capfd, fleet)
    assert figures(after) == figures(before)
    assert after["busy_cpus"] == pytest.approx(before["busy_cpus"])
    assert after["remarks"] == ["1 day as sums of all hosts."]


@pytest.mark.parametrize("is_gone", [*nightly(False), True])
def test_days_of_different_events_do_not_add_up(tmp_path, capfd, is_gone):
    fleet = tmp_path / "fleet"
    for host in range(4):
        fill_host(fleet, f"h{host}", {0: usual(host), 1: usual(host + 10)})
        fill_host(fleet, f"g{host}", {DAY: usual(host, samples=500)}, event=CYCLES)
    assert compacted(capfd, fleet)["days"] == 2
    if is_gone:
        for host in fleet.glob("host=*"):
            shutil.rmtree(host)
    found = top(capfd, fleet)
    assert (found["samples"], found["hosts"]) == (4 * 500, 4)
    said = " ".join(found["remarks"])
    assert "1 of 2 days as sums of all hosts is left out: other events" in said
    assert ("Other time in the hosts' stores is left out" in said) != is_gone
    # The time of the first day asks for that alone.
    first = top(capfd, fleet, "since:2026-11-22T00:00+00:00", "until:2026-11-23T00:00+00:00")
    assert (first["samples"], first["remarks"]) == (8 * 900, ["1 day as sums of all hosts."])


def test_a_damaged_day_is_left_out_and_said(filled, kept, capfd):
    before = top(capfd, filled)
    (path,) = kept.glob("fleet/date=*/*.functions.parquet")
    path.write_bytes(path.read_bytes()[:100])
    after = top(capfd, kept)
    assert figures(after) == figures(before)
    assert any("is left out" in one for one in after["remarks"])


def test_hosts_that_take_turns_make_the_same_day(fleet, capfd, monkeypatch):
    before = top(capfd, fleet)
    monkeypatch.setattr("prospect.store.engine.Engine.most_rows", 300)
    compacted(capfd, fleet)
    assert figures(top(capfd, fleet)) == figures(before)


def test_only_one_makes_days_at_a_time(fleet):
    with opened(str(fleet)) as store:
        held = store.open_lock("fleet/lock")
        assert keeping.lock(held)
        with pytest.raises(StoreError, match="another process"):
            keep_days(store, local_engine, 2e9)
        os.close(held)
        assert keep_days(store, local_engine, 2e9).days == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["since:-1d"], "drop the specifications"),
        (["--engine", "duck"], "spark://HOST:PORT"),
        (["--store", "s3://bucket/prefix"], "not in a bucket"),
    ],
)
def test_what_cannot_be_compacted_is_said(fleet, capfd, words, says):
    assert main(["store", "compact", "--store", str(fleet), *words]) == 2
    assert says in capfd.readouterr().err


@pytest.mark.parametrize("hosts", [1, 10, 100, 3000, *nightly(100_000)])
def test_sketches_count_hosts_and_add_up(hosts):
    errors = []
    for seed in range(12):
        bits = bits_of_hosts([f"{seed}-{host}" for host in range(hosts)])
        sketch = np.zeros((2, len(SKETCH)), np.int64)
        np.bitwise_or.at(sketch, (np.arange(hosts) % 2, bits["word"]), bits["bits"])
        both = np.bitwise_or.reduce(sketch, axis=0, keepdims=True)
        errors.append(float(estimated(both)[0]) / hosts - 1)
    # Of the mean of twelve, four standard errors.
    assert abs(np.mean(errors)) < 4 * STANDARD_ERROR / 12**0.5
