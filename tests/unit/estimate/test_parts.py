"""Hits that no table tells apart are one: every error bar stays what it was, to the last digit."""

from __future__ import annotations

import numpy as np
import pytest

from builders.programs import switching
from builders.sampling import sampled_profile
from prospect.capture.events.clock_bank import clock_periods_ns
from prospect.columns import grouping
from prospect.estimate.errors.design import sampling_design
from prospect.estimate.errors.error_bars import error_bars, parts_of
from prospect.records import asdict, replace

PROGRAMS = 40
HITS = 3 * PROGRAMS


def designed(clocks, stay_s=2e-4):
    random = np.random.default_rng(5)
    schedule = switching(random, PROGRAMS, 2.0, (stay_s,) * 3, (0.3, 0.5, 0.2))
    profile = sampled_profile(random, schedule, clock_periods_ns(2000, clocks))
    return sampling_design(profile, 0)


def tables():
    """Return rows by program, without the last ones, and by kind, of which one is in no row."""
    hit = np.arange(HITS)
    by_program = np.where(hit < HITS - 6, hit // 3, -1)
    by_kind = np.where(hit % 3 == 1, -1, hit % 3 // 2)
    return [by_program.astype(np.int32), by_kind.astype(np.int32)]


def _without_hits(design):
    return replace(design, blocks=replace(design.blocks, hits=None))


@pytest.mark.parametrize("clocks", [1, 4])
@pytest.mark.parametrize("stay_s", [2e-4, 0.2])
@pytest.mark.parametrize("is_packed", [True, False])
def test_error_bars_of_parts_are_those_of_hits(clocks, stay_s, is_packed, monkeypatch):
    design = designed(clocks, stay_s)
    if design.blocks:
        design = _without_hits(design)
    if not is_packed:
        monkeypatch.setattr(grouping, "_MOST_KEYS", 50)
    chosen = tables()
    parts = parts_of(design, chosen)
    assert len(parts.first_hit) < HITS
    assert (parts.cells is not None) == (clocks > 1)
    for row_of_hit in chosen:
        rows = int(row_of_hit.max()) + 1
        other = np.arange(-1, rows - 1)
        wanted = asdict(error_bars(design, row_of_hit, rows, other))
        found = asdict(error_bars(design, row_of_hit, rows, other, parts))
        for name, values in wanted.items():
            np.testing.assert_array_equal(found[name], values, name)


def test_what_is_counted_by_hit_already_is_not_counted_again():
    design = designed(4)
    counted = np.zeros((HITS, len(design.ticks.count), 4), np.int32)
    design = replace(design, blocks=replace(design.blocks, hits=counted))
    assert parts_of(design, tables()).cells is None


def test_hits_of_no_table_are_no_part_and_without_hits_there_is_none():
    design = designed(1)
    nowhere = np.full(HITS, -1, np.int32)
    parts = parts_of(design, [nowhere])
    assert len(parts.first_hit) == 0
    assert not [one for one in parts.changes if any(len(each.earlier) for each in one.pairs())]
