"""An image → the own entries of its units, and the unit of each address.

A skeleton is the part of a unit in the image while the rest is in a .dwo file, with DWARF 4 or 5.
Source: DWARF 5 standard, sections 3.1.1, 3.1.2, 2.17.3 and 7.25; for skeletons of version 4,
https://gcc.gnu.org/wiki/DebugFission.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from prospect.lines import dwarf
from prospect.lines.dwarf import DwarfError, leb128, section, string, unsigned
from prospect.lines.lines_limits import MOST_RANGES, MOST_UNIT_ABBREVIATIONS, MOST_UNITS
from prospect.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.columns.array_types import I64, U64
    from prospect.elf.image import ElfImage

_DW_RLE_OFFSET_PAIR = 4
# The operands of each kind of range: the index of an address, an address, or another number.
_DW_RLE_OPERANDS = {1: "x", 2: "xx", 3: "xn", _DW_RLE_OFFSET_PAIR: "nn", 5: "a", 6: "aa", 7: "an"}
_ADDRESS_END = (1 << 64) - 1
_ADDRESS_FORMS = (dwarf.DW_FORM_ADDR, dwarf.DW_FORM_ADDRX, dwarf.DW_FORM_GNU_ADDR_INDEX)


class UnitEntry(Record):
    """One unit as its own entry in the image describes it.

    Attributes:
        version: of DWARF, 2 to 5.
        address_bytes: 4 or 8.
        dwo_id: of a split unit; 0 for others.
        dwo_name, directory: the compiler's name of the file with the rest, and its directory.
        low_pc: the base of its ranges.
        line_offset: its line table, in .debug_line; -1 without one.
        address_base: its addresses, in .debug_addr.
        ranges_base: its ranges, in .debug_ranges of version 4.
        ranges: u64[k, 2] first address and end of each piece of its code.
    """

    version: int
    address_bytes: int
    dwo_id: int
    dwo_name: bytes
    directory: bytes
    low_pc: int
    line_offset: int
    address_base: int
    ranges_base: int
    ranges: U64


class Skeletons(Record):
    """The sections of an image that its split units need, and the units themselves."""

    lines: memoryview
    line_strings: memoryview
    addresses: memoryview
    ranges: memoryview
    units: list[UnitEntry]


def read_skeletons(image: ElfImage) -> Skeletons:
    """Read the split units of an image, except damaged ones."""
    if not image.is_64 or image.find_section(b".debug_addr") < 0:
        # Split units have their addresses there; most images have none.
        nothing = image.data[:0]
        return Skeletons(nothing, nothing, nothing, nothing, [])
    reader = UnitReader(image)
    return Skeletons(
        lines=section(image, b".debug_line"),
        line_strings=section(image, b".debug_line_str"),
        addresses=reader.addresses,
        ranges=reader.ranges,
        units=list(reader.units(only_split=True)),
    )


def unit_of_addresses(units: list[UnitEntry], svma: U64) -> I64:
    """Return i64[n] the unit of each address, -1 for none."""
    pieces = [unit.ranges for unit in units]
    bounds = np.concatenate([np.zeros((0, 2), np.uint64), *pieces])
    owner = np.repeat(np.arange(len(units)), [len(piece) for piece in pieces])
    order = np.argsort(bounds[:, 0], kind="stable")
    if not len(order):
        return np.full(len(svma), -1, np.int64)
    at = np.searchsorted(bounds[order, 0], svma, side="right") - 1
    piece = order.take(np.maximum(at, 0))
    inside = (at >= 0) & (svma < bounds[piece, 1])
    return np.where(inside, owner.take(piece), -1)


class UnitReader:
    """Reads the units' own entries, except damaged ones.

    Raises:
        CostlyError: there is no memory for the image's packed sections.
    """

    def __init__(self, image: ElfImage) -> None:
        self._info = section(image, b".debug_info")
        self._abbreviations = section(image, b".debug_abbrev")
        self._strings = section(image, b".debug_str")
        self._line_strings = section(image, b".debug_line_str")
        self._range_lists = section(image, b".debug_rnglists")
        self._string_offsets = section(image, b".debug_str_offsets")
        self.addresses = section(image, b".debug_addr")
        self.ranges = section(image, b".debug_ranges")
        self._ranges_left = MOST_RANGES
        self._abbreviations_left = MOST_UNIT_ABBREVIATIONS
        self._tables: dict[tuple[int, int], dict[int, dwarf.Abbreviation]] = {}
        self._address_bytes = 8

    def units(self, *, only_split: bool = False) -> Iterator[UnitEntry]:
        """Read the units, all or only split ones."""
        for unit in itertools.islice(dwarf.units(self._info), MOST_UNITS):
            if only_split and unit.version == 5 and unit.kind != dwarf.DW_UT_SKELETON:
                continue
            try:
                found = self._entry(unit)
            except DwarfError:
                continue
            if found.dwo_id or not only_split:
                yield found

    def _table(self, unit: dwarf.Unit) -> dict[int, dwarf.Abbreviation]:
        """Read a table of abbreviations up to that of the unit's own entry."""
        code, _ = leb128(self._info, unit.dies)
        key = unit.abbreviations, code
        if key not in self._tables:
            table, _ = dwarf.abbreviations(
                self._abbreviations, unit.abbreviations, code, self._abbreviations_left
            )
            self._abbreviations_left -= sum(1 + len(one.attributes) for one in table.values())
            self._tables[key] = {code: table[code]} if code in table else {}
        return self._tables[key]

    def _entry(self, unit: dwarf.Unit) -> UnitEntry:
        _, values, _ = dwarf.first_entry(self._info, unit, self._table(unit))
        self._address_bytes = unit.address_bytes
        is_5 = unit.version == 5
        numbers = {
            name: dwarf.number(self._info, position, form)
            for name, (form, position) in values.items()
        }
        address_base = numbers.get(dwarf.DW_AT_ADDR_BASE if is_5 else dwarf.DW_AT_GNU_ADDR_BASE, 0)
        low_pc = self._address(values.get(dwarf.DW_AT_LOW_PC), address_base)
        string_base = numbers.get(dwarf.DW_AT_STR_OFFSETS_BASE, 8 if is_5 else 0)
        name = values.get(dwarf.DW_AT_DWO_NAME if is_5 else dwarf.DW_AT_GNU_DWO_NAME)
        return UnitEntry(
            version=unit.version,
            address_bytes=unit.address_bytes,
            dwo_id=unit.dwo_id if is_5 else numbers.get(dwarf.DW_AT_GNU_DWO_ID, 0),
            dwo_name=self._text(name, string_base),
            directory=self._text(values.get(dwarf.DW_AT_COMP_DIR), string_base),
            low_pc=low_pc,
            line_offset=numbers.get(dwarf.DW_AT_STMT_LIST, -1),
            address_base=address_base,
            ranges_base=numbers.get(dwarf.DW_AT_GNU_RANGES_BASE, 0),
            ranges=self._unit_ranges(unit, values, numbers, low_pc, address_base),
        )

    def _address(self, value: tuple[int, int] | None, base: int) -> int:
        if value is None:
            return 0
        form, position = value
        if form == dwarf.DW_FORM_ADDR:
            return unsigned(self._info, position, self._address_bytes)
        return self._indexed(base, dwarf.number(self._info, position, form))

    def _indexed(self, base: int, index: int) -> int:
        size = self._address_bytes
        return unsigned(self.addresses, base + size * index, size)

    def _text(self, value: tuple[int, int] | None, base: int) -> bytes:
        if value is None:
            return b""
        form, position = value
        if form == dwarf.DW_FORM_STRING:
            return string(self._info, position)
        number = dwarf.number(self._info, position, form)
        if form == dwarf.DW_FORM_LINE_STRP:
            return string(self._line_strings, number)
        if form != dwarf.DW_FORM_STRP:  # an index
            number = unsigned(self._string_offsets, base + 4 * number, 4)
        return string(self._strings, number)

    def _unit_ranges(
        self,
        unit: dwarf.Unit,
        values: dict[int, tuple[int, int]],
        numbers: dict[int, int],
        low_pc: int,
        address_base: int,
    ) -> U64:
        pairs: list[tuple[int, int]] = []
        if dwarf.DW_AT_RANGES in values:
            start = numbers[dwarf.DW_AT_RANGES]
            if unit.version == 5:
                if values[dwarf.DW_AT_RANGES][0] != dwarf.DW_FORM_SEC_OFFSET:
                    base = numbers.get(dwarf.DW_AT_RNGLISTS_BASE, 12)
                    start = base + unsigned(self._range_lists, base + 4 * start, 4)
                pairs = self._range_list(start, low_pc, address_base)
            else:
                pairs = self._old_ranges(start, low_pc)
        elif dwarf.DW_AT_HIGH_PC in values:
            high = low_pc + numbers[dwarf.DW_AT_HIGH_PC]
            if values[dwarf.DW_AT_HIGH_PC][0] in _ADDRESS_FORMS:
                high = self._address(values[dwarf.DW_AT_HIGH_PC], address_base)
            pairs = [(low_pc, high)]
        kept = [(low, high) for low, high in pairs if 0 < low < high <= _ADDRESS_END]
        return np.array(kept, np.uint64).reshape(-1, 2)

    def _old_ranges(self, position: int, base: int) -> list[tuple[int, int]]:
        size = self._address_bytes
        pairs: list[tuple[int, int]] = []
        while True:
            self._count_range()
            low = unsigned(self.ranges, position, size)
            high = unsigned(self.ranges, position + size, size)
            position += 2 * size
            if low == (1 << 8 * size) - 1:
                base = high
            elif low == high == 0:
                break
            else:
                pairs.append((base + low, base + high))
        return pairs

    def _range_list(self, position: int, base: int, address_base: int) -> list[tuple[int, int]]:
        data = self._range_lists
        pairs: list[tuple[int, int]] = []
        while kind := unsigned(data, position, 1):
            if kind not in _DW_RLE_OPERANDS:
                raise DwarfError("an unknown kind of range")
            position += 1
            numbers = []
            for operand in _DW_RLE_OPERANDS[kind]:
                if operand == "a":
                    size = self._address_bytes
                    number, position = unsigned(data, position, size), position + size
                else:
                    number, position = leb128(data, position)
                is_index = operand == "x"
                numbers.append(self._indexed(address_base, number) if is_index else number)
            self._count_range()
            if len(numbers) == 1:
                base = numbers[0]
            elif kind == _DW_RLE_OFFSET_PAIR:
                pairs.append((base + numbers[0], base + numbers[1]))
            else:
                is_length = _DW_RLE_OPERANDS[kind][1] == "n"
                pairs.append((numbers[0], numbers[1] + (numbers[0] if is_length else 0)))
        return pairs

    def _count_range(self) -> None:
        # Damaged units may share one long list, so the bound is for all of them together.
        self._ranges_left -= 1
        if self._ranges_left < 0:
            raise DwarfError("too many ranges")
