"""Call stacks of two sides as one tree, with what changed in each of its rows.

Comes in: the compared parts of all recordings, with their labels. Goes out: `ComparedStacks`: below
all samples the processes, below them who called whom, by name. Each row is a process or a routine
in its place, with all that it calls: a set of hits like the rows of the other tables, and is
compared as they are. Rows are tested together, but apart from those of the tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.estimate.compare.change import CONFIDENCE
from prospect.estimate.compare.compared_calls import compared_calls
from prospect.estimate.compare.stack_tests import DEEPEST_TESTED, SubtreeGroup, tested_parts
from prospect.estimate.compare.variation import side_means
from prospect.estimate.statistics.false_discovery import adjusted
from prospect.figures.stacks.call_forest import levels, subtree_ranges, subtree_sums
from prospect.records import NamedTuple, Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from prospect.estimate.compare.compared_calls import ComparedCalls
    from prospect.estimate.compare.matched_stacks import MatchedStacks, StackRun
    from prospect.estimate.compare.stack_tests import StackTest
    from prospect.figures.stacks.frames import NamedForest


class ComparedStacks(Record):
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
        calls: pairs of caller and callee, a family of tests of their own.
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
    calls: ComparedCalls
    has_callers: bool

    def __len__(self) -> int:
        return len(self.tree)


class _Tested(NamedTuple):
    """Columns of `ComparedStacks`: what is known of each row's change."""

    half_width: NDArray[np.float64]
    q_value: NDArray[np.float64]
    significant: NDArray[np.bool_]


def compared_stacks(matched: MatchedStacks, test: StackTest) -> ComparedStacks:
    """Compare each row of the tree of all recordings.

    Args:
        matched: the tree.
        test: how rows are compared.
    """
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
        calls=compared_calls(tree, total_hits, stacks, test),
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
    return test.sides(hits), side_means(values, test.before)


def _changes(
    tree: NamedForest, stacks: Sequence[StackRun], test: StackTest, is_tested: NDArray[np.bool_]
) -> _Tested:
    groups = _levels(tree, is_tested)
    found = tested_parts(groups, len(tree), subtree_ranges(tree)[1], stacks, test).changes
    half_width, p_value = found.half_width, found.p_value
    q_value = adjusted(p_value)
    significant = q_value <= test.fdr
    if len(test.total):
        half_width[0], q_value[0] = test.total.half_width[0], test.total.p_value[0]
        significant[0] = q_value[0] <= 1.0 - CONFIDENCE
    return _Tested(half_width, q_value, significant)


def _levels(tree: NamedForest, is_tested: NDArray[np.bool_]) -> Iterator[SubtreeGroup]:
    """Yield the tested rows of each depth but the first: those of one have no hit in common."""
    for rows in levels(tree.depth)[1:DEEPEST_TESTED]:
        tested = rows[is_tested.take(rows)]
        if len(tested):
            yield SubtreeGroup(tested, tested)
