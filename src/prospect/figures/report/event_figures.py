"""Figures of events: several next to each other, and the data that event sources attach to samples.

Events count different things, so rows of several are ordered by shares of an event, never by sums
over events. Data are shown by event: the distribution of numbers, the functions with most of each,
and the frequency of each text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.grouping import group_sums
from prospect.figures.processes import chosen_by_detail, chosen_hits
from prospect.figures.shown_rows import shown_name
from prospect.profile.model import CPUMODE_KERNEL
from prospect.records import NamedTuple, Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.columns.array_types import F64, I32, I64, Bools
    from prospect.options import Detail
    from prospect.profile.complete import CompleteProfile
    from prospect.profile.model import DataColumn, SampleData


class SideBySide(Record):
    """Functions and their hits by event.

    Attributes:
        events: rows of `RunInfo.events`, in the order of the columns.
        function: i64[r] rows of functions, the largest mean share first.
        hits: i64[r, e].
        total: i64[e] sums over all rows.
    """

    events: tuple[int, ...]
    function: I64
    hits: I64
    total: I64

    def __len__(self) -> int:
        return len(self.function)


def side_by_side(profile: CompleteProfile, events: Sequence[int], detail: Detail) -> SideBySide:
    """Return the hits of functions in the processes of `-V detail`, by event.

    `events` are rows of `RunInfo.events`, ascending. Detail "k" is the kernel's code in all
    processes.
    """
    table = profile.hits
    chosen = chosen_by_detail(profile.processes, detail).take(table.process_index)
    if detail == "k":
        chosen = table.mode == CPUMODE_KERNEL
    rows = np.flatnonzero(chosen & np.isin(table.event, events))
    of_hit = profile.locations.function_index.take(table.location_index.take(rows))
    (function, event), (count,) = group_sums(
        (of_hit, table.event.take(rows)), (table.count.take(rows),)
    )
    distinct, row = np.unique(function, return_inverse=True)
    hits = np.zeros((len(distinct), len(events)), np.int64)
    hits[row, np.searchsorted(np.asarray(events, np.int64), event)] = count
    total = hits.sum(axis=0)
    shares = hits / np.maximum(total, 1)
    order = np.lexsort((distinct, -shares.sum(axis=1)))
    return SideBySide(tuple(events), distinct.take(order), hits.take(order, axis=0), total)


_MOST_FUNCTIONS = 5
_HIGH = 95


class FunctionPart(NamedTuple):
    """A function's share of a column's sum."""

    function: str
    samples: int
    mean: float
    share: float


class NumberFigures(NamedTuple):
    """The distribution of a column of numbers, and the functions with most of its sum."""

    name: str
    samples: int
    mean: float
    median: float
    high: float
    most: float
    functions: tuple[FunctionPart, ...]


class TextFigures(NamedTuple):
    """The frequency of each text in a column, most first: text, samples, share."""

    name: str
    samples: int
    rows: tuple[tuple[str, int, float], ...]


class DataFigures(NamedTuple):
    """The figures of an event's samples.

    Attributes:
        source: the plug-in that decoded them.
        samples: those of the processes that `-V` chooses.
        numbers, texts: of its columns that have values.
    """

    event: str
    source: str
    samples: int
    numbers: tuple[NumberFigures, ...]
    texts: tuple[TextFigures, ...]


def data_figures(profile: CompleteProfile, detail: Detail) -> tuple[DataFigures, ...]:
    """Return the figures of each event with decoded raw data of samples."""
    if not profile.sample_data or not len(profile.samples):
        return ()
    chosen = chosen_hits(profile, detail)
    return tuple(_of_event(profile, data, chosen) for data in profile.sample_data)


def _of_event(profile: CompleteProfile, data: SampleData, chosen: Bools) -> DataFigures:
    hit = profile.samples.hit_index.take(data.sample)
    rows = np.flatnonzero(chosen.take(hit))
    function = profile.locations.function_index.take(profile.hits.location_index.take(hit))
    numbers, texts = [], []
    for column in data.columns:
        has_value = np.isfinite(column.values[rows])
        of_column = rows[has_value]
        values = column.values[of_column]
        if len(values) and column.texts:
            texts.append(_texts(column, values))
        elif len(values):
            numbers.append(_numbers(profile, column.name, values, function[of_column]))
    event = profile.run.events[data.event_index].name
    return DataFigures(event, data.source, len(rows), tuple(numbers), tuple(texts))


def _numbers(profile: CompleteProfile, name: str, values: F64, function: I32) -> NumberFigures:
    median, high = np.percentile(values, [50, _HIGH], method="inverted_cdf").tolist()
    names, row = np.unique(function, return_inverse=True)
    sums, count = np.bincount(row, values), np.bincount(row)
    whole = float(values.sum())
    order = np.argsort(-sums, kind="stable")[:_MOST_FUNCTIONS].tolist() if whole else []
    return NumberFigures(
        name,
        len(values),
        float(values.mean()),
        median,
        high,
        float(values.max()),
        tuple(
            FunctionPart(
                shown_name(profile.functions, int(names[place])),
                int(count[place]),
                float(sums[place] / count[place]),
                float(sums[place] / whole),
            )
            for place in order
        ),
    )


def _texts(column: DataColumn, values: F64) -> TextFigures:
    count = np.bincount(values.astype(np.int64), minlength=len(column.texts))
    order = np.argsort(-count, kind="stable").tolist()
    rows = tuple(
        (column.texts[row], int(count[row]), float(count[row] / len(values)))
        for row in order
        if count[row]
    )
    return TextFigures(column.name, len(values), rows)
