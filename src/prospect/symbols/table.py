"""The symbols of one object as columns, and the look-up of addresses.

Rows come in any order, from any source (ELF symbols, kallsyms, a perf map file). A `SymbolTable` is
sorted by address and has one row for an address, with further names as aliases. Names stay in the
text that they were read from (a string section, /proc/kallsyms). They are cut out for the rows that
are needed, and completed if they are those of brackets or of procedure-linkage stubs.

A JIT replaces code, and BPF programs are unloaded and others loaded into their pages. Only what is
added is reported: `latest_pieces` finds the latest range over each address.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.sorting import ascending, distinct, run_starts
from prospect.profile.naming import NameSource
from prospect.records import Record
from prospect.symbols.symbols_limits import LONGEST_NAME_BYTES, MOST_ALIASES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prospect.columns.array_types import I32, I64, U8, U64, Bools

_FULL_SOURCES = np.array(
    [
        NameSource.SYMTAB,
        NameSource.DEBUG_FILE,
        NameSource.MINI_DEBUG,
        NameSource.DEBUG_SERVER,
        NameSource.VDSO,
        NameSource.GO_TABLE,
    ],
    np.uint8,
)


class SymbolTable(Record, eq=False):
    """Symbols sorted by address; `build_symbol_table` makes one from rows in any order.

    Attributes:
        start: u64[s] first address, strictly rising: SVMA for an image, AVMA for the kernel.
        end: u64[s] first address after the symbol, above `start`; symbols may overlap.
        name_start: i64[s] offset of the name in `strings`.
        name_length: i64[s] bytes of the name, or None if every name ends with a NUL.
        is_global: bool[s] whether other objects see the symbol (bound global or weak).
        source: u8[s] a `NameSource`.
        alias_row: i64[a] row of the symbol at the same start, rising.
        alias_name_start: i64[a] as `name_start`.
        alias_name_length: i64[a] as `name_length`.
        strings: the text that names are cut from.
        next_name_start: i64[s] name of the symbol after a bracket, in rows of source BRACKET or
            BOUNDS, whose `name_start` is that of the symbol before it. None without such rows.
        fn_number: i64[s] number of the function in its bracket, from 1, in rows of source BOUNDS.
            None without such rows.
        fn_count: i64[s] number of functions in the bracket. None without such rows.
    """

    start: U64
    end: U64
    name_start: I64
    name_length: I64 | None
    is_global: Bools
    source: U8
    alias_row: I64
    alias_name_start: I64
    alias_name_length: I64 | None
    strings: bytes | memoryview
    next_name_start: I64 | None = None
    fn_number: I64 | None = None
    fn_count: I64 | None = None

    def __len__(self) -> int:
        return len(self.start)

    def lookup(self, address: U64) -> I32:
        """Find the symbol that covers each address u64[n]; of several, the one that starts last.

        Returns:
            i32[n] rows of this table, -1 outside every symbol.
        """
        if not len(self):
            return np.full(len(address), -1, np.int32)
        row = np.searchsorted(self.start, address, side="right") - 1
        inside = (row >= 0) & (address < self.end.take(np.maximum(row, 0)))
        if self._overlapping:
            left = np.flatnonzero(~inside & (row >= 0))
            row[left] = self._enclosing(row.take(left), address.take(left))
            inside[left] = True
        return np.where(inside, row, -1).astype(np.int32)

    def name(self, index: int) -> bytes:
        """Return the name of one row, as `names`."""
        return self.names([index])[0]

    def names(self, indexes: Sequence[int]) -> list[bytes]:
        """Return the names of several rows, mangled or completed.

        Brackets are `first->second`, cut ones `first->second [fn 2 of 3]`, stubs `name@plt`, and
        functions of which only the bounds are known `[fn at 0x1234]`.
        """
        rows = np.array(indexes, np.int64)
        names = _cut_names(self.strings, self.name_start, self.name_length, rows)
        source = self.source.take(rows)
        for place in np.flatnonzero(source == NameSource.PLT).tolist():
            names[place] += b"@plt"
        for place in np.flatnonzero(source == NameSource.NO_NAME_BOUNDS).tolist():
            names[place] = b"[fn at 0x%x]" % int(self.start[rows[place]])
        if self.next_name_start is not None:
            is_bracket = (source == NameSource.BRACKET) | (source == NameSource.BOUNDS)
            places = np.flatnonzero(is_bracket)
            following = _cut_names(self.strings, self.next_name_start, None, rows.take(places))
            for place, name in zip(places.tolist(), following, strict=True):
                names[place] += b"->" + name
        if self.fn_number is not None and self.fn_count is not None:
            for place in np.flatnonzero(source == NameSource.BOUNDS).tolist():
                row = rows[place]
                names[place] += b" [fn %d of %d]" % (self.fn_number[row], self.fn_count[row])
        return names

    def alias_names(self, index: int) -> list[bytes]:
        """Return the other names of a row's address, best first, at most `MOST_ALIASES`."""
        first, last = np.searchsorted(self.alias_row, [index, index + 1]).tolist()
        rows = np.arange(first, min(last, first + MOST_ALIASES))
        return _cut_names(self.strings, self.alias_name_start, self.alias_name_length, rows)

    @cached_property
    def is_full(self) -> bool:
        """Whether it has static functions, not only exported ones."""
        return bool(np.isin(_FULL_SOURCES, self.source).any())

    @cached_property
    def _overlapping(self) -> bool:
        return bool((self.end[:-1] > self.start[1:]).any())

    @cached_property
    def _reach(self) -> list[U64]:
        """Return the greatest `end` of every aligned block of 1, 2, 4, … rows, a column a size."""
        levels = [_even(self.end)]
        while len(levels[-1]) > 2:
            pairs = levels[-1].reshape(-1, 2)
            levels.append(_even(np.maximum(pairs[:, 0], pairs[:, 1])))
        return levels

    def _enclosing(self, row: I64, address: U64) -> I64:
        """Find the last row before `row` whose end is above the address, -1 if none.

        All addresses climb the blocks of `_reach` in lock-step until one to the left reaches far
        enough, then descend into it: logarithmic however symbols are nested.
        """
        levels = self._reach
        block = row.copy()
        found = np.full(len(row), -1, np.int64)
        for level, reach in enumerate(levels):
            left = np.maximum(block - 1, 0)
            hit = (found < 0) & ((block & 1) == 1) & (reach.take(left, mode="clip") > address)
            found[hit] = level
            block = np.where(found < 0, block >> 1, np.where(hit, left, block))
        for level in range(len(levels) - 1, 0, -1):
            right = np.minimum(2 * block + 1, len(levels[level - 1]) - 1)
            child = right - (levels[level - 1].take(right) <= address)
            block = np.where(found >= level, child, block)
        return np.where(found < 0, -1, block)


def build_symbol_table(  # noqa: PLR0913 - the columns of a table, all by keyword
    *,
    strings: bytes | memoryview,
    start: U64,
    end: U64,
    limit: U64,
    name_start: I64,
    is_global: Bools,
    source: U8,
    name_length: I64 | None = None,
    rank: Callable[[I64], I64] | None = None,
) -> SymbolTable:
    """Sort rows into a table; of several at one address the best is the symbol, the rest aliases.

    Args:
        strings: text that the names are cut from.
        start: u64[n] first address.
        end: u64[n] first address after the symbol. If it is not above `start`, the size is
            unknown: the symbol reaches to the next start, but not beyond `limit`.
        limit: u64[n] greatest end of a symbol of unknown size.
        name_start: i64[n] offset of the name in `strings`; checked against it.
        is_global: bool[n].
        source: u8[n] `NameSource`.
        name_length: i64[n], None if names end with a NUL.
        rank: returns the i64 ranks of rows that share an address, the lowest for the best row; the
            first row is the best of those with equal ranks, or without `rank`.

    Returns:
        The table. Rows whose name is outside `strings`, or that cover nothing, are left out.
    """
    last = name_start + (1 if name_length is None else name_length)
    named = (name_start >= 0) & (last >= name_start) & (last <= len(strings))
    order, is_first = _in_order_of_address(start, np.flatnonzero(named), rank)
    best, other = order[is_first], order[~is_first]
    first_address, end_address = start.take(best), end.take(best)
    following = np.append(first_address[1:], np.uint64(2**64 - 1))
    furthest = np.minimum(following, limit.take(best))
    end_address = np.where(end_address > first_address, end_address, furthest)
    covers = end_address > first_address
    alias_row = np.cumsum(is_first)[~is_first] - 1
    other, alias_row = other[covers.take(alias_row)], alias_row[covers.take(alias_row)]
    best = best[covers]
    return SymbolTable(
        start=first_address[covers],
        end=end_address[covers],
        name_start=name_start.take(best),
        name_length=None if name_length is None else name_length.take(best),
        is_global=is_global.take(best),
        source=source.take(best),
        alias_row=(np.cumsum(covers) - 1).take(alias_row),
        alias_name_start=name_start.take(other),
        alias_name_length=None if name_length is None else name_length.take(other),
        strings=strings,
    )


def _in_order_of_address(
    start: U64, rows: I64, rank: Callable[[I64], I64] | None
) -> tuple[I64, Bools]:
    """Sort rows by address, then rank; return them, and which are the first of their address."""
    address = start.take(rows)
    # Less the lowest address, as `ascending` is faster for small keys.
    order = rows.take(ascending(address - address.min(initial=np.uint64(2**64 - 1))))
    is_first = np.ones(len(order), np.bool_)
    address = start.take(order)
    np.not_equal(address[1:], address[:-1], out=is_first[1:])
    if rank is not None and not is_first.all():
        shared = ~is_first
        shared[:-1] |= shared[1:]
        tied = order[shared]
        order[shared] = tied.take(np.lexsort((rank(tied), start.take(tied))))
    return order, is_first


def _even(column: U64) -> U64:
    """Pad a column to an even number of rows."""
    return np.append(column, np.uint64(0)) if len(column) % 2 else column


def _cut_names(
    strings: bytes | memoryview, starts: I64, lengths: I64 | None, rows: I64
) -> list[bytes]:
    begins = starts.take(rows).tolist()
    if lengths is not None:
        sizes = lengths.take(rows).tolist()
        return [
            bytes(strings[begin : begin + size]) for begin, size in zip(begins, sizes, strict=True)
        ]
    return [_until_nul(strings, begin) for begin in begins]


def _until_nul(strings: bytes | memoryview, begin: int) -> bytes:
    # Nearly every name is short; one without a NUL must not cost the rest of the text.
    for size in (256, LONGEST_NAME_BYTES):
        text = bytes(strings[begin : begin + size])
        end = text.find(0)
        if end >= 0:
            return text[:end]
    return text


def latest_pieces(start: U64, end: U64) -> tuple[U64, U64, I64]:
    """Cut ranges where later ones cover them.

    Args:
        start: u64[n] first address of each range, the latest range last.
        end: u64[n] first address after it; empty ranges are left out.

    Returns:
        Pieces in order of address: u64[p] start, u64[p] end, i64[p] row of the range.
    """
    rows = np.flatnonzero(end > start)
    start, end = start.take(rows), end.take(rows)
    if not len(rows):
        return start, end, rows
    bounds = distinct(np.concatenate((start, end)))
    owner = _latest_owner(
        np.searchsorted(bounds, start), np.searchsorted(bounds, end), len(bounds) - 1
    )
    first = run_starts(owner)
    last = np.append(first[1:], len(owner))
    owned = np.flatnonzero(owner.take(first) >= 0)
    first, last = first.take(owned), last.take(owned)
    return bounds.take(first), bounds.take(last), rows.take(owner.take(first))


def touches_several(start: U64, end: U64, number: I64, piece_start: U64, piece_end: U64) -> Bools:
    """Return bool[p] whether a piece has an address that ranges of several numbers cover.

    Args:
        start: u64[n] first address of each range.
        end: u64[n] first address after it; empty ranges are left out.
        number: i64[n] ranges of one number, start and end count once.
        piece_start: u64[p] from `latest_pieces`.
        piece_end: u64[p] the same.
    """
    rows = np.flatnonzero(end > start)
    if not len(rows) or not len(piece_start):
        return np.zeros(len(piece_start), np.bool_)
    by_range = np.lexsort((number.take(rows), end.take(rows), start.take(rows)))
    rows = rows.take(by_range)
    start, end, number = start.take(rows), end.take(rows), number.take(rows)
    first = run_starts(start, end, number)
    start, end = start.take(first), end.take(first)
    bounds = distinct(np.concatenate((start, end)))
    change = np.zeros(len(bounds), np.int64)
    np.add.at(change, np.searchsorted(bounds, start), 1)
    np.add.at(change, np.searchsorted(bounds, end), -1)
    several = np.append(0, np.cumsum(np.cumsum(change) > 1))
    first, last = np.searchsorted(bounds, piece_start), np.searchsorted(bounds, piece_end)
    return several.take(last) > several.take(first)


def _latest_owner(first: I64, last: I64, cells: int) -> I64:
    """Return for each cell the greatest row whose half-open range of cells contains it, -1 if none.

    A range is two overlapping blocks of 2**k cells. Rows are entered at their k, and the blocks are
    halved from the greatest k down: n log n, however ranges are nested.
    """
    level = np.frexp((last - first).astype(np.float64))[1] - 1
    owner = np.full(cells, -1, np.int64)
    for k in range(int(level.max()), -1, -1):
        block = 1 << k
        halves = owner.copy()
        if k + 1 <= int(level.max()):
            np.maximum(halves[block:], owner[: cells - block], out=halves[block:])
        entered = np.flatnonzero(level == k)
        np.maximum.at(halves, first.take(entered), entered)
        np.maximum.at(halves, last.take(entered) - block, entered)
        owner = halves
    return owner
