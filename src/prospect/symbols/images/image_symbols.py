"""An ELF image, and the debug file that belongs to it → its `SymbolTable`.

The best source that has code in it is used: .symtab of the debug file, .symtab of the image,
.dynsym with .gnu_debugdata, .dynsym with Go's own function table and with brackets, which .eh_frame
cuts at function bounds; of these the entry point names ``main``. Stubs of the procedure linkage
table, which no symbol table names, are added to each.

Which symbols name code, and which of several at one address is shown, are as in perf, so that both
name the same function: what counts is from ``tools/perf/util/symbol-elf.c:dso__load_sym_internal``,
but data objects only in executable sections; the choice from ``symbol.c:choose_best_symbol`` (Linux
6.1; that a function wins over a label is of Linux 6.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.elf import elf_layout
from prospect.elf.go_table import read_go_table
from prospect.elf.image import ElfImage
from prospect.elf.plt import read_plt
from prospect.elf.symbols import ElfSymbols, read_symbols, read_without_sections
from prospect.errors import ElfError
from prospect.profile.naming import NameSource
from prospect.records import Record, field_names, replace
from prospect.symbols.images.brackets import (
    cut_brackets,
    find_brackets,
    find_function_bounds,
    find_main,
)
from prospect.symbols.table import SymbolTable, build_symbol_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.elf.go_table import GoTable
    from prospect.elf.symbols import ElfSymbols
    from prospect.symbols.images.brackets import FunctionBounds
    from prospect.symbols.table import SymbolTable

_MINI_DEBUG_LIMIT_BYTES = 64 << 20
_LZMA_MEMORY_LIMIT_BYTES = 128 << 20
_MAPPING_SYMBOL_MACHINES = {elf_layout.EM_ARM, elf_layout.EM_AARCH64, elf_layout.EM_RISCV}
_NAMELESS = (NameSource.BOUNDS, NameSource.NO_NAME_BOUNDS)
# A rank holds the grade, then 4 bits of leading underscores, then 16 of the name's length.
_MOST_UNDERSCORES = 15
_LONGEST_COMPARED_BYTES = (1 << 16) - 1


class _ExtraRows(Record, eq=False):
    """Rows that no symbol table has; columns of `SymbolTable`."""

    source: NDArray[np.uint8]
    start: NDArray[np.uint64]
    end: NDArray[np.uint64]
    name_start: NDArray[np.int64]
    next_name_start: NDArray[np.int64] | None = None
    fn_number: NDArray[np.int64] | None = None
    fn_count: NDArray[np.int64] | None = None


def read_symbol_table(
    image: ElfImage,
    debug_image: ElfImage | None = None,
    debug_source: NameSource = NameSource.DEBUG_FILE,
) -> SymbolTable:
    """Collect the symbols of an image.

    Args:
        image: what was mapped.
        debug_image: its separate debug file; that it belongs to the image is for the caller to
            check. Used only if it has symbols of code.
        debug_source: reported as the origin of names from the debug file.

    Returns:
        The table, by SVMA; empty for images of which no code is known.
    """
    full = _read_full(image, debug_image, debug_source)
    go_table = None if full else read_go_table(image)
    if len(image.sections):
        dynamic = read_symbols(image, b".dynsym")
    else:
        image, dynamic = read_without_sections(image)
    # A NUL after each string table is the empty name, and ends a last name that lacks its own.
    own_strings = full[0].strings if full else go_table.names if go_table else b""
    dynamic_strings = dynamic.strings if dynamic else b""
    strings = b"".join((own_strings, b"\0", dynamic_strings, b"\0", b"main\0"))
    empty_name, dynamic_base = len(own_strings), len(own_strings) + 1
    main_name = dynamic_base + len(dynamic_strings) + 1

    parts = [full[1]] if full else [_go_functions(go_table)] if go_table else []
    bounds = None if full else find_function_bounds(image)
    if dynamic and (not full or full[1].source[0] == NameSource.MINI_DEBUG):
        exported = _select_code(image, dynamic, NameSource.DYNSYM, dynamic_base)
        parts.append(_bounded(exported, bounds))
    table = _build_code_table(strings, parts)
    named = table
    if bounds is not None:
        named = _add_brackets(image, table, bounds, empty_name)
        named = _add_nameless(named, bounds, empty_name)
        _name_main(named, find_main(image), main_name)
    return _add_stubs(image, dynamic, dynamic_base, named, functions=table)


def _bounded(exported: _CodeSymbols, bounds: FunctionBounds | None) -> _CodeSymbols:
    """Say where exported functions of unknown size end: with their bounds, else at once.

    Without either nothing says where such a function ends and static ones begin.
    """
    end = exported.end
    if bounds is not None and len(bounds):
        row = np.searchsorted(bounds.start, exported.start)
        begins = bounds.start.take(row, mode="clip") == exported.start
        unknown = begins & (end <= exported.start)
        end = np.where(unknown, bounds.end.take(row, mode="clip"), end)
    first_byte = np.minimum(exported.limit, exported.start + np.uint64(1))
    return replace(exported, end=end, limit=first_byte)


def _read_full(
    image: ElfImage, debug_image: ElfImage | None, debug_source: NameSource
) -> tuple[ElfSymbols, _CodeSymbols] | None:
    """Read the best table that has local symbols too, and select what names code."""
    for source in (debug_source, NameSource.SYMTAB, NameSource.MINI_DEBUG):
        holder = debug_image if source == debug_source else image
        if source == NameSource.MINI_DEBUG:
            holder = _unpack_mini_debug(image)
        symbols = read_symbols(holder, b".symtab") if holder else None
        if holder and symbols:
            code = _select_code(holder, symbols, source, 0)
            if len(code):
                return symbols, code
    return None


def _go_functions(table: GoTable) -> _CodeSymbols:
    """Return the functions of Go's own table, which begins the text that names are cut from."""
    name = table.name
    named = np.flatnonzero(name < len(table.names))
    named = named[np.frombuffer(table.names, np.uint8).take(name.take(named)) != 0]
    end = table.end.take(named)
    return _CodeSymbols(
        start=table.start.take(named),
        end=end,
        limit=end,
        name_start=name.take(named),
        is_global=np.zeros(len(named), np.bool_),
        source=np.full(len(named), NameSource.GO_TABLE, np.uint8),
        grade=np.zeros(len(named), np.int64),
    )


def _unpack_mini_debug(image: ElfImage) -> ElfImage | None:
    """Unpack .gnu_debugdata; None if there is none, or none that can be read."""
    packed = image.section_data(image.find_section(b".gnu_debugdata"))
    if not len(packed):
        return None
    import lzma  # noqa: PLC0415 - few images have such a section

    try:
        unpacker = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_LZMA_MEMORY_LIMIT_BYTES)
        return ElfImage.parse(unpacker.decompress(packed, _MINI_DEBUG_LIMIT_BYTES))
    except (lzma.LZMAError, ElfError):
        return None


def _add_brackets(
    image: ElfImage, table: SymbolTable, bounds: FunctionBounds, empty_name: int
) -> SymbolTable:
    brackets = cut_brackets(find_brackets(image, table), bounds)
    names = np.append(table.name_start, empty_name)  # row -1: no symbol on this side
    is_function = brackets.number > 0
    rows = _ExtraRows(
        source=np.where(is_function, NameSource.BOUNDS, NameSource.BRACKET).astype(np.uint8),
        start=brackets.start,
        end=brackets.end,
        name_start=names.take(brackets.before),
        next_name_start=names.take(brackets.after),
        fn_number=brackets.number,
        fn_count=brackets.count,
    )
    none = np.zeros(len(table), np.int64)
    bare = replace(table, next_name_start=none + empty_name, fn_number=none, fn_count=none)
    return _insert(bare, rows)


def _add_nameless(table: SymbolTable, bounds: FunctionBounds, empty_name: int) -> SymbolTable:
    """Add the functions of sections without any symbol, which have bounds and no more."""
    row = np.flatnonzero(table.lookup(bounds.start) < 0)
    start = bounds.start.take(row)
    rows = _ExtraRows(
        source=np.full(len(row), NameSource.NO_NAME_BOUNDS, np.uint8),
        start=start,
        end=bounds.end.take(row),
        name_start=np.full(len(row), empty_name),
    )
    return _insert(table, rows)


def _name_main(table: SymbolTable, start: int, name_start: int) -> None:
    """Name the nameless function that the entry point starts."""
    row = np.searchsorted(table.start, np.uint64(start))
    if row < len(table) and table.start[row] == start and table.source[row] in _NAMELESS:
        table.source[row] = NameSource.ENTRY_POINT
        table.name_start[row] = name_start


def _add_stubs(
    image: ElfImage,
    dynamic: ElfSymbols | None,
    dynamic_base: int,
    table: SymbolTable,
    functions: SymbolTable,
) -> SymbolTable:
    """Add the stubs of the procedure linkage table, as `name@plt`."""
    stubs = read_plt(image)
    if not len(stubs.start):
        return table
    # A slot that a resolver fills is named by the IFUNC symbol at the resolver.
    row = functions.lookup(stubs.resolver)
    known = row >= 0
    if known.any():
        known &= functions.start.take(np.maximum(row, 0)) == stubs.resolver
    name_start = np.full(len(row), -1, np.int64)
    name_start[known] = functions.name_start.take(row[known])
    if dynamic:
        imported = (stubs.symbol > 0) & (stubs.symbol < len(dynamic))
        name = dynamic.name.take(stubs.symbol[imported]).astype(np.int64)
        inside = name < len(dynamic.strings)
        name_start[imported] = np.where(inside, name + dynamic_base, -1)
    named = np.flatnonzero(name_start >= 0)
    rows = _ExtraRows(
        source=np.full(len(named), NameSource.PLT, np.uint8),
        start=stubs.start.take(named),
        end=stubs.end.take(named),
        name_start=name_start.take(named),
    )
    return _insert(table, rows)


def _insert(table: SymbolTable, rows: _ExtraRows) -> SymbolTable:
    """Add rows to a table, except where one already starts at their address."""
    if not len(rows.start):
        return table
    start, first = np.unique(rows.start, return_index=True)
    at = np.searchsorted(table.start, start)
    fresh = np.ones(len(start), np.bool_)
    inside = np.flatnonzero(at < len(table))
    fresh[inside] = table.start.take(at.take(inside)) != start.take(inside)
    start, first, at = start[fresh], first[fresh], at[fresh]
    source, name_start = rows.source.take(first), rows.name_start.take(first)

    def optional(
        column: NDArray[np.int64] | None, added: NDArray[np.int64] | None
    ) -> NDArray[np.int64] | None:
        if column is None:
            return None
        return np.insert(column, at, 0 if added is None else added.take(first))

    return replace(
        table,
        start=np.insert(table.start, at, start),
        end=np.insert(table.end, at, rows.end.take(first)),
        name_start=np.insert(table.name_start, at, name_start),
        is_global=np.insert(table.is_global, at, source == NameSource.PLT),
        source=np.insert(table.source, at, source),
        alias_row=table.alias_row + np.searchsorted(at, table.alias_row, side="right"),
        next_name_start=optional(table.next_name_start, rows.next_name_start),
        fn_number=optional(table.fn_number, rows.fn_number),
        fn_count=optional(table.fn_count, rows.fn_count),
    )


class _CodeSymbols(Record, eq=False):
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


_NO_SYMBOLS = _CodeSymbols(
    start=np.zeros(0, np.uint64),
    end=np.zeros(0, np.uint64),
    limit=np.zeros(0, np.uint64),
    name_start=np.zeros(0, np.int64),
    is_global=np.zeros(0, np.bool_),
    source=np.zeros(0, np.uint8),
    grade=np.zeros(0, np.int64),
)


def _select_code(
    image: ElfImage, symbols: ElfSymbols, source: NameSource, name_base: int
) -> _CodeSymbols:
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
    if image.machine == elf_layout.EM_ARM:
        start &= ~(kind == elf_layout.STT_FUNC).astype(np.uint64)  # bit 0 of a function says Thumb
    section_start = sections["addr"].take(section)
    section_size = sections["size"].take(section)
    in_section = start - section_start < section_size
    binding = symbols.binding.take(row)
    grade = np.zeros(len(row), np.int64)
    for fault in (
        size == 0,
        kind == elf_layout.STT_NOTYPE,
        binding == elf_layout.STB_WEAK,
        binding != elf_layout.STB_GLOBAL,
    ):
        grade = grade << 1 | fault
    return _CodeSymbols(
        start=start,
        end=start + size,
        limit=np.where(in_section, section_start + section_size, np.uint64(0)),
        name_start=symbols.name.take(row).astype(np.int64) + name_base,
        is_global=binding != elf_layout.STB_LOCAL,
        source=np.full(len(row), source, np.uint8),
        grade=grade,
    )


def _build_code_table(strings: bytes, parts: list[_CodeSymbols]) -> SymbolTable:
    """Make one table of several selections, whose names lie in one text."""
    parts = [_NO_SYMBOLS, *parts]
    symbols = _CodeSymbols(
        **{
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in field_names(_CodeSymbols)
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
    is_code[:-1] = (image.sections["flags"] & elf_layout.SHF_EXECINSTR) != 0
    function = (kind == elf_layout.STT_FUNC) | (kind == elf_layout.STT_GNU_IFUNC)
    hidden = (visibility == elf_layout.STV_HIDDEN) | (visibility == elf_layout.STV_INTERNAL)
    other = (kind == elf_layout.STT_OBJECT) | ((kind == elf_layout.STT_NOTYPE) & ~hidden)
    wanted: NDArray[np.bool_] = function | (other & is_code.take(section))
    wanted &= section > elf_layout.SHN_UNDEF
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
        if image.machine == elf_layout.EM_RISCV:
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
