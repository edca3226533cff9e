import math
from dataclasses import replace

import pytest

from builders.profile import qsort_profile
from prospect.profile.accounting import accounted_times
from prospect.profile.portions import event_hits
from prospect.profile.processes import process_totals


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
