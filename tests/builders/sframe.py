"""Write .sframe sections in memory, to the SFrame format's versions 1 to 3."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from builders.elf import Section

AMD64, AARCH64 = 3, 2
SORTED, PC_RELATIVE = 1, 4
_SIZES = {"b": 0, "h": 1, "i": 2}


@dataclass(frozen=True)
class Function:
    """A function; `rows` are its bytes, as `row` makes them."""

    start: int
    size: int
    rows: list[bytes] = field(default_factory=list)
    info: int = 0
    form: int = 0
    repeated: int = 0
    count: int | None = None


def row(address, *words, by_sp=True, size="b", address_form="B"):
    """One row: the CFA counts from sp, or from the frame register."""
    info = _SIZES[size] << 5 | len(words) << 1 | by_sp
    return struct.pack(f"<{address_form}B{len(words)}{size}", address, info, *words)


def sframe(functions, *, version=3, abi=AMD64, flags=SORTED, fixed=(0, -8), address=0x6000):
    """The section; `fixed` are the distances of the frame register and of the return address."""
    fde_bytes = {1: 17, 2: 20, 3: 16}[version]
    rows_begin = fde_bytes * len(functions)
    fdes, rows, number = bytearray(), bytearray(), 0
    for each in functions:
        count = len(each.rows) if each.count is None else each.count
        start = each.start - address - (28 + len(fdes) if flags & PC_RELATIVE else 0)
        if version == 3:
            fdes += struct.pack("<qII", start, each.size, len(rows))
            rows += struct.pack("<HBBB", count, each.info, each.form, each.repeated)
        else:
            fdes += struct.pack("<iIIIB", start, each.size, len(rows), count, each.info)
            fdes += struct.pack("<BH", each.repeated, 0) if version == 2 else b""
        rows += b"".join(each.rows)
        number += count
    head = struct.pack("<HBBBbbB", 0xDEE2, version, flags, abi, *fixed, 0)
    head += struct.pack("<IIIII", len(functions), number & 0xFFFFFFFF, len(rows), 0, rows_begin)
    return Section(".sframe", head + bytes(fdes + rows), flags=2, addr=address)
