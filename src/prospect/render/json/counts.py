"""Counts of events as JSON.

Comes in: `EventCounts`. Goes out: one document; docs/stat.md lists its fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prospect.estimate.count_means import count_means
from prospect.profile.event_counts import derived_figures
from prospect.render.encoding import encoded

if TYPE_CHECKING:
    from prospect.estimate.count_means import Mean
    from prospect.profile.event_counts import Count, CountedEvent, CountedRun, EventCounts

SCHEMA = "prospect-counts/1"


def counts_json(found: EventCounts) -> bytes:
    """Return the document of all runs."""
    means = count_means(found)
    values = tuple(mean.value if mean else None for mean in means.counts)
    figures = derived_figures(found.events, values, means.elapsed_s.value)
    document = {
        "schema": SCHEMA,
        "target": found.target,
        "exit_status": found.exit_status,
        "runs": len(found.runs),
        "elapsed_s": _mean(means.elapsed_s),
        "user_s": _mean(means.user_s),
        "system_s": _mean(means.system_s),
        "events": [
            {
                "name": event.name,
                "group": event.group if event.group >= 0 else None,
                "unit": event.unit,
                "scale": event.scale,
                "count": _mean(mean),
                "running_share": share,
                "figure": figure._asdict() if figure else None,
            }
            for event, mean, share, figure in zip(
                found.events, means.counts, means.running, figures, strict=True
            )
        ],
        "each_run": [_run(found.events, run) for run in found.runs],
        "limits": list(found.limits),
    }
    return encoded(document) + b"\n"


def _mean(mean: Mean | None) -> dict[str, float | None] | None:
    return mean._asdict() if mean else None


def _run(events: tuple[CountedEvent, ...], run: CountedRun) -> dict[str, Any]:
    return {
        "elapsed_s": run.elapsed_s,
        "exit_status": run.exit_status,
        "counts": _counts(events, run.counts),
        "intervals": [
            {
                "begin_s": interval.begin_s,
                "end_s": interval.end_s,
                "counts": _counts(events, interval.counts),
            }
            for interval in run.intervals
        ],
    }


def _counts(events: tuple[CountedEvent, ...], counts: tuple[Count, ...]) -> list[dict[str, Any]]:
    return [
        {"name": event.name, **count._asdict(), "count": count.estimate}
        for event, count in zip(events, counts, strict=True)
    ]
