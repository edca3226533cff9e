"""The books of a window balance, and what is missing between windows is said."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from builders.stored import fill, window_at
from builders.ticks import (
    ASLEEP,
    FULL,
    HELD,
    IDLE,
    PHASE_NS,
    START_NS,
    THROTTLED,
    USER,
    Ticking,
)
from prospect.columns.buffers import gather
from prospect.estimate.finished_report import Report
from prospect.estimate.summary import summary
from prospect.profile.complete import complete
from prospect.profile.model import LossTable
from prospect.records import replace
from prospect.store.directory import StoreDirectory
from prospect.store.part import read_part
from prospect.store.segments import COVERAGE
from prospect.store.specification import parse_specifications
from prospect.store.windows import coverage_columns, lost_samples


@pytest.fixture
def ticking():
    made = Ticking(np.random.default_rng(5))
    for cpu in (0, 1):
        fates = [(USER, 400), (HELD, 30), (USER, 100), (FULL, 20), (USER, 50)]
        fates += [(THROTTLED, 40), (IDLE, 100), (ASLEEP, 200), (IDLE, 100)]
        made.clock(fates, cpu=cpu)
    return made.profile()


def test_expected_ticks_are_all_accounted_for(ticking):
    accounting = coverage_columns(complete(ticking), 10, 20)
    assert accounting["cpu"].tolist() == [0, 1, -1]
    rest = sum(accounting[name] for name in ("recorded", "lost", "throttled", "idle", "missing"))
    assert abs(accounting["expected"] - rest).max() <= 0.01 * accounting["expected"].max()
    assert accounting["recorded"].sum() == len(ticking.samples)
    assert accounting["expected"][:2].min() > 1000
    assert accounting["lost"][0] > 0
    assert accounting["throttled"][0] > 0
    assert set(accounting["t"].tolist()) == {10}
    assert set(accounting["until"].tolist()) == {20}


def test_what_was_lost_of_no_clock_is_lost_too(ticking):
    of_clocks = int(ticking.clocks.lost.sum())
    cpu, none = np.zeros(1, np.int32), np.zeros(1, np.int64)
    losses = LossTable(cpu, np.array([of_clocks + 7]), none)
    accounting = coverage_columns(complete(replace(ticking, losses=losses)), 10, 20)
    assert accounting["lost"].tolist() == [*accounting["lost"][:2].tolist(), 7]
    assert accounting["lost"].sum() == of_clocks + 7


def test_losses_and_holes_are_said(tmp_path, ticking):
    pytest.importorskip("duckdb")
    fill(tmp_path / "s", [window_at(0, ticking), window_at(1, ticking), window_at(5, ticking)])
    with StoreDirectory(str(tmp_path / "s")) as store:
        found = read_part(store, parse_specifications([]))
    holes = [limit for limit in found.run.limits if limit.startswith("Nothing was measured")]
    assert len(holes) == 1
    assert any("expected samples were lost" in limit for limit in found.run.limits)
    assert found.losses.cpu.tolist() == [0, 1]
    assert found.run.wall_seconds == 180


def windows_of(whole, edges):
    """Cut a profile at times of its clocks into the windows that a daemon would have taken."""
    samples, clocks, stops = whole.samples, whole.clocks, whole.clock_stops
    for begin, end in itertools.pairwise(np.array(edges, np.uint64)):
        chosen = np.flatnonzero((samples.time_ns >= begin) & (samples.time_ns < end))
        run = replace(whole.run, begin_ns=int(begin), end_ns=int(end))
        begins = np.maximum(clocks.begin_ns, begin)
        cut = replace(clocks, begin_ns=begins, end_ns=np.minimum(clocks.end_ns, end))
        own = np.flatnonzero((stops.end_ns > begin) & (stops.begin_ns < end))
        yield replace(
            whole,
            run=run,
            samples=gather(samples, chosen),
            clocks=cut,
            clock_stops=gather(stops, own),
        )


@pytest.mark.parametrize("idle", [ASLEEP, IDLE])
def test_books_of_windows_add_up_to_those_of_all_their_time(idle):
    made = Ticking(np.random.default_rng(7))
    ends = []
    for cpu in (0, 1):
        for clock, period_ns in enumerate((200_000_000, 212_000_000, 223_000_000, 191_000_000)):
            ticks = 60_000_000_000 // period_ns
            fates = [(USER, ticks // 3), (idle, ticks // 3), (USER, ticks // 3)]
            ends.append(made.clock(fates, cpu=cpu, clock=clock, period_ns=period_ns))
    whole = made.profile()
    # As many windows as make a tick a clock and window one in seventeen.
    edges = np.linspace(START_NS, min(ends), 18)
    due = sum((edges[-1] - START_NS - PHASE_NS) // one[3] for one in made.clocks)
    names = ("recorded", "lost", "throttled", "idle", "missing")
    expected = found = recorded = 0
    for window in windows_of(whole, edges):
        accounting = coverage_columns(complete(window), 10, 20)
        rest = sum(accounting[name].sum() for name in names)
        assert abs(int(accounting["expected"].sum()) - rest) <= len(made.clocks)
        expected += int(accounting["expected"].sum())
        recorded += int(accounting["recorded"].sum())
        found += rest
    assert recorded == np.sum(whole.samples.time_ns < edges[-1])
    # The moment of switching on counts as a tick of the first window.
    assert expected == pytest.approx(due, abs=2 * len(made.clocks))
    assert found == pytest.approx(expected, abs=len(made.clocks))


def test_clocks_of_a_short_window_are_not_busier_than_all_the_time(tmp_path):
    # As a window that ends just behind a tick: its ticks stand for more than its time.
    made = Ticking(np.random.default_rng(5))
    made.clock([(USER, 400)], cpu=0)
    profile = complete(made.profile())
    window = window_at(0, profile)
    accounting = dict(window.tables[COVERAGE])
    short_us = int(profile.hits.period.sum()) // 1000 - 40_000
    accounting["until"] = accounting["t"] + short_us
    fill(tmp_path / "s", [replace(window, tables={**window.tables, COVERAGE: accounting})])
    with StoreDirectory(str(tmp_path / "s")) as store:
        whole = read_part(store, parse_specifications([]))
    assert whole.hits.period.sum() > 1000 * short_us
    assert whole.run.due_ticks == max(int(accounting["expected"].sum()), len(profile.samples))
    short = summary(Report(complete(whole), "4").events[0])
    assert short.busy_s > whole.run.wall_seconds
    assert short.busy_share == len(profile.samples) / whole.run.due_ticks <= 1


def test_records_of_no_clock_are_no_lost_samples(ticking):
    of_clocks = int(ticking.clocks.lost.sum())
    losses = LossTable(np.zeros(1, np.int32), np.array([of_clocks + 7]), np.zeros(1, np.int64))
    accounting = coverage_columns(complete(replace(ticking, losses=losses)), 10, 20)
    assert lost_samples(accounting) == int(accounting["lost"].sum()) - 7
    of_none = {name: column[-1:] for name, column in accounting.items()}
    assert lost_samples(of_none) == 7
