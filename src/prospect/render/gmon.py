"""gmon.out: the histogram of one program's code, for gprof.

The format is ``gmon/sys/gmon_out.h`` of glibc 2.36, version 1, of a little-endian machine of 64
bits. The program is the command's own image, else the image with most hits. A bin is two bytes
wide, gprof's smallest, so that every hit is in the function that it was in. A bin counts to 65,535;
hits above that go to further histograms, which gprof adds up. Arcs are calls of which every one was
counted (--count-calls): samples and estimates are none.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.grouping import group_sums
from prospect.errors import UsageError
from prospect.figures.modes import event_has_time, event_seconds
from prospect.figures.processes import DETAILS, shown_processes
from prospect.profile.complete import complete
from prospect.profile.model import KIND_ELF
from prospect.profile.optional_tables import in_processes
from prospect.render.renderer import Renderer, write_pieces

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from prospect.columns.array_types import F64, I64
    from prospect.options import Detail
    from prospect.profile.model import Profile


_HEADER = struct.Struct("<4sI12x")
_HISTOGRAM = struct.Struct("<BQQII15sc")
_ARC = np.dtype([("tag", "u1"), ("from", "<u8"), ("to", "<u8"), ("calls", "<u4")])
_MOST_CALLS = 0xFFFF_FFFF
_BIN_BYTES = 2
_MOST_BINS = 1 << 27
_MOST_TICKS = 0xFFFF
# A recording may claim years of samples. So many histograms hold 50 days of one instruction, and
# so many bytes a program of 100 MB with 40 minutes of one instruction.
_MOST_HISTOGRAMS = 1 << 16
_MOST_HISTOGRAM_BYTES = 1 << 32
_MOST_ARCS = 1 << 24
_RATE_HZ = 1000  # of the file's ticks, whatever the samples' own rate was


class GmonRenderer(Renderer):
    """gmon.out, for gprof."""

    def render(self, profile: Profile, out: BinaryIO) -> None:
        """Write the histogram to `out`, which stays open.

        Raises:
            RenderError: `out` cannot be written.
            UsageError: an option has no meaning, the program's code is spread too widely, or hits
                or calls are more than a file of sensible size counts.
        """
        write_pieces(_pieces(complete(profile), self.detail), out)


def _pieces(profile: Profile, detail: Detail) -> Iterator[bytes]:
    event = profile.run.events[0]
    has_time = event_has_time(event)
    # gprof prints the dimension of the file.
    rate_hz, dimension = (_RATE_HZ, b"seconds") if has_time else (1, b"hits")
    low, ticks, program = _histogram(profile, detail, rate_hz)
    arcs = _arcs(profile, detail, program)
    yield _HEADER.pack(b"gmon", 1)
    while True:
        part = np.minimum(ticks, _MOST_TICKS)
        high = low + _BIN_BYTES * len(part)
        yield _HISTOGRAM.pack(0, low, high, len(part), rate_hz, dimension, dimension[:1])
        yield part.astype("<u2").tobytes()
        ticks = ticks - part
        if not ticks.any():
            break
    yield arcs


def _arcs(profile: Profile, detail: Detail, program: int) -> bytes:
    """Return a record for each function of the program that called another, as often as it did."""
    counts, functions = profile.call_counts, profile.functions
    if counts is None or counts.windows is not None or not len(counts):
        return b""
    callee = counts.functions.function_index.take(counts.counted_index).astype(np.int64)
    caller = counts.caller_index.astype(np.int64)
    chosen = (callee >= 0) & (caller >= 0)
    for end in (callee, caller):
        chosen &= functions.object_index.take(np.maximum(end, 0)) == program
    if detail != "k":
        chosen &= in_processes(counts.process_index, shown_processes(profile.processes, detail))
    (caller, callee), (calls,) = group_sums(
        (caller[chosen], callee[chosen]), (counts.calls[chosen],)
    )
    # A count has 32 bits; gprof adds up the records of one arc.
    parts = np.maximum(-(-calls // _MOST_CALLS), 1)
    if parts.sum() > _MOST_ARCS:
        raise UsageError(_too_many("calls"))
    nth = np.arange(int(parts.sum())) - np.repeat(np.cumsum(parts) - parts, parts)
    records = np.empty(len(nth), _ARC)
    records["tag"] = 1
    records["from"] = functions.address.take(np.repeat(caller, parts))
    records["to"] = functions.address.take(np.repeat(callee, parts))
    left = np.repeat(calls, parts) - nth * _MOST_CALLS
    records["calls"] = np.minimum(left, _MOST_CALLS)
    return records.tobytes()


def _histogram(profile: Profile, detail: Detail, rate_hz: int) -> tuple[int, I64, int]:
    """Return the first address, i64[b] the ticks of each bin from there on, and the program."""
    if detail not in DETAILS:
        raise UsageError(f"-V {detail} is not one of {', '.join(DETAILS)}")
    hits, event = profile.hits, profile.run.events[0]
    function = profile.locations.function_index.take(hits.location_index)
    of_object = profile.functions.object_index.take(function)
    chosen = (hits.event == 0) & (profile.objects.kind.take(of_object) == KIND_ELF)
    if detail != "k":
        chosen &= shown_processes(profile.processes, detail).take(hits.process_index)
    amount = hits.count * 1.0
    if event_has_time(event):
        amount = event_seconds(event, hits.count, hits.period)
    weight = amount * chosen * rate_hz
    total = np.bincount(of_object, weight, len(profile.objects)).astype(np.float64)
    program = _program(profile, total)
    rows = np.flatnonzero(chosen & (of_object == program))
    if not len(rows):
        return 0, np.zeros(1, np.int64), program
    address = profile.locations.address.take(hits.location_index.take(rows))
    low = int(address.min()) & ~0xF
    place = (address - np.uint64(low)) // np.uint64(_BIN_BYTES)
    if int(place.max()) >= _MOST_BINS:
        raise UsageError("the program's code is too far apart for a gmon.out")
    ticks = np.bincount(place.astype(np.int64), weight.take(rows)).astype(np.float64)
    histograms = max(float(ticks.max()) / _MOST_TICKS, 1.0)
    if histograms > min(_MOST_HISTOGRAMS, _MOST_HISTOGRAM_BYTES / (2 * len(ticks))):
        raise UsageError(_too_many("samples"))
    return low, _rounded(ticks), program


def _too_many(what: str) -> str:
    return f"the program's {what} are too many for the short counters of a gmon.out; pprof has room"


def _rounded(ticks: F64) -> I64:
    """Round to whole ticks so that their sum, from any bin to any other, is off by less than 1."""
    return np.diff(np.rint(np.cumsum(ticks)), prepend=0.0).astype(np.int64)


def _program(profile: Profile, seconds: F64) -> int:
    """Return the object that is the command itself, or the one with most time."""
    command = profile.run.command[0].rpartition("/")[2] if profile.run.command else ""
    names = [path.rpartition("/")[2] for path in profile.objects.path]
    own = [row for row, name in enumerate(names) if name == command and seconds[row] > 0]
    return max(own or range(len(names)), key=lambda row: float(seconds[row]), default=-1)
