import pytest

from prospect.render.text.numbers import Figures, counted, percent_digits, second_digits


@pytest.mark.parametrize(
    ("hits", "digits"), [(0, 0), (999, 0), (1000, 1), (999_999, 1), (1_000_000, 2)]
)
def test_a_percentage_gets_the_digits_its_hits_support(hits, digits):
    assert percent_digits(hits) == digits


@pytest.mark.parametrize(
    ("rate_hz", "digits"),
    [(1, 2), (100, 2), (200, 3), (256, 3), (1000, 3), (1024, 4), (20_000, 5), (10**9, 6)],
)
def test_seconds_get_the_digits_that_show_one_hit(rate_hz, digits):
    assert second_digits(7000, 7000 / rate_hz) == digits


def test_no_hits_have_two_digits():
    assert second_digits(0, 0.0) == 2
    assert second_digits(5, 0.0) == 2


def test_milliseconds_have_no_more_digits_than_seconds():
    assert Figures(384, 1.5, has_time=True).milliseconds(1.5) == "1500 ms"
    assert Figures(20_000, 1.0, has_time=True).milliseconds(1.5) == "1500.00 ms"
    assert Figures(20, 0.0, has_time=False).milliseconds(0.0) == "unknown"


def test_hits_without_time_show_a_dash():
    assert Figures(20, 0.0, has_time=False).seconds_column([0.0, 0.0]) == ["-", "-"]


def test_one_is_no_plural():
    assert [counted(1, "process"), counted(2, "process"), counted(0, "hit")] == [
        "1 process",
        "2 processes",
        "0 hits",
    ]
