import itertools

import numpy as np
import pytest

from builders.programs import switching
from builders.sampling import BEGIN_NS, Schedule, clock_table, sampled_profile
from prospect.capture.events.clock_bank import clock_periods_ns
from prospect.estimate.clocks.grid import tick_grid
from prospect.estimate.errors.design import sampling_design
from prospect.estimate.errors.error_bars import error_bars
from prospect.estimate.errors.local_error import MISSING, OUTSIDE, tick_sequence
from prospect.estimate.errors.ticks import DueTicks, event_ticks
from prospect.profile.model import STOP_THROTTLED, ClockStopTable
from prospect.records import replace

PERIODS_NS = clock_periods_ns(1000, 4)


def one_row(cpus=1, length_s=1.0):
    return Schedule(np.zeros((cpus, 1)), np.zeros((cpus, 1), int), length_s, 1)


def mixed(random, cpus=2, length_s=1.0):
    return switching(random, cpus, length_s, (1e-3, 2e-3), (1, 1))


def thinned(profile, keep):
    """Return the profile with some of its samples only."""
    columns = vars(profile.samples)
    kept = {name: column[keep] for name, column in columns.items() if column is not None}
    samples = replace(profile.samples, **kept)
    count = np.bincount(samples.hit_index, minlength=len(profile.hits))
    return replace(profile, samples=samples, hits=replace(profile.hits, count=count))


def ticks_of(profile):
    return event_ticks(profile, 0, tick_grid(profile))


def test_every_tick_of_the_grid_is_counted_and_has_its_sample():
    profile = sampled_profile(np.random.default_rng(1), one_row(3), PERIODS_NS)
    ticks = ticks_of(profile)
    clocks = profile.samples.cpu.astype(int) * 4 + profile.samples.clock
    assert np.array_equal(ticks.count.ravel(), np.bincount(clocks))
    assert (np.diff(ticks.due_ns[ticks.start[1] : ticks.start[2]]) > 0).all()


def test_samples_are_due_where_their_tick_was_however_late_they_are():
    random = np.random.default_rng(2)
    profile = sampled_profile(random, one_row(), PERIODS_NS, lateness_s=200e-6)
    ticks = ticks_of(profile)
    for clock, period_ns in enumerate(PERIODS_NS):
        due_ns = ticks.due_ns[ticks.clock == clock]
        # The earliest of 64 samples tells where the grid is.
        assert np.allclose(np.diff(due_ns), period_ns, atol=40e3)


def test_ticks_that_gave_no_sample_are_counted_and_have_their_places():
    random = np.random.default_rng(3)
    profile = sampled_profile(random, one_row(), PERIODS_NS)
    keep = random.random(len(profile.samples)) < 0.6
    thin_profile = thinned(profile, keep)
    full, thin = ticks_of(profile), ticks_of(thin_profile)
    assert abs(full.count.sum() - thin.count.sum()) <= 1
    sequence = tick_sequence(thin, thin_profile.samples.hit_index, 100)
    inside = sequence[sequence != OUTSIDE]
    assert len(inside) == thin.count.sum()
    assert np.count_nonzero(inside == MISSING) == thin.count.sum() - keep.sum()


@pytest.mark.parametrize("cpus", [1, 3])
def test_ticks_of_one_clock_need_no_line_of_time(cpus):
    random = np.random.default_rng(11)
    profile = sampled_profile(random, one_row(cpus), PERIODS_NS[:1])
    keep = random.random(len(profile.samples)) < 0.6
    thin = thinned(profile, keep)
    # Some clocks stop for a while: of each the grid has two stretches then.
    stops = ClockStopTable(
        clock_index=np.array([0], np.int32),
        begin_ns=np.array([BEGIN_NS + 400_000_000], np.uint64),
        end_ns=np.array([BEGIN_NS + 400_000_500], np.uint64),
        kind=np.array([STOP_THROTTLED], np.uint8),
    )
    thin = replace(thin, clock_stops=stops)
    ticks = ticks_of(thin)
    assert not isinstance(ticks, DueTicks)
    in_order = thin.samples.time_ns.take(ticks.order).astype(np.int64)
    for first, end in itertools.pairwise(ticks.start.tolist()):
        assert (np.diff(in_order[first:end]) > 0).all()
    missing = ticks.missing.number.sum() + ticks.missing.at_end.sum()
    assert abs(missing - (len(profile.samples) - keep.sum())) <= cpus
    steps = np.diff(in_order) / PERIODS_NS[0]
    after = ticks.missing.after[~np.isin(ticks.missing.after, ticks.start)]
    number = ticks.missing.number[~np.isin(ticks.missing.after, ticks.start)]
    # But where a clock stopped.
    assert np.count_nonzero(np.abs(steps[after - 1] - 1 - number) > 0.5) <= cpus
    sequence = tick_sequence(ticks, thin.samples.hit_index, 100)
    assert np.count_nonzero(sequence == MISSING) == missing


def test_long_gaps_are_shortened_and_stretches_are_kept_apart():
    random = np.random.default_rng(4)
    profile = sampled_profile(random, one_row(2), PERIODS_NS)
    early = profile.samples.time_ns < BEGIN_NS + 300_000_000
    late = profile.samples.time_ns > BEGIN_NS + 700_000_000
    cut = thinned(profile, early | late)
    sequence = tick_sequence(ticks_of(cut), cut.samples.hit_index, 3)
    gaps = "".join(".?#"[code] for code in np.where(sequence >= 0, 0, -sequence))
    assert [part for part in gaps.replace(".", " ").split() if part] == [
        "???",
        "###",
        "???",
        "###",
    ]


def test_a_clock_that_starts_with_the_stretch_ticks_a_period_later_for_the_first_time():
    profile = sampled_profile(np.random.default_rng(5), one_row(), PERIODS_NS)
    samples = profile.samples
    first = int(samples.time_ns[samples.clock == 0].min())
    clocks = replace(profile.clocks, begin_ns=np.full(4, first - PERIODS_NS[0] - 5000, np.uint64))
    ticks = ticks_of(replace(profile, clocks=clocks))
    assert ticks.own.first_ns[0, 0] == pytest.approx(PERIODS_NS[0], abs=2e4)
    assert ticks.count[0, 0] == np.count_nonzero(samples.clock == 0)


def test_a_cpu_that_leaves_and_comes_back_has_two_stretches():
    profile = sampled_profile(np.random.default_rng(6), one_row(2), PERIODS_NS)
    middle = BEGIN_NS + 500_000_000
    away = (
        (profile.samples.cpu == 1)
        & (profile.samples.time_ns >= middle - 100_000_000)
        & (profile.samples.time_ns < middle)
    )
    before = clock_table(2, PERIODS_NS, BEGIN_NS, BEGIN_NS + 1_000_000_000)
    back = clock_table(1, PERIODS_NS, middle, BEGIN_NS + 1_000_000_000)
    before.end_ns[4:] = middle - 100_000_000
    clocks = type(before)(
        **{
            name: np.concatenate([getattr(before, name), getattr(back, name)])
            for name in vars(before)
        }
    )
    clocks.cpu[8:] = 1
    ticks = ticks_of(replace(thinned(profile, ~away), clocks=clocks))
    assert len(ticks.length_ns) == 3
    assert np.diff(ticks.start).sum() == np.count_nonzero(~away)
    assert np.array_equal(ticks.count.sum(axis=1), np.diff(ticks.start))


def test_samples_off_every_grid_are_not_put_on_one():
    random = np.random.default_rng(7)
    profile = sampled_profile(random, one_row(), PERIODS_NS)
    anywhere = BEGIN_NS + np.sort(random.integers(0, 10**9, len(profile.samples))).astype(np.uint64)
    profile = replace(profile, samples=replace(profile.samples, time_ns=anywhere))
    assert ticks_of(profile) is None
    assert not sampling_design(profile, 0).sees_rhythm


def test_a_grid_that_moves_whenever_the_kernel_restarts_its_timers_is_followed():
    random = np.random.default_rng(10)
    profile = sampled_profile(random, mixed(random, 1, 20.0), PERIODS_NS)
    time_ns = profile.samples.time_ns
    # Each restart moves all grids a little; together they move by more than a period.
    restarts = (time_ns - np.uint64(BEGIN_NS)) // np.uint64(50_000_000)
    moved = replace(profile.samples, time_ns=time_ns + restarts * np.uint64(15_000))
    ticks = ticks_of(replace(profile, samples=moved))
    # But for the last ones, which come after the end of the stretch.
    assert np.abs(ticks.count[0] - np.bincount(profile.samples.clock)).max() <= 2
    assert ticks.missing.number.sum() + ticks.missing.at_end.sum() <= len(time_ns) / 1000
    assert sampling_design(replace(profile, samples=moved), 0).sees_rhythm


def test_a_clock_that_was_throttled_had_no_ticks_then():
    profile = sampled_profile(np.random.default_rng(11), one_row(), PERIODS_NS)
    begin, end = BEGIN_NS + 400_000_000, BEGIN_NS + 600_000_000
    away = (profile.samples.time_ns > begin) & (profile.samples.time_ns < end)
    stops = ClockStopTable(
        clock_index=np.arange(4, dtype=np.int32),
        kind=np.full(4, STOP_THROTTLED, np.uint8),
        begin_ns=np.full(4, begin, np.uint64),
        end_ns=np.full(4, end, np.uint64),
    )
    kept = thinned(profile, ~away)
    ticks, without = ticks_of(replace(kept, clock_stops=stops)), ticks_of(kept)
    assert abs(ticks.count.sum() - len(kept.samples)) <= 4
    assert without.count.sum() == len(profile.samples)


@pytest.mark.parametrize(
    "damage",
    [
        {"period_ns": np.full(8, np.nan)},
        {"period_ns": np.zeros(8)},
        {"period_ns": np.full(8, 1e-300)},
        {"period_ns": np.array([1e6] * 7 + [5.0])},
        {"end_ns": np.zeros(8, np.uint64)},
        {"begin_ns": np.full(8, 2**64 - 1, np.uint64), "end_ns": np.full(8, 2**64 - 1, np.uint64)},
        {"begin_ns": np.zeros(8, np.uint64), "end_ns": np.full(8, 2**63 - 1, np.uint64)},
        {"clock": np.zeros(8, np.uint8)},
        {"clock": np.full(8, 200, np.uint8)},
        {"cpu": np.full(8, -5, np.int32)},
        {"cpu": np.full(8, 2**31 - 1, np.int32)},
        {"cpu": np.arange(8, dtype=np.int32)},
        {"event": np.full(8, 9, np.uint16)},
    ],
)
def test_clocks_that_make_no_sense_are_not_believed(damage):
    profile = sampled_profile(np.random.default_rng(8), mixed(np.random.default_rng(8)), PERIODS_NS)
    profile = replace(profile, clocks=replace(profile.clocks, **damage))
    rows = np.arange(4, dtype=np.int32)
    bars = error_bars(sampling_design(profile, 0), rows, 4)
    assert np.isfinite(bars.half_width_s).all()
    assert (bars.half_width_s > 0).all()
    assert (bars.low_s <= bars.seconds).all()
    assert (bars.seconds <= bars.high_s).all()


def test_times_of_samples_that_make_no_sense_are_survived():
    random = np.random.default_rng(9)
    profile = sampled_profile(random, mixed(random), PERIODS_NS)
    for time_ns in (0, 2**64 - 1, BEGIN_NS):
        same = np.full(len(profile.samples), time_ns, np.uint64)
        odd = replace(profile, samples=replace(profile.samples, time_ns=same))
        bars = error_bars(sampling_design(odd, 0), np.arange(4, dtype=np.int32), 4)
        assert np.isfinite(bars.half_width_s).all()
