"""How each event's periods, or else its hits, become time.

The periods of a hardware counter become time by what the counter counted between samples.

The kernel begins at a period of 1 and adapts it to the rate that was asked for, so the first
samples of a recording represent next to nothing, and there may be thousands of them. A sample
represents its period: what the counter gained since the sample before it. Between two samples
of one CPU both the gain and the time are known; their ratio, where the counter never stood still,
is the CPU's speed. Idle CPUs halt the counter, so ratios of idle times are low and have few cycles:
the median by cycles is the speed at which cycles were spent.
Source: ``kernel/events/core.c`` perf_adjust_period(), __perf_event_account_interrupt(), Linux 6.18.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from prospect.abi import constants as abi
from prospect.assembly.extras import number_of
from prospect.assembly.tables.clocks import clock_count
from prospect.profile.run_info import EventInfo
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.abi.attr import EventAttr, EventDescription
    from prospect.abi.recorded_facts import RecordingInfo
    from prospect.events.record_columns import Events, Samples

_NS = 1e-9
_NS_PER_S = 1e9
# With fewer pairs of samples the rate that was asked for says more.
_FEWEST_PAIRS = 32
_MOST_PAIRS = 1 << 17
_BLOCKS = 16
# A CPU's type of PMU is above the event's own bits (PERF_PMU_TYPE_SHIFT).
_EVENT_BITS = (1 << 32) - 1
_CYCLES = {abi.PERF_COUNT_HW_CPU_CYCLES, abi.PERF_COUNT_HW_REF_CPU_CYCLES}
_CYCLES_NAME = re.compile(r"(?:.*/)?(?:cpu[-_]|ref-)?cycles(?![\w-]).*|cpu_clk_unhalted.*")
_OCCASIONAL_TYPES = {abi.PERF_TYPE_SOFTWARE, abi.PERF_TYPE_TRACEPOINT, abi.PERF_TYPE_BREAKPOINT}


def event_infos(
    info: RecordingInfo, events: Events, most_s: float, *, by_cpu: bool
) -> tuple[EventInfo, ...]:
    """Say how the periods or hits of each event become seconds; `most_s` as in `counter_time`."""
    return tuple(
        event_info(
            event,
            info,
            counter_time(events.samples, row, event, by_cpu=by_cpu, most_s=most_s),
        )
        for row, event in enumerate(info.events)
    )


def event_info(
    event: EventDescription, info: RecordingInfo, time: CounterTime | None = None
) -> EventInfo:
    """Say how an event's periods, or else its hits, become seconds.

    Args:
        event: what the recording says of the event.
        info: what the recording says of itself.
        time: what the samples say, None without any.
    """
    attr = event.attr
    rate_hz = float(attr.frequency_hz or 0)
    is_x86 = info.arch.startswith(("x86", "i"))
    is_clock = attr.type == abi.PERF_TYPE_SOFTWARE and attr.config in (
        abi.PERF_COUNT_SW_CPU_CLOCK,
        abi.PERF_COUNT_SW_TASK_CLOCK,
    )
    if is_clock and not rate_hz and attr.sample_period:
        stated_hz = number_of(info.extras.get("frequency_hz"))
        rate_hz = stated_hz if stated_hz >= 1 else 1e9 / attr.sample_period
    # Cycles and the like go on while a CPU runs; faults, switches and tracepoints do not.
    is_steady = is_clock or attr.type not in _OCCASIONAL_TYPES
    clocks = clock_count(info) if is_clock else 1
    found = time if time and not is_clock else CounterTime()
    per_hit = 1.0 / rate_hz if rate_hz and is_steady and not found.periods_vary else 0.0
    stated = _seconds_per_cycle(attr, info)
    if stated and found.relative_error == 1.0:
        found = found._replace(units_per_s=0.0, relative_error=0.0)
    per_unit = 1.0 / found.units_per_s if found.units_per_s > 0 else stated
    return EventInfo(
        name=event.name,
        seconds_per_period=_NS / clocks if is_clock else per_unit,
        seconds_per_hit=per_hit,
        frequency_hz=rate_hz,
        excludes_kernel=bool(attr.flags & abi.FLAG_EXCLUDE_KERNEL),
        clocks=clocks,
        weighs_periods=found.periods_vary,
        relative_error=found.relative_error,
        sample_period=0 if is_clock or attr.frequency_hz else attr.sample_period,
        most_frames=0 if attr.sample_stack_user else attr.most_frames,
        unit_mask=attr.config >> 8 & 0xFF if attr.type == abi.PERF_TYPE_RAW and is_x86 else 0,
    )


def _seconds_per_cycle(attr: EventAttr, info: RecordingInfo) -> float:
    """Return what a cycle is worth where the recorder said how fast the CPUs are, else 0.0.

    It serves if there are too few samples to say (`counter_time`).
    """
    is_cycles = (attr.type, attr.config) == (abi.PERF_TYPE_HARDWARE, abi.PERF_COUNT_HW_CPU_CYCLES)
    mhz = number_of(info.extras.get("cpu_mhz"))
    return 1e-6 / mhz if is_cycles and mhz >= 1 else 0.0


class CounterTime(NamedTuple):
    """How an event's periods become time.

    Attributes:
        periods_vary: whether samples represent different amounts, so that hits are no measure.
        units_per_s: what the counter gains in a second of running; 0.0 if that is no time.
        relative_error: standard deviation of that over the recording, as a share of it.
    """

    periods_vary: bool = False
    units_per_s: float = 0.0
    relative_error: float = 0.0


def counter_time(
    samples: Samples,
    event_index: int,
    description: EventDescription,
    *,
    by_cpu: bool,
    most_s: float,
) -> CounterTime:
    """Find out how the periods of one event's samples become time.

    Args:
        samples: of all events.
        event_index: the event's row in the recording.
        description: what the recording says of it.
        by_cpu: whether its counters belong to CPUs; else to threads.
        most_s: all CPUs' time together, which no rate makes more of; 0.0 if unknown.
    """
    if samples.period.strides == (0,) or not len(samples):  # a broadcast scalar
        return CounterTime()
    rows = np.flatnonzero(samples.event == event_index)
    period = samples.period.take(rows)
    if not len(period) or period.min() == period.max():
        return CounterTime()
    rate_hz = description.attr.frequency_hz or 0
    if not (rate_hz and counts_cycles(description)):
        return CounterTime(periods_vary=True)
    amount = np.minimum(period, np.uint64(1 << 62)).astype(np.float64)
    least = float(amount.sum()) / most_s if most_s > 0 else 0.0
    owner = samples.cpu if by_cpu else samples.task >> np.uint64(32)
    speed, weight = _speeds(owner.take(rows), samples.time_ns.take(rows), amount)
    if len(speed) < _FEWEST_PAIRS:
        # The rate by the longest periods, if they are those of the rate that was asked for.
        return CounterTime(True, max(rate_hz * _median(amount, amount), least), 1.0)
    median = _median(speed, weight)
    return CounterTime(True, max(median, least), _spread(speed, weight, median))


def counts_cycles(description: EventDescription) -> bool:
    """Return whether an event counts what goes on as long as a CPU runs."""
    attr = description.attr
    if attr.type == abi.PERF_TYPE_HARDWARE:
        return attr.config & _EVENT_BITS in _CYCLES
    return _CYCLES_NAME.fullmatch(description.name.lower()) is not None


def _speeds(
    owner: NDArray[np.uint64] | NDArray[np.uint16],
    time_ns: NDArray[np.uint64],
    amount: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the speed between each two samples of a counter in units a second, and its units."""
    order = np.argsort(owner, kind="stable")
    owner, time, amount = owner.take(order), time_ns.take(order).view(np.int64), amount.take(order)
    follows = (owner[1:] == owner[:-1]) & (time[1:] > time[:-1])
    later = np.flatnonzero(follows) + 1
    later = later[:: max(1, len(later) // _MOST_PAIRS)]
    elapsed_s = (time.take(later) - time.take(later - 1)) / _NS_PER_S
    gained = amount.take(later)
    return gained / elapsed_s, gained


def _median(values: NDArray[np.float64], weight: NDArray[np.float64]) -> float:
    """Return the value below which half of the weight is."""
    order = np.argsort(values)
    running = np.cumsum(weight.take(order))
    if not running[-1] > 0:
        return 0.0
    return float(values[order[np.searchsorted(running, running[-1] / 2.0)]])


def _spread(speed: NDArray[np.float64], weight: NDArray[np.float64], median: float) -> float:
    """Return how far the speed differs from one CPU, or time, to another, as a share of it."""
    if not median > 0:
        return 0.0
    pieces = np.array_split(np.arange(len(speed)), _BLOCKS)
    units = np.array([weight[piece].sum() for piece in pieces])
    medians = np.array([_median(speed[piece], weight[piece]) for piece in pieces])
    variance = float(((medians - median) ** 2 * units).sum() / units.sum())
    return min(float(np.sqrt(variance)) / median, 1.0)
