"""Find the functions that --count-calls counts: patterns → places in files.

The option's value is ``NAME*,IMAGE:NAME*``: pairs of an image and a pattern. A single colon ends
the image; two of them belong to a name of C++ or Rust.

Names come from the symbol tables that reports use. Each file is opened once, and the kernel probes
it through that descriptor.

Source: "glibc-ld.so.cache1.1", ``sysdeps/generic/dl-cache.h`` of glibc 2.36, for the places of
libraries.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from prospect.capture.counting.call_probes import Function
from prospect.capture.events.probe_places import open_program
from prospect.elf import elf_layout
from prospect.elf.image import NO_ADDRESS
from prospect.elf.symbols import read_symbols
from prospect.errors import UsageError
from prospect.files.system_files import read_system_file
from prospect.profile.naming import NameSource
from prospect.recording.recording_limits import MOST_COUNTED_FUNCTIONS
from prospect.records import NamedTuple
from prospect.symbols.demangling.demangle import demangle
from prospect.symbols.images.image_files import find_debug_image, open_image
from prospect.symbols.images.image_symbols import read_symbol_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prospect.columns.array_types import U64, Bools
    from prospect.symbols.images.image_files import DebugImage, FoundImage

_COLON = re.compile(r"(?<!:):(?!:)")
_CODE_BYTES = 8
_NAMED = (
    NameSource.SYMTAB,
    NameSource.DEBUG_FILE,
    NameSource.MINI_DEBUG,
    NameSource.DEBUG_SERVER,
    NameSource.DYNSYM,
    NameSource.GO_TABLE,
    NameSource.ENTRY_POINT,
)
# Unwinders recognise the frame of a signal by the bytes at its return address, in this function.
_NEVER = {b"__restore_rt", b"__restore"}
_LOADERS = ("ld-linux", "ld-musl", "ld.so", "ld64")
_CACHE_MAGIC = b"glibc-ld.so.cache1.1"
_CACHE_HEADER = struct.Struct("=20sII20x")
_CACHE_ENTRY = struct.Struct("=iIIIQ")
# FLAG_ELF_LIBC6 and FLAG_X8664_LIB64
_CACHE_X86_64 = 0x0303


class CallPattern(NamedTuple):
    """Functions to count: a shell pattern of names in an image, "" for COMMAND's."""

    image: str
    name: str


def parse_call_patterns(text: str) -> tuple[CallPattern, ...]:
    """Parse the patterns.

    Raises:
        UsageError: a name is missing.
    """
    found = []
    for part in text.split(","):
        match = _COLON.search(part)
        image, name = (part[: match.start()], part[match.end() :]) if match else ("", part)
        if not name or (match and not image) or "\0" in part:
            raise UsageError("give names of functions, as 'parse_*' or 'libz.so.1:deflate*'")
        found.append(CallPattern(image, name))
    return tuple(found)


@contextmanager
def counted_functions(
    patterns: Sequence[CallPattern], command: Sequence[str | bytes]
) -> Iterator[list[Function]]:
    """Find the functions; their files stay open in the context.

    Args:
        command: has the image for patterns without one.

    Raises:
        UsageError: there is no such image or function, or there are too many.
    """
    files: dict[str, int] = {}
    try:
        names_of: dict[str, list[str]] = {}
        for pattern in patterns:
            path = _image_path(pattern.image, command)
            names_of.setdefault(path, []).append(pattern.name)
        found: list[Function] = []
        for path, names in names_of.items():
            files[path] = open_program(path, "--count-calls: ")
            found += _functions_of(path, files[path], names)
        if len(found) > MOST_COUNTED_FUNCTIONS:
            raise UsageError(
                f"--count-calls fits {len(found)} functions, at most {MOST_COUNTED_FUNCTIONS} are"
                " counted at once: give a narrower pattern"
            )
        yield found
    finally:
        for file in files.values():
            os.close(file)


def _image_path(image: str, command: Sequence[str | bytes]) -> str:
    """Return the path that an image has in mappings."""
    name = os.fsdecode(command[0]) if command else ""
    own = shutil.which(name) or name
    if not image or fnmatch.fnmatchcase(os.path.basename(own), image):  # noqa: PTH119 - not a Path
        path = own
    elif "/" in image:
        path = image
    else:
        path = _library_path(image)
    path = os.path.realpath(path)
    if os.path.basename(path).startswith(_LOADERS):  # noqa: PTH119 - not a Path
        raise UsageError(
            f"--count-calls: {path} is the dynamic loader, which is not counted: name another image"
        )
    return path


def _library_path(image: str) -> str:
    """Look up a library as the loader does, by its name, with or without a version."""
    for name, path in _cached_libraries(read_system_file("/etc/ld.so.cache")):
        if name == image or name.partition(".so")[0] == image:
            return path
    raise UsageError(f"--count-calls: no library {image} is installed: give its path")


def _cached_libraries(cache: bytes) -> Iterator[tuple[str, str]]:
    """Yield name and path of each library of this machine's kind."""
    at = cache.find(_CACHE_MAGIC)
    if at < 0 or len(cache) < at + _CACHE_HEADER.size:
        return
    cache = cache[at:]
    _, count, _ = _CACHE_HEADER.unpack_from(cache)
    entries = cache[_CACHE_HEADER.size :][: count * _CACHE_ENTRY.size]
    entries = entries[: len(entries) // _CACHE_ENTRY.size * _CACHE_ENTRY.size]
    for flags, key, value, _, hardware in _CACHE_ENTRY.iter_unpack(entries):
        if flags == _CACHE_X86_64 and not hardware:
            name = os.fsdecode(cache[key : cache.find(b"\0", key)])
            yield name, os.fsdecode(cache[value : cache.find(b"\0", value)])


def _functions_of(path: str, file: int, patterns: Sequence[str]) -> list[Function]:
    found = open_image(b"/proc/self/fd/%d" % file)
    if found is None or found.image.machine != elf_layout.EM_X86_64:
        raise UsageError(
            f"--count-calls: {path} is not a program for this machine: name the image whose"
            " functions are meant, as IMAGE:NAME*"
        )
    debug = find_debug_image(found, os.path.dirname(os.fsencode(path)))  # noqa: PTH120 - bytes
    table = read_symbol_table(found.image, *((debug.image, debug.source) if debug else ()))
    rows = np.flatnonzero(np.isin(table.source, _NAMED) & _is_function(table.start, found, debug))
    offset = found.image.offset_of_svma(table.start.take(rows))
    rows, offset = rows[offset != NO_ADDRESS], offset[offset != NO_ADDRESS]
    raw = table.names(rows.tolist())
    names = demangle(raw)
    fits = re.compile("|".join(map(fnmatch.translate, patterns)))
    functions = []
    for row, at, name, text in zip(rows.tolist(), offset.tolist(), raw, names, strict=True):
        aliases = map(os.fsdecode, table.alias_names(row))
        if name not in _NEVER and any(map(fits.match, (text, os.fsdecode(name), *aliases))):
            code = bytes(found.image.data[at : at + _CODE_BYTES])
            functions.append(Function(file, path, name, int(table.start[row]), at, code))
    if not functions:
        raise UsageError(
            f"--count-calls: {path} has no function {','.join(patterns)} in its symbol tables; of a"
            " library they are counted as in libc.so.6:malloc"
        )
    return functions


def _is_function(start: U64, found: FoundImage, debug: DebugImage | None) -> Bools:
    """Return bool[n]: whether a function begins at an address, not data or a resolver.

    The function that a resolver (STT_GNU_IFUNC) chooses at run time is at another address.
    """
    tables = [read_symbols(found.image, name) for name in (b".symtab", b".dynsym")]
    tables.append(read_symbols(debug.image, b".symtab") if debug else None)
    code, other = [np.zeros(0, np.uint64)], [np.zeros(0, np.uint64)]
    for table in filter(None, tables):
        is_code = table.kind == elf_layout.STT_FUNC
        code.append(table.value[is_code])
        other.append(table.value[~is_code])
    known, strange = np.concatenate(code), np.concatenate(other)
    # Symbols in neither come from unpacked debug data, which has only functions.
    return np.isin(start, known) | ~np.isin(start, strange)
