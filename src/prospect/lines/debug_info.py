"""Which file has the DWARF of an image, and whether it may be given to the library that reads it.

If it may not, a sentence says why there are no lines. Section names are those of the DWARF 5
standard, appendix B; compressed sections are defined by the gABI, "Section Compression", and
``.zdebug_`` by binutils.

A report may spend a bounded time on debug information of other users: files that neither root nor
we own are read one after the other, each by a child with what is left. One that takes too much has
no symcache.
"""

from __future__ import annotations

import enum
import struct
import threading
import time
from typing import TYPE_CHECKING

import numpy as np

from prospect.elf import elf_layout
from prospect.files.budget import VARIABLE, ReadBudget
from prospect.files.rights import is_trusted
from prospect.lines.conversion import convert_in_child
from prospect.lines.lines_limits import (
    ALL_READING_S,
    LARGEST_DEBUG_BYTES,
    LEAST_READING_S,
    LONGEST_SECTION_NAME_BYTES,
    MOST_READING_S,
    READING_S_A_MB,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prospect.elf.image import ElfImage


NO_DEBUG_INFO = "no debug information: install its debug symbols, or build it with -g"
SHARED = (
    "part of its debug information is in a file shared with others (dwz): "
    "some functions inlined there have no name"
)
UNREADABLE = "its debug information is damaged or too large to be read"
TOO_NEW = "its debug information is DWARF {version}: versions 2 to 5 are read"
COSTLY = (
    "its debug information is damaged, or takes more time or memory to be read than files of other"
    f" users may; {VARIABLE}=4G allows more"
)

NO_MEMORY = (
    "its debug information was not read: files of other users and compressed files take all the"
    f" memory that they may; {VARIABLE}=4G allows more"
)

_COMPRESSED_32 = struct.Struct("<III")  # Elf32_Chdr: type, size, alignment
_COMPRESSED_64 = struct.Struct("<IIQQ")  # Elf64_Chdr: type, reserved, size, alignment
_OLD_COMPRESSED = struct.Struct(">4sQ")  # "ZLIB", size
_OLD_PREFIX = b".zdebug_"
_PREFIX = b".debug_"
_MOST_NAMES = 3

# The share of the time left by other users' files that those of one user may take.
_SHARE = 2 / 3


class Lack(enum.Enum):
    """Why the debug information of a split unit is missing."""

    FILE = "was not found or could not be read"
    MEMORY = "was not read"
    TIME = "could not be read"


_HELP = {
    Lack.FILE: (
        "keep these files where they were made or next to the image, or the .dwp package next to it"
    ),
    Lack.MEMORY: (
        "files of other users and compressed files take all the memory that they may; "
        f"{VARIABLE}=4G allows more"
    ),
    Lack.TIME: (
        "it is damaged, or takes more time or memory than files of other users may; "
        f"{VARIABLE}=4G allows more"
    ),
}


def unreadable(speaks_for: int) -> str:
    """Say why debug information could not be read; `speaks_for` is whose it is."""
    return UNREADABLE if is_trusted(speaks_for) else COSTLY


def split_files_missing(lack: Lack, names: Sequence[bytes]) -> str:
    """Say which files with split debug information were not read, and why."""
    shown = ", ".join(name.decode("utf-8", "surrogateescape") for name in names[:_MOST_NAMES])
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"split debug information {lack.value}: {shown}{more}; {_HELP[lack]}"


def may_be_split(image: ElfImage) -> bool:
    """Whether units may have their rest in .dwo files, found without reading them.

    Code of a split unit is addressed through this section only (DWARF 5, 7.3.2.2, and the GNU
    extension to DWARF 4).
    """
    return any(image.find_section(name) >= 0 for name in (b".debug_addr", b".zdebug_addr"))


def is_shared(image: ElfImage) -> bool:
    """Whether part of the DWARF is in another file, as ``dwz -m`` leaves it."""
    return image.find_section(b".gnu_debugaltlink") >= 0


def is_readable(image: ElfImage) -> bool:
    """Whether the file and what it unpacks to is of a size to be read at all.

    The library reserves the memory that a compressed section claims to need, and a refusal of the
    system ends the process.
    """
    return len(image.data) + unpacked_bytes(image) <= LARGEST_DEBUG_BYTES


def unpacked_bytes(image: ElfImage) -> int:
    """Return what the compressed sections of debug information claim to unpack to."""
    return sum(_unpacked_sizes(image))


def _unpacked_sizes(image: ElfImage) -> Iterator[int]:
    """Give what each compressed section of debug information claims to unpack to."""
    header = _COMPRESSED_64 if image.is_64 else _COMPRESSED_32
    for section in image.sections:
        name = _section_name(image, int(section["name"]))
        start = int(section["offset"])
        content = image.data[start : start + int(section["size"])]
        if name.startswith(_OLD_PREFIX) and len(content) >= _OLD_COMPRESSED.size:
            yield _OLD_COMPRESSED.unpack_from(content)[1]
        elif (
            name.startswith(_PREFIX)
            and section["flags"] & elf_layout.SHF_COMPRESSED
            and len(content) >= header.size
        ):
            yield header.unpack_from(content)[-2]


def _section_name(image: ElfImage, offset: int) -> bytes:
    name = bytes(image.section_names[offset : offset + LONGEST_SECTION_NAME_BYTES])
    return name.partition(b"\0")[0]


def load_address(image: ElfImage) -> int:
    """Return the SVMA that the library counts addresses from: that of the first PT_LOAD."""
    loads = np.flatnonzero(image.segments["type"] == elf_layout.PT_LOAD)
    return int(image.segments["vaddr"][loads[0]]) if len(loads) else 0


class BoundedReader:
    """Reads the debug information that strangers' files have, for one report."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._left_bytes = ReadBudget.of_environment().most_bytes
        self._used_s: dict[int, float] = {}

    @property
    def left_bytes(self) -> int:
        """How much memory further files may take."""
        return self._left_bytes

    def convert(self, data: bytes | memoryview, uid: int) -> bytes | None:
        """Make a symcache; None for what cannot be read within what is left.

        Args:
            data: a whole ELF file. It gets a second for each MB, and some more.
        """
        with self._turn:
            used_s = self._used_s.get(uid, 0.0)
            left_s = (ALL_READING_S - sum(self._used_s.values()) + used_s) * _SHARE - used_s
            seconds = min(
                LEAST_READING_S + len(data) / 1e6 * READING_S_A_MB, MOST_READING_S, left_s
            )
            if seconds <= 0 or len(data) > self._left_bytes:
                return None
            began_s = time.monotonic()
            made = convert_in_child(data, self._left_bytes, seconds)
            self._used_s[uid] = used_s + time.monotonic() - began_s
            self._left_bytes -= len(made or b"")
            return made
