"""The text of ``perf script`` → a Profile.

The text has a line for each sample. The frames of its call chain follow, a line each, innermost
first; or the sample's line ends with its address. The reader sums samples, without their times.

``-F`` chooses the fields of a sample's line: ``comm pid/tid [cpu] misc time: period event: ...``,
in this order, each of which may be missing. Names of threads may look like any of the others. So
the first lines of a file together show whether it has names and numbers of threads (`HeaderForm`),
not each line alone.

Source: ``perf_sample__fprintf_start()`` and ``process_event()`` in
``tools/perf/builtin-script.c``, ``sample__fprintf_callchain()`` in
``tools/perf/util/evsel_fprintf.c``, Linux 6.18.
"""

from __future__ import annotations

import itertools
import re
from array import array
from typing import TYPE_CHECKING

import numpy as np

from prospect.errors import RecordingError
from prospect.foreign.stack_profile import (
    NO_OBJECT,
    NamedFrames,
    Numbers,
    OddLines,
    StackColumns,
    WeightedStacks,
    object_kind,
    run_info,
    stack_profile,
    text_lines,
)
from prospect.profile.model import CUT_OBJECT
from prospect.profile.run_info import EventInfo
from prospect.records import NamedTuple, Record, field

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.columns.array_types import I64
    from prospect.profile.model import Profile

# The part of a line that may be a header: names of threads and the other fields are short.
_HEADER_BYTES = 512
_RECORD = b"PERF_RECORD_"
_GAP = r"[ \t]+"
# Linux has 15 bytes; simpleperf prints the name of an application, and a TAB after it.
# No name has a time in it, which comes after names and numbers.
_NO_TIME = r"(?!(?<![^ \t])\d{1,12}\.\d{1,9}:)"
_COMM = rf"[ \t]*(?P<comm>{_NO_TIME}\S(?:{_NO_TIME}.){{0,127}}?)"
_WHO = {2: r"(?P<pid>-?\d{1,10})/(?P<tid>-?\d{1,10})", 1: r"(?P<tid>-?\d{1,10})", 0: ""}
_ADDRESS = r"[0-9a-f]{6,16}(?=[ \t]|$)"
_EVENT = r"\S+:(?=[ \t]|$)"
_MISC = rf"[KUHGgMEFSTp]{{1,5}}(?=[ \t]*$|{_GAP}(?:\d|{_EVENT}|{_ADDRESS}))"
_FIELDS = (
    rf"(?:{_GAP}\[(?P<cpu>\d{{1,6}})\])?"
    rf"(?:{_GAP}{_MISC})?"
    rf"(?:{_GAP}(?P<time>\d{{1,12}}\.\d{{1,9}}):)?"
    rf"(?:{_GAP}(?P<period>\d{{1,19}})(?=[ \t]*$|{_GAP}(?:{_EVENT}|{_ADDRESS})))?"
    rf"(?:{_GAP}(?P<event>\S+):(?=[ \t]|$))?"
)
# One of these comes after a name or number, or the line ends, or an address follows.
_SIGNS = rf"\[\d+\]|\d+\.\d+:|(?:\d+{_GAP})?{_EVENT}|{_MISC}"
_KNOWN = rf"(?={_GAP}(?:{_SIGNS}))"
_BARE = rf"(?=[ \t]*$|{_GAP}(?:\d+{_GAP})?{_ADDRESS}|{_GAP}\d+[ \t]*$)"
_MISC_AND_PERIOD_WIDTH = 13
_MISC_LAST = re.compile(rb"(?:^|[ \t])[KUHGgMEFSTp]{1,5}$")
_CPU_LAST = re.compile(rb"\[\d{3,6}\]$")
# The widths that perf prints numbers with: a period, and a number of a thread.
_PERIOD_WIDTH = 10
_TID_WIDTHS = (5, 6, 7)
# A form is that of a file if it matches this part of the lines that the best form matches.
_ENOUGH = 0.8

# The part of a file that shows its fields.
_HEAD_BYTES = 1 << 16
# For a line without trailing blanks.
_FRAME = re.compile(rb"[ \t]*([0-9a-f]{1,16})(?:[ \t]+(\S.*))?$")
# As perf prints them, with the address in a field of 16.
_WIDE_ADDRESS = rb"(?= {0,15}[0-9a-f]{1,16}(?:[ \t]|$))[ 0-9a-f]{16}(?:[ \t]|$)"
_PERF_FRAME = re.compile(rb"\t" + _WIDE_ADDRESS)
_PERF_ADDRESS = re.compile(rb" {1,3}" + _WIDE_ADDRESS)
_OFFSET = re.compile(rb"\+0x[0-9a-f]+$")
_OFFSET_AND_OBJECT = re.compile(rb"\+0x[0-9a-f]+ \(")
_BRACKET = re.compile(rb"[()]")
_OBJECT = re.compile(rb" \((?=[/\[])")
_INLINED = b"(inlined)"
# The most frames that perf prints of a stack and that the kernel records by default, without and
# with the interrupted instruction.
_FRAME_LIMITS = (127, 128)
_CUT_FRAME = f" ({CUT_OBJECT})".encode()
_CLOCKS = ("cpu-clock", "task-clock")


class Sample(NamedTuple):
    """The header of a sample; missing numbers are -1."""

    comm: bytes
    pid: int
    tid: int
    cpu: int
    time_s: float
    period: int
    event: bytes
    rest: bytes


NOBODY = Sample(b"[all]", -1, -1, -1, -1.0, -1, b"", b"")


class HeaderForm(NamedTuple):
    """Whether samples begin with a name, and with how many numbers of process and thread.

    `number_is_period`: the only number is a period, not a thread. `is_empty`: the lines are empty.
    """

    has_comm: bool
    numbers: int
    number_is_period: bool = False
    is_empty: bool = False

    def read(self, line: bytes, *, may_be_name: bool = True) -> Sample | None:
        """Return the sample that a line begins, None if it begins none.

        Args:
            line: without its newline.
            may_be_name: whether a line with only a name may begin a sample.
        """
        part = b" " + line[:_HEADER_BYTES]
        if self.is_empty or _RECORD in part:
            return None
        match = _PATTERNS[self.has_comm, self.numbers].match(part)
        if match is None and self.has_comm and self.numbers:
            match = _PATTERNS[False, self.numbers].match(part)  # a thread with an empty name
        if match is None:
            return None
        sample = _sample(match, line[match.end() - 1 :])
        is_lone_name = not self.numbers and match.end() == match.end("comm")
        if is_lone_name and not sample.rest.strip() and not (may_be_name and line[:1].strip()):
            return None
        if line.startswith(b"#") and not (sample.event and sample.time_s >= 0):
            return None  # a comment
        if self.number_is_period and sample.period < 0:
            comm = sample.comm if self.has_comm else NOBODY.comm
            return sample._replace(comm=comm, tid=-1, period=sample.tid)
        return sample

    def match(self, line: bytes) -> re.Match[bytes] | None:
        """Match a line that has all of the form, with a space put before it."""
        return _PATTERNS[self.has_comm, self.numbers].match(b" " + line[:_HEADER_BYTES])

    def limits(self) -> tuple[str, ...]:
        """Return the report's remarks on missing fields."""
        if not self.has_comm and (self.is_empty or self.number_is_period or not self.numbers):
            return (
                "The text does not name the processes of its samples: perf script -F +comm,tid.",
            )
        if not self.has_comm:
            return ("The text has no names of programs, only numbers: perf script -F +comm.",)
        return ()


def header_form(lines: Sequence[bytes]) -> HeaderForm:
    """Return the form of a file's samples.

    Raises:
        RecordingError: a number may be a thread or a period.
    """
    fits = dict.fromkeys(_FORMS, 0)
    for line, following in itertools.pairwise([*lines, b""]):
        if not line.startswith(b"\t"):
            is_name = following.startswith(b"\t")
            for form in _FORMS:
                sample = form.read(line, may_be_name=is_name)
                fits[form] += sample is not None and not _is_late(form, line)
    most = max(fits.values())
    if not most:
        return HeaderForm(has_comm=False, numbers=0, is_empty=True)
    form = next(form for form, count in fits.items() if count >= _ENOUGH * most)
    return form._replace(number_is_period=_is_period(form, lines)) if form.numbers == 1 else form


def _is_late(form: HeaderForm, line: bytes) -> bool:
    """Return whether the number taken for a thread comes after a CPU or after `misc`."""
    match = form.match(line) if form.numbers == 1 else None
    if match is None:
        return False
    if match.end("tid") - match.end("comm") >= _MISC_AND_PERIOD_WIDTH:
        return _MISC_LAST.search(match["comm"]) is not None
    return _CPU_LAST.search(match["comm"]) is not None


def _is_period(form: HeaderForm, lines: Sequence[bytes]) -> bool:
    """Return whether the only number in a file's samples is a period, which its width shows."""
    widths = set()
    for line in lines:
        sample = None if line.startswith(b"\t") else form.read(line)
        match = form.match(line)
        if sample is None or match is None:
            continue
        if sample.time_s >= 0 or sample.cpu >= 0 or sample.period >= 0:
            return False
        # The space after the name, or without names the one that `match` puts before the line.
        widths.add(match.end("tid") - match.end("comm") - 1)
    if all(width >= _PERIOD_WIDTH for width in widths):
        return True
    if form.has_comm or widths <= set(_TID_WIDTHS):
        return False
    raise RecordingError(
        "its samples have one number, which may be a thread's or a period: print both, and names,"
        " with perf script -F +comm,tid,period"
    )


def _sample(match: re.Match[bytes], rest: bytes) -> Sample:
    found = match.groupdict()
    pid, tid, cpu = (int(found.get(name) or -1) for name in ("pid", "tid", "cpu"))
    number = found.get("pid") or found.get("tid")
    return Sample(
        comm=found["comm"] or (b":" + number if number else NOBODY.comm),
        pid=pid,
        tid=tid,
        cpu=cpu,
        time_s=float(found["time"] or -1),
        period=int(found["period"] or -1),
        event=found["event"] or b"",
        rest=rest,
    )


def _pattern(who: str, *, has_comm: bool) -> re.Pattern[bytes]:
    start = (_COMM if has_comm else "(?P<comm>)") + (_GAP if who else "") + who
    following = rf"(?:{_KNOWN}|{_BARE})" if has_comm or who else _KNOWN
    return re.compile((start + following + _FIELDS).encode())


_PATTERNS = {
    (has_comm, numbers): _pattern(who, has_comm=has_comm)
    for numbers, who in _WHO.items()
    for has_comm in (False, True)
}
# Forms with more fields first; a name that looks like a number is rarer than no name.
_FORMS = [HeaderForm(has_comm, numbers) for numbers in _WHO for has_comm in (False, True)]


def is_perf_script(head: bytes) -> bool:
    """Return whether a file begins like the output of ``perf script``."""
    lines = [line for line in head.split(b"\n") if not line.startswith(b"#")]
    for line, following in itertools.pairwise([*lines, b""]):
        if _RECORD in line or not line.strip():
            if _RECORD not in line and _PERF_FRAME.match(following):
                return True
            continue
        form = next((form for form in _FORMS if form.read(line)), None)
        sample = form and form.read(line)
        if not form or not sample:
            return False
        is_framed = (following.startswith(b"\t") and _frame(following)) or _frame(sample.rest)
        if not form.numbers:  # other texts have a word, and a line that looks like a frame
            is_framed = _PERF_FRAME.match(following) or _PERF_ADDRESS.match(sample.rest)
        if is_framed or (sample.event and sample.time_s >= 0):
            return True
    return False


def perf_script_profile(origin: str, data: memoryview) -> Profile:
    """Read the text.

    Bytes that are not UTF-8 become surrogates, as with `os.fsdecode`.

    Raises:
        RecordingError: most of it is none, or a number in it may mean two things.
    """
    sums, odd = _Sums(), OddLines("sample of perf script")
    form = header_form(bytes(data[:_HEAD_BYTES]).split(b"\n"))
    _add_samples(data, form, sums, odd)
    limits = odd.limits(sums.samples) + form.limits()
    return sums.profile(origin, limits)


def _add_samples(data: memoryview, form: HeaderForm, sums: _Sums, odd: OddLines) -> None:
    sample: Sample | None = None
    frames: list[int] = []
    for number, line in text_lines(data):
        found = None
        if line.strip() and not line.startswith(b"\t"):
            found = form.read(line, may_be_name=sample is None)
        if found is not None or not line.strip():
            if sample:
                sums.add(sample, frames)
            sample, frames = found, []
            continue
        if sample is None and form.is_empty:
            sample = NOBODY
        if sample and line[:1].isspace():
            # Other lines belong to the sample too: a source line, a branch stack.
            if frame := _frame(line):
                frames.append(sums.frames[frame[2] or b""])
        elif not line.startswith(b"#") and _RECORD not in line:
            odd.add(number)
    if sample:
        sums.add(sample, frames)


def _frame(line: bytes) -> re.Match[bytes] | None:
    """Match the address of a frame and the text after it; None if a line is no frame."""
    # A pattern for trailing blanks would try each blank within the line, perhaps of megabytes.
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

    def add(self, sample: Sample, frames: list[int]) -> None:
        """Count a sample with its frames, innermost first."""
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

    def _process(self, sample: Sample) -> int:
        # Without a process, readers distinguish threads only by their names.
        key = sample.pid if sample.pid >= 0 else sample.comm
        row = self.processes.setdefault(key, len(self.processes))
        if row == len(self.process_names):
            self.process_names.append((sample.comm, min(sample.pid, 2**31 - 1)))
        elif sample.pid == sample.tid:
            self.process_names[row] = (sample.comm, self.process_names[row][1])
        return row

    def profile(self, origin: str, limits: tuple[str, ...]) -> Profile:
        """Return the profile of all added samples."""
        process, comm, event, _ = zip(*self.rows, strict=True)
        count = np.array(self.count, np.int64)
        start, location = self._with_cut_ends(count)
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
                entry_reason=np.zeros(len(count), np.int64),
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

    def _with_cut_ends(self, count: I64) -> tuple[I64, I64]:
        """Return the stacks' columns, with a frame [cut] before stacks that a limit cut.

        A limit has cut stacks if the deepest ones have as many frames as it allows, in more than
        one sample. Inlined functions, which perf prints too, do not count.
        """
        start, location = self.stacks.columns()
        is_counted = np.array([not frame.endswith(_INLINED) for frame in self.frames], np.bool_)
        before = np.append(0, np.cumsum(is_counted.take(location)))
        depth = np.diff(before.take(start))
        is_cut = depth == depth.max()
        if depth.max() not in _FRAME_LIMITS or count[is_cut].sum() < 2:
            return start, location
        cut = self.frames[_CUT_FRAME]
        location = np.insert(location, start[:-1][is_cut], cut)
        return start + np.append(0, np.cumsum(is_cut)), location

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
    """Return function and object, "" if unknown."""
    symbol, path = frame, b""
    at = _object_at(frame)
    if at >= 0:
        symbol, path = frame[:at], frame[at:-1].lstrip()[1:]
    name = _OFFSET.sub(b"", symbol.strip())
    return "" if name == b"[unknown]" else _text(name), _text(path)


def _object_at(frame: bytes) -> int:
    """Return the start of the object's brackets, with the space before them; -1 for none.

    Names of functions and files may have brackets and spaces too.
    """
    if not frame.endswith(b")"):
        return -1
    if with_offset := _OFFSET_AND_OBJECT.search(frame):
        return with_offset.end() - 2
    depth, opened = 0, -1
    for bracket in reversed([*_BRACKET.finditer(frame)]):
        depth += 1 if bracket[0] == b")" else -1
        if not depth:
            opened = bracket.start()
            break
    is_apart = opened >= 0 and frame[:opened][-1:] in (b"", b" ", b"\t")
    if is_apart and frame[opened + 1 : opened + 2] in (b"/", b"["):
        return max(opened - 1, 0)
    if path := _OBJECT.search(frame):
        return path.start()
    return max(opened - 1, 0) if is_apart else -1


def _text(word: bytes) -> str:
    return word.decode("utf-8", "surrogateescape")
