"""Call-frame information of an image → its entries, and the code that each covers.

A frame description entry (FDE) has a range of addresses, its program, and the common information
entry (CIE) that it refers to. Compilers write one FDE for each function, or for each separate part
of one. strip(1) keeps those in .eh_frame, because exceptions and unwinders need them. Go and some
kernels' modules have only .debug_frame, for debuggers.

The sorted table of .eh_frame_hdr, or else a walk from the first to the last, gives the entries of
.eh_frame, which are then decoded all at once. `EhData` turns columns of positions in a section into
columns of values. Source: Linux Standard Base Core 5.0, "Exception Frames", "DWARF Extensions",
"The Common Information Entry Format" and "DWARF Exception Header Encoding"; DWARF 5, 6.4.1
"Structure of Call Frame Information" (versions 1, 3 and 4 of .debug_frame, of DWARF 2 to 5) and 7.6
"Variable Length Data"; the DWARF for the Arm 64-bit Architecture for the letters B and G.
"""

from __future__ import annotations

import mmap
import struct
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.columns.sorting import distinct
from prospect.elf import elf_layout
from prospect.elf.elf_limits import (
    LONGEST_LEB128_BYTES,
    MOST_CIES,
    MOST_ENTRIES,
    MOST_UNPACKED_BYTES,
)
from prospect.elf.image import NO_ADDRESS, compressed_section, unpack_section
from prospect.records import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.columns.array_types import I64, U8, U64
    from prospect.elf.image import ElfImage

DW_EH_PE_ABSPTR, DW_EH_PE_ULEB128, DW_EH_PE_SLEB128 = 0x00, 0x01, 0x09
DW_EH_PE_UDATA2, DW_EH_PE_UDATA4, DW_EH_PE_UDATA8 = 0x02, 0x03, 0x04
DW_EH_PE_SDATA2, DW_EH_PE_SDATA4, DW_EH_PE_SDATA8 = 0x0A, 0x0B, 0x0C
DW_EH_PE_PCREL, DW_EH_PE_DATAREL = 0x10, 0x30
DW_EH_PE_INDIRECT = 0x80
DW_EH_PE_OMIT = 0xFF

_FORMAT = 0x0F
_APPLICATION = 0x70
_FIXED: dict[int, np.dtype[Any]] = {
    DW_EH_PE_UDATA2: np.dtype("<u2"),
    DW_EH_PE_UDATA4: np.dtype("<u4"),
    DW_EH_PE_UDATA8: np.dtype("<u8"),
    DW_EH_PE_SDATA2: np.dtype("<i2"),
    DW_EH_PE_SDATA4: np.dtype("<i4"),
    DW_EH_PE_SDATA8: np.dtype("<i8"),
}


def fixed_bytes(encoding: int, pointer_bytes: int) -> int | None:
    """Return the size of a pointer of an encoding, None if it varies or is unknown."""
    form = _fixed_form(encoding, pointer_bytes)
    return form.itemsize if form else None


def _fixed_form(encoding: int, pointer_bytes: int) -> np.dtype[Any] | None:
    if encoding & _FORMAT == DW_EH_PE_ABSPTR:
        return np.dtype(f"<u{pointer_bytes}")
    return _FIXED.get(encoding & _FORMAT)


class EhData(Record, eq=False):
    """A section of encoded numbers.

    Attributes:
        address: SVMA of its first byte.
        pointer_bytes: size of an address: 8 or 4.
    """

    content: memoryview
    address: int
    pointer_bytes: int

    def __len__(self) -> int:
        return len(self.content)

    @cached_property
    def octets(self) -> U8:
        """The bytes as a column, u8[b]."""
        return np.frombuffer(self.content, np.uint8)

    def fixed(self, position: I64, dtype: str) -> I64:
        """Read numbers of a fixed size.

        Args:
            position: i64[n]; bytes outside the section read as 0.
            dtype: numpy's name of a little-endian integer.

        Returns:
            i64[n]; the two's complement of u64.
        """
        kind = np.dtype(dtype)
        count = len(self) - kind.itemsize + 1
        value = np.zeros(len(position), np.int64)
        if count > 0:
            every: NDArray[Any] = np.ndarray((count,), kind, self.content, strides=(1,))
            inside = (position >= 0) & (position < count)
            # `take` would first copy all, eight times the section.
            value[inside] = every[position[inside]].astype(np.int64)
        return value

    def leb128(self, position: I64, *, signed: bool) -> tuple[I64, I64]:
        """Read numbers of variable length.

        Returns:
            i64[n] values, and i64[n] positions after them; a position beyond the section if a
            number does not end within its 10 bytes or the section.
        """
        value = np.zeros(len(position), np.int64)
        following = np.full(len(position), len(self) + 1, np.int64)
        rows = np.arange(len(position))
        for index in range(LONGEST_LEB128_BYTES):
            at = position.take(rows) + index
            rows = rows[(at >= 0) & (at < len(self))]
            at = position.take(rows) + index
            octet = self.octets.take(at).astype(np.int64)
            value[rows] |= (octet & 0x7F) << np.int64(7 * index)
            last = octet < 0x80
            done = rows[last]
            following[done] = at[last] + 1
            if signed and 7 * index + 7 < 64:
                negative = done[(octet[last] & 0x40) != 0]
                value[negative] |= np.int64(-1) << np.int64(7 * index + 7)
            rows = rows[~last]
        return value, following

    def encoded(
        self, position: I64, encoding: int, data_address: int | None = None
    ) -> tuple[U64, I64] | None:
        """Read pointers.

        Args:
            position: i64[n], within the section or beyond it.
            encoding: DW_EH_PE_*, one for all.
            data_address: the base of DW_EH_PE_datarel, None if unknown.

        Returns:
            u64[n] values, SVMAs for most encodings, and i64[n] positions after them. None for
            encodings that need more than the file (indirect, textrel, funcrel) and for unknown
            ones.
        """
        form = _fixed_form(encoding, self.pointer_bytes)
        if form is not None:
            value, following = self.fixed(position, form.str), position + form.itemsize
        elif encoding & _FORMAT in {DW_EH_PE_ULEB128, DW_EH_PE_SLEB128}:
            signed = encoding & _FORMAT == DW_EH_PE_SLEB128
            value, following = self.leb128(position, signed=signed)
        else:
            return None
        base = self._base(position, encoding, data_address)
        if base is None:
            return None
        pointer = value.view(np.uint64) + base
        if self.pointer_bytes == 4:
            pointer &= np.uint64(0xFFFFFFFF)
        return pointer, following

    def _base(self, position: I64, encoding: int, data_address: int | None) -> U64 | None:
        """Return the base of each value, None if it is unknown."""
        application = encoding & (_APPLICATION | DW_EH_PE_INDIRECT)
        if application == DW_EH_PE_PCREL:
            return position.astype(np.uint64) + np.uint64(self.address)
        if application == DW_EH_PE_DATAREL and data_address is not None:
            return np.full(len(position), data_address, np.uint64)
        return np.zeros(len(position), np.uint64) if application == 0 else None


WIDE_LENGTH = 0xFFFFFFFF
"""A length of this value means that the length is in the next 8 bytes."""

_DEBUG_CIE_ID, _WIDE_DEBUG_CIE_ID = 2**32 - 1, 2**64 - 1
_VERSIONS = {1, 3, 4}
_ALIGNED = 0x50
# Letters that describe data, then letters without data.
_KNOWN_LETTERS = set(b"RLP" + b"SBG")


class FrameTable(Record, eq=False):
    """The FDEs of an image in address order, without empty and damaged ones.

    Attributes:
        data: the section; all offsets count from its first byte.
        start: SVMA of the first instruction.
        end: SVMA of the first byte after, above `start`.
        offset: of the FDE's length field.
        rest: offset after the range: of augmentation data, then the program.
        limit: offset of the first byte after the FDE.
        cie: row of `cies`.
    """

    data: EhData
    start: U64
    end: U64
    offset: I64
    rest: I64
    limit: I64
    cie: I64
    cies: tuple[Cie, ...]

    def __len__(self) -> int:
        return len(self.start)


def read_frames(image: ElfImage) -> FrameTable | None:
    """Return the .eh_frame entries of a linked image of any machine; None if it has none."""
    header = described_data(image, b".eh_frame_hdr", elf_layout.PT_GNU_EH_FRAME)
    data = _section(image, b".eh_frame") or (_data_behind(image, header) if header else None)
    if data is None:
        return None
    offset = _listed(header, data) if header else np.zeros(0, np.int64)
    frames = _decode(data, offset)
    if not len(frames):
        frames = _decode(data, walk_entries(data))
    return frames if len(frames) else None


def walk_entries(data: EhData) -> I64:
    """Find every entry, CIEs too, by the chain of lengths up to the terminator.

    Returns:
        i64[n] offsets of the length fields, at most `MOST_ENTRIES`.
    """
    buffer = data.content
    read, read_wide = struct.Struct("<I").unpack_from, struct.Struct("<Q").unpack_from
    offsets: list[int] = []
    position, last = 0, len(buffer) - 4
    while position <= last and len(offsets) < MOST_ENTRIES:
        (length,) = read(buffer, position)
        if length == 0:
            break
        offsets.append(position)
        if length == WIDE_LENGTH:
            if position + 12 > len(buffer):
                break
            length = read_wide(buffer, position + 4)[0] + 8
        position += 4 + length
    return np.array(offsets, np.int64)


def described_data(image: ElfImage, name: bytes, segment_type: int) -> EhData | None:
    """Return a section, by its segment if an image has no section headers; None without one."""
    found = np.flatnonzero(image.segments["type"] == segment_type)
    # A debug file has the segment too, but other bytes at its offset.
    if image.find_section(name) >= 0 or not len(found):
        return _section(image, name)
    segment = image.segments[int(found[0])]
    offset, size = int(segment["offset"]), int(segment["filesz"])
    return _eh_data(image, image.data[offset : offset + size], int(segment["vaddr"]))


def _section(image: ElfImage, name: bytes) -> EhData | None:
    row = image.find_section(name)
    content = image.section_data(row)
    return _eh_data(image, content, int(image.sections[row]["addr"])) if len(content) else None


def _eh_data(image: ElfImage, content: memoryview, address: int) -> EhData:
    return EhData(content, address, 8 if image.is_64 else 4)


def _data_behind(image: ElfImage, header: EhData) -> EhData | None:
    """Return .eh_frame from the address in its header to the end of its segment."""
    if len(header) <= 4:
        return None
    found = header.encoded(np.array([4]), header.content[1], header.address)
    if found is None:
        return None
    address = found[0]
    offset = image.offset_of_svma(address)
    if offset[0] == NO_ADDRESS:
        return None
    loads = image.segments[image.segments["type"] == elf_layout.PT_LOAD]
    ends = loads["offset"] + loads["filesz"]
    holding = ends[(loads["offset"] <= offset[0]) & (ends > offset[0])]
    content = image.data[int(offset[0]) : int(holding.max(initial=np.uint64(0)))]
    return _eh_data(image, content, int(address[0]))


def _listed(header: EhData, data: EhData) -> I64:
    """Return the offsets of the FDEs that .eh_frame_hdr lists; none if its form is unknown.

    Source: LSB Core 5.0, 10.6.2 "The .eh_frame_hdr section".
    """
    none = np.zeros(0, np.int64)
    if len(header) < 4 or header.content[0] != 1:
        return none
    pointer_form, count_form, table_form = header.content[1:4]
    pointer = header.encoded(np.array([4]), pointer_form, header.address)
    if pointer is None or DW_EH_PE_OMIT in {count_form, table_form}:
        return none
    counted = header.encoded(pointer[1], count_form, header.address)
    pointer_bytes = fixed_bytes(table_form, header.pointer_bytes)
    if counted is None or pointer_bytes is None:
        return none
    entry_bytes = 2 * pointer_bytes
    first = int(counted[1][0])
    count = min(int(counted[0][0]), (len(header) - first) // entry_bytes, MOST_ENTRIES)
    second = first + np.arange(max(count, 0), dtype=np.int64) * entry_bytes + pointer_bytes
    listed = header.encoded(second, table_form, header.address)
    if listed is None:
        return none
    offset = (listed[0] - np.uint64(data.address)).view(np.int64)
    return distinct(offset[(offset >= 0) & (offset < len(data))])


def _decode(data: EhData, offset: I64) -> FrameTable:
    """Decode the FDEs among the entries at these offsets i64[n]."""
    length = data.fixed(offset, "<u4")
    is_wide = length == WIDE_LENGTH
    body = offset + np.where(is_wide, 12, 4)
    length = np.where(is_wide, data.fixed(offset + 4, "<u8"), length)
    to_cie = data.fixed(body, "<i4")
    is_fde = (length > 4) & (length <= len(data) - body) & (to_cie != 0) & (to_cie <= body)
    offset, body, limit = offset[is_fde], body[is_fde], (body + length)[is_fde]
    return decode_ranges(data, (offset, body + 4, limit), body - to_cie[is_fde])


def decode_ranges(
    data: EhData, entry: tuple[I64, I64, I64], cie_offset: I64, *, is_debug: bool = False
) -> FrameTable:
    """Decode the address ranges of FDEs.

    Args:
        entry: i64[n] offsets of each FDE's length field, of its first address, and of its end.
        cie_offset: i64[n] offset of the length field of its CIE.
        is_debug: the section is .debug_frame.

    Returns:
        The table, without damaged FDEs.
    """
    offset, body, limit = entry
    cies, cie = _parse_cies(data, cie_offset, is_debug=is_debug)
    start = np.zeros(len(body), np.uint64)
    size, rest = start.copy(), np.full(len(body), len(data) + 1, np.int64)
    for encoding in {entry.fde_encoding for entry in cies}:
        of_cie = np.array([entry.fde_encoding == encoding for entry in cies])
        rows = np.flatnonzero((cie >= 0) & of_cie.take(cie, mode="clip"))
        begin = data.encoded(body.take(rows), encoding)
        # A range is a number of the same size, without a base.
        extent = begin and data.encoded(begin[1], encoding & 0x0F)
        if begin and extent:
            start[rows], size[rows], rest[rows] = begin[0], extent[0], extent[1]
    end = start + size
    kept = np.flatnonzero((size > 0) & (end > start) & (rest <= limit))
    kept = kept.take(np.argsort(start.take(kept), kind="stable"))
    return FrameTable(
        data=data,
        start=start.take(kept),
        end=end.take(kept),
        offset=offset.take(kept),
        rest=rest.take(kept),
        limit=limit.take(kept),
        cie=cie.take(kept),
        cies=cies,
    )


def _parse_cies(data: EhData, offset: I64, *, is_debug: bool) -> tuple[tuple[Cie, ...], I64]:
    """Parse each distinct CIE once; return them, and the row of each offset, -1 for none."""
    distinct, which = np.unique(offset, return_inverse=True)
    parsed = [parse_cie(data, one, is_debug=is_debug) for one in distinct[:MOST_CIES].tolist()]
    row = np.full(len(distinct), -1, np.int64)
    known = [number for number, entry in enumerate(parsed) if entry]
    row[known] = np.arange(len(known))
    return tuple(entry for entry in parsed if entry), row.take(which)


def read_debug_frames(image: ElfImage) -> FrameTable | None:
    """Return the .debug_frame entries of an image; None if it has none."""
    row = image.find_section(b".debug_frame")
    compressed = compressed_section(image, row)
    content = image.section_data(row)
    if compressed and 0 < compressed[1] <= MOST_UNPACKED_BYTES:
        kind, size, packed = compressed
        content = unpack_section(kind, packed, mmap.mmap(-1, size))
    data = _eh_data(image, content, 0)
    if not len(data):
        return None
    offset = walk_entries(data)
    is_wide = data.fixed(offset, "<u4") == WIDE_LENGTH
    body = offset + np.where(is_wide, 12, 4)
    length = np.where(is_wide, data.fixed(offset + 4, "<u8"), data.fixed(offset, "<u4"))
    pointer = np.where(is_wide, data.fixed(body, "<i8"), data.fixed(body, "<u4"))
    # All ones, for a CIE: as i8 that is -1.
    is_fde = (pointer != np.where(is_wide, -1, WIDE_LENGTH)) & (length <= len(data) - body)
    after = body + np.where(is_wide, 8, 4)
    kept = np.flatnonzero(is_fde & (length > 0))
    places = (offset.take(kept), after.take(kept), (body + length).take(kept))
    frames = decode_ranges(data, places, pointer.take(kept), is_debug=True)
    return frames if len(frames) else None


class Cie(Record):
    """A common information entry.

    Attributes:
        offset: of its length field, in the section.
        augmentation: its letters; with ``z``, FDEs have augmentation data too.
        code_alignment, data_alignment: factors of its programs' operands.
        return_register: column of the return address.
        fde_encoding: DW_EH_PE_* of the addresses in its FDEs.
        lsda_encoding: DW_EH_PE_* of their language-specific data, DW_EH_PE_OMIT for none.
        is_signal_frame: whether the kernel pushed the frames of its FDEs.
        program: offset of its initial instructions, in the section.
        end: offset of the first byte after them.
    """

    offset: int
    augmentation: bytes
    code_alignment: int
    data_alignment: int
    return_register: int
    fde_encoding: int
    lsda_encoding: int
    is_signal_frame: bool
    program: int
    end: int


def parse_cie(data: EhData, offset: int, *, is_debug: bool = False) -> Cie | None:
    """Parse the CIE whose length field is at an offset.

    Args:
        offset: in the section.
        is_debug: the section is .debug_frame, where other values mark a CIE.

    Returns:
        The entry; None if it is damaged, or no CIE of a known version and augmentation.
    """
    octets = data.content
    try:
        (length,) = struct.unpack_from("<I", octets, offset)
        position = offset + 4
        id_form, id_value = ("<I", _DEBUG_CIE_ID) if is_debug else ("<I", 0)
        if length == WIDE_LENGTH:
            (length,) = struct.unpack_from("<Q", octets, position)
            position += 8
            if is_debug:
                id_form, id_value = "<Q", _WIDE_DEBUG_CIE_ID
        end = position + length
        if end > len(octets) or struct.unpack_from(id_form, octets, position)[0] != id_value:
            return None
        position += struct.calcsize(id_form)
        return _parse_cie_body(octets[:end], offset, position, data.pointer_bytes)
    except (IndexError, struct.error):
        return None


def _parse_cie_body(
    octets: memoryview, offset: int, position: int, pointer_bytes: int
) -> Cie | None:
    """Parse from the version on; raise IndexError if it is cut."""
    version = octets[position]
    letters, ends, _ = bytes(octets[position + 1 : position + 17]).partition(b"\0")
    position += 2 + len(letters)
    # An unknown letter hides the positions of the data of the others.
    is_known = ends and letters[:1] in {b"", b"z"} and set(letters[1:]) <= _KNOWN_LETTERS
    if version not in _VERSIONS or not is_known:
        return None
    position += 2 if version == 4 else 0  # sizes of an address and of a segment's number
    code_alignment, position = leb128(octets, position)
    data_alignment, position = leb128(octets, position, signed=True)
    if version == 1:
        register, position = octets[position], position + 1
    else:
        register, position = leb128(octets, position)
    fde = lsda = None
    program = position
    if letters:
        size, position = leb128(octets, position)
        program = position + size
        for letter in letters[1:]:
            if letter == ord("R"):
                fde, position = octets[position], position + 1
            elif letter == ord("L"):
                lsda, position = octets[position], position + 1
            elif letter == ord("P"):
                position = _after_pointer(octets, position, pointer_bytes)
    return Cie(
        offset=offset,
        augmentation=letters,
        code_alignment=code_alignment,
        data_alignment=data_alignment,
        return_register=register,
        fde_encoding=DW_EH_PE_ABSPTR if fde is None else fde,
        lsda_encoding=DW_EH_PE_OMIT if lsda is None else lsda,
        is_signal_frame=b"S" in letters,
        program=min(program, len(octets)),
        end=len(octets),
    )


def leb128(octets: bytes | memoryview, position: int, *, signed: bool = False) -> tuple[int, int]:
    """Read a number; return it and the position after it.

    Raises:
        IndexError: it does not end within 64 bits, or within the bytes.
    """
    value = shift = 0
    while True:
        octet = octets[position]
        position += 1
        value |= (octet & 0x7F) << shift
        shift += 7
        if octet < 0x80:
            break
        if shift > 63:
            raise IndexError
    if signed and octet & 0x40:
        value -= 1 << shift
    return value, position


def _after_pointer(octets: memoryview, position: int, pointer_bytes: int) -> int:
    """Return the position after an encoded pointer and the byte with its encoding."""
    encoding = octets[position]
    position += 1
    if encoding == DW_EH_PE_OMIT:
        return position
    if encoding & 0x70 == _ALIGNED:
        return -(-position // pointer_bytes) * pointer_bytes + pointer_bytes
    size = fixed_bytes(encoding, pointer_bytes)
    if size is None:
        return leb128(octets, position)[1]
    return position + size
