"""gmon.out, which programs that were compiled with ``-pg`` write → a Profile with counted calls.

Neither format records the width of its addresses. The reader tries the widths and byte orders in
turn, and takes the one with which records fill the file exactly. It divides a histogram's bin among
its functions in units of two bytes, with gprof's rule and arithmetic. A period is a tick of one
such unit, so sums are exact. It chooses symbols as gprof does, because tests compare the tables: it
ignores sizes of symbols, so each function reaches to the next one.

Source: ``gmon/sys/gmon_out.h`` of glibc 2.36 for files that begin with ``gmon`` (versions 0 and 1),
``sys/gmon.h`` of 4.4BSD for the others; ``gprof/hist.c`` hist_assign_samples_1(),
``gprof/call_graph.c`` cg_tally(), ``gprof/corefile.c`` core_sym_class(), ``gprof/symtab.c``
symtab_finalize(), binutils 2.40.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.sorting import run_starts
from prospect.elf.symbols import read_symbols
from prospect.errors import RecordingError
from prospect.foreign.foreign_limits import LONGEST_NAME_BYTES
from prospect.foreign.stack_profile import (
    no_entry_reasons,
    no_losses,
    no_mappings,
    process_table,
    run_info,
)
from prospect.profile.builder import NamedAddresses, TableBuilder, no_clocks, no_samples
from prospect.profile.model import CPUMODE_USER, KIND_ELF, HitTable, Profile
from prospect.profile.naming import NameSource
from prospect.profile.optional_tables import CallCounts, CountedFunctions
from prospect.profile.run_info import EventInfo
from prospect.records import NamedTuple, Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prospect.columns.array_types import I64, U64, Bools
    from prospect.elf.image import ElfImage
    from prospect.elf.symbols import ElfSymbols

_SHF_EXECINSTR = 4
_STT_OBJECT, _STT_FUNC, _STT_SECTION, _STT_FILE, _STT_TLS, _STT_IFUNC = 1, 2, 3, 4, 6, 10
_NO_CODE = (_STT_SECTION, _STT_FILE, _STT_TLS, _STT_IFUNC)
_STB_LOCAL, _STB_WEAK, _STB_UNIQUE = 0, 2, 10
# Compilers and assemblers mark names that they made up by `$` or `.`, as well as numbered copies of
# functions, which count.
_LOCAL_NAME = re.compile(rb"[^$.]+(?:(?:\.clone|\.constprop)?\.[0-9]+)*")
_MARKERS = (b"__gnu_compiled", b"___gnu_compiled")

MAGIC = b"gmon"
_HEADER_BYTES = 20
_TAG_HISTOGRAM = 0
_TAG_ARC = 1
_TAG_BLOCKS = 2
_VERSIONS = (0, 1)
_BSD_VERSION = 0x51879  # GMONVERSION
_ARCS_AT_ONCE = 1 << 12
_MOST_CALLS = np.uint64(1 << 40)  # of one arc; sums stay below 2**63

_UNIT_BYTES = 2  # sizeof (UNIT) in gprof/gprof.h
_SCALE_TOLERANCE = 1e-6
_MOST_UNITS = np.uint64(1 << 24)  # of a bin; sums stay below 2**63


class ProgramFunctions(Record):
    """Functions by address.

    Attributes:
        start: ascending.
        end: the next one's start, or the end of the section.
        name: as in the symbol table.
        is_function: False for labels without a type. A call to one is a call to the function
            before it.
    """

    start: U64
    end: U64
    name: list[bytes]
    is_global: Bools
    is_function: Bools

    def __len__(self) -> int:
        return len(self.start)

    def lookup(self, address: U64) -> I64:
        """Return the function of each address, -1 for none."""
        row = np.searchsorted(self.start, address, side="right") - 1
        if not len(self):
            return row
        return np.where((row >= 0) & (address < self.end.take(row)), row, -1)

    def called(self, address: U64) -> I64:
        """Return the function that a call to each address calls, -1 for none."""
        row = self.lookup(address)
        before = np.maximum.accumulate(np.where(self.is_function, np.arange(len(self)), -1))
        return np.append(before, -1).take(row)


def program_functions(image: ElfImage) -> ProgramFunctions:
    """Collect the functions of an image.

    Raises:
        RecordingError: it has no symbols of code.
    """
    symbols = read_symbols(image, b".symtab") or read_symbols(image, b".dynsym")
    rows = _code_rows(image, symbols) if symbols else np.empty(0, np.int64)
    names = _names(symbols, rows) if symbols else []
    if symbols:
        kept = [
            place for place, row in enumerate(rows.tolist()) if _counts(symbols, row, names[place])
        ]
        rows, names = rows.take(kept).astype(np.int64), [names[place] for place in kept]
    if not symbols or not len(rows):
        raise RecordingError("the program has no symbols: use the one that was not stripped")
    address = symbols.value.take(rows)
    is_function = symbols.kind.take(rows) == _STT_FUNC
    is_local = symbols.binding.take(rows) == _STB_LOCAL
    has_underscore = np.array([name.startswith(b"_") for name in names])
    # The first of the symbols of an address counts: functions and global ones precede others.
    order = np.lexsort((has_underscore, is_local, ~is_function, address))
    best = order.take(run_starts(address.take(order)))
    start = address.take(best)
    section = image.sections[symbols.section[rows[best[-1]]]]
    section_end = min(int(section["addr"]) + int(section["size"]), 2**64 - 1)
    return ProgramFunctions(
        start=start,
        end=np.append(start[1:], np.uint64(max(section_end, int(start[-1]) + 1))),
        name=[names[place] for place in best.tolist()],
        is_global=~is_local.take(best),
        is_function=is_function.take(best),
    )


def _code_rows(image: ElfImage, symbols: ElfSymbols) -> I64:
    is_code = (image.sections["flags"] & _SHF_EXECINSTR) != 0
    section = symbols.section
    in_code = (section > 0) & np.append(is_code, np.zeros(1, np.bool_)).take(section)
    is_one = in_code & ~np.isin(symbols.kind, _NO_CODE) & (symbols.binding != _STB_UNIQUE)
    is_one &= ~((symbols.binding == _STB_WEAK) & (symbols.kind == _STT_OBJECT))
    return np.flatnonzero(is_one & (symbols.value < np.uint64(2**64 - 1)))


def _names(symbols: ElfSymbols, rows: I64) -> list[bytes]:
    strings = symbols.strings
    return [
        bytes(strings[start : start + LONGEST_NAME_BYTES]).partition(b"\0")[0]
        for start in symbols.name.take(rows).tolist()
    ]


def _counts(symbols: ElfSymbols, row: int, name: bytes) -> bool:
    """Return whether a symbol counts: every global one, and local ones with a name from source."""
    if symbols.binding[row] != _STB_LOCAL:
        return bool(name)
    return _LOCAL_NAME.fullmatch(name) is not None and not name.startswith(_MARKERS)


class Histogram(Record):
    """The ticks in each part of a range of code.

    Attributes:
        low, high: the range of addresses; `high` is the first after it.
        hits: ticks in equal parts of the range.
        rate_hz: ticks a second.
        dimension: the unit of ticks, "seconds".
    """

    low: int
    high: int
    hits: I64
    rate_hz: int
    dimension: str


class GmonData(Record):
    """The content of a gmon.out, in the addresses of the program's own image.

    Attributes:
        histograms: of ranges that do not overlap.
        arc_from, arc_to: addresses of calls, and of the called functions.
        arc_calls: the number of calls.
        block: addresses of basic blocks.
        block_runs: how often each ran.
    """

    histograms: tuple[Histogram, ...]
    arc_from: U64
    arc_to: U64
    arc_calls: I64
    block: U64
    block_runs: U64


class _Form(NamedTuple):
    """A byte order, and the bytes of an address."""

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
    """Return whether a file begins like a gmon.out."""
    return bytes(data[: len(MAGIC)]) == MAGIC or any(_is_bsd(data, form) for form in _FORMS)


def read_gmon(data: memoryview) -> GmonData:
    """Read a gmon.out of any byte order and width of addresses.

    Raises:
        RecordingError: its records do not fill the file, or contradict each other.
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
    blocks: list[U64] = []
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
    """Read consecutive arcs, up to a few thousand."""
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
        RecordingError: different ranges overlap, or units differ.
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
    """Read a header with one histogram after it, and arcs to the end."""
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


def gmon_profile(
    origin: str, program: str, data: GmonData, functions: ProgramFunctions, names: Sequence[str]
) -> Profile:
    """Make a profile of a gmon.out.

    `origin` is the name of the file, `program` the path of the program, and `names` those of its
    functions.

    Raises:
        RecordingError: its histograms have parts of different sizes.
    """
    scale = _scale(data.histograms)
    function, hits, units = _credit(data.histograms, functions, scale)
    builder = TableBuilder()
    builder.add(program, KIND_ELF, _named(functions, names, program))
    objects, table, locations = builder.tables()
    rate_hz = data.histograms[0].rate_hz if data.histograms else 1
    event = EventInfo("-pg ticks", 1.0 / (rate_hz * scale), 1.0 / rate_hz, float(rate_hz))
    zeros = np.zeros(len(function), np.int32)
    limits = ["gmon.out has the time of the program itself: none of its libraries, none waiting"]
    outside = int(sum(int(h.hits.sum()) for h in data.histograms) - hits.sum())
    if outside > 0:
        limits.append(f"{outside} ticks are in no function of {program}: is it the right program?")
    return Profile(
        run=run_info(
            origin, (event,), float(hits.sum()) / rate_hz, command=(program,), limits=tuple(limits)
        ),
        comms=[program.rpartition("/")[2]],
        processes=process_table([program.rpartition("/")[2]], [-1]),
        objects=objects,
        functions=table,
        locations=locations,
        mappings=no_mappings(),
        hits=HitTable(
            process_index=zeros,
            comm_index=zeros,
            location_index=function.astype(np.int32),
            mode=np.full(len(function), CPUMODE_USER, np.uint8),
            event=zeros.astype(np.uint16),
            entry_reason_index=zeros,
            count=hits,
            period=units,
        ),
        losses=no_losses(),
        entry_reasons=no_entry_reasons(),
        samples=no_samples(),
        clocks=no_clocks(),
        call_counts=_calls(data, functions, names, program),
    )


def _scale(histograms: Sequence[Histogram]) -> float:
    """Return the width of a bin in units."""
    scales = [
        (one.high - one.low) // _UNIT_BYTES / len(one.hits) for one in histograms if len(one.hits)
    ]
    if scales and max(scales) - min(scales) > _SCALE_TOLERANCE:
        raise RecordingError("gmon.out: its histograms have parts of different sizes")
    return scales[0] if scales and scales[0] > 0 else 1.0


def _credit(
    histograms: Sequence[Histogram], functions: ProgramFunctions, scale: float
) -> tuple[I64, I64, I64]:
    """Divide the ticks among functions.

    Returns:
        Functions; their ticks, each counted for the function with most of its bin; and their ticks
        of one unit: ticks times the units of the bin that the function has.
    """
    start = functions.start // np.uint64(_UNIT_BYTES)
    end = np.append(start[1:], functions.end[-1:] // np.uint64(_UNIT_BYTES))
    count = np.zeros(len(functions), np.int64)
    units = np.zeros(len(functions), np.int64)
    for histogram in histograms:
        bins = np.flatnonzero(histogram.hits)
        base = np.uint64(histogram.low // _UNIT_BYTES)
        low = base + (scale * bins).astype(np.uint64)
        high = base + (scale * (bins + 1)).astype(np.uint64)
        first = np.maximum(np.searchsorted(start, low, side="right") - 1, 0)
        last = np.searchsorted(start, high, side="left")
        spans = np.maximum(last - first, 0)
        place = np.repeat(np.arange(len(bins)), spans)
        row = np.arange(int(spans.sum())) - np.repeat(np.cumsum(spans) - spans, spans)
        row += first.take(place)
        above = np.maximum(low.take(place), start.take(row))
        below = np.minimum(high.take(place), end.take(row))
        share = np.where(below > above, below - above, np.uint64(0))
        share = np.minimum(share, _MOST_UNITS).astype(np.int64)
        ticks = histogram.hits.take(bins)
        np.add.at(units, row, ticks.take(place) * share)
        # The function with most of a bin comes first; the later one of two equal ones.
        order = np.lexsort((-row, -share, place))
        order = order[share.take(order) > 0]
        is_most = np.diff(place.take(order), prepend=-1) != 0
        most = order[is_most]
        np.add.at(count, row.take(most), ticks.take(place.take(most)))
    seen = np.flatnonzero(units)
    return seen, count.take(seen), units.take(seen)


def _named(functions: ProgramFunctions, names: Sequence[str], program: str) -> NamedAddresses:
    total = len(functions)
    return NamedAddresses(
        address=functions.start,
        function=np.arange(total, dtype=np.int32),
        reason=np.zeros(total, np.uint8),
        name=list(names),
        linkage_name=[name.decode("utf-8", "surrogateescape") for name in functions.name],
        aliases=[()] * total,
        function_address=functions.start,
        function_size=functions.end - functions.start,
        is_global=functions.is_global,
        source=np.full(total, NameSource.SYMTAB, np.uint8),
        object_path=[program] * total,
    )


def _calls(
    data: GmonData, functions: ProgramFunctions, names: Sequence[str], program: str
) -> CallCounts:
    """Return the arcs between functions, whose rows are the same in the profile and in `functions`.

    Arcs keep the order of the file, by which gprof numbers cycles.
    """
    caller, callee = functions.lookup(data.arc_from), functions.called(data.arc_to)
    known = np.flatnonzero((caller >= 0) & (callee >= 0))
    pairs, first, arc = np.unique(
        caller.take(known) * (len(functions) + 1) + callee.take(known),
        return_index=True,
        return_inverse=True,
    )
    calls = np.zeros(len(pairs), np.int64)
    np.add.at(calls, arc, data.arc_calls.take(known))
    in_file = np.argsort(first, kind="stable")
    rows, counted = np.unique(callee.take(known).take(first), return_inverse=True)
    arcs = known.take(first.take(in_file))
    return CallCounts(
        functions=CountedFunctions(
            name=[names[row] for row in rows.tolist()],
            object_path=[program] * len(rows),
            function_index=rows.astype(np.int32),
            probe_ns=np.zeros(len(rows)),
            probe_spread_ns=np.zeros(len(rows)),
            left_out=[""] * len(rows),
        ),
        counted_index=counted.take(in_file).astype(np.int32),
        process_index=np.zeros(len(arcs), np.int32),
        caller_index=caller.take(arcs).astype(np.int32),
        calls=calls.take(in_file),
        windows=None,
        dropped=int(data.arc_calls.sum() - data.arc_calls.take(known).sum()),
        budget=1.0,
        cost_s=0.0,
        cost_share=0.0,
    )
