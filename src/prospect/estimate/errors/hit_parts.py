"""Hits that no table of a report tells apart, as one: what the error bars of many tables share.

Most tables show the kernel by routine or cause and all else by process, so that few of the changes
between hits are changes between parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.counting import counted
from prospect.columns.grouping import distinct_keys
from prospect.estimate.errors.clock_sums import merged_cells
from prospect.estimate.errors.local_error import compared_lags, successions
from prospect.records import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prospect.estimate.errors.clock_sums import Cells
    from prospect.estimate.errors.design import Design
    from prospect.estimate.errors.local_error import Succession

_MOST_KEYS = 1 << 63


class Parts(Record):
    """The parts of an event's hits.

    Attributes:
        first_hit: i64[p] one hit of each part.
        part_of_hit: i32[h] the part that each hit is in, -1 for none.
        hits: f64[p] samples of each part.
        changes: as `Design.changes`, of parts instead of hits.
        cells: samples of each part by stretch, block and clock; None where `Design.blocks` has none
            or counts hits themselves, and of a single table, which is counted in one go.
    """

    first_hit: NDArray[np.int64]
    part_of_hit: NDArray[np.int32]
    hits: NDArray[np.float64]
    changes: tuple[Succession, ...] | None
    cells: Cells | None


def parts_of(design: Design, tables: Sequence[NDArray[np.int32]]) -> Parts:
    """Merge the hits that are in the same row of each of these tables.

    Each table is i32[h], the row of each hit, -1 for none.
    """
    part_of_hit, first_hit = _merged_hits(tables)
    ticks, blocks, changes, cells = design.ticks, design.blocks, None, None
    if design.sequence is not None:
        changes = successions(design.sequence, compared_lags(design.clocks), part_of_hit)
    if ticks is not None and blocks is not None and blocks.hits is None and len(tables) > 1:
        cells = merged_cells(ticks, blocks, part_of_hit, len(first_hit))
    hits = np.bincount(part_of_hit + 1, design.hits, len(first_hit) + 1)[1:]
    return Parts(first_hit, part_of_hit, hits.astype(np.float64), changes, cells)


def _merged_hits(
    tables: Sequence[NDArray[np.int32]],
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the part of each hit, i32[h], -1 where it is in no table, and a hit of each part."""
    hits = len(tables[0])
    key, bound = np.zeros(hits, np.uint64), 1
    for row in tables:
        rows = int(row.max(initial=-1)) + 2
        if bound * rows > _MOST_KEYS:
            known = counted(key)
            # Zero stays what is in no table so far.
            shift = int(bool(len(known.value)) and known.value[0] != 0)
            key = known.place.astype(np.uint64) + np.uint64(shift)
            bound = len(known.value) + shift
        key *= np.uint64(rows)
        key += (row + 1).astype(np.uint64)
        bound *= rows
    value, of_hit = distinct_keys(key.view(np.int64), bound)
    place, parts = of_hit.astype(np.int32), len(value)
    first_hit = np.zeros(parts, np.int64)
    first_hit[place] = np.arange(hits)
    if parts and not value[0]:
        return place - np.int32(1), first_hit[1:]
    return place, first_hit
