"""An ELF image, and its separate debug file → its `SymbolTable`.

The best source that has code in it is used: .symtab of the debug file, .symtab of the image,
.dynsym with .gnu_debugdata, .dynsym with Go's function table and with brackets, which function
bounds cut. Stubs of the procedure linkage table, which no symbol table names, are added to each.

Prospect names the same function as perf. The symbols that name code are those of
``tools/perf/util/symbol-elf.c:dso__load_sym_internal``, but data objects only in executable
sections. The choice between several at one address is that of ``symbol.c:choose_best_symbol``
(Linux 6.1; functions win over labels since Linux 6.3).

A stripped image keeps the names that it exports, without those of the static functions between
them. An address between `bsearch` and `qsort` is in the bracket `bsearch->qsort`: not a name, but
where to look. Function bounds cut it into `bsearch->qsort [fn 1 of 3]` and so on, one a function.

Bounds are from .eh_frame, in which compilers leave an entry for each function and which strip(1)
does not remove, else from .sframe. A function with a part elsewhere (``f.cold``) is two; most
hand-written code has no entry. The entry point of a glibc program leads to one of them: ``main``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from prospect.elf import elf_layout
from prospect.elf.frame_entries import read_frames
from prospect.elf.go_table import read_go_table
from prospect.elf.image import ElfImage
from prospect.elf.sframe import read_sframe
from prospect.elf.symbols import (
    PLT_SECTIONS,
    ElfSymbols,
    area_at,
    read_plt,
    read_symbols,
    read_without_sections,
)
from prospect.errors import ElfError
from prospect.profile.naming import NameSource
from prospect.records import Record, field_names, replace
from prospect.symbols.symbols_limits import (
    LARGEST_MINI_DEBUG_BYTES,
    LONGEST_COMPARED_BYTES,
    MOST_BETWEEN,
    MOST_LZMA_BYTES,
    MOST_UNDERSCORES,
)
from prospect.symbols.table import SymbolTable, build_symbol_table

if TYPE_CHECKING:
    from prospect.columns.array_types import I64, U8, U64, Bools
    from prospect.elf.go_table import GoTable


_MAPPING_SYMBOL_MACHINES = {elf_layout.EM_ARM, elf_layout.EM_AARCH64, elf_layout.EM_RISCV}
_NAMELESS = (NameSource.BOUNDS, NameSource.NO_NAME_BOUNDS)

# `_start` of glibc (sysdeps/x86_64/start.S) clears %ebp, takes the arguments, aligns the stack,
# loads %rdi with the address of main, and calls __libc_start_main, which does not return: hlt.
_START_X86_64 = re.compile(
    rb"\x31\xed\x49\x89\xd1\x5e\x48\x89\xe2\x48\x83\xe4\xf0\x50\x54.{0,24}?"
    rb"\x48(?:\x8d\x3d(?P<distance>.{4})|\xc7\xc7(?P<address>.{4}))"
    rb"(?:\xff\x15|\x67?\xe8).{4}\xf4",
    re.DOTALL,
)
_START_BYTES = 80


class _ExtraRows(Record, eq=False):
    """Rows that no symbol table has; columns of `SymbolTable`."""

    source: U8
    start: U64
    end: U64
    name_start: I64
    next_name_start: I64 | None = None
    fn_number: I64 | None = None
    fn_count: I64 | None = None


def read_symbol_table(
    image: ElfImage,
    debug_image: ElfImage | None = None,
    debug_source: NameSource = NameSource.DEBUG_FILE,
) -> SymbolTable:
    """Collect the symbols of an image.

    Args:
        image: the mapped image.
        debug_image: its separate debug file, as checked by the caller; used only if it has symbols
            of code.
        debug_source: the origin of the debug file's names in reports.

    Returns:
        The table, by SVMA; empty for images without known code.
    """
    full = _read_full(image, debug_image, debug_source)
    go_table = None if full else read_go_table(image)
    if len(image.sections):
        dynamic = read_symbols(image, b".dynsym")
    else:
        image, dynamic = read_without_sections(image)
    # The NUL after each string table is the empty name, and ends a last name without one.
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
    """End exported functions of unknown size at their bounds, else after their first byte.

    Static functions may follow at any distance.
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
    """Read the best table that has local symbols too, and select the symbols of code."""
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
    """Return the functions of Go's table, whose names begin the text of the symbol table."""
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
    """Unpack .gnu_debugdata; None if there is none or it cannot be read."""
    packed = image.section_data(image.find_section(b".gnu_debugdata"))
    if not len(packed):
        return None
    import lzma  # noqa: PLC0415 - few images have such a section

    try:
        unpacker = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MOST_LZMA_BYTES)
        return ElfImage.parse(unpacker.decompress(packed, LARGEST_MINI_DEBUG_BYTES))
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
    """Add the functions of sections without any symbol: they have bounds only."""
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
    # The IFUNC symbol at the resolver names the slot that it fills.
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

    def optional(column: I64 | None, added: I64 | None) -> I64 | None:
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
    """Symbols of code; the columns of `build_symbol_table`, and i64[n] grades, lowest best."""

    start: U64
    end: U64
    limit: U64
    name_start: I64
    is_global: Bools
    source: U8
    grade: I64

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
    """Select functions, and other symbols in executable sections.

    Args:
        symbols: .symtab or .dynsym of the image.
        name_base: offset of `symbols.strings` in the text of the table's names.
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
    """Make one table of several selections, whose names are in one text."""
    parts = [_NO_SYMBOLS, *parts]
    symbols = _CodeSymbols(
        **{
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in field_names(_CodeSymbols)
        }
    )

    def rank(rows: I64) -> I64:
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


def _names_code(image: ElfImage, symbols: ElfSymbols) -> Bools:
    kind, section, visibility = symbols.kind, symbols.section, symbols.visibility
    # The additional row, False, is for NO_SECTION (-1), such as SHN_ABS.
    is_code = np.zeros(len(image.sections) + 1, np.bool_)
    is_code[:-1] = (image.sections["flags"] & elf_layout.SHF_EXECINSTR) != 0
    function = (kind == elf_layout.STT_FUNC) | (kind == elf_layout.STT_GNU_IFUNC)
    hidden = (visibility == elf_layout.STV_HIDDEN) | (visibility == elf_layout.STV_INTERNAL)
    other = (kind == elf_layout.STT_OBJECT) | ((kind == elf_layout.STT_NOTYPE) & ~hidden)
    wanted: Bools = function | (other & is_code.take(section))
    wanted &= section > elf_layout.SHN_UNDEF
    wanted &= (symbols.name != 0) & (symbols.name < len(symbols.strings))
    return wanted


def _is_nameless(image: ElfImage, symbols: ElfSymbols, row: I64) -> Bools:
    """Return which names are empty or, as `$x` and `$d.3`, mark a range of code or data."""
    text = np.frombuffer(symbols.strings, np.uint8)
    if not len(text):
        return np.ones(len(row), np.bool_)
    start = symbols.name.take(row).astype(np.int64)
    first = text.take(start)
    nameless: Bools = first == 0
    if image.machine in _MAPPING_SYMBOL_MACHINES:
        second, third = (text.take(start + i, mode="clip") for i in (1, 2))
        ends = (third == 0) | (third == ord("."))
        if image.machine == elf_layout.EM_RISCV:
            ends |= second == ord("x")  # `$xrv64i…`: code for another set of extensions
        nameless |= (first == ord("$")) & np.isin(second, list(b"adtx")) & ends
    return nameless


def _rank(strings: bytes, name_start: I64, grade: I64) -> I64:
    """Rank by grade, then fewer leading underscores, then the longer name."""
    text = np.frombuffer(strings, np.uint8)
    ends = np.flatnonzero(text == 0)
    length = ends.take(np.searchsorted(ends, name_start), mode="clip") - name_start
    underscores = np.zeros(len(name_start), np.int64)
    for position in range(MOST_UNDERSCORES):
        leading = underscores == position
        leading &= text.take(name_start + position, mode="clip") == ord("_")
        underscores += leading
    shortness = LONGEST_COMPARED_BYTES - np.minimum(length, LONGEST_COMPARED_BYTES)
    rank: I64 = ((grade << 4 | underscores) << 16) | shortness
    return rank


class FunctionBounds(Record, eq=False):
    """Functions by rising address, disjoint.

    Attributes:
        start: u64[f] SVMA.
        end: u64[f] SVMA of the first byte after.
    """

    start: U64
    end: U64

    def __len__(self) -> int:
        return len(self.start)


def find_function_bounds(image: ElfImage) -> FunctionBounds:
    """Find the functions of an image; none if it has no readable entries."""
    frames = read_frames(image) or read_sframe(image)
    low, high = code_regions(image)
    if frames is None or not len(low):
        none = np.zeros(0, np.uint64)
        return FunctionBounds(none, none)
    # Only damaged images have several entries of one address.
    first = np.flatnonzero(np.diff(frames.start, prepend=~frames.start[:1]))
    start, end = frames.start.take(first), frames.end.take(first)
    region = np.searchsorted(low, start, side="right") - 1
    in_code = (region >= 0) & (start < high.take(np.maximum(region, 0)))
    start, end, region = start[in_code], end[in_code], region[in_code]
    following = np.append(start[1:], np.uint64(2**64 - 1))[: len(start)]
    return FunctionBounds(start, np.minimum(np.minimum(end, following), high.take(region)))


def find_main(image: ElfImage) -> int:
    """Return the SVMA of the function that glibc's entry point starts; 0 for other entry points.

    Only on x86-64: elsewhere the address of ``main`` may be in a relocation.
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


def code_regions(image: ElfImage) -> tuple[U64, U64]:
    """Return the ranges that may contain functions, rising and disjoint.

    Returns:
        u64[r] first address and u64[r] first address after, of the executable sections except the
        procedure linkage tables; of executable segments if there are no section headers.
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
    # Sections of a damaged image overlap; each then begins at the end of those before it.
    reached = np.append(np.uint64(0), np.maximum.accumulate(high)[:-1])[: len(low)]
    low = np.maximum(low, reached)
    kept = low < high
    return low[kept], high[kept]


class Brackets(Record, eq=False):
    """Ranges of code that no symbol of a table covers.

    Attributes:
        start: u64[b] SVMA.
        end: u64[b] SVMA of the first byte after.
        before: i64[b] row of the last symbol before the range in its section, or -1.
        after: i64[b] row of the next symbol in its section, or -1.
        number: i64[b] number of the function among those between the two symbols, from 1; 0 for
            bytes between functions, and if no bounds are known.
        count: i64[b] number of functions between the two symbols.
    """

    start: U64
    end: U64
    before: I64
    after: I64
    number: I64
    count: I64


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
    """Cut brackets into the functions that begin in them, and the rest.

    Leave out brackets around more than `MOST_BETWEEN` functions.
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
    kept = np.flatnonzero(count.take(of) <= MOST_BETWEEN)
    of = of.take(kept)
    return Brackets(
        start=np.concatenate((start, left_start.take(left))).take(kept),
        end=np.concatenate((end, left_end.take(left))).take(kept),
        before=whole.before.take(of),
        after=whole.after.take(of),
        number=np.concatenate((number, np.zeros(len(left), np.int64))).take(kept),
        count=count.take(of),
    )
