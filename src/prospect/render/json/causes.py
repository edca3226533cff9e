"""The fields of kernel time by cause and of system calls, as docs/schema.md describes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prospect.figures.causes import CAUSE_KIND_NAMES
from prospect.render.json.bars import bar_fields
from prospect.render.json.cut_rows import cut_fields

if TYPE_CHECKING:
    from prospect.estimate.report import EventReport
    from prospect.figures.report.view import EventView


def cause_fields(event: EventReport, process: int | None = None) -> dict[str, Any]:
    """Return kernel time by cause, of a process or of the system."""
    causes = event.causes
    rows = causes.of_system() if process is None else causes.of_process(process)
    estimates = event.estimates.causes.rows(rows.place)
    shown = slice(0, rows.shown)
    columns = (rows.kind, rows.hits, rows.seconds, rows.share)
    return cut_fields(
        rows,
        [
            {
                "kind": CAUSE_KIND_NAMES[kind],
                "name": name or None,
                "hits": hits,
                "seconds": round(seconds, 9),
                **bar_fields(estimates, row),
                "share": share,
            }
            for row, (name, kind, hits, seconds, share) in enumerate(
                zip(rows.name[shown], *(column[shown].tolist() for column in columns), strict=True)
            )
        ],
        "causes",
    )


def syscall_fields(event: EventReport, process: int | None = None) -> list[dict[str, Any]] | None:
    """Return system calls, of a process or of the system; None where none are known."""
    is_counted = event.calls.is_counted
    if not (is_counted or event.causes.is_known):
        return None
    rows = event.calls.system if process is None else event.calls.of_process(process)
    half_s = event.estimates.calls_half_width_s(
        event, rows.name, -1 if process is None else process
    )
    return [
        {
            "name": rows.name[row],
            "hits": int(rows.hits[row]),
            "seconds": round(float(rows.sampled_s[row]), 9),
            "error_s": round(float(half_s[row]), 9),
            "share": float(rows.share[row]),
            "calls": int(rows.calls[row]) if is_counted else None,
            "compat_calls": int(rows.compat_calls[row]) if is_counted else None,
            "unfinished": int(rows.unfinished[row]) if is_counted else None,
            "inside_s": round(float(rows.time_s[row]), 9) if is_counted else None,
            "mean_s": float(rows.mean_s[row]),
        }
        for row in range(len(rows))
    ]


def counting_fields(event: EventView) -> dict[str, Any] | None:
    """Return how system calls were counted, and what that cost; None where they were not."""
    calls = event.calls
    if not calls.is_counted:
        return None
    return {
        "dropped": calls.dropped,
        "recorder_calls": calls.recorder_calls,
        "cost_ns": calls.cost_ns,
        "cost_share": calls.cost_share,
    }
