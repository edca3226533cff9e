"""The first period of each timer: drawn at random, so that timers of one start run apart at once.

Comes in: timers that are open and off. Goes out: timers that run; once its first period is over,
each takes up its own, and its grid of ticks begins.

Timers that were switched on together would all make the same error about a program that begins
with them, and nothing in their disagreement would show it. A first period must not be too short
either: it goes on until the recorder comes round to end it.
Source: __perf_event_period() in ``kernel/events/core.c``, Linux 6.18, restarts a timer with the
whole of its new period; samples report the period that their event was opened with.
"""

from __future__ import annotations

import os
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from prospect.capture import syscalls
from prospect.capture.clock_bank import shortest_allowed_ns

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

# The shortest first period, as part of the clock's own; the longest is a whole one more.
_LEAST_PART = 1 / 4
# poll(2) counts in ms, which is many periods of a fast clock: the rest is slept through.
_NEARLY_NS = 1_000_000
# Timers that are ended later than this would be ended together: they wait for another tick.
_LATE_NS = 250_000
_MOST_TICKS = 4
_NS_PER_S = 1_000_000_000


class _Clock(NamedTuple):
    """A timer in its first period, `due_ns` the tick in CLOCK_MONOTONIC at which it is to end."""

    due_ns: int
    first_ns: int
    event_id: int
    period_ns: int
    ticks: int = 1


class FirstPeriods:
    """The timers that are in their first period.

    Attributes:
        ended_ns: id → when a timer took up its own period, in CLOCK_MONOTONIC.
    """

    def __init__(self, periods_ns: tuple[int, ...]) -> None:
        self.ended_ns: dict[int, int] = {}
        self._periods_ns = periods_ns
        self._running: dict[int, _Clock] = {}

    def enable(self, fds: tuple[int, ...], ids: tuple[int, ...]) -> None:
        """Start the timers of one CPU, in the order of the bank, each with its own first period."""
        least_ns = shortest_allowed_ns()
        clocks = zip(fds, ids, self._periods_ns, _parts(self._periods_ns), strict=True)
        for fd, event_id, period_ns, part in clocks:
            first_ns = max(least_ns, round((_LEAST_PART + part) * period_ns))
            syscalls.set_period(fd, first_ns)
            syscalls.enable_event(fd)
            due_ns = time.monotonic_ns() + first_ns
            self._running[fd] = _Clock(due_ns, first_ns, event_id, period_ns)

    def next_end_ns(self) -> int:
        """Return when the next first period is to end, 0 when all have."""
        return min((clock.due_ns for clock in self._running.values()), default=0)

    def end_due(self, now_ns: int) -> None:
        """Give the timers whose first period is over, or nearly so, their own as soon as it is."""
        for fd, clock in sorted(self._running.items(), key=lambda item: item[1].due_ns):
            if clock.due_ns - now_ns >= _NEARLY_NS:
                break
            time.sleep(max(clock.due_ns - time.monotonic_ns(), 0) / _NS_PER_S)
            late_ns = time.monotonic_ns() - clock.due_ns
            if late_ns > _LATE_NS and clock.ticks < _MOST_TICKS:
                further_ns = (late_ns // clock.first_ns + 1) * clock.first_ns
                self._running[fd] = clock._replace(
                    due_ns=clock.due_ns + further_ns, ticks=clock.ticks + 1
                )
                continue
            syscalls.set_period(fd, clock.period_ns)
            self.ended_ns[clock.event_id] = time.monotonic_ns()
            del self._running[fd]

    def forget(self, fds: Collection[int]) -> None:
        """Leave timers alone that are about to be closed."""
        for fd in fds:
            self._running.pop(fd, None)


@contextmanager
def ahead_of_others() -> Iterator[None]:
    """Run before all programs that have no real-time priority, where this user may.

    For moments only, and most of them asleep: where every CPU is busy, the recorder would else come
    some ms late to each tick that it waits for.
    """
    policy, parameter = os.sched_getscheduler(0), os.sched_getparam(0)
    with suppress(OSError):
        if policy == os.SCHED_OTHER:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    try:
        yield
    finally:
        with suppress(OSError):
            os.sched_setscheduler(0, policy, parameter)


def _parts(periods_ns: tuple[int, ...]) -> list[float]:
    """Draw a number from 0 to 1 for each timer; those of one period are evenly apart.

    Two timers of one period never run apart: random draws could leave them together for ever.
    """
    drawn = {period_ns: _draw() for period_ns in periods_ns}
    return [
        (drawn[period_ns] + periods_ns[:clock].count(period_ns) / periods_ns.count(period_ns)) % 1.0
        for clock, period_ns in enumerate(periods_ns)
    ]


def _draw() -> float:
    return int.from_bytes(os.urandom(4), "little") / (1 << 32)
