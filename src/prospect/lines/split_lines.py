"""Addresses of an image with split debug information → their frames.

The image has skeletons of the units. Only units with samples are read, each once, and the disk
cache keeps the result under the unit's id. The library that reads DWARF does not read split units:
it gets an ELF file of that unit alone, as if it had never been split. The unit's own entry is
rewritten with the data in the image. All others are copied, with adjusted references. No size or
offset is trusted.

The rest of a unit is in an untrusted .dwo file or .dwp package, which counts only if it has the id
of the unit. Source: DWARF 5 standard, sections 3.1, 7.3 and 7.5;
https://gcc.gnu.org/wiki/DebugFissionDWP for packages of version 2.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import struct
from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.protobuf_fields import encode_varint
from prospect.columns.sorting import distinct
from prospect.elf.image import ElfImage
from prospect.errors import ElfError
from prospect.files.budget import CostlyError
from prospect.files.rights import is_trusted
from prospect.files.untrusted_open import OWN_ROOT, OpenFile, open_named
from prospect.lines import dwarf
from prospect.lines.conversion import convert
from prospect.lines.debug_info import Lack, load_address
from prospect.lines.dwarf import DwarfError, Sections, elf_of_sections, line_table, unsigned
from prospect.lines.lines_limits import LARGEST_SPLIT_BYTES, MOST_COLUMNS, MOST_SPLIT_UNITS
from prospect.lines.scoped_names import ScopedNames
from prospect.lines.symcache import VERSION, Frames, SymCache, join_frames, lookup_each
from prospect.lines.unit_entries import read_skeletons, unit_of_addresses
from prospect.profile.naming import NameSource
from prospect.records import NamedTuple
from prospect.symbols.table_cache import LINES_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prospect.columns.array_types import U64, Bools
    from prospect.lines.debug_info import BoundedReader
    from prospect.lines.scoped_names import SearchBudget
    from prospect.lines.unit_entries import Skeletons, UnitEntry
    from prospect.symbols.table_cache import SymbolCache


# Version of the ELF files of units; cached results of another version are not used.
_MADE_WHOLE = 2
_ADDRESSES_HEADER = 8
_NUMBER = struct.Struct("<I")
_MOVED = 0  # a reference within the unit, of 4 bytes
_RANGES = 1  # an offset of DWARF 4's .debug_ranges, of 4 bytes
_OTHER = 2
_UNMOVABLE = frozenset(
    {dwarf.DW_FORM_REF1, dwarf.DW_FORM_REF2, dwarf.DW_FORM_REF8, dwarf.DW_FORM_REF_UDATA}
)

_INFO, _ABBREVIATIONS, _STRING_OFFSETS, _RANGE_LISTS = 1, 3, 6, 8  # DW_SECT_*
_INDEX_HEADER = struct.Struct("<IIII")  # version (two bytes in 5), columns, units, slots
# .debug_str_offsets and .debug_rnglists of version 5 begin with a header.
_STRING_OFFSETS_HEADER, _RANGE_LISTS_HEADER = 8, 12


class SplitLines:
    """The split units of one image.

    Attributes:
        speakers: the users whose rights the paths in the frames get.

    Args:
        holder: the image or debug file with the skeletons.
        file: the image's file.
        speaks_for: the user whose rights the holder's paths get.
        cache: the disk cache, if any.
        key: of the image in the cache; None if nothing identifies it.
        reader: reads other users' files.

    Raises:
        CostlyError: there is no memory for the image's packed sections.
    """

    def __init__(  # noqa: PLR0913 - a keyword for each
        self,
        holder: ElfImage,
        file: OpenFile,
        *,
        speaks_for: int,
        cache: SymbolCache | None,
        key: str | None,
        reader: BoundedReader,
    ) -> None:
        self._load_address = load_address(holder)
        self._skeletons = read_skeletons(holder)
        self._files = SplitFiles(file, speaks_for)
        self.speakers = {speaks_for}
        self._cache = cache if key else None
        self._key = key
        self._reader = reader
        self._contents: dict[int, bytes | memoryview | Lack] = {}

    @property
    def has_units(self) -> bool:
        """Whether there are split units."""
        return bool(self._skeletons.units)

    def frames(
        self, svma: U64, name_budget: SearchBudget
    ) -> tuple[Frames, Bools, dict[Lack, set[bytes]]]:
        """Find the frames of addresses.

        Args:
            svma: u64[n].
            name_budget: bounds the search for qualified names.

        Returns:
            Frames; bool[n] which addresses are in a unit that could be read; and the names of the
            files that were not read, by the reason.
        """
        with contextlib.closing(self._files):
            return self._frames(svma, name_budget)

    def _frames(
        self, svma: U64, name_budget: SearchBudget
    ) -> tuple[Frames, Bools, dict[Lack, set[bytes]]]:
        unit_of = unit_of_addresses(self._skeletons.units, svma)
        pieces = []
        is_known = np.zeros(len(svma), np.bool_)
        missing: dict[Lack, set[bytes]] = {}
        for unit in distinct(unit_of[unit_of >= 0]).tolist():
            rows = np.flatnonzero(unit_of == unit)
            content = self._content(unit)
            if isinstance(content, Lack):
                missing.setdefault(content, set()).add(self._skeletons.units[unit].dwo_name)
                continue
            is_known[rows] = True
            address = svma.take(rows) - np.uint64(self._load_address)
            symcache = SymCache.parse(content)
            if symcache:
                found = symcache.lookup(
                    address, functools.partial(self._qualified, unit, name_budget)
                )
            else:
                found = lookup_each(content, address)
            pieces.append((rows, found))
        return join_frames(len(svma), pieces), is_known, missing

    def _content(self, unit: int) -> bytes | memoryview | Lack:
        if unit not in self._contents:
            try:
                self._contents[unit] = self._read(unit)
            except CostlyError:
                self._contents[unit] = Lack.MEMORY
        return self._contents[unit]

    def _qualified(self, row: int, budget: SearchBudget, names: set[bytes]) -> dict[bytes, bytes]:
        """Find the qualified names of functions of a unit."""
        unit = self._skeletons.units[row]
        try:
            rest = self._files.find(unit)
        except CostlyError:
            return {}
        whole = whole_unit(self._skeletons, unit, rest, self._load_address) if rest else None
        if whole is None:
            return {}
        image = ElfImage.parse(memoryview(whole))
        return ScopedNames(image, budget, are_indexed=True).qualified(names)

    def _read(self, row: int) -> bytes | memoryview | Lack:
        """Read a unit's symcache from the disk cache, or else make it and keep it there.

        Raises:
            CostlyError: there is no memory for its file.
        """
        unit = self._skeletons.units[row]
        rest = self._files.find(unit)
        if rest is None:
            return Lack.FILE
        self.speakers.add(rest.speaks_for)
        of_unit = f"dwo{_MADE_WHOLE}-{unit.dwo_id:x}-{rest.size:x}-{rest.owner}"
        key = f"{self._key}+{of_unit}+symcache{VERSION}"
        kept = self._cache.load_bytes(key, LINES_SUFFIX) if self._cache else None
        if kept is not None:
            return kept
        whole = whole_unit(self._skeletons, unit, rest, self._load_address)
        if whole is None:
            return Lack.FILE
        strangers = [uid for uid in self.speakers if not is_trusted(uid)]
        made = self._reader.convert(whole, min(strangers)) if strangers else convert(whole)
        if made is None:
            return Lack.TIME if strangers else Lack.FILE
        if self._cache:
            self._cache.store_bytes(key, LINES_SUFFIX, made)
        return made


def whole_unit(
    skeletons: Skeletons, unit: UnitEntry, rest: UnitSections, load_address: int
) -> bytes | None:
    """Make an ELF file with the debug information of one unit; None if it is damaged.

    Args:
        skeletons: sections of the image.
        unit: the unit in the image.
        rest: the same unit in its own file.
        load_address: of the image, and of the new file.
    """
    try:
        info, abbreviations = _joined(unit, rest)
        return elf_of_sections(
            load_address,
            {
                b".debug_info": info,
                b".debug_abbrev": abbreviations,
                b".debug_line": line_table(skeletons.lines, unit.line_offset),
                b".debug_line_str": skeletons.line_strings,
                b".debug_addr": _addresses(skeletons.addresses, unit),
                b".debug_ranges": skeletons.ranges if unit.version == 4 else b"",
                b".debug_rnglists": rest.range_lists,
                b".debug_str": rest.strings,
                b".debug_str_offsets": rest.string_offsets,
            },
        )
    except (DwarfError, struct.error, OverflowError):
        return None


def _joined(unit: UnitEntry, rest: UnitSections) -> tuple[bytes, bytes]:
    """Return the unit with an own entry that needs no other file, and its abbreviations."""
    header = rest.unit
    if header.version != unit.version or header.address_bytes != 8:
        raise DwarfError("the two halves of a unit are of different kinds")
    table, table_end = dwarf.abbreviations(rest.abbreviations, header.abbreviations)
    own, known, children = dwarf.first_entry(rest.info, header, table)
    code = max(table) + 1
    attributes, values = _own_entry(unit, rest, known.get(dwarf.DW_AT_LANGUAGE))
    entry = encode_varint(code) + values
    start = 12 if unit.version == 5 else 11
    body = bytearray(rest.info[children : header.end])
    _move(body, table, start + len(entry) - (children - header.offset), unit)
    length = (start - 4 + len(entry) + len(body)).to_bytes(4, "little")
    if unit.version == 5:
        head = length + struct.pack("<HBBI", 5, dwarf.DW_UT_COMPILE, 8, 0)
    else:
        head = length + struct.pack("<HIB", 4, 0, 8)
    declared = dwarf.Abbreviation(dwarf.DW_TAG_COMPILE_UNIT, own.has_children, attributes)
    old = bytes(rest.abbreviations[header.abbreviations : table_end])
    return head + entry + bytes(body), dwarf.encode_abbreviation(code, declared) + old


def _own_entry(
    unit: UnitEntry, rest: UnitSections, language: tuple[int, int] | None
) -> tuple[tuple[tuple[int, int], ...], bytes]:
    """Return the attributes of the unit's entry, as in an abbreviation, and their values.

    `language` is form and position of DW_AT_language in the unit's own file.
    """
    is_5 = unit.version == 5
    offset = dwarf.DW_FORM_SEC_OFFSET
    address_base = dwarf.DW_AT_ADDR_BASE if is_5 else dwarf.DW_AT_GNU_ADDR_BASE
    fields = [
        (dwarf.DW_AT_LOW_PC, dwarf.DW_FORM_ADDR, unit.low_pc.to_bytes(8, "little")),
        (dwarf.DW_AT_COMP_DIR, dwarf.DW_FORM_STRING, unit.directory + b"\0"),
        (address_base, offset, (_ADDRESSES_HEADER if is_5 else 0).to_bytes(4, "little")),
        (dwarf.DW_AT_STR_OFFSETS_BASE, offset, rest.string_offsets_base.to_bytes(4, "little")),
    ]
    if not unit.low_pc:
        # The library takes a unit at 0 without ranges for one that the linker dropped. It does not
        # read the ranges: each function has its own.
        fields.append((dwarf.DW_AT_RANGES, offset, bytes(4)))
    if unit.line_offset >= 0:
        fields.append((dwarf.DW_AT_STMT_LIST, offset, bytes(4)))
    if is_5:
        base = rest.range_lists_base.to_bytes(4, "little")
        fields.append((dwarf.DW_AT_RNGLISTS_BASE, offset, base))
    if language:
        form, place = language
        code = unsigned(rest.info, place, min(dwarf.FIXED_FORMS.get(form, 0), 2))
        fields.append((dwarf.DW_AT_LANGUAGE, dwarf.DW_FORM_DATA2, code.to_bytes(2, "little")))
    attributes = tuple((name, form) for name, form, _ in fields)
    return attributes, b"".join(value for _, _, value in fields)


def _move(
    body: bytearray, table: dict[int, dwarf.Abbreviation], distance: int, unit: UnitEntry
) -> None:
    """Walk a unit's entries and add the distance that they moved to each reference."""
    plans: dict[int, tuple[list[tuple[int, int, int]], int]] = {}
    position, end = 0, len(body)
    while position < end:
        code = body[position]
        position += 1
        if code > 0x7F:
            code, position = dwarf.leb128(body, position - 1)
        if not code:
            continue
        if code not in plans:
            if code not in table:
                raise DwarfError("an entry without an abbreviation")
            plans[code] = _plan(table[code], unit.version)
        steps, tail = plans[code]
        for skip, kind, form in steps:
            position += skip
            if kind == _OTHER:
                position = dwarf.after_form(body, position, form, 8)
                continue
            moved = unsigned(body, position, _NUMBER.size)
            moved += distance if kind == _MOVED else unit.ranges_base
            _NUMBER.pack_into(body, position, moved)
            position += _NUMBER.size
        position += tail
    if position != end:
        raise DwarfError("the last entry is cut off")


def _plan(entry: dwarf.Abbreviation, version: int) -> tuple[list[tuple[int, int, int]], int]:
    """Return steps through an entry, and the bytes after the last one.

    A step is the bytes to skip, and the kind and form of the value after them.
    """
    steps = []
    skip = 0
    for name, form in entry.attributes:
        if form in _UNMOVABLE:
            raise DwarfError("a reference that cannot be enlarged")
        kind = _kind(name, form, version)
        if kind is None:
            skip += 8 if form == dwarf.DW_FORM_ADDR else dwarf.FIXED_FORMS[form]
        else:
            steps.append((skip, kind, form))
            skip = 0
    return steps, skip


def _kind(name: int, form: int, version: int) -> int | None:
    if form == dwarf.DW_FORM_REF4:
        return _MOVED
    if name == dwarf.DW_AT_RANGES and form == dwarf.DW_FORM_SEC_OFFSET and version == 4:
        return _RANGES
    if form in dwarf.FIXED_FORMS or form == dwarf.DW_FORM_ADDR:
        return None
    return _OTHER


def _addresses(addresses: memoryview, unit: UnitEntry) -> memoryview:
    """Return the unit's addresses, in version 5 with the header that has their number."""
    if unit.version == 4:
        return addresses[unit.address_base :]
    start = unit.address_base - _ADDRESSES_HEADER
    return addresses[start : start + 4 + unsigned(addresses, start, 4)]


class UnitSections(NamedTuple):
    """One unit's part of each section of a .dwo file or package.

    Attributes:
        unit: its header; offsets count from the start of `info`.
        info, abbreviations, string_offsets, range_lists, strings: without ".dwo" in their names.
        string_offsets_base, range_lists_base: where the tables of indexes begin.
        size: of the file.
        owner, speaks_for: see `OpenFile`.
    """

    unit: dwarf.Unit
    info: memoryview
    abbreviations: memoryview
    string_offsets: memoryview
    range_lists: memoryview
    strings: memoryview
    string_offsets_base: int
    range_lists_base: int
    size: int
    owner: int
    speaks_for: int


class _Opened(NamedTuple):
    """A file and its sections."""

    file: OpenFile
    section: Sections


class SplitFiles:
    """Finds the files of one image's split units.

    Args:
        image: the image's file.
        named_by: the user who named the files.
    """

    def __init__(self, image: OpenFile, named_by: int) -> None:
        self._image_path = image.path
        self._root = image.root
        self._named_by = named_by
        self._package: _Opened | NameSource | None = None
        self._last_path = b""
        self._last: _Opened | NameSource | None = None

    def find(self, unit: UnitEntry) -> UnitSections | None:
        """Find a unit's sections, None if no file has them.

        Raises:
            CostlyError: too little is left of the memory that other users' files may take.
        """
        is_costly = False
        for path in self._paths(unit):
            # Several units may be in one file.
            if path != self._last_path:
                self._last, self._last_path = None, path
                self._last = self._open(path)
            opened = self._last
            found = _in_object(*opened, unit) if isinstance(opened, _Opened) else None
            if found:
                return found
            is_costly |= opened == NameSource.NO_BUDGET
        if self._package is None:
            self._package = self._open(self._image_path + b".dwp")
        if isinstance(self._package, _Opened):
            return _in_package(*self._package, unit)
        if is_costly or self._package == NameSource.NO_BUDGET:
            raise CostlyError
        return None

    def close(self) -> None:
        """Close the open files, whose memory other files may need."""
        self._package = self._last = None
        self._last_path = b""

    def _paths(self, unit: UnitEntry) -> Iterator[bytes]:
        """Yield possible paths of a unit's file: the compiler's, and one next to the image."""
        if not unit.dwo_name or b"\0" in unit.dwo_name:
            return
        compiled = os.path.join(unit.directory, unit.dwo_name)  # noqa: PTH118 - bytes
        if compiled.startswith(b"/"):
            yield compiled
        directory = os.path.dirname(self._image_path)  # noqa: PTH120 - bytes
        yield directory + b"/" + unit.dwo_name.rpartition(b"/")[2]

    def _open(self, path: bytes) -> _Opened | NameSource:
        """Open a file in the image's own root, or else in ours."""
        reason = NameSource.NO_FILE
        for root in dict.fromkeys((self._root, OWN_ROOT)):
            file = open_named(path, self._named_by, root=root, largest_bytes=LARGEST_SPLIT_BYTES)
            if isinstance(file, OpenFile):
                with contextlib.suppress(ElfError):
                    return _Opened(file, Sections(ElfImage.parse(file.data)))
            elif file == NameSource.NO_BUDGET:
                reason = file
        return reason


def _in_object(file: OpenFile, section: Sections, wanted: UnitEntry) -> UnitSections | None:
    """Return a unit of a .dwo file, which has one, or several that were optimized together.

    With -fdebug-types-section, GCC puts each type into its own section before the unit's.
    """
    name_of_units = b".debug_info.dwo"
    for info in section.last(name_of_units, MOST_SPLIT_UNITS):

        def part(name: bytes, _: int, info: memoryview = info) -> memoryview:
            return info if name == name_of_units else section(name)

        if found := _unit_in(file, section, wanted, part):
            return found
    return None


def _in_package(file: OpenFile, section: Sections, wanted: UnitEntry) -> UnitSections | None:
    """Return a unit of a package by its index."""
    parts = _contributions(section(b".debug_cu_index"), wanted.dwo_id)

    def part(name: bytes, column: int) -> memoryview:
        start, size = parts.get(column, (0, 0))
        whole = section(name)
        return whole[start : start + size] if start + size <= len(whole) else whole[:0]

    return _unit_in(file, section, wanted, part)


def _unit_in(
    file: OpenFile, section: Sections, wanted: UnitEntry, part: Callable[[bytes, int], memoryview]
) -> UnitSections | None:
    """Return a unit; `part` returns its part of a section, by name and DW_SECT_*."""
    info = part(b".debug_info.dwo", _INFO)
    abbreviations = part(b".debug_abbrev.dwo", _ABBREVIATIONS)
    for unit in itertools.islice(dwarf.units(info), MOST_SPLIT_UNITS):
        if _dwo_id(unit, info, abbreviations) == wanted.dwo_id:
            return UnitSections(
                unit=unit,
                info=info,
                abbreviations=abbreviations,
                string_offsets=part(b".debug_str_offsets.dwo", _STRING_OFFSETS),
                range_lists=part(b".debug_rnglists.dwo", _RANGE_LISTS),
                strings=section(b".debug_str.dwo"),
                string_offsets_base=_STRING_OFFSETS_HEADER if unit.version == 5 else 0,
                range_lists_base=_RANGE_LISTS_HEADER,
                size=len(file.data),
                owner=file.owner,
                speaks_for=file.speaks_for,
            )
    return None


def _dwo_id(unit: dwarf.Unit, info: memoryview, abbreviations: memoryview) -> int | None:
    """Return the id of a split unit; None for a damaged or another one."""
    if unit.version == 5:
        return unit.dwo_id if unit.kind == dwarf.DW_UT_SPLIT_COMPILE else None
    try:
        code, _ = dwarf.leb128(info, unit.dies)
        table, _ = dwarf.abbreviations(abbreviations, unit.abbreviations, code)
        _, values, _ = dwarf.first_entry(info, unit, table)
        form, position = values.get(dwarf.DW_AT_GNU_DWO_ID, (0, 0))
        return dwarf.unsigned(info, position, 8) if form == dwarf.DW_FORM_DATA8 else None
    except dwarf.DwarfError:
        return None


def _contributions(index: memoryview, dwo_id: int) -> dict[int, tuple[int, int]]:
    """Return offset and size of a unit's part of each section, by DW_SECT_*."""
    if len(index) < _INDEX_HEADER.size:
        return {}
    version, columns, rows, slots = _INDEX_HEADER.unpack_from(index)
    size = _INDEX_HEADER.size + 12 * slots + 4 * columns * (2 * rows + 1)
    if version & 0xFFFF not in (2, 5) or columns > MOST_COLUMNS or size > len(index):
        return {}
    ids = np.frombuffer(index, "<u8", slots, _INDEX_HEADER.size)
    row_of = np.frombuffer(index, "<u4", slots, _INDEX_HEADER.size + 8 * slots)
    start = _INDEX_HEADER.size + 12 * slots
    table = np.frombuffer(index, "<u4", columns * (2 * rows + 1), start)
    kinds, offsets, sizes = np.split(table, [columns, columns * (rows + 1)])
    for slot in np.flatnonzero(ids == np.uint64(dwo_id)).tolist():
        row = int(row_of[slot]) - 1
        if 0 <= row < rows:
            own = slice(columns * row, columns * (row + 1))
            places = zip(offsets[own].tolist(), sizes[own].tolist(), strict=True)
            return dict(zip(kinds.tolist(), places, strict=True))
    return {}
