"""Which symbols of an ELF symbol table name code, and which of several at one address is shown.

Both are as in perf, so that both name the same function: what counts is from
``tools/perf/util/symbol-elf.c:dso__load_sym_internal``, but data objects only where they lie in
executable sections; the choice from ``symbol.c:choose_best_symbol`` (Linux 6.1; that a function
wins over a label is of Linux 6.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.elf import layout
from prospect.records import Record, field_names
from prospect.symbols.table import SymbolTable, build_symbol_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.elf.image import ElfImage
    from prospect.elf.symbols import ElfSymbols
    from prospect.profile.naming import NameSource

_MAPPING_SYMBOL_MACHINES = {layout.EM_ARM, layout.EM_AARCH64, layout.EM_RISCV}
# A rank holds the grade, then 4 bits of leading underscores, then 16 of the name's length.
_MOST_UNDERSCORES = 15
_LONGEST_COMPARED_BYTES = (1 << 16) - 1


class CodeSymbols(Record, eq=False):
    """Symbols that name code; the columns of `build_symbol_table`.

    Attributes:
        grade: i64[n] what speaks against each symbol, names aside.
    """

    start: NDArray[np.uint64]
    end: NDArray[np.uint64]
    limit: NDArray[np.uint64]
    name_start: NDArray[np.int64]
    is_global: NDArray[np.bool_]
    source: NDArray[np.uint8]
    grade: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.start)


_NONE = CodeSymbols(
    start=np.zeros(0, np.uint64),
    end=np.zeros(0, np.uint64),
    limit=np.zeros(0, np.uint64),
    name_start=np.zeros(0, np.int64),
    is_global=np.zeros(0, np.bool_),
    source=np.zeros(0, np.uint8),
    grade=np.zeros(0, np.int64),
)


def select_code(
    image: ElfImage, symbols: ElfSymbols, source: NameSource, name_base: int
) -> CodeSymbols:
    """Select functions, and what else has a name in an executable section.

    Args:
        image: whose symbols they are.
        symbols: its .symtab or .dynsym.
        source: what the table's rows shall state.
        name_base: offset of `symbols.strings` in the text that the table's names are cut from.
    """
    sections, kind = image.sections, symbols.kind
    row = np.flatnonzero(_names_code(image, symbols))
    row = row[~_is_nameless(image, symbols, row)]
    section, kind = symbols.section.take(row), kind.take(row)
    start, size = symbols.value.take(row), symbols.size.take(row)
    if image.machine == layout.EM_ARM:
        start &= ~(kind == layout.STT_FUNC).astype(np.uint64)  # bit 0 of a function says Thumb
    section_start = sections["addr"].take(section)
    section_size = sections["size"].take(section)
    in_section = start - section_start < section_size
    binding = symbols.binding.take(row)
    grade = np.zeros(len(row), np.int64)
    for fault in (
        size == 0,
        kind == layout.STT_NOTYPE,
        binding == layout.STB_WEAK,
        binding != layout.STB_GLOBAL,
    ):
        grade = grade << 1 | fault
    return CodeSymbols(
        start=start,
        end=start + size,
        limit=np.where(in_section, section_start + section_size, np.uint64(0)),
        name_start=symbols.name.take(row).astype(np.int64) + name_base,
        is_global=binding != layout.STB_LOCAL,
        source=np.full(len(row), source, np.uint8),
        grade=grade,
    )


def build_code_table(strings: bytes, parts: list[CodeSymbols]) -> SymbolTable:
    """Make one table of several selections, whose names lie in one text."""
    parts = [_NONE, *parts]
    symbols = CodeSymbols(
        **{
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in field_names(CodeSymbols)
        }
    )

    def rank(rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return _rank(strings, symbols.name_start.take(rows), symbols.grade.take(rows))

    return build_symbol_table(
        strings=strings,
        start=symbols.start,
        end=symbols.end,
        limit=symbols.limit,
        name_start=symbols.name_start,
        is_global=symbols.is_global,
        source=symbols.source,
        rank=rank,
    )


def _names_code(image: ElfImage, symbols: ElfSymbols) -> NDArray[np.bool_]:
    kind, section, visibility = symbols.kind, symbols.section, symbols.visibility
    # One row more, False, for NO_SECTION (-1): SHN_ABS among others.
    is_code = np.zeros(len(image.sections) + 1, np.bool_)
    is_code[:-1] = (image.sections["flags"] & layout.SHF_EXECINSTR) != 0
    function = (kind == layout.STT_FUNC) | (kind == layout.STT_GNU_IFUNC)
    hidden = (visibility == layout.STV_HIDDEN) | (visibility == layout.STV_INTERNAL)
    other = (kind == layout.STT_OBJECT) | ((kind == layout.STT_NOTYPE) & ~hidden)
    wanted: NDArray[np.bool_] = function | (other & is_code.take(section))
    wanted &= section > layout.SHN_UNDEF
    wanted &= (symbols.name != 0) & (symbols.name < len(symbols.strings))
    return wanted


def _is_nameless(image: ElfImage, symbols: ElfSymbols, row: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Say which names are empty or, as `$x` and `$d.3`, mark a stretch of code or of data."""
    text = np.frombuffer(symbols.strings, np.uint8)
    if not len(text):
        return np.ones(len(row), np.bool_)
    start = symbols.name.take(row).astype(np.int64)
    first = text.take(start)
    nameless: NDArray[np.bool_] = first == 0
    if image.machine in _MAPPING_SYMBOL_MACHINES:
        second, third = (text.take(start + i, mode="clip") for i in (1, 2))
        ends = (third == 0) | (third == ord("."))
        if image.machine == layout.EM_RISCV:
            ends |= second == ord("x")  # `$xrv64i…`: code for another set of extensions
        nameless |= (first == ord("$")) & np.isin(second, list(b"adtx")) & ends
    return nameless


def _rank(
    strings: bytes, name_start: NDArray[np.int64], grade: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Rank by grade, then fewer leading underscores, then the longer name."""
    text = np.frombuffer(strings, np.uint8)
    ends = np.flatnonzero(text == 0)
    length = ends.take(np.searchsorted(ends, name_start), mode="clip") - name_start
    underscores = np.zeros(len(name_start), np.int64)
    for position in range(_MOST_UNDERSCORES):
        leading = underscores == position
        leading &= text.take(name_start + position, mode="clip") == ord("_")
        underscores += leading
    shortness = _LONGEST_COMPARED_BYTES - np.minimum(length, _LONGEST_COMPARED_BYTES)
    rank: NDArray[np.int64] = ((grade << 4 | underscores) << 16) | shortness
    return rank
