"""The time that taking one sample costs the interrupted code, measured on this machine.

A sampled program is slower by this time at each sample.

Fixed pieces of work, one in user space and one in the kernel, are timed in turn with and without a
fast clock that samples as the recording does; the time that the clock adds, divided by its samples,
is the cost of one in ns. Turns in which another task had the CPU do not count. The cost is the
median of the differences, not the least: the least is of the turn whose half without samples was
disturbed most.

Source: the interval of a median between two of the ordered values, whatever their distribution:
David and Nagaraja, "Order Statistics", 3rd edition (2003), section 7.1.
"""

from __future__ import annotations

import math
import os
import time

from prospect.abi import constants as abi
from prospect.capture.events.clock_bank import shortest_period_ns
from prospect.capture.events.event_choice import CLOCK_HARDWARE, SCOPE_SYSTEM
from prospect.capture.events.recorded_callers import sample_bytes
from prospect.capture.kernel import perf_syscalls
from prospect.capture.kernel.rings import Ring, next_smaller_bytes, ring_size_bytes
from prospect.errors import CaptureError
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from prospect.capture.events.event_choice import EventPlan

# Both kinds of work together stay below 60 ms where the CPU is free, whatever machine this is.
_BUDGET_NS = 20_000_000
# As long is waited, for each kind, until a loaded CPU has left alone the fewest pairs.
_LOADED_BUDGET_NS = 200_000_000
_MOST_PAIRS = 48
_FEWEST_PAIRS = 5
# Bytes of samples that the work of one turn writes, at most.
_RING_SAMPLES = 256
_USER_BYTES = 1 << 20
_KERNEL_BYTES = 4 << 20
# If the kernel throttles a clock as fast as that, fewer samples are taken, at the same cost.
_PERIOD_NS = 20_000
# About as often, on a CPU of a few GHz.
_PERIOD_CYCLES = 60_000
_EVERY_TASK = -1
_THIS_TASK = 0


class SampleCost(NamedTuple):
    """The cost of a sample, in ns.

    Attributes:
        user_ns: one that hits user space.
        spread_ns: how far `user_ns` may be off, at 95 %.
        kernel_ns: one that hits the kernel, whose call chain is recorded; 0 if none is sampled.
    """

    user_ns: float
    spread_ns: float
    kernel_ns: float


def measure_sample_cost(plan: EventPlan) -> SampleCost | None:
    """Measure on one CPU, in less than 60 ms if it is free; this thread is bound to it meanwhile.

    Returns:
        None if the kernel refuses another event, or nothing certain came of it.
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
    # How many lie below the true median is binomial: its mean less 1.96 of its deviations.
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
        target = _EVERY_TASK if plan.scope == SCOPE_SYSTEM else _THIS_TASK
        self._fd = perf_syscalls.perf_event_open(attr.pack(), target, cpu)
        try:
            self._ring = _open_ring(self._fd, ring_bytes)
        except (OSError, CaptureError):
            os.close(self._fd)
            raise

    def start(self) -> None:
        perf_syscalls.enable_event(self._fd)

    def stop(self) -> int:
        """Stop; return the samples taken since the start."""
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
    """Map a ring, a smaller one where this user may not lock as much."""
    while True:
        try:
            return Ring(fd, ring_bytes)
        except OSError as error:
            ring_bytes = next_smaller_bytes(ring_bytes, error)


def _cost(clock: _Clock, work: Callable[[], object]) -> tuple[float, float] | None:
    """Return what a sample adds to the work, in ns, and how sure that is."""
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
    # Not this thread's processor time: some kernels leave what interrupts take out of it.
    begin_ns = time.perf_counter_ns()
    work()
    return time.perf_counter_ns() - begin_ns


def preemptions() -> int:
    """Return how often this thread had to leave the CPU to another task."""
    import resource  # noqa: PLC0415 - rarely measured, as above

    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw


def _count_samples(records: bytes) -> int:
    at = samples = 0
    while at < len(records):
        kind = int.from_bytes(records[at : at + 4], "little")
        samples += kind == abi.PERF_RECORD_SAMPLE
        at += int.from_bytes(records[at + 6 : at + 8], "little")
    return samples
