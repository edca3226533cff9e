"""Numbers of an .eh_frame section: columns of positions in it → columns of values.

Defined by the Linux Standard Base Core 5.0, "DWARF Exception Header Encoding", and DWARF 5, 7.6
"Variable Length Data".
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.elf.elf_limits import LONGEST_LEB128_BYTES
from prospect.records import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
    """Return the size of a pointer of an encoding, None if it varies or there is no such."""
    form = _fixed_form(encoding, pointer_bytes)
    return form.itemsize if form else None


def _fixed_form(encoding: int, pointer_bytes: int) -> np.dtype[Any] | None:
    if encoding & _FORMAT == DW_EH_PE_ABSPTR:
        return np.dtype(f"<u{pointer_bytes}")
    return _FIXED.get(encoding & _FORMAT)


class EhData(Record, eq=False):
    """A section that holds encoded numbers.

    Attributes:
        content: its bytes.
        address: SVMA of the first.
        pointer_bytes: size of an address: 8 or 4.
    """

    content: memoryview
    address: int
    pointer_bytes: int

    def __len__(self) -> int:
        return len(self.content)

    @cached_property
    def octets(self) -> NDArray[np.uint8]:
        """The bytes as a column, u8[b]."""
        return np.frombuffer(self.content, np.uint8)

    def fixed(self, position: NDArray[np.int64], dtype: str) -> NDArray[np.int64]:
        """Read numbers of a fixed size.

        Args:
            position: i64[n]; bytes outside the section read as 0.
            dtype: numpy's name of a little-endian integer.

        Returns:
            i64[n]; of u64 the two's complement.
        """
        kind = np.dtype(dtype)
        count = len(self) - kind.itemsize + 1
        value = np.zeros(len(position), np.int64)
        if count > 0:
            every: NDArray[Any] = np.ndarray((count,), kind, self.content, strides=(1,))
            inside = (position >= 0) & (position < count)
            # `take` would first copy all of them, eight times the section.
            value[inside] = every[position[inside]].astype(np.int64)
        return value

    def leb128(
        self, position: NDArray[np.int64], *, signed: bool
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Read numbers of variable length.

        Returns:
            i64[n] values, and i64[n] positions of what follows; where a number does not end within
            its 10 bytes or the section, a position beyond the section.
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
        self, position: NDArray[np.int64], encoding: int, data_address: int | None = None
    ) -> tuple[NDArray[np.uint64], NDArray[np.int64]] | None:
        """Read pointers.

        Args:
            position: i64[n], within the section or beyond it.
            encoding: DW_EH_PE_*, one for all.
            data_address: what DW_EH_PE_datarel counts from, None if that is not known.

        Returns:
            u64[n] values, which are SVMA where the encoding makes them so, and i64[n] positions of
            what follows. None for encodings that the file alone does not resolve (indirect,
            textrel, funcrel) and for those that do not exist.
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

    def _base(
        self, position: NDArray[np.int64], encoding: int, data_address: int | None
    ) -> NDArray[np.uint64] | None:
        """Return what is to be added to each value, None if that is not known."""
        application = encoding & (_APPLICATION | DW_EH_PE_INDIRECT)
        if application == DW_EH_PE_PCREL:
            return position.astype(np.uint64) + np.uint64(self.address)
        if application == DW_EH_PE_DATAREL and data_address is not None:
            return np.full(len(position), data_address, np.uint64)
        return np.zeros(len(position), np.uint64) if application == 0 else None
