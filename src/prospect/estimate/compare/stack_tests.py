"""Parts of a tree of stacks → what changed in each, and how sure that is.

Comes in: the recordings with the tree's row of each hit, and sets of subtrees. Goes out: half
widths and p-values by the test of the comparison's tables. Parts of one group have no hit in
common, so that one pass over all hits sums a whole group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.estimate.compare.change import Changes, changes
from prospect.estimate.compare.row_times import row_times
from prospect.estimate.compare.spread import spread_of
from prospect.estimate.compare.variation import Rows, side_means
from prospect.records import NamedTuple, Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from prospect.estimate.compare.change_table import ChangeTable
    from prospect.estimate.compare.matched_stacks import StackRun
    from prospect.estimate.compare.variation import Variation

# A pass over all hits for each depth: what lies deeper is shown, and not tested.
DEEPEST_TESTED = 512


class StackTest(Record):
    """How parts of the tree are compared: as the rows of the tables.

    Attributes:
        before: how many of the recordings are A's.
        divisor: f64[n] what the times of each recording are divided by.
        exposure: how many hits a side would have of a row that took one unit of time.
        variation: how runs differ.
        least_hits: what has fewer hits on both sides together is not tested.
        fdr: how many of those that are called significant may be wrong.
        total: the row of all samples, as it was compared; none without a hit.
    """

    before: int
    divisor: NDArray[np.float64]
    exposure: tuple[float, float]
    variation: Variation
    least_hits: int
    fdr: float
    total: ChangeTable

    def sides(self, hits: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return i64[r, 2]: the hits of each side, of those of each recording."""
        return np.add.reduceat(hits, [0, self.before], axis=1)


class SubtreeGroup(NamedTuple):
    """Subtrees that have no row in common: their first rows, and what each is a part of; i64[k]."""

    row: NDArray[np.int64]
    part: NDArray[np.int64]


class TestedParts(NamedTuple):
    """What changed in each part; 0 hits, and NaN for the rest, where it was in no group.

    `hits` i64[p, 2] and `mean` f64[p, 2] are those of the sides.
    """

    hits: NDArray[np.int64]
    mean: NDArray[np.float64]
    changes: Changes


def tested_parts(
    groups: Iterable[SubtreeGroup],
    parts: int,
    end: NDArray[np.int64],
    stacks: Sequence[StackRun],
    test: StackTest,
) -> TestedParts:
    """Compare parts of the tree.

    Args:
        groups: each part is in one of them, with all its subtrees, or in none.
        parts: how many there are.
        end: i64[t] the first row behind each row's subtree; rows are in preorder.
        stacks: A's recordings before B's.
        test: how they are compared.
    """
    every = TestedParts(
        hits=np.zeros((parts, 2), np.int64),
        mean=np.full((parts, 2), np.nan),
        changes=Changes(*(np.full(parts, np.nan) for _ in Changes._fields)),
    )
    found = [_times(group, end, stacks, test) for group in groups]
    if not found:
        return every
    part = np.concatenate([members for members, _ in found])
    times = Rows(*map(np.concatenate, zip(*(rows for _, rows in found), strict=True)))
    hits, mean = test.sides(times.hits), side_means(times.values, test.before)
    spread = spread_of(times, test.before, test.variation)
    every.hits[part], every.mean[part] = hits, mean
    changed = changes(mean, spread, hits, test.exposure)
    for column, values in zip(every.changes, changed, strict=True):
        column[part] = values
    return every


def _times(
    group: SubtreeGroup, end: NDArray[np.int64], stacks: Sequence[StackRun], test: StackTest
) -> tuple[NDArray[np.int64], Rows]:
    """Return the parts of a group, ascending, and their times."""
    part, rank = np.unique(group.part, return_inverse=True)
    step = np.zeros(len(end) + 1, np.int64)
    np.add.at(step, group.row, rank + 1)
    np.subtract.at(step, end.take(group.row), rank + 1)
    # The last place is that of hits in no row.
    rank_of_row = np.append(np.cumsum(step)[:-1] - 1, -1)
    each = [row_times(stack.run, rank_of_row.take(stack.row_of_hit), len(part)) for stack in stacks]
    return part, Rows(
        hits=np.stack([times.hits for times in each], axis=1),
        values=np.stack([times.seconds for times in each], axis=1) / test.divisor,
        sampling=np.stack([times.sampling_variance for times in each], axis=1) / test.divisor**2,
        own=np.stack([times.own_variance for times in each], axis=1) / test.divisor**2,
    )
