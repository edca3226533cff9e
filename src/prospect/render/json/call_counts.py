"""Counted calls as JSON: `call_counts` of an event, as docs/call-counts.md describes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prospect.estimate.call_figures import CallFigures
    from prospect.estimate.report import EventReport
    from prospect.profile.call_counts import CallCounts
    from prospect.profile.complete import CompleteProfile


def call_count_fields(event: EventReport) -> dict[str, Any] | None:
    """Return how often functions were called; None where nothing was counted."""
    figures = event.call_counts
    if figures is None:
        return None
    counts = figures.counts
    return {
        "is_exact": counts.windows is None,
        "budget": counts.budget,
        "cost_s": counts.cost_s,
        "cost_share": counts.cost_share,
        "dropped": counts.dropped,
        "hook": {"name": counts.hook[0], "lines": list(counts.hook[1:])} if counts.hook else None,
        "windows": _window_fields(counts),
        "uncalled": figures.uncalled,
        "left_out": [
            {"name": name, "object": path, "reason": why}
            for name, path, why in zip(
                counts.functions.name,
                counts.functions.object_path,
                counts.functions.left_out,
                strict=True,
            )
            if why
        ],
        "routines": [_routine(figures, row, event.report.profile) for row in range(len(figures))],
    }


def _window_fields(counts: CallCounts) -> dict[str, Any] | None:
    windows = counts.windows
    if windows is None:
        return None
    return {
        "count": len(windows),
        "own_s": float(windows.own_s.sum()),
        "gap_s": float(windows.gap_s.sum()),
    }


def _routine(figures: CallFigures, row: int, profile: CompleteProfile) -> dict[str, Any]:
    functions, index = figures.counts.functions, int(figures.counted_index[row])
    callers, calls = figures.callers[row]
    return {
        "name": functions.name[index],
        "object": functions.object_path[index],
        "probe_ns": float(functions.probe_ns[index]),
        "counted": int(figures.counted[row]),
        "calls": float(figures.calls[row]),
        "half_width": float(figures.half_width[row]),
        "self_s": float(figures.self_s[row]),
        "total_s": float(figures.total_s[row]),
        "callers": [
            {
                "name": profile.functions.name[caller],
                "object": profile.objects.path[int(profile.functions.object_index[caller])],
                "counted": number,
            }
            for caller, number in zip(callers.tolist(), calls.tolist(), strict=True)
        ],
    }
