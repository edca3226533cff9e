"""Counts of events for programs, as `prospect stat` writes them: JSON, and CSV (RFC 4180).

A row of the CSV is of a run, an interval and an event; docs/stat.md lists its columns.
"""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from prospect.estimate.count_means import count_means
from prospect.profile.event_counts import CountInterval, derived_figures
from prospect.records import NamedTuple
from prospect.render.json.document_fields import (
    COUNT,
    INTEGER,
    NUMBER,
    TEXT,
    TEXTS,
    Object,
    Rows,
    document,
    each,
    schema,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.estimate.count_means import CountMeans, Mean
    from prospect.profile.event_counts import (
        Count,
        CountedEvent,
        CountedRun,
        DerivedFigure,
        EventCounts,
    )


COLUMNS = ("run", "begin_s", "end_s", "event", "count", "unit", "value", "enabled_ns", "running_ns")


class _Event(NamedTuple):
    event: CountedEvent
    mean: Mean | None
    running_share: float
    figure: DerivedFigure | None


class _EventCount(NamedTuple):
    event: CountedEvent
    counted: Count


class _Part(NamedTuple):
    events: tuple[CountedEvent, ...]
    of: CountedRun | CountInterval

    @property
    def counts(self) -> list[_EventCount]:
        return [_EventCount(*one) for one in zip(self.events, self.of.counts, strict=True)]

    @property
    def intervals(self) -> list[_Part]:
        return [_Part(self.events, interval) for interval in getattr(self.of, "intervals", ())]


class _Counts(NamedTuple):
    found: EventCounts
    means: CountMeans

    @property
    def events(self) -> list[_Event]:
        means, events = self.means, self.found.events
        values = tuple(mean.value if mean else None for mean in means.counts)
        figures = derived_figures(events, values, means.elapsed_s.value)
        rows = zip(events, means.counts, means.running, figures, strict=True)
        return [_Event(*row) for row in rows]

    @property
    def runs(self) -> list[_Part]:
        return [_Part(self.found.events, run) for run in self.found.runs]


_MEAN = Object(
    "",
    value=NUMBER(),
    half=NUMBER.or_null("half width of its 95 % interval, `null` of a single run"),
).or_null
_COUNTS = each(
    name=TEXT(get="event.name"),
    value=INTEGER("as the kernel gave it", "counted.value"),
    enabled_ns=INTEGER(get="counted.enabled_ns"),
    running_ns=INTEGER(get="counted.running_ns"),
    count=NUMBER.or_null("scaled to the whole time", "counted.estimate"),
)("its counts")
_INTERVAL = Object(
    "", begin_s=NUMBER(get="of.begin_s"), end_s=NUMBER(get="of.end_s"), counts=_COUNTS
)
_RUN = Object(
    "",
    elapsed_s=NUMBER(get="of.elapsed_s"),
    exit_status=INTEGER(get="of.exit_status"),
    counts=_COUNTS,
    intervals=Rows(_INTERVAL)(),
)
_EVENT = Object(
    "",
    name=TEXT(get="event.name"),
    group=COUNT.or_null(
        "events of one number were counted at the same times",
        lambda one: one.event.group if one.event.group >= 0 else None,
    ),
    unit=TEXT(get="event.unit"),
    scale=NUMBER("a count times scale is in `unit`", "event.scale"),
    count=_MEAN(get="mean"),
    running_share=NUMBER("of the time it was counted"),
    figure=Object("", value=NUMBER(), unit=TEXT()).or_null("what follows from it"),
)
COUNTS = Object(
    "counts",
    schema=schema("prospect-counts/1"),
    target=TEXT("what was counted", "found.target"),
    exit_status=INTEGER("of the first run that failed, else 0", "found.exit_status"),
    runs=COUNT("how many", lambda counts: len(counts.found.runs)),
    elapsed_s=_MEAN("time of a run", "means.elapsed_s"),
    user_s=_MEAN("CPU time of the command", "means.user_s"),
    system_s=_MEAN(get="means.system_s"),
    events=Rows(_EVENT)("means of each event"),
    each_run=Rows(_RUN)("the runs", "runs"),
    limits=TEXTS("sentences: what could not be counted", "found.limits"),
)


def counts_json(found: EventCounts) -> bytes:
    """Return the document of all runs."""
    return b"".join(document(COUNTS, _Counts(found, count_means(found))))


def counts_csv(found: EventCounts) -> str:
    """Return the table of all runs, of their intervals if there are any."""
    rows = [
        row
        for number, run in enumerate(found.runs)
        for interval in run.intervals or (CountInterval(0.0, run.elapsed_s, run.counts),)
        for row in _rows(number, found.events, interval)
    ]
    return csv_heading() + _lines(rows)


def csv_heading() -> str:
    """Return the header row."""
    return _lines([COLUMNS])


def interval_csv(events: tuple[CountedEvent, ...], interval: CountInterval) -> str:
    """Return the rows of one interval of the only run."""
    return _lines(list(_rows(0, events, interval)))


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
