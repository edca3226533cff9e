"""The loop of a recording: sleep until a ring is half full, write what is in all rings, repeat.

`RingDrain` makes one pass over the rings of all CPUs: it writes their contents to the sink, and
follows CPUs that come and go. `DrainLoop` ends with the command or its substitute, or on a signal.

Defined by: perf_event_open(2), "Overflow handling" and the ring buffer's poll semantics.
"""

from __future__ import annotations

import errno
import os
import select

from prospect.capture.kernel.procfs import read_cpu_times
from prospect.capture.loop.command import Command, EndRequest
from prospect.light import monotonic_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from prospect.capture.events.cpu_events import EventSet
    from prospect.capture.kernel.procfs import CpuWatch
    from prospect.capture.loop.attached import Attached
    from prospect.capture.loop.command import SignalWatch
    from prospect.capture.python.memory_reader import MemoryFrames
    from prospect.capture.sink import RecordSink, Sink


class RingDrain:
    """Empties the rings.

    Attributes:
        cpu_changes: [time_ns, cpu, "online" or "offline"].
        limits: sentences about CPUs that are not sampled.
        buffers_read, buffer_flushes: Prospect's counters.
        frames: reads Python frames of the samples before they are drained; None for no frames.
    """

    def __init__(self, events: EventSet, watch: CpuWatch, sink: Sink, poll: select.poll) -> None:
        self._events = events
        self._watch = watch
        self._sink = sink
        self._poll = poll
        self.cpu_changes: list[tuple[int, int, str]] = []
        self.limits: list[str] = []
        self.buffers_read = self.buffer_flushes = 0
        self.frames: MemoryFrames | None = None

    def drain(self, end: bytes, *, follows_cpus: bool) -> None:
        """Write the contents of all rings, followed by `end` if there are any.

        Args:
            end: the recorder's own records.
            follows_cpus: whether events are on, so that CPUs that came or went matter.

        Raises:
            OSError: the sink takes no more; the rings keep their contents.
        """
        if follows_cpus and self._watch.look():
            self._follow_cpus()
        if self.frames:
            self.frames.look()
        self.buffers_read += self._events.drain(self._sink, end)
        self.buffer_flushes += 1

    def leave_rings(self) -> None:
        """Unregister all rings from the poll object."""
        for fd in self._events.poll_fds():
            self.forget(fd)

    def forget(self, fd: int) -> None:
        """Unregister a ring from the poll object."""
        try:
            self._poll.unregister(fd)
        except KeyError:
            return  # it hung up before, and is unregistered

    def _follow_cpus(self) -> None:
        """Open events for CPUs that came online; write the rests of CPUs that went offline."""
        watched, online = set(self._events.cpus()), set(self._watch.online)
        gone = (watched - online) | set(self._events.stopped_cpus())
        for cpu in sorted(gone):
            for fd in self._events.poll_fds_of(cpu):
                self.forget(fd)
            stopped_ns = self._events.drop_cpu(cpu, self._sink)
            self.cpu_changes.append((stopped_ns, cpu, "offline"))
        for cpu in sorted(online - (watched - gone)):
            try:
                is_there = self._events.add_cpu(cpu)
            except OSError as error:
                limit = f"CPU {cpu} came online and is not sampled: {error.strerror}."
                self.limits += [limit] if limit not in self.limits else []
                continue
            if is_there:
                self.cpu_changes.append((monotonic_ns(), cpu, "online"))
                self._events.enable_cpu(cpu)
                for fd in self._events.poll_fds_of(cpu):
                    self._poll.register(fd, select.POLLIN)


# The time between looks at the command if the kernel has no pidfd.
_NO_PIDFD_MS = 10


class DrainLoop:
    """One recording interval, from the command's start to its end, or for a given time.

    Attributes:
        done: whether the loop has ended.
        begin_ns, end_ns: the interval in CLOCK_MONOTONIC; 0 until known.
        cpu_times: /proc/stat as the interval begins and ends.
        cut: a sentence on why the rings were not drained to the end; "" if they were.
        limits: sentences about problems.
        wakeups: how often a ring was half full.
        drain: empties the rings, and follows CPUs.
    """

    def __init__(
        self,
        events: EventSet,
        command: Command | Attached,
        signals: SignalWatch,
        watch: CpuWatch,
        sink: RecordSink,
    ) -> None:
        self._events = events
        self._command = command
        self._started = command if isinstance(command, Command) else None
        self._signals = signals
        self._sink = sink
        self._flush_ns = self._redraw_at_ns = 0
        self._poll = select.poll()
        self.drain = RingDrain(events, watch, sink, self._poll)
        self._end_request = EndRequest(signals, self._started)
        self._round_end = b""
        self._watched: dict[int, Callable[[], None]] = {}
        self.cut = ""
        self.done = False
        self.begin_ns = self.end_ns = self._drained_ns = 0
        self.cpu_times: tuple[dict[str, list[int]], dict[str, list[int]]] = ({}, {})
        self.limits: list[str] = []
        self.wakeups = 0

    @property
    def interrupted_by(self) -> int:
        """The first signal that ends the interval, 0 for none."""
        return self._end_request.interrupted_by

    def start(self, flush_centiseconds: int) -> None:
        """Start the events, then the command; drain at least every `flush_centiseconds`."""
        self._flush_ns = flush_centiseconds * 10_000_000
        self._redraw_if_due(monotonic_ns())
        self.begin_ns = self._drained_ns = monotonic_ns()
        self._events.enable()
        self._command.release()
        self.cpu_times = (read_cpu_times(), {})
        for fd in (self._command.exec_fd, self._command.pidfd, self._signals.fd):
            if fd >= 0:
                self._poll.register(fd, select.POLLIN)
        for fd in self._events.poll_fds():
            self._poll.register(fd, select.POLLIN)

    def watch(self, fd: int, call: Callable[[], None]) -> None:
        """Call a function once, when a descriptor is readable or at its end."""
        self._watched[fd] = call
        self._poll.register(fd, select.POLLIN)

    def write(self, records: bytes) -> None:
        """Add records that do not come from a ring."""
        if self.cut or not records:
            return
        try:
            self._sink.append([records])
        except OSError as error:
            self._end_with_file(error)

    def begin_rounds(self, end: bytes) -> None:
        """Write `end` after each pass from now on: all later records are newer."""
        self._round_end = end

    def step(self, *, wait: bool) -> None:
        """Handle signals, rings and the command's end; with `wait`, sleep until there is one.

        Raises:
            CommandError: the command could not be executed.
        """
        if self.drain.frames and wait:
            self.drain.frames.rest()
        ready = self._poll.poll(self._timeout_ms() if wait else 0)
        rings_ready = self._handle(ready)
        self.wakeups += rings_ready
        if self.drain.frames:
            self.drain.frames.look()
            rings_ready = self._events.are_half_full
        now_ns = monotonic_ns()
        if self._command.reap() or self._end_request.is_over(now_ns) or self._is_cut_off:
            self.done = True
            if self._command.reap() and self._command.exec_fd >= 0:
                self._command.check_exec()
            self._finish(now_ns)
        elif not self.end_ns:
            if rings_ready or now_ns - self._drained_ns >= self._flush_ns:
                self._drain_guarded(now_ns)
            self._redraw_if_due(now_ns)

    def _handle(self, ready: list[tuple[int, int]]) -> bool:
        """Handle readable descriptors; return whether a ring is one of them."""
        rings_ready = False
        for fd, what in ready:
            if fd == self._command.exec_fd:
                self._poll.unregister(fd)
                self._command.check_exec()
            elif fd == self._signals.fd:
                self._end_request.obey()
            elif fd in self._watched:
                self._poll.unregister(fd)
                self._watched.pop(fd)()
            elif fd != self._command.pidfd:
                rings_ready = True
                if what & ~select.POLLIN:
                    # The task or the CPU of this event is gone, so it is ready for ever.
                    self._poll.unregister(fd)
        return rings_ready

    def _finish(self, now_ns: int) -> None:
        """Stop the events and write the rest, unless a full file has ended the interval."""
        if not self.end_ns:
            # Only enabled events show that a CPU came or went.
            self._drain_guarded(now_ns)
        if not self.end_ns:
            self._end()
            self._drain_guarded(self.end_ns)

    @property
    def _is_cut_off(self) -> bool:
        """Whether the file is full, and there is no command to wait for anyway."""
        return bool(self.cut) and self._started is None

    def _timeout_ms(self) -> int | None:
        if self._is_cut_off:
            return 0
        now_ns = monotonic_ns()
        waits = []
        if not self.end_ns:
            waits.append((self._drained_ns + self._flush_ns - now_ns) // 1_000_000 + 1)
            if self._events.plan.redraw_interval_ns:
                waits.append((self._redraw_at_ns - now_ns) // 1_000_000 + 1)
        ends_ns = filter(None, (self._end_request.give_up_ns, self._command.until_ns))
        waits += [(until_ns - now_ns) // 1_000_000 + 1 for until_ns in ends_ns]
        if self._command.pidfd < 0:
            waits.append(_NO_PIDFD_MS)
        if self.drain.frames and not self.end_ns:
            waits += [wait for wait in (self.drain.frames.wait_ms(),) if wait is not None]
        return max(0, min(waits)) if waits else None

    def _redraw_if_due(self, now_ns: int) -> None:
        interval_ns = self._events.plan.redraw_interval_ns
        if interval_ns and now_ns >= self._redraw_at_ns:
            self._redraw_at_ns = now_ns + interval_ns
            self._events.redraw_rates()

    def _drain_guarded(self, now_ns: int) -> None:
        self._drained_ns = now_ns
        try:
            self.drain.drain(self._round_end, follows_cpus=not self.end_ns)
        except OSError as error:
            self._end_with_file(error)

    def _end(self) -> None:
        self._events.disable()
        self.end_ns = monotonic_ns()
        self.cpu_times = (self.cpu_times[0], read_cpu_times())

    def _end_with_file(self, error: OSError) -> None:
        """End the interval because the file cannot grow; the command continues."""
        self.drain.leave_rings()
        if not self.end_ns:
            self._end()
        seconds = (self.end_ns - self.begin_ns) / 1e9
        reason = error.strerror or os.strerror(errno.EIO)
        self.cut = f"Recorded only the first {seconds:.1f} s: {reason}."
        self.limits.append(self.cut)
