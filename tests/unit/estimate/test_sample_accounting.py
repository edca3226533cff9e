import numpy as np
import pytest

from builders.profile import qsort_profile
from builders.ticks import (
    ASLEEP,
    FULL,
    HELD,
    IDLE,
    KERNEL,
    START_NS,
    THROTTLED,
    USER,
    Ticking,
)
from prospect.estimate.accounting.sample_accounting import sample_accounting
from prospect.records import replace

PERIODS_NS = (4_742_358, 4_225_681, 3_706_485, 3_537_459)


@pytest.fixture
def ticking():
    return Ticking(np.random.default_rng(11))


def row(accounting, position=0):
    counts = {name: int(column[position]) for name, column in accounting.by_clock._asdict().items()}
    return counts | {"closure": int(accounting.by_clock.closure[position])}


def test_every_tick_recorded_is_a_sample_accounting_without_anything_else(ticking):
    ticking.clock([(USER, 500)])
    assert row(sample_accounting(ticking.profile())) == {
        "expected": 500,
        "recorded": 500,
        "lost": 0,
        "throttled": 0,
        "idle": 0,
        "busy": 0,
        "closure": 0,
    }


def test_ticks_that_an_idle_cpu_slept_through_are_missing_while_idle(ticking):
    ticking.clock([(IDLE, 100), (ASLEEP, 50), (IDLE, 100), (ASLEEP, 7)])
    found = row(sample_accounting(ticking.profile()))
    assert (found["recorded"], found["idle"], found["busy"], found["closure"]) == (200, 57, 0, 0)


@pytest.mark.parametrize(("idle_s", "idle"), [(0.2, 50), (0.08, 31), (0.0, 0), (None, 0)])
def test_timer_that_comes_back_on_time_was_not_held_up_as_long_as_the_books_were_idle(
    ticking, idle_s, idle
):
    ticking.clock([(USER, 100), (ASLEEP, 50), (KERNEL, 100)])
    accounting = {} if idle_s is None else {0: {"idle_s": idle_s, "iowait_s": 0.0}}
    found = row(sample_accounting(ticking.profile(cpu_accounting=accounting)))
    # Books in hundredths of a second, and sampling, leave room for 11 ticks of 4 ms above 20.
    assert (found["idle"], found["busy"]) == (idle, 50 - idle)
    assert found["closure"] == 0


def test_gap_beside_an_idle_hit_is_idle_where_there_are_no_books(ticking):
    ticking.clock([(USER, 100), (ASLEEP, 50), (IDLE, 100), (HELD, 5), (USER, 100)])
    found = row(sample_accounting(ticking.profile()))
    assert (found["idle"], found["busy"]) == (50, 5)


@pytest.mark.parametrize("late_ns", [300.0, 700.0, 2_000.0])
@pytest.mark.parametrize("period_ns", [17_687, 50_000, 176_873])
def test_samples_that_vary_by_a_large_part_of_a_short_period_are_one_a_tick(
    ticking, period_ns, late_ns
):
    ticking.clock([(USER, 20_000), (HELD, 40), (USER, 20_000)], period_ns=period_ns, phase_ns=0)
    profile = ticking.profile(cpu_accounting={0: {"idle_s": 0.0, "iowait_s": 0.0}})
    early = np.random.default_rng(3).exponential(late_ns, 40_000)
    moved = profile.samples.time_ns + early.astype(np.uint64)
    found = row(
        sample_accounting(replace(profile, samples=replace(profile.samples, time_ns=moved)))
    )
    assert (found["recorded"], found["idle"]) == (40_000, 0)
    assert abs(found["busy"] - 40) <= 8
    assert abs(found["closure"]) <= 8


def test_samples_that_the_kernel_dropped_for_another_tracer_are_lost(ticking):
    ticking.clock([(USER, 100), (ASLEEP, 50), (KERNEL, 100), (HELD, 7), (USER, 100)])
    accounting = {0: {"idle_s": 0.0, "iowait_s": 0.0}}
    found = [
        row(sample_accounting(replace(profile, run=replace(profile.run, dropped_share=share))))
        for profile in [ticking.profile(cpu_accounting=accounting)]
        for share in (0.0, 0.3)
    ]
    assert [(one["lost"], one["busy"], one["closure"]) for one in found] == [(0, 57, 0), (50, 7, 0)]


def test_timer_that_comes_back_late_was_held_up(ticking):
    ticking.clock([(USER, 100), (HELD, 5), (KERNEL, 100)])
    found = row(sample_accounting(ticking.profile()))
    assert (found["idle"], found["busy"], found["closure"]) == (0, 5, 0)


def test_host_that_wakes_an_idle_cpu_late_takes_nothing_from_anybody(ticking):
    ticking.clock([(IDLE, 100), (HELD, 5), (IDLE, 100)])
    found = row(sample_accounting(ticking.profile()))
    assert (found["idle"], found["busy"]) == (5, 0)


def test_losses_are_those_the_kernel_counted_and_not_the_size_of_the_gap(ticking):
    ticking.clock([(USER, 100), (FULL, 60), (USER, 100)])
    profile = ticking.profile()
    assert row(sample_accounting(profile))["lost"] == 60
    fewer = replace(profile, clocks=replace(profile.clocks, lost=np.array([45])))
    found = row(sample_accounting(fewer))
    assert (found["lost"], found["idle"] + found["busy"], found["closure"]) == (45, 15, 0)


def test_losses_without_a_record_in_their_gap_are_not_missing_too(ticking):
    ticking.clock([(USER, 100), (HELD, 70), (KERNEL, 100)], clock=1, other_losses=60)
    found = row(sample_accounting(ticking.profile()))
    assert (found["lost"], found["idle"], found["busy"], found["closure"]) == (60, 0, 10, 0)


def test_losses_at_the_end_have_no_record_and_are_counted_all_the_same(ticking):
    ticking.clock([(USER, 100), (FULL, 60)])
    found = row(sample_accounting(ticking.profile()))
    assert (found["lost"], found["idle"], found["busy"], found["closure"]) == (60, 0, 0, 0)


def test_first_clock_counts_other_lost_records_too(ticking):
    ticking.clock([(USER, 100), (FULL, 60), (USER, 100)], other_losses=500)
    accounting = sample_accounting(ticking.profile())
    assert (row(accounting)["lost"], row(accounting)["closure"], accounting.other_losses) == (
        60,
        0,
        500,
    )


def test_more_losses_of_another_clock_than_it_had_ticks_do_not_balance(ticking):
    ticking.clock([(USER, 100), (FULL, 60), (USER, 100)], clock=1, other_losses=500)
    accounting = sample_accounting(ticking.profile())
    assert (row(accounting)["lost"], row(accounting)["closure"]) == (560, -500)
    assert accounting.by_cpu.closure_share[0] == pytest.approx(-500 / 260)


def test_throttled_ticks_are_no_missing_ones(ticking):
    ticking.clock([(USER, 100), (THROTTLED, 60), (USER, 100), (THROTTLED, 30), (USER, 90)])
    found = row(sample_accounting(ticking.profile()))
    assert (found["throttled"], found["idle"], found["busy"], found["closure"]) == (90, 0, 0, 0)


def test_throttle_without_an_end_lasts_until_the_clock_stops(ticking):
    ticking.clock([(USER, 100), (THROTTLED, 60)])
    profile = ticking.profile()
    stops = replace(profile.clock_stops, end_ns=np.array([2**64 - 1], np.uint64))
    found = row(sample_accounting(replace(profile, clock_stops=stops)))
    assert (found["throttled"], found["closure"]) == (60, 0)


def test_idle_time_holds_what_was_throttled_between_idle_hits(ticking):
    ticking.clock([(IDLE, 100), (THROTTLED, 50), (IDLE, 100)])
    accounting = sample_accounting(ticking.profile())
    assert accounting.idle_s[0] == pytest.approx(50 * 0.004)
    assert accounting.unsampled_s == 0.0
    ticking.clock([(USER, 100), (THROTTLED, 50), (USER, 100)], cpu=1)
    assert sample_accounting(ticking.profile()).unsampled_s == pytest.approx(50 * 0.004)


def test_cpu_that_was_off_line_is_not_expected_to_tick(ticking):
    end_ns = ticking.clock([(USER, 300)], cpu=1)
    ticking.clock([(USER, 200)], cpu=1, begin_ns=end_ns + 700_000_000)
    accounting = sample_accounting(ticking.profile())
    assert len(accounting.cpu) == len(accounting.clock) == 1
    assert row(accounting)["expected"] == row(accounting)["recorded"] == 500


def test_time_off_line_is_told_as_not_watched(ticking):
    end_ns = ticking.clock([(USER, 300)], cpu=1)
    end_ns = ticking.clock([(USER, 200)], cpu=1, begin_ns=end_ns + 700_000_000)
    accounting = sample_accounting(ticking.profile(begin_ns=START_NS, end_ns=end_ns))
    assert accounting.unwatched_s == pytest.approx(0.7)


def test_cpus_are_the_sums_of_their_clocks(ticking):
    for cpu in (3, 0):
        for clock, period_ns in enumerate(PERIODS_NS):
            fates = [(USER, 200), (HELD, 1 + clock), (USER, 100), (ASLEEP, cpu), (USER, 50)]
            ticking.clock(fates, cpu=cpu, clock=clock, period_ns=period_ns)
    accounting = sample_accounting(ticking.profile(cpu_accounting=ticking.idle_books()))
    assert accounting.cpu.tolist() == [0, 3]
    assert accounting.by_cpu.busy.tolist() == [10, 10]
    assert accounting.by_cpu.idle.tolist() == [0, 12]
    assert accounting.by_cpu.closure.tolist() == [0, 0]
    assert accounting.clock.tolist() == [0, 1, 2, 3] * 2


def test_phase_that_moves_with_every_restart_of_the_timers_is_followed(ticking):
    ticking.clock([(USER, 2000)])
    profile = ticking.profile()
    # Each 20 samples another perf stops and restarts the timer, 15 us later.
    moved = profile.samples.time_ns + (np.arange(2000) // 20 * 15_000).astype(np.uint64)
    found = row(
        sample_accounting(replace(profile, samples=replace(profile.samples, time_ns=moved)))
    )
    assert (found["recorded"], found["idle"], found["busy"]) == (2000, 0, 0)


def test_more_samples_than_ticks_do_not_balance(ticking):
    ticking.clock([(USER, 200)])
    profile = ticking.profile()
    twice = np.sort(np.append(np.arange(200), np.arange(0, 200, 20)))
    samples = replace(
        profile.samples,
        **{
            name: getattr(profile.samples, name)[twice]
            for name in ("hit_index", "time_ns", "cpu", "clock")
        },
    )
    found = row(sample_accounting(replace(profile, samples=samples)))
    assert (found["recorded"], found["idle"], found["closure"]) == (210, 0, -10)


def test_samples_in_another_order_are_the_same_samples(ticking):
    ticking.clock([(USER, 100), (HELD, 5), (IDLE, 100), (ASLEEP, 9), (USER, 10)])
    profile = ticking.profile()
    order = np.random.default_rng(3).permutation(len(profile.samples))
    samples = replace(
        profile.samples,
        **{
            name: getattr(profile.samples, name)[order]
            for name in ("hit_index", "time_ns", "cpu", "clock")
        },
    )
    assert row(sample_accounting(replace(profile, samples=samples))) == row(
        sample_accounting(profile)
    )


def test_samples_of_a_cpu_without_a_clock_are_told(ticking):
    ticking.clock([(USER, 100)])
    profile = ticking.profile()
    cpu = profile.samples.cpu.copy()
    cpu[:10] = 9
    accounting = sample_accounting(replace(profile, samples=replace(profile.samples, cpu=cpu)))
    assert accounting.unclocked == 10
    assert int(accounting.by_cpu.recorded.sum()) == 90


def test_cpu_whose_books_the_kernel_kept_has_them_beside(ticking):
    ticking.clock([(USER, 100)])
    ticking.clock([(USER, 100)], cpu=1)
    known = {0: {"idle_s": 0.25, "iowait_s": 0.5, "steal_s": 0.125}}
    accounting = sample_accounting(ticking.profile(cpu_accounting=known))
    assert accounting.accounted_idle_s[0] == 0.75
    assert accounting.accounted_steal_s[0] == 0.125
    assert np.isnan(accounting.accounted_idle_s[1])


def test_clock_without_a_sample_slept(ticking):
    ticking.clock([(ASLEEP, 250)])
    found = row(sample_accounting(ticking.profile()))
    assert (found["expected"], found["recorded"], found["idle"]) == (250, 0, 250)


def test_recording_without_a_timer_has_no_sample_accounting():
    assert sample_accounting(qsort_profile()) is None


def test_start_that_took_a_while_is_no_missing_tick(ticking):
    ticking.clock([(USER, 300)], phase_ns=900_000, begin_ns=START_NS + 5)
    assert row(sample_accounting(ticking.profile()))["closure"] == 0


def test_ticks_that_a_full_disk_cut_off_are_lost_and_nobody_slept(ticking):
    ticking.clock([(IDLE, 300), (ASLEEP, 40), (IDLE, 60), (ASLEEP, 500)])
    accounting = {0: {"idle_s": 3.6, "iowait_s": 0.0}}
    found = row(sample_accounting(ticking.profile(cpu_accounting=accounting, is_cut=True)))
    assert (found["lost"], found["idle"], found["busy"], found["closure"]) == (500, 40, 0, 0)
    assert sample_accounting(ticking.profile(is_cut=True)).unsampled_s == pytest.approx(500 * 0.004)
