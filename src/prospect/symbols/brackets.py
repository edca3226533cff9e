"""Names for the code between exported functions, where an image has no other symbols.

A stripped image keeps the names of what it exports; its static functions lie between them without
any. Prospect's answer is the bracket `bsearch->qsort`: not a name, but where to look.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prospect.elf import layout

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.elf.image import ElfImage
    from prospect.symbols.table import SymbolTable


@dataclass(frozen=True, eq=False)
class Brackets:
    """Stretches of code that no symbol of a table covers.

    Attributes:
        start: u64[b] SVMA.
        end: u64[b] SVMA of the first byte after.
        before: i64[b] row of the symbol that starts last before the stretch in its section, or -1.
        after: i64[b] row of the symbol that starts next in its section, or -1.
    """

    start: NDArray[np.uint64]
    end: NDArray[np.uint64]
    before: NDArray[np.int64]
    after: NDArray[np.int64]


def find_brackets(image: ElfImage, table: SymbolTable) -> Brackets:
    """Find what lies between the symbols of a table, within the executable sections they are in."""
    low, high = _code_regions(image)
    if not len(low) or not len(table):
        none = np.zeros(0, np.int64)
        return Brackets(none.astype(np.uint64), none.astype(np.uint64), none, none)
    region = np.searchsorted(low, table.start, side="right") - 1
    row = np.flatnonzero((region >= 0) & (table.start < high.take(np.maximum(region, 0))))
    region = region.take(row)
    start = table.start.take(row)
    reach = np.maximum.accumulate(table.end.take(row))
    changes = region[1:] != region[:-1]
    is_first = np.append(True, changes)[: len(row)]
    is_last = np.append(changes, True)[: len(row)]
    after = np.where(is_last, -1, np.append(row[1:], -1)[: len(row)])
    following = np.append(start[1:], np.uint64(0))[: len(row)]
    first = np.flatnonzero(is_first)
    begin = np.concatenate((reach, low.take(region.take(first))))
    end = np.concatenate((np.where(is_last, high.take(region), following), start.take(first)))
    before = np.concatenate((row, np.full(len(first), -1)))
    after = np.concatenate((after, row.take(first)))
    open_ = np.flatnonzero(begin < end)
    return Brackets(begin.take(open_), end.take(open_), before.take(open_), after.take(open_))


def _code_regions(image: ElfImage) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return bounds of the executable sections, else segments; rising and disjoint."""
    sections, segments = image.sections, image.segments
    code = sections[(sections["flags"] & layout.SHF_EXECINSTR) != 0]
    low, size = code["addr"], code["size"]
    if not len(code):
        loads = segments["type"] == layout.PT_LOAD
        code = segments[loads & ((segments["flags"] & layout.PF_X) != 0)]
        low, size = code["vaddr"], code["memsz"]
    order = np.argsort(low, kind="stable")
    low, high = low.take(order), (low + size).take(order)
    # Sections of a damaged image overlap; each one then begins where those before it have ended.
    reached = np.append(np.uint64(0), np.maximum.accumulate(high)[:-1])[: len(low)]
    low = np.maximum(low, reached)
    kept = low < high
    return low[kept], high[kept]
