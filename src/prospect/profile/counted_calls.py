"""Calls of functions that the recorder counted (--count-calls), as a table of the profile.

Where counting every call would have cost too much there are gaps between windows; what was called
in them is for `estimate.counts.call_counts` to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.grouping import exact_sums
from prospect.records import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray


class CountedFunctions(Record):
    """The functions that were to be counted, those that were never called included.

    Attributes:
        name: list[str] demangled.
        object_path: list[str] of their images.
        function_index: i32[f] into the profile's functions; -1 for one without a hit.
        probe_ns: f64[f] what a probe of such a function cost, as measured before the run.
        probe_spread_ns: f64[f] how far that may be off.
        left_out: list[str] why it was not counted, or not to the end; "" where it was.
    """

    name: list[str]
    object_path: list[str]
    function_index: NDArray[np.int32]
    probe_ns: NDArray[np.float64]
    probe_spread_ns: NDArray[np.float64]
    left_out: list[str]

    def __len__(self) -> int:
        return len(self.name)


class CallWindows(Record):
    """The windows in which calls were counted.

    Attributes:
        own_s: f64[w] CPU time of the command and its descendants in a window, without what probes
            took of it; 0 if that is not known.
        gap_s: f64[w] the same from its end to the next window, or to the end of the run.
        window_index: i32[n] into the windows.
        counted_index: i32[n] into the counted functions.
        process_index: i32[n] into processes.
    """

    own_s: NDArray[np.float64]
    gap_s: NDArray[np.float64]
    window_index: NDArray[np.int32]
    counted_index: NDArray[np.int32]
    process_index: NDArray[np.int32]
    calls: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.own_s)


class CallCounts(Record):
    """The counted calls: a row a function, process and caller.

    Attributes:
        counted_index: i32[c] into `functions`.
        process_index: i32[c] into processes, -1 if the process is not known.
        caller_index: i32[c] into the profile's functions: what the call returned to.
        windows: None if every call of the run was counted.
        dropped: calls that are in no row, because the kernel had no room for them.
        budget: the share of the command's CPU time that counting might take.
        cost_s: CPU time that it took, by what a probe cost.
        cost_share: the same as a part of the command's CPU time; 0.0 if that is unknown.
        hook: the name of an entry hook that ran there, and what it found; empty without.
    """

    functions: CountedFunctions
    counted_index: NDArray[np.int32]
    process_index: NDArray[np.int32]
    caller_index: NDArray[np.int32]
    calls: NDArray[np.int64]
    windows: CallWindows | None
    dropped: int
    budget: float
    cost_s: float
    cost_share: float
    hook: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.calls)


def calls_by_function(counts: CallCounts, chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return i64[f]: counted calls of each function, in the chosen processes (bool[p])."""
    is_chosen = in_processes(counts.process_index, chosen)
    return exact_sums(counts.counted_index, counts.calls * is_chosen, len(counts.functions))


def callers_of(
    counts: CallCounts, function: int, chosen: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return who called a function in the chosen processes, most calls first.

    Returns:
        i64[k] rows of the profile's functions, and i64[k] their calls.
    """
    rows = np.flatnonzero(
        (counts.counted_index == function) & in_processes(counts.process_index, chosen)
    )
    caller, place = np.unique(counts.caller_index.take(rows), return_inverse=True)
    calls = exact_sums(place, counts.calls.take(rows), len(caller))
    order = np.argsort(-calls, kind="stable")
    return caller.astype(np.int64).take(order), calls.take(order)


def in_processes(process_index: NDArray[np.int32], chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return bool[n]: whose process is chosen; none that is not known, unless all are."""
    return np.append(chosen, chosen.all()).take(process_index)
