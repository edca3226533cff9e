"""Listings of a kernel: /proc/kallsyms, copies of it, System.map, vmlinux → `SymbolTable`.

Files of listings are at a path that a person gives, or are found by the build id and release of a
kernel. Their addresses are those of the linker or of another boot. The kernel needs more time to
generate /proc/kallsyms than we to read it, so the running kernel's listing is kept between runs,
by the build id, the boot, and the modules with their addresses.

Lines of kallsyms are ``ADDRESS TYPE NAME`` with, for modules and BPF programs, a tab and
``[MODULE]``. Defined by ``kernel/kallsyms.c:s_show`` (Linux 6.12) and nm(1). The lines that count,
the ends of symbols, and the choice between several names at an address are those of
``tools/perf/util/symbol.c`` (``symbol_type__filter``, ``symbols__fixup_end``,
``symbols__fixup_duplicate``).
"""

from __future__ import annotations

import itertools
import os
import re
from _blake2 import blake2b  # as in `table_cache`
from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.text_columns import hexadecimal, line_bounds, padded
from prospect.elf.image import find_build_id
from prospect.files.system_files import read_system_file
from prospect.files.untrusted_open import OpenFile, open_file, open_received
from prospect.profile.naming import NameSource
from prospect.records import NamedTuple
from prospect.symbols.images.debug_files import KERNEL_LISTING, target_paths
from prospect.symbols.images.image_files import (
    cached_copies,
    debug_files,
    downloaded_debug_files,
    open_image,
    received_images,
    same_build_id,
)
from prospect.symbols.table import SymbolTable, build_symbol_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.columns.array_types import I64, U8, U64
    from prospect.elf.image import ElfImage
    from prospect.symbols.images.image_files import FoundImage
    from prospect.symbols.naming_options import SymbolOptions
    from prospect.symbols.table import SymbolTable
    from prospect.symbols.table_cache import SymbolCache

_PAGE_BYTES = 4096
_ADDRESS_DIGITS = 16
_NAME_COLUMN = _ADDRESS_DIGITS + 3
# Code, weak code, and data: code without its own type is listed among data.
_COUNTED_TYPES = np.zeros(256, np.bool_)
_COUNTED_TYPES[list(b"tTwWdDbB")] = True
_TAB = ord("\t")
_END_OF_MODULE = ord("]")
_VMLINUX = (
    "/usr/lib/debug/boot/vmlinux-{}",
    "/usr/lib/debug/lib/modules/{}/vmlinux",
    "/boot/vmlinux-{}",
    "/lib/modules/{}/build/vmlinux",
)
_SYSTEM_MAPS = ("/boot/System.map-{}", "/lib/modules/{}/System.map")


def parse_kallsyms(text: bytes, source: NameSource = NameSource.KALLSYMS) -> SymbolTable:
    """Parse a listing of a kernel with 64-bit addresses; skip invalid lines.

    Returns:
        The table; `module_of` returns the module of a row. Empty if the kernel hides its
        addresses: it then lists them all as zero.
    """
    text = padded(text)
    octets = np.frombuffer(text, np.uint8)
    start, end = line_bounds(text)
    long_enough = np.flatnonzero(end - start > _NAME_COLUMN)
    start, end = start.take(long_enough), end.take(long_enough)
    kept = np.flatnonzero(
        _COUNTED_TYPES.take(octets.take(start + _ADDRESS_DIGITS + 1))
        & (octets.take(start + _ADDRESS_DIGITS) == ord(" "))
        & (octets.take(start + _NAME_COLUMN - 1) == ord(" "))
        & (octets.take(start + _NAME_COLUMN) != ord("$"))
    )
    start, end = start.take(kept), end.take(kept)
    address, is_number = hexadecimal(text, start, start + _ADDRESS_DIGITS)
    kept = np.flatnonzero(is_number & (address != 0))
    # By address, equal ones as listed, as `_limits` compares neighbours.
    kept = kept.take(np.argsort(address.take(kept), kind="stable"))
    address, start, end = address.take(kept), start.take(kept), end.take(kept)
    name_start = start + _NAME_COLUMN
    name_end = _ends_of_names(octets, name_start, end)
    letter = octets.take(start + _ADDRESS_DIGITS + 1)
    return build_symbol_table(
        strings=text,
        start=address,
        end=address,
        limit=_limits(text, address, name_end, end),
        name_start=name_start,
        name_length=name_end - name_start,
        is_global=(letter & 0x20) == 0,
        source=np.full(len(address), source, np.uint8),
        # Among names of one address perf keeps the one that is listed last.
        rank=np.negative,
    )


def module_of(table: SymbolTable, row: int) -> bytes:
    """Return ``[module]`` for a row of a module or of a BPF program, empty for the kernel's own."""
    if table.name_length is None:
        return b""
    after = int(table.name_start[row] + table.name_length[row])
    module = bytes(table.strings[after : after + 80]).partition(b"\n")[0]
    return module[1:] if module.startswith(b"\t[") and module.endswith(b"]") else b""


def _ends_of_names(octets: U8, name_start: I64, end: I64) -> I64:
    """Return the ends of names: the tab before the module, else the end of the line."""
    in_module = np.flatnonzero(octets.take(end - 1) == _END_OF_MODULE)
    name_end = end.copy()
    if len(in_module):
        tabs = np.append(np.flatnonzero(octets == _TAB), len(octets))
        tab = tabs.take(np.searchsorted(tabs, name_start.take(in_module)))
        name_end[in_module] = np.minimum(tab, end.take(in_module))
    return name_end


def _limits(text: bytes, address: U64, name_end: I64, end: I64) -> U64:
    """Return the greatest possible end of each symbol.

    Symbols have no sizes here: each reaches to the next one, but the last of the kernel or of a
    module only to the end of the page after its own.
    """
    # Modules are compared by length and end of their names. If two look equal, the last symbol of
    # the first one reaches further.
    words = np.ndarray((len(text) - 7,), np.dtype("<u8"), text, strides=(1,))
    length = end - name_end
    beyond = (64 - 8 * np.clip(length, 1, 8)).astype(np.uint64)
    module = np.where(length > 0, words[end - 8] >> beyond, np.uint64(0))
    is_last = np.ones(len(address), np.bool_)
    is_last[:-1] = (length[1:] != length[:-1]) | (module[1:] != module[:-1])
    page = np.uint64(_PAGE_BYTES - 1)
    top = np.uint64(2**64 - 1)
    page_after = np.minimum(address, top - np.uint64(2 * _PAGE_BYTES)) + np.uint64(_PAGE_BYTES)
    return np.where(is_last, (page_after + page) & ~page, top)


def read_system_map(path: bytes) -> tuple[SymbolTable, bytes]:
    """Read a System.map; return its table, empty if that fails, and an empty build id."""
    file = open_file(path)
    text = bytes(file.data) if isinstance(file, OpenFile) else b""
    return parse_kallsyms(text, NameSource.SYSTEM_MAP), b""


def read_vmlinux(path: bytes) -> tuple[SymbolTable, bytes]:
    """Read an uncompressed kernel image; return its table, empty if that fails, and build id."""
    found = open_image(path)
    table = _image_table(found.image) if found else None
    if found is None or table is None or not table.is_full:
        return parse_kallsyms(b""), b""
    return table, found.image.build_id or b""


def kept_listings(
    build_id: bytes, release: str, root: str, target: str = "", debug_dir: bytes = b""
) -> Iterator[SymbolTable]:
    """Yield the listings of a kernel on this machine, the most reliable first.

    Args:
        build_id: of the kernel; empty if unknown, images are then found by release alone.
        release: of the kernel, as in uname(2).
        root: prefix of all paths.
        target: of the recording, "" for none.
        debug_dir: see `SymbolOptions`.
    """
    if build_id:
        for path in (
            *cached_copies(build_id, b"kallsyms"),
            *target_paths(target, build_id, KERNEL_LISTING),
        ):
            file = open_received(path)
            if isinstance(file, OpenFile):
                yield from _unless_empty(parse_kallsyms(bytes(file.data)))
        for found in itertools.chain(
            debug_files(build_id, debug_dir),
            downloaded_debug_files(build_id),
            received_images(cached_copies(build_id, b"vmlinux")),
        ):
            yield from _matching_vmlinux(found, build_id)
    # The release is from the recording: it must not lead to another directory.
    if not release or "/" in release:
        return
    for place in _VMLINUX:
        yield from _matching_vmlinux(
            open_image(os.fsencode(root + place.format(release))), build_id
        )
    for place in _SYSTEM_MAPS:
        yield from _unless_empty(read_system_map(os.fsencode(root + place.format(release)))[0])


def address_of(table: SymbolTable, name: bytes) -> int | None:
    """Return the lowest address that has this name, None if there is none."""
    pattern = re.compile(re.escape(name) + rb"(?=[\0\n\t])")
    places = np.array([match.start() for match in pattern.finditer(table.strings)], np.int64)
    found: list[int] = []
    for starts, lengths, row in (
        (table.name_start, table.name_length, np.arange(len(table))),
        (table.alias_name_start, table.alias_name_length, table.alias_row),
    ):
        is_name = np.isin(starts, places)
        if lengths is not None:
            is_name &= lengths == len(name)
        found += table.start.take(row[is_name]).tolist()
    return min(found, default=None)


def _matching_vmlinux(found: FoundImage | None, build_id: bytes) -> Iterator[SymbolTable]:
    if found and (not build_id or same_build_id(build_id, found.image.build_id)):
        table = _image_table(found.image)
        if table.is_full:
            yield table


def _unless_empty(table: SymbolTable) -> Iterator[SymbolTable]:
    if len(table):
        yield table


def _image_table(image: ElfImage) -> SymbolTable:
    from prospect.symbols.images.image_symbols import read_symbol_table  # noqa: PLC0415 - rarely needed

    return read_symbol_table(image)


class KernelPlaces(NamedTuple):
    """Files that describe the kernel; tests set other ones."""

    kallsyms: str = "/proc/kallsyms"
    notes: str = "/sys/kernel/notes"
    modules: str = "/proc/modules"
    boot_id: str = "/proc/sys/kernel/random/boot_id"
    root: str = ""


RUNNING_MACHINE = KernelPlaces()


class RunningKernel(NamedTuple):
    """The running kernel's facts about itself.

    Attributes:
        is_recorded: whether it is the kernel of the recording.
        build_id: empty if the kernel hides it.
        table: its symbols; None if it hides them, or is not the recorded one.
        is_kept: whether the table is from the cache, which may lack newer symbols.
    """

    is_recorded: bool
    build_id: bytes
    table: SymbolTable | None = None
    is_kept: bool = False


def is_running_kernel(options: SymbolOptions, places: KernelPlaces = RUNNING_MACHINE) -> bool:
    """Return whether the recorded kernel is running: by build id, else by release and host."""
    build_id = _build_id(places)
    if options.kernel_build_id and build_id:
        return same_build_id(options.kernel_build_id, build_id)
    uname = os.uname()
    is_here = options.hostname in {"", uname.nodename}
    return is_here and options.kernel_release == uname.release


def read_running_kernel(
    options: SymbolOptions, places: KernelPlaces, cache: SymbolCache | None
) -> RunningKernel:
    """Read the running kernel's symbols, if it is the recorded one.

    `cache` may have its listing, or gets it; None to read the kernel's.
    """
    build_id = _build_id(places)
    if not is_running_kernel(options, places):
        return RunningKernel(is_recorded=False, build_id=build_id)
    running = RunningKernel(is_recorded=True, build_id=build_id)
    key = _listing_key(build_id, places) if cache and build_id else ""
    kept = cache.load(key) if cache and key else None
    if kept is not None:
        return running._replace(table=kept, is_kept=True)
    table = parse_kallsyms(read_system_file(places.kallsyms))
    if not len(table):
        return running
    if cache and key:
        cache.store(key, table)
    return running._replace(table=table)


def loaded_modules(places: KernelPlaces = RUNNING_MACHINE) -> frozenset[tuple[bytes, bytes]]:
    """Return the kernel's modules by name and address.

    The use counts in /proc/modules change all the time.
    Source: ``kernel/module/procfs.c`` (Linux 6.18), m_show().
    """
    lines = (line.split() for line in read_system_file(places.modules).splitlines())
    return frozenset((words[0], words[5]) for words in lines if len(words) > 5)


def _listing_key(build_id: bytes, places: KernelPlaces) -> str:
    modules = (b" ".join(module) for module in sorted(loaded_modules(places)))
    state = b"\n".join((read_system_file(places.boot_id), *modules))
    return f"kallsyms-{build_id.hex()}-{blake2b(state).hexdigest()}"


def _build_id(places: KernelPlaces) -> bytes:
    return find_build_id([memoryview(read_system_file(places.notes))]) or b""
