"""Mappings of trees of versions in which none covers another: one search finds each address's.

Comes in: the tree of versions and which mapping was made in which. Goes out: `ApartMappings`.
Nearly all trees are such: those of a program that was started, maps its libraries, and forks or
not. A mapping is filed by its tree and first address, as one number; what an address is in stands
right before it then, or nowhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.sorting import distinct
from prospect.records import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.spaces.address_spaces import MadeMappings
    from prospect.spaces.versions import VersionTree

_KEY_BITS = 64
_PAGE_BITS = 12


class Filing(Record):
    """How tree and address become one number.

    `starts` u64[k] are all first addresses, ascending, of which an address has the last one's place
    that is not behind it; None where addresses themselves leave room for the tree, without their
    `shift` lower bits, which no first address has. `bits` are those of an address or a place.
    """

    starts: NDArray[np.uint64] | None
    shift: int
    bits: int

    def keys(self, tree: NDArray[np.int64], address: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return tree and address as one number each, u64[n]."""
        if self.starts is None:
            # Beyond all mappings, what is in the last one's place is in none.
            place = address >> np.uint64(self.shift)
            np.minimum(place, np.uint64((1 << self.bits) - 1), out=place)
        else:
            place = np.searchsorted(self.starts, address, "right").view(np.uint64)
        return tree.view(np.uint64) << np.uint64(self.bits) | place


def _filing_of(start: NDArray[np.uint64], end: NDArray[np.uint64], trees: int) -> Filing:
    """Choose how mappings of so many trees are filed; the kernel maps whole pages."""
    below_page = np.bitwise_or.reduce(start, initial=0) & np.uint64((1 << _PAGE_BITS) - 1)
    shift = 0 if below_page else _PAGE_BITS
    filing = Filing(None, shift, (int(end.max(initial=0)) >> shift).bit_length())
    if trees.bit_length() + filing.bits <= _KEY_BITS:
        return filing
    starts = distinct(start)
    return Filing(starts, 0, len(starts).bit_length())


class ApartMappings(Record):
    """The mappings of such trees, by tree and address.

    Attributes:
        number: i64[v] of each version that of its tree; -1 for trees without a mapping.
        overlaps: bool[t] which trees have mappings that cover others, and are not here.
        key: u64[r] ascending.
        end: u64[r] the address behind the last.
        version: i64[r] in which each was made.
        mapping: i64[r] as in `MadeMappings`.
    """

    number: NDArray[np.int64]
    overlaps: NDArray[np.bool_]
    key: NDArray[np.uint64]
    end: NDArray[np.uint64]
    version: NDArray[np.int64]
    mapping: NDArray[np.int64]
    _filing: Filing

    def is_in_other(self, version: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which versions are of trees with mappings that cover others, bool[n]."""
        # The last entry is that of trees without a mapping.
        return np.append(self.overlaps, False).take(self.number.take(version))

    def locate(
        self, version: NDArray[np.int64], address: NDArray[np.uint64], tree: VersionTree
    ) -> NDArray[np.int64]:
        """Return the mapping at each address, i64[n], -1 for none.

        Args:
            version: i64[n] version of the space at the time.
            address: u64[n].
            tree: how versions descend from each other.
        """
        number = self.number.take(version)
        row = np.searchsorted(self.key, self._filing.keys(number, address), side="right") - 1
        found = np.flatnonzero((row >= 0) & (number >= 0))
        row = row.take(found)
        made_in, entered = self.version.take(row), tree.enter.take(version.take(found))
        is_in = self.number.take(made_in) == number.take(found)
        is_in &= address.take(found) < self.end.take(row)
        # Made in this version or in one that it descends from.
        is_in &= (tree.enter.take(made_in) <= entered) & (entered < tree.leave.take(made_in))
        mapping = np.full(len(version), -1, np.int64)
        mapping[found[is_in]] = self.mapping.take(row[is_in])
        return mapping


class Filed(Record):
    """Mappings by tree and first address.

    Attributes:
        filing: how these became one number.
        key: u64[r] ascending.
        order: i64[r] which mapping each is of.
        overlaps: bool[t] which trees have mappings that cover others.
    """

    filing: Filing
    key: NDArray[np.uint64]
    order: NDArray[np.int64]
    overlaps: NDArray[np.bool_]


def file_by_tree(
    tree: NDArray[np.int64], start: NDArray[np.uint64], end: NDArray[np.uint64], trees: int
) -> Filed:
    """Sort mappings by tree and first address, and say which trees have some that cover others.

    Args:
        tree: i64[r] below `trees`.
        start: u64[r] first address of each.
        end: u64[r] the one behind the last.
        trees: how many there are.
    """
    filing = _filing_of(start, end, trees)
    key = filing.keys(tree, start)
    order = np.argsort(key)
    in_tree = tree.take(order)
    overlaps = np.zeros(trees, np.bool_)
    reaches_on = end.take(order[:-1]) > start.take(order[1:])
    overlaps[in_tree[:-1][reaches_on & (in_tree[:-1] == in_tree[1:])]] = True
    return Filed(filing, key.take(order), order, overlaps)


def apart_mappings(tree: VersionTree, made: MadeMappings) -> ApartMappings:
    """File the mappings by tree and address.

    Args:
        tree: how the versions descend from each other.
        made: the mappings.
    """
    roots = distinct(tree.root.take(made.version))
    number = np.full(len(tree.root), -1, np.int64)
    number[roots] = np.arange(len(roots))
    number = number.take(tree.root)
    of_made = number.take(made.version)
    filed = file_by_tree(of_made, made.start, made.end, len(roots))
    kept = np.flatnonzero(~filed.overlaps.take(of_made.take(filed.order)))
    order = filed.order.take(kept)
    return ApartMappings(
        number=number,
        overlaps=filed.overlaps,
        key=filed.key.take(kept),
        end=made.end.take(order),
        version=made.version.take(order),
        mapping=made.mapping.take(order),
        _filing=filed.filing,
    )
