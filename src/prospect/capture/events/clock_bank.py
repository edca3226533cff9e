"""The bank of clocks: splits a rate over several timers, so that no program is aliased with all.

Defined by: ``kernel/events/core.c`` (Linux 6.18), perf_swevent_start_hrtimer() and
perf_swevent_hrtimer(), for the way in which a timer follows its period.
"""

from __future__ import annotations

import os
import time

from prospect.capture.kernel.procfs import read_setting
from prospect.errors import UsageError

MAX_SAMPLE_RATE = "/proc/sys/kernel/perf_event_max_sample_rate"

# perf_swevent_start_hrtimer() silently stretches shorter periods to this.
_SHORTEST_PERIOD_NS = 10_000
_NS_PER_S = 1_000_000_000
# Relative rates of the clocks: primes, so that their periods have no common measure, and far
# enough apart that clocks started together soon diverge. Among all such primes below 400 that
# cost at most 3 % of precision, these measure a program most exactly that is aliased with a round
# fraction or multiple of the rate (tests/unit/capture/test_clock_bank.py says how exactly).
_BANK_WEIGHTS = (229, 257, 293, 307)
MOST_CLOCKS = len(_BANK_WEIGHTS)
# With -H 1, each of four clocks would tick once in four seconds: a short run might have no sample.
LEAST_BANK_HZ = 10
# The largest relative deviation of a counter's random rate.
_JITTER = 0.5


def clock_periods_ns(frequency_hz: int, clocks: int) -> tuple[int, ...]:
    """Split a total rate over a bank of clocks whose periods have no common measure.

    There is only one clock below `LEAST_BANK_HZ`: each of several would tick too rarely.
    """
    if clocks == 1 or frequency_hz < LEAST_BANK_HZ:
        return (round(_NS_PER_S / frequency_hz),)
    weights = _BANK_WEIGHTS[:clocks]
    return tuple(round(_NS_PER_S * sum(weights) / (weight * frequency_hz)) for weight in weights)


def total_rate_hz(periods_ns: tuple[int, ...]) -> int:
    """Return the samples a second of all clocks together, at least 1."""
    return max(1, round(sum(_NS_PER_S / period_ns for period_ns in periods_ns)))


def check_rate(frequency_hz: int, clocks: int) -> None:
    """Refuse a rate that this kernel would refuse or quietly lower.

    Raises:
        UsageError: with the rate that would work, or the setting to change.
    """
    if frequency_hz < 1:
        raise UsageError(f"the sampling rate must be at least 1 Hz, not {frequency_hz} (-H)")
    if not 1 <= clocks <= MOST_CLOCKS:
        raise UsageError(f"a bank has 1 to {MOST_CLOCKS} clocks, not {clocks} (--clocks)")
    limit_hz = read_setting(MAX_SAMPLE_RATE)
    if limit_hz is not None and frequency_hz > limit_hz:
        raise UsageError(
            f"{frequency_hz} Hz is above this kernel's limit of {limit_hz} samples a second: lower"
            f" -H, or run: sysctl kernel.perf_event_max_sample_rate={frequency_hz}"
        )
    if frequency_hz > (fastest_hz := fastest_rate_hz(clocks)):
        raise UsageError(
            f"{frequency_hz} Hz is above what the kernel's timer can do: lower -H to {fastest_hz}"
        )


def check_periods(periods_ns: tuple[int, ...]) -> None:
    """Refuse periods that this kernel's timer would quietly stretch.

    Raises:
        UsageError: one of them is too short.
    """
    if min(periods_ns) < shortest_period_ns():
        raise UsageError(
            f"a clock's period of {min(periods_ns)} ns is shorter than the kernel's timer can do:"
            f" give at least {shortest_period_ns()}"
        )


def fastest_rate_hz(clocks: int) -> int:
    """Return the highest total rate that the kernel's limit allows and its timers follow.

    The kernel applies its limit to each event (__perf_event_account_interrupt() in
    ``kernel/events/core.c``, Linux 6.18); a bank as a whole respects it.
    """
    # Periods are rounded to whole ns, so they may be half of one shorter.
    of_clock_hz = _NS_PER_S / (shortest_period_ns() - 0.5)
    weights = _BANK_WEIGHTS[:clocks]
    fastest_hz = int(of_clock_hz * sum(weights) / max(weights))
    limit_hz = read_setting(MAX_SAMPLE_RATE)
    return fastest_hz if limit_hz is None else min(fastest_hz, limit_hz)


def shortest_period_ns() -> int:
    """Return the shortest period of a timer; without high resolution, it is a scheduler tick.

    Source: hrtimer_forward() in ``kernel/time/hrtimer.c``, which raises a shorter interval to
    hrtimer_resolution, and hrtimer_get_res(), which gives that to clock_getres(2).
    """
    resolution_ns = round(time.clock_getres(time.CLOCK_MONOTONIC) * _NS_PER_S)
    return max(_SHORTEST_PERIOD_NS, resolution_ns)


def redrawn_rate_hz(frequency_hz: int) -> int:
    """Draw a counter's next rate at random; the mean of all draws is `frequency_hz`.

    A program may be aliased with a counter that keeps its rate, as with any single clock.
    """
    limit_hz = read_setting(MAX_SAMPLE_RATE)
    room = 0 if limit_hz is None else max(0.0, limit_hz / frequency_hz - 1)
    draw = int.from_bytes(os.urandom(4), "little") / (1 << 31) - 1
    return max(1, round(frequency_hz * (1 + min(_JITTER, room) * draw)))
