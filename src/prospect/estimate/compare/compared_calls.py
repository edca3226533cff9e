"""Who calls whom on two sides, with what changed in each call.

Comes in: the tree of both sides' stacks. Goes out: `ComparedCalls`: a row for each pair of caller
and callee, with all that the callee calls from there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.estimate.compare.groups_apart import groups_apart, outermost_rows
from prospect.estimate.compare.stack_tests import DEEPEST_TESTED, tested_parts
from prospect.estimate.statistics.false_discovery import adjusted
from prospect.figures.stacks.call_forest import subtree_ranges
from prospect.records import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prospect.estimate.compare.matched_stacks import StackRun
    from prospect.estimate.compare.stack_tests import StackTest
    from prospect.figures.stacks.frames import NamedForest


class ComparedCalls(Record):
    """The calls that are tested, ascending by caller and callee.

    Attributes:
        caller, callee: i64[c] frames of the tree; above routines stand processes.
        hits: i64[c, 2] of each side, each sample once.
        half_width: f64[c] of the 95 % interval of the change, with what the callee calls.
        q_value: f64[c] how likely by chance.
        significant: bool[c] whether q_value is within the rate of false discoveries.
    """

    caller: NDArray[np.int64]
    callee: NDArray[np.int64]
    hits: NDArray[np.int64]
    half_width: NDArray[np.float64]
    q_value: NDArray[np.float64]
    significant: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.caller)


def compared_calls(
    tree: NamedForest,
    total_hits: NDArray[np.int64],
    stacks: Sequence[StackRun],
    test: StackTest,
) -> ComparedCalls:
    """Compare each pair of caller and callee; all of them are one family of tests.

    Args:
        tree: of both sides, in preorder.
        total_hits: i64[t, 2] of each row and side, with what it calls.
        stacks: A's recordings before B's.
        test: how they are compared.
    """
    begin, end = subtree_ranges(tree)
    frames = int(tree.frame_index.max(initial=0)) + 1
    caller = tree.frame_index.take(tree.caller_index[1:])
    key, call = np.unique(caller * frames + tree.frame_index[1:], return_inverse=True)
    call = np.append(-1, call)  # all samples are called by nobody
    # What a routine calls that is called again within is in the outermost of these calls.
    outer = outermost_rows(call, begin, end)
    hits = np.zeros((len(key), 2), np.int64)
    np.add.at(hits, call.take(outer), total_hits.take(outer, axis=0))
    depth = np.zeros(len(key), np.int64)
    np.maximum.at(depth, call[1:], tree.depth[1:])
    is_tested = (hits.sum(axis=1) >= test.least_hits) & (depth < DEEPEST_TESTED)
    groups = groups_apart(tree, call, outer, is_tested)
    tested = tested_parts(groups, len(key), end, stacks, test).changes
    kept = np.flatnonzero(~np.isnan(tested.p_value))
    q_value = adjusted(tested.p_value.take(kept))
    return ComparedCalls(
        caller=key.take(kept) // frames,
        callee=key.take(kept) % frames,
        hits=hits.take(kept, axis=0),
        half_width=tested.half_width.take(kept),
        q_value=q_value,
        significant=q_value <= test.fdr,
    )
