"""Late shares of rows against each CPU's base line."""

from __future__ import annotations

import numpy as np
import pytest

from builders.profile import qsort_profile
from builders.ticks import IDLE, KERNEL, USER, Ticking
from prospect.estimate.accounting.lateness import USUAL_SHARE, late_shares, sample_lateness
from prospect.estimate.finished_report import Report
from prospect.figures.modes import MODE_KERNEL, MODE_USER
from prospect.records import replace

USER_ROW, KERNEL_ROW, IDLE_ROW = 0, 1, 2


def recording(**clock):
    ticking = Ticking(np.random.default_rng(2))
    ticking.clock([(USER, 4000), (KERNEL, 1000), (IDLE, 1000)] * 2, **clock)
    return ticking


def delayed(profile, hit_row, part, by_ns):
    """Return the profile with the first `part` of a row's samples late by so much."""
    rows = np.flatnonzero(profile.samples.hit_index == hit_row)
    time_ns = profile.samples.time_ns.copy()
    time_ns[rows[: int(len(rows) * part)]] += np.uint64(by_ns)
    return replace(profile, samples=replace(profile.samples, time_ns=time_ns))


def shares(profile):
    return late_shares(sample_lateness(profile), np.arange(len(profile.hits)), len(profile.hits))


def test_one_in_twenty_samples_in_user_mode_is_late_by_definition():
    assert shares(recording().profile())[USER_ROW] == pytest.approx(USUAL_SHARE, abs=0.005)


def test_row_that_is_served_as_promptly_as_user_mode_is_no_later():
    assert shares(recording().profile())[KERNEL_ROW] == pytest.approx(USUAL_SHARE, abs=0.02)


def test_late_share_of_a_row_is_the_part_that_came_late():
    profile = delayed(recording().profile(), KERNEL_ROW, 0.6, 20_000)
    assert shares(profile)[KERNEL_ROW] == pytest.approx(0.6 + 0.4 * USUAL_SHARE, abs=0.02)
    assert shares(profile)[IDLE_ROW] == pytest.approx(USUAL_SHARE, abs=0.02)


def test_each_cpu_has_its_own_base_line():
    ticking = recording()
    ticking.clock([(USER, 4000), (KERNEL, 1000)], cpu=1)
    profile = ticking.profile()
    # All that CPU 1 does is served 30 us late, now and then: usual there.
    slow = (profile.samples.cpu == 1) & (np.arange(len(profile.samples)) % 5 == 0)
    time_ns = profile.samples.time_ns + (slow * 30_000).astype(np.uint64)
    lateness = sample_lateness(replace(profile, samples=replace(profile.samples, time_ns=time_ns)))
    assert lateness.cpu.tolist() == [0, 1]
    assert lateness.limit_ns[0] < 10_000
    assert lateness.limit_ns[1] > 25_000


def test_restarted_timers_are_not_late():
    profile = recording().profile()
    moved = profile.samples.time_ns + (np.arange(len(profile.samples)) // 200 * 50_000).astype(
        np.uint64
    )
    lateness = sample_lateness(replace(profile, samples=replace(profile.samples, time_ns=moved)))
    # A block of samples around each restart belongs to two grids; all others are as before.
    assert lateness.usual_ns[0] < 5_000


def test_few_samples_say_nothing():
    profile = recording().profile()
    lateness = sample_lateness(profile)
    on_grid = lateness.on_grid.copy()
    on_grid[KERNEL_ROW] = 9
    few = late_shares(replace(lateness, on_grid=on_grid), np.arange(3), 3)
    assert np.isnan(few[KERNEL_ROW])
    assert not np.isnan(few[USER_ROW])


def test_cpu_without_user_mode_has_no_base_line():
    ticking = Ticking(np.random.default_rng(2))
    ticking.clock([(USER, 99), (KERNEL, 500)])
    lateness = sample_lateness(ticking.profile())
    assert np.isnan(lateness.limit_ns).all()
    assert np.isnan(late_shares(lateness, np.arange(3), 3)).all()


def test_hits_without_a_row_are_in_none():
    profile = recording().profile()
    found = late_shares(sample_lateness(profile), np.array([-1, 0, -1]), 2)
    assert np.isnan(found[1])
    assert found[0] == pytest.approx(USUAL_SHARE, abs=0.02)


def test_recording_without_a_timer_knows_no_lateness():
    assert sample_lateness(qsort_profile()) is None
    assert np.isnan(late_shares(None, np.zeros(3, np.int64), 1)).all()
    assert [event.late for event in Report(qsort_profile()).events] == [None]


def test_shares_stand_beside_the_functions_of_the_report():
    profile = delayed(recording().profile(), KERNEL_ROW, 0.6, 20_000)
    view = Report(profile, "k", 0.0, 0.0)
    (late,) = (event.late for event in view.events)
    (event,) = view.events
    whole = event.kernel.whole
    names = [view.profile.functions.name[row] for row in whole.function.tolist()]
    found = dict(zip(names, late.kernel.tolist(), strict=True))
    assert found["copy"] > 0.5
    assert found["halt"] < 0.1
    for shares, (_, table) in zip(late.kernel_parts, event.kernel.parts, strict=True):
        assert len(shares) == len(table)
        assert not np.isnan(shares).any()


def test_only_kernel_modes_of_a_process_have_late_shares():
    view = Report(recording().profile(), "4", 0.0, 0.0)
    (late,) = (event.late for event in view.events)
    (event,) = view.events
    command = int(np.flatnonzero(view.profile.processes.is_command)[0])
    for mode, is_known in ((MODE_USER, False), (MODE_KERNEL, True)):
        (share,) = late.functions[event.function_rows(command, mode)].tolist()
        assert np.isfinite(share) == is_known
