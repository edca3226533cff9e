"""Tables of the screen: the report's own figures, all hits in one row each."""

from __future__ import annotations

import numpy as np
import pytest

from builders.live import BEGIN_NS, state_of, with_times
from builders.profile import (
    empty_profile,
    hostile_profile,
    interrupted_profile,
    perf_profile,
    qsort_profile,
    rowless_profile,
)
from builders.stacks import stacks_profile
from prospect.estimate.finished_report import Report
from prospect.figures.modes import MODE_INTERRUPT, MODE_KERNEL, MODE_USER
from prospect.profile.model import ENTRY_REASON_IDLE
from prospect.records import replace
from prospect.tui.figures import BUCKET_S, BUCKETS, live_figures
from prospect.tui.groups import INTERRUPTS
from prospect.tui.rows import ENTRY_REASONS, FUNCTIONS, PROCESSES, TABLES, THREADS, Place
from prospect.tui.table_pages import BY_NAME, BY_RECENT, View, table_page

PROFILES = {
    "interrupted": interrupted_profile,
    "timed": lambda: with_times(interrupted_profile(), 40.0),
    "qsort": qsort_profile,
    "hostile": hostile_profile,
    "perf": perf_profile,
    "rowless": rowless_profile,
    "stacks": stacks_profile,
    "empty": empty_profile,
}


def figures_of(profile):
    return live_figures(state_of(profile))


def page_of(profile, page, **view):
    return table_page(figures_of(profile), Place(page), View(**view))


def of_name(rows, name):
    (row,) = [row for row in rows if row.name == name]
    return row


@pytest.mark.parametrize("page", TABLES)
@pytest.mark.parametrize("name", PROFILES)
def test_every_hit_that_is_not_idle_is_in_one_row(name, page):
    figures = figures_of(PROFILES[name]())
    table = table_page(figures, Place(page), View())
    assert sum(row.hits for row in table.rows) == int(figures.design.hits[figures.is_shown].sum())
    assert len({row.key for row in table.rows}) == len(table.rows)
    assert table.more == 0
    assert table.total_s == pytest.approx(sum(row.seconds for row in table.rows))


@pytest.mark.parametrize("make", [interrupted_profile, PROFILES["timed"]])
def test_times_and_error_bars_of_functions_are_those_of_the_report(make):
    view = Report(make(), "4", 0.0, 0.0)
    estimates = view.events[0].estimates
    rows = {(row.process, row.name): row for row in page_of(make(), FUNCTIONS).rows}
    profile, (event,) = view.profile, view.events
    compared = 0
    for process, name in enumerate(profile.processes.name):
        for mode in (MODE_USER, MODE_KERNEL):
            table = event.function_table(process, mode)
            bars = estimates.function_rows(event, process, mode)
            for at, function in enumerate(table.function.tolist()):
                named = profile.functions.name[function]
                if named == "default_idle":
                    assert (name, named) not in rows
                    continue
                row = rows[name, named]
                assert (row.hits, row.seconds) == (table.hits[at], table.seconds[at])
                assert row.half_width_s == bars.half_width_s[at]
                compared += 1
    assert compared == 6


def test_interrupts_are_charged_to_nobody_and_are_all_there():
    view = Report(interrupted_profile(), "4")
    (event,) = view.events
    interrupts = of_name(page_of(interrupted_profile(), PROCESSES).rows, INTERRUPTS)
    assert interrupts.hits == event.hits[MODE_INTERRUPT] == 516
    spin = of_name(page_of(interrupted_profile(), PROCESSES).rows, "cpuspin")
    assert spin.hits == 500 + 6 + 7 + 2


def test_entry_reasons_are_those_of_the_report_and_the_programs_themselves():
    view = Report(PROFILES["timed"](), "4")
    estimates = view.events[0].estimates.entry_reasons
    told = view.events[0].entry_reasons.of_system()
    bars = estimates.rows(told.place)
    rows = {row.key[:2]: row for row in page_of(PROFILES["timed"](), ENTRY_REASONS).rows}
    for at, (kind, name) in enumerate(zip(told.kind.tolist(), told.name, strict=True)):
        if kind != ENTRY_REASON_IDLE:
            row = rows.pop((kind, name))
            assert row.hits == told.hits[at]
            assert row.seconds == pytest.approx(told.seconds[at], rel=1e-12)
            assert row.half_width_s == pytest.approx(bars.half_width_s[at], rel=1e-12)
    assert [row.hits for row in rows.values()] == [500]


def test_rows_that_cannot_be_told_apart_are_marked():
    rows = page_of(PROFILES["timed"](), FUNCTIONS).rows
    assert not rows[0].is_like_above
    nearly_equal = [row.name for row in rows if row.is_like_above]
    assert "clear_page" in nearly_equal


@pytest.mark.parametrize(
    ("page", "words", "names"),
    [
        (FUNCTIONS, "TCP_", ["tcp_v4_rcv", "tcp_sendmsg", "tcp_v4_rcv"]),
        (FUNCTIONS, "e1000e", ["e1000_intr"]),
        (FUNCTIONS, "kworker", ["process_one_work"]),
        (PROCESSES, "spin", ["cpuspin"]),
        (ENTRY_REASONS, "system call", ["system call sendto", "system call write"]),
        (THREADS, "nobody", []),
    ],
)
def test_a_filter_looks_at_the_names_that_a_page_shows(page, words, names):
    rows = page_of(interrupted_profile(), page, words=words).rows
    assert [row.name for row in rows][: len(names)] == names
    everything = {row.key: row for row in page_of(interrupted_profile(), page).rows}
    assert all(row.hits == everything[row.key].hits for row in rows)


def test_enter_on_a_row_leads_to_its_own_time():
    profile = PROFILES["timed"]()
    figures = figures_of(profile)
    for page in (PROCESSES, ENTRY_REASONS, THREADS):
        for row in table_page(figures, Place(page), View()).rows:
            if row.target:
                inside = table_page(figures, row.target, View())
                assert sum(one.hits for one in inside.rows) == row.hits, row.name


def test_history_and_recent_time_are_of_the_samples_of_that_time():
    profile = with_times(interrupted_profile(), 40.0)
    rows = page_of(profile, FUNCTIONS).rows
    main = of_name(rows, "main")
    seen = [number for number in main.history if number >= 0]
    end = (profile.run.end_ns // 10**9 // BUCKET_S) * BUCKET_S
    wanted = profile.samples.time_ns[profile.samples.hit_index == 0].astype(np.int64) // 10**9
    assert seen == [
        int(((wanted >= begin) & (wanted < begin + BUCKET_S)).sum())
        for begin in range(end - len(seen) * BUCKET_S, end, BUCKET_S)
    ]
    assert len(seen) == 40 // BUCKET_S < BUCKETS
    ten = int((wanted[wanted < end] >= end - 10).sum())
    assert main.recent_s == pytest.approx(ten * main.seconds / main.hits)


def test_order_by_recent_time_and_by_name():
    profile = with_times(interrupted_profile(), 40.0)
    late = profile.samples.time_ns > BEGIN_NS + 25 * 10**9
    hit_index = np.where(late & (profile.samples.hit_index == 0), 8, profile.samples.hit_index)
    count = np.bincount(hit_index, minlength=len(profile.hits))
    profile = replace(
        profile,
        samples=replace(profile.samples, hit_index=hit_index.astype(np.int32)),
        hits=replace(profile.hits, count=count),
    )
    assert page_of(profile, FUNCTIONS, order=BY_RECENT).rows[0].name == "tcp_sendmsg"
    names = [row.name for row in page_of(profile, FUNCTIONS, order=BY_NAME).rows]
    assert names == sorted(names)


def test_the_number_of_a_process_is_that_process_alone():
    profile = interrupted_profile()
    spins = of_name(page_of(profile, PROCESSES).rows, "cpuspin")
    (row,) = page_of(profile, PROCESSES, words="77").rows
    assert (row.name, row.hits, row.place) == ("cpuspin", spins.hits, "pid 77")
    assert {one.process for one in page_of(profile, FUNCTIONS, words="77").rows} == {"cpuspin"}
    for page in TABLES:
        assert page_of(profile, page, words="77").total_s == pytest.approx(row.seconds)
        assert page_of(profile, page, words="7" * 30).rows == ()


def test_services_are_named_where_there_are_several():
    profile = interrupted_profile()
    names = profile.processes.name

    def places(groups):
        processes = replace(profile.processes, control_group=groups)
        rows = page_of(replace(profile, processes=processes), PROCESSES).rows
        return {row.name: row.place for row in rows}

    web = [f"/system.slice/{'web' if name == 'cpuspin' else 'other'}.service" for name in names]
    assert places(web)["cpuspin"] == "pid 77, web.service"
    assert places(["/system.slice/web.service"] * len(names))["cpuspin"] == "pid 77"


@pytest.mark.parametrize("make", [qsort_profile, stacks_profile, perf_profile])
@pytest.mark.parametrize("page", TABLES)
def test_rows_stand_in_the_order_of_the_figure_that_they_show(make, page):
    rows = page_of(make(), page).rows
    seconds = [row.seconds for row in rows]
    assert seconds == sorted(seconds, reverse=True)
    recent = [row.recent_s for row in page_of(make(), page, order="recent").rows]
    shown = [value for value in recent if value == value]  # noqa: PLR0124 - not of what was unseen
    assert shown == sorted(shown, reverse=True)
