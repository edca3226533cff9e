import numpy as np
import pytest

from builders.examples import simulated
from builders.programs import periodic, switching
from builders.sampling import sampled_profile
from prospect.capture.events.clock_bank import clock_periods_ns
from prospect.estimate.errors.design import sampling_design
from prospect.estimate.errors.error_bars import alarms, error_bars

RUNS = simulated(1000)


def alarmed_rows(random, schedule, periods_ns):
    """Return bool[run, row]: what the alarm marks when each run is a report of its own."""
    rows = schedule.rows
    design = sampling_design(sampled_profile(random, schedule, periods_ns), 0)
    bars = error_bars(design, np.arange(rows, dtype=np.int32), rows)
    by_run = bars.alias_p.reshape(len(schedule.what), -1)
    return np.array([alarms(p_values) for p_values in by_run])


@pytest.mark.parametrize(
    ("stays_s", "length_s"),
    [
        ((50e-6,) * 12, 1.0),  # samples are independent: as many false alarms as there can be
        ((50e-6, 200e-6, 1e-3, 5e-3) * 3, 1.0),
        ((1e-3, 20e-3, 100e-3, 300e-3) * 3, 1.0),
    ],
)
def test_is_silent_in_99_of_100_honest_runs(stays_s, length_s):
    random = np.random.default_rng(1)
    shares = tuple(1.0 / (row + 1) / stay for row, stay in enumerate(stays_s))
    schedule = switching(random, RUNS, length_s, stays_s, shares)
    marked = alarmed_rows(random, schedule, clock_periods_ns(1000, 4))
    assert marked.any(axis=1).sum() <= RUNS / 100


def test_is_silent_about_rhythms_that_no_clock_is_in_step_with():
    random = np.random.default_rng(2)
    rate_hz = random.choice([60.0, 100.0, 250.0, 500.0, 1000.0], RUNS)
    schedule = periodic(random, 1.0, rate_hz, random.uniform(0.1, 0.9, RUNS))
    marked = alarmed_rows(random, schedule, clock_periods_ns(1000, 4))
    assert marked.any(axis=1).sum() <= RUNS / 100


def test_fires_when_one_rate_is_forced_on_two_clocks_that_see_different_phases():
    # 30 % of each ms, two clocks of 500 Hz: each sees one phase for ever. Their phases fall on
    # different sides of the program in 2 * 0.3 * 0.7 = 42 % of runs, and nothing can be seen
    # in the others.
    random = np.random.default_rng(3)
    schedule = periodic(random, 1.0, np.full(RUNS, 1000.0), np.full(RUNS, 0.3))
    periods_ns = (2_000_000, 2_000_000)
    marked = alarmed_rows(random, schedule, periods_ns).any(axis=1)
    random = np.random.default_rng(3)
    schedule = periodic(random, 1.0, np.full(RUNS, 1000.0), np.full(RUNS, 0.3))
    counts = sampled_profile(random, schedule, periods_ns).hits.count.reshape(RUNS, 2)
    differs = (counts > 100).all(axis=1)
    assert 0.38 < differs.mean() < 0.46
    assert np.array_equal(marked, differs)


def test_fires_when_a_clock_of_the_bank_is_in_step_all_the_time():
    random = np.random.default_rng(4)
    periods_ns = clock_periods_ns(1000, 4)
    rates = np.full(RUNS, 1e9 / periods_ns[1])
    schedule = periodic(random, 1.0, rates, random.uniform(0.2, 0.8, RUNS))
    assert alarmed_rows(random, schedule, periods_ns).any(axis=1).mean() > 0.999


def test_one_clock_tests_nothing():
    random = np.random.default_rng(5)
    schedule = periodic(random, 1.0, np.full(3, 1000.0), np.full(3, 0.3))
    assert not alarmed_rows(random, schedule, clock_periods_ns(1000, 1)).any()


def test_an_alarm_is_no_row_that_was_not_tested():
    assert alarms(np.array([np.nan, 1e-9, 0.5, np.nan])).tolist() == [False, True, False, False]
    assert not alarms(np.full(3, np.nan)).any()
