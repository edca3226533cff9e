"""Counts of several runs: their mean, with a 95 % interval.

Source: Student, "The Probable Error of a Mean", Biometrika 6 (1908). Runs are assumed to be
independent.
"""

from __future__ import annotations

import math
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from prospect.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.profile.event_counts import EventCounts

_CONFIDENCE = 0.95


class Mean(NamedTuple):
    """A mean; `half` is the half width of its 95 % interval, None of a single run."""

    value: float
    half: float | None = None


class CountMeans(NamedTuple):
    """Means over the runs.

    Attributes:
        counts: one an event, None if it was never counted.
        running: one an event, the share of the time that it had a counter.
        elapsed_s: the length of a run.
        user_s, system_s: CPU time of the command, None without one.
    """

    counts: tuple[Mean | None, ...]
    running: tuple[float, ...]
    elapsed_s: Mean
    user_s: Mean | None
    system_s: Mean | None


def count_means(found: EventCounts) -> CountMeans:
    """Return the means of all figures of a report."""
    runs = found.runs
    estimates = [[run.counts[row].estimate for run in runs] for row in range(len(found.events))]
    return CountMeans(
        counts=tuple(_mean([v for v in values if v is not None]) for values in estimates),
        running=tuple(
            fmean(run.counts[row].running_share for run in runs) for row in range(len(found.events))
        ),
        elapsed_s=_mean([run.elapsed_s for run in runs]) or Mean(0.0),
        user_s=_mean([run.user_s for run in runs if run.user_s is not None]),
        system_s=_mean([run.system_s for run in runs if run.system_s is not None]),
    )


def _mean(values: Sequence[float]) -> Mean | None:
    if not values:
        return None
    if len(values) == 1:
        return Mean(values[0])
    from prospect.estimate.statistics.beta import student_quantile  # noqa: PLC0415 - numpy, for several runs

    quantile = float(student_quantile(_CONFIDENCE, len(values) - 1))
    return Mean(fmean(values), quantile * stdev(values) / math.sqrt(len(values)))
