"""Code of an image that no symbol names: brackets, and where its functions begin and end.

A stripped image keeps the names of what it exports; its static functions are between them without
any. Prospect's answer is the bracket `bsearch->qsort`: not a name, but where to look. Function
bounds cut it into `bsearch->qsort [fn 1 of 3]` and so on: not a name either, but one function.

Bounds are from .eh_frame: compilers leave an entry for each function, which strip(1) does not
remove; of programs without it, from .sframe. A function of which a part was laid elsewhere
(``f.cold``) is two; hand-written code mostly has no entry.

The entry point of a program of glibc names one of them: ``main``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from prospect.elf import elf_layout
from prospect.elf.frame_entries import read_frames
from prospect.elf.plt import PLT_SECTIONS
from prospect.elf.sframe import read_sframe
from prospect.elf.symbols import area_at
from prospect.records import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.elf.image import ElfImage
    from prospect.symbols.table import SymbolTable

_MOST_BETWEEN = 500
# `_start` of glibc (sysdeps/x86_64/start.S) clears %ebp, takes the arguments, aligns the stack,
# loads %rdi with the address of main, and calls __libc_start_main, which does not return: hlt.
_START_X86_64 = re.compile(
    rb"\x31\xed\x49\x89\xd1\x5e\x48\x89\xe2\x48\x83\xe4\xf0\x50\x54.{0,24}?"
    rb"\x48(?:\x8d\x3d(?P<distance>.{4})|\xc7\xc7(?P<address>.{4}))"
    rb"(?:\xff\x15|\x67?\xe8).{4}\xf4",
    re.DOTALL,
)
_START_BYTES = 80


class FunctionBounds(Record, eq=False):
    """Functions by rising address, disjoint.

    Attributes:
        start: u64[f] SVMA.
        end: u64[f] SVMA of the first byte after.
    """

    start: NDArray[np.uint64]
    end: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.start)


def find_function_bounds(image: ElfImage) -> FunctionBounds:
    """Find the functions of an image; none where it has no entries that can be read."""
    frames = read_frames(image) or read_sframe(image)
    low, high = code_regions(image)
    if frames is None or not len(low):
        none = np.zeros(0, np.uint64)
        return FunctionBounds(none, none)
    # Entries of one address are seen in damaged images only.
    first = np.flatnonzero(np.diff(frames.start, prepend=~frames.start[:1]))
    start, end = frames.start.take(first), frames.end.take(first)
    region = np.searchsorted(low, start, side="right") - 1
    in_code = (region >= 0) & (start < high.take(np.maximum(region, 0)))
    start, end, region = start[in_code], end[in_code], region[in_code]
    following = np.append(start[1:], np.uint64(2**64 - 1))[: len(start)]
    return FunctionBounds(start, np.minimum(np.minimum(end, following), high.take(region)))


def find_main(image: ElfImage) -> int:
    """Return the SVMA of the function that the entry point starts; 0 if it is not glibc's.

    Only of x86-64: elsewhere the address of ``main`` may be in a relocation.
    """
    if image.machine != elf_layout.EM_X86_64 or not image.is_64:
        return 0
    code = bytes(area_at(image, image.entry)[:_START_BYTES])
    started = _START_X86_64.search(code)
    if started is None:
        return 0
    if (address := started["address"]) is not None:
        return int.from_bytes(address, "little")
    distance = int.from_bytes(started["distance"], "little", signed=True)
    return max(image.entry + started.end("distance") + distance, 0)


def code_regions(image: ElfImage) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return where functions may be, rising and disjoint.

    Returns:
        u64[r] first and u64[r] first byte after of the executable sections but the procedure
        linkage tables, whose stubs are no functions; of an image without section headers, of its
        executable segments.
    """
    sections, segments = image.sections, image.segments
    is_code = (sections["flags"] & elf_layout.SHF_EXECINSTR) != 0
    is_code[[row for row in map(image.find_section, PLT_SECTIONS) if row >= 0]] = False
    code = sections[is_code]
    low, size = code["addr"], code["size"]
    if not len(code):
        loads = segments["type"] == elf_layout.PT_LOAD
        code = segments[loads & ((segments["flags"] & elf_layout.PF_X) != 0)]
        low, size = code["vaddr"], code["memsz"]
    order = np.argsort(low, kind="stable")
    low, high = low.take(order), (low + size).take(order)
    # Sections of a damaged image overlap; each one then begins where those before it have ended.
    reached = np.append(np.uint64(0), np.maximum.accumulate(high)[:-1])[: len(low)]
    low = np.maximum(low, reached)
    kept = low < high
    return low[kept], high[kept]


class Brackets(Record, eq=False):
    """Stretches of code that no symbol of a table covers.

    Attributes:
        start: u64[b] SVMA.
        end: u64[b] SVMA of the first byte after.
        before: i64[b] row of the symbol that starts last before the stretch in its section, or -1.
        after: i64[b] row of the symbol that starts next in its section, or -1.
        number: i64[b] which of the functions between the two symbols it is, from 1; 0 for what
            is between functions, and if no bounds are known.
        count: i64[b] how many functions there are between the two symbols.
    """

    start: NDArray[np.uint64]
    end: NDArray[np.uint64]
    before: NDArray[np.int64]
    after: NDArray[np.int64]
    number: NDArray[np.int64]
    count: NDArray[np.int64]


def find_brackets(image: ElfImage, table: SymbolTable) -> Brackets:
    """Find the gaps between the symbols of a table, within their executable sections."""
    low, high = code_regions(image)
    if not len(low) or not len(table):
        none = np.zeros(0, np.int64)
        return Brackets(none.astype(np.uint64), none.astype(np.uint64), none, none, none, none)
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
    none = np.zeros(len(open_), np.int64)
    return Brackets(
        begin.take(open_), end.take(open_), before.take(open_), after.take(open_), none, none
    )


def cut_brackets(whole: Brackets, bounds: FunctionBounds) -> Brackets:
    """Cut brackets at the bounds of functions: into those that begin in them, and what is left.

    Brackets around more functions than a person would look through are none.
    """
    first = np.searchsorted(bounds.start, whole.start)
    count = np.searchsorted(bounds.start, whole.end) - first
    of = np.repeat(np.arange(len(count)), count)
    number = np.arange(1, len(of) + 1) - np.repeat(np.cumsum(count) - count, count)
    function = first.take(of) + number - 1
    start = bounds.start.take(function)
    end = np.minimum(bounds.end.take(function), whole.end.take(of))
    # The rest reaches from the bracket's start, or a function's end, to the next function.
    following = np.append(bounds.start, np.uint64(2**64 - 1))
    left_of = np.concatenate((np.arange(len(count)), of))
    left_start = np.concatenate((whole.start, end))
    left_end = np.minimum(
        following.take(np.concatenate((first, function + 1))), whole.end.take(left_of)
    )
    left = np.flatnonzero(left_start < left_end)
    of = np.concatenate((of, left_of.take(left)))
    # Two names with a whole program between them do not say where to look.
    kept = np.flatnonzero(count.take(of) <= _MOST_BETWEEN)
    of = of.take(kept)
    return Brackets(
        start=np.concatenate((start, left_start.take(left))).take(kept),
        end=np.concatenate((end, left_end.take(left))).take(kept),
        before=whole.before.take(of),
        after=whole.after.take(of),
        number=np.concatenate((number, np.zeros(len(left), np.int64))).take(kept),
        count=count.take(of),
    )
