import math

import pytest

from builders.profile import interrupted_profile, qsort_profile
from prospect.figures.modes import event_hits
from prospect.figures.processes import process_totals
from prospect.figures.report.accounting import accounted_times
from prospect.records import replace


def _times(profile):
    hits = event_hits(profile, 0)
    totals = process_totals(hits, len(profile.processes), 0.02, 0.02)
    return {row.name: row for row in accounted_times(profile, totals, hits.event)}


def test_process_zero_is_idle_and_not_system_time():
    rows = _times(qsort_profile())
    assert rows["Idle (process zero)"].sampled_s == pytest.approx(611 / 256)
    assert rows["System (with interrupts)"].sampled_s == pytest.approx(11 / 256)
    assert rows["System (with interrupts)"].accounted_s == pytest.approx(0.06)
    assert rows["User (with nice)"].sampled_s == pytest.approx(392 / 256)


def test_the_command_is_held_against_its_own_usage():
    row = _times(qsort_profile())["COMMAND and descendants, user"]
    assert (row.sampled_s, row.accounted_s) == (pytest.approx(1.5), 1.49)


def test_stolen_time_has_no_samples():
    assert _times(qsort_profile())["Stolen by the host"].sampled_s is None


def test_a_run_that_saw_one_command_says_nothing_of_the_machine():
    profile = qsort_profile(system_wide=False)
    assert set(_times(profile)) == {
        "COMMAND and descendants, user",
        "COMMAND and descendants, system",
    }


def test_accounting_that_is_no_number_is_passed_over():
    profile = qsort_profile()
    for accounting in ({}, {"user_s": "much", "command_user_s": math.nan, "idle_s": None}):
        assert _times(replace(profile, run=replace(profile.run, accounting=accounting))) == {}


def test_a_run_that_saw_user_space_only_has_sampled_no_system_time():
    events = (replace(qsort_profile().run.events[0], excludes_kernel=True),)
    rows = _times(qsort_profile(system_wide=False, events=events))
    assert rows["COMMAND and descendants, system"].sampled_s is None
    assert rows["COMMAND and descendants, user"].sampled_s == pytest.approx(1.5)


def test_a_kernel_that_asks_at_ticks_books_interrupts_where_they_arrive():
    rows = _times(interrupted_profile())
    busy = 15 + 461 + 311 + 20 + 49 + 9
    assert rows["System (with interrupts)"].sampled_s == pytest.approx(busy / 256)
    assert rows["Idle (process zero)"].sampled_s == pytest.approx(600 / 256)
    assert rows["COMMAND and descendants, system"].sampled_s == pytest.approx((15 + 461) / 256)
    assert "Interrupts" not in rows


def test_a_kernel_that_measures_interrupts_books_them_apart():
    profile = interrupted_profile()
    measured = {**profile.run.accounting, "irq_s": 0.4, "softirq_s": 1.8}
    rows = _times(replace(profile, run=replace(profile.run, accounting=measured)))
    # ksoftirqd's time is booked as a softirq.
    assert rows["Interrupts"].sampled_s == pytest.approx((461 + 20 + 35 + 49) / 256)
    assert rows["Interrupts"].accounted_s == pytest.approx(2.2)
    assert rows["System"].sampled_s == pytest.approx((15 + 311 + 9) / 256)
    assert rows["System"].accounted_s == pytest.approx(1.52)
    assert rows["Idle (process zero)"].sampled_s == pytest.approx(600 / 256)
    assert rows["COMMAND and descendants, system"].sampled_s == pytest.approx(15 / 256)


def test_without_chains_measured_interrupts_stay_with_the_system():
    profile = qsort_profile()
    measured = {**profile.run.accounting, "irq_s": 0.4}
    rows = _times(replace(profile, run=replace(profile.run, accounting=measured)))
    assert rows["System (with interrupts)"].accounted_s == pytest.approx(0.46)
