"""How a rate is spread over clocks, and that no program is in step with all of them."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from prospect.capture.events import clock_bank
from prospect.capture.events.clock_bank import (
    LEAST_BANK_HZ,
    MOST_CLOCKS,
    check_periods,
    check_rate,
    clock_periods_ns,
    fastest_rate_hz,
    redrawn_rate_hz,
    total_rate_hz,
)
from prospect.errors import UsageError


@pytest.fixture
def limit(monkeypatch):
    def set_limit(limit_hz):
        monkeypatch.setattr(clock_bank, "read_setting", lambda _: limit_hz)

    return set_limit


def test_one_clock_has_the_rate_asked_for():
    assert clock_periods_ns(200, 1) == (5_000_000,)
    assert clock_periods_ns(1, 1) == (1_000_000_000,)


@pytest.mark.parametrize("clocks", [1, 2, 3, 4])
def test_a_seldom_rate_has_one_clock(clocks):
    assert clock_periods_ns(1, clocks) == (1_000_000_000,)
    assert len(clock_periods_ns(LEAST_BANK_HZ - 1, clocks)) == 1
    assert len(clock_periods_ns(LEAST_BANK_HZ, clocks)) == clocks


@pytest.mark.parametrize("clocks", [1, 2, 3, 4])
@pytest.mark.parametrize("rate_hz", [10, 13, 200, 1000, 4001, 20_000, 100_000])
def test_the_clocks_together_have_the_rate_asked_for(rate_hz, clocks):
    periods_ns = clock_periods_ns(rate_hz, clocks)
    assert len(set(periods_ns)) == clocks
    # A period is a whole number of ns.
    assert sum(1e9 / p for p in periods_ns) == pytest.approx(rate_hz, rel=5e-5)
    assert total_rate_hz(periods_ns) == pytest.approx(rate_hz, rel=5e-5)


@pytest.mark.parametrize("clocks", [2, 3, 4])
@pytest.mark.parametrize("rate_hz", [10, 200, 997, 1000, 100_000])
def test_no_two_clocks_beat_together(rate_hz, clocks):
    periods_ns = clock_periods_ns(rate_hz, clocks)
    for i, first in enumerate(periods_ns):
        for second in periods_ns[i + 1 :]:
            near = Fraction(first, second).limit_denominator(12)
            # Meeting again after a dozen ticks they are a good part of a tick apart by then.
            drift = abs(first * near.denominator / second - near.numerator)
            assert drift > 0.008
            assert math.lcm(first, second) > 50 * first


def relative_error(periods, ratio, samples, share=0.3):
    """Return a lock-step program's standard error over that of independent samples.

    The program is in one of its phases for `share` of its period, and has `ratio` periods for
    each tick of all clocks together; clocks start at random. A clock's estimate is the mean of an
    indicator at evenly spaced points: of its Fourier series, harmonic h is damped by the Dirichlet
    kernel of its n points. Eight harmonics are 96 % of the variance.
    """
    harmonics = np.arange(1, 9)
    coefficients = 2 * (np.sin(np.pi * harmonics * share) / (np.pi * harmonics)) ** 2
    variance = 0.0
    for period in periods:
        points = math.floor(samples / period)
        angle = np.pi * harmonics * ratio * period
        sine = np.sin(angle)
        aliased = np.abs(sine) < 1e-9
        damped = np.sin(points * angle) / np.where(aliased, 1.0, points * sine)
        variance += float((np.where(aliased, 1.0, damped**2) * coefficients).sum())
    return math.sqrt(variance / len(periods) ** 2 / (share * (1 - share) / samples))


MULTIPLES = (*range(1, 13), 15, 16, 20, 25, 30, 40, 50, 60, 100)
ROUND_RATIOS = sorted({a / b for a in MULTIPLES for b in (*range(1, 13), 20)})


def bank(clocks):
    periods_ns = clock_periods_ns(1000, clocks)
    return [period_ns / 1e6 for period_ns in periods_ns]


@pytest.mark.parametrize(
    ("clocks", "samples", "most"),
    [(4, 200, 1.8), (4, 1000, 0.6), (4, 4000, 0.6), (3, 1000, 1.5), (2, 1000, 2.0)],
)
def test_program_in_step_with_a_round_part_of_the_rate_reads_true(clocks, samples, most):
    worst = max(relative_error(bank(clocks), ratio, samples) for ratio in ROUND_RATIOS)
    assert worst < most


def test_one_clock_is_fooled_by_the_same_programs():
    errors = [relative_error(bank(1), ratio, 1000) for ratio in ROUND_RATIOS]
    assert max(errors) > 30


@pytest.mark.parametrize(
    ("hz", "clocks", "says"),
    [
        (0, 1, "at least 1 Hz"),
        (-5, 1, "at least 1 Hz"),
        (100, 5, "1 to 4"),
        (100, 0, "1 to 4"),
        (3001, 1, "limit of 3000 .*=3001"),
        (12_000, 4, "limit of 3000 .*=12000"),
    ],
)
def test_rates_that_cannot_be_are_refused(limit, hz, clocks, says):
    limit(3000)
    with pytest.raises(UsageError, match=says):
        check_rate(hz, clocks)


def test_rate_that_the_timer_would_quietly_lower_is_refused(limit):
    limit(10_000_000)
    check_rate(100_000, 1)
    with pytest.raises(UsageError, match="lower -H to 100005"):
        check_rate(101_000, 1)


@pytest.mark.parametrize("clocks", range(1, MOST_CLOCKS + 1))
def test_fastest_rate_is_the_last_whose_periods_the_timer_follows(limit, clocks):
    limit(10_000_000)
    fastest_hz = fastest_rate_hz(clocks)
    assert min(clock_periods_ns(fastest_hz, clocks)) == 10_000
    check_rate(fastest_hz, clocks)
    check_periods(clock_periods_ns(fastest_hz, clocks))
    with pytest.raises(UsageError):
        check_rate(fastest_hz + 1, clocks)


def test_timer_without_high_resolution_is_as_slow_as_the_scheduler_tick(limit, monkeypatch):
    limit(100_000)
    monkeypatch.setattr(clock_bank.time, "clock_getres", lambda _: 0.004)
    check_rate(250, 1)
    with pytest.raises(UsageError, match="lower -H to 250"):
        check_rate(251, 1)
    with pytest.raises(UsageError, match="at least 4000000"):
        check_periods((4_000_000, 3_999_999))


def test_redrawn_rates_keep_their_mean_and_spread_around_it(limit):
    limit(100_000)
    rates = [redrawn_rate_hz(1000) for _ in range(4000)]
    assert min(rates) >= 500
    assert max(rates) <= 1500
    assert len(set(rates)) > 500
    # Uniform over 1000 Hz: five standard errors of the mean.
    assert sum(rates) / len(rates) == pytest.approx(1000, abs=5 * 1000 / math.sqrt(12 * 4000))


@pytest.mark.parametrize(("limit_hz", "least", "most"), [(1000, 1000, 1000), (1100, 900, 1100)])
def test_redrawn_rates_stay_below_the_kernels_limit_with_their_mean(limit, limit_hz, least, most):
    limit(limit_hz)
    rates = {redrawn_rate_hz(1000) for _ in range(500)}
    assert least <= min(rates)
    assert max(rates) <= most


def test_redrawn_rate_is_never_none(limit):
    limit(None)
    assert {redrawn_rate_hz(1) for _ in range(100)} <= {1, 2}
