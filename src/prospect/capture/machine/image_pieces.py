"""The pieces of an ELF file that names and call chains are read of.

Defined by: the gABI, "Sections".
"""

from __future__ import annotations

import os
import struct

from prospect.capture.capture_limits import (
    LARGEST_COPY_BYTES,
    LARGEST_SPARSE_BYTES,
    LARGEST_STRINGS_BYTES,
    MOST_SECTIONS,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Range = tuple[int, int]

_ELF64_LITTLE_ENDIAN = b"\x7fELF\x02\x01"
_HEADER = struct.Struct("<40xQ10xHHH")  # e_shoff, e_shentsize, e_shnum, e_shstrndx
_SECTION = struct.Struct("<II16xQQ")  # sh_name, sh_type, sh_offset, sh_size
_SHT_NOBITS = 8
# Sections that names and call chains are read from.
_NAMING = frozenset(
    {
        *(b".symtab", b".strtab", b".dynsym", b".dynstr", b".shstrtab", b".gnu.hash", b".hash"),
        *(b".dynamic", b".eh_frame", b".eh_frame_hdr", b".sframe", b".gnu_debugdata"),
        *(b".gnu_debuglink", b".gopclntab", b".data.rel.ro.gopclntab", b".go.buildinfo"),
        *(b".note.gnu.build-id", b".note.go.buildid", b".note.gnu.property"),
        *(b".plt", b".plt.sec", b".plt.got", b".iplt", b".rela.plt", b".rela.dyn"),
    }
)


def copy_piece(to_fd: int, from_fd: int, offset: int, length: int) -> None:
    """Write bytes of a file to where another one is.

    Raises:
        OSError: they cannot be read or written.
    """
    done = 0
    while done < length:
        count = os.sendfile(to_fd, from_fd, offset + done, length - done)
        if not count:
            raise OSError
        done += count


def pieces_of(fd: int, size: int, largest_whole_bytes: int) -> list[Range]:
    """Return the pieces of an ELF file that are copied, as (offset, length); none of other files.

    Args:
        largest_whole_bytes: the size up to which it is copied whole.

    Raises:
        OSError: it cannot be read.
    """
    header = os.pread(fd, 64, 0)
    if len(header) < 64 or header[:4] != b"\x7fELF" or size > LARGEST_SPARSE_BYTES:
        return []
    if size <= largest_whole_bytes:
        return [(0, size)]
    if header[:6] != _ELF64_LITTLE_ENDIAN:
        return [(0, size)] if size <= LARGEST_COPY_BYTES else []
    sections = _sections(fd, header, size)
    naming = _without(size, (one for name, one in sections if name not in _NAMING))
    return naming if sum(length for _, length in naming) <= LARGEST_COPY_BYTES else []


def _sections(fd: int, header: bytes, size: int) -> Iterator[tuple[bytes, Range]]:
    """Yield name and place of the sections that take space in a file."""
    table_at, each, count, names_row = _HEADER.unpack_from(header)
    if each < _SECTION.size or not 0 < count <= MOST_SECTIONS or table_at > size:
        return
    table = os.pread(fd, each * count, table_at)
    rows = [_SECTION.unpack_from(table, at) for at in range(0, len(table) - each + 1, each)]
    if names_row >= len(rows):
        return
    _, _, names_at, names_size = rows[names_row]
    if names_at > size:
        return
    names = os.pread(fd, min(names_size, LARGEST_STRINGS_BYTES), names_at)
    for name_at, kind, begin, length in rows:
        end = min(begin + length, size)
        if kind != _SHT_NOBITS and begin < end:
            yield names[name_at:].split(b"\0", 1)[0], (begin, end)


def _without(size: int, left_out: Iterable[Range]) -> list[Range]:
    """Return what is left of a file's bytes, as (offset, length)."""
    pieces = []
    at = 0
    for begin, end in sorted(left_out):
        if begin > at:
            pieces.append((at, begin - at))
        at = max(at, end)
    if at < size:
        pieces.append((at, size - at))
    return pieces
