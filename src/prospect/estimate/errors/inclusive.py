"""Error bars of functions with all that they call: half widths of 95 % intervals, as `error_bars`.

The hits of a function and of what it calls are one set of hits. Sets of several functions overlap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.estimate.errors.error_bars import half_widths, parts_of
from prospect.figures.calls.call_graph import numbers_within, of_each_hit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.estimate.errors.design import Design
    from prospect.estimate.errors.error_bars import Parts
    from prospect.figures.calls.call_graph import CallGraph

_FRAMES_OF_A_SET = 31  # bits of an i32 but its sign


def inclusive_half_widths(
    graph: CallGraph, design: Design, frames: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Estimate the error of the time of frames with all that they call, f64[n]."""
    if not design.has_bars:
        return np.full(len(frames), np.nan)
    sets = hits_of_frames(graph, frames)
    parts = parts_of(design, [one - np.int32(1) for one in sets])
    return half_widths_of_sets(design, sets, len(frames), parts)


def hits_of_frames(graph: CallGraph, frames: NDArray[np.int64]) -> list[NDArray[np.int32]]:
    """Return which frames are on the stack of each hit, as bits of i32[h] each."""
    found = []
    for first in range(0, len(frames), _FRAMES_OF_A_SET):
        bits = np.zeros(len(graph.forest) + 1, np.int32)
        for bit, frame in enumerate(frames[first : first + _FRAMES_OF_A_SET].tolist()):
            rows = np.flatnonzero(graph.forest.frame_index == frame)
            bits |= numbers_within(graph, rows).astype(np.int32) << bit
        found.append(of_each_hit(graph, bits))
    return found


def half_widths_of_sets(
    design: Design, sets: list[NDArray[np.int32]], count: int, parts: Parts
) -> NDArray[np.float64]:
    """Estimate the error of sets of hits, f64[count]: bits of i32[h] each, as `hits_of_frames`."""
    found = []
    for nth in range(count):
        which, bit = divmod(nth, _FRAMES_OF_A_SET)
        row_of_hit = (sets[which] >> bit & 1) - np.int32(1)
        found.append(half_widths(design, row_of_hit, 1, parts)[0])
    return np.array(found, np.float64)
