"""A common information entry (CIE) of .eh_frame → what the entries that refer to it have in common.

In: a section's bytes and an offset. Out: a `Cie`. Defined by the Linux Standard Base Core 5.0, "The
Common Information Entry Format", and DWARF 5, 6.4.1; the letters B and G by the DWARF for the Arm
64-bit Architecture.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from prospect.elf import eh_pointers as pointers
from prospect.records import Record

if TYPE_CHECKING:
    from prospect.elf.eh_pointers import EhData

WIDE_LENGTH = 0xFFFFFFFF
"""A length of this value says that the length stands in the next 8 bytes."""

_DEBUG_CIE_ID, _WIDE_DEBUG_CIE_ID = 2**32 - 1, 2**64 - 1
_VERSIONS = {1, 3, 4}
_ALIGNED = 0x50
# Those that stand for data, then those that do not.
_KNOWN_LETTERS = set(b"RLP" + b"SBG")


class Cie(Record):
    """A common information entry.

    Attributes:
        offset: of its length field, in the section.
        augmentation: its letters; ``z`` says that FDEs carry augmentation data too.
        code_alignment, data_alignment: factors of its programs' operands.
        return_register: column of the return address.
        fde_encoding: DW_EH_PE_* of the addresses in its FDEs.
        lsda_encoding: DW_EH_PE_* of their language-specific data, DW_EH_PE_OMIT for none.
        is_signal_frame: whether its FDEs are for frames that the kernel pushed.
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
    """Parse the CIE whose length field stands at an offset.

    Args:
        data: the section.
        offset: in it.
        is_debug: the section is .debug_frame, where other values say that an entry is a CIE.

    Returns:
        The entry; None for what is no CIE of a known version and augmentation, or is damaged.
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
    """Parse from the version on; IndexError where it runs over its end."""
    version = octets[position]
    letters, ends, _ = bytes(octets[position + 1 : position + 17]).partition(b"\0")
    position += 2 + len(letters)
    # A letter that is not known hides where what the others stand for is.
    is_known = ends and letters[:1] in {b"", b"z"} and set(letters[1:]) <= _KNOWN_LETTERS
    if version not in _VERSIONS or not is_known:
        return None
    position += 2 if version == 4 else 0  # sizes of an address and of a segment's number
    code_alignment, position = _leb128(octets, position)
    data_alignment, position = _leb128(octets, position, signed=True)
    if version == 1:
        register, position = octets[position], position + 1
    else:
        register, position = _leb128(octets, position)
    fde = lsda = None
    program = position
    if letters:
        size, position = _leb128(octets, position)
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
        fde_encoding=pointers.DW_EH_PE_ABSPTR if fde is None else fde,
        lsda_encoding=pointers.DW_EH_PE_OMIT if lsda is None else lsda,
        is_signal_frame=b"S" in letters,
        program=min(program, len(octets)),
        end=len(octets),
    )


def _leb128(octets: memoryview, position: int, *, signed: bool = False) -> tuple[int, int]:
    value = shift = 0
    while True:
        octet = octets[position]
        position += 1
        value |= (octet & 0x7F) << shift
        shift += 7
        if octet < 0x80 or shift > 63:
            break
    if signed and octet & 0x40:
        value -= 1 << shift
    return value, position


def _after_pointer(octets: memoryview, position: int, pointer_bytes: int) -> int:
    """Return what follows an encoded pointer and the byte that states its encoding."""
    encoding = octets[position]
    position += 1
    if encoding == pointers.DW_EH_PE_OMIT:
        return position
    if encoding & 0x70 == _ALIGNED:
        return -(-position // pointer_bytes) * pointer_bytes + pointer_bytes
    size = pointers.fixed_bytes(encoding, pointer_bytes)
    if size is None:
        return _leb128(octets, position)[1]
    return position + size
