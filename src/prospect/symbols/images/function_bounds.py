"""Where functions begin and end, for an image that does not name them.

Comes in: an image. Goes out: `FunctionBounds`, by what its .eh_frame says: compilers leave an entry
for each function, which strip(1) does not remove. A function of which a part was laid elsewhere
(``f.cold``) is two; hand-written code mostly has no entry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.elf import layout
from prospect.elf.frame_entries import read_frames
from prospect.elf.plt import PLT_SECTIONS
from prospect.records import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.elf.image import ElfImage


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
    """Find the functions of an image by its .eh_frame; none where it has none that can be read."""
    frames = read_frames(image)
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


def code_regions(image: ElfImage) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return where functions may be, rising and disjoint.

    Returns:
        u64[r] first and u64[r] first byte after of the executable sections but the procedure
        linkage tables, whose stubs are no functions; of an image without section headers, of its
        executable segments.
    """
    sections, segments = image.sections, image.segments
    is_code = (sections["flags"] & layout.SHF_EXECINSTR) != 0
    is_code[[row for row in map(image.find_section, PLT_SECTIONS) if row >= 0]] = False
    code = sections[is_code]
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
