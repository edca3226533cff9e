"""Whatever a recording says, estimates are finite, and intervals hold the time they are of."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from builders.examples import examples
from builders.sampling import Schedule, sampled_profile
from prospect.estimate.errors.design import sampling_design
from prospect.estimate.errors.error_bars import error_bars
from prospect.profile.model import ClockTable, SampleTable
from prospect.records import replace

ROWS = 4
NOTHING_BUT_ROW_0 = Schedule(np.zeros((1, 1)), np.zeros((1, 1), int), 0.01, ROWS)
BASE = sampled_profile(np.random.default_rng(1), NOTHING_BUT_ROW_0, (1_000_000,))
TIMES = st.integers(0, 2**64 - 1) | st.integers(5_000_000_000, 5_100_000_000)


def column(length, elements, kind):
    return arrays.arrays(kind, length, elements=elements)


@st.composite
def sample_tables(draw):
    length = draw(st.integers(0, 40))
    return SampleTable(
        hit_index=draw(column(length, st.integers(0, ROWS - 1), np.int32)),
        time_ns=draw(column(length, TIMES, np.uint64)),
        cpu=draw(column(length, st.integers(0, 3) | st.integers(0, 0xFFFF), np.uint16)),
        clock=draw(column(length, st.integers(0, 3) | st.integers(0, 255), np.uint8)),
    )


@st.composite
def clock_tables(draw):
    length = draw(st.sampled_from((0, 1, 2, 4, 8)))
    periods = st.floats(allow_nan=True) | st.sampled_from((1e6, 1.0, 4e6))
    return ClockTable(
        event=draw(column(length, st.integers(0, 1), np.uint16)),
        clock=draw(column(length, st.integers(0, 4), np.uint8)),
        cpu=draw(column(length, st.integers(0, 3) | st.integers(-(2**31), 2**31 - 1), np.int32)),
        period_ns=draw(column(length, periods, np.float64)),
        begin_ns=draw(column(length, TIMES, np.uint64)),
        end_ns=draw(column(length, TIMES, np.uint64)),
        lost=np.zeros(length, np.int64),
    )


def check(profile):
    row_of_hit = np.array([0, 1, 1, -1], np.int32)
    bars = error_bars(sampling_design(profile, 0), row_of_hit, 3, np.array([-1, 0, 1]))
    assert np.isfinite(bars.half_width_s).all()
    assert (bars.low_s <= bars.seconds).all()
    assert (bars.seconds <= bars.high_s).all()
    assert (bars.low_s >= 0).all()
    assert ((bars.half_width_s > 0) == (bars.seconds > 0)).all()
    assert np.isnan(bars.difference_half_width_s[0])


@settings(max_examples=examples(300))
@given(sample_tables(), clock_tables(), st.integers(1, 4))
def test_any_tables_give_finite_bars(samples, clocks, bank):
    count = np.bincount(samples.hit_index, minlength=ROWS)
    hits = replace(BASE.hits, count=count, period=count * 1_000_000)
    event = replace(BASE.run.events[0], clocks=bank, seconds_per_period=1e-9 / bank)
    run = replace(BASE.run, events=(event,))
    check(replace(BASE, run=run, hits=hits, samples=samples, clocks=clocks))


@settings(max_examples=examples(150))
@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.floats(0, 0.3), min_size=1, max_size=30),
    st.sampled_from([(1e6,), (2e6, 2e6), (4e6, 4e6, 4e6, 4e6), (4.7e6, 4.2e6, 3.7e6, 3.5e6)]),
)
def test_any_program_gives_finite_bars(seed, changes, periods_ns):
    random = np.random.default_rng(seed)
    start_s = np.array([[0.0, *sorted(changes)]])
    what = random.integers(-1, ROWS, start_s.shape)
    schedule = Schedule(start_s, what, 0.3, ROWS)
    check(sampled_profile(random, schedule, tuple(map(int, periods_ns))))
