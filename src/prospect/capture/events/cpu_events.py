"""Opens, starts and drains the events of every CPU, also of CPUs that come and go.

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

# Python's own files, the recording, the command's pipes, and programs and maps of the reader of
# runtimes' frames, for several runtimes.
_SPARE_FILES = 56
_NS_PER_S = 1_000_000_000
# The time to read the clock and a ring's head without interruption, and the number of tries.
_AT_ONCE_NS, _TRIES = 20_000, 3


class _CpuEvents(NamedTuple):
    """One CPU's events and their ring.

    File descriptors and ids are ordered by task: first its clocks, then the events that write
    copies for these, if any, then its other events.
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


class EventSet(Closing):
    """All events of a recording.

    Attributes:
        plan: the events to open on each CPU.
        tasks: threads for each of which they are opened, EVERY_TASK alone for all.
        ring_bytes: size of each ring, after refusals of the kernel.
        lost: id → samples lost, of CPUs that are closed.
        read_ns: CPU → time of the last read of its ring, in CLOCK_MONOTONIC: later samples are
            still in it.
        frames_type: the type that records of runtimes' frames get.
    """

    def __init__(self, plan: EventPlan, tasks: tuple[int, ...], ring_bytes: int) -> None:
        """Prepare; `tasks` are the threads to follow unless the whole system is watched."""
        self.plan = plan
        self.ring_bytes = ring_bytes
        self.lost: dict[int, int] = {}
        self.read_ns: dict[int, int] = {}
        self.tasks = (EVERY_TASK,) if plan.scope == SCOPE_SYSTEM else tasks
        copies = len(plan.periods) if plan.copies else 0
        self._first_beside = len(plan.periods) + copies
        self._events_a_task = self._first_beside + len(plan.beside)
        self._open: dict[int, _CpuEvents] = {}
        # ids of each event of a task, on all CPUs so far
        self._ids: list[list[int]] = [[] for _ in range(self._events_a_task)]
        self._filter: Filter | None = None
        self._cpu_of: dict[int, int] = {}
        # CPU → the start of its clocks, in CLOCK_MONOTONIC and in its first event's own time
        self._started: dict[int, tuple[int, int]] = {}
        self._old_files_limit: int | None = None
        self.frames_type = abi.PERF_RECORD_SAMPLE
        self._frames_mark: tuple[bytes, int] | None = None
        self._are_written: Callable[[], bool] | None = None

    def open(self, cpus: tuple[int, ...]) -> None:
        """Open the events of `cpus`, with smaller rings if the kernel refuses large ones.

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
                self._ids = [[] for _ in self._ids]
                if error.errno == errno.EMFILE:
                    self._raise_file_limit(error, len(cpus))
                else:
                    self.ring_bytes = next_smaller_bytes(self.ring_bytes, error)
            else:
                break
        if not self._open:
            raise CaptureError("no CPU is online according to perf_event_open()")

    def add_cpu(self, cpu: int) -> bool:
        """Open one CPU's events; return whether the CPU is still online.

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
        for number, of_event in enumerate(self._ids):
            of_event.extend(ids[number :: self._events_a_task])
        self._cpu_of.update(dict.fromkeys(ids, cpu))
        return True

    def _open_task(self, fds: list[int], task: int, cpu: int) -> None:
        """Append the events of a task on a CPU to `fds`; none if the task has just ended.

        Raises:
            OSError: the kernel refuses one; those before it are in `fds`.
        """
        before = len(fds)
        try:
            for clock in range(len(self.plan.periods)):
                attr = self.plan.clock_attr(clock, self._wakeup_bytes)
                fds.append(perf_syscalls.perf_event_open(attr.pack(), task, cpu))
            if self.plan.copies:
                copies = self.plan.copies._replace(wakeup=self._wakeup_bytes).pack()
                for _ in self.plan.periods:
                    # One by one: if the kernel refuses the next one, the caller closes these.
                    fds += [perf_syscalls.perf_event_open(copies, task, cpu)]
            for event in self._beside():
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
        """Write the rest of the ring of a CPU that went offline, and close its events.

        Returns:
            The time when its clocks stopped, in CLOCK_MONOTONIC; now if it is unknown.

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
        if cpu in self._started:
            started_ns, enabled_ns = self._started.pop(cpu)
            ran_ns = _counts(events.fds[0]).enabled_ns - enabled_ns
            stopped_ns = min(stopped_ns, started_ns + ran_ns)
        del self._open[cpu]
        _close(events)
        return stopped_ns

    def enable(self) -> None:
        """Start all clocks, except those of COMMAND alone, which start at its exec."""
        self._enable(list(self._open))

    def enable_cpu(self, cpu: int) -> None:
        """Start the clocks of one CPU."""
        if self._filter:
            self._choose_samples(cpu, self._filter)
        self._enable([cpu])

    def use_filter(self, attach: Filter) -> None:
        """Let a program choose the samples of every CPU's events from now on.

        Args:
            attach: attaches it to a CPU's events: those that write copies, those whose samples it
                chooses, and those that write samples of switches.

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
        beside = zip(self.plan.beside, fds[self._first_beside :], strict=True)
        of_waits = [fd for event, fd in beside if event.is_of_waits]
        attach(cpu, copies, [*fds[:clocks], *of_switches], of_waits)
        if cpu in self._started:
            for fd in of_switches:
                perf_syscalls.enable_event(fd)

    def _filtered(self) -> list[int]:
        """Return the numbers of the events that start when the program is attached to them."""
        beside = enumerate(self.plan.beside, self._first_beside)
        return [number for number, event in beside if event.is_filtered]

    def _enable(self, cpus: list[int]) -> None:
        if self.plan.attr.flags & abi.FLAG_ENABLE_ON_EXEC:
            return
        clocks = len(self.plan.periods)
        for clock, period_ns in enumerate(self.plan.periods):
            if period_ns in self.plan.periods[:clock]:
                # Two clocks with the same period tick together for ever unless one starts later.
                time.sleep(period_ns / clocks / _NS_PER_S)
            self._enable_one(cpus, clock)
        later = () if self._filter else self._filtered()
        for number in range(clocks, self._events_a_task):
            if number not in later:
                self._enable_one(cpus, number)
        if self.plan.scope != SCOPE_SYSTEM:
            return  # the time of a task's event stops while the task is elsewhere
        for cpu in cpus:
            # The kernel may count from before the start: only differences matter.
            enabled_ns = _counts(self._open[cpu].fds[0]).enabled_ns
            self._started[cpu] = monotonic_ns(), enabled_ns

    def _enable_one(self, cpus: list[int], number: int) -> None:
        for cpu in cpus:
            for fd in self._open[cpu].fds[number :: self._events_a_task]:
                perf_syscalls.enable_event(fd)

    def stopped_cpus(self) -> list[int]:
        """Return CPUs whose events have ended: they went offline, and may be online again.

        Source: perf_event_exit_cpu_context() in ``kernel/events/core.c``, Linux 6.18, removes the
        events of such a CPU from their context for good.
        """
        return [
            cpu
            for cpu in self._started
            # The time of an enabled event increases between any two looks.
            if _counts(self._open[cpu].fds[0]) == _counts(self._open[cpu].fds[0])
        ]

    def disable(self) -> None:
        """Stop all clocks."""
        for events in self._open.values():
            for fd in events.fds:
                perf_syscalls.disable_event(fd)

    def drain(self, sink: Sink, end: bytes) -> int:
        """Write the contents of all rings, then `end`; return how many rings had any.

        Raises:
            OSError: the file cannot grow; the rings keep their contents.
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
        """Append the contents of a CPU's ring, and note the time; return the ring's head."""
        before = len(slices)
        for _ in range(_TRIES):
            del slices[before:]
            self.read_ns[events.cpu] = monotonic_ns()
            head = events.ring.pending(slices)
            # A longer time means that another process had this CPU. Hiding frames takes long, too.
            if self._frames_mark or monotonic_ns() - self.read_ns[events.cpu] < _AT_ONCE_NS:
                break
        return head

    def hide_frames(self, are_written: Callable[[], bool]) -> None:
        """Give records of runtimes' frames a type that perf ignores.

        Args:
            are_written: returns whether the kernel writes any yet.
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
        """Tell rings that are drained next to hide them."""
        if not self._frames_mark or not self._are_written or not self._are_written():
            return
        for events in of_cpus:
            ids = frozenset(events.ids[self._events_a_task - 1 :: self._events_a_task])
            events.ring.hide(ids, *self._frames_mark)

    def redraw_rates(self) -> None:
        """Give each CPU's counter a new rate, so that no program stays aliased with it."""
        for events in self._open.values():
            try:
                rate_hz = redrawn_rate_hz(self.plan.periods[0])
                for fd in events.fds[:: self._events_a_task]:
                    perf_syscalls.set_period(fd, rate_hz)
            except OSError:
                return  # the kernel has just lowered its limit: keep the rates

    def poll_fds(self) -> list[int]:
        """Return the file descriptors that become readable when a ring is half full.

        There is one for each task, because that of an ended task reports nothing.
        """
        return [fd for cpu in self._open for fd in self.poll_fds_of(cpu)]

    def poll_fds_of(self, cpu: int) -> tuple[int, ...]:
        """Return those of one CPU."""
        return self._open[cpu].fds[:: self._events_a_task]

    def python_fds(self) -> tuple[dict[int, int], list[int]]:
        """Return the events of Python frames by CPU, and those at which a program reads them."""
        if not self._has_python:
            return {}, []
        outputs: dict[int, int] = {}
        sampling: list[int] = []
        for cpu, events in self._open.items():
            *others, outputs[cpu] = events.fds
            sampling += [*others[: len(self.plan.periods)], *others[self._first_beside :]]
        return outputs, sampling

    def fds_of(self, name: str) -> dict[int, int]:
        """Return the event with a name on each CPU, for events of the whole system."""
        number = [event.name for event in self.plan.beside].index(name) + self._first_beside
        return {cpu: events.fds[number] for cpu, events in self._open.items()}

    def python_ids(self) -> list[int]:
        """Return the ids of the events of Python frames, if any."""
        return self._ids[-1] if self._has_python else []

    def python_id(self, cpu: int) -> int:
        """Return the id of a CPU's event of Python frames."""
        return self._open[cpu].ids[-1]

    def rings(self) -> list[tuple[int, Ring]]:
        """Return the watched CPUs and their rings."""
        return [(events.cpu, events.ring) for events in self._open.values()]

    @property
    def are_half_full(self) -> bool:
        """Whether a ring is half full."""
        return any(events.ring.is_half_full for events in self._open.values())

    @property
    def _wakeup_bytes(self) -> int:
        """The number of bytes of records that wakes the recorder."""
        return 1 if self.plan.wakes_at_samples else self.ring_bytes // 2

    @property
    def _has_python(self) -> bool:
        return any(event.name == RUNTIME_FRAMES for event in self.plan.beside[-1:])

    def cpus(self) -> tuple[int, ...]:
        """Return the watched CPUs."""
        return tuple(self._open)

    def clock_ids(self) -> list[list[int]]:
        """Return the ids of each clock, of all CPUs that were ever watched."""
        return self._ids[: len(self.plan.periods)]

    def copy_ids(self) -> list[list[int]]:
        """Return the ids of the events that write copies for each clock, if any."""
        return self._ids[len(self.plan.periods) : self._first_beside]

    def descriptions(self) -> tuple[EventDescription, ...]:
        """Return the events for perf.data: the bank as one event, then the others.

        If a program writes the clocks' samples of followed processes, these come first.
        """
        found: list[EventDescription] = []
        if copies := self.plan.recorded_copies(self._wakeup_bytes):
            ids = tuple(copy_id for of_clock in self.copy_ids() for copy_id in of_clock)
            found.append(EventDescription(copies, ids, self.plan.clock))
        attr = self.plan.recorded_attr(self._wakeup_bytes)
        ids = tuple(clock_id for of_clock in self.clock_ids() for clock_id in of_clock)
        found.append(EventDescription(attr, ids, self.plan.clock))
        for event, of_event in zip(self._beside(), self._ids[self._first_beside :], strict=True):
            if event.is_recorded:
                attr = event.recorded or event.attr
                found.append(EventDescription(attr, tuple(of_event), event.name))
        return tuple(found)

    def _beside(self) -> tuple[ChosenEvent, ...]:
        """Return the events other than the clocks, with the attributes to open them."""
        return tuple(
            event._replace(attr=event.attr._replace(wakeup=self._wakeup_bytes))
            for event in self.plan.beside
        )

    def cpu_of(self) -> dict[int, int]:
        """Return id → CPU, for all events that were ever open."""
        return self._cpu_of

    def read_lost(self) -> dict[int, int]:
        """Return id → samples that the kernel could not deliver; empty before Linux 6.0."""
        lost = dict(self.lost)
        for events in self._open.values():
            lost.update(_lost(events))
        return lost

    def close(self) -> None:
        """Close all events, unmap all rings, and restore the limit of open files."""
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
    """Return how many files a recording opens: its events, and one for mappings on each CPU.

    By default, the events are the clocks and one for all other records.
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
