"""An order of rows that is not in motion: who stood above stays there until the figures say no.

Sampled times change with every refresh by chance. Sorting by them would swap rows that are equal
for all that is known, again and again; here a row rises above another only once it exceeds it by
more than the standard error of their difference. That a table looks sorted matters too: what 95 %
ask for would leave rows in the order of their first samples for minutes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from prospect.tui.rows import Key


def steady_order(
    keys: Sequence[Key], hits: NDArray[np.int64], before: Mapping[Key, int]
) -> list[int]:
    """Return the rows in the order in which they are shown.

    Args:
        keys: of the rows.
        hits: i64[r] what they are ordered by: the most first.
        before: the rank that rows had at the last refresh.
    """
    by_hits = np.argsort(-hits, kind="stable").tolist()
    known = sorted((row for row in by_hits if keys[row] in before), key=lambda r: before[keys[r]])
    order = _with_new(known, [row for row in by_hits if keys[row] not in before], hits)
    return _risen(order, hits) if known else order


def _with_new(known: list[int], new: list[int], hits: NDArray[np.int64]) -> list[int]:
    """Put each new row before the first one that has less."""
    order = list(known)
    for row in reversed(new):
        own = hits[row]
        place = next((at for at, other in enumerate(order) if hits[other] < own), len(order))
        order.insert(place, row)
    return order


def _risen(order: list[int], hits: NDArray[np.int64]) -> list[int]:
    """Lift each row above the first one that it clearly exceeds."""
    count = hits.take(order).astype(np.float64)
    # Of two parts of one sample the difference has the variance of their sum.
    chance = np.sqrt(count[:, None] + count[None, :])
    exceeds = np.tril(count[:, None] - count[None, :] > chance, -1)
    risers = [order[place] for place in np.flatnonzero(exceeds.any(axis=1)).tolist()]
    for row in sorted(risers, key=lambda one: -int(hits[one])):
        own, others = float(hits[row]), hits.take(order).astype(np.float64)
        beaten = np.flatnonzero(own - others > np.sqrt(own + others))
        place = order.index(row)
        if len(beaten) and beaten[0] < place:
            order.insert(int(beaten[0]), order.pop(place))
    return order
