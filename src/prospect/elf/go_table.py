"""Go's own table of functions in an image, `.gopclntab` → its columns, stripped or not.

The Go runtime needs the table for its tracebacks, so no linker flag removes it. A header has the
offsets of five areas: names of functions, file numbers of compilation units, names of files, values
by address (`GoValues`), and the functions. The runtime's moduledata has the start address of the
code; it begins with the address of the table.

Source: ``debug/gosym/pclntab.go``, ``runtime/symtab.go``, ``runtime/runtime2.go`` and
``cmd/link/internal/ld/pcln.go`` of Go 1.16 to 1.27. The magic number changed with 1.16, 1.18 and
1.20. Go 1.26 moved inlined calls into the table, and the header no longer has the start of the
code. Tables of Go before 1.16, out of support since 2021, are not read.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.buffers import segments
from prospect.columns.sorting import distinct
from prospect.elf import elf_layout
from prospect.elf.elf_limits import (
    LONGEST_DISTANCE,
    LONGEST_NUMBER_BYTES,
    MOST_CANDIDATES,
    MOST_CONTENT_BYTES,
    MOST_GO_FUNCTIONS,
    MOST_LIST_BYTES,
    MOST_SEARCHED_SEGMENTS,
)
from prospect.elf.image import NO_ADDRESS, whole_rows
from prospect.elf.symbols import area_at, dynamic_entries
from prospect.records import NamedTuple, Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prospect.columns.array_types import I64, U8, U32, U64, Bools
    from prospect.elf.image import ElfImage

_TYPES = {
    elf_layout.EM_X86_64: elf_layout.R_X86_64_RELATIVE,
    elf_layout.EM_AARCH64: elf_layout.R_AARCH64_RELATIVE,
}


class RelativeRelocations(Record, eq=False):
    """Words into which the loader writes addresses of the image itself.

    The file may have such an address in the word too, or only in the relocation.
    Source: System V gABI, "Relocation"; R_X86_64_RELATIVE and R_AARCH64_RELATIVE of the psABIs.

    Attributes:
        place: SVMA of each word, ascending.
        value: the SVMA in it.
    """

    place: U64
    value: U64

    def applied(self, svma: U64, word: U64) -> U64:
        """Return words with the values that the loader writes.

        Args:
            svma: u64[n] their addresses.
            word: u64[n] their values in the file.
        """
        if not len(self.place):
            return word
        row = np.searchsorted(self.place, svma)
        is_filled = self.place.take(row, mode="clip") == svma
        return np.where(is_filled, self.value.take(row, mode="clip"), word)

    def places_of(self, value: int) -> U64:
        """Return the words with an address, u64[k] SVMA."""
        found: U64 = self.place[self.value == value]
        return found


def relative_relocations(image: ElfImage) -> RelativeRelocations:
    """Read the relative relocations of an image; none for 32-bit images."""
    entries = dynamic_entries(image) if image.is_64 and image.machine in _TYPES else {}
    area = area_at(image, entries.get(elf_layout.DT_RELA))[: entries.get(elf_layout.DT_RELASZ, 0)]
    table = whole_rows(area, elf_layout.RELA_64)
    if len(table):
        table = table[table["type"] == _TYPES[image.machine]]
    order = np.argsort(table["offset"], kind="stable")
    return RelativeRelocations(
        table["offset"].take(order), table["addend"].take(order).astype(np.uint64)
    )


GO_1_16, GO_1_18, GO_1_20 = 0xFFFFFFFA, 0xFFFFFFF0, 0xFFFFFFF1
"""Magic numbers, named for the version that introduced them."""

WRITES_SP, ASSEMBLY = 2, 4
"""Bits of `GoTable.flags`: the function sets the stack pointer; it is assembly."""

NO_DATA = -1
# Position-independent programs by Go before 1.26 have the second one: their table is relocated.
_SECTIONS = (b".gopclntab", b".data.rel.ro.gopclntab")
_SIGNS = (b".go.buildinfo", b".note.go.buildid")
_NOTE_OWNER, _NOTE_BUILD_ID = b"Go\0\0", 4
_HEAD_BYTES = 8
# Words of moduledata after the table's address: the names' slice, and the start of the code.
_MODULE_NAMES, _MODULE_TEXT = 1, 22
# `gofunc` is word 38 in Go 1.18, 40 from 1.20 on and 43 from 1.27 on: all words are tried.
_MODULE_WORDS = 64
_MODULE_BYTES = 8 * _MODULE_WORDS
_FIRST_TREES_WORD = 30
_CHECKED_TREES = 64
_PCDATA_INLINED, _FUNCDATA_INLINED = 2, 3


class _Layout(NamedTuple):
    """Differences between versions; sizes and places are in words of 4 bytes.

    Attributes:
        has_text_word: whether the header has a word between the counts and the offsets.
        is_relative: whether functions have offsets of 4 bytes from the start of the code, and their
            data offsets from `gofunc`; else both are pointers.
        has_start_line: whether a function has its first line.
        tree_words, tree_name, tree_call: the size of an inlined call, and the places of its name's
            offset and of the address of the call.
    """

    has_text_word: bool
    is_relative: bool
    has_start_line: bool
    tree_words: int
    tree_name: int
    tree_call: int


_LAYOUTS = {
    GO_1_16: _Layout(False, False, False, 5, 3, 4),
    GO_1_18: _Layout(True, True, False, 5, 3, 4),
    GO_1_20: _Layout(True, True, True, 4, 1, 2),
}


class GoTable(Record, eq=False):
    """The functions of a Go image; use `read_go_table`.

    Attributes:
        version: GO_1_16, GO_1_18 or GO_1_20.
        start: SVMA of each function, strictly ascending.
        end: SVMA of the first byte after.
        names: the text of function names, each ends with a NUL.
        files: the text of file names too.
        units: offsets in `files`, by compilation unit.
        words: the area of functions.
        record: the word at which the fields of each function begin, after its own start.
        module: first words of its moduledata, none if that was not found.
        ranges: begin and end in the file of the table and of moduledata.
    """

    image: ElfImage
    version: int
    start: U64
    end: U64
    names: memoryview
    files: memoryview
    units: U32
    values: GoValues
    words: U32
    record: I64
    module: U64
    ranges: tuple[tuple[int, int], ...]

    def __len__(self) -> int:
        return len(self.start)

    @cached_property
    def name(self) -> I64:
        """i64[f]: offset of each function's name in `names`, which may be too short."""
        return self._field(slice(None), 0)

    def row_of(self, svma: U64) -> I64:
        """Return the function at each address, i64[n], -1 if there is none."""
        if not len(self):
            return np.full(len(svma), -1, np.int64)
        row = np.searchsorted(self.start, svma, side="right") - 1
        return np.where((row >= 0) & (svma < self.end.take(np.maximum(row, 0))), row, -1)

    def rows_named(self, names: Sequence[bytes]) -> Iterator[tuple[int, bytes]]:
        """Yield the functions of some names, each with its name."""
        text = b"\0" + bytes(self.names)
        for name in names:
            at = text.find(b"\0" + name + b"\0")
            if at >= 0:
                yield from ((row, name) for row in np.flatnonzero(self.name == at).tolist())

    def stack_depths(self, row: I64 | slice) -> I64:
        """Return the places in `values` of functions' frame sizes, i64[r]; 0 for none."""
        return self._field(row, 3)

    def file_numbers(self, row: I64) -> I64:
        """Return the places in `values` of functions' files, i64[r]; 0 for none."""
        return self._field(row, 4)

    def line_numbers(self, row: I64) -> I64:
        """Return the places in `values` of functions' lines, i64[r]; 0 for none."""
        return self._field(row, 5)

    def unit(self, row: I64) -> I64:
        """Return the places in `units` of functions' files, i64[r]."""
        return self._field(row, 7)

    def inlined_calls(self, row: I64) -> I64:
        """Return the places in `values` of functions' inlined calls by address; 0 for none."""
        count = self._field(row, 6)
        at = self.record.take(row) + self._first_data + _PCDATA_INLINED
        return np.where(count > _PCDATA_INLINED, self._word(at), 0)

    @property
    def flags(self) -> I64:
        """Flags of each function, i64[f]; Go 1.16 has none."""
        return self._field(slice(None), self._first_data - 1) >> 8 & 0xFF

    def tree(self, row: I64) -> I64:
        """Return the addresses of the inlined calls of functions, i64[r] SVMA; NO_DATA for none."""
        if self._tree_base == NO_DATA:
            return np.full(len(row), NO_DATA, np.int64)
        offset = self._tree_offset(row)
        return np.where(offset == NO_DATA, NO_DATA, offset + self._tree_base)

    def tree_fields(self, tree: I64, index: I64) -> tuple[I64, I64]:
        """Read inlined calls.

        Args:
            tree: i64[n] the SVMA of each tree.
            index: i64[n] the number of its call, not negative.

        Returns:
            i64[n] the offset of the name in `names`, NO_DATA if nothing can be read; and i64[n]
            the distance of the call from the function's start.
        """
        form = _LAYOUTS[self.version]
        at = tree + index * (4 * form.tree_words)
        at = np.where((tree == NO_DATA) | (index >= 1 << 20), NO_DATA, at)
        name = self._read(at + 4 * form.tree_name * (at != NO_DATA))
        call = self._read(at + 4 * form.tree_call * (at != NO_DATA))
        return np.where(call == NO_DATA, NO_DATA, name), call

    def _field(self, row: I64 | slice, number: int) -> I64:
        return self._word(self.record[row] + number)

    def _word(self, at: I64) -> I64:
        """Return words of the functions' area, i64[n]; 0 beyond its end."""
        word = self.words.take(at, mode="clip").astype(np.int64)
        return np.where((at >= 0) & (at < len(self.words)), word, 0)

    @property
    def _first_data(self) -> int:
        """The first word after the fixed fields of a function."""
        return 9 + _LAYOUTS[self.version].has_start_line

    def _tree_offset(self, row: I64) -> I64:
        """Return the offsets of functions' inlined calls, i64[r]; NO_DATA for none."""
        pointers = self._field(row, self._first_data - 1) >> 24
        at = self._first_data + self._field(row, 6)
        if _LAYOUTS[self.version].is_relative:
            offset = self._word(self.record.take(row) + at + _FUNCDATA_INLINED)
            offset[offset == 0xFFFFFFFF] = NO_DATA
        else:
            size = 2 if self.image.is_64 else 1
            # The function's own start, a pointer, is before its record.
            at = self.record.take(row) + at
            at += (at & (size - 1)) + _FUNCDATA_INLINED * size
            offset = self._word(at)
            offset |= self._word(at + 1) << 32 if size == 2 else 0
            offset[offset <= 0] = NO_DATA
        return np.where(pointers > _FUNCDATA_INLINED, offset, NO_DATA)

    @cached_property
    def _tree_base(self) -> int:
        """The base of `_tree_offset`; NO_DATA if none of moduledata's addresses fits."""
        if not _LAYOUTS[self.version].is_relative:
            return 0
        row = np.flatnonzero(self.inlined_calls(np.arange(len(self))))
        row = row[self._tree_offset(row) != NO_DATA]
        row = row[:: max(len(row) // _CHECKED_TREES, 1)][:_CHECKED_TREES]
        if not len(row):
            return NO_DATA
        size = (self.end - self.start).take(row).astype(np.int64)
        for base in self.module[_FIRST_TREES_WORD:].astype(np.int64).tolist():
            if base <= 0:
                continue
            name, call = self.tree_fields(
                self._tree_offset(row) + base, np.zeros(len(row), np.int64)
            )
            if (self._begins_name(name) & (call >= 0) & (call < size)).all():
                return int(base)
        return NO_DATA

    def _begins_name(self, offset: I64) -> Bools:
        text = np.frombuffer(self.names, np.uint8)
        inside = (offset >= 0) & (offset < len(text))
        before, first = (text.take(offset - k, mode="clip") for k in (1, 0))
        found: Bools = inside & ((before == 0) | (offset == 0)) & (first != 0)
        return found

    def _read(self, svma: I64) -> I64:
        """Read signed words of 4 bytes from the image, i64[n]; NO_DATA if it has none."""
        offset = self.image.offset_of_svma(svma.astype(np.uint64))
        content = np.frombuffer(self.image.data, np.uint8)
        is_there = (svma > 0) & (offset != NO_ADDRESS)
        at = np.where(is_there, offset, 0).astype(np.int64)
        is_there &= at + 4 <= len(content)
        value = sum(content.take(at + k, mode="clip").astype(np.int64) << 8 * k for k in range(4))
        signed = np.asarray(value, np.int64).astype(np.int32).astype(np.int64)
        return np.where(is_there, signed, NO_DATA)


def read_go_table(image: ElfImage) -> GoTable | None:
    """Find and read the table of an image; None if there is none that can be read.

    The name of its section leads to it, or else its magic number in the mapped segments: C linkers
    merge the section, and section headers may be missing.
    """
    for offset, size in _places(image):
        table = _read_at(image, offset, size)
        if table is not None:
            return table
    return None


def _places(image: ElfImage) -> Iterator[tuple[int, int]]:
    """Yield possible places of tables: offset in the file, and bytes."""
    is_go = not len(image.sections)
    for name in _SECTIONS:
        row = image.find_section(name)
        if row >= 0:
            is_go = True
            yield int(image.sections[row]["offset"]), len(image.section_data(row))
    is_go = is_go or any(image.find_section(name) >= 0 for name in _SIGNS)
    if not is_go or not image.has_note(_NOTE_OWNER, _NOTE_BUILD_ID):
        return
    loads = image.segments[image.segments["type"] == elf_layout.PT_LOAD]
    # Overlapping segments of a damaged image do not have the same bytes searched again.
    left = len(image.data)
    for segment in loads[:MOST_SEARCHED_SEGMENTS]:
        begin = int(segment["offset"]) + (-int(segment["offset"])) % 8
        size = min(int(segment["offset"]) + int(segment["filesz"]), len(image.data)) - begin
        size = min(size, left) & ~7
        if size <= 0:
            continue
        left -= size
        words = np.frombuffer(image.data[begin : begin + size], "<u8")
        high = np.uint64((8 if image.is_64 else 4) << 24)
        # magic, two zeros, the smallest size of an instruction, the size of a pointer
        is_head = (words & np.uint64(0xFFFFFFF0)) == np.uint64(0xFFFFFFF0)
        is_head &= (words >> np.uint64(32)) & np.uint64(0xFF00FFFF) == high
        for at in np.flatnonzero(is_head)[:MOST_CANDIDATES].tolist():
            yield begin + 8 * at, size - 8 * at


def _read_at(image: ElfImage, offset: int, size: int) -> GoTable | None:
    """Read a table; None if there is none at this place."""
    data = image.data[offset : offset + size]
    form = _LAYOUTS.get(int.from_bytes(data[:4], "little"))
    word_bytes = 8 if image.is_64 else 4
    count = 8 if form and form.has_text_word else 7
    if form is None or len(data) < _HEAD_BYTES + count * word_bytes:
        return None
    quantum, pointer_bytes = data[6], data[7]
    if bytes(data[4:6]) != b"\0\0" or quantum not in {1, 2, 4} or pointer_bytes != word_bytes:
        return None
    word = np.dtype(f"<u{word_bytes}")
    header = np.frombuffer(data, word, count, _HEAD_BYTES).tolist()
    functions, areas = header[0], header[-5:]
    kept_bytes = 4 if form.is_relative else word_bytes
    table_bytes = (2 * functions + 1) * kept_bytes
    svma = int(image.svma_of_offset(np.array([offset], np.uint64))[0])
    if not 0 < functions <= MOST_GO_FUNCTIONS or max(areas) > len(data) or svma == NO_ADDRESS:
        return None
    if areas != sorted(areas) or areas[-1] + table_bytes > len(data):
        return None
    names, units, files, values, records = (
        data[begin:end] for begin, end in zip(areas, [*areas[1:], len(data)], strict=True)
    )
    table = np.frombuffer(records, f"<u{kept_bytes}", 2 * functions + 1)
    entry, at = table[::2].astype(np.uint64), table[1::2].astype(np.int64)
    relocations = relative_relocations(image)
    module, module_offset = _find_module(image, relocations, svma, areas[0])
    if form.is_relative:
        row = image.find_section(b".text")
        section = int(image.sections[row]["addr"]) if row >= 0 else 0
        text = module[_MODULE_TEXT] if len(module) else np.uint64(header[2] or section)
        entry = entry + text
    else:
        begin = np.uint64((svma + areas[-1]) % 2**64)
        entry = relocations.applied(
            begin + np.arange(len(entry), dtype=np.uint64) * np.uint64(2 * kept_bytes), entry
        )
    kept = _sound(image, entry, at, len(records))
    if not len(kept):
        return None
    skipped = 1 if form.is_relative else word_bytes // 4
    return GoTable(
        image=image,
        version=int.from_bytes(data[:4], "little"),
        start=entry.take(kept),
        end=np.append(entry.take(kept)[1:], entry[-1]),
        names=names,
        files=files,
        units=whole_rows(units, "<u4"),
        values=GoValues(np.frombuffer(values, np.uint8), quantum),
        words=whole_rows(records, "<u4"),
        record=(at.take(kept) >> 2) + skipped,
        module=module,
        ranges=((offset, offset + len(data)), (module_offset, module_offset + _MODULE_BYTES)),
    )


def _sound(image: ElfImage, entry: U64, at: I64, size: int) -> I64:
    """Return the rows of functions in ascending order that have a record, i64[k].

    None if they are not in the image's code: they would have wrong names.
    """
    reached = np.maximum.accumulate(np.append(np.uint64(0), entry[:-1]))[: len(at)]
    kept = np.flatnonzero((entry[:-1] > reached) & (at >= 0) & (at < size) & (at & 3 == 0))
    if not len(kept) or entry[-1] <= entry[kept[-1]]:
        return kept[:0]
    low, high = entry[kept[0]], entry[-1]
    loads = image.segments[image.segments["type"] == elf_layout.PT_LOAD]
    code = loads[(loads["flags"] & elf_layout.PF_X) != 0]
    inside = (code["vaddr"] <= low) & (high - code["vaddr"] <= code["memsz"])
    return kept if inside.any() else kept[:0]


def _find_module(
    image: ElfImage, relocations: RelativeRelocations, table: int, names: int
) -> tuple[U64, int]:
    """Return the first words of moduledata, relocated, and their offset; no words if not found.

    It is in writable memory and begins with the table's address (SVMA) and then that of its names,
    which are at `names` in the table.
    """
    word_bytes = 8 if image.is_64 else 4
    starts = relocations.places_of(table)[:MOST_CANDIDATES]
    loads = image.segments[image.segments["type"] == elf_layout.PT_LOAD]
    left = len(image.data)
    for segment in loads[(loads["flags"] & elf_layout.PF_W) != 0][:MOST_SEARCHED_SEGMENTS]:
        begin, size = int(segment["offset"]), min(int(segment["filesz"]), left)
        begin += -begin % word_bytes
        content = image.data[begin : begin + size]
        if not len(content):
            continue
        left -= len(content)
        words = np.frombuffer(content[: len(content) & -word_bytes], f"<u{word_bytes}")
        found = np.flatnonzero(words == table)[:MOST_CANDIDATES].astype(np.uint64)
        at = image.svma_of_offset(np.uint64(begin) + found * np.uint64(word_bytes))
        starts = np.append(starts, at)
    distance = np.arange(_MODULE_WORDS, dtype=np.uint64) * np.uint64(word_bytes)
    for start in starts[:MOST_CANDIDATES]:
        offset = image.offset_of_svma(start + distance)
        # The part of it that is in one segment, and in the file.
        stops = np.flatnonzero(offset != offset[0] + distance)
        known = int(stops[0]) if len(stops) else _MODULE_WORDS
        begin = int(offset[0])
        known = min(known, (len(image.data) - begin) // word_bytes)
        if known <= _MODULE_TEXT:
            continue
        stated = np.frombuffer(image.data, f"<u{word_bytes}", known, begin).astype(np.uint64)
        module = relocations.applied(start + distance[:known], stated)
        if int(module[_MODULE_NAMES]) == table + names:
            return module, begin
    return np.zeros(0, np.uint64), 0


# Values that change with the address in a function, as Go's linker packs them.
#
# A list has pairs of numbers in LEB128: the difference from the value before, signed by zigzag, and
# the number of instructions for which the value holds. The first value is a difference from -1. A
# difference of 0 ends the list, unless it is the first. Source: ``runtime/symtab.go`` pcvalue() and
# step(), Go 1.16 to 1.27.
_PIECE = 1 << 20


class GoValues(Record, eq=False):
    """All lists of an image.

    Attributes:
        content: read up to `MOST_CONTENT_BYTES`.
        quantum: bytes of the smallest instruction, the unit of distances.
    """

    content: U8
    quantum: int

    def unpacked(self, lists: I64) -> ValueLists:
        """Read lists up to `MOST_LIST_BYTES`; further ones have no values.

        Args:
            lists: i64[n] where they begin, in any order; none begins at 0, or outside.
        """
        begin = distinct(lists.clip(0, min(len(self.content), MOST_CONTENT_BYTES)))
        # Lists are disjoint, so one without an end costs at most all bytes once.
        end = np.minimum(self._ends(begin), np.append(begin[1:], len(self.content)))
        length = np.where(begin > 0, end - begin, 0)
        length = np.minimum(length, (MOST_LIST_BYTES - np.cumsum(length) + length).clip(0))
        number, count = _numbers(self.content.take(segments(begin, length)), length)
        pairs = count >> 1  # a cut list may end within a pair
        at = segments(np.zeros(len(begin), np.int64), pairs) * 2
        at += (np.cumsum(count) - count).repeat(pairs)
        difference, step = number.take(at), number.take(at + 1) * self.quantum
        value = _sums((difference >> 1) ^ -(difference & 1), pairs) - 1
        stop = _sums(step, pairs).clip(max=LONGEST_DISTANCE)
        return ValueLists(begin, np.arange(len(begin)).repeat(pairs), stop, value)

    def _ends(self, begin: I64) -> I64:
        """Return the place of the zero that ends each list, or else the end of all."""
        zeros = self._zeros
        row = np.searchsorted(zeros, (begin + 1).astype(np.uint32))
        if not len(zeros):
            return np.full(len(begin), len(self.content))
        end = zeros.take(row, mode="clip").astype(np.int64)
        return np.where(row < len(zeros), end, len(self.content))

    @cached_property
    def _zeros(self) -> U32:
        found = [np.zeros(0, np.uint32)]
        for begin in range(0, min(len(self.content), MOST_CONTENT_BYTES), _PIECE):
            piece = np.flatnonzero(self.content[begin : begin + _PIECE] == 0)
            found.append((piece + begin).astype(np.uint32))
        return np.concatenate(found)


class ValueLists(Record, eq=False):
    """Values of several lists, concatenated.

    Attributes:
        begin: i64[n] the lists' places in `GoValues.content`, ascending.
        row: i64[m] the list of each value, ascending.
        stop: i64[m] distance from the function's start to the first byte after the value's.
        value: i64[m].
    """

    begin: I64
    row: I64
    stop: I64
    value: I64

    @property
    def start(self) -> I64:
        """i64[m]: the distance of the value's first byte."""
        before = np.append(0, self.stop[:-1])[: len(self.stop)]
        is_first = np.diff(self.row, prepend=-1) != 0
        return np.where(is_first, 0, before)

    def rows_of(self, lists: I64) -> I64:
        """Return the row of each list by its place, i64[k]; -1 for one that was not read."""
        row = np.searchsorted(self.begin, lists)
        return np.where(np.append(self.begin, -1).take(row) == lists, row, -1)

    def at(self, lists: I64, distance: I64) -> I64:
        """Return the value at each address, i64[k]; -1 if its list has none.

        Args:
            lists: i64[k] the place of each one's list.
            distance: i64[k] bytes from the start of the function.
        """
        row = self.rows_of(lists)
        key = row.clip(0) << 32 | distance.clip(0, LONGEST_DISTANCE)
        found = np.searchsorted(self._key, key, side="right")
        is_there = np.append(self.row, -1).take(found) == row
        is_there &= (row >= 0) & (distance >= 0)
        return np.where(is_there, np.append(self.value, -1).take(found), -1)

    @cached_property
    def _key(self) -> I64:
        return self.row << 32 | self.stop


def _numbers(octets: U8, length: I64) -> tuple[I64, I64]:
    """Decode the numbers of concatenated lists, i64[k]; also return the size of each list, i64[n].

    `length` i64[n] is the bytes of each list.
    """
    end = np.cumsum(length)
    is_last = octets < 0x80
    is_last[end[length > 0] - 1] = True  # no number continues in the next list
    last = np.flatnonzero(is_last)
    first = np.append(-1, last[:-1])[: len(last)] + 1
    number = octets.take(first).astype(np.int64) & 0x7F
    for k in range(1, LONGEST_NUMBER_BYTES):
        rows = np.flatnonzero(last - first >= k)
        number[rows] |= (octets.take(first.take(rows) + k).astype(np.int64) & 0x7F) << 7 * k
    before = np.append(0, np.cumsum(is_last)).take(np.append(0, end))
    return number, np.diff(before)


def _sums(value: I64, count: I64) -> I64:
    """Return running sums within lists of `count` values each."""
    total = np.append(0, np.cumsum(value))
    end = np.cumsum(count)
    summed: I64 = total[1:] - total.take(end - count).repeat(count)
    return summed
