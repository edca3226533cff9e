"""Get records for a live session from the running kernel, part after part.

This module imports only the standard library: `prospect top --target` runs it on the target.

Draining the CPUs one after the other takes tens of microseconds. So a fork on one CPU may be
drained after a sample of the child on another; this sample shows a process id instead of a name. A
saved recording is sorted by time, and has no such samples.
"""

from __future__ import annotations

import json
import os
import select
import sys
import threading
import time
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

from prospect.capture.events.event_choice import SCOPE_SYSTEM
from prospect.capture.java.java_reader import JavaFunctions
from prospect.capture.kernel.procfs import CpuWatch, list_pids, read_cpu_times, read_setting
from prospect.capture.loop.drain_loop import RingDrain
from prospect.capture.machine.containers import ContainerNames
from prospect.capture.machine.surroundings import describe_surroundings
from prospect.capture.machine.synthesis import FINISHED_ROUND
from prospect.capture.runtimes.runtime_reader import RuntimeFrames
from prospect.errors import CaptureError, ProspectError
from prospect.light import Closing, monotonic_ns
from prospect.live.chosen import Chosen
from prospect.live.live_limits import LONGEST_WAIT_MS
from prospect.recording.document import Interval, describe_interval, recording_info
from prospect.recording.opened_events import open_events, with_rate
from prospect.recording.sampling_cost import sample_cost
from prospect.records import NamedTuple, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Protocol

    from prospect.abi.attr import EventDescription
    from prospect.abi.recorded_facts import RecordingInfo
    from prospect.capture.events.cpu_events import EventSet
    from prospect.capture.python.memory_reader import MemoryFrames
    from prospect.events.record_columns import Events
    from prospect.live.chosen import Whom
    from prospect.profile.group_names import ContainerFacts
    from prospect.profile.model import Profile
    from prospect.recording.document import CpuTimes
    from prospect.recording.opened_events import RecordOptions

    class Gate(Protocol):
        """Leaves out records; see `live.record_limiters`.

        Attributes:
            limits: a sentence for each thing that was left out.
            condensed_bytes: the size of waiting records from which on `condensed` is called.
        """

        limits: list[str]
        condensed_bytes: int

        def open(self) -> None:
            """Start counting again, after a look."""
            ...

        def passed(self, data: bytes) -> bytes:
            """Return whole records without the surplus."""
            ...

        def condensed(self, data: bytes, until_ns: int) -> bytes:
            """Return all records since the last look without those that no look needs.

            Args:
                data: whole records that have passed.
                until_ns: all records before this time are there.
            """
            ...

        def is_full(self, size_bytes: int) -> bool:
            """Return whether one look should not read more than this."""
            ...

    class Source(Protocol):
        """A source of records; see `KernelSource`."""

        sample_cost_ns: float
        mark: Mark
        running: Running | None
        whom: Whom | None

        @property
        def has_ended(self) -> bool:
            """Whether all followed processes have ended."""
            ...

        @property
        def child_pids(self) -> list[int]:
            """Processes of this machine that work for it."""
            ...

        @property
        def seen(self) -> Mapping[int, Sequence[int]]:
            """The processes of the first look."""
            ...

        @property
        def waiting_bytes(self) -> int:
            """The size of the records that `take` returns next."""
            ...

        def descriptions(self) -> Sequence[EventDescription]:
            """Return the events."""
            ...

        def take(self) -> bytes:
            """Return the records since the last call."""
            ...

        def info(self, begin: Mark, end: Mark) -> RecordingInfo:
            """Return the facts of a recording of that time."""
            ...

        def fetch_names(self, profile: Profile, events: Events) -> dict[str, Any]:
            """Fetch missing names of a part.

            Returns ``mapped_files`` of docs/recording.md, the build ids of all mapped files so far;
            empty if there is nothing new.
            """
            ...

        def name_containers(self, paths: list[str]) -> Mapping[str, ContainerFacts]:
            """Return the facts of the containers that control groups belong to, by container id."""
            ...

        def close(self) -> None:
            """End sampling."""
            ...

    MakeGate = Callable[[Sequence[EventDescription]], Gate]
    FetchNames = Callable[[Profile, Events], dict[str, Any]]
    MakeSource = Callable[[RecordOptions, MakeGate], Source]

# A record gets its time before it is in the ring: an interrupt, or the host, may delay it.
_IN_FLIGHT_NS = 10**7


class Drained:
    """A sink that keeps drained records for the next `take`.

    Attributes:
        size_bytes: their size.
        gate: leaves out records.
        begun_ns: when the current drain began, in CLOCK_MONOTONIC.
    """

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self._pieces: list[bytes] = []
        self._condensed_at = gate.condensed_bytes
        self.size_bytes = 0
        self.begun_ns = 0

    @property
    def is_full(self) -> bool:
        """Whether draining should stop until the next `take`."""
        return self.gate.is_full(self.size_bytes)

    def append(self, buffers: Sequence[memoryview | bytes]) -> None:
        """Add records of the kernel."""
        self.put(self.gate.passed(b"".join(buffers)))
        if self.size_bytes > self._condensed_at:
            self._condense()
            # The rest stays. Searching it each time would cost its square.
            self._condensed_at = max(2 * self.size_bytes, self.gate.condensed_bytes)

    def put(self, records: bytes) -> None:
        """Add our own records, which no gate limits."""
        self._pieces.append(records)
        self.size_bytes += len(records)

    def take(self) -> bytes:
        """Return the records since the last call."""
        if self._condensed_at < sys.maxsize:
            self._condense()
        records = b"".join(self._pieces)
        self._pieces, self.size_bytes = [], 0
        self._condensed_at = self.gate.condensed_bytes
        self.gate.open()
        return records

    def _condense(self) -> None:
        condensed = self.gate.condensed(b"".join(self._pieces), self.begun_ns - _IN_FLIGHT_NS)
        self._pieces, self.size_bytes = [condensed], len(condensed)


_PARANOID = "/proc/sys/kernel/perf_event_paranoid"


def check_scope(events: EventSet) -> None:
    """Refuse to sample less than the whole system.

    Raises:
        CaptureError: this user may not sample it; says what to do.
    """
    if events.plan.scope != SCOPE_SYSTEM:
        raise CaptureError(
            "the whole system cannot be sampled: run as root, give CAP_PERFMON, or run: sysctl"
            f" kernel.perf_event_paranoid=0 (it is {read_setting(_PARANOID)}); or name your own "
            "processes (-p PID)"
        )


class Beginning:
    """The loop during the first look at the system; see `describe_surroundings`."""

    done = False

    def __init__(self, drain: RingDrain, sink: Drained) -> None:
        self._drain = drain
        self._sink = sink

    def write(self, records: bytes) -> None:
        """Pass our own records on."""
        if records:
            self._sink.put(records)

    def step(self, *, wait: bool) -> None:
        """Empty the rings, without waiting."""
        del wait
        self._drain.drain(b"", follows_cpus=True)

    def begin_rounds(self, end: bytes) -> None:
        """Do nothing: `FINISHED_ROUND` is written from the first `advance` on."""
        del end


_WAIT_MS = 200
# The rest between two drains, in addition to the time of the last one: rings may fill faster than
# this empties them, and other threads wait for the lock and the interpreter.
_REST_MS = 2
# No ring fills up in this time. The number of tries at the end of a part.
_AT_ONCE_NS, _TRIES = 50_000_000, 4


class Mark(NamedTuple):
    """A moment of the session, and the kernel's counts at that time.

    Attributes:
        time_ns: in CLOCK_MONOTONIC.
        at: the same, in seconds since 1970.
        cpu_times: /proc/stat.
        lost: the lost samples by event id.
        left_out: the number of Python files, mappings and names that were left out, by kind.
        read_ns: when each CPU's buffer was last read, in CLOCK_MONOTONIC. Later samples belong to
            the next part.
    """

    time_ns: int
    at: float
    cpu_times: CpuTimes
    lost: Mapping[int, int]
    left_out: Mapping[str, int]
    read_ns: Mapping[int, int]


class Running(NamedTuple):
    """The processes that ran at a moment, in CLOCK_MONOTONIC."""

    time_ns: int
    pids: frozenset[int]


class KernelSource(Closing):
    """Samples all CPUs of this machine, or the processes or threads of the options, until `close`.

    Attributes:
        mark: the end of the last part; at first, the begin of sampling.
        running: the processes at that time, if the part lost records, which may be exits; None if
            it lost none.
        sample_cost_ns: the cost of a sample, 0 if unknown.
        whom: the followed processes when sampling began; None for all processes.
    """

    def __init__(
        self, options: RecordOptions, make_gate: MakeGate, *, with_programs: bool = False
    ) -> None:
        """Start sampling.

        Args:
            options: rate, clocks, call graph, and processes to follow; there is no command.
            make_gate: makes the gate of the events.
            with_programs: whether readers of runtimes are programs without pages of this process.

        Raises:
            UsageError: this kernel does not have an option.
            CaptureError: the user may not sample the system, or a process does not exist; says
                what to do.
        """
        self._options = with_rate(replace(options, wakers=False))
        self._containers = ContainerNames(kubelet=options.kubelet)
        self._lock = threading.Lock()
        self._poll = select.poll()
        is_followed = bool(options.pids or options.tids)
        with ExitStack() as opened:
            self._chosen = Chosen(options.pids, options.tids) if is_followed else None
            if self._chosen:
                opened.push(self._chosen)
            watch = opened.enter_context(closing(CpuWatch()))
            # A session chooses processes when it shows them.
            options = replace(self._options, of_all=True, in_parts=True)
            self._events = opened.enter_context(
                closing(open_events(options, os.getpid(), watch.online))
            )
            if not is_followed:
                check_scope(self._events)
            cost = sample_cost(self._events.plan, use_cache=options.use_cache)
            self.sample_cost_ns = cost.user_ns if cost else 0.0
            self.mark = _mark({}, {}, {})
            self.running: Running | None = None
            self._drained = Drained(make_gate(self._events.descriptions()))
            self._drain = RingDrain(self._events, watch, self._drained, self._poll)
            # A pipe, as Python 3.9, which a target may have, has no os.eventfd().
            self._stop_fd, self._stopping_fd = os.pipe2(os.O_CLOEXEC)
            opened.callback(os.close, self._stop_fd)
            opened.callback(os.close, self._stopping_fd)
            for fd in (self._stop_fd, *self._events.poll_fds()):
                self._poll.register(fd, select.POLLIN)
            self._events.enable()
            self._python = self._python_frames(is_program=with_programs)
            self._events.hide_frames(lambda: self._python.is_attached)
            opened.callback(self._python.close)
            self._java = JavaFunctions()
            opened.callback(self._java.close)
            described = self._events.descriptions()
            with_stacks = any(one.attr.sample_stack_user for one in described)
            self._java.start(
                with_stacks=with_stacks,
                session_hz=self._options.frequency_hz,
                is_program=with_programs,
            )
            tasks = self._events.tasks if is_followed else ()
            self._background = describe_surroundings(
                Beginning(self._drain, self._drained), self._events.plan, tasks=tasks
            )
            self._thread = threading.Thread(target=self._watch_rings, name="rings", daemon=True)
            self._thread.start()
            opened.callback(self._end_thread)
            self.whom = self._chosen.whom() if self._chosen else None
            self._opened = opened.pop_all()

    def _python_frames(self, *, is_program: bool) -> RuntimeFrames | MemoryFrames:
        """Start a reader of Python functions."""
        if self._events.plan.reads_memory:
            from prospect.capture.python.memory_reader import MemoryFrames  # noqa: PLC0415 - not by root

            self._drain.frames = MemoryFrames(self._events)
            return self._drain.frames
        frames = RuntimeFrames(is_program=is_program)
        if self._events.python_ids():
            is_forced = self._options.python == "always"
            frames.start(self._events, self._options.frequency_hz, beside_others=is_forced)
        return frames

    @property
    def child_pids(self) -> list[int]:
        """See `Source`."""
        return [*self._python.pids, *self._java.pids]

    @property
    def has_ended(self) -> bool:
        """See `Source`."""
        return self._chosen is not None and self._chosen.have_ended()

    @property
    def seen(self) -> Mapping[int, Sequence[int]]:
        """By pid, what the first look at the system saw of a process."""
        return self._background.snapshot.processes

    @property
    def waiting_bytes(self) -> int:
        """See `Source`."""
        return self._drained.size_bytes

    def descriptions(self) -> Sequence[EventDescription]:
        """Return the events, with their ids so far."""
        return self._events.descriptions()

    def take(self) -> bytes:
        """Return the records since the last call, and set `mark` to their end.

        Raises:
            CaptureError: the rings cannot be read any more.
        """
        with self._lock:
            try:
                self._empty_rings_at_once()
            except OSError as error:
                raise CaptureError(
                    f"the kernel's buffers cannot be read: {error.strerror}"
                ) from error
            before = self.mark
            read_ns = dict(self._events.read_ns)
            self.mark = _mark(self._events.read_lost(), self._python.counts, read_ns)
            now = self.mark.lost
            # Linux before 6.0 does not count losses.
            has_lost = not now or any(now[key] > before.lost.get(key, 0) for key in now)
            self.running = None
            if has_lost:
                self.running = Running(self.mark.time_ns, frozenset(list_pids()))
            return self._drained.take()

    def info(self, begin: Mark, end: Mark) -> RecordingInfo:
        """Return the facts of a recording from one mark to the other, without processes."""
        lost = {key: count - begin.lost.get(key, 0) for key, count in end.lost.items()}
        times = (begin.cpu_times, end.cpu_times)
        with self._lock:  # a CPU may come online in the meantime
            interval = Interval(begin.time_ns, end.time_ns, times, list(self._drain.cpu_changes))
            extras = describe_interval(
                self._options, self._events, interval, self._background, lost
            )
            extras["limits"] = [
                *self._events.plan.limits,
                *self._background.limits,
                *self._drain.limits,
                *self._drained.gate.limits,
                *self._python.limits_since(begin.left_out),
                *self._java.limits,
            ]
        extras["recorder_pids"] += self.child_pids
        del extras["processes"]  # maybe 100,000, of which a part needs a few
        extras["started_at"] = begin.at
        extras["buffers_read_ns"] = [begin.read_ns, end.read_ns]
        extras["dropped_share"] = self._python.dropped_share
        # As a file would give it: keys that are numbers become text.
        extras = json.loads(json.dumps(extras))
        extras["jit_files"] = self._java.files()
        return recording_info(self._options, self._events, self._background, extras)

    def fetch_names(self, _profile: Profile, _events: Events) -> dict[str, Any]:
        """Return nothing: all files are on this machine."""
        return {}

    def name_containers(self, paths: list[str]) -> Mapping[str, ContainerFacts]:
        """See `Source`."""
        return self._containers.of(paths)

    def close(self) -> None:
        """End sampling."""
        self._opened.close()

    def _empty_rings(self) -> None:
        """Empty all rings; raises as `RingDrain.drain`."""
        self._drained.begun_ns = monotonic_ns()
        self._drain.drain(FINISHED_ROUND, follows_cpus=True)

    def _empty_rings_at_once(self) -> None:
        """Empty all rings, and again if that took long; raises as `RingDrain.drain`.

        A full ring still loses samples after the time of its reading. The kernel's counts would
        then include losses of the next part.
        """
        for _ in range(_TRIES):
            began_ns = monotonic_ns()
            self._empty_rings()
            if monotonic_ns() - began_ns < _AT_ONCE_NS:
                break

    def _end_thread(self) -> None:
        os.write(self._stopping_fd, b"\0")
        self._thread.join()

    def _watch_rings(self) -> None:
        """Empty rings that are half full, until `_drained` is full.

        If nobody takes the records, rings overflow instead of this process's memory.
        """
        stop = select.poll()
        stop.register(self._stop_fd, select.POLLIN)
        while True:
            while self._drained.is_full:
                if stop.poll(_WAIT_MS):
                    return
            # Not for ever: the poll set may lack a CPU that has come online.
            wait_ms = self._drain.frames.wait_ms() if self._drain.frames else None
            ready = self._poll.poll(LONGEST_WAIT_MS if wait_ms is None else wait_ms)
            if self._stop_fd in (fd for fd, _ in ready):
                return
            if self._drain.frames:
                self._drain.frames.rest()
            if stop.poll(self._look(ready)):
                return

    def _look(self, ready: list[tuple[int, int]]) -> int:
        """Empty rings that are half full, or read frames; return the time to rest, in ms."""
        begin_s = time.thread_time()
        with self._lock:
            for fd, what in ready:
                if what & ~select.POLLIN:
                    # Its CPU went offline; `take` may have seen it first.
                    self._drain.forget(fd)
            if self._drain.frames and not self._events.are_half_full:
                self._drain.frames.look()
                return 0
            try:
                self._empty_rings()
            except (OSError, ProspectError):
                return _WAIT_MS  # `take` raises it too
            return _REST_MS + int(1000 * (time.thread_time() - begin_s))


def _mark(lost: Mapping[int, int], left_out: Mapping[str, int], read_ns: Mapping[int, int]) -> Mark:
    return Mark(monotonic_ns(), time.time(), read_cpu_times(), lost, left_out, read_ns)
