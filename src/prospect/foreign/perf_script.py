"""What ``perf script`` prints → a Profile.

Comes in: text: a line for each sample, ``comm pid/tid [cpu] time: period event:``, of which
``perf script -F`` may leave all but the name and one number out; behind it, a line each, the frames
of its call chain, the innermost first, or on the same line the one address that was hit. Samples
are summed: their times are not kept.

Source: ``perf_sample__fprintf_start()`` in ``tools/perf/builtin-script.c`` and
``sample__fprintf_callchain()`` in ``tools/perf/util/evsel_fprintf.c``, Linux 6.18.
"""

from __future__ import annotations

import re
from array import array
from typing import TYPE_CHECKING

import numpy as np

from prospect.foreign.object_kinds import NO_OBJECT, object_kind
from prospect.foreign.stacks import NamedFrames, WeightedStacks, stack_profile
from prospect.foreign.tables import run_info
from prospect.foreign.text_lines import Numbers, OddLines, StackColumns, text_lines
from prospect.profile.run_info import EventInfo
from prospect.records import NamedTuple, Record, field

if TYPE_CHECKING:
    from prospect.profile.model import Profile

_HEAD_LINES = 64
# The part of a line that is looked at: names of threads are short, and so is all before the frames.
_HEADER_BYTES = 512
_WHO = rb"[ \t]*(\S.{0,31}?)[ \t]+(-?\d{1,10})(?:/(-?\d{1,10}))?"
_WHAT = rb"(?:[ \t]+(\d{1,19})(?=[ \t]))?(?:[ \t]+(\S+):(?=[ \t]|$))"
_TIMED = re.compile(
    _WHO
    + rb"(?=[ \t]+(?:\[\d+\]|\d+\.\d+:))(?:[ \t]+\[(\d{1,6})\])?(?:[ \t]+(\d{1,12}\.\d{1,9}):)?(?:"
    + _WHAT
    + rb")?"
)
_UNTIMED = re.compile(_WHO + rb"()()" + _WHAT)
# With -F comm,pid,ip and the like: nothing else on the line but, without chains, the address.
_BARE = re.compile(_WHO + rb"()()()()(?=[ \t]*$|[ \t]+[0-9a-f]{6,16}(?:[ \t]|$))")
# Of a line without blanks at its end.
_FRAME = re.compile(rb"[ \t]*([0-9a-f]{1,16})(?:[ \t]+(\S.*))?$")
_OFFSET = re.compile(rb"\+0x[0-9a-f]+$")
_RECORD = b"PERF_RECORD_"
_DELETED = b" (deleted))"
_INLINED = b"inlined"
_CLOCKS = ("cpu-clock", "task-clock")


class _Sample(NamedTuple):
    """The header of a sample; numbers are -1 where it does not say them."""

    comm: bytes
    pid: int
    tid: int
    cpu: int
    time_s: float
    period: int
    event: bytes
    rest: bytes


def is_perf_script(head: bytes) -> bool:
    """Return whether a file begins as what ``perf script`` prints."""
    lines = head.split(b"\n")[:_HEAD_LINES]
    for line, following in zip(lines, [*lines[1:], b""], strict=True):
        if not line.strip() or line.startswith(b"#") or _RECORD in line:
            continue
        sample = _header(line)
        if sample is None:
            return False
        has_frame = following.startswith(b"\t") and _frame(following) is not None
        if has_frame or (sample.event and sample.time_s >= 0) or _frame(sample.rest):
            return True
    return False


def perf_script_profile(origin: str, data: memoryview) -> Profile:
    """Read the text.

    Args:
        origin: the file's name.
        data: UTF-8; bytes that are none are kept as `os.fsdecode` does.

    Raises:
        RecordingError: most of it is none.
    """
    sums, odd = _Sums(), OddLines("sample of perf script")
    sample: _Sample | None = None
    frames: list[int] = []
    for number, line in text_lines(data):
        if not line.strip():
            if sample:
                sums.add(sample, frames)
            sample, frames = None, []
            continue
        found = None if line.startswith(b"\t") else _header(line)
        if found is not None:
            if sample:
                sums.add(sample, frames)
            sample, frames = found, []
        elif sample and line[:1].isspace():
            # What is no frame is more of the sample: a source line, a branch stack.
            if frame := _frame(line):
                frames.append(sums.frames[frame[2] or b""])
        elif not line.startswith(b"#") and _RECORD not in line:
            odd.add(number)
    if sample:
        sums.add(sample, frames)
    limits = odd.limits(sums.samples)
    return sums.profile(origin, limits)


def _header(line: bytes) -> _Sample | None:
    """Return what a line says of a sample, None if it is no such line."""
    part = line[:_HEADER_BYTES]
    match = _TIMED.match(part)
    if match is None:
        match = _UNTIMED.match(part) or _BARE.match(part)
    if match is None or _RECORD in part:
        return None
    comm, first, second, cpu, time, period, event = match.groups()
    return _Sample(
        comm=comm,
        pid=int(first) if second else -1,
        tid=int(second or first),
        cpu=int(cpu) if cpu else -1,
        time_s=float(time) if time else -1.0,
        period=int(period) if period else -1,
        event=event or b"",
        rest=line[match.end() :],
    )


def _frame(line: bytes) -> re.Match[bytes] | None:
    """Return address and what follows it, None if a line is no frame."""
    # A pattern that leaves out blanks at the end tries to at each blank within, of megabytes maybe.
    return _FRAME.match(line.rstrip(b" \t"))


class _Sums(Record, frozen=False):
    """Samples by thread name, process, event and stack."""

    frames: Numbers = field(default_factory=Numbers)
    comms: Numbers = field(default_factory=Numbers)
    events: Numbers = field(default_factory=Numbers)
    processes: dict[int | bytes, int] = field(default_factory=dict)
    process_names: list[tuple[bytes, int]] = field(default_factory=list)
    stacks: StackColumns = field(default_factory=StackColumns)
    rows: dict[tuple[int, int, int, bytes], int] = field(default_factory=dict)
    count: array[int] = field(default_factory=lambda: array("q"))
    period: array[float] = field(default_factory=lambda: array("d"))
    without_period: set[int] = field(default_factory=set)
    cpus: set[int] = field(default_factory=set)
    samples: int = 0
    begin_s: float = float("inf")
    end_s: float = 0.0

    def add(self, sample: _Sample, frames: list[int]) -> None:
        """Count a sample; its frames are the innermost first."""
        if not frames:
            alone = _frame(sample.rest)
            frames = [self.frames[(alone[2] or b"") if alone else b""]]
        self.samples += 1
        comm, event = self.comms[sample.comm], self.events[sample.event or b"samples"]
        key = (self._process(sample), comm, event, array("i", frames).tobytes())
        row = self.rows.setdefault(key, len(self.rows))
        if row == len(self.count):
            self.stacks.add(frames[::-1])
            self.count.append(0)
            self.period.append(0.0)
        self.count[row] += 1
        self.period[row] += max(sample.period, 0)
        if sample.period < 0:
            self.without_period.add(event)
        self.cpus.add(sample.cpu)
        if sample.time_s >= 0:
            self.begin_s = min(self.begin_s, sample.time_s)
            self.end_s = max(self.end_s, sample.time_s)

    def _process(self, sample: _Sample) -> int:
        # Without a process there are threads, which a reader distinguishes by their names only.
        key = sample.pid if sample.pid >= 0 else sample.comm
        row = self.processes.setdefault(key, len(self.processes))
        if row == len(self.process_names):
            self.process_names.append((sample.comm, min(sample.pid, 2**31 - 1)))
        elif sample.pid == sample.tid:
            self.process_names[row] = (sample.comm, self.process_names[row][1])
        return row

    def profile(self, origin: str, limits: tuple[str, ...]) -> Profile:
        """Return what was added up."""
        process, comm, event, _ = zip(*self.rows, strict=True)
        start, location = self.stacks.columns()
        count = np.array(self.count, np.int64)
        period = np.minimum(np.array(self.period), 2.0**62).astype(np.int64)
        event_index = np.array(event, np.int64)
        unknown = np.isin(event_index, sorted(self.without_period))
        comms = self.comms.texts()
        return stack_profile(
            _named(list(self.frames)),
            WeightedStacks(
                start=start,
                location=location,
                process=np.array(process, np.int64),
                comm=np.array(comm, np.int64),
                event=event_index,
                cause=np.zeros(len(count), np.int64),
                count=count,
                period=np.where(unknown, count, period),
            ),
            run=run_info(
                origin,
                self._events(),
                max(self.end_s - self.begin_s, 0.0),
                cpus=len(self.cpus),
                limits=limits,
            ),
            processes=[(_text(name), pid) for name, pid in self.process_names],
            comms=comms,
        )

    def _events(self) -> tuple[EventInfo, ...]:
        """Return the events; the periods of the kernel's clocks are nanoseconds."""
        return tuple(
            EventInfo(
                name,
                1e-9
                if name.partition(":")[0] in _CLOCKS and row not in self.without_period
                else 0.0,
                0.0,
                0.0,
            )
            for row, name in enumerate(self.events.texts())
        )


def _named(frames: list[bytes]) -> NamedFrames:
    """Read each frame's ``symbol+offset (object)``."""
    objects: dict[tuple[str, int, str], int] = {}
    functions: dict[tuple[str, str, int], int] = {}
    rows = []
    for frame in frames:
        name, path = _split(frame)
        key = NO_OBJECT if not path or path == "inlined" else (path, object_kind(path), "")
        row = objects.setdefault(key, len(objects))
        rows.append(functions.setdefault((name, name, row), len(functions)))
    return NamedFrames(
        list(objects), list(functions), np.array(rows, np.int64), np.zeros(len(rows), np.uint64)
    )


def _split(frame: bytes) -> tuple[str, str]:
    """Return function and object, "" where unknown."""
    symbol, path = frame, b""
    if frame.endswith(b")"):
        end = len(frame) - len(_DELETED) if frame.endswith(_DELETED) else len(frame)
        at = frame.rfind(b" (", 0, end)
        if at >= 0:
            symbol, path = frame[:at], frame[at + 2 : -1]
        elif frame.startswith(b"("):
            symbol, path = b"", frame[1:-1]
    name = _OFFSET.sub(b"", symbol.strip())
    return "" if name == b"[unknown]" else _text(name), _text(path)


def _text(word: bytes) -> str:
    return word.decode("utf-8", "surrogateescape")
