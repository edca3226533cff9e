"""Counts events, without samples, for tasks or CPUs, until a run ends.

A count comes with the times for which the counter was enabled and running. The run ends with the
command, the processes or a signal; each interval ends with a call.

Defined by: perf_event_open(2), "Reading results"; docs/stat.md describes the sums.
"""

from __future__ import annotations

import errno
import math
import os
import select
import struct
import time
from typing import TYPE_CHECKING

from prospect.abi import constants as abi
from prospect.capture.events.event_choice import ALONE, EVERY_TASK
from prospect.capture.events.event_opening import open_chosen, refusal_message
from prospect.capture.kernel import perf_syscalls
from prospect.capture.kernel.procfs import parse_cpu_list
from prospect.capture.loop.command import EndRequest
from prospect.errors import CaptureError
from prospect.light import monotonic_ns
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prospect.capture.events.event_choice import ChosenEvent
    from prospect.capture.loop.command import Command, SignalWatch

_ANY_CPU = -1
_READ_FORMAT = abi.PERF_FORMAT_TOTAL_TIME_ENABLED | abi.PERF_FORMAT_TOTAL_TIME_RUNNING
# Source: validate_group() in ``arch/x86/events/core.c`` and ``drivers/perf/arm_pmu.c``, Linux 6.18.
_GROUP_TOO_LARGE = (
    "this processor's counters cannot count its whole group at the same time: leave events out of"
    " the braces, or make two groups"
)
_TOO_MANY_FILES = "too many open files: raise the limit with `ulimit -n"
_SPARE_FILES = 32  # the process's other open files
_COUNTS = struct.Struct("=QQQ")


class CountTarget(NamedTuple):
    """The processes to count.

    Attributes:
        pids: tasks to follow; empty for all.
        cpus: CPUs to watch, if tasks are not followed, or cannot be.
        inherits: whether later children and threads of the tasks count with them.
        threads_only: whether only their threads do.
        on_exec: whether counting begins when the task executes a program.
    """

    pids: tuple[int, ...] = ()
    cpus: tuple[int, ...] = ()
    inherits: bool = True
    threads_only: bool = False
    on_exec: bool = False


class RawCount(NamedTuple):
    """The sums over an event's counters: counts and times."""

    value: int
    enabled_ns: int
    running_ns: int


class CounterSet:
    """The counters of all events.

    Attributes:
        events: the counted events, with the names for the report.
        refused: a sentence for each optional event that cannot be counted.
        limits: sentences on counts of other tasks than the user's.
    """

    def __init__(self, target: CountTarget) -> None:
        self.events: list[ChosenEvent] = []
        self.refused: list[str] = []
        self.limits: tuple[str, ...] = ()
        self._target = target
        self._fds: list[list[int]] = []
        self._leaders: dict[tuple[int, int, int], int] = {}
        self._old_files_limit: int | None = None

    def open(self, events: tuple[ChosenEvent, ...], *, optional: bool = False) -> None:
        """Open the counters of `events`, stopped.

        Args:
            events: in the order of the report.
            optional: whether to leave out events that this machine does not have.

        Raises:
            CaptureError: an event cannot be counted; says why and what to do.
        """
        for number, event in enumerate(events):
            try:
                chosen, fds = self._open_event(event)
            except OSError as error:
                message = self._refusal(error, events[number:])
                is_curable = error.errno in (errno.ENOSYS, errno.EMFILE)
                if not optional or is_curable or perf_syscalls.is_refusal(error):
                    raise CaptureError(message) from error
                self.refused.append(message)
                continue
            self._note_probe(chosen)
            self.events.append(chosen)
            self._fds.append(fds)

    def enable(self) -> None:
        """Start all counters except those that start when their task executes a program."""
        for event, fds in zip(self.events, self._fds, strict=True):
            if self._target.on_exec and not self._is_everywhere(event):
                continue
            for fd in fds:
                if event.group == ALONE or fd in self._leaders.values():
                    perf_syscalls.enable_event(fd)

    def disable(self) -> None:
        """Stop all counters."""
        for fds in self._fds:
            for fd in fds:
                perf_syscalls.disable_event(fd)

    def read(self) -> tuple[RawCount, ...]:
        """Return the counts of each event, summed over tasks and CPUs."""
        return tuple(_read_sum(fds) for fds in self._fds)

    def close(self) -> None:
        """Close all counters and restore the limit of open files."""
        for fds in self._fds:
            _close_all(fds)
        self._fds.clear()
        if self._old_files_limit is not None:
            perf_syscalls.restore_open_files_limit(self._old_files_limit)
            self._old_files_limit = None

    def _open_event(self, event: ChosenEvent) -> tuple[ChosenEvent, list[int]]:
        """Open an event, for user space only if this user may not count the kernel."""
        try:
            return event, self._open_everywhere(event)
        except OSError as error:
            if not perf_syscalls.is_refusal(error) or event.has_modifiers or not self._target.pids:
                raise
        flags = event.attr.flags | abi.FLAG_EXCLUDE_KERNEL | abi.FLAG_EXCLUDE_HV
        user_only = event._replace(name=f"{event.name}:u", attr=event.attr._replace(flags=flags))
        return user_only, self._open_everywhere(user_only)

    def _open_everywhere(self, event: ChosenEvent) -> list[int]:
        fds: list[int] = []
        try:
            for pid, cpu in self._places(event):
                fd = self._open_one(event, pid, cpu)
                if fd is not None:
                    fds.append(fd)
        except OSError:
            _close_all(fds)
            raise
        if not fds:
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
        return fds

    def _refusal(self, error: OSError, events: tuple[ChosenEvent, ...]) -> str:
        """Return why the first of the remaining events cannot be opened, and what to do."""
        event = events[0]
        if error.errno == errno.EMFILE:
            needed = sum(len(self._places(event)) for event in events)
            needed += sum(map(len, self._fds)) + _SPARE_FILES
            return f"{event.name}: {_TOO_MANY_FILES} {needed}`"
        if error.errno == errno.EINVAL and self._opens_alone(event):
            return f"{event.name}: {_GROUP_TOO_LARGE}"
        return refusal_message(event, error, follows_tasks=bool(self._target.pids))

    def _opens_alone(self, event: ChosenEvent) -> bool:
        """Return whether a refused event can be opened outside of its group."""
        if event.group == ALONE:
            return False
        try:
            _close_all(self._open_everywhere(event._replace(group=ALONE)))
        except (OSError, CaptureError):
            return False
        return True

    def _is_everywhere(self, event: ChosenEvent) -> bool:
        """Return whether an event counts on all CPUs though tasks are followed.

        A probe cannot be inherited: for each new task the kernel would read its path again, in the
        memory of the forking process, and let the fork fail.
        Source: perf_uprobe_init() in ``kernel/trace/trace_event_perf.c``, Linux 6.18.
        """
        target = self._target
        return bool(event.path and target.on_exec and not target.threads_only)

    def _note_probe(self, event: ChosenEvent) -> None:
        if not event.path or not self._target.pids:
            return
        limit = "Probes count the threads that run as counting begins, not those that start later."
        if self._is_everywhere(event):
            limit = "Probes count in every process that runs their file, not only in COMMAND's."
        if limit not in self.limits:
            self.limits += (limit,)

    def _places(self, event: ChosenEvent) -> list[tuple[int, int]]:
        target = self._target
        if target.pids and not self._is_everywhere(event):
            if event.cpus:
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
            return [(pid, _ANY_CPU) for pid in target.pids]
        cpus: tuple[int, ...] = target.cpus
        if event.cpus:
            counting = parse_cpu_list(event.cpus)
            cpus = tuple(cpu for cpu in counting if cpu in cpus) or counting
        return [(EVERY_TASK, cpu) for cpu in cpus]

    def _open_one(self, event: ChosenEvent, pid: int, cpu: int) -> int | None:
        """Open one counter; return None if its task has ended meanwhile."""
        place = (event.group, pid, cpu)
        leader = self._leaders.get(place, -1) if event.group != ALONE else -1
        attr = event.attr._replace(
            sample_period=0,
            read_format=_READ_FORMAT,
            flags=event.attr.flags & ~abi.FLAG_FREQ | self._flags(event, is_leader=leader < 0),
        )
        try:
            fd = open_chosen(event._replace(attr=attr), pid, cpu, leader)
        except OSError as error:
            if error.errno == errno.EMFILE and self._old_files_limit is None:
                self._old_files_limit = perf_syscalls.raise_open_files_limit()
                if self._old_files_limit is not None:
                    return self._open_one(event, pid, cpu)
            if error.errno == errno.ESRCH and len(self._target.pids) > 1:
                return None
            raise
        if event.group != ALONE and leader < 0:
            self._leaders[place] = fd
        return fd

    def _flags(self, event: ChosenEvent, *, is_leader: bool) -> int:
        target = self._target
        inherits = target.pids and target.inherits and not event.path
        flags = abi.FLAG_INHERIT if inherits else 0
        if flags and target.threads_only:
            flags |= abi.FLAG_INHERIT_THREAD
        if is_leader:
            on_exec = target.on_exec and not self._is_everywhere(event)
            flags |= abi.FLAG_DISABLED | (abi.FLAG_ENABLE_ON_EXEC if on_exec else 0)
        return flags


def _read_sum(fds: list[int]) -> RawCount:
    value = enabled_ns = running_ns = 0
    for fd in fds:
        words = os.read(fd, _COUNTS.size)
        if len(words) < _COUNTS.size:  # a pinned event without a counter
            continue
        one = _COUNTS.unpack(words)
        value, enabled_ns, running_ns = value + one[0], enabled_ns + one[1], running_ns + one[2]
    return RawCount(value, enabled_ns, running_ns)


def _close_all(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)


# The time between looks at the command if the kernel has no pidfd.
_NO_PIDFD_S = 0.01


class CountLoop:
    """One run, from the start of the counters to their end."""

    def __init__(
        self,
        counters: CounterSet,
        command: Command | None,
        signals: SignalWatch,
        pidfds: Sequence[int],
    ) -> None:
        self._counters = counters
        self._command = command
        self._signals = signals
        self._has_processes = bool(pidfds)
        self._running = set(pidfds)
        self._begin_s = 0.0
        self._end_request = EndRequest(signals, command)

    @property
    def interrupted_by(self) -> int:
        """The first signal that ends it, 0 for none."""
        return self._end_request.interrupted_by

    def run(self, interval_s: float, on_interval: Callable[[float], None]) -> float:
        """Count; return the seconds that it took.

        Args:
            interval_s: the time between calls of `on_interval`, 0 for no calls.
            on_interval: takes the seconds since the start.

        Raises:
            CommandError: the command could not be executed.
        """
        poll = self._registered()
        self._counters.enable()
        self._begin_s = time.monotonic()
        if self._command:
            self._command.release()
        due = 1
        while not self._is_over():
            now_s = time.monotonic() - self._begin_s
            if interval_s and now_s >= due * interval_s:
                on_interval(now_s)
                # A missed interval makes the one before it longer.
                due = int(now_s / interval_s) + 1
            until_s = due * interval_s if interval_s else math.inf
            for fd, _ in poll.poll(self._timeout_ms(until_s)):
                self._handle(fd, poll)
        self._counters.disable()
        return time.monotonic() - self._begin_s

    def _registered(self) -> select.poll:
        poll = select.poll()
        fds = [self._signals.fd, *self._running]
        if self._command:
            fds += [self._command.exec_fd, self._command.pidfd]
        for fd in fds:
            if fd >= 0:
                poll.register(fd, select.POLLIN)
        return poll

    def _handle(self, fd: int, poll: select.poll) -> None:
        if self._command and fd == self._command.exec_fd:
            poll.unregister(fd)
            self._command.check_exec()
        elif fd == self._signals.fd:
            self._end_request.obey()
        elif fd in self._running:
            poll.unregister(fd)
            self._running.discard(fd)

    def _is_over(self) -> bool:
        if self._end_request.is_over(monotonic_ns()):
            return True
        command = self._command
        if not command:
            return self._has_processes and not self._running
        ended = bool(command.reap())
        if ended and command.exec_fd >= 0:
            command.check_exec()
        return ended

    def _timeout_ms(self, until_s: float) -> int | None:
        give_up_s = self._end_request.give_up_ns / 1e9 or math.inf
        wait_s = min(self._begin_s + until_s, give_up_s) - time.monotonic()
        if self._command and self._command.pidfd < 0:
            wait_s = min(wait_s, _NO_PIDFD_S)
        return None if wait_s == math.inf else max(0, math.ceil(wait_s * 1000))
