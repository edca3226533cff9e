"""Rows of the functions that spend most with all that they call, with ±, for every format."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.estimate.errors.design import sampling_design
from prospect.estimate.errors.error_bars import half_widths, parts_of
from prospect.figures.calls.call_graph import call_graph, frame_totals, numbers_within, of_each_hit
from prospect.figures.calls.spenders import spenders
from prospect.figures.processes import chosen_hits, idle_hits
from prospect.figures.stacks.stack_weights import stack_samples
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from prospect.columns.array_types import F64, I32, I64, Bools
    from prospect.estimate.errors.design import Design
    from prospect.estimate.errors.error_bars import Parts
    from prospect.figures.calls.call_graph import CallGraph, FrameTotals
    from prospect.figures.calls.spenders import Spender
    from prospect.options import Detail
    from prospect.profile.complete import CompleteProfile


class CalleesRow(NamedTuple):
    """A function with all that it calls, of all programs together.

    Attributes:
        function: row of the profile's functions, -1 for an inlined one.
        object_path: of the mapped object with its code.
        hits: samples with it on their stack.
        seconds, half_width_s: time, and half of its 95 % interval; NaN if the event has none.
        share: of all chosen hits, 0 to 1.
        program: the one that spent most of the time.
        other_programs: how many others spent some.
        end: the last function on the way down that has nearly all of the time, "" if the time
            spreads below the function itself.
        end_object: the file of that function's code.
        is_own: whether it is neither installed code nor the system's.
    """

    function: int
    name: str
    object_path: str
    hits: int
    seconds: float
    half_width_s: float
    share: float
    program: str
    other_programs: int
    end: str
    end_object: str
    is_own: bool


def callees_of_event(
    profile: CompleteProfile, detail: Detail, event_index: int
) -> tuple[CalleesRow, ...]:
    """Return the rows of one event, most time first; none without callers.

    Idle CPUs and Prospect itself are in no row.
    """
    samples = stack_samples(profile, "4")
    is_aside = profile.processes.is_recorder.take(profile.hits.process_index)
    chosen = chosen_hits(profile, detail) & ~idle_hits(profile) & ~is_aside
    graph = call_graph(samples, chosen.take(samples.hit_index), event_index)
    totals = frame_totals(graph)
    return callees_rows(graph, totals, spenders(graph, totals))


def callees_rows(
    graph: CallGraph, totals: FrameTotals, found: list[Spender]
) -> tuple[CalleesRow, ...]:
    """Return the rows of these functions."""
    sets = hits_of_frames(graph, np.array([one.frame for one in found], np.int64))
    half_widths = np.full(len(found), np.nan)
    if found and not graph.event.is_waiting:
        design = sampling_design(graph.profile, graph.event_index)
        if design.has_bars:
            parts = parts_of(design, [one - np.int32(1) for one in sets])
            half_widths = half_widths_of_sets(design, sets, len(found), parts)
    whole_s, whole_hits = graph.seconds, max(graph.hits, 1)
    rows = []
    for place, one in enumerate(found):
        hits, seconds = int(totals.total_hits[one.frame]), float(totals.total_s[one.frame])
        programs = _programs(graph, _is_in(sets, place) > 0)
        has_end = one.end != one.frame
        rows.append(
            CalleesRow(
                function=int(graph.frames.function_index[one.frame]),
                name=graph.labels[one.frame],
                object_path=graph.object_path(one.frame),
                hits=hits,
                seconds=seconds,
                half_width_s=float(half_widths[place]),
                share=seconds / whole_s if whole_s else hits / whole_hits,
                program=programs[0],
                other_programs=len(programs) - 1,
                end=graph.labels[one.end] if has_end else "",
                end_object=graph.object_path(one.end) if has_end else "",
                is_own=one.is_own,
            )
        )
    return tuple(rows)


def _programs(graph: CallGraph, is_in: Bools) -> list[str]:
    """Return the names of the processes of some hits, bool[h], the one with most hits first."""
    hits = graph.profile.hits
    process, count = hits.process_index[is_in], hits.count[is_in]
    amount = np.bincount(process, count, len(graph.profile.processes))
    by_name: dict[str, float] = {}
    for row in np.flatnonzero(amount).tolist():
        name = graph.profile.processes.name[row]
        by_name[name] = by_name.get(name, 0.0) + float(amount[row])
    return sorted(by_name, key=lambda name: -by_name[name])


# Error bars of functions with all that they call: half widths of 95 % intervals, as `error_bars`.
#
# The hits of a function and of what it calls are one set of hits. Sets of several functions
# overlap.

_FRAMES_OF_A_SET = 31  # bits of an i32 but its sign


def hits_of_frames(graph: CallGraph, frames: I64) -> list[I32]:
    """Return the frames on the stack of each hit, as bits of i32[h] each."""
    found = []
    for first in range(0, len(frames), _FRAMES_OF_A_SET):
        bits = np.zeros(len(graph.forest) + 1, np.int32)
        for bit, frame in enumerate(frames[first : first + _FRAMES_OF_A_SET].tolist()):
            rows = np.flatnonzero(graph.forest.frame_index == frame)
            bits |= numbers_within(graph, rows).astype(np.int32) << bit
        found.append(of_each_hit(graph, bits))
    return found


def _is_in(sets: list[I32], nth: int) -> I32:
    """Return 1 for the hits in a set, else 0, i32[h]."""
    which, bit = divmod(nth, _FRAMES_OF_A_SET)
    return sets[which] >> bit & np.int32(1)


def half_widths_of_sets(design: Design, sets: list[I32], count: int, parts: Parts) -> F64:
    """Estimate the errors of `count` sets of hits, f64: bits of i32[h], as in `hits_of_frames`."""
    rows = (_is_in(sets, nth) - np.int32(1) for nth in range(count))
    return np.array([half_widths(design, row, 1, parts)[0] for row in rows], np.float64)
