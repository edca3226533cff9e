"""An ELF image, and the debug file that belongs to it → its `SymbolTable`.

The best source that has code in it is used: .symtab of the debug file, .symtab of the image,
.dynsym with .gnu_debugdata, .dynsym with brackets, which .eh_frame cuts at function bounds. Stubs
of the procedure linkage table, which no symbol table names, are added to each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.elf.image import ElfImage
from prospect.elf.plt import read_plt
from prospect.elf.symbols import ElfSymbols, read_symbols, read_without_sections
from prospect.errors import ElfError
from prospect.profile.naming import NameSource
from prospect.records import Record, replace
from prospect.symbols.images.brackets import cut_brackets, find_brackets
from prospect.symbols.images.code_symbols import CodeSymbols, build_code_table, select_code
from prospect.symbols.images.function_bounds import find_function_bounds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.symbols.images.function_bounds import FunctionBounds
    from prospect.symbols.table import SymbolTable

_MINI_DEBUG_LIMIT_BYTES = 64 << 20
_LZMA_MEMORY_LIMIT_BYTES = 128 << 20


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
        debug_source: what names from the debug file are said to come from.

    Returns:
        The table, by SVMA; empty for images of which no code is known.
    """
    if len(image.sections):
        dynamic = read_symbols(image, b".dynsym")
    else:
        image, dynamic = read_without_sections(image)
    full = _read_full(image, debug_image, debug_source)
    # A NUL after each string table is the empty name, and ends a last name that lacks its own.
    own_strings = full[0].strings if full else b""
    dynamic_strings = dynamic.strings if dynamic else b""
    strings = b"".join((own_strings, b"\0", dynamic_strings, b"\0"))
    empty_name, dynamic_base = len(own_strings), len(own_strings) + 1

    parts = [full[1]] if full else []
    bounds = None if full else find_function_bounds(image)
    if dynamic and (not full or full[1].source[0] == NameSource.MINI_DEBUG):
        exported = select_code(image, dynamic, NameSource.DYNSYM, dynamic_base)
        parts.append(_bounded(exported, bounds))
    table = build_code_table(strings, parts)
    named = table
    if bounds is not None:
        named = _add_brackets(image, table, bounds, empty_name)
        named = _add_nameless(named, bounds, empty_name)
    return _add_stubs(image, dynamic, dynamic_base, named, functions=table)


def _bounded(exported: CodeSymbols, bounds: FunctionBounds | None) -> CodeSymbols:
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
) -> tuple[ElfSymbols, CodeSymbols] | None:
    """Read the best table that has local symbols too, and select what names code."""
    for source in (debug_source, NameSource.SYMTAB, NameSource.MINI_DEBUG):
        holder = debug_image if source == debug_source else image
        if source == NameSource.MINI_DEBUG:
            holder = _unpack_mini_debug(image)
        symbols = read_symbols(holder, b".symtab") if holder else None
        if holder and symbols:
            code = select_code(holder, symbols, source, 0)
            if len(code):
                return symbols, code
    return None


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
    # A slot that a resolver fills is named by the IFUNC symbol that stands at the resolver.
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
    start, first = np.unique(rows.start, return_index=True)
    fresh = ~np.isin(start, table.start)
    start, first = start[fresh], first[fresh]
    at = np.searchsorted(table.start, start)
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
