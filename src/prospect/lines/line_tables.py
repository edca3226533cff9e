"""Addresses in code that no function of the DWARF covers → their lines, from the line tables.

With -g1, Clang describes only functions with inlined calls, and assemblers may describe none. The
image has the line table of a split unit even if its other file is missing. The library that reads
DWARF returns lines of described functions only. So it gets an ELF file in which each of these units
is one function without a name. Only units with samples are read.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.protobuf_fields import encode_varint
from prospect.columns.sorting import distinct
from prospect.files.rights import is_trusted
from prospect.lines import dwarf
from prospect.lines.conversion import convert
from prospect.lines.debug_info import load_address
from prospect.lines.dwarf import (
    Abbreviation,
    DwarfError,
    elf_of_sections,
    encode_abbreviation,
    line_table,
    section,
)
from prospect.lines.lines_limits import LARGEST_SECTION_BYTES, MOST_RANGES
from prospect.lines.symcache import (
    Frames,
    SymCache,
    has_file,
    join_frames,
    lookup_each,
    no_frames,
    replace_frames,
)
from prospect.lines.unit_entries import UnitReader, unit_of_addresses
from prospect.records import replace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prospect.columns.array_types import I32, I64, U64, Bools, Ints
    from prospect.elf.image import ElfImage
    from prospect.lines.debug_info import BoundedReader
    from prospect.lines.unit_entries import UnitEntry

_STUBS = (b".plt", b".plt.sec", b".plt.got")  # jumps to libraries, which the linker wrote
_DW_LNE_SET_ADDRESS = 2
_UNIT, _FUNCTION = 1, 2
_RANGES = (dwarf.DW_AT_RANGES, dwarf.DW_FORM_SEC_OFFSET)
_UNIT_ATTRIBUTES = (
    (dwarf.DW_AT_LOW_PC, dwarf.DW_FORM_ADDR),
    (dwarf.DW_AT_COMP_DIR, dwarf.DW_FORM_STRING),
    (dwarf.DW_AT_STMT_LIST, dwarf.DW_FORM_SEC_OFFSET),
    _RANGES,
)
_ABBREVIATIONS = (
    encode_abbreviation(_UNIT, Abbreviation(dwarf.DW_TAG_COMPILE_UNIT, True, _UNIT_ATTRIBUTES))
    + encode_abbreviation(_FUNCTION, Abbreviation(dwarf.DW_TAG_SUBPROGRAM, False, (_RANGES,)))
    + b"\0"
)


class LineTables:
    """The line tables of one image.

    Args:
        holder: the image or debug file with the tables.
        speaks_for: the user whose rights the holder's paths get.
        reader: reads other users' files.

    Attributes:
        speaks_for: the same.
    """

    def __init__(self, holder: ElfImage, speaks_for: int, reader: BoundedReader) -> None:
        self._holder = holder
        self.speaks_for = speaks_for
        self._reader = reader
        self._load_address = load_address(holder)
        self._units: list[UnitEntry] | None = None
        self._contents: dict[int, bytes | None] = {}

    @property
    def has_units(self) -> bool:
        """Whether any unit has a table.

        Raises:
            CostlyError: there is no memory for the image's packed sections.
        """
        return bool(self._known_units())

    def fill(self, frames: Frames, svma: U64) -> tuple[Frames, bool]:
        """Give frames without a file the file and line of their address, if a table has it.

        Args:
            frames: those of the addresses.
            svma: u64[n].

        Returns:
            All frames, and whether all tables for missing lines could be read.

        Raises:
            CostlyError: as for `has_units`.
        """
        bare = np.flatnonzero(~has_file(frames))
        bare = bare[~self._is_stub(svma.take(bare))]
        if not len(bare):
            return frames, True
        unit_of = unit_of_addresses(self._known_units(), svma.take(bare))
        is_inside = unit_of >= 0
        bare, unit_of = bare[is_inside], unit_of[is_inside]
        units = distinct(unit_of).tolist()
        self._read([unit for unit in units if unit not in self._contents])
        found = self._look_up(svma.take(bare), unit_of)
        rows = np.flatnonzero(has_file(found))
        line_of = found.start[rows]
        whole = replace_frames(
            frames,
            bare.take(rows),
            replace(
                found,
                start=np.arange(len(rows) + 1, dtype=np.int64),
                name_index=_outermost_names(frames, bare.take(rows)),
                file_index=found.file_index.take(line_of),
                line=found.line.take(line_of),
                names=frames.names,
            ),
        )
        return whole, all(self._contents[unit] is not None for unit in units)

    def _is_stub(self, svma: U64) -> Bools:
        """Return bool[n] which addresses are in stubs, which have no lines."""
        is_stub = np.zeros(len(svma), np.bool_)
        for name in _STUBS:
            for section_row in self._holder.find_sections(name):
                start, size = (self._holder.sections[section_row][key] for key in ("addr", "size"))
                is_stub |= (svma >= start) & (svma - start < size)
        return is_stub

    def _known_units(self) -> list[UnitEntry]:
        if self._units is None:
            units = UnitReader(self._holder).units()
            self._units = [unit for unit in units if unit.line_offset >= 0 and len(unit.ranges)]
        return self._units

    def _read(self, rows: list[int]) -> None:
        """Read the tables of units, all at once."""
        if not rows:
            return
        known = self._known_units()
        units = [known[row] for row in rows]
        is_ours = is_trusted(self.speaks_for)
        # Another user's file is copied twice before it is read.
        most_bytes = LARGEST_SECTION_BYTES if is_ours else self._reader.left_bytes // 4
        try:
            whole = _functions_of(self._holder, units, self._load_address, most_bytes)
        except (DwarfError, OverflowError):
            made = None
        else:
            made = convert(whole) if is_ours else self._reader.convert(whole, self.speaks_for)
        self._contents.update(dict.fromkeys(rows, made))

    def _look_up(self, svma: U64, unit_of: I64) -> Frames:
        """Find the frames of addresses in units that were read."""
        content_of = [self._contents[unit] for unit in unit_of.tolist()]
        pieces = []
        for content in {id(one): one for one in content_of if one is not None}.values():
            rows = np.flatnonzero([one is content for one in content_of])
            address = svma.take(rows) - np.uint64(self._load_address)
            symcache = SymCache.parse(content)
            found = symcache.lookup(address) if symcache else lookup_each(content, address)
            pieces.append((rows, found))
        return join_frames(len(svma), pieces) if pieces else no_frames(len(svma))


def _outermost_names(frames: Frames, row: Ints) -> I32:
    """Return i32[n] the names of the outermost functions of addresses, -1 for none."""
    start = frames.start.take(row)
    is_known = frames.start.take(row + 1) > start
    names = np.full(len(row), -1, np.int32)
    names[is_known] = frames.name_index.take(start[is_known])
    return names


class _Tables:
    """Line tables of some units, each once.

    Attributes:
        content: the tables, concatenated.

    Args:
        lines: .debug_line.
        most_bytes: how much the tables may take together.
    """

    def __init__(self, lines: memoryview, most_bytes: int) -> None:
        self.content = bytearray()
        self._lines = lines
        self._most_bytes = most_bytes
        self._known: dict[tuple[int, int], tuple[int, U64]] = {}

    def add(self, unit: UnitEntry) -> tuple[int, U64]:
        """Add a unit's table; return its offset in the content, and the starts of its sequences.

        Raises:
            DwarfError: it is outside of its section, or too large.
        """
        key = unit.line_offset, unit.address_bytes
        if key not in self._known:
            table = line_table(self._lines, unit.line_offset)
            if len(self.content) + len(table) > self._most_bytes:
                raise DwarfError("too large line tables")
            self._known[key] = len(self.content), _sequences(table, unit.address_bytes)
            self.content += table
        return self._known[key]


def _sequences(table: memoryview, address_bytes: int) -> U64:
    """Return the addresses where sequences of a line table may begin, in order."""
    begins = re.finditer(bytes([0, 1 + address_bytes, _DW_LNE_SET_ADDRESS]), table)
    after = (begin.end() for begin in itertools.islice(begins, MOST_RANGES))
    addresses = {int.from_bytes(table[at : at + address_bytes], "little") for at in after}
    return np.array(sorted(addresses), np.uint64)


def _by_sequence(ranges: U64, begins: U64, most: int) -> U64:
    """Split ranges at sequences: the library takes all lines of a range from one sequence.

    Compilers begin one for each section, Go for each function. Padding between two sequences gets
    the last line of the first.

    Args:
        ranges: u64[n, 2] first address and end.
        begins: see `_sequences`. Other bytes that look like a start do no harm.
        most: the bound on ranges.

    Returns:
        u64[k, 2], the same addresses.

    Raises:
        DwarfError: there would be more.
    """
    low, high = ranges[:, 0], ranges[:, 1]
    first = np.searchsorted(begins, low, side="right")
    count = np.maximum(np.searchsorted(begins, high) - first, 0) + 1
    if count.sum() > most:
        raise DwarfError("too many ranges")
    owner = np.repeat(np.arange(len(ranges)), count)
    place = np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)
    # The piece `place` of a range begins at the sequence before `cut`, and ends at `cut`.
    cut = first.take(owner) + place
    bounds = np.append(begins, np.uint64(0))
    begin = np.where(place == 0, low.take(owner), bounds.take(cut - 1))
    end = np.where(place == count.take(owner) - 1, high.take(owner), bounds.take(cut))
    return np.stack([begin, end], axis=1)


def _functions_of(
    holder: ElfImage, units: Iterable[UnitEntry], address: int, most_bytes: int
) -> bytes:
    """Make an ELF file in which each unit is one function without a name.

    Args:
        address: the load address of the image, and of the new file.
        most_bytes: the bound on the tables and on their file names.

    Raises:
        DwarfError: a line table is outside of its section, or they are too large.
    """
    tables = _Tables(section(holder, b".debug_line"), most_bytes)
    file_names = section(holder, b".debug_line_str")
    if len(file_names) > most_bytes:
        raise DwarfError("too many names of files")
    made_units, made_ranges = bytearray(), bytearray()
    ranges_left = MOST_RANGES
    for unit in units:
        table, begins = tables.add(unit)
        pieces = _by_sequence(unit.ranges, begins, ranges_left)
        ranges_left -= len(pieces)
        size = unit.address_bytes
        ranges = len(made_ranges).to_bytes(4, "little")
        made_ranges += pieces.astype(f"<u{size}").tobytes() + bytes(2 * size)
        body = b"".join(
            [
                *(encode_varint(_UNIT), bytes(size), unit.directory, b"\0"),
                *(table.to_bytes(4, "little"), ranges),
                *(encode_varint(_FUNCTION), ranges, b"\0"),
            ]
        )
        head = b"\4\0" + bytes(4) + bytes([size])  # version 4, its abbreviations
        made_units += (len(head) + len(body)).to_bytes(4, "little") + head + body
    return elf_of_sections(
        address,
        {
            b".debug_info": bytes(made_units),
            b".debug_abbrev": _ABBREVIATIONS,
            b".debug_line": memoryview(tables.content),
            b".debug_line_str": file_names,
            b".debug_ranges": bytes(made_ranges),
        },
    )
