import dataclasses

import numpy as np
import pytest

from builders.profile import (
    empty_profile,
    hostile_profile,
    perf_profile,
    qsort_profile,
    rowless_profile,
)
from builders.profile_builder import ProfileBuilder, run_info
from builders.programs import periodic, switching
from builders.sampling import sampled_profile
from prospect.capture.events.clock_bank import clock_periods_ns
from prospect.estimate.finished_report import Report
from prospect.figures.modes import MODE_COUNT, MODE_KERNEL, MODE_USER
from prospect.profile.model import (
    CPUMODE_KERNEL,
    CPUMODE_USER,
    ENTRY_REASON_EXCEPTION,
    ENTRY_REASON_NONE,
    ENTRY_REASON_SYSCALL,
    EntryReasonTable,
)
from prospect.records import replace

# (process, function, mode, entry reason) of each state of the program.
STATES = [
    (0, 0, CPUMODE_USER, 0),
    (0, 1, CPUMODE_USER, 0),
    (0, 2, CPUMODE_USER, 0),
    (0, 3, CPUMODE_KERNEL, 1),
    (0, 3, CPUMODE_KERNEL, 2),
    (1, 3, CPUMODE_KERNEL, 1),
    (1, 4, CPUMODE_KERNEL, 3),
    (1, 0, CPUMODE_USER, 0),
]
ENTRY_REASONS = EntryReasonTable(
    np.array(
        [ENTRY_REASON_NONE, ENTRY_REASON_SYSCALL, ENTRY_REASON_SYSCALL, ENTRY_REASON_EXCEPTION],
        np.uint8,
    ),
    ["", "read", "write", "page fault"],
)
SHARES = (0.25, 0.25, 0.1, 0.1, 0.05, 0.1, 0.05, 0.1)


def profile_of(schedule, clocks=4, seed=1):
    """Return a recording of two processes whose states are those of the schedule."""
    random = np.random.default_rng(seed)
    sampled = sampled_profile(random, schedule, clock_periods_ns(1000, clocks))
    build = ProfileBuilder(replace(sampled.run, cpus=1))
    build.process("worker", 100, is_command=True)
    build.process("helper", 101)
    program = build.object("/bin/program")
    for number in range(5):
        build.hit(0, build.function(f"function_{number}", program, 0x1000 * (number + 1)), 1)
    tables = build.build()
    process, function, mode, entry_reason = (
        np.array(column) for column in zip(*STATES, strict=True)
    )
    hits = replace(
        sampled.hits,
        process_index=process.astype(np.int32),
        location_index=function.astype(np.int32),
        mode=mode.astype(np.uint8),
        entry_reason_index=entry_reason.astype(np.int32),
    )
    return replace(
        tables,
        hits=hits,
        samples=sampled.samples,
        clocks=sampled.clocks,
        entry_reasons=ENTRY_REASONS,
    )


def mixed(length_s=4.0, seed=1):
    return switching(np.random.default_rng(seed), 1, length_s, (1e-3,) * 8, SHARES)


@pytest.fixture(scope="module")
def viewed():
    view = Report(profile_of(mixed()), "4", 0.0, 0.0)
    return view, view.events[0], view.events[0].estimates


def test_every_row_of_every_table_has_the_time_that_the_view_shows(viewed):
    _, event, estimates = viewed
    assert event.design.has_bars
    assert event.design.sees_rhythm
    shown = event.processes.seconds
    assert estimates.processes.seconds == pytest.approx(shown.ravel())
    assert estimates.totals.seconds == pytest.approx(shown.sum(axis=0))
    assert estimates.functions.seconds == pytest.approx(event.functions.seconds)
    assert estimates.kernel.seconds == pytest.approx(event.kernel.whole.seconds)
    for part, (_, table) in zip(estimates.kernel_parts, event.kernel.parts, strict=True):
        assert part.seconds == pytest.approx(table.seconds)
    system = event.entry_reasons.of_system()
    assert estimates.entry_reasons.rows(system.place).seconds == pytest.approx(system.seconds)
    for process in (0, 1):
        for calls_in_one in (False, True):
            rows = event.entry_reasons.of_process(process, calls_in_one=calls_in_one)
            assert estimates.entry_reasons.rows(rows.place).seconds == pytest.approx(rows.seconds)
        table = event.function_table(process, MODE_USER)
        rows = estimates.function_rows(event, process, MODE_USER)
        assert rows.seconds == pytest.approx(table.seconds)


def test_every_row_with_a_hit_has_an_interval_around_its_time(viewed):
    _, _, estimates = viewed
    for table in (estimates.processes, estimates.functions, estimates.kernel, estimates.totals):
        hit = table.seconds > 0
        assert (table.half_width_s[hit] > 0).all()
        assert (table.low_s <= table.seconds).all()
        assert (table.seconds <= table.high_s).all()
        assert not table.aliased.any()
    user = estimates.process_half_width_s(MODE_USER)
    assert np.array_equal(user, estimates.processes.half_width_s[MODE_USER::MODE_COUNT])


def test_neighbours_that_cannot_be_told_apart_are_marked(viewed):
    _, event, estimates = viewed
    rows = estimates.function_rows(event, 0, MODE_USER)
    # Two functions of a quarter each, one of a tenth.
    assert rows.tied.tolist() == [False, True, False]
    assert rows.needed_s[1] > 4.0 > rows.needed_s[2]
    assert any(
        text.startswith("The first 3 functions of worker in user mode cannot all be told apart")
        for text in estimates.sentences
    )


def test_the_summary_compares_processes_by_user_time(viewed):
    _, event, estimates = viewed
    assert event.processes.kept_rows.tolist() == [0, 1]
    second = MODE_COUNT + MODE_USER
    assert not np.isnan(estimates.processes.needed_s[second])
    assert np.isnan(estimates.processes.needed_s[MODE_USER])
    assert np.isnan(estimates.processes.needed_s[MODE_COUNT + MODE_KERNEL])


def test_rows_under_the_threshold_have_no_bars_and_the_others_the_same_ones():
    profile = profile_of(mixed())
    every = Report(profile, "4", 0.0, 0.0).events[0].estimates.functions
    few = Report(profile, "4", 0.3, 0.3).events[0].estimates.functions
    shown = few.seconds >= 0.3
    assert 0 < shown.sum() < len(shown)
    assert np.isnan(few.half_width_s[~shown]).all()
    assert few.half_width_s[shown] == pytest.approx(every.half_width_s[shown])


def test_processes_that_are_skipped_are_one_row():
    view = Report(profile_of(mixed()), "4", 1.0, 1.0)
    estimates = view.events[0].estimates
    skipped = view.events[0].processes.skipped_rows
    assert skipped.tolist() == [1]
    assert estimates.skipped.seconds == pytest.approx(view.events[0].processes.seconds[1])


def test_a_program_in_step_with_a_clock_is_marked_and_said():
    rate_hz = 1e9 / clock_periods_ns(1000, 4)[2]
    schedule = periodic(np.random.default_rng(2), 4.0, np.array([rate_hz]), np.array([0.5]))
    profile = profile_of(dataclasses.replace(schedule, rows=len(STATES)))
    estimates = Report(profile, "2", 0.0, 0.0).events[0].estimates
    assert estimates.functions.aliased[:2].all()
    assert any("run in step with one of the clocks" in text for text in estimates.sentences)


def test_an_idle_cpu_sets_off_no_alarm():
    rate_hz = 1e9 / clock_periods_ns(1000, 4)[2]
    schedule = periodic(np.random.default_rng(2), 4.0, np.array([rate_hz]), np.array([0.5]))
    profile = profile_of(dataclasses.replace(schedule, rows=len(STATES)))
    profile.processes.pid[0] = 0
    assert not Report(profile, "4", 0.0, 0.0).events[0].estimates.functions.aliased.any()


def test_one_clock_says_what_it_cannot_see():
    profile = profile_of(mixed(), clocks=1)
    event = Report(profile).events[0]
    assert not event.design.sees_rhythm
    assert any("One clock took the samples" in text for text in event.estimates.sentences)


@pytest.mark.parametrize(
    "profile",
    [qsort_profile(), empty_profile(), hostile_profile(), rowless_profile(), perf_profile()],
    ids=["qsort", "empty", "hostile", "rowless", "perf"],
)
@pytest.mark.parametrize("detail", ["2", "4", "k"])
def test_profiles_without_samples_have_bars_of_independent_hits(profile, detail):
    view = Report(profile, detail, 0.0, 0.0)
    for event in view.events:
        estimates = event.estimates
        assert not event.design.sees_rhythm
        assert event.design.has_bars == event.has_time
        rows = estimates.processes
        if event.has_time:
            assert (rows.half_width_s[rows.seconds > 0] > 0).all()
            found = estimates.sentences[:1]
            assert len(found) == bool(event.design.hits.any())
            assert all(one.startswith("The samples are not on the grid") for one in found)
        else:
            assert np.isnan(rows.half_width_s).all()
            assert estimates.sentences == ()


def test_a_row_of_few_independent_hits_has_a_poisson_bar():
    build = ProfileBuilder(run_info(command=("a",)))
    process = build.process("a", 7, is_command=True)
    program = build.object("/bin/a")
    build.hit(process, build.function("rare", program, 0x1000), 9)
    build.hit(process, build.function("often", program, 0x2000), 99_991)
    view = Report(build.build(), "2", 0.0, 0.0)
    rows = view.events[0].estimates.functions
    rare = rows.rows(np.array([1]))
    assert rare.seconds[0] == pytest.approx(9 / 256)
    assert rare.low_s[0] == pytest.approx(4.45 / 256, rel=0.02)
    assert rare.high_s[0] == pytest.approx(16.43 / 256, rel=0.02)
