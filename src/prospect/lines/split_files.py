"""A split unit → the file that has the rest of it, and its sections there.

The file is a .dwo file or a .dwp package. It is opened as all files that others may control, and
believed only if it has the id of the unit. Source: DWARF 5 standard, section 7.3.5; of packages of
version 2, https://gcc.gnu.org/wiki/DebugFissionDWP.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import struct
from typing import TYPE_CHECKING

import numpy as np

from prospect.elf.image import ElfImage
from prospect.errors import ElfError
from prospect.files.budget import CostlyError
from prospect.files.named_files import open_named
from prospect.files.untrusted_open import OWN_ROOT, OpenFile
from prospect.lines import dwarf
from prospect.lines.sections import Sections
from prospect.profile.naming import NameSource
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prospect.lines.split_units import SplitUnit

_LARGEST_FILE_BYTES = 1 << 30
_INFO, _ABBREVIATIONS, _STRING_OFFSETS, _RANGE_LISTS = 1, 3, 6, 8  # DW_SECT_*
_INDEX_HEADER = struct.Struct("<IIII")  # version (two bytes in 5), columns, units, slots
_MOST_COLUMNS = 16
# Units of one .dwo file: there are several where a program was optimised as a whole.
_MOST_UNITS = 64
# .debug_str_offsets and .debug_rnglists of version 5 begin with a header.
_STRING_OFFSETS_HEADER, _RANGE_LISTS_HEADER = 8, 12


class UnitSections(NamedTuple):
    """One unit's part of each section of a .dwo file or package.

    Attributes:
        unit: its header; offsets count from the beginning of `info`.
        info, abbreviations, string_offsets, range_lists, strings: without ".dwo" in their names.
        string_offsets_base, range_lists_base: where the tables that indexes mean begin.
        size: of the file, and `owner`: whose it is.
        speaks_for: see `OpenFile`.
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
        image: where the image was opened.
        named_by: the user whose word the names of the files are.
    """

    def __init__(self, image: OpenFile, named_by: int) -> None:
        self._image_path = image.path
        self._root = image.root
        self._named_by = named_by
        self._package: _Opened | NameSource | None = None
        self._last_path = b""
        self._last: _Opened | NameSource | None = None

    def find(self, unit: SplitUnit) -> UnitSections | None:
        """Find a unit's sections, None if no file has them.

        Raises:
            CostlyError: a file that may have them is too big for what is left of the memory that
                other users' files may take.
        """
        is_costly = False
        for path in self._paths(unit):
            opened = self._last_opened(path)
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

    def let_go(self) -> None:
        """Close what is open, which takes memory that other files may need."""
        self._package = self._last = None
        self._last_path = b""

    def _paths(self, unit: SplitUnit) -> Iterator[bytes]:
        """Give the places where a unit's file may lie: where it was compiled, or by the image."""
        if not unit.dwo_name or b"\0" in unit.dwo_name:
            return
        compiled = os.path.join(unit.directory, unit.dwo_name)  # noqa: PTH118 - bytes
        if compiled.startswith(b"/"):
            yield compiled
        beside = os.path.dirname(self._image_path)  # noqa: PTH120 - bytes
        yield beside + b"/" + unit.dwo_name.rpartition(b"/")[2]

    def _last_opened(self, path: bytes) -> _Opened | NameSource | None:
        """Open a file, of which other units may be asked for next."""
        if path != self._last_path:
            self._last, self._last_path = None, path
            self._last = self._open(path)
        return self._last

    def _open(self, path: bytes) -> _Opened | NameSource:
        """Open a file in the image's own root, else in ours."""
        reason = NameSource.NO_FILE
        for root in dict.fromkeys((self._root, OWN_ROOT)):
            file = open_named(path, self._named_by, root=root, largest_bytes=_LARGEST_FILE_BYTES)
            if isinstance(file, OpenFile):
                with contextlib.suppress(ElfError):
                    return _Opened(file, Sections(ElfImage.parse(file.data)))
            elif file == NameSource.NO_BUDGET:
                reason = file
        return reason


def _in_object(file: OpenFile, section: Sections, wanted: SplitUnit) -> UnitSections | None:
    """Take a unit of a .dwo file, which has one, or some that were optimised together."""
    return _unit_in(file, section, wanted, lambda name, _: section(name))


def _in_package(file: OpenFile, section: Sections, wanted: SplitUnit) -> UnitSections | None:
    """Take a unit of a package by its index."""
    parts = _contributions(section(b".debug_cu_index"), wanted.dwo_id)

    def part(name: bytes, column: int) -> memoryview:
        start, size = parts.get(column, (0, 0))
        whole = section(name)
        return whole[start : start + size] if start + size <= len(whole) else whole[:0]

    return _unit_in(file, section, wanted, part)


def _unit_in(
    file: OpenFile, section: Sections, wanted: SplitUnit, part: Callable[[bytes, int], memoryview]
) -> UnitSections | None:
    """Take a unit; `part` gives what is its own of a section, by name and DW_SECT_*."""
    info = part(b".debug_info.dwo", _INFO)
    abbreviations = part(b".debug_abbrev.dwo", _ABBREVIATIONS)
    for unit in itertools.islice(dwarf.units(info), _MOST_UNITS):
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
    """Return which unit it is; None for one that is no split unit, or is damaged."""
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
    """Return by DW_SECT_* where a unit's part of a section begins, and its size."""
    if len(index) < _INDEX_HEADER.size:
        return {}
    version, columns, rows, slots = _INDEX_HEADER.unpack_from(index)
    size = _INDEX_HEADER.size + 12 * slots + 4 * columns * (2 * rows + 1)
    if version & 0xFFFF not in (2, 5) or columns > _MOST_COLUMNS or size > len(index):
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
