"""Sampled time against the kernel's books: what is explained and what is not."""

from __future__ import annotations

import numpy as np
import pytest

from builders.profile import qsort_profile
from builders.ticks import ASLEEP, FULL, IDLE, KERNEL, USER, Ticking
from prospect.estimate.agreement import agreements
from prospect.estimate.ledger import tick_ledger
from prospect.profile.view import report_view


def rows_of(profile):
    view = report_view(profile)
    (event,) = view.events
    rows = agreements(view.profile, event, tick_ledger(view.profile))
    return {row.name: row for row in rows}


def recording(fates, **books):
    ticking = Ticking(np.random.default_rng(1))
    ticking.clock(fates)
    return ticking.profile(wall_seconds=sum(count for _, count in fates) * 0.004, accounting=books)


def test_what_differs_by_chance_agrees():
    rows = rows_of(qsort_profile())
    assert all(row.agrees for row in rows.values() if row.error_s is not None)
    assert rows["User (with nice)"].difference_s == pytest.approx(392 / 256 - 1.53)


def test_what_differs_by_more_does_not_agree():
    fates = [(USER, 500), (KERNEL, 250)]
    assert rows_of(recording(fates, user_s=2.02, system_s=1.0))["User (with nice)"].agrees
    wrong = rows_of(recording(fates, user_s=1.0, system_s=2.0))
    assert wrong["User (with nice)"].agrees is False
    assert wrong["System (with interrupts)"].agrees is False


def test_idle_time_holds_the_ticks_that_an_idle_cpu_slept_through():
    fates = [(IDLE, 100), (ASLEEP, 800), (IDLE, 100)]
    row = rows_of(recording(fates, idle_s=4.0))["Idle (process zero)"]
    assert row.sampled_s == pytest.approx(4.0)
    assert row.agrees


def test_time_may_be_short_by_what_was_lost_and_not_long():
    fates = [(USER, 500), (FULL, 250), (USER, 10)]
    short = rows_of(recording(fates, user_s=3.04))["User (with nice)"]
    assert short.unsampled_s == pytest.approx(1.0)
    assert short.agrees
    assert rows_of(recording(fates, user_s=1.0))["User (with nice)"].agrees is False


def test_split_of_a_command_has_no_verdict_and_its_sum_has():
    rows = rows_of(
        recording([(USER, 500), (KERNEL, 250)], command_user_s=2.9, command_system_s=0.1)
    )
    assert rows["COMMAND and descendants, user"].agrees is None
    assert rows["COMMAND and descendants, user"].difference_s == pytest.approx(-0.9)
    assert rows["COMMAND and descendants, together"].agrees


def test_stolen_time_has_no_difference():
    row = rows_of(qsort_profile())["Stolen by the host"]
    assert (row.difference_s, row.agrees) == (None, None)


def test_recording_without_books_has_no_rows():
    assert rows_of(recording([(USER, 10)])) == {}
