"""Measures the time by which one sample makes the interrupted code slower on this machine.

It times fixed pieces of work, one in user space and one in the kernel, in turn with and without a
fast clock that samples as the recording does. The time that the clock adds, divided by its samples,
is the cost of one in ns. Turns in which another task had the CPU do not count. The cost is the
median of the differences, not the smallest, which is that of the turn whose half without samples
was disturbed most.

Source: the interval of a median between two of the ordered values, whatever their distribution:
David and Nagaraja, "Order Statistics", 3rd edition (2003), section 7.1.
"""

from __future__ import annotations

import math
import os
import time

from prospect.abi import constants as abi
from prospect.capture.events.clock_bank import shortest_period_ns
from prospect.capture.events.event_choice import CLOCK_HARDWARE, EVERY_TASK, SCOPE_SYSTEM
from prospect.capture.events.recorded_callers import sample_bytes
from prospect.capture.kernel import perf_syscalls
from prospect.capture.kernel.rings import Ring, next_smaller_bytes, ring_size_bytes
from prospect.errors import CaptureError
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from prospect.capture.events.event_choice import EventPlan

# Both kinds of work together take less than 60 ms on a free CPU of any machine.
_BUDGET_NS = 20_000_000
# The longest time for each kind until a loaded CPU has completed _FEWEST_PAIRS undisturbed.
_LOADED_BUDGET_NS = 200_000_000
_MOST_PAIRS = 48
_FEWEST_PAIRS = 5
# The most samples of one turn.
_RING_SAMPLES = 256
_USER_BYTES = 1 << 20
_KERNEL_BYTES = 4 << 20
# If the kernel throttles such a fast clock, there are fewer samples, at the same cost.
_PERIOD_NS = 20_000
# About the same on a CPU of a few GHz.
_PERIOD_CYCLES = 60_000
_THIS_TASK = 0


class SampleCost(NamedTuple):
    """The cost of a sample, in ns.

    Attributes:
        user_ns: of one in user space.
        spread_ns: the ± of `user_ns` at 95 %.
        kernel_ns: of one in the kernel, with its call chain; 0 if the kernel is not sampled.
    """

    user_ns: float
    spread_ns: float
    kernel_ns: float


def measure_sample_cost(plan: EventPlan) -> SampleCost | None:
    """Measure on one CPU, to which this binds the thread meanwhile; takes 60 ms if it is free.

    Returns:
        None if the kernel refuses another event, or the result is uncertain.
    """
    allowed = os.sched_getaffinity(0)
    cpu = min(allowed)
    try:
        os.sched_setaffinity(0, {cpu})
        try:
            return _measure(plan, cpu)
        finally:
            os.sched_setaffinity(0, allowed)
    except (OSError, CaptureError):
        return None


def median_and_spread(values: list[float]) -> tuple[float, float]:
    """Return the median and the wider side of its 95 % interval."""
    ordered = sorted(values)
    count = len(ordered)
    median = (ordered[(count - 1) // 2] + ordered[count // 2]) / 2
    # The number below the true median is binomial: its mean less 1.96 standard deviations.
    outside = max(0, int(count / 2 - 0.98 * math.sqrt(count)))
    return median, max(median - ordered[outside], ordered[-1 - outside] - median)


def _measure(plan: EventPlan, cpu: int) -> SampleCost | None:
    import zlib  # noqa: PLC0415 - rarely measured, and after the command as a rule

    clock = _Clock(plan, cpu)
    zero_fd = os.open("/dev/zero", os.O_RDONLY | os.O_CLOEXEC)
    try:
        content, target = bytes(_USER_BYTES), bytearray(_KERNEL_BYTES)
        user = _cost(clock, lambda: zlib.crc32(content))
        if user is None:
            return None
        if plan.attr.flags & abi.FLAG_EXCLUDE_KERNEL:
            return SampleCost(*user, kernel_ns=0.0)
        kernel = _cost(clock, lambda: os.readv(zero_fd, [target]))
        return SampleCost(*user, kernel_ns=kernel[0]) if kernel else None
    finally:
        os.close(zero_fd)
        clock.close()


class _Clock:
    """A fast clock on one CPU, and its ring."""

    def __init__(self, plan: EventPlan, cpu: int) -> None:
        timer_period_ns = max(_PERIOD_NS, shortest_period_ns())
        period = _PERIOD_CYCLES if plan.clock == CLOCK_HARDWARE else timer_period_ns
        ring_bytes = ring_size_bytes(_RING_SAMPLES * sample_bytes(plan.attr), 1)
        attr = plan.sampling_attr(period, ring_bytes // 2)
        target = EVERY_TASK if plan.scope == SCOPE_SYSTEM else _THIS_TASK
        self._fd = perf_syscalls.perf_event_open(attr.pack(), target, cpu)
        try:
            self._ring = _open_ring(self._fd, ring_bytes)
        except (OSError, CaptureError):
            os.close(self._fd)
            raise

    def start(self) -> None:
        perf_syscalls.enable_event(self._fd)

    def stop(self) -> int:
        """Stop; return the number of samples since the start."""
        perf_syscalls.disable_event(self._fd)
        slices: list[memoryview | bytes] = []
        head = self._ring.pending(slices)
        records = b"".join(slices)
        slices.clear()
        self._ring.release(head)
        return _count_samples(records)

    def close(self) -> None:
        self._ring.close()
        os.close(self._fd)


def _open_ring(fd: int, ring_bytes: int) -> Ring:
    """Map a ring, a smaller one if this user may not lock as much memory."""
    while True:
        try:
            return Ring(fd, ring_bytes)
        except OSError as error:
            ring_bytes = next_smaller_bytes(ring_bytes, error)


def _cost(clock: _Clock, work: Callable[[], object]) -> tuple[float, float] | None:
    """Return the time that a sample adds to the work, and its ±, in ns."""
    work()
    costs: list[float] = []
    begin_ns = time.perf_counter_ns()
    for _ in range(_MOST_PAIRS):
        budget_ns = _BUDGET_NS if len(costs) >= _FEWEST_PAIRS else _LOADED_BUDGET_NS
        if time.perf_counter_ns() - begin_ns >= budget_ns:
            break
        switches = preemptions()
        alone_ns = duration_ns(work)
        clock.start()
        sampled_ns = duration_ns(work)
        samples = clock.stop()
        if samples and preemptions() == switches:
            costs.append((sampled_ns - alone_ns) / samples)
    if len(costs) < _FEWEST_PAIRS:
        return None
    cost_ns, spread_ns = median_and_spread(costs)
    return (cost_ns, spread_ns) if cost_ns > 0 else None


def duration_ns(work: Callable[[], object]) -> int:
    """Time a call."""
    # Not this thread's CPU time, from which some kernels exclude interrupts.
    begin_ns = time.perf_counter_ns()
    work()
    return time.perf_counter_ns() - begin_ns


def preemptions() -> int:
    """Return how often another task preempted this thread."""
    import resource  # noqa: PLC0415 - rarely measured, as above

    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw


def _count_samples(records: bytes) -> int:
    at = samples = 0
    while at < len(records):
        kind = int.from_bytes(records[at : at + 4], "little")
        samples += kind == abi.PERF_RECORD_SAMPLE
        at += int.from_bytes(records[at + 6 : at + 8], "little")
    return samples
