"""gmon.out, which programs that were compiled with ``-pg`` write → histograms, arcs and blocks.

Source: ``gmon/sys/gmon_out.h`` of glibc 2.36 for files that begin with ``gmon`` (versions 0 and 1),
``sys/gmon.h`` of 4.4BSD for those that do not. Neither says how wide its addresses are: the widths
and byte orders are tried in turn, and the one is taken in which records fill the file exactly.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from prospect.errors import RecordingError
from prospect.records import NamedTuple, Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

MAGIC = b"gmon"
_HEADER_BYTES = 20
_TAG_HISTOGRAM = 0
_TAG_ARC = 1
_TAG_BLOCKS = 2
_VERSIONS = (0, 1)
_BSD_VERSION = 0x51879  # GMONVERSION
_ARCS_AT_ONCE = 1 << 12
_MOST_CALLS = np.uint64(1 << 40)  # of one arc; sums stay below 2**63


class Histogram(Record):
    """How often the program was seen in each part of its code.

    Attributes:
        low, high: u64 the addresses that it is of; `high` is the first behind.
        hits: i64[b] of equal parts of these addresses.
        rate_hz: ticks a second.
        dimension: what a tick is counted in, "seconds".
    """

    low: int
    high: int
    hits: NDArray[np.int64]
    rate_hz: int
    dimension: str


class GmonData(Record):
    """What a gmon.out says, in the addresses of the program's own image.

    Attributes:
        histograms: of ranges that do not overlap.
        arc_from, arc_to: u64[a] where calls came from, and the function that was called.
        arc_calls: i64[a] how many.
        block: u64[b] the addresses of basic blocks.
        block_runs: u64[b] how often each ran.
    """

    histograms: tuple[Histogram, ...]
    arc_from: NDArray[np.uint64]
    arc_to: NDArray[np.uint64]
    arc_calls: NDArray[np.int64]
    block: NDArray[np.uint64]
    block_runs: NDArray[np.uint64]


class _Form(NamedTuple):
    """A byte order, and how many bytes an address has."""

    order: str
    width: int

    @property
    def address(self) -> np.dtype[np.uint64]:
        return np.dtype(f"{self.order}u{self.width}")

    @property
    def arc(self) -> np.dtype[np.void]:
        return np.dtype(
            [
                ("tag", "u1"),
                ("from", self.address),
                ("to", self.address),
                ("calls", f"{self.order}u4"),
            ]
        )

    def number(self, data: memoryview, at: int, width: int) -> int:
        part = data[at : at + width]
        if len(part) != width:
            raise _UnfitError
        return int.from_bytes(part, "little" if self.order == "<" else "big")


class _UnfitError(Exception):
    """The bytes are no gmon.out of this form."""


_FORMS = (_Form("<", 8), _Form("<", 4), _Form(">", 8), _Form(">", 4))


def is_gmon(data: memoryview) -> bool:
    """Return whether a file begins as a gmon.out does."""
    return bytes(data[: len(MAGIC)]) == MAGIC or any(_is_bsd(data, form) for form in _FORMS)


def read_gmon(data: memoryview) -> GmonData:
    """Read a gmon.out of any byte order and width of addresses.

    Raises:
        RecordingError: its records do not fill the file, or cannot be meant.
    """
    for form in _FORMS:
        try:
            if bytes(data[: len(MAGIC)]) == MAGIC:
                return _read_records(data, form)
            if _is_bsd(data, form):
                return _read_bsd(data, form)
        except _UnfitError:
            continue
    raise RecordingError("damaged gmon.out: run the program to its end again")


def _read_records(data: memoryview, form: _Form) -> GmonData:
    if form.number(data, 4, 4) not in _VERSIONS:
        raise _UnfitError
    histograms: list[Histogram] = []
    arcs: list[NDArray[np.void]] = []
    blocks: list[NDArray[np.uint64]] = []
    at = _HEADER_BYTES
    while at < len(data):
        tag = data[at]
        if tag == _TAG_HISTOGRAM:
            histogram, at = _read_histogram(data, at + 1, form)
            histograms.append(histogram)
        elif tag == _TAG_ARC:
            found, at = _read_arcs(data, at, form)
            arcs.append(found)
        elif tag == _TAG_BLOCKS:
            count = form.number(data, at + 1, 4)
            end = at + 5 + 2 * form.width * count
            if end > len(data):
                raise _UnfitError
            blocks.append(np.frombuffer(data[at + 5 : end], form.address).astype(np.uint64))
            at = end
        else:
            raise _UnfitError
    table = np.concatenate(arcs) if arcs else np.empty(0, form.arc)
    pairs = np.concatenate(blocks).reshape(-1, 2) if blocks else np.empty((0, 2), np.uint64)
    return GmonData(
        histograms=_summed(histograms),
        arc_from=table["from"].astype(np.uint64),
        arc_to=table["to"].astype(np.uint64),
        arc_calls=table["calls"].astype(np.int64),
        block=pairs[:, 0],
        block_runs=pairs[:, 1],
    )


def _read_histogram(data: memoryview, at: int, form: _Form) -> tuple[Histogram, int]:
    low = form.number(data, at, form.width)
    high = form.number(data, at + form.width, form.width)
    at += 2 * form.width
    bins, rate_hz = form.number(data, at, 4), form.number(data, at + 4, 4)
    dimension = bytes(data[at + 8 : at + 23]).rstrip(b"\0")
    first, end = at + 24, at + 24 + 2 * bins
    if end > len(data) or high < low or (bins and high == low):
        raise _UnfitError
    hits = np.frombuffer(data[first:end], f"{form.order}u2").astype(np.int64)
    name = dimension.decode("utf-8", "backslashreplace")
    return Histogram(low, high, hits, max(rate_hz, 1), name), end


def _read_arcs(data: memoryview, at: int, form: _Form) -> tuple[NDArray[np.void], int]:
    """Read arcs that follow each other, up to some thousand."""
    size = form.arc.itemsize
    count = min((len(data) - at) // size, _ARCS_AT_ONCE)
    table = np.frombuffer(data[at : at + count * size], form.arc)
    others = np.flatnonzero(table["tag"] != _TAG_ARC)
    count = int(others[0]) if len(others) else count
    if not count:
        raise _UnfitError
    return table[:count], at + count * size


def _summed(histograms: Sequence[Histogram]) -> tuple[Histogram, ...]:
    """Add up histograms of the same addresses.

    Raises:
        RecordingError: two overlap otherwise, or count different things.
    """
    found: dict[tuple[int, int, int], Histogram] = {}
    for histogram in histograms:
        key = (histogram.low, histogram.high, len(histogram.hits))
        if key in found:
            total = found[key].hits + histogram.hits
            found[key] = Histogram(*key[:2], total, found[key].rate_hz, found[key].dimension)
        else:
            found[key] = histogram
    result = tuple(found[key] for key in sorted(found))
    for before, after in itertools.pairwise(result):
        if after.low < before.high:
            raise RecordingError("damaged gmon.out: its histograms overlap")
    if len({(one.dimension, one.rate_hz) for one in result}) > 1:
        raise RecordingError("damaged gmon.out: its histograms count in different units")
    return result


def _is_bsd(data: memoryview, form: _Form) -> bool:
    at = 2 * form.width + 4
    return len(data) >= at + 20 and form.number(data, at, 4) == _BSD_VERSION


def _read_bsd(data: memoryview, form: _Form) -> GmonData:
    """Read a header with one histogram behind it, and arcs to the end."""
    low = form.number(data, 0, form.width)
    high = form.number(data, form.width, form.width)
    at = 2 * form.width
    header_bytes = at + 24
    end = form.number(data, at, 4)  # ncnt counts the header
    rate_hz = form.number(data, at + 8, 4)
    arc = np.dtype([("from", form.address), ("to", form.address), ("calls", form.address)])
    left = len(data) - end
    if not header_bytes <= end <= len(data) or (end - header_bytes) % 2 or left % arc.itemsize:
        raise _UnfitError
    hits = np.frombuffer(data[header_bytes:end], f"{form.order}u2").astype(np.int64)
    if high < low or (len(hits) and high == low):
        raise _UnfitError
    arcs = np.frombuffer(data[end:], arc)
    return GmonData(
        histograms=(Histogram(low, high, hits, max(rate_hz, 1), "seconds"),),
        arc_from=arcs["from"].astype(np.uint64),
        arc_to=arcs["to"].astype(np.uint64),
        arc_calls=np.minimum(arcs["calls"].astype(np.uint64), _MOST_CALLS).astype(np.int64),
        block=np.empty(0, np.uint64),
        block_runs=np.empty(0, np.uint64),
    )
