"""Numbers of calls, estimated if only windows were counted, and the time of calls.

The profile must have `call_counts`. In a gap between two windows, a function is assumed to be
called as often, for each second that the program itself ran, as in the mean of the windows around
it; before the first and after the last, as often as in any of them. The error follows from the
differences of neighbouring windows, the number of calls, and the error of the cost of a probe,
which is subtracted from the windows' time.

Source: the variance from successive differences: Wolter, "Introduction to Variance Estimation",
2nd edition (2007), section 8.2; degrees of freedom: Satterthwaite, Biometrics Bulletin 2 (1946).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.estimate.statistics.beta import student_quantile
from prospect.figures.calls.call_graph import call_graph, frame_totals
from prospect.figures.calls.sample_choice import SampleChoice, choose_samples
from prospect.figures.modes import event_has_time, event_seconds
from prospect.figures.processes import chosen_by_detail
from prospect.figures.stacks.stack_weights import stack_samples
from prospect.profile.model import CPUMODE_USER, ENTRY_REASON_EXCEPTION, ENTRY_REASON_SYSCALL
from prospect.profile.optional_tables import callers_of, calls_by_function, in_processes
from prospect.records import Record

if TYPE_CHECKING:
    from prospect.columns.array_types import F64, I32, I64, Bools
    from prospect.figures.calls.call_graph import CallGraph
    from prospect.figures.calls.calls_view import CallsView
    from prospect.options import Detail
    from prospect.profile.complete import CompleteProfile
    from prospect.profile.optional_tables import CallCounts, CallWindows

_CONFIDENCE = 0.95
# The program may run before the first window or after the last for this share of the time in
# between, or twice the longest gap: in more time it may do something that is in no window.
_MOST_UNWATCHED = 0.25
_NORMAL = 1.96  # of the normal distribution, for that
# The least relative error of a probe's cost: a program is not our loop.
_LEAST_COST_ERROR = 0.1
# About a tenth of what a probe takes is sampled in the probed function, as the probe returns to it.
_MOST_PROBE_SHARE = 0.5
# Entry reasons of a probe's kernel time: its breakpoint, the step after it, its system call.
# Source: ``arch/x86/kernel/uprobes.c``, Linux 6.18.
_PROBE_ENTRY_REASONS = {
    (ENTRY_REASON_EXCEPTION, "breakpoint"),
    (ENTRY_REASON_EXCEPTION, "debug"),
    (ENTRY_REASON_SYSCALL, "uprobe"),
}
# Neighbouring differences share a window: three of them have two degrees of freedom.
_DF_OF_A_DIFFERENCE = 2.0 / 3.0


class CallFigures(Record):
    """The counted functions and their estimates; a row a function.

    The functions with most calls come first. Those with unknown calls come last, by name: their
    counts show how long counting lasted, not which is called most.

    Attributes:
        counted_index: i64[r] into `counts.functions`; functions without a call have no row.
        counted: i64[r] calls that were counted.
        calls: f64[r] calls in all; `counted` if every call was counted, NaN if the others are
            unknown.
        half_width: f64[r] half width of the 95 % interval of `calls`: 0 if all were counted, NaN if
            `calls` is.
        self_s: f64[r] sampled time in the function itself. NaN if samples are no time, or if the
            probe took as much as `_MOST_PROBE_SHARE` of that: samples that a probe delays are taken
            as it returns, in the function.
        total_s: f64[r] with all that it called, without samples in probes. NaN if there are no call
            stacks, or if samples in probes outnumber the others.
        callers: for each row, i64[k] rows of the profile's functions and i64[k] their counted
            calls, most first.
        uncalled: functions without a call.
    """

    counts: CallCounts
    counted_index: I64
    counted: I64
    calls: F64
    half_width: F64
    self_s: F64
    total_s: F64
    callers: list[tuple[I64, I64]]
    uncalled: int

    def __len__(self) -> int:
        return len(self.counted_index)


def call_figures(
    counts: CallCounts, profile: CompleteProfile, event_index: int, detail: Detail
) -> CallFigures:
    """Return the figures of each counted function, in the processes of `-V detail`.

    In gaps between windows, only the calls of the command and its descendants are known.
    """
    chosen = _chosen_processes(counts, profile, detail)
    counted = calls_by_function(counts, chosen)
    missed, half = _missed(counts, chosen)
    calls = np.where(np.isnan(half), np.nan, counted + missed)
    rows = np.flatnonzero(counted)
    rows = rows.take(np.lexsort((_ranks(counts.functions.name).take(rows), -calls.take(rows))))
    function = counts.functions.function_index.take(rows)
    self_s = _times(_self_seconds(profile, event_index, chosen), function)
    probe_s = (counted * counts.functions.probe_ns).take(rows) * 1e-9
    return CallFigures(
        counts=counts,
        counted_index=rows,
        counted=counted.take(rows),
        calls=calls.take(rows),
        half_width=half.take(rows),
        self_s=np.where(probe_s > _MOST_PROBE_SHARE * self_s, np.nan, self_s),
        total_s=_times(_total_seconds(profile, event_index, detail), function),
        callers=[callers_of(counts, row, chosen) for row in rows.tolist()],
        uncalled=len(counted) - len(rows),
    )


class CallNumbers(Record):
    """Numbers of calls, for tables whose rows are the profile's functions.

    Attributes:
        of_function: calls by row of the profile's functions, if known.
        of_arc: the same by rows of the caller and the callee.
    """

    of_function: dict[int, float]
    of_arc: dict[tuple[int, int], float]


def call_numbers(view: CallsView) -> CallNumbers | None:
    """Return the number of calls of each function.

    Returns:
        None if calls were not counted, or if the samples were chosen by more than `-V`.
    """
    counts, samples = view.profile.call_counts, view.choice.samples
    if counts is None or samples != SampleChoice(samples.detail):
        return None
    chosen = _chosen_processes(counts, view.profile, view.detail)
    counted = calls_by_function(counts, chosen)
    missed, half = _missed(counts, chosen)
    of_function: dict[int, float] = {}
    of_arc: dict[tuple[int, int], float] = {}
    function: list[int] = counts.functions.function_index.tolist()
    for row in np.flatnonzero((counted > 0) & ~np.isnan(half)).tolist():
        callee, scale = function[row], 1.0 + float(missed[row]) / float(counted[row])
        if callee >= 0:
            of_function[callee] = float(counted[row]) * scale
            callers, calls = callers_of(counts, row, chosen)
            for caller, number in zip(callers.tolist(), calls.tolist(), strict=True):
                of_arc[caller, callee] = number * scale
    return CallNumbers(of_function, of_arc)


def _chosen_processes(counts: CallCounts, profile: CompleteProfile, detail: Detail) -> Bools:
    """Return bool[p]: the processes of `-V detail` with known calls."""
    processes = profile.processes
    chosen = chosen_by_detail(processes, detail)
    if counts.windows is None:
        return chosen
    return chosen & (processes.is_command | processes.is_descendant)


def _missed(counts: CallCounts, chosen: Bools) -> tuple[F64, F64]:
    """Return `missed_calls` of every function: none if all were counted."""
    functions = counts.functions
    if counts.windows is None:
        return np.zeros(len(functions)), np.zeros(len(functions))
    missed, half = missed_calls(
        counts.windows, chosen, functions.probe_ns, functions.probe_spread_ns
    )
    is_left_out = np.array([bool(why) for why in functions.left_out])
    return np.where(is_left_out, 0.0, missed), np.where(is_left_out, np.nan, half)


def missed_calls(
    windows: CallWindows, chosen: Bools, probe_ns: F64, probe_spread_ns: F64
) -> tuple[F64, F64]:
    """Estimate the calls between windows.

    Args:
        windows: the counts of each.
        chosen: bool[p] the processes that count.
        probe_ns: f64[f] cost of a probe of each function.
        probe_spread_ns: f64[f] its error.

    Returns:
        f64[f] calls, and f64[f] the half width of their 95 % interval; NaN if the windows cover too
        little of the run.
    """
    functions = len(probe_ns)
    every = _by_window(windows, functions, np.ones(len(windows.calls), np.bool_))
    calls = _by_window(windows, functions, in_processes(windows.process_index, chosen))
    known = np.flatnonzero(windows.own_s > 0)
    if not windows.gap_s.any():
        return np.zeros(functions), np.zeros(functions)
    if len(known) < 2:
        return np.zeros(functions), np.full(functions, np.nan)
    own_s = windows.own_s.take(known)
    # Gaps around windows of unknown length are one gap; so are those before the first.
    gap_s = np.add.reduceat(windows.gap_s, known)
    first_s = float(windows.gap_s[: known[0]].sum())
    watched_s = float(own_s.sum() + gap_s[:-1].sum())
    longest_s = 2.0 * float(gap_s[:-1].max())
    if max(first_s, gap_s[-1]) > max(_MOST_UNWATCHED * watched_s, longest_s):
        return np.zeros(functions), np.full(functions, np.nan)
    rate = calls[known] / own_s[:, None]
    before, after = rate, np.vstack((rate[1:], rate[-1:]))
    missed = gap_s @ ((before + after) / 2.0) + first_s * rate[0]
    variance, df = _variance(calls[known], own_s, gap_s, first_s)
    error_ns = np.maximum(probe_spread_ns, _LEAST_COST_ERROR * probe_ns)
    cost_error = float((every[known] @ error_ns).sum()) * 1e-9 / float(own_s.sum())
    half = student_quantile(_CONFIDENCE, df) * np.sqrt(variance) + missed * cost_error
    return missed, half


def _by_window(windows: CallWindows, functions: int, rows: Bools) -> F64:
    """Return f64[w, f]: the calls of each window and function."""
    calls = np.zeros((len(windows), functions))
    np.add.at(calls, (windows.window_index[rows], windows.counted_index[rows]), windows.calls[rows])
    return calls


def _variance(calls: F64, own_s: F64, gap_s: F64, first_s: float) -> tuple[F64, F64]:
    """Return the variance of the missed calls, f64[f], and its degrees of freedom, f64[f]."""
    rate = calls / own_s[:, None]
    of_pair = np.diff(rate, axis=0) ** 2 / 2.0
    # At least the variance of random single calls; three may have come if none was seen.
    least = (calls.sum(axis=0) + 1.0) / own_s.sum() / own_s[:, None]
    inner_s, pair_s = gap_s[:-1, None], (own_s[:-1, None] + own_s[1:, None]) / 2.0
    spread = np.maximum(of_pair, least[:-1])
    parts = spread * (inner_s**2 + inner_s * pair_s)
    outer_s = np.array([first_s, gap_s[-1]])[:, None]
    # Before the first window and after the last, any rate of the windows is possible.
    seen = rate.min(axis=0), rate.max(axis=0)
    farthest = np.maximum(rate[[0, -1]] - seen[0], seen[1] - rate[[0, -1]])
    outer = np.maximum((farthest / _NORMAL) ** 2, of_pair.mean(axis=0))
    outer = np.maximum(outer, least[[0, -1]])
    outer_parts = outer * (2.0 * outer_s**2 + outer_s * own_s[[0, -1], None])
    variance = parts.sum(axis=0) + outer_parts.sum(axis=0)
    squares = (parts**2).sum(axis=0)
    df = np.full(len(variance), np.inf)
    np.divide(parts.sum(axis=0) ** 2, squares, out=df, where=squares > 0)
    return variance, np.maximum(df * _DF_OF_A_DIFFERENCE, 1.0)


def _ranks(names: list[str]) -> I64:
    """Return i64[f]: the place of each name among all in alphabetical order."""
    ranks = np.empty(len(names), np.int64)
    ranks[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    return ranks


def _times(seconds: F64, function: I32) -> F64:
    """Return the seconds of each function, NaN for one that the profile lacks."""
    return np.append(seconds, np.nan).take(function)


def _self_seconds(profile: CompleteProfile, event_index: int, chosen: Bools) -> F64:
    hits, event = profile.hits, profile.run.events[event_index]
    functions = len(profile.functions)
    if not event_has_time(event):
        return np.full(functions, np.nan)
    rows = np.flatnonzero(
        (hits.event == event_index) & (hits.mode == CPUMODE_USER) & chosen.take(hits.process_index)
    )
    function = profile.locations.function_index.take(hits.location_index.take(rows))
    seconds = event_seconds(event, hits.count.take(rows), hits.period.take(rows))
    return np.bincount(function, seconds, functions).astype(np.float64)


def _total_seconds(profile: CompleteProfile, event_index: int, detail: Detail) -> F64:
    functions = len(profile.functions)
    event = profile.run.events[event_index]
    if profile.stacks is None or not event_has_time(event):
        return np.full(functions, np.nan)
    samples = stack_samples(profile, "4")
    chosen = choose_samples(samples, SampleChoice(detail))
    entry_reasons = zip(
        profile.entry_reasons.kind.tolist(), profile.entry_reasons.name, strict=True
    )
    is_probe = np.array(
        [entry_reason in _PROBE_ENTRY_REASONS for entry_reason in entry_reasons], np.bool_
    )
    of_sample = is_probe.take(samples.of_hit(profile.hits.entry_reason_index))
    own, probes = (
        _seconds_by_function(call_graph(samples, some, event_index), functions)
        for some in (chosen & ~of_sample, chosen & of_sample)
    )
    return np.where(probes > own, np.nan, own)


def _seconds_by_function(graph: CallGraph, functions: int) -> F64:
    """Return f64[functions]: the time in which each was on the stack."""
    frame = graph.frames.function_index
    is_function = frame >= 0
    total_s = frame_totals(graph).total_s
    return np.bincount(frame[is_function], total_s[is_function], functions).astype(np.float64)
