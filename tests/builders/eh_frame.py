"""Write .eh_frame and .eh_frame_hdr in memory, to the Linux Standard Base Core 5.0."""

from __future__ import annotations

import struct

from builders.elf import Section

PCREL_SDATA4 = 0x1B
DATAREL_SDATA4 = 0x3B
_FORMATS = {0x0: "Q", 0x2: "H", 0x3: "I", 0x4: "Q", 0xA: "h", 0xB: "i", 0xC: "q"}


def uleb128(value):
    out = bytearray()
    while True:
        value, low = value >> 7, value & 0x7F
        out.append(low | (0x80 if value else 0))
        if not value:
            return bytes(out)


def sleb128(value):
    out = bytearray()
    while True:
        low, value = value & 0x7F, value >> 7
        done = (value == 0 and not low & 0x40) or (value == -1 and low & 0x40)
        out.append(low | (0 if done else 0x80))
        if done:
            return bytes(out)


def encoded(value, encoding, at, *, is_64=True):
    """Encode a pointer that stands at the address `at`."""
    if encoding & 0x70 == 0x10:
        value -= at
    form = encoding & 0x0F
    if form in {1, 9}:
        return uleb128(value) if form == 1 else sleb128(value)
    letter = "I" if form == 0 and not is_64 else _FORMATS[form]
    size = struct.calcsize("<" + letter)
    return (value % 2 ** (8 * size)).to_bytes(size, "little")


def entry(body, *, wide=False):
    """An entry: its length, then its body padded to 4 bytes."""
    body += bytes(-len(body) % 4)
    if wide:
        return struct.pack("<IQ", 0xFFFFFFFF, len(body)) + body
    return struct.pack("<I", len(body)) + body


OF_X86 = b"\x0c\x07\x08\x90\x01"  # DW_CFA_def_cfa rsp 8, DW_CFA_offset rip
OF_ARM64 = b"\x0c\x1f\x00"  # DW_CFA_def_cfa sp 0


def cie(encoding=PCREL_SDATA4, *, version=1, letters=b"zR", data=None, register=16, program=OF_X86):
    """A CIE body: its id, then what it states."""
    augmentation = bytes([encoding]) if data is None else data
    sizes = b"\x08\x00" if version == 4 else b""
    number = bytes([register]) if version == 1 else uleb128(register)
    after = uleb128(len(augmentation)) + augmentation if letters else b""
    return (
        struct.pack("<IB", 0, version)
        + letters
        + b"\0"
        + sizes
        + uleb128(1)
        + sleb128(-8)
        + number
        + after
        + program
    )


def eh_frame(
    functions,
    *,
    address=0x6000,
    encoding=PCREL_SDATA4,
    wide=False,
    is_64=True,
    terminated=True,
    **of_cie,
):
    """One CIE, and an FDE for each (start, size) or (start, size, instructions).

    Return the bytes and the FDEs' offsets.
    """
    out = bytearray(entry(cie(encoding, **of_cie), wide=wide))
    offsets = []
    for start, size, *program in functions:
        offsets.append(len(out))
        body = len(out) + (12 if wide else 4)
        pointer = struct.pack("<I", body)  # back to the CIE at 0
        begin = encoded(start, encoding, address + body + 4, is_64=is_64)
        extent = encoded(size, encoding & 0x0F, 0, is_64=is_64)
        rest = uleb128(0) if of_cie.get("letters", b"zR") else b""
        out += entry(pointer + begin + extent + rest + b"".join(program or [b"\0"]), wide=wide)
    return bytes(out) + (bytes(4) if terminated else b""), offsets


def eh_frame_header(entries, *, address=0x5000, frames=0x6000, table=DATAREL_SDATA4):
    """.eh_frame_hdr with a table of (start, FDE offset)."""
    out = bytearray([1, PCREL_SDATA4, 0x03, table])
    out += struct.pack("<iI", frames - (address + 4), len(entries))
    for start, offset in sorted(entries):
        for value in (start, frames + offset):
            base = address if table & 0x70 == 0x30 else 0
            out += encoded(value - base, table & 0x0F, 0)
    return bytes(out)


def frame_sections(functions, *, with_header=True, **keywords):
    """The sections .eh_frame and, if wanted, .eh_frame_hdr."""
    data, offsets = eh_frame(functions, **keywords)
    sections = [Section(".eh_frame", data, flags=2, addr=keywords.get("address", 0x6000))]
    if with_header:
        starts = [start for start, *_ in functions]
        header = eh_frame_header(list(zip(starts, offsets, strict=True)))
        sections.append(Section(".eh_frame_hdr", header, flags=2, addr=0x5000))
    return sections
