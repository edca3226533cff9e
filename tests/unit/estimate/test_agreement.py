"""Sampled time against the kernel's books: what is explained and what is not."""

from __future__ import annotations

import numpy as np
import pytest

from builders.profile import qsort_profile
from builders.ticks import ASLEEP, FULL, IDLE, KERNEL, USER, Ticking
from prospect.estimate.accounting.agreement import agreements
from prospect.estimate.accounting.sample_accounting import sample_accounting
from prospect.estimate.finished_report import Report
from prospect.records import replace
from prospect.render.text.quality_sections import accounting_lines
from prospect.render.text.style import Figures, Style


def rows_of(profile):
    view = Report(profile)
    (event,) = view.events
    rows = agreements(view.profile, event, sample_accounting(view.profile))
    return {row.name: row for row in rows}


def recording(fates, **accounting):
    ticking = Ticking(np.random.default_rng(1))
    ticking.clock(fates)
    return ticking.profile(
        wall_seconds=sum(count for _, count in fates) * 0.004, accounting=accounting
    )


def test_what_differs_by_chance_agrees():
    rows = rows_of(qsort_profile())
    assert all(row.agrees for row in rows.values() if row.half_width_s is not None)
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


STAT = dict.fromkeys(("nice_s", "iowait_s", "irq_s", "softirq_s", "steal_s"), 0.0)


@pytest.mark.parametrize(
    ("user_s", "agrees", "is_of_accounting"),
    [(9.99, True, False), (9.63, True, True), (10.4, True, True)],
)
def test_books_that_do_not_add_up_are_blamed_and_not_sampling(user_s, agrees, is_of_accounting):
    profile = recording([(USER, 2500)], user_s=user_s, system_s=0.0, idle_s=0.0, **STAT)
    profile = replace(profile, run=replace(profile.run, cpus=1))
    row = rows_of(profile)["User (with nice)"]
    assert row.difference_s == pytest.approx(10.0 - user_s)
    assert (row.agrees, row.is_of_accounting) == (agrees, is_of_accounting)
    view = Report(profile)
    (event,) = view.events
    found = agreements(view.profile, event, sample_accounting(view.profile))
    text = "\n".join(accounting_lines(found, Figures(1, 1.0, has_time=True), Style(colour=False)))
    assert ("  accounting" in text) == is_of_accounting
    assert ("/proc/stat has" in text) == is_of_accounting
    assert "beyond" not in text


def test_books_that_add_up_are_not_blamed_for_samples_of_another_kind():
    profile = recording([(USER, 2500)], user_s=9.0, system_s=1.0, idle_s=0.0, **STAT)
    profile = replace(profile, run=replace(profile.run, cpus=1))
    assert rows_of(profile)["User (with nice)"].agrees is False
