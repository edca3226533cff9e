"""One pass over the rings of all CPUs: what they hold goes to the sink, CPUs are followed.

Comes in: open events, the on-line CPUs, a poll object that knows the rings. Goes out: records in
the sink, and which CPUs came and went.
"""

from __future__ import annotations

import select

from prospect.light import monotonic_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from prospect.capture.events.cpu_events import EventSet
    from prospect.capture.kernel.cpus import CpuWatch
    from prospect.capture.sink import Sink


class RingDrain:
    """Empties the rings.

    Attributes:
        cpu_changes: [time_ns, cpu, "online" or "offline"].
        limits: sentences about CPUs that are not sampled.
        buffers_read, buffer_flushes: Prospect's counters.
    """

    def __init__(self, events: EventSet, watch: CpuWatch, sink: Sink, poll: select.poll) -> None:
        self._events = events
        self._watch = watch
        self._sink = sink
        self._poll = poll
        self.cpu_changes: list[tuple[int, int, str]] = []
        self.limits: list[str] = []
        self.buffers_read = self.buffer_flushes = 0

    def drain(self, end: bytes, *, follows_cpus: bool) -> None:
        """Write what all rings hold, and `end` behind it if there is anything.

        Args:
            end: records of our own.
            follows_cpus: whether events are on, so that CPUs that came or went are looked for.

        Raises:
            OSError: the sink takes no more; the rings keep what they hold.
        """
        if follows_cpus and self._watch.look():
            self._follow_cpus()
        self.buffers_read += self._events.drain(self._sink, end)
        self.buffer_flushes += 1

    def leave_rings(self) -> None:
        """Let the poll object forget the rings."""
        for fd in self._events.poll_fds():
            self.forget(fd)

    def forget(self, fd: int) -> None:
        """Let the poll object forget a ring, if it has not yet."""
        try:
            self._poll.unregister(fd)
        except KeyError:
            return  # it hung up before

    def _follow_cpus(self) -> None:
        """Open events for CPUs that came on line; keep what those that went left behind."""
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
                limit = f"CPU {cpu} came on line and is not sampled: {error.strerror}."
                self.limits += [limit] if limit not in self.limits else []
                continue
            if is_there:
                self.cpu_changes.append((monotonic_ns(), cpu, "online"))
                self._events.enable_cpu(cpu)
                for fd in self._events.poll_fds_of(cpu):
                    self._poll.register(fd, select.POLLIN)
