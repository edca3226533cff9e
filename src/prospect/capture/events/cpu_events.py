"""The events of every CPU: opened, started, drained, followed when CPUs come and go.

Defined by: perf_event_open(2); the read format in ``include/uapi/linux/perf_event.h``.
"""

from __future__ import annotations

import errno
import os
import struct
import time

from prospect.abi import constants as abi
from prospect.abi.attr import EventDescription
from prospect.capture.capture_limits import MOST_COUNTS_BYTES
from prospect.capture.events.clock_bank import MOST_CLOCKS, redrawn_rate_hz
from prospect.capture.events.event_choice import EVERY_TASK, RUNTIME_FRAMES, SCOPE_SYSTEM
from prospect.capture.kernel import perf_syscalls
from prospect.capture.kernel.rings import Ring, next_smaller_bytes
from prospect.errors import CaptureError
from prospect.light import Closing, monotonic_ns
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prospect.capture.events.event_choice import ChosenEvent, EventPlan
    from prospect.capture.sink import Sink

    Filter = Callable[[int, list[int], list[int], list[int]], None]

# Python's own files, the recording, the command's pipes; programs and maps of the reader of
# runtimes' frames, which are more when several runtimes run.
_SPARE_FILES = 56
_NS_PER_S = 1_000_000_000
# How quickly the clock and a ring's head are read if nothing comes between, and how often to try.
_AT_ONCE_NS, _TRIES = 20_000, 3


class _CpuEvents(NamedTuple):
    """One CPU's events and their ring.

    File descriptors and ids are ordered by task: first its clocks, then the events that write
    copies for these, if there are any, then its other events.
    """

    cpu: int
    fds: tuple[int, ...]
    ids: tuple[int, ...]
    ring: Ring


class _Counts(NamedTuple):
    """The result of read(2) on an event; `lost` is -1 before Linux 6.0."""

    value: int
    enabled_ns: int
    event_id: int
    lost: int = -1


class _Start(NamedTuple):
    """When a CPU's clocks were started, in CLOCK_MONOTONIC and in its first event's own time."""

    time_ns: int
    enabled_ns: int


class EventSet(Closing):
    """All events of a recording.

    Attributes:
        plan: what is opened on each CPU.
        tasks: threads for each of which it is opened, EVERY_TASK alone for all.
        ring_bytes: size of each ring, after what the kernel refused.
        lost: id → samples lost, of CPUs that are closed.
        read_ns: CPU → when its ring was last read, in CLOCK_MONOTONIC: samples that are later are
            still there.
        frames_type: the type that records of runtimes' frames get.
    """

    def __init__(self, plan: EventPlan, tasks: tuple[int, ...], ring_bytes: int) -> None:
        """Prepare; `tasks` are threads to follow where the whole system may not be watched."""
        self.plan = plan
        self.ring_bytes = ring_bytes
        self.lost: dict[int, int] = {}
        self.read_ns: dict[int, int] = {}
        self.tasks = (EVERY_TASK,) if plan.scope == SCOPE_SYSTEM else tasks
        copies = len(plan.periods) if plan.copies else 0
        self._first_beside = len(plan.periods) + copies
        self._events_a_task = self._first_beside + len(plan.beside)
        self._open: dict[int, _CpuEvents] = {}
        self._clock_ids: list[list[int]] = [[] for _ in plan.periods]
        self._copy_ids: list[list[int]] = [[] for _ in range(copies)]
        self._filter: Filter | None = None
        self._beside_ids: list[list[int]] = [[] for _ in plan.beside]
        self._cpu_of: dict[int, int] = {}
        self._started: dict[int, _Start] = {}
        self._old_files_limit: int | None = None
        self.frames_type = abi.PERF_RECORD_SAMPLE
        self._frames_mark: tuple[bytes, int] | None = None
        self._are_written: Callable[[], bool] | None = None

    def open(self, cpus: tuple[int, ...]) -> None:
        """Open the events of `cpus`, with smaller rings where the kernel refuses these.

        Raises:
            CaptureError: too many files, too little lockable memory.
            OSError: the kernel refuses the event on one of the CPUs.
        """
        while True:
            try:
                for cpu in cpus:
                    self.add_cpu(cpu)
            except OSError as error:
                self.close()
                self._clock_ids = [[] for _ in self.plan.periods]
                self._copy_ids = [[] for _ in self._copy_ids]
                self._beside_ids = [[] for _ in self.plan.beside]
                if error.errno == errno.EMFILE:
                    self._raise_file_limit(error, len(cpus))
                else:
                    self.ring_bytes = next_smaller_bytes(self.ring_bytes, error)
            else:
                break
        if not self._open:
            raise CaptureError("no CPU is online according to perf_event_open()")

    def add_cpu(self, cpu: int) -> bool:
        """Open one CPU's events; say whether the CPU is still there.

        Raises:
            OSError: the kernel refuses; nothing of this CPU stays open.
        """
        fds: list[int] = []
        try:
            for task in self.tasks:
                self._open_task(fds, task, cpu)
            if not fds:
                raise ProcessLookupError(errno.ESRCH, "the processes have ended")
            ring = Ring(fds[0], self.ring_bytes)
            for fd in fds[1:]:
                perf_syscalls.share_ring(fd, fds[0])
        except OSError as error:
            for fd in fds:
                os.close(fd)
            if error.errno == errno.ENODEV:
                return False
            raise
        ids = tuple(perf_syscalls.event_id(fd) for fd in fds)
        self._open[cpu] = _CpuEvents(cpu, tuple(fds), ids, ring)
        for number, of_event in enumerate((*self._clock_ids, *self._copy_ids, *self._beside_ids)):
            of_event.extend(ids[number :: self._events_a_task])
        self._cpu_of.update(dict.fromkeys(ids, cpu))
        return True

    def _open_task(self, fds: list[int], task: int, cpu: int) -> None:
        """Append the events of a task on a CPU; none if it has just ended, and others are left.

        Raises:
            OSError: the kernel refuses; what was opened before is in `fds`.
        """
        before = len(fds)
        try:
            for clock in range(len(self.plan.periods)):
                attr = self.plan.clock_attr(clock, self._wakeup_bytes)
                fds.append(perf_syscalls.perf_event_open(attr.pack(), task, cpu))
            if self.plan.copies:
                copies = self.plan.copies._replace(wakeup=self._wakeup_bytes).pack()
                for _ in self.plan.periods:
                    fds += [perf_syscalls.perf_event_open(copies, task, cpu)]
            for event in self._beside():
                # One by one: where the next is refused, these are closed.
                if not event.path and not event.filter:
                    fds.append(perf_syscalls.perf_event_open(event.attr.pack(), task, cpu))
                    continue
                from prospect.capture.events.event_opening import open_chosen  # noqa: PLC0415 - rarely

                fds.append(open_chosen(event, task, cpu))
        except ProcessLookupError:
            for fd in fds[before:]:
                os.close(fd)
            del fds[before:]

    def drop_cpu(self, cpu: int, sink: Sink) -> int:
        """Keep what a CPU that went offline left in its ring, and close its events.

        Returns:
            when its clocks stopped, in CLOCK_MONOTONIC; now if that is not known.

        Raises:
            OSError: the file cannot grow.
        """
        events = self._open[cpu]
        slices: list[memoryview | bytes] = []
        self._hide_frames([events])
        events.ring.pending(slices)
        sink.append(slices)
        slices.clear()
        self.lost.update(_lost(events))
        self.read_ns.pop(cpu, None)
        stopped_ns = monotonic_ns()
        start = self._started.pop(cpu, None)
        if start:
            ran_ns = _counts(events.fds[0]).enabled_ns - start.enabled_ns
            stopped_ns = min(stopped_ns, start.time_ns + ran_ns)
        del self._open[cpu]
        _close(events)
        return stopped_ns

    def enable(self) -> None:
        """Start all clocks; per-command events start at its exec instead."""
        self._enable(list(self._open))

    def enable_cpu(self, cpu: int) -> None:
        """Start the clocks of one CPU."""
        if self._filter:
            self._choose_samples(cpu, self._filter)
        self._enable([cpu])

    def use_filter(self, attach: Filter) -> None:
        """Let a program choose the samples of every CPU's events from now on.

        Args:
            attach: attaches it to events: of a CPU, those that write copies, those whose samples
                are chosen, and those that write samples of switches.

        Raises:
            OSError: the kernel refused.
        """
        self._filter = attach
        for cpu in self._open:
            self._choose_samples(cpu, attach)

    def _choose_samples(self, cpu: int, attach: Filter) -> None:
        fds = self._open[cpu].fds
        clocks = len(self.plan.periods)
        copies = list(fds[clocks : self._first_beside])
        of_switches = [fds[number] for number in self._filtered()]
        of_waits = [
            fds[self._first_beside + number]
            for number, event in enumerate(self.plan.beside)
            if event.is_of_waits
        ]
        attach(cpu, copies, [*fds[:clocks], *of_switches], of_waits)
        if cpu in self._started:
            for fd in of_switches:
                perf_syscalls.enable_event(fd)

    def _filtered(self) -> list[int]:
        """Return the numbers of the events that start when their samples are chosen."""
        return [
            self._first_beside + number
            for number, event in enumerate(self.plan.beside)
            if event.is_filtered
        ]

    def _enable(self, cpus: list[int]) -> None:
        if self.plan.attr.flags & abi.FLAG_ENABLE_ON_EXEC:
            return
        clocks = len(self.plan.periods)
        for clock, period_ns in enumerate(self.plan.periods):
            if period_ns in self.plan.periods[:clock]:
                # Two clocks of one period tick together for ever unless one starts later.
                time.sleep(period_ns / clocks / _NS_PER_S)
            self._enable_one(cpus, clock)
        later = () if self._filter else self._filtered()
        for number in range(clocks, self._events_a_task):
            if number not in later:
                self._enable_one(cpus, number)
        if self.plan.scope != SCOPE_SYSTEM:
            return  # the time of a task's event stops while the task is elsewhere
        for cpu in cpus:
            # The kernel may count from before the start: only differences say anything.
            enabled_ns = _counts(self._open[cpu].fds[0]).enabled_ns
            self._started[cpu] = _Start(monotonic_ns(), enabled_ns)

    def _enable_one(self, cpus: list[int], number: int) -> None:
        for cpu in cpus:
            for fd in self._open[cpu].fds[number :: self._events_a_task]:
                perf_syscalls.enable_event(fd)

    def stopped_cpus(self) -> list[int]:
        """Return CPUs whose events have ended: they went offline, and may be back since.

        Source: perf_event_exit_cpu_context() in ``kernel/events/core.c``, Linux 6.18, takes the
        events of such a CPU out of their context; nothing puts them back.
        """
        return [
            cpu
            for cpu in self._started
            # The time of an event that is on goes on between any two looks.
            if _counts(self._open[cpu].fds[0]) == _counts(self._open[cpu].fds[0])
        ]

    def disable(self) -> None:
        """Stop all clocks."""
        for events in self._open.values():
            for fd in events.fds:
                perf_syscalls.disable_event(fd)

    def drain(self, sink: Sink, end: bytes) -> int:
        """Write what all rings hold, and `end` behind it; return how many held anything.

        Raises:
            OSError: the file cannot grow; the rings keep what they hold.
        """
        slices: list[memoryview | bytes] = []
        heads = []
        self._hide_frames(self._open.values())
        for events in self._open.values():
            before = len(slices)
            head = self._pending(events, slices)
            if len(slices) > before:
                heads.append((events.ring, head))
        if not heads:
            return 0
        if end:
            slices.append(end)
        sink.append(slices)
        for ring, head in heads:
            ring.release(head)
        return len(heads)

    def _pending(self, events: _CpuEvents, slices: list[memoryview | bytes]) -> int:
        """Append what a CPU's ring holds, and note when that was; return the ring's head."""
        before = len(slices)
        for _ in range(_TRIES):
            del slices[before:]
            self.read_ns[events.cpu] = monotonic_ns()
            head = events.ring.pending(slices)
            # Otherwise another process had this CPU in between, or frames were looked for.
            if self._frames_mark or monotonic_ns() - self.read_ns[events.cpu] < _AT_ONCE_NS:
                break
        return head

    def hide_frames(self, are_written: Callable[[], bool]) -> None:
        """Let records of runtimes' frames have a type that perf passes over.

        Args:
            are_written: whether the kernel writes any by now.
        """
        if not self._has_python:
            return
        from prospect.abi.record_layout import layout_of  # noqa: PLC0415 - once COMMAND runs
        from prospect.abi.runtime_frames import MAGIC  # noqa: PLC0415 - once COMMAND runs

        self.frames_type = abi.PERF_RECORD_HIDDEN_SAMPLE
        self._are_written = are_written
        # The size of the raw data is before its first bytes.
        distance = 8 * layout_of(self.plan.beside[-1].attr).fixed_words + 4
        self._frames_mark = MAGIC.to_bytes(4, "little"), distance

    def _hide_frames(self, of_cpus: Iterable[_CpuEvents]) -> None:
        """Have rings that are drained next hide them."""
        if not self._frames_mark or not self._are_written or not self._are_written():
            return
        for events in of_cpus:
            ids = frozenset(events.ids[self._events_a_task - 1 :: self._events_a_task])
            events.ring.hide(ids, *self._frames_mark)

    def redraw_rates(self) -> None:
        """Give each CPU's counter a new rate, so that no program stays in step with it."""
        for events in self._open.values():
            try:
                rate_hz = redrawn_rate_hz(self.plan.periods[0])
                for fd in events.fds[:: self._events_a_task]:
                    perf_syscalls.set_period(fd, rate_hz)
            except OSError:
                return  # the kernel has just lowered its limit: the rates stay as they are

    def poll_fds(self) -> list[int]:
        """Return the file descriptors that become readable when a ring is half full.

        One of each task: that of a task that has ended reports no more.
        """
        return [fd for cpu in self._open for fd in self.poll_fds_of(cpu)]

    def poll_fds_of(self, cpu: int) -> tuple[int, ...]:
        """Return those of one CPU."""
        return self._open[cpu].fds[:: self._events_a_task]

    def python_fds(self) -> tuple[dict[int, int], list[int]]:
        """Return the events of Python frames by CPU, and those that they are read at; or nothing.

        The former are the last of each CPU.
        """
        if not self._has_python:
            return {}, []
        outputs = {cpu: events.fds[-1] for cpu, events in self._open.items()}
        clocks, others = len(self.plan.periods), range(self._first_beside, self._events_a_task - 1)
        sampling = (*range(clocks), *others)
        return outputs, [
            events.fds[number] for events in self._open.values() for number in sampling
        ]

    def fds_of(self, name: str) -> dict[int, int]:
        """Return the event of a name on each CPU, for events of the whole system."""
        number = [event.name for event in self.plan.beside].index(name) + self._first_beside
        return {cpu: events.fds[number] for cpu, events in self._open.items()}

    def python_ids(self) -> list[int]:
        """Return the ids of the events of Python frames, none without."""
        return self._beside_ids[-1] if self._has_python else []

    def python_id(self, cpu: int) -> int:
        """Return the id of a CPU's event of Python frames."""
        return self._open[cpu].ids[-1]

    def rings(self) -> list[tuple[int, Ring]]:
        """Return the CPUs that are watched, with their rings."""
        return [(events.cpu, events.ring) for events in self._open.values()]

    @property
    def are_half_full(self) -> bool:
        """Whether a ring is half full."""
        return any(events.ring.is_half_full for events in self._open.values())

    @property
    def _wakeup_bytes(self) -> int:
        """How many bytes of records wake the recorder."""
        return 1 if self.plan.wakes_at_samples else self.ring_bytes // 2

    @property
    def _has_python(self) -> bool:
        return self.plan.beside[-1:] != () and self.plan.beside[-1].name == RUNTIME_FRAMES

    def cpus(self) -> tuple[int, ...]:
        """Return the CPUs that are watched now."""
        return tuple(self._open)

    def clock_ids(self) -> list[list[int]]:
        """Return the ids of each clock, of all CPUs that were ever watched."""
        return self._clock_ids

    def copy_ids(self) -> list[list[int]]:
        """Return the ids of the events that write copies for each clock; none without."""
        return self._copy_ids

    def descriptions(self) -> tuple[EventDescription, ...]:
        """Return the events as perf.data is to show them: the bank as one, then the others.

        If a program writes the clocks' samples of followed processes, these come first.
        """
        ids = tuple(clock_id for ids in self._clock_ids for clock_id in ids)
        attr = self.plan.recorded_attr(self._wakeup_bytes)
        copies = self.plan.recorded_copies(self._wakeup_bytes)
        of_copies = tuple(copy_id for ids in self._copy_ids for copy_id in ids)
        return (
            *([EventDescription(copies, of_copies, self.plan.clock)] if copies else ()),
            EventDescription(attr, ids, self.plan.clock),
            *(
                EventDescription(event.recorded or event.attr, tuple(ids), event.name)
                for event, ids in zip(self._beside(), self._beside_ids, strict=True)
                if event.is_recorded
            ),
        )

    def _beside(self) -> tuple[ChosenEvent, ...]:
        """Return the events other than the clocks, as they are opened."""
        return tuple(
            event._replace(attr=event.attr._replace(wakeup=self._wakeup_bytes))
            for event in self.plan.beside
        )

    def cpu_of(self) -> dict[int, int]:
        """Return id → CPU, of all events that were ever open."""
        return self._cpu_of

    def read_lost(self) -> dict[int, int]:
        """Return id → samples that the kernel could not deliver; empty before Linux 6.0."""
        lost = dict(self.lost)
        for events in self._open.values():
            lost.update(_lost(events))
        return lost

    def close(self) -> None:
        """Close all events, unmap all rings, put the limit of open files back."""
        while self._open:
            _close(self._open.popitem()[1])
        if self._old_files_limit is not None:
            perf_syscalls.restore_open_files_limit(self._old_files_limit)
            self._old_files_limit = None

    def _raise_file_limit(self, error: OSError, cpus: int) -> None:
        old = perf_syscalls.raise_open_files_limit()
        if old is None:
            needed = files_needed(cpus, len(self.tasks) * self._events_a_task)
            threads = f" and {len(self.tasks)} threads" if len(self.tasks) > 1 else ""
            raise CaptureError(
                f"{cpus} CPUs{threads} need {needed} open files: raise the limit with"
                f" `ulimit -n {needed}`"
            ) from error
        self._old_files_limit = old


def files_needed(cpus: int, events_a_cpu: int = MOST_CLOCKS + 1) -> int:
    """Return how many files a recording opens: events, and one that finds mappings on each CPU.

    Without other options these events are the clocks and the one of all other records.
    """
    return cpus * (events_a_cpu + 1) + _SPARE_FILES


def _counts(fd: int) -> _Counts:
    words = os.read(fd, MOST_COUNTS_BYTES)
    return _Counts(*(w[0] for w in struct.iter_unpack("=Q", words)))


def _lost(events: _CpuEvents) -> dict[int, int]:
    found = [_counts(fd) for fd in events.fds]
    return {counts.event_id: counts.lost for counts in found if counts.lost >= 0}


def _close(events: _CpuEvents) -> None:
    events.ring.close()
    for fd in events.fds:
        os.close(fd)
