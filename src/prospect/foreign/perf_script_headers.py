"""The first line of a sample as ``perf script`` prints it → what it says.

``-F`` chooses which fields there are: ``comm pid/tid [cpu] misc time: period event: ...``, in this
order, each of which may be missing. Names of threads may look like any of the others. So the first
lines of a file decide together whether it has names and numbers of threads, not each line alone.

Source: ``perf_sample__fprintf_start()`` and ``process_event()`` in
``tools/perf/builtin-script.c``, Linux 6.18.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from prospect.errors import RecordingError
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

# The part of a line that is looked at: names of threads are short, and so is all before the frames.
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
# A form is that of a file if it fits this part of what another one fits.
_ENOUGH = 0.8


class Sample(NamedTuple):
    """The header of a sample; numbers are -1 where it does not say them."""

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

    `number_is_period`: the one number is a period, not a thread's; `is_empty`: the lines are empty.
    """

    has_comm: bool
    numbers: int
    number_is_period: bool = False
    is_empty: bool = False

    def read(self, line: bytes, *, may_be_name: bool = True) -> Sample | None:
        """Return what a line says of a sample, None if it is no such line.

        Args:
            line: without its end.
            may_be_name: whether a line with a name and nothing else may be one.
        """
        part = b" " + line[:_HEADER_BYTES]
        if self.is_empty or _RECORD in part:
            return None
        match = _PATTERNS[self.has_comm, self.numbers].match(part)
        if match is None and self.has_comm and self.numbers:
            match = _PATTERNS[False, self.numbers].match(part)  # of a thread with an empty name
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
        """Match a line that has all that the form has; a blank is put in front of the line."""
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
    """Find out which form the samples of a file have.

    Args:
        lines: its first.

    Raises:
        RecordingError: a number may be a thread's or a period.
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
    """Say whether the number taken for a thread's comes after a CPU or after `misc`."""
    match = form.match(line) if form.numbers == 1 else None
    if match is None:
        return False
    if match.end("tid") - match.end("comm") >= _MISC_AND_PERIOD_WIDTH:
        return _MISC_LAST.search(match["comm"]) is not None
    return _CPU_LAST.search(match["comm"]) is not None


def any_header(line: bytes) -> tuple[HeaderForm, Sample] | None:
    """Return the form of a line and what it says; None if it is no sample's in any form."""
    for form in _FORMS:
        if sample := form.read(line):
            return form, sample
    return None


def _is_period(form: HeaderForm, lines: Sequence[bytes]) -> bool:
    """Say whether the one number in a file's samples is a period: only its width tells.

    Raises:
        RecordingError: the widths in this file do not tell.
    """
    widths = set()
    for line in lines:
        sample = None if line.startswith(b"\t") else form.read(line)
        match = form.match(line)
        if sample is None or match is None:
            continue
        if sample.time_s >= 0 or sample.cpu >= 0 or sample.period >= 0:
            return False
        # The blank is the one after the name, or without names the one that `match` puts in front.
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
    begin = (_COMM if has_comm else "(?P<comm>)") + (_GAP if who else "") + who
    behind = rf"(?:{_KNOWN}|{_BARE})" if has_comm or who else _KNOWN
    return re.compile((begin + behind + _FIELDS).encode())


_PATTERNS = {
    (has_comm, numbers): _pattern(who, has_comm=has_comm)
    for numbers, who in _WHO.items()
    for has_comm in (False, True)
}
# Those that say more first; a name that looks like a number is rarer than no name.
_FORMS = [HeaderForm(has_comm, numbers) for numbers in _WHO for has_comm in (False, True)]
