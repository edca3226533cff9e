"""A session of sampling that goes on until it is closed, and its profile so far, at any time.

Comes in: the running kernel. Goes out: with each `advance` the profile of everything since the
session, or its memory, began; and recordings of it. What was drained since the last call is a
recording of its own for the pipeline: what stood before comes from `LiveTasks`, the profiles are
joined by `live.joined`. So the cost of a call depends on what happened since, not on how long
the session lasts.

CPUs are drained one after the other: of what happens in the tens of microseconds that this takes, a
fork on one CPU may be drained after a sample of the child on another. Such a sample goes by its
number in place of a name. The saved recording is sorted by time, and has none.
"""

from __future__ import annotations

import json
import os
import select
import threading
import time
from collections import deque
from contextlib import ExitStack, closing, suppress
from typing import TYPE_CHECKING

from prospect.capture.kernel.cpus import CpuWatch
from prospect.capture.kernel.procfs import read_cpu_times
from prospect.capture.loop.ring_drain import RingDrain
from prospect.capture.machine.surroundings import describe_surroundings
from prospect.capture.machine.synthesis import FINISHED_ROUND
from prospect.capture.python.frames import PythonFrames
from prospect.errors import CaptureError, ProspectError, RecordingError
from prospect.events.schema import schema_of
from prospect.files.outputs import RecordingFile
from prospect.live.beginning import Beginning, check_scope
from prospect.live.floods import FloodGate
from prospect.live.followed import follow
from prospect.live.growing import GrowingProfile
from prospect.live.spool import Mark, NoSpool, Spool, copy_extents
from prospect.perfdata.writer import RecordingWriter
from prospect.recording.document import Interval, describe_interval, recording_info
from prospect.recording.events import open_events, with_rate
from prospect.recording.sampling_cost import sample_cost
from prospect.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.abi.recording import RecordingInfo
    from prospect.profile.model import Profile
    from prospect.recording.events import RecordOptions

# The profile's memory. Figures of many more samples change no more while one looks, and each costs
# some 0.2 us a look; but a minute of many CPUs is many samples.
_LEAST_SAMPLES = 100_000
_SAMPLES_OF_A_CPU = 25_000
_MOST_SAMPLES = 400_000
_SPOOL_BYTES = 1 << 29
# What is drained at most without being asked for: each side record costs some 10 us a look.
_MOST_UNASKED_BYTES = 1 << 28
_MOST_UNASKED_SIDE_RECORDS = 200_000
_LONGEST_WAIT_MS = 5000
_WAIT_MS = 200
# Between two drains, beside as long as the last one took: rings may fill faster than they are
# emptied, and others wait for the lock and the interpreter.
_REST_MS = 2
# Over how many calls the session's own cost is measured.
_COSTS = 6
_NS = 1e-9


class LiveState(Record):
    """What is known at one moment.

    Attributes:
        profile: everything that is remembered, with samples, clocks, causes and stacks.
        own_cpu_percent: what this process takes of one CPU, over the last calls.
        sampling_cpu_percent: what taking samples takes of one CPU, of the processes that are
            sampled; 0 where that cannot be measured.
        kept_s: how long the time is that the profile is of.
        lost: samples that the kernel could not deliver in that time.
        limits: a sentence for each thing that cannot be seen and how to get it.
        lost_share: the part of the samples that was lost since the last call, 0 to 1.
        followed: whom the session follows where that is not everybody: those of the profile's
            processes that are descendants.
        has_ended: whether all that were named have ended.
        news: what a person should know now, "" for nothing.
    """

    profile: Profile
    own_cpu_percent: float
    sampling_cpu_percent: float
    kept_s: float
    lost: int
    limits: tuple[str, ...] = ()
    lost_share: float = 0.0
    followed: str = ""
    has_ended: bool = False
    news: str = ""


class _Drained:
    """A sink that hands on what it takes: to the spool, and to whoever decodes it next.

    Attributes:
        pieces: what was drained since the last `take`.
        size_bytes: how much that is.
        gate: leaves out what no look could follow.
    """

    def __init__(self, spool: Spool | NoSpool, gate: FloodGate) -> None:
        self._spool = spool
        self.gate = gate
        self.pieces: list[bytes] = []
        self.size_bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether no more is to be drained before somebody asks."""
        return (
            self.size_bytes > _MOST_UNASKED_BYTES
            or self.gate.side_records > _MOST_UNASKED_SIDE_RECORDS
        )

    def append(self, buffers: Sequence[memoryview | bytes]) -> None:
        self.put(self.gate.passed(b"".join(buffers)))

    def put(self, records: bytes) -> None:
        """Take records of our own, all of them."""
        self._spool.append([records])
        self.pieces.append(records)
        self.size_bytes += len(records)

    def take(self) -> bytes:
        """Return what was drained since the last call."""
        taken = b"".join(self.pieces)
        self.pieces, self.size_bytes = [], 0
        self.gate.open()
        return taken


def _suiting_samples(cpus: int) -> int:
    return min(max(_SAMPLES_OF_A_CPU * cpus, _LEAST_SAMPLES), _MOST_SAMPLES)


def _mark(lost: dict[int, int]) -> Mark:
    return Mark(time.monotonic_ns(), time.time(), read_cpu_times(), lost)


class LiveSession:
    """Samples all CPUs from its making until `close`; one thread at a time may call it.

    Where threads are chosen, or this user may not sample the system, only what is followed.

    Attributes:
        began_ns: when, in CLOCK_MONOTONIC.
    """

    def __init__(
        self,
        options: RecordOptions,
        *,
        most_samples: int = 0,
        spool_bytes: int = _SPOOL_BYTES,
    ) -> None:
        """Begin.

        Args:
            options: rate, clocks, call graph, and whom to follow; there is no command.
            most_samples: how many the profile remembers, 0 for what suits so many CPUs.
            spool_bytes: how much `save` can write, at most; with 0 no records are kept.

        Raises:
            UsageError: an option that this kernel cannot follow.
            CaptureError: the whole system may not be sampled, or whom to follow is not there;
                says what to do.
            RecordingError: there is no place for the spool.
        """
        self._options = with_rate(replace(options, wakers=False))
        self._lock = threading.Lock()
        self._followed = follow(options)
        self._growing = GrowingProfile(
            most_samples or _suiting_samples(os.cpu_count() or 1),
            stacks=bool(options.call_graph),
            use_cache=options.use_cache,
            off_cpu=options.off_cpu,
            followed=self._followed,
        )
        self._costs: deque[tuple[float, float]] = deque(maxlen=_COSTS)
        self._poll = select.poll()
        with ExitStack() as opened:
            if self._followed:
                opened.push(self._followed)
            watch = opened.enter_context(closing(CpuWatch()))
            self._events = opened.enter_context(
                closing(open_events(self._options, os.getpid(), watch.online))
            )
            if not self._followed:
                check_scope(self._events)
            cost = sample_cost(self._events.plan, use_cache=options.use_cache)
            self._sample_cost_ns = cost.user_ns if cost else 0.0
            self._mark = _mark({})
            self.began_ns = self._mark.time_ns
            spool = Spool(self._mark, spool_bytes) if spool_bytes else NoSpool(self._mark)
            self._spool = opened.enter_context(closing(spool))
            gate = FloodGate(schema_of(self._events.descriptions()))
            self._drained = _Drained(self._spool, gate)
            self._drain = RingDrain(self._events, watch, self._drained, self._poll)
            self._stop_fd = os.eventfd(0, os.EFD_CLOEXEC)
            opened.callback(os.close, self._stop_fd)
            for fd in (self._stop_fd, *self._events.poll_fds()):
                self._poll.register(fd, select.POLLIN)
            self._events.enable()
            self._python = opened.enter_context(PythonFrames())
            if self._events.python_ids():
                self._python.start(self._events, beside_others=options.python == "always")
            tasks = self._events.tasks if self._followed else ()
            self._background = describe_surroundings(
                Beginning(self._drain, self._drained), self._events.plan, tasks=tasks
            )
            if self._followed:
                self._followed.find_family()
            self._thread = threading.Thread(target=self._watch_rings, name="rings", daemon=True)
            self._thread.start()
            opened.callback(self._end_thread)
            self._opened = opened.pop_all()

    @property
    def child_pids(self) -> list[int]:
        """Processes that work for the session."""
        return [*filter(None, [self._python.child.pid])]

    def advance(self) -> LiveState:
        """Take in what was recorded since the last call; return all that is remembered.

        Raises:
            CaptureError: the rings cannot be read any more.
        """
        with self._lock:
            before, data, now = self._mark, self._drain_all(), self._next_mark()
        seen = self._background.snapshot.processes
        part = self._growing.add(data, self._info(before, now), seen)
        if self._spool.is_full:
            records = self._growing.records(self._events.descriptions())
            with self._lock:
                self._spool.turn(self._mark, records, self._drained.pieces)
        profile = self._growing.profile()
        self._costs.append((time.monotonic(), time.process_time()))
        return LiveState(
            profile=profile,
            own_cpu_percent=_percent(self._costs),
            sampling_cpu_percent=100.0 * self._sample_cost_ns * _rate(part),
            kept_s=profile.run.wall_seconds,
            lost=int(profile.losses.lost.sum()),
            limits=profile.run.limits,
            lost_share=_lost_share(part),
            followed=self._followed.words if self._followed else "",
            has_ended=self._followed is not None and self._followed.has_ended,
        )

    def take(self) -> LiveState:
        """Return what was recorded since the last call, and forget it; raises as `advance`."""
        state = self.advance()
        self._growing.clear()
        return state

    def save(self, path: str) -> str:
        """Write all that the spool keeps as a perf.data file; return a sentence that says so.

        Raises:
            RecordingError: it cannot be written; an earlier file of that name is as it was.
        """
        file = RecordingFile(path)
        try:
            return self._save(file)
        except (OSError, ProspectError) as error:
            with suppress(OSError):  # somebody else may have removed it
                file.withdraw()
            if isinstance(error, ProspectError):
                raise
            raise RecordingError(f"cannot record to '{path}': {error.strerror}") from error
        finally:
            file.close()

    def clear(self) -> None:
        """Forget what was seen: the next `advance` begins anew.

        Raises:
            ProspectError: as `advance`; or there is no place for the spool.
        """
        self.advance()
        records = self._growing.records(self._events.descriptions())
        with self._lock:
            self._spool.restart(self._mark, records, self._drained.pieces)
        self._growing.clear()

    def close(self) -> None:
        """End the session, and leave nothing behind."""
        self._opened.close()

    def _save(self, file: RecordingFile) -> str:
        writer = RecordingWriter(file.descriptor, self._events.descriptions())
        with self._lock:
            # Only what `advance` has seen: the profile on the screen is the one that is saved.
            start, extents = self._spool.start, self._spool.extents()
        copied = copy_extents(extents, file.descriptor)
        info = self._info(start, self._mark)
        extras = info.extras | {"processes": self._background.snapshot.processes}
        writer.finish(info._replace(extras=extras), self._events.descriptions())
        seconds = (self._mark.time_ns - start.time_ns) * _NS
        refusal = f"; {self._spool.refusal}" if self._spool.refusal else ""
        return f"{copied / 1e6:.1f} MB, the last {seconds:.0f} s, are in {file.path}{refusal}"

    def _end_thread(self) -> None:
        os.eventfd_write(self._stop_fd, 1)
        self._thread.join()

    def _watch_rings(self) -> None:
        """Empty rings that are half full before anybody asks for the profile.

        Where nobody asks any more the kernel counts what is lost: memory is not ours to fill.
        """
        stop = select.poll()
        stop.register(self._stop_fd, select.POLLIN)
        while True:
            while self._drained.is_full:
                if stop.poll(_WAIT_MS):
                    return
            # Not for ever: a CPU that comes on line is not among what is waited for yet.
            ready = self._poll.poll(_LONGEST_WAIT_MS)
            begin_s = time.thread_time()
            with self._lock:
                for fd, what in ready:
                    if fd == self._stop_fd:
                        return
                    if what & ~select.POLLIN:
                        # Its CPU went off line; `advance` may have seen it first.
                        self._drain.forget(fd)
                try:
                    self._drain.drain(FINISHED_ROUND, follows_cpus=True)
                except (OSError, ProspectError):
                    rest_ms = _WAIT_MS  # `advance` meets it too, and says so
                else:
                    rest_ms = _REST_MS + int(1000 * (time.thread_time() - begin_s))
            if stop.poll(rest_ms):
                return

    def _drain_all(self) -> bytes:
        try:
            self._drain.drain(FINISHED_ROUND, follows_cpus=True)
        except OSError as error:
            raise CaptureError(f"the kernel's buffers cannot be read: {error.strerror}") from error
        self._spool.seal()
        return self._drained.take()

    def _next_mark(self) -> Mark:
        self._mark = _mark(self._events.read_lost())
        return self._mark

    def _info(self, begin: Mark, end: Mark) -> RecordingInfo:
        """Return what a recording from one mark to the other says of itself, but for processes."""
        lost = {key: count - begin.lost.get(key, 0) for key, count in end.lost.items()}
        times = (begin.cpu_times, end.cpu_times)
        with self._lock:  # a CPU may come on line meanwhile
            interval = Interval(begin.time_ns, end.time_ns, times, list(self._drain.cpu_changes))
            extras = describe_interval(
                self._options, self._events, interval, self._background, lost
            )
            extras["limits"] = [
                *self._events.plan.limits,
                *self._background.limits,
                *self._drain.limits,
                *self._drained.gate.limits,
                *self._python.limits,
                *filter(None, [self._spool.refusal]),
            ]
        extras["recorder_pids"] += self.child_pids
        del extras["processes"]  # maybe 100,000, of which a part needs a few
        extras["started_at"] = begin.at
        extras["dropped_share"] = self._python.dropped_share
        extras["attached_pids"] = list(self._followed.pids) if self._followed else []
        # As a file would give it: the numbers that are keys become text.
        extras = json.loads(json.dumps(extras))
        return recording_info(self._options, self._events, self._background, extras)


def _percent(costs: Sequence[tuple[float, float]]) -> float:
    """Return what this process took of one CPU between the first and the last call, in percent."""
    (begin, began_cpu), (end, ended_cpu) = costs[0], costs[-1]
    return 100.0 * (ended_cpu - began_cpu) / (end - begin) if end > begin else 0.0


def _lost_share(part: Profile) -> float:
    lost = int(part.losses.lost.sum())
    return lost / (lost + len(part.samples)) if lost else 0.0


def _rate(part: Profile) -> float:
    """Return the samples a nanosecond, on all CPUs."""
    length_ns = part.run.end_ns - part.run.begin_ns
    return len(part.samples) / length_ns if length_ns > 0 else 0.0
