"""The books of a window balance, and what is missing between windows is said."""

from __future__ import annotations

import numpy as np
import pytest

from builders.stored import fill, window_at
from builders.ticks import ASLEEP, FULL, HELD, IDLE, THROTTLED, USER, Ticking
from prospect.profile.complete import complete
from prospect.profile.model import LossTable
from prospect.records import replace
from prospect.store.coverage import coverage_columns
from prospect.store.directory import StoreDirectory
from prospect.store.part import read_part
from prospect.store.specification import parse_specifications


@pytest.fixture
def ticking():
    made = Ticking(np.random.default_rng(5))
    for cpu in (0, 1):
        fates = [(USER, 400), (HELD, 30), (USER, 100), (FULL, 20), (USER, 50)]
        fates += [(THROTTLED, 40), (IDLE, 100), (ASLEEP, 200), (IDLE, 100)]
        made.clock(fates, cpu=cpu)
    return made.profile()


def test_expected_ticks_are_all_accounted_for(ticking):
    books = coverage_columns(complete(ticking), 10, 20)
    assert books["cpu"].tolist() == [0, 1, -1]
    rest = sum(books[name] for name in ("recorded", "lost", "throttled", "idle", "missing"))
    assert abs(books["expected"] - rest).max() <= 0.01 * books["expected"].max()
    assert books["recorded"].sum() == len(ticking.samples)
    assert books["expected"][:2].min() > 1000
    assert books["lost"][0] > 0
    assert books["throttled"][0] > 0
    assert set(books["t"].tolist()) == {10}
    assert set(books["until"].tolist()) == {20}


def test_what_was_lost_of_no_clock_is_lost_too(ticking):
    of_clocks = int(ticking.clocks.lost.sum())
    cpu, none = np.zeros(1, np.int32), np.zeros(1, np.int64)
    losses = LossTable(cpu, np.array([of_clocks + 7]), none)
    books = coverage_columns(complete(replace(ticking, losses=losses)), 10, 20)
    assert books["lost"].tolist() == [*books["lost"][:2].tolist(), 7]
    assert books["lost"].sum() == of_clocks + 7


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
