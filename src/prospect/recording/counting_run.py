"""`count_events`: run a command, or attach to processes, and count events meanwhile.

It is imported before the command starts, so it imports nothing slow.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING

from prospect.capture.counting.event_counters import CounterSet, CountLoop, CountTarget
from prospect.capture.events.event_parsing import parse_events
from prospect.capture.kernel.procfs import CpuWatch, names_in
from prospect.capture.loop.command import Command, SignalWatch
from prospect.errors import CaptureError, UsageError
from prospect.options import CountingOptions
from prospect.profile.event_counts import (
    Count,
    CountedEvent,
    CountedRun,
    CountInterval,
    EventCounts,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ALONE, FAMILY, SYSTEM = "2", "3", "4"
SOFTWARE_EVENTS = "task-clock,context-switches,cpu-migrations,page-faults"
SYSTEM_EVENTS = "cpu-clock,context-switches,cpu-migrations,page-faults"
# Left out if there are no hardware counters.
HARDWARE_EVENTS = "cycles,instructions,branches,branch-misses"
SHORTEST_INTERVAL_S = 0.001
_SIGNALLED = 128


class CountOptions(CountingOptions):
    """The events to count, and the command that runs meanwhile.

    Attributes:
        command: the words of the command; none to count until a signal, or `pids`, end it.
    """

    command: tuple[str | bytes, ...] = ()


def count_events(
    options: CountOptions,
    on_interval: Callable[[tuple[CountedEvent, ...], CountInterval], None] | None = None,
) -> EventCounts:
    """Count events while a command runs, or until processes or a signal end it.

    Args:
        on_interval: takes each interval as it ends.

    Raises:
        UsageError: options contradict each other, or an event is unknown.
        CommandError: the command cannot be started.
        CaptureError: an event cannot be counted; the message says what to do.
    """
    _check(options)
    try:
        return _count_runs(options, on_interval)
    except OSError as error:
        raise CaptureError(f"counting is not possible: {error.strerror or error}") from error


def _check(options: CountOptions) -> None:
    if options.pids and (options.cpus is not None or options.scope != FAMILY):
        raise UsageError("--pid counts processes: drop --cpu and -V")
    if options.cpus is not None and options.scope == ALONE:
        raise UsageError("--cpu counts every process on these CPUs: drop -V2")
    if not options.command and not (options.pids or _is_system(options)):
        raise UsageError("nothing to count: give COMMAND, --pid, --cpu or -V4")
    if options.repeat > 1 and not options.command:
        raise UsageError("--repeat runs COMMAND several times: give one")
    if options.repeat > 1 and options.interval_s:
        raise UsageError("--repeat gives the mean of whole runs: leave out --interval")
    if options.interval_s and options.interval_s < SHORTEST_INTERVAL_S:
        raise UsageError(f"an interval is at least {SHORTEST_INTERVAL_S} s (--interval)")


def _is_system(options: CountOptions) -> bool:
    return options.cpus is not None or options.scope == SYSTEM


def _count_runs(
    options: CountOptions,
    on_interval: Callable[[tuple[CountedEvent, ...], CountInterval], None] | None,
) -> EventCounts:
    runs: list[CountedRun] = []
    with closing(SignalWatch()) as signals:
        for _ in range(options.repeat):
            one = _Run(options, signals, on_interval)
            runs.append(one.go())
            if one.interrupted_by:
                break
    failed = next((run.exit_status for run in runs if run.exit_status), 0)
    return EventCounts(_target_text(options), one.events, tuple(runs), one.limits, failed)


class _Run:
    """One run: the counted tasks, and their counters.

    Attributes:
        events: rows of the report.
        limits: sentences about what could not be counted.
        interrupted_by: the first signal that ends it, 0 for none.
    """

    def __init__(
        self,
        options: CountOptions,
        signals: SignalWatch,
        on_interval: Callable[[tuple[CountedEvent, ...], CountInterval], None] | None,
    ) -> None:
        self.events: tuple[CountedEvent, ...] = ()
        self.limits: tuple[str, ...] = ()
        self.interrupted_by = 0
        self._options = options
        self._signals = signals
        self._on_interval = on_interval
        self._intervals: list[CountInterval] = []
        self._so_far: tuple[Count, ...] = ()

    def go(self) -> CountedRun:
        """Count from the start to the end."""
        if not self._options.command:
            return self._measure(None)
        with closing(Command(self._options.command, self._signals)) as command:
            return self._measure(command)

    def _measure(self, command: Command | None) -> CountedRun:
        with closing(CounterSet(_target(self._options, command))) as counters:
            self._open(counters)
            with _pidfds(self._options.pids) as pidfds:
                loop = CountLoop(counters, command, self._signals, pidfds)
                elapsed_s = loop.run(
                    self._options.interval_s,
                    lambda now_s: self._end_interval(now_s, _counts(counters)),
                )
            counts = _counts(counters)
        self.interrupted_by = loop.interrupted_by
        if self._options.interval_s:
            self._end_interval(elapsed_s, counts)
        ended = command.reap() if command else None
        status = ended.exit_status if ended else 0
        if command and not ended:
            self.limits += (f"COMMAND (process {command.pid}) was still running at the end.",)
            status = _SIGNALLED + loop.interrupted_by
        return CountedRun(
            elapsed_s=elapsed_s,
            counts=counts,
            intervals=tuple(self._intervals),
            user_s=ended.user_s if ended else None,
            system_s=ended.system_s if ended else None,
            exit_status=status,
        )

    def _open(self, counters: CounterSet) -> None:
        options = self._options
        if options.events:
            counters.open(parse_events(",".join(options.events)))
        else:
            is_system = _is_system(options)
            counters.open(parse_events(SYSTEM_EVENTS if is_system else SOFTWARE_EVENTS))
            counters.open(parse_events(HARDWARE_EVENTS), optional=True)
        self.events = tuple(
            CountedEvent(event.name, event.unit, event.scale, event.group)
            for event in counters.events
        )
        self.limits = counters.limits
        if counters.refused:
            names = ", ".join(message.partition(":")[0] for message in counters.refused)
            self.limits += (f"Not counted, as this machine has no such counters: {names}.",)

    def _end_interval(self, now_s: float, counts: tuple[Count, ...]) -> None:
        begin_s = self._intervals[-1].end_s if self._intervals else 0.0
        before, self._so_far = self._so_far or (Count(0, 0, 0),) * len(counts), counts
        parts = tuple(now.since(then) for now, then in zip(counts, before, strict=True))
        interval = CountInterval(begin_s, now_s, parts)
        self._intervals.append(interval)
        if self._on_interval:
            self._on_interval(self.events, interval)


@contextmanager
def _pidfds(pids: tuple[int, ...]) -> Iterator[list[int]]:
    """Open descriptors that become readable when processes end."""
    with ExitStack() as opened:
        fds = []
        for pid in pids:
            fd = os.pidfd_open(pid)
            opened.callback(os.close, fd)
            fds.append(fd)
        yield fds


def _target(options: CountOptions, command: Command | None) -> CountTarget:
    with closing(CpuWatch()) as watch:
        online = watch.online
    if _is_system(options):
        missing = sorted(set(options.cpus or ()) - set(online))
        if missing:
            raise UsageError(f"CPU {missing[0]} is not online here (--cpu)")
        return CountTarget(cpus=online if options.cpus is None else options.cpus)
    if options.pids:
        threads: list[int] = []
        for pid in options.pids:
            if not (found := names_in(f"/proc/{pid}/task")):
                raise CaptureError(f"there is no process {pid}")
            threads += sorted(map(int, found))
        return CountTarget(pids=tuple(threads))
    pids = (command.pid,) if command else ()
    return CountTarget(pids, online, threads_only=options.scope == ALONE, on_exec=True)


def _target_text(options: CountOptions) -> str:
    words = " ".join(os.fsdecode(word) for word in options.command)
    who = ""
    if options.pids:
        who = f"process{'es' * (len(options.pids) > 1)} {', '.join(map(str, options.pids))}"
    elif options.cpus is not None:
        who = f"CPU{'s' * (len(options.cpus) > 1)} {', '.join(map(str, options.cpus))}"
    elif options.scope == SYSTEM:
        who = "the whole system"
    if who and words:
        return f"{who} while '{words}' ran"
    return who or f"'{words}'"


def _counts(counters: CounterSet) -> tuple[Count, ...]:
    return tuple(Count(*raw) for raw in counters.read())
