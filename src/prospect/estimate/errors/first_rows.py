"""The first rows of a table over some of a profile's hits: those with most time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.grouping import group_sums
from prospect.figures.portions import event_seconds, event_weight
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.estimate.errors.design import Design
    from prospect.profile.complete import ProfileByRoutine


class Bound(NamedTuple):
    """Which rows are taken.

    Attributes:
        most: the first ones.
        least_s: and all with so much time, in seconds; all of an event without time.
    """

    most: int
    least_s: float = np.inf


class FirstRows(NamedTuple):
    """Rows by descending time, or hits where the event has no time.

    Attributes:
        key: i64[r] what they are.
        hits: i64[r].
        seconds, share: f64[r] their time, and their part of all chosen hits, 0 to 1.
        row_of_hit: i32[h] row of each of the profile's hits, -1 for none.
        more: how many rows there are besides.
    """

    key: NDArray[np.int64]
    hits: NDArray[np.int64]
    seconds: NDArray[np.float64]
    share: NDArray[np.float64]
    row_of_hit: NDArray[np.int32]
    more: int


def first_rows(
    profile: ProfileByRoutine,
    design: Design,
    at: NDArray[np.int64],
    key: NDArray[np.int64],
    bound: Bound,
) -> FirstRows:
    """Add hits up by key, and take the rows with most time.

    Args:
        profile: completed.
        design: of the event whose hits are chosen.
        at: i64[n] rows of the profile's hits that are chosen.
        key: i64[n] what each of them is added up by.
        bound: which rows are taken.
    """
    hits = profile.hits
    (found,), (count, period) = group_sums((key,), (hits.count.take(at), hits.period.take(at)))
    weight = event_weight(design.event, count, period)
    seconds = event_seconds(design.event, count, period)
    first = np.lexsort((found, -count, -weight))
    if bound.least_s < np.inf:
        is_enough = seconds >= bound.least_s if design.has_time else np.ones(len(found), np.bool_)
        first = first[: max(bound.most, int(np.count_nonzero(is_enough)))]
    else:
        first = first[: bound.most]
    rank = np.full(len(found) + 1, -1, np.int32)
    rank[first] = np.arange(len(first))
    row_of_hit = np.full(len(hits), -1, np.int32)
    row_of_hit[at] = rank.take(np.searchsorted(found, key))
    return FirstRows(
        key=found.take(first),
        hits=count.take(first),
        seconds=seconds.take(first),
        share=weight.take(first) / max(float(weight.sum()), 1.0),
        row_of_hit=row_of_hit,
        more=len(found) - len(first),
    )
