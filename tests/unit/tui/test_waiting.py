"""The pages of waiting: times of the report, by thread, and where each waits."""

from __future__ import annotations

import numpy as np
import pytest

from builders.live import state_of
from builders.sources import CLOCK
from builders.stacks import stacks_profile
from builders.switches import SWITCH, switched_profile
from prospect.figures.report.waiting import waiting
from prospect.profile.complete import complete
from prospect.records import replace
from prospect.tui import pictures
from prospect.tui.figures import live_figures
from prospect.tui.pictures import NO_SWITCHES, wait_stacks_page, waiting_page
from prospect.tui.rows import PAGES, TABLES, WAIT_STACKS, WAITING, Place, Row
from prospect.tui.table_pages import (
    BY_BLOCKED,
    BY_NAME,
    BY_READY,
    BY_TIME,
    View,
    orders_of,
    table_page,
)


@pytest.fixture(scope="module")
def figures():
    return live_figures(state_of(switched_profile(CLOCK, SWITCH, stacks=True)))


def test_times_are_those_of_the_report_added_up_by_name(figures):
    threads = waiting(complete(figures.state.profile), "4").threads
    (row,) = waiting_page(figures, Place(WAITING), View()).rows
    assert (row.name, row.process, row.place) == ("prog", "prog", "2 threads")
    assert row.seconds == pytest.approx(threads.cpu_ns.sum() * 1e-9)
    assert row.ready_s == pytest.approx(threads.runnable_ns.sum() * 1e-9)
    assert row.blocked_s == pytest.approx(threads.blocked_ns.sum() * 1e-9)
    assert row.target == Place(WAIT_STACKS, "prog", "prog")


@pytest.mark.parametrize(
    ("place", "words"),
    [(Place(WAITING, process="other"), ""), (Place(WAITING), "nobody has this name")],
)
def test_a_place_and_a_filter_leave_others_out(figures, place, words):
    assert waiting_page(figures, place, View(words, BY_NAME)).rows == ()


def test_a_thread_leads_to_the_stacks_of_its_waits(figures):
    (row,) = waiting_page(figures, Place(WAITING), View()).rows
    page = wait_stacks_page(figures, row.target)
    stacks = waiting(complete(figures.state.profile), "4").stacks
    assert [row.blocked_s for row in page.rows if not row.lead] == [
        stack.seconds for stack in stacks
    ]
    assert page.total_s == pytest.approx(row.blocked_s)
    assert wait_stacks_page(figures, Place(WAIT_STACKS, "other", "prog")).rows == ()


@pytest.mark.parametrize("page", TABLES)
def test_waits_are_in_no_other_page(figures, page):
    without = live_figures(state_of(replace(figures.state.profile, waits=None)))
    ours, theirs = (table_page(one, Place(page), View()) for one in (figures, without))
    assert [row.key for row in ours.rows] == [row.key for row in theirs.rows]
    assert ours.total_s == theirs.total_s
    bars = [[row.half_width_s for row in found.rows] for found in (ours, theirs)]
    assert np.array_equal(*bars, equal_nan=True)


def test_without_switches_the_page_says_how_to_get_them():
    figures = live_figures(state_of(stacks_profile()))
    assert waiting_page(figures, Place(WAITING), View()).note == NO_SWITCHES
    assert wait_stacks_page(figures, Place(WAIT_STACKS)).note == NO_SWITCHES


def test_the_page_stands_beside_the_tables_and_that_of_stacks_alone():
    assert Place().turned(-2).page == WAITING
    assert Place().pages == PAGES
    assert Place(WAIT_STACKS).turned(1) == Place(WAIT_STACKS)


@pytest.mark.parametrize(("words", "rows"), [("5", 1), ("prog", 1), ("6", 0)])
def test_the_number_of_a_process_is_its_threads(figures, words, rows):
    assert len(waiting_page(figures, Place(WAITING), View(words)).rows) == rows


def test_rows_stand_in_the_order_that_was_asked_for(monkeypatch, figures):
    def row(name, ran, ready, blocked):
        return Row((name,), name, seconds=ran, ready_s=ready, blocked_s=blocked)

    rows = [row("c", 1, 2, 9), row("a", 2, 1, 5), row("b", 3, 3, 1)]
    monkeypatch.setattr(pictures, "_waiting_rows", lambda *_: list(rows))
    names = {
        order: "".join(one.name for one in waiting_page(figures, Place(), View("", order)).rows)
        for order in orders_of(WAITING)
    }
    assert names == {BY_TIME: "bac", BY_READY: "bca", BY_BLOCKED: "cab", BY_NAME: "abc"}
