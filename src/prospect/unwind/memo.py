"""(address space, address) → rule and site, looked up once for each place.

Rules are as `elf.frame_rules` packs them, sites are rows of a `SiteTable`. Stacks of a program are
made of the same few thousand places, so that a direct-mapped table answers nearly all: a slot holds
the last site that fell on it. Places that push each other out get several rows. Keys and rules are
by site, next to each other: what is looked up stays in the cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.buffers import gather
from prospect.columns.sorting import distinct
from prospect.elf import frame_rules as rules
from prospect.records import replace
from prospect.unwind.interface import SiteTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.elf.frame_rows import FrameRows
    from prospect.unwind.interface import CodeFinder

ADDRESS_BITS = 48
CONTEXT_BITS = 64 - ADDRESS_BITS
_SLOT_BITS = 20
_FIRST_SITE_BITS = 14
# Fibonacci hashing: Knuth, The Art of Computer Programming, volume 3, 6.4.
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SLOT_SHIFT = np.uint64(64 - _SLOT_BITS)
_ADDRESS = np.uint64((1 << ADDRESS_BITS) - 1)
# Context 65535, and no address of user space on x86-64 or arm64: it sorts last.
_NO_KEY = np.uint64(2**64 - 1)


class SiteMemo:
    """The table, and the places met so far.

    Contexts are known by their low 16 bits here; `begin_contexts` says which 65536 are meant.
    """

    def __init__(self, finder: CodeFinder) -> None:
        self._finder = finder
        self._frame_rows: dict[int, FrameRows | None] = {}
        self._site = np.zeros(1 << _SLOT_BITS, np.int32)
        # By site, with room for more of them.
        self._key = np.full(1 << _FIRST_SITE_BITS, _NO_KEY)
        self._rule = np.zeros(1 << _FIRST_SITE_BITS, np.int64)
        self._tables: list[SiteTable] = []
        self._count = 0
        self._first_context = 0

    def begin_contexts(self, first: int) -> None:
        """Say that contexts from `first` on are asked for, which is a multiple of 65536."""
        if first != self._first_context:
            self._first_context = first
            self._key[:] = _NO_KEY

    def look_up(self, key: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the rule and the site of each key: context << 48 | address.

        Args:
            key: u64[n].

        Returns:
            i64[n] rules, `NO_MAP` if nothing is mapped; i32[n] rows of the sites.
        """
        site = self._site.take(_slots(key))
        missed = np.flatnonzero(self._key.take(site) != key)
        if len(missed):
            met, which = np.unique(key.take(missed), return_inverse=True)
            found = self._find(met)
            # If several sites share a slot, the last one stays.
            self._site[_slots(met)] = found
            site[missed] = found.take(which)
        return self._rule.take(site), site

    def is_of_image(self, site: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return whether each site is in an image, bool[n]."""
        sites = self.sites()
        return sites.object.take(site) >= 0

    def interrupted(self, site: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the sites, i32[n], of frames at some sites that signals interrupted."""
        met, place = np.unique(site, return_inverse=True)
        rows = gather(self.sites(), met.astype(np.int64))
        self._tables.append(replace(rows, is_interrupted=np.ones(len(rows), np.bool_)))
        # They are found by nobody who looks their places up.
        return self._numbered(np.full(len(rows), _NO_KEY), rows.rule).take(place)

    def sites(self) -> SiteTable:
        """Return all places met so far."""
        if len(self._tables) != 1:
            names = ("context", "address", "object", "svma", "rule", "is_interrupted")
            columns = (np.concatenate([getattr(t, n) for t in self._tables] or [[]]) for n in names)
            dtypes = (np.int32, np.uint64, np.int32, np.uint64, np.int64, np.bool_)
            table = SiteTable(*(c.astype(d) for c, d in zip(columns, dtypes, strict=True)))
            self._tables = [table]
        return self._tables[0]

    def _find(self, key: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Ask which code is at distinct places; return their new sites."""
        address = key & _ADDRESS
        context = (key >> np.uint64(ADDRESS_BITS)).astype(np.int32) + np.int32(self._first_context)
        found, svma, is_mapped = self._finder.locate(context, address)
        rule = np.where(is_mapped, rules.NO_ROW, rules.NO_MAP)
        for row in distinct(found[found >= 0]).tolist():
            if row not in self._frame_rows:
                self._frame_rows[row] = self._finder.rows_of(row)
            table = self._frame_rows[row]
            if table is not None:
                at = np.flatnonzero((found == row) & is_mapped)
                rule[at] = table.look_up(svma.take(at))
        is_interrupted = np.zeros(len(key), np.bool_)
        self._tables.append(SiteTable(context, address, found, svma, rule, is_interrupted))
        return self._numbered(key, rule)

    def _numbered(self, key: NDArray[np.uint64], rule: NDArray[np.int64]) -> NDArray[np.int32]:
        """Note keys and rules of new sites; return their numbers."""
        site = np.arange(self._count, self._count + len(key), dtype=np.int32)
        self._count += len(key)
        if self._count > len(self._key):
            room = 2 * self._count - len(self._key)
            self._key = np.append(self._key, np.full(room, _NO_KEY))
            self._rule = np.append(self._rule, np.zeros(room, np.int64))
        self._key[site], self._rule[site] = key, rule
        return site


def _slots(key: NDArray[np.uint64]) -> NDArray[np.int64]:
    return ((key * _MULTIPLIER) >> _SLOT_SHIFT).view(np.int64)
