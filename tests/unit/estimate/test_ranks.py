import numpy as np
import pytest

from builders.programs import switching
from builders.sampling import sampled_profile
from prospect.capture.events.clock_bank import clock_periods_ns
from prospect.estimate.errors.design import sampling_design
from prospect.estimate.errors.error_bars import error_bars
from prospect.estimate.statistics.row_limits import needed_seconds, separation_sentence, tied

ABOVE = np.array([-1, 0, 1])
SECONDS = np.array([1.0, 0.9, 0.2])
HALF = np.array([np.nan, 0.2, 0.1])


def test_a_row_is_alike_where_zero_is_in_the_interval_of_the_difference():
    assert tied(SECONDS, ABOVE, HALF).tolist() == [False, True, False]


def test_a_run_four_times_as_long_halves_the_interval():
    needed = needed_seconds(SECONDS, ABOVE, HALF, wall_s=10.0)
    assert np.isnan(needed[0])
    assert needed[1] == pytest.approx(40.0)
    assert needed[2] < 10.0


def test_equal_rows_need_a_run_of_no_length():
    needed = needed_seconds(np.ones(2), np.array([-1, 0]), np.array([np.nan, 0.1]), 1.0)
    assert needed[1] == np.inf


def sentence(needed_s, is_alike=(False, True, False)):
    return separation_sentence(np.array(is_alike), np.array([np.nan, needed_s, 5.0]), "functions")


def test_the_sentence_says_how_long_a_run_separates_the_first_rows():
    assert sentence(41.7) == (
        "The first 3 functions cannot all be told apart; a run of about 42 s would separate them."
    )
    assert "about 9.2 min would" in sentence(553.0)
    assert "about 4.4 h would" in sentence(16000.0)
    assert "too little for any run" in sentence(np.inf)
    assert sentence(41.7, (False, False, False)) == ""


def test_rows_of_equal_truth_are_told_apart_in_one_run_of_twenty():
    # Two states of equal share, a third beside them: whether a run tells them apart is chance.
    random = np.random.default_rng(1)
    schedule = switching(random, 3000, 0.5, (1e-3,) * 3, (0.3, 0.3, 0.4))
    truth = schedule.true_seconds()
    design = sampling_design(sampled_profile(random, schedule, clock_periods_ns(1000, 4)), 0)
    first = np.arange(0, 9000, 3)
    other = np.full(9000, -1)
    other[first + 1] = first
    bars = error_bars(design, np.arange(9000, dtype=np.int32), 9000, other)
    error = (bars.seconds - truth)[first] - (bars.seconds - truth)[first + 1]
    holds = np.abs(error) <= bars.difference_half_width_s[first + 1]
    assert 0.93 < holds.mean() < 0.97
    assert np.isnan(bars.difference_half_width_s[first]).all()
