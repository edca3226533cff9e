"""Address ranges written one over another → disjoint pieces, each of the latest range over it.

A JIT throws code away and puts new code there; a BPF program is unloaded and another one
loaded into its page. Both only ever say what they add.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.sorting import distinct

if TYPE_CHECKING:
    from numpy.typing import NDArray


def latest_pieces(
    start: NDArray[np.uint64], end: NDArray[np.uint64]
) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.int64]]:
    """Cut ranges where later ones cover them.

    Args:
        start: u64[n] first address of each range, in the order in which they were written.
        end: u64[n] first address after it; ranges that cover nothing are left out.

    Returns:
        Pieces in order of address: u64[p] start, u64[p] end, i64[p] row of the range.
    """
    rows = np.flatnonzero(end > start)
    start, end = start.take(rows), end.take(rows)
    if not len(rows):
        return start, end, rows
    bounds = np.sort(np.concatenate((start, end)))
    bounds = bounds[np.append(True, bounds[1:] != bounds[:-1])]
    owner = _latest_owner(
        np.searchsorted(bounds, start), np.searchsorted(bounds, end), len(bounds) - 1
    )
    begins = np.ones(len(owner), np.bool_)
    np.not_equal(owner[1:], owner[:-1], out=begins[1:])
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(owner))
    owned = np.flatnonzero(owner.take(first) >= 0)
    first, last = first.take(owned), last.take(owned)
    return bounds.take(first), bounds.take(last), rows.take(owner.take(first))


def touches_several(
    start: NDArray[np.uint64],
    end: NDArray[np.uint64],
    number: NDArray[np.int64],
    piece_start: NDArray[np.uint64],
    piece_end: NDArray[np.uint64],
) -> NDArray[np.bool_]:
    """Return which pieces have an address that ranges of several numbers cover.

    Args:
        start: u64[n] first address of each range.
        end: u64[n] first address after it; ranges that cover nothing count for nothing.
        number: i64[n] ranges of one number, start and end count once.
        piece_start: u64[p] as `latest_pieces` gives them.
        piece_end: u64[p].
    """
    rows = np.flatnonzero(end > start)
    if not len(rows) or not len(piece_start):
        return np.zeros(len(piece_start), np.bool_)
    by_range = np.lexsort((number.take(rows), end.take(rows), start.take(rows)))
    rows = rows.take(by_range)
    start, end, number = start.take(rows), end.take(rows), number.take(rows)
    is_first = np.ones(len(rows), np.bool_)
    is_first[1:] = (start[1:] != start[:-1]) | (end[1:] != end[:-1]) | (number[1:] != number[:-1])
    start, end = start[is_first], end[is_first]
    bounds = distinct(np.concatenate((start, end)))
    change = np.zeros(len(bounds), np.int64)
    np.add.at(change, np.searchsorted(bounds, start), 1)
    np.add.at(change, np.searchsorted(bounds, end), -1)
    several = np.append(0, np.cumsum(np.cumsum(change) > 1))
    first, last = np.searchsorted(bounds, piece_start), np.searchsorted(bounds, piece_end)
    return several.take(last) > several.take(first)


def _latest_owner(
    first: NDArray[np.int64], last: NDArray[np.int64], cells: int
) -> NDArray[np.int64]:
    """Return for each cell the greatest row whose half-open range of cells holds it, -1 if none.

    A range is two overlapping blocks of 2**k cells. Rows are entered at their k, then blocks are
    halved from the greatest k down: n log n, however ranges are nested.
    """
    level = np.frexp((last - first).astype(np.float64))[1] - 1
    owner = np.full(cells, -1, np.int64)
    for k in range(int(level.max()), -1, -1):
        block = 1 << k
        halves = owner.copy()
        if k + 1 <= int(level.max()):
            np.maximum(halves[block:], owner[: cells - block], out=halves[block:])
        entered = np.flatnonzero(level == k)
        np.maximum.at(halves, first.take(entered), entered)
        np.maximum.at(halves, last.take(entered) - block, entered)
        owner = halves
    return owner
