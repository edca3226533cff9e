import numpy as np
import pytest

from builders.examples import nightly
from builders.programs import switching
from builders.sampling import sampled_profile
from prospect.capture.events.clock_bank import clock_periods_ns
from prospect.estimate.errors import clock_sums as module
from prospect.estimate.errors.clock_sums import clock_sums
from prospect.estimate.errors.design import sampling_design
from prospect.records import asdict, replace

PERIODS_NS = clock_periods_ns(1000, 4)
RUNS = 400


def made(stay_s, length_s=1.0, seed=1):
    random = np.random.default_rng(seed)
    schedule = switching(random, RUNS, length_s, (stay_s,) * 3, (0.3, 0.5, 0.2))
    return schedule, sampling_design(sampled_profile(random, schedule, PERIODS_NS), 0)


def sums_of(design, row_of_hit):
    rows = int(row_of_hit.max()) + 1
    return clock_sums(design.ticks, design.blocks, row_of_hit.astype(np.int32), rows)


def test_clocks_agree_in_every_block_about_a_row_that_fills_its_cpu():
    _, design = made(1e-3)
    sums = sums_of(design, np.arange(3 * RUNS) // 3)
    for level in sums.by_level:
        # As far as the phases of grids are known: of 64 samples one is less than 0.1 us late.
        assert np.sqrt(level.variance).max() < 1e3  # ns
    # What they all miss is what was cut off at the ends.
    counted_ns = (sums.hits * np.array(PERIODS_NS)).sum(axis=1) / 4
    assert counted_ns - sums.bias_ns == pytest.approx(np.full(RUNS, 1e9), abs=2e4)


@pytest.mark.parametrize("stay_s", [*nightly(1e-4), 4e-3, 0.1])
def test_disagreement_is_the_variance_of_the_error_at_every_length_of_block(stay_s):
    schedule, design = made(stay_s)
    sums = sums_of(design, np.arange(3 * RUNS))
    half_width_s = design.seconds - sums.bias_ns * 1e-9 - schedule.true_seconds()
    for level in sums.by_level:
        assert level.variance.mean() * 1e-18 == pytest.approx(np.mean(half_width_s**2), rel=0.12)


def test_a_long_run_has_more_lengths_of_block_and_more_freedom_in_short_ones():
    _, design = made(1e-3, length_s=4.5)
    sums = sums_of(design, np.arange(3 * RUNS))
    freedom = [level.freedom.mean() for level in sums.by_level]
    assert freedom[0] == pytest.approx(3.0)
    assert freedom[1] == pytest.approx(3 * 4, rel=0.2)
    assert freedom[2] == pytest.approx(3 * 16, rel=0.2)


def test_too_many_rows_get_fewer_blocks_and_the_same_sums(monkeypatch):
    _, design = made(1e-3, length_s=4.5)
    rows = np.arange(3 * RUNS)
    whole = sums_of(design, rows)
    monkeypatch.setattr(module, "_MOST_SUMS", 3 * RUNS * 4 * 4)
    monkeypatch.setattr(module, "_LARGEST_TABLE", 1)
    less = sums_of(design, rows)
    assert (len(whole.by_level), len(less.by_level)) == (3, 2)
    assert np.array_equal(whole.hits, less.hits)
    assert whole.bias_ns == pytest.approx(less.bias_ns)
    for few, many in zip(less.by_level, whole.by_level, strict=False):
        assert few.variance == pytest.approx(many.variance)


def test_rows_without_a_hit_have_no_pairs():
    _, design = made(1e-3)
    sums = clock_sums(design.ticks, design.blocks, np.full(3 * RUNS, -1, np.int32), 2)
    assert len(sums.row) == 0
    assert sums.by_level[0].variance.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    "rows", [[0, 1, 2, 3, 4, 5], [-1, 0, 0, 2, -1, 0], [-1] * 6, [1, 1, 1, 1, 1, 1]]
)
def test_hits_counted_beforehand_give_the_sums_of_their_samples(rows):
    random = np.random.default_rng(3)
    schedule = switching(random, 2, 4.5, (3e-3,) * 3, (0.3, 0.5, 0.2))
    design = sampling_design(sampled_profile(random, schedule, PERIODS_NS), 0)
    assert design.blocks.hits is not None
    row_of_hit = np.array(rows, np.int32)
    found = clock_sums(design.ticks, design.blocks, row_of_hit, 6)
    plain = clock_sums(design.ticks, replace(design.blocks, hits=None), row_of_hit, 6)
    for name, column in asdict(plain).items():
        if name != "by_level":
            assert np.array_equal(getattr(found, name), column)
    assert len(found.by_level) == len(plain.by_level) == 3
    for one, other in zip(found.by_level, plain.by_level, strict=True):
        assert np.array_equal(one.variance, other.variance)
