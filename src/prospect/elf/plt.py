"""The stubs of the procedure linkage table, and the symbol that each one jumps to.

A stub loads its target from a slot of the global offset table; the
relocation of that slot names the symbol. Reading the slot's address out of the stub's code holds
for every layout that linkers write (.plt, .plt.sec of IBT, .plt.got, BTI and PAC, entries sorted
or not), where counting entries along .rela.plt does not.

Source: AMD64 psABI, "Procedure Linkage Table" and its IBT form; ELF for the Arm 64-bit
Architecture, "Procedure Linkage Table"; ``bfd/elfxx-x86.c`` and ``bfd/elfnn-aarch64.c`` for the
forms that are in use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.elf import elf_layout
from prospect.records import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.elf.image import ElfImage

PLT_SECTIONS = (b".plt", b".plt.sec", b".plt.got", b".iplt")
_RELOCATIONS = (b".rela.plt", b".rela.dyn", b".rela.iplt")
_SLOT_TYPES = {
    elf_layout.EM_X86_64: (
        elf_layout.R_X86_64_JUMP_SLOT,
        elf_layout.R_X86_64_GLOB_DAT,
        elf_layout.R_X86_64_IRELATIVE,
    ),
    elf_layout.EM_AARCH64: (
        elf_layout.R_AARCH64_JUMP_SLOT,
        elf_layout.R_AARCH64_GLOB_DAT,
        elf_layout.R_AARCH64_IRELATIVE,
    ),
}
_AARCH64_BTI_C = 0xD503245F


class PltStubs(Record, eq=False):
    """Stubs whose slot has a relocation.

    Attributes:
        start: u64[n] SVMA.
        end: u64[n] SVMA of the first byte after.
        symbol: i64[n] row of .dynsym, 0 for a slot that is filled by a resolver function.
        resolver: u64[n] SVMA of that function, meaningful where `symbol` is 0.
    """

    start: NDArray[np.uint64]
    end: NDArray[np.uint64]
    symbol: NDArray[np.int64]
    resolver: NDArray[np.uint64]


def read_plt(image: ElfImage) -> PltStubs:
    """Find the stubs of an x86-64 or AArch64 image; none for other machines."""
    empty = np.zeros(0, np.uint64)
    if not image.is_64 or image.machine not in _SLOT_TYPES:
        return PltStubs(empty, empty, np.zeros(0, np.int64), empty)
    find = _x86_64_stubs if image.machine == elf_layout.EM_X86_64 else _aarch64_stubs
    rows = [image.find_section(name) for name in PLT_SECTIONS]
    found = [find(image, row) for row in rows if row >= 0]
    start, end, slot = (
        np.concatenate([empty, *(columns[i] for columns in found)]) for i in range(3)
    )
    relocations = _slot_relocations(image)
    slots = relocations["offset"].astype(np.uint64)
    order = np.argsort(slots, kind="stable")
    at = np.searchsorted(slots, slot, sorter=order)
    known = np.flatnonzero(at < len(slots))
    at = order.take(at.take(known))
    match = slots.take(at) == slot.take(known)
    known, at = known[match], at[match]
    return PltStubs(
        start=start.take(known),
        end=end.take(known),
        symbol=relocations["symbol"].take(at).astype(np.int64),
        resolver=relocations["addend"].take(at).astype(np.uint64),
    )


def _slot_relocations(image: ElfImage) -> NDArray[np.void]:
    """Return the relocations that fill a slot with a function's address."""
    kept = []
    for name in _RELOCATIONS:
        data = image.section_data(image.find_section(name))
        size = elf_layout.RELA_64.itemsize
        table = np.frombuffer(data[: len(data) - len(data) % size], elf_layout.RELA_64)
        kept.append(table[np.isin(table["type"], _SLOT_TYPES[image.machine])])
    return np.concatenate(kept)


def _x86_64_stubs(
    image: ElfImage, row: int
) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64]]:
    """Find `jmp *disp32(%rip)` (ff 25), one an entry, `endbr64` and `bnd` before it or not."""
    section = image.sections[row]
    code = np.frombuffer(image.section_data(row), np.uint8)
    base = section["addr"]
    # ld states 8 or 16; lld states 16 and some linkers 0, which meant 16 when entries had one size.
    entry_size = int(section["entsize"]) if section["entsize"] in {8, 16} else 16
    jump = np.flatnonzero((code[:-5] == 0xFF) & (code[1:-4] == 0x25))
    distance = sum(code.take(jump + 2 + i).astype(np.uint64) << np.uint64(8 * i) for i in range(4))
    distance = np.asarray(distance, np.uint64).astype(np.uint32).view(np.int32).astype(np.int64)
    slot = base + (jump + 6 + distance).astype(np.uint64)
    start = base + (jump - jump % entry_size).astype(np.uint64)
    return start, start + np.uint64(entry_size), slot


def _aarch64_stubs(
    image: ElfImage, row: int
) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64]]:
    """Find `adrp x16, page; ldr x17, [x16, #offset]`, `bti c` before it or not."""
    base = image.sections[row]["addr"]
    data = image.section_data(row)
    word = np.frombuffer(data[: len(data) & ~3], "<u4")
    is_adrp = (word & 0x9F00001F) == 0x90000010
    is_load = (word & 0xFFC003FF) == 0xF9400211
    at = np.flatnonzero(is_adrp[:-1] & is_load[1:])
    adrp, load = word.take(at).astype(np.int64), word.take(at + 1).astype(np.int64)
    pages = (adrp >> 5 & 0x7FFFF) << 2 | adrp >> 29 & 3
    pages -= (pages & 1 << 20) << 1
    address = base + (at * 4).astype(np.uint64)
    page = (address & ~np.uint64(0xFFF)) + (pages << 12).astype(np.uint64)
    slot = page + ((load >> 10 & 0xFFF) << 3).astype(np.uint64)
    first = at - ((at > 0) & (word.take(np.maximum(at - 1, 0)) == _AARCH64_BTI_C))
    after = np.append(first[1:], np.minimum(first[-1:] + 4 + 2 * (at != first)[-1:], len(word)))
    start = base + (first * 4).astype(np.uint64)
    return start, base + (after * 4).astype(np.uint64), slot
