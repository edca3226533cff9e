import numpy as np
import pytest

from prospect.announcing import pluralize
from prospect.estimate.errors.event_estimates import RowEstimates
from prospect.render.text.style import Figures, percent_digits, rank_column, second_digits


@pytest.mark.parametrize(
    ("hits", "digits"), [(0, 0), (999, 0), (1000, 1), (999_999, 1), (1_000_000, 2)]
)
def test_a_percentage_gets_the_digits_its_hits_support(hits, digits):
    assert percent_digits(hits) == digits


@pytest.mark.parametrize(
    ("rate_hz", "digits"),
    [(1, 2), (100, 2), (200, 3), (256, 3), (1000, 3), (1024, 3), (20_000, 5), (10**9, 6)],
)
def test_seconds_get_the_digits_that_show_one_hit(rate_hz, digits):
    assert second_digits(7000, 7000 / rate_hz) == digits


def test_no_hits_have_two_digits():
    assert second_digits(0, 0.0) == 2
    assert second_digits(5, 0.0) == 2


def test_milliseconds_have_no_more_digits_than_seconds():
    unknown = float("nan")
    assert Figures(384, 1.5, has_time=True).milliseconds_with_bar(1.5, unknown) == "1500 ms"
    assert Figures(20_000, 1.0, has_time=True).milliseconds_with_bar(1.5, unknown) == "1500.00 ms"
    assert Figures(20, 0.0, has_time=False).milliseconds_with_bar(0.0, 0.1) == "unknown"


@pytest.mark.parametrize(
    ("half_width_s", "shown"),
    [
        (0.0123, "1.512 ± 0.012"),
        (0.0456, "1.51 ± 0.05"),
        (0.123, "1.51 ± 0.12"),
        (0.97, "1.5 ± 1.0"),
        (3.0, "1.5 ± 3.0"),
        (40.0, "2 ± 40"),
        (1e-9, "1.512 ± 0.000"),
    ],
)
def test_a_time_has_the_digits_that_its_bar_supports(half_width_s, shown):
    assert Figures(1000, 1.0, has_time=True).with_bar(1.512, half_width_s) == shown


def test_milliseconds_are_rounded_where_the_bar_is_wider():
    figures = Figures(1000, 1.0, has_time=True)
    assert figures.milliseconds_with_bar(1.512, 0.0123) == "1512 ± 12 ms"
    assert figures.milliseconds_with_bar(1.512, 0.123) == "1510 ± 120 ms"


def test_points_stand_below_each_other():
    figures = Figures(1000, 1.0, has_time=True)
    times, bars = figures.timed_columns([1.512, 20.0, 100.0, 0.0], [0.012, 0.5, 40.0, 0.0])
    assert times == ["1.512", "20.0  ", "100    ", "0.000"]
    assert bars == ["0.012", "0.5  ", "40    ", "-"]


def test_ranks_say_which_rows_cannot_be_told_apart():
    column = np.zeros(4)
    estimates = RowEstimates(
        column,
        column,
        column,
        column,
        aliased=np.array([False, False, True, True]),
        tied=np.array([False, True, False, True]),
        needed_s=column,
    )
    assert rank_column(estimates) == ["1", "2=", "3!", "4=!"]


def test_hits_without_time_show_a_dash():
    assert Figures(20, 0.0, has_time=False).seconds_column([0.0, 0.0]) == ["-", "-"]


def test_one_is_no_plural():
    assert [pluralize(1, "process"), pluralize(2, "process"), pluralize(0, "sample")] == [
        "1 process",
        "2 processes",
        "0 samples",
    ]
