"""Concatenated lists of values → a forest in which lists share their common beginnings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.buffers import segments
from prospect.columns.sorting import numbered
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.columns.array_types import I32, I64, U64, Bools, Ints

# Odd, with mixed bits: 2^64 by the golden ratio.
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


class Forest(NamedTuple):
    """Values, each after the value before it in its lists.

    Attributes:
        before: i32[t] row of the value before, less than the row itself; -1 for first values.
        depth: i32[t] how many values come before.
    """

    before: I32
    depth: I32
    value: Ints

    def __len__(self) -> int:
        return len(self.before)

    def levels(self) -> list[I64]:
        """Return the rows of each depth, from 0 on."""
        return levels(self.depth)

    def reached(self, rows: Ints) -> Bools:
        """Return bool[t]: the values in the lists that end at some rows."""
        is_reached = np.zeros(len(self) + 1, np.bool_)
        is_reached[rows] = True
        for level in reversed(self.levels()[1:]):
            is_reached[self.before.take(level[is_reached.take(level)])] = True
        return is_reached[:-1]

    def callers(self, others: Ints) -> Bools:
        """Return bool[t]: values that have a value after them, or are in `others` (-1 for none)."""
        is_caller = np.zeros(len(self) + 1, np.bool_)
        is_caller[self.before] = True
        is_caller[others] = True
        return is_caller[:-1]

    def kept(self, is_kept: Bools) -> tuple[Forest, I32]:
        """Return the forest of some rows, bool[t], which include all values before them.

        Returns:
            It, and i32[t + 1] the new row of each row; the last one is -1, for none.
        """
        rows = np.flatnonzero(is_kept)
        new = np.full(len(self) + 1, -1, np.int32)
        new[rows] = np.arange(len(rows), dtype=np.int32)
        before = new.take(self.before.take(rows))
        return Forest(before, self.depth.take(rows), self.value.take(rows)), new

    def with_before(self, before: I32) -> Forest:
        """Return the same values, each after another one.

        `before` i32[t] is the row before each, which has less depth in this forest; -1 for none.
        """
        depth = np.zeros(len(self) + 1, np.int32)
        depth[-1] = -1
        for rows in self.levels():
            depth[rows] = depth.take(before.take(rows)) + 1
        return Forest(before, depth[:-1], self.value)

    def lists(self, rows: Ints) -> tuple[I64, I64]:
        """Return the lists that end at some rows, from their last value to their first.

        `rows` is i[n], -1 for empty lists.

        Returns:
            i64[n + 1] where each list begins, and i64[m] rows of the forest.
        """
        start = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(np.append(self.depth, -1).take(rows) + 1, out=start[1:])
        found = np.empty(int(start[-1]), np.int64)
        place, row = start[:-1], rows.astype(np.int64)
        while True:
            goes_on = np.flatnonzero(row >= 0)
            if not len(goes_on):
                return start, found
            place, row = place.take(goes_on), row.take(goes_on)
            found[place] = row
            place, row = place + 1, self.before.take(row).astype(np.int64)


def levels(depth: Ints) -> list[I64]:
    """Return the rows of each depth, from 0 to the greatest."""
    if not len(depth):
        return []
    # Small numbers are sorted by their bits.
    is_small = int(depth.max()) < 1 << 16
    order = np.argsort(depth.astype(np.uint16) if is_small else depth, kind="stable")
    return np.split(order, np.cumsum(np.bincount(depth))[:-1])


def forest_of_lists(value: Ints, length: Ints) -> tuple[Forest, I32]:
    """Put lists into a forest; each shares its beginning with the last one that is not empty.

    Lists that begin alike and are not neighbours share nothing: this is no search.

    Args:
        value: i[m] the concatenated lists.
        length: i[n] of each list.

    Returns:
        The forest, and i32[n] the row of each list's last value, -1 if a list is empty.
    """
    last = np.full(len(length), -1, np.int32)
    kept = np.flatnonzero(length)
    length = length.take(kept).astype(np.int64)
    end = np.cumsum(length)
    begin = end - length
    others = np.append(0, length[:-1])[: len(length)]
    # Each value is compared with the one at the same place of the list before.
    opposite = np.arange(len(value))
    opposite -= others.repeat(length)
    differs = np.flatnonzero(value.take(opposite) != value)
    first = np.append(differs, len(value)).take(np.searchsorted(differs, begin))
    shared = np.minimum(np.minimum(first - begin, others), length)
    added = length - shared
    end_row = np.cumsum(added)
    depth = segments(shared, added)
    before = np.arange(-1, len(depth) - 1)
    # A value that is shared is in the last list that shared less of the one before it.
    joins = np.flatnonzero(shared)
    source = _last_below(shared).take(joins)
    joint = np.full(len(kept), -1, np.int64)
    joint[joins] = (end_row - length).take(source) + shared.take(joins) - 1
    adds = np.flatnonzero(added)
    before[(end_row - added).take(adds)] = joint.take(adds)
    last[kept] = np.where(added > 0, end_row - 1, joint)
    kept_values = value.take(segments(begin + shared, added))
    return Forest(before.astype(np.int32), depth.astype(np.int32), kept_values), last


def hashed_forest(value: Ints, length: I64, word: U64) -> tuple[Forest, I32, U64]:
    """Put lists into a forest as `forest_of_lists` does, for `without_twins`.

    Args:
        value: i[m] the concatenated lists; no value is negative.
        length: i64[n] of each list.
        word: u64 random words by value.

    Returns:
        The forest, i32[n] the row of each list's last value, -1 if a list is empty, and u64[t] a
        hash of each row and all values before it.
    """
    grown, last = forest_of_lists(value, length)
    return grown, last, _path_hashes(grown, word)


def _path_hashes(forest: Forest, word: U64) -> U64:
    """Hash each row with all values before it, u64[t]: a sum of words weighted by depth."""
    weighted = word.take(forest.value)
    # Powers of an odd number, modulo 2^64, distinguish places.
    factors = np.full(int(forest.depth.max(initial=0)) + 1, _FACTOR)
    factors[:1] = 1
    weighted *= np.cumprod(factors).take(forest.depth)
    total = np.zeros(len(forest) + 1, np.uint64)
    np.cumsum(weighted, out=total[1:])
    # In a run each row comes after the row above it. Run 0 begins with row 0. A row's hash is the
    # sum up to it plus a number of its run: the hash of the row before the run, less the sum of all
    # rows above the run.
    first = np.flatnonzero(forest.before != np.arange(-1, len(forest) - 1))
    before = forest.before.take(first)
    of_run = np.zeros(len(first) + 1, np.uint64)
    of_run[1:] = total.take(before + 1) - total.take(first)
    run_before = np.append(0, np.searchsorted(first, before, side="right"))
    while run_before.any():
        of_run += of_run.take(run_before)
        run_before = run_before.take(run_before)
    return total[1:] + of_run.repeat(np.diff(first, prepend=0, append=len(forest)))


def without_twins(forest: Forest, hashes: U64, asked: Bools) -> tuple[Forest, I32]:
    """Merge rows that are alike, all values before them included.

    Args:
        hashes: u64[t] as from `hashed_forest`.
        asked: bool[t] rows to look at; they include all values before them.

    Returns:
        The forest, with these rows in the order in which they first occur and the others after
        them, and i32[t + 1] the new row of each row, the last one -1, for none. Both are unchanged
        if rows that are not alike have the same hash.
    """
    rows, others = np.flatnonzero(asked), np.flatnonzero(~asked)
    number, first = numbered(hashes.take(rows))
    row = np.full(len(forest) + 1, -1, np.int32)
    row[rows] = number
    row[others] = np.arange(len(first), len(first) + len(others), dtype=np.int32)
    kept = np.concatenate((rows.take(first), others))
    found = Forest(
        row.take(forest.before.take(kept)), forest.depth.take(kept), forest.value.take(kept)
    )
    is_alike = found.before.take(number) == row.take(forest.before.take(rows))
    is_alike &= found.value.take(number) == forest.value.take(rows)
    if is_alike.all():
        return found, row
    same = np.arange(len(row), dtype=np.int32)
    same[-1] = -1
    return forest, same


def _last_below(column: I64) -> I64:
    """Return i64[n]: the last row before each one that has less; -1 for rows of 0, the minimum."""
    found = np.arange(-1, len(column) - 1)
    found[column == 0] = -1
    left = np.flatnonzero(column)
    while len(left):
        # No row between a row and the one found for it has less than the row.
        candidate = found.take(left)
        is_less = column.take(candidate) < column.take(left)
        left, candidate = left[~is_less], candidate[~is_less]
        found[left] = found.take(candidate)
    return found


def joined_forests(parts: Sequence[Forest]) -> Forest:
    """Return one forest, in which the rows of each part come after those of the parts before."""
    first = np.cumsum([0, *map(len, parts)]).tolist()
    before = [
        np.where(p.before < 0, -1, p.before + at) for p, at in zip(parts, first, strict=False)
    ]
    none = np.zeros(0, np.int32)
    return Forest(
        np.concatenate([none, *before], dtype=np.int32),
        np.concatenate([none, *(part.depth for part in parts)]),
        np.concatenate([part.value for part in parts] or [none]),
    )
