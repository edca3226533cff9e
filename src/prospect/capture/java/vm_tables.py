"""The layout of a HotSpot JVM's structures, by the tables that it exports for debuggers.

``libjvm.so`` exports arrays for the serviceability agent: names of structures and fields, their
offsets, the addresses of static fields, sizes, and constants. Apart from addresses, they are the
same for all processes with the same library.

Defined by: ``src/hotspot/share/runtime/vmStructs.hpp`` (OpenJDK 8 to 25): VMStructEntry,
VMTypeEntry, VMIntConstantEntry.
"""

from __future__ import annotations

import struct

from prospect.capture.capture_limits import (
    LONGEST_VM_NAME,
    MOST_ENTRY_BYTES,
    MOST_VM_ENTRIES,
    MOST_VM_PAGES,
)
from prospect.capture.runtimes.elf_lookup import File
from prospect.capture.runtimes.process_memory import Snapshot, UnreadableError
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.capture.runtimes.process_memory import ProcessMemory

_STRUCTS, _TYPES = b"gHotSpotVMStructs", b"gHotSpotVMTypes"
_STRUCT_STRIDE, _TYPE_STRIDE = (
    b"gHotSpotVMStructEntryArrayStride",
    b"gHotSpotVMTypeEntryArrayStride",
)
_TYPE_SIZE = b"gHotSpotVMTypeEntrySizeOffset"
_SYMBOLS = (_STRUCTS, _TYPES, _STRUCT_STRIDE, _TYPE_STRIDE, _TYPE_SIZE)
# type, field, type of the field, whether it is static, its offset, its address
_STRUCT = struct.Struct("<QQQiiQQ")
_WORD = struct.Struct("<Q")
_PIECE_BYTES = 1 << 15
_LARGEST_OFFSET = 1 << 16


class UnknownError(ValueError):
    """A JVM whose structures are not known here."""


class VmTables(NamedTuple):
    """A JVM's description of its structures.

    Attributes:
        offsets: of fields, by `Type::field`.
        statics: addresses of static fields, by `Type::field`.
        sizes: of types, by name.
    """

    offsets: dict[str, int]
    statics: dict[str, int]
    sizes: dict[str, int]

    def offset(self, *names: str) -> int:
        """Return the offset of the first of some fields that exists.

        Raises:
            UnknownError: none exists.
        """
        return _first(self.offsets, names)

    def has(self, name: str) -> bool:
        """Return whether there is a field."""
        return name in self.offsets

    def size(self, name: str) -> int:
        """Return the size of a type.

        Raises:
            UnknownError: there is no such type.
        """
        return _first(self.sizes, (name,))

    def static(self, *names: str) -> int:
        """Return the address of the first of some static fields that exists.

        Raises:
            UnknownError: none exists.
        """
        return _first(self.statics, names)


def _first(table: dict[str, int], names: tuple[str, ...]) -> int:
    for name in names:
        if name in table:
            return table[name]
    raise UnknownError(names[0])


def read_tables(memory: ProcessMemory, base: int) -> VmTables | None:
    """Read the tables of a JVM.

    Returns:
        None if the process has just mapped the library, which is not relocated or initialized yet.

    Raises:
        UnreadableError: the process has ended, or its memory may not be read.
        UnknownError: it has no such tables, or other ones.
    """
    try:
        found = LoadedImage(memory, base).find(_SYMBOLS)
        places = {name: base + found[name][0] for name in _SYMBOLS}
    except UnreadableError:
        raise
    except (ValueError, KeyError, struct.error) as error:
        raise UnknownError("no tables") from error
    snapshot = Snapshot(memory, MOST_VM_PAGES)
    structs = memory.number(places[_STRUCTS])
    types = memory.number(places[_TYPES])
    strides = [memory.number(places[name]) for name in (_STRUCT_STRIDE, _TYPE_STRIDE)]
    if structs < base or types < base or not all(strides):
        return None
    offsets: dict[str, int] = {}
    statics: dict[str, int] = {}
    for entry in _entries(memory, structs, strides[0]):
        of_type, field, _, is_static, _, offset, address = _STRUCT.unpack_from(entry)
        name = f"{_text(snapshot, of_type)}::{_text(snapshot, field)}"
        if is_static:
            statics[name] = address
        elif offset < _LARGEST_OFFSET:
            offsets[name] = offset
    sizes = {}
    size_offset = memory.number(places[_TYPE_SIZE])
    stride = strides[1]
    if not 0 < size_offset <= stride - _WORD.size:
        raise UnknownError("other tables")
    for entry in _entries(memory, types, stride):
        (size,) = _WORD.unpack_from(entry, size_offset)
        if size < _LARGEST_OFFSET:
            sizes[_text(snapshot, _WORD.unpack_from(entry)[0])] = size
    return VmTables(offsets, statics, sizes)


def _entries(memory: ProcessMemory, at: int, stride: int) -> Iterator[bytes]:
    """Give the entries of an array, up to the one without a name."""
    if not _STRUCT.size - 8 <= stride <= MOST_ENTRY_BYTES:
        raise UnknownError("other tables")
    each = _PIECE_BYTES // stride
    for first in range(0, MOST_VM_ENTRIES, each):
        begin = at + first * stride
        try:
            data = memory.read(begin, each * stride)
        except UnreadableError:
            # The array's last piece may end before memory that is not there.
            data = b"".join(_whole_pages(memory, begin, each * stride))
        for row in range(0, len(data) - stride + 1, stride):
            if not _WORD.unpack_from(data, row)[0]:
                return
            yield data[row : row + max(stride, _STRUCT.size)].ljust(_STRUCT.size, b"\0")
        if len(data) < each * stride:
            return


def _whole_pages(memory: ProcessMemory, begin: int, size: int) -> Iterator[bytes]:
    """Give the memory from an address on, as far as it is mapped."""
    at = begin
    while at < begin + size:
        end = min((at | 4095) + 1, begin + size)
        try:
            yield memory.read(at, end - at)
        except UnreadableError:
            return
        at = end


def _text(snapshot: Snapshot, address: int) -> str:
    if not address:
        return ""
    try:
        data, begin = snapshot.at(address, LONGEST_VM_NAME)
    except UnreadableError:
        return ""
    return data[begin : begin + LONGEST_VM_NAME].split(b"\0", 1)[0].decode(errors="replace")


class LoadedImage(File):
    """An ELF image in a process's memory, whose first page is at `base`; raises as `File` does."""

    def __init__(self, memory: ProcessMemory, base: int) -> None:
        self._memory = memory
        self._base = base
        super().__init__(-1)
        # glibc's dynamic linker changes some of these to addresses of the process.
        self._tags = {
            tag: value - base if value >= base else value for tag, value in self._tags.items()
        }

    def read(self, offset: int, size: int) -> bytes:
        """Return bytes of the image's beginning, which has its headers."""
        self.spend(size)
        return self._memory.read(self._base + offset, size)

    def at(self, address: int, size: int) -> bytes:
        """Return bytes by their address in the image."""
        return self.read(address, size)
