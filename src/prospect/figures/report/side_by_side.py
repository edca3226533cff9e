"""Several events side by side: the hits of each routine, a column an event.

What an event counts differs, so rows are ordered by shares of an event, never by sums over events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.grouping import group_sums
from prospect.figures.processes import chosen_by_detail
from prospect.profile.model import MODE_KERNEL
from prospect.records import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prospect.figures.processes import Detail
    from prospect.profile.complete import CompleteProfile


class SideBySide(Record):
    """Routines and their hits by event.

    Attributes:
        events: rows of `RunInfo.events`, in the order of the columns.
        function: i64[r] rows of functions, the largest mean share first.
        hits: i64[r, e].
        total: i64[e] sums over all rows.
    """

    events: tuple[int, ...]
    function: NDArray[np.int64]
    hits: NDArray[np.int64]
    total: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.function)


def side_by_side(profile: CompleteProfile, events: Sequence[int], detail: Detail) -> SideBySide:
    """Return the hits of routines in the processes that `-V detail` looks at.

    Args:
        profile: completed: each index of each table is a row.
        events: rows of `RunInfo.events`, ascending.
        detail: as in `report_view`; "k" is the kernel's code in all processes.
    """
    table = profile.hits
    chosen = chosen_by_detail(profile.processes, detail).take(table.process_index)
    if detail == "k":
        chosen = table.mode == MODE_KERNEL
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
