"""Routines of two sides with all that they call: what changed in each.

Comes in: the tree of both sides' stacks. Goes out: a `ChangeTable`. A sample is in the row of each
routine on its stack, once, so that rows do not add up; they are a family of tests of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.estimate.compare.change_table import ChangeTable, in_order
from prospect.estimate.compare.groups_apart import groups_apart, outermost_rows
from prospect.estimate.compare.stack_tests import tested_parts
from prospect.estimate.statistics.false_discovery import adjusted
from prospect.figures.stacks.call_forest import subtree_ranges, subtree_sums

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.estimate.compare.matched_stacks import MatchedStacks
    from prospect.estimate.compare.stack_tests import StackTest


def compared_inclusive(matched: MatchedStacks, test: StackTest) -> ChangeTable:
    """Compare each routine with all that it calls.

    Args:
        matched: the stacks of all recordings.
        test: how rows are compared; a routine with too few hits has no row.
    """
    tree, count = matched.tree, len(matched.name)
    begin, end = subtree_ranges(tree)
    part = np.where(tree.frame_index < count, tree.frame_index, -1)
    outer = outermost_rows(part, begin, end)
    hits = np.zeros(count, np.int64)
    np.add.at(hits, part.take(outer), _hits_within(matched).take(outer))
    is_tested = hits >= test.least_hits
    groups = groups_apart(tree, part, outer, is_tested)
    found = tested_parts(groups, count, end, matched.runs, test)
    kept = np.flatnonzero(~np.isnan(found.changes.p_value))
    columns = {name: column.take(kept) for name, column in found.changes._asdict().items()}
    q_value = adjusted(columns["p_value"])
    return in_order(
        ChangeTable(
            kind="inclusive",
            name=[matched.name[row] for row in kept.tolist()],
            object=[matched.object[row] for row in kept.tolist()],
            portion=np.zeros(len(kept), np.int64),
            hits=found.hits.take(kept, axis=0),
            mean=found.mean.take(kept, axis=0),
            **columns,
            q_value=q_value,
            significant=q_value <= test.fdr,
        )
    )


def _hits_within(matched: MatchedStacks) -> NDArray[np.int64]:
    """Return i64[t] the hits of all recordings in each row's subtree."""
    own = np.zeros(len(matched.tree), np.int64)
    for stack in matched.runs:
        is_in = stack.row_of_hit >= 0
        np.add.at(own, stack.row_of_hit[is_in], stack.run.profile.hits.count[is_in])
    return subtree_sums(matched.tree, own)
