"""Sample until the session is closed, and return the profile so far at any time.

The pipeline handles the records since the last call as a recording: `LiveTasks` gives the state
before, and `live.joined` joins the profiles. So the cost of a call depends on the records since the
last one, not on the length of the session.

Under overload a `SteadySession` records less: if the kernel repeatedly loses many samples, callers
come from frame pointers instead of copies of stacks, and then there are none. The profile starts
again then, as stacks of two kinds do not add up.

A `Spool` keeps the latest records in two files without a name, ready to be saved: when the newer
one reaches half of the spool's size, it replaces the older one.
"""

from __future__ import annotations

import errno
import os
import time
from collections import deque
from contextlib import ExitStack, closing, suppress
from typing import TYPE_CHECKING

from prospect.capture.sink import RecordSink
from prospect.errors import ProspectError, RecordingError
from prospect.events.sample_schema import schema_of
from prospect.files.outputs import RecordingFile
from prospect.live.carried import Followed
from prospect.live.growing import GrowingProfile
from prospect.live.live_limits import LEAST_SAMPLES, MOST_SAMPLES
from prospect.live.record_limiters import Bounds
from prospect.live.source import KernelSource
from prospect.perfdata.writer import RecordingWriter
from prospect.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from prospect.abi.recorded_facts import RecordingInfo
    from prospect.live.source import MakeSource, Mark
    from prospect.profile.group_names import ContainerFacts
    from prospect.profile.model import Profile
    from prospect.recording.opened_events import RecordOptions

_SAMPLES_OF_A_CPU = 25_000
# The number of calls over which the session measures its own cost.
_COSTS = 6
_NS = 1e-9


class LiveState(Record):
    """The state of a session at one moment.

    Attributes:
        profile: the remembered profile, with samples, clocks, entry reasons and stacks.
        own_cpu_percent: the share of one CPU that this process used over the last calls.
        sampling_cpu_percent: the share of one CPU that sampling took from the sampled processes; 0
            if unknown.
        kept_s: the time that the profile covers.
        lost: the samples that the kernel lost in that time.
        limits: a sentence for each thing that is not visible, and the fix.
        lost_share: the share of the samples since the last call that was lost, 0 to 1.
        followed: the description of the followed processes, "" for all processes.
        has_ended: whether all followed processes have ended.
        news: a message for the user, "" for none.
        part: the profile since the last call, with its turns; None if turns are not wanted.
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
    part: Profile | None = None


class LiveSession:
    """Samples all CPUs until `close`; one thread at a time may call it.

    If threads are chosen, or this user may not sample the system, it samples only what it follows.
    It began at `began_ns`, in CLOCK_MONOTONIC.
    """

    def __init__(
        self,
        options: RecordOptions,
        *,
        bounds: Bounds | None = None,
        source: MakeSource = KernelSource,
        turns: bool = False,
    ) -> None:
        """Start sampling.

        Args:
            options: rate, clocks, call graph, and processes to follow; there is no command.
            bounds: None for those of `top`.
            source: makes the source of records, which is closed with the session.
            turns: whether the turns of each interval are wanted, if switches are recorded.

        Raises:
            UsageError: this kernel does not have an option.
            CaptureError: the user may not sample the system, or a process does not exist; says
                what to do.
            RecordingError: the spool cannot be made.
        """
        bounds = bounds or Bounds()
        if not bounds.most_samples:
            suitable = _SAMPLES_OF_A_CPU * (os.cpu_count() or 1)
            most = min(max(suitable, LEAST_SAMPLES), MOST_SAMPLES)
            bounds = replace(bounds, most_samples=most)
        with ExitStack() as opened:
            self._source = opened.enter_context(
                closing(source(options, lambda events: bounds.gate(schema_of(events))))
            )
            self._whom = self._source.whom
            self._wants_turns = turns
            self._growing = GrowingProfile(
                bounds,
                stacks=bool(options.call_graph),
                use_cache=options.use_cache,
                off_cpu=options.off_cpu,
                followed=Followed(self._whom) if self._whom else None,
            )
            if turns and options.off_cpu:
                self._growing.find_turns()
            self._growing.fetch_names = self._source.fetch_names
            self._growing.name_containers = self._source.name_containers
            self._costs: deque[tuple[float, float]] = deque(maxlen=_COSTS)
            self._mark = self._source.mark
            self.began_ns = self._mark.time_ns
            size = bounds.spool_bytes
            spool = Spool(self._mark, size) if size else NoSpool(self._mark)
            self._spool = opened.enter_context(closing(spool))
            self._opened = opened.pop_all()

    @property
    def child_pids(self) -> list[int]:
        """Processes that work for the session."""
        return self._source.child_pids

    def name_containers(self, paths: list[str]) -> Mapping[str, ContainerFacts]:
        """See `Source`."""
        return self._source.name_containers(paths)

    @property
    def waiting_bytes(self) -> int:
        """The bytes that were drained since the last look."""
        return self._source.waiting_bytes

    def advance(self) -> LiveState:
        """Add the records since the last call; return the remembered state.

        Raises:
            CaptureError: the rings cannot be read any more.
        """
        before, data = self._mark, self._source.take()
        self._mark = self._source.mark
        self._spool.append([data])
        info, running = self._info(before, self._mark), self._source.running
        part = self._growing.add(data, info, self._source.seen, running)
        if self._spool.is_full:
            self._spool.turn(self._mark, self._growing.records(self._source.descriptions()))
        profile = self._growing.profile()
        self._costs.append((time.monotonic(), time.process_time()))
        return LiveState(
            profile=profile,
            own_cpu_percent=_percent(self._costs),
            sampling_cpu_percent=100.0 * self._source.sample_cost_ns * _rate(part),
            kept_s=profile.run.wall_seconds,
            lost=int(profile.losses.lost.sum()),
            limits=profile.run.limits,
            lost_share=_lost_share(part),
            followed=self._whom.words if self._whom else "",
            has_ended=self._source.has_ended,
            part=part if self._wants_turns else None,
        )

    def take(self) -> LiveState:
        """Return the state since the last call, and forget it; raises as `advance`."""
        state = self.advance()
        self._growing.clear()
        return state

    def read_new_files(self, most: int) -> int:
        """See `GrowingProfile`."""
        return self._growing.read_new_files(most)

    def read_no_files_if(self, is_late: Callable[[], bool]) -> None:
        """See `GrowingProfile`."""
        self._growing.read_no_files_if(is_late)

    def forget_names(self) -> None:
        """See `GrowingProfile`."""
        self._growing.forget_names()

    def save(self, path: str) -> str:
        """Write the records of the spool as a perf.data file; return a sentence about it.

        Raises:
            RecordingError: it cannot be written; an earlier file of that name stays.
        """
        file = RecordingFile(path)
        try:
            return self._save(file)
        except (OSError, ProspectError) as error:
            with suppress(OSError):  # another process may have removed it
                file.withdraw()
            if isinstance(error, ProspectError):
                raise
            raise RecordingError(f"cannot record to '{path}': {error.strerror}") from error
        finally:
            file.close()

    def clear(self) -> None:
        """Forget everything so far: the next `advance` begins again.

        Raises:
            ProspectError: as `advance`; or the spool cannot be made.
        """
        self.advance()
        self._spool.restart(self._mark, self._growing.records(self._source.descriptions()))
        self._growing.clear()

    def close(self) -> None:
        """End the session."""
        self._opened.close()

    def _save(self, file: RecordingFile) -> str:
        descriptions = self._source.descriptions()
        writer = RecordingWriter(file.descriptor, descriptions)
        start = self._spool.start
        copied = copy_extents(self._spool.extents(), file.descriptor)
        info = self._info(start, self._mark)
        extras = info.extras | {"processes": self._source.seen}
        writer.finish(info._replace(extras=extras), descriptions)
        seconds = (self._mark.time_ns - start.time_ns) * _NS
        refusal = f"; {self._spool.refusal}" if self._spool.refusal else ""
        return f"{copied / 1e6:.1f} MB, the last {seconds:.0f} s, are in {file.path}{refusal}"

    def _info(self, begin: Mark, end: Mark) -> RecordingInfo:
        """Return the facts of a recording from one mark to the other, without processes."""
        info = self._source.info(begin, end)
        limits = [*info.extras["limits"], *filter(None, [self._spool.refusal])]
        attached = list(self._whom.pids) if self._whom else []
        return info._replace(extras=info.extras | {"limits": limits, "attached_pids": attached})


def _percent(costs: Sequence[tuple[float, float]]) -> float:
    """Return the percentage of one CPU that this process used from the first to the last call."""
    (begin, began_cpu), (end, ended_cpu) = costs[0], costs[-1]
    return 100.0 * (ended_cpu - began_cpu) / (end - begin) if end > begin else 0.0


def _lost_share(part: Profile) -> float:
    lost = int(part.losses.lost.sum())
    return lost / (lost + len(part.samples)) if lost else 0.0


def _rate(part: Profile) -> float:
    """Return the samples per nanosecond, on all CPUs."""
    length_ns = part.run.end_ns - part.run.begin_ns
    return len(part.samples) / length_ns if length_ns > 0 else 0.0


_BY_POINTERS = "fp"
# A share of lost samples, so many times in a row. Reading names for the first time may lose some.
_MOST_LOST = 0.02
_TOO_OFTEN = 2


class SteadySession:
    """A `LiveSession` that records fewer callers if many samples are lost."""

    def __init__(
        self, options: RecordOptions, begin: Callable[[RecordOptions], LiveSession] = LiveSession
    ) -> None:
        """Start sampling; raises as `LiveSession`."""
        self._options = options
        self._begin = begin
        self._session = begin(options)
        self._times_lost = 0
        self._news = ""

    def advance(self) -> LiveState:
        """See `LiveSession`."""
        state = self._session.advance()
        self._times_lost = self._times_lost + 1 if state.lost_share > _MOST_LOST else 0
        if self._times_lost >= _TOO_OFTEN and self._options.call_graph:
            self._times_lost = 0
            if self._ask_for_less(state.lost_share):
                state = self._session.advance()
        limits = (*state.limits, self._news) if self._news else state.limits
        return replace(state, limits=limits, news=self._news)

    def save(self, path: str) -> str:
        """See `LiveSession`."""
        return self._session.save(path)

    def clear(self) -> None:
        """See `LiveSession`."""
        self._session.clear()

    def close(self) -> None:
        """End the session."""
        self._session.close()

    def _ask_for_less(self, lost_share: float) -> bool:
        """Go on with fewer callers; return whether that is possible."""
        before = self._options.call_graph
        less = "" if before == _BY_POINTERS else _BY_POINTERS
        options = replace(self._options, call_graph=less)
        try:
            session = self._begin(options)
        except ProspectError:
            return False  # the followed processes may have ended
        self._session.close()
        self._session, self._options = session, options
        by = f"callers come from frame pointers (--call-graph {less})"
        now = by if less else "without callers"
        self._news = (
            f"{lost_share:.0%} of the samples were lost with --call-graph {before}: from here on"
            f" {now}."
        )
        return True


_PIECE_BYTES = 1 << 24


class _Part:
    """One file: records of the state before, then the drained records."""

    def __init__(self, start: Mark, records: bytes) -> None:
        self.start = start
        self._file = RecordingFile("")
        self.sink = RecordSink(self._file.descriptor)
        self.descriptor = self._file.descriptor
        try:
            if records:
                self.sink.append([records])
        except OSError as error:
            self.close()
            raise RecordingError(f"cannot keep the recording: {error.strerror}") from error
        self.drained_from = self.sink.bytes_written

    def close(self) -> None:
        self._file.close()


class Spool:
    """Keeps the latest drained records, until there is a `refusal`, the reason for keeping none."""

    def __init__(self, start: Mark, most_bytes: int) -> None:
        """Begin with an empty file.

        Raises:
            RecordingError: it cannot be made.
        """
        self._half_bytes = most_bytes // 2
        self._parts = [_Part(start, b"")]
        self.refusal = ""

    @property
    def start(self) -> Mark:
        """The state before the first record that is kept."""
        return self._parts[0].start

    @property
    def is_full(self) -> bool:
        """Whether it is time for `turn`."""
        return not self.refusal and self._parts[-1].sink.bytes_written >= self._half_bytes

    def append(self, buffers: Sequence[memoryview | bytes]) -> None:
        """Keep whole records, unless the disk was full before."""
        if self.refusal or not buffers:
            return
        try:
            self._parts[-1].sink.append(buffers)
        except OSError as error:
            self.refusal = f"records cannot be kept any more: {error.strerror}"

    def turn(self, start: Mark, records: bytes) -> None:
        """Go on in a new file, and drop the older one; if that fails, keep no more.

        Args:
            start: the state now.
            records: its processes and mappings.
        """
        try:
            part = _Part(start, records)
        except RecordingError as error:
            self.refusal = f"records cannot be kept any more: {error}"
            return
        self._go_on(part)

    def _go_on(self, part: _Part) -> None:
        while len(self._parts) > 1:
            self._parts.pop(0).close()
        self._parts.append(part)

    def restart(self, start: Mark, records: bytes) -> None:
        """Forget all records; arguments as of `turn`.

        Raises:
            RecordingError: another file cannot be made.
        """
        part = _Part(start, records)
        self.refusal = ""
        self._go_on(part)
        self._parts.pop(0).close()

    def extents(self) -> list[tuple[int, int, int]]:
        """Return the kept records: descriptors that the caller closes, each with begin and end."""
        return [
            (os.dup(part.descriptor), part.drained_from if turn else 0, part.sink.bytes_written)
            for turn, part in enumerate(self._parts)
        ]

    def close(self) -> None:
        """Close all files."""
        for part in self._parts:
            part.close()


class NoSpool:
    """Keeps no records, for a session that nobody saves."""

    refusal = ""
    is_full = False

    def __init__(self, start: Mark) -> None:
        self.start = start

    def append(self, buffers: Sequence[memoryview | bytes]) -> None:
        """Do nothing."""

    def turn(self, start: Mark, records: bytes) -> None:
        """Do nothing."""

    def restart(self, start: Mark, records: bytes) -> None:
        """Set the start."""
        del records
        self.start = start

    def extents(self) -> list[tuple[int, int, int]]:
        """Return nothing."""
        return []

    def close(self) -> None:
        """Do nothing."""


def copy_extents(extents: Sequence[tuple[int, int, int]], output_fd: int) -> int:
    """Copy `Spool.extents` to a file, and close their descriptors; return the bytes.

    Raises:
        OSError: the file cannot grow.
    """
    try:
        for descriptor, begin, end in extents:
            at = begin
            while at < end:
                piece = os.pread(descriptor, min(end - at, _PIECE_BYTES), at)
                if not piece:
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
                at += len(piece)
                rest = memoryview(piece)
                while rest:
                    rest = rest[os.write(output_fd, rest) :]
    finally:
        for descriptor, _, _ in extents:
            os.close(descriptor)
    return sum(end - begin for _, begin, end in extents)
