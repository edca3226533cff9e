"""Counts of events as CSV (RFC 4180): a row for each run, interval and event.

docs/stat.md lists its columns.
"""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from prospect.profile.event_counts import CountInterval

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.profile.event_counts import CountedEvent, EventCounts

COLUMNS = (
    "run",
    "begin_s",
    "end_s",
    "event",
    "count",
    "unit",
    "value",
    "enabled_ns",
    "running_ns",
)


def counts_csv(found: EventCounts) -> str:
    """Return the table of all runs, of their intervals if there are any."""
    rows = [row for number in range(len(found.runs)) for row in _run_rows(found, number)]
    return csv_heading() + _lines(rows)


def csv_heading() -> str:
    """Return the header row."""
    return _lines([COLUMNS])


def interval_csv(events: tuple[CountedEvent, ...], interval: CountInterval) -> str:
    """Return the rows of one interval of the only run."""
    return _lines(list(_rows(0, events, interval)))


def _run_rows(found: EventCounts, number: int) -> Iterator[tuple[object, ...]]:
    run = found.runs[number]
    for interval in run.intervals or (CountInterval(0.0, run.elapsed_s, run.counts),):
        yield from _rows(number, found.events, interval)


def _rows(
    number: int, events: tuple[CountedEvent, ...], interval: CountInterval
) -> Iterator[tuple[object, ...]]:
    for event, count in zip(events, interval.counts, strict=True):
        estimate = count.estimate
        scaled = "" if estimate is None else estimate * event.scale
        times = (round(interval.begin_s, 9), round(interval.end_s, 9))
        yield (number, *times, event.name, scaled, event.unit, *count)


def _lines(rows: list[tuple[object, ...]]) -> str:
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\r\n").writerows(rows)
    return out.getvalue()
