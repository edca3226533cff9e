"""A gmon.out and the functions of its program → a Profile, with the calls that were counted.

The part of a histogram's bin that lies in a function is the function's, to two bytes: this is
gprof's rule, and its arithmetic. A period is a tick of one such unit, so that sums are exact.
Source: ``gprof/hist.c`` hist_assign_samples_1(), ``gprof/call_graph.c`` cg_tally(), binutils 2.40.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.errors import RecordingError
from prospect.foreign.tables import (
    no_causes,
    no_losses,
    no_mappings,
    process_table,
    run_info,
)
from prospect.profile.builder import NamedAddresses, TableBuilder
from prospect.profile.call_counts import CallCounts, CountedFunctions
from prospect.profile.model import KIND_ELF, MODE_USER, HitTable, Profile
from prospect.profile.naming import NameSource
from prospect.profile.run_info import EventInfo
from prospect.profile.unsampled import no_clocks, no_samples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prospect.foreign.gmon import GmonData, Histogram
    from prospect.foreign.program_functions import ProgramFunctions

_UNIT_BYTES = 2  # sizeof (UNIT) in gprof/gprof.h
_SCALE_TOLERANCE = 1e-6
_MOST_UNITS = np.uint64(1 << 24)  # of a bin; sums stay below 2**63


def gmon_profile(
    origin: str,
    program: str,
    data: GmonData,
    functions: ProgramFunctions,
    names: Sequence[str],
) -> Profile:
    """Make a profile of a gmon.out.

    Args:
        origin: the file's name.
        program: the program's path.
        data: what the file says.
        functions: of the program.
        names: list[str] what each function is called.

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
            origin,
            (event,),
            float(hits.sum()) / rate_hz,
            command=(program,),
            limits=tuple(limits),
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
            mode=np.full(len(function), MODE_USER, np.uint8),
            event=zeros.astype(np.uint16),
            cause_index=zeros,
            count=hits,
            period=units,
        ),
        losses=no_losses(),
        causes=no_causes(),
        samples=no_samples(),
        clocks=no_clocks(),
        call_counts=_calls(data, functions, names, program),
    )


def _scale(histograms: Sequence[Histogram]) -> float:
    """Return how many units a bin is wide."""
    scales = [
        (one.high - one.low) // _UNIT_BYTES / len(one.hits) for one in histograms if len(one.hits)
    ]
    if scales and max(scales) - min(scales) > _SCALE_TOLERANCE:
        raise RecordingError("gmon.out: its histograms have parts of different sizes")
    return scales[0] if scales and scales[0] > 0 else 1.0


def _credit(
    histograms: Sequence[Histogram], functions: ProgramFunctions, scale: float
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return which functions the ticks are of.

    Returns:
        i64[n] functions, i64[n] ticks, each in the function with most of its bin, and i64[n] ticks
        of one unit: ticks times the units of their bin that the function has.
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
        # Of a bin's functions the one with most of it comes first, of equal ones the later.
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
        raw_name=[name.decode("utf-8", "surrogateescape") for name in functions.name],
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
    """Return the arcs between functions; rows of the profile's functions are those of `functions`.

    Arcs keep the order of the file: gprof numbers cycles by it.
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
