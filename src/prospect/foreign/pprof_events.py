"""The values of a pprof profile → events with samples and periods.

A number of samples and the time or the count that they stand for are two values of one event; any
other value is an event of its own, whose unit is counted one by one. Types and units are kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.errors import RecordingError
from prospect.profile.run_info import TIME_UNITS, EventInfo
from prospect.records import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_MOST = 2.0**62
_MOST_EVENTS = 1 << 10


class EventColumns(Record):
    """Events, and a row for each sample and event that it has a weight of; columns i64[w]."""

    events: tuple[EventInfo, ...]
    sample: NDArray[np.int64]
    event: NDArray[np.int64]
    count: NDArray[np.int64]
    period: NDArray[np.int64]


def read_events(
    types: Sequence[tuple[str, str]],
    values: NDArray[np.int64],
    period_unit: str,
    period: int,
    default: str = "",
) -> EventColumns:
    """Sort values by event.

    Args:
        types: type and unit of each value.
        values: i64[n, v] of each sample.
        period_unit: the unit of `period`, which a sample was taken each.
        period: 0 where unknown.
        default: the type that viewers show first; its event comes first.

    Raises:
        RecordingError: there are not as many types as values, or the values are too large.
    """
    if len(types) != values.shape[1] or len(types) > _MOST_EVENTS:
        raise RecordingError("damaged pprof profile: values of samples without a type")
    # A comparison of two profiles has negative ones, which are no samples.
    values = np.maximum(values, 0)
    if (values.sum(axis=0, dtype=np.float64) > _MOST).any():
        raise RecordingError("damaged pprof profile: more samples than can be counted")
    seconds = TIME_UNITS.get(period_unit, 0.0) * period
    rate_hz = 1 / seconds if seconds > 0 else 0.0
    events: list[EventInfo] = []
    columns: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    place = 0
    while place < len(types):
        name, unit = types[place]
        counts = ""
        count = period_column = values[:, place]
        if _is_pair(types[place : place + 2]):
            place += 1
            counts = name
            name, unit = types[place]
            period_column = values[:, place]
        elif unit in TIME_UNITS:
            count = (count > 0).astype(np.int64)
        seconds_each = TIME_UNITS.get(unit, 0.0)
        is_first = bool(default) and default in (name, counts)
        at = 0 if is_first else len(events)
        frequency_hz = rate_hz if seconds_each else 0.0
        events.insert(
            at, EventInfo(name, seconds_each, 0.0, frequency_hz, unit=unit, counts=counts)
        )
        columns.insert(at, (count, period_column))
        place += 1
    rows = [np.flatnonzero((count > 0) | (amount > 0)) for count, amount in columns]
    return EventColumns(
        events=tuple(events),
        sample=np.concatenate(rows),
        event=np.repeat(np.arange(len(rows)), [len(row) for row in rows]),
        count=np.concatenate([count[row] for (count, _), row in zip(columns, rows, strict=True)]),
        period=np.concatenate(
            [amount[row] for (_, amount), row in zip(columns, rows, strict=True)]
        ),
    )


def _is_pair(types: Sequence[tuple[str, str]]) -> bool:
    """Return whether two values are samples and what they stand for."""
    if len(types) < 2 or types[0][1] != "count":
        return False
    (name, _), (other, unit) = types
    return unit in TIME_UNITS or name in ("samples", f"{other} samples")
