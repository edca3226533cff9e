"""A target's kernel as the source of a live session, with `live.source.KernelSource`'s interface.

A thread receives the data; if it is not taken, the thread waits, and the target keeps the rest.
"""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from prospect.assembly.extras import by_number, counts_by_name, counts_of, number_of, texts_of
from prospect.capture.machine.surroundings import accounting
from prospect.errors import CaptureError, ProspectError
from prospect.light import Closing, Descriptor
from prospect.live.chosen import Whom
from prospect.live.source import Mark, Running
from prospect.perfdata.reader import open_recording
from prospect.profile.run_info import counted_notes
from prospect.records import NamedTuple, asdict, replace
from prospect.target.relay import OFFSET
from prospect.target.relay_stream import FrameError
from prospect.target.serving import CHUNK, ENDED, INFO, MARK, RECORDS, WHOM
from prospect.target.target_limits import (
    MOST_CHUNK_BYTES,
    MOST_CLIENT_WAITING_BYTES,
    MOST_PID,
    SILENCE_S,
    START_S,
)
from prospect.target.target_names import LiveNames
from prospect.target.target_process import Remote

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from prospect.abi.attr import EventDescription
    from prospect.abi.recorded_facts import RecordingInfo
    from prospect.events.record_columns import Events
    from prospect.live.source import MakeGate, MakeSource
    from prospect.profile.group_names import ContainerFacts
    from prospect.profile.model import Profile
    from prospect.recording.opened_events import RecordOptions

AGENT = "prospect.target.sampler"
# Errors of reading a malformed document.
_DAMAGES = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)


def source_on(target: str) -> MakeSource:
    """Return a factory of sources for a target, ``USER@HOST`` as ssh takes it."""
    return lambda options, make_gate: TargetSource(target, options, make_gate)


class TargetSource(Closing):
    """Samples all CPUs of a target, or chosen processes or threads there, until `close`.

    See `KernelSource`.

    Attributes:
        mark: the end of the last part; at first, the start of sampling.
        running: the processes there, if records of a part were lost; None if all came.
        sample_cost_ns: the cost of a sample there, 0 if it is unknown.
        whom: the chosen processes or threads, as the target found them; None for every process.
    """

    child_pids: list[int] = []  # noqa: RUF012 - none is of this machine

    def __init__(self, target: str, options: RecordOptions, make_gate: MakeGate) -> None:
        """Begin.

        Args:
            options: rate, clocks, call graph, and chosen processes or threads.
            make_gate: makes the record limiter for the events.

        Raises:
            CaptureError: the whole system may not be sampled there, a chosen process does not
                exist, or there is no connection.
        """
        self._target = target
        wanted = asdict(replace(options, use_cache=False))  # keeps nothing on its disk
        self._remote = Remote(target, AGENT, wanted, is_silent=True)
        self._names = LiveNames(self._remote.fetch_meanwhile, target)
        self._arrived = _Arrived()
        self._thread = threading.Thread(target=self._follow, name="target", daemon=True)
        self._thread.start()
        try:
            self._arrived.wait_for_mark(START_S)
            self._info = self._arrived.info
            self.whom = _checked(self._arrived.whom, options)
            self._gate = make_gate(self.descriptions())
            (self.mark, self._extras, _), *_ = self._arrived.take()[1]
            self.running: Running | None = None
            self._begin, self._limits = self.mark, texts_of(self._extras.get("limits"))
        except BaseException:
            self.close()
            raise
        cost = self._info.extras.get("sample_cost_ns")
        self.sample_cost_ns = float(cost) if isinstance(cost, int | float) else 0.0

    @property
    def has_ended(self) -> bool:
        """As in `KernelSource`."""
        return self._arrived.has_ended

    @property
    def seen(self) -> Mapping[int, Sequence[int]]:
        """The processes at the first look at the target, by pid."""
        return by_number(self._info.extras.get("processes"))

    @property
    def waiting_bytes(self) -> int:
        """As in `KernelSource`."""
        return self._arrived.waiting_bytes

    def descriptions(self) -> Sequence[EventDescription]:
        """Return the events, with their ids so far."""
        return self._info.events

    def take(self) -> bytes:
        """Return the records since the last call, whose end `mark` is then.

        Raises:
            CaptureError: the connection was lost.
        """
        self._arrived.wait_for_mark(SILENCE_S)
        records, marks = self._arrived.take()
        self._info = self._arrived.info
        before = self.mark
        of_running = [one.running for one in marks if one.running]
        self.running = of_running[-1] if of_running else None
        # The last mark shows that all records before the last but one are here.
        known_ns = (marks[-2].mark if len(marks) > 1 else before).time_ns
        self.mark, extras, _ = marks[-1]
        said = counted_notes(note for one in marks for note in texts_of(one.extras.get("limits")))
        extras = _over(extras, before, self.mark) if len(marks) > 1 else extras
        self._extras = extras | {"limits": list(said)}
        self._begin, self._limits = before, counted_notes((*self._limits, *said))
        self._gate.open()
        return self._gate.condensed(self._gate.passed(records), known_ns)

    def info(self, begin: Mark, end: Mark) -> RecordingInfo:
        """Return the description of a recording between two marks, without processes."""
        extras = _over(self._extras, begin, end) | {"mapped_files": self._names.read}
        # Sentences of the last part, or of all parts.
        said = texts_of(extras.get("limits")) if begin == self._begin else self._limits
        extras["limits"] = [*said, *self._gate.limits]
        return self._info._replace(
            target=self._target,
            extras=extras,
            first_sample_ns=begin.time_ns,
            last_sample_ns=end.time_ns,
            recorded_at=begin.at,
            started_at=begin.at,
        )

    def fetch_names(self, profile: Profile, events: Events) -> dict[str, Any]:
        """Fetch symbol tables that a part lacks from the target; see `Source`."""
        is_new = self._names.fetch(profile, events.mmaps, events.names)
        return self._names.read if is_new else {}

    def name_containers(self, _paths: list[str]) -> Mapping[str, ContainerFacts]:
        """Return nothing: only the target knows its containers."""
        return {}

    def close(self) -> None:
        """End the sampling there, and the connection."""
        self._arrived.let_all_in()
        self._remote.order({"signal": "SIGTERM"})
        self._thread.join(SILENCE_S)
        self._remote.close()

    def _follow(self) -> None:
        reason = f"the connection to {self._target} was lost"
        try:
            self._remote.follow(self._arrived)
        except ProspectError as error:
            reason = str(error)
        except (OSError, ValueError):  # it was closed
            pass
        self._arrived.end(reason)


def _checked(whom: Whom | None, options: RecordOptions) -> Whom | None:
    """Return the processes or threads that a target follows."""
    if bool(whom) != bool(options.pids or options.tids):
        raise FrameError("the target's answer is damaged: it does not follow the processes named")
    return whom


def _over(extras: dict[str, Any], begin: Mark, end: Mark) -> dict[str, Any]:
    """Return the facts about the time between two marks, from those about a part of it."""
    try:
        return _said_over(extras, begin, end)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise FrameError("the target's answer is damaged") from None


def _said_over(extras: dict[str, Any], begin: Mark, end: Mark) -> dict[str, Any]:
    lost = {str(key): count - begin.lost.get(key, 0) for key, count in end.lost.items()}
    cpu_of = {
        str(number): cpu
        for clock in extras.get("clocks", ())
        for number, cpu in zip(clock["ids"], clock["cpus"], strict=True)
    }
    by_cpu: dict[str, int] = {}
    for key, count in lost.items():
        if key in cpu_of:
            by_cpu[str(cpu_of[key])] = by_cpu.get(str(cpu_of[key]), 0) + count
    times = accounting(begin.cpu_times, end.cpu_times) | {"hz": extras["proc_stat"]["hz"]}
    return extras | {
        "interval_ns": [begin.time_ns, end.time_ns],
        "proc_stat": times,
        "lost": {key: count for key, count in lost.items() if not cpu_of or key in cpu_of},
        "lost_by_cpu": by_cpu,
        "started_at": begin.at,
        "buffers_read_ns": [
            {str(cpu): time_ns for cpu, time_ns in mark.read_ns.items()} for mark in (begin, end)
        ],
    }


class _End(NamedTuple):
    """The end of a part, facts about its time, and maybe the processes that ran."""

    mark: Mark
    extras: dict[str, Any]
    running: Running | None


class _Arrived:
    """Receives chunks in one thread, and returns parts in another.

    Attributes:
        info: the description of recordings of the session.
        whom: the processes or threads that the session follows; None for every process.
        has_ended: whether all chosen processes or threads have ended.
        waiting_bytes: records that were not taken yet.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._at = self._last_ns = 0
        self._rest = bytearray()
        self._records: list[bytes] = []
        self._marks: list[_End] = []
        self.waiting_bytes = 0
        self._takes_all = False
        self._ended = ""
        self.info: RecordingInfo
        self.whom: Whom | None = None
        self.has_ended = False

    def write(self, content: bytes) -> None:
        """Take the next bytes; wait while too much is waiting already.

        Raises:
            FrameError: they are not the next ones, or no such chunk.
        """
        (offset,) = OFFSET.unpack_from(content)
        if offset != self._at:
            raise FrameError("the target's answer is damaged: a part of it is missing")
        self._at += len(content) - OFFSET.size
        self._rest += memoryview(content)[OFFSET.size :]
        while len(self._rest) >= CHUNK.size:
            letter, size = CHUNK.unpack_from(self._rest)
            if size > MOST_CHUNK_BYTES:
                raise FrameError("the target's answer is damaged: a part of it is too long")
            end = CHUNK.size + size
            if len(self._rest) < end:
                return
            chunk = bytes(memoryview(self._rest)[CHUNK.size : end])
            del self._rest[:end]
            self._put(letter, chunk)

    def truncate(self, _content: bytes) -> None:
        """Refuse to remove chunks."""
        raise FrameError("protocol error: truncation after data")

    def wait_for_mark(self, seconds: float) -> None:
        """Wait until there is a part.

        Raises:
            CaptureError: there will be none.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._marks or self._ended, seconds)
            if not self._marks:
                raise CaptureError(self._ended or "the target has been silent for too long")

    def take(self) -> tuple[bytes, list[_End]]:
        """Return the records of complete parts, and the end of each part."""
        with self._changed:
            taken = b"".join(self._records), self._marks
            self._records, self._marks, self.waiting_bytes = [], [], 0
            self._changed.notify_all()
            return taken

    def end(self, reason: str) -> None:
        """Note that no more data comes, for a reason."""
        with self._changed:
            self._ended = reason
            self._changed.notify_all()

    def let_all_in(self) -> None:
        """Discard data from now on, without waiting."""
        with self._changed:
            self._takes_all = True
            self._changed.notify_all()

    def _put(self, letter: bytes, chunk: bytes) -> None:
        with self._changed:
            self._changed.wait_for(
                lambda: self._takes_all or self.waiting_bytes <= MOST_CLIENT_WAITING_BYTES
            )
            if self._takes_all:
                return
            if letter == INFO:
                self.info = _info_in(chunk)
            elif letter == WHOM:
                self.whom = _whom_in(chunk)
            elif letter == ENDED:
                self.has_ended = True
            elif letter == RECORDS:
                self._pending = chunk
            elif letter == MARK:
                end = _mark_in(chunk)
                if end.mark.time_ns < self._last_ns:
                    raise FrameError("the target's answer is damaged: its clock goes back")
                self._last_ns = end.mark.time_ns
                self._marks.append(end)
                self._records.append(self._pending)
                self.waiting_bytes += len(self._pending)
                self._pending = b""
                self._changed.notify_all()

    _pending = b""


def _info_in(chunk: bytes) -> RecordingInfo:
    with Descriptor(os.memfd_create("info")) as descriptor:
        os.write(descriptor, chunk)
        with open_recording(f"/proc/self/fd/{descriptor}") as recording:
            return recording.info


def _whom_in(chunk: bytes) -> Whom:
    with suppress(*_DAMAGES):
        words, pids, members = json.loads(chunk)
        numbers = (*pids, *(members or ()))
        if pids and all(isinstance(pid, int) and 0 < pid <= MOST_PID for pid in numbers):
            return Whom(str(words), tuple(pids), None if members is None else tuple(members))
    raise FrameError("the target's answer is damaged")


def _mark_in(chunk: bytes) -> _End:
    with suppress(*_DAMAGES):
        said = json.loads(chunk)
        time_ns, at, cpu_times, lost, _, read_ns = said["mark"]
        times = {str(cpu): list(counts_of(row)) for cpu, row in cpu_times.items()}
        if any(len(times[cpu]) < len(row) for cpu, row in cpu_times.items()):
            raise ValueError(cpu_times)
        counts = {int(key): n for key, n in counts_by_name(lost).items()}
        (time_ns,) = counts_of([time_ns])
        read = {int(cpu): n for cpu, n in counts_by_name(read_ns).items()}
        mark = Mark(time_ns, number_of(at), times, counts, {}, read)
        extras, pids = said.get("extras", {}), said.get("running")
        running = None if pids is None else Running(mark.time_ns, frozenset(map(int, pids)))
        if isinstance(extras, dict):
            return _End(mark, extras, running)
    raise FrameError("the target's answer is damaged")
