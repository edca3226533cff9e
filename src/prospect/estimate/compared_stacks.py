"""Call stacks of two sides as one tree, with what changed in each of its rows.

Comes in: the compared parts of all recordings, with their labels. Goes out: `ComparedStacks`: below
all samples the processes, below them who called whom, by name. Each row is a process or a routine
in its place, with all that it calls: a set of hits like the rows of the other tables, and is
compared as they are. Rows are tested together, but apart from those of the tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from prospect.estimate.change import CONFIDENCE, changes
from prospect.estimate.false_discovery import adjusted
from prospect.estimate.matched_stacks import matched_stacks
from prospect.estimate.row_times import row_times
from prospect.estimate.spread import spread_of
from prospect.estimate.variation import Rows, side_means
from prospect.profile.call_forest import subtree_sums

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from prospect.estimate.compared import ComparedRun
    from prospect.estimate.comparison import ChangeTable
    from prospect.estimate.matched_stacks import StackRun
    from prospect.estimate.matching import Labels
    from prospect.estimate.variation import Variation
    from prospect.profile.frames import NamedForest

# A pass over all hits for each depth: what lies deeper is shown, and not tested.
_DEEPEST_TESTED = 512


@dataclass(frozen=True)
class ComparedStacks:
    """The tree; times are seconds per unit of work, NaN stands for what does not exist.

    Attributes:
        name, object: list[str] of the frames, "" where unknown.
        processes: list[str] of their names.
        tree: rows in preorder; frames as `thread_forest` numbers them, processes for threads.
        own_hits: i64[t, 2] hits of all recordings of a side, without what the row calls.
        own: f64[t, 2] their mean time.
        half_width: f64[t] of the 95 % interval of the change, with what the row calls.
        q_value: f64[t] how likely by chance; NaN for rows with too few hits to be tested.
        significant: bool[t] whether q_value is within the rate of false discoveries; of row 0, all
            samples, which is no row among others, whether its interval leaves out no change.
        has_callers: whether all recordings have call chains; without, stacks have one frame.
    """

    name: list[str]
    object: list[str]
    processes: list[str]
    tree: NamedForest
    own_hits: NDArray[np.int64]
    own: NDArray[np.float64]
    half_width: NDArray[np.float64]
    q_value: NDArray[np.float64]
    significant: NDArray[np.bool_]
    has_callers: bool

    def __len__(self) -> int:
        return len(self.tree)


@dataclass(frozen=True)
class StackTest:
    """How rows are compared: as those of the tables.

    Attributes:
        before: how many of the recordings are A's.
        divisor: f64[n] what the times of each recording are divided by.
        exposure: how many hits a side would have of a row that took one unit of time.
        variation: how runs differ.
        least_hits: rows with fewer hits on both sides together are not tested.
        fdr: how many of the rows that are called significant may be wrong.
        total: the row of all samples, as it was compared; none without a hit.
    """

    before: int
    divisor: NDArray[np.float64]
    exposure: tuple[float, float]
    variation: Variation
    least_hits: int
    fdr: float
    total: ChangeTable


class _Tested(NamedTuple):
    """Columns of `ComparedStacks`: what is known of each row's change."""

    half_width: NDArray[np.float64]
    q_value: NDArray[np.float64]
    significant: NDArray[np.bool_]


def compared_stacks(
    runs: Sequence[ComparedRun], labels: Sequence[Labels], test: StackTest
) -> ComparedStacks:
    """Join the stacks of all recordings by name, and compare each row of the tree.

    Args:
        runs: A's recordings before B's.
        labels: what makes their processes and functions the same.
        test: how rows are compared.
    """
    matched = matched_stacks(runs, labels)
    tree, stacks = matched.tree, matched.runs
    own_hits, own = _own(stacks, test, len(tree))
    total_hits = subtree_sums(tree, own_hits)
    found = _changes(tree, stacks, test, total_hits.sum(axis=1) >= test.least_hits)
    return ComparedStacks(
        name=matched.name,
        object=matched.object,
        processes=matched.processes,
        tree=tree,
        own_hits=own_hits,
        own=own,
        **found._asdict(),
        has_callers=matched.has_callers,
    )


def _own(
    stacks: Sequence[StackRun], test: StackTest, rows: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return hits of the sides and their mean time, without what rows call."""
    hits, values = np.zeros((rows, len(stacks)), np.int64), np.zeros((rows, len(stacks)))
    for nth, stack in enumerate(stacks):
        is_in = stack.row_of_hit >= 0
        row = stack.row_of_hit[is_in]
        count = stack.run.profile.hits.count[is_in]
        hits[:, nth] = np.bincount(row, count, rows)
        values[:, nth] = np.bincount(row, stack.run.seconds[is_in], rows) / test.divisor[nth]
    return _sides(hits, test), side_means(values, test.before)


def _changes(
    tree: NamedForest, stacks: Sequence[StackRun], test: StackTest, is_tested: NDArray[np.bool_]
) -> _Tested:
    half_width, p_value = np.full(len(tree), np.nan), np.full(len(tree), np.nan)
    for tested, times in _levels(tree, stacks, test, is_tested):
        mean = side_means(times.values, test.before)
        spread = spread_of(times, test.before, test.variation)
        level = changes(mean, spread, _sides(times.hits, test), test.exposure)
        half_width[tested], p_value[tested] = level.half_width, level.p_value
    q_value = adjusted(p_value)
    significant = q_value <= test.fdr
    if len(test.total):
        half_width[0], q_value[0] = test.total.half_width[0], test.total.p_value[0]
        significant[0] = q_value[0] <= 1.0 - CONFIDENCE
    return _Tested(half_width, q_value, significant)


def _sides(hits: NDArray[np.int64], test: StackTest) -> NDArray[np.int64]:
    """Return i64[r, 2]: the hits of each side."""
    return np.add.reduceat(hits, [0, test.before], axis=1)


def _levels(
    tree: NamedForest, stacks: Sequence[StackRun], test: StackTest, is_tested: NDArray[np.bool_]
) -> Iterator[tuple[NDArray[np.int64], Rows]]:
    """Yield the tested rows of each depth but the first with their times.

    Those of one depth have no hit in common.
    """
    caller = np.append(tree.caller_index, -1)
    at = [stack.row_of_hit for stack in stacks]
    depths = np.append(tree.depth, -1)
    for depth in range(int(tree.depth.max(initial=0)), 0, -1):
        tested = np.flatnonzero(is_tested & (tree.depth == depth))
        if len(tested) and depth < _DEEPEST_TESTED:
            rank = np.full(len(tree) + 1, -1, np.int64)
            rank[tested] = np.arange(len(tested))
            each = [
                row_times(stack.run, rank.take(row), len(tested))
                for stack, row in zip(stacks, at, strict=True)
            ]
            yield (
                tested,
                Rows(
                    hits=np.stack([times.hits for times in each], axis=1),
                    values=np.stack([times.seconds for times in each], axis=1) / test.divisor,
                    sampling=np.stack([t.sampling_variance for t in each], axis=1)
                    / test.divisor**2,
                    own=np.stack([times.own_variance for times in each], axis=1) / test.divisor**2,
                ),
            )
        at = [np.where(depths.take(row) == depth, caller.take(row), row) for row in at]
