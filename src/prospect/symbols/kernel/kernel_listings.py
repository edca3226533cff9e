"""Listings of a kernel in files: System.map, vmlinux, and the copies that perf keeps.

Comes in: a path that a person gave, or the build id and release of a kernel. Goes out: a
`SymbolTable` by the addresses that the kernel was linked for, or that it had at another boot.
"""

from __future__ import annotations

import itertools
import os
import re
from typing import TYPE_CHECKING

import numpy as np

from prospect.files.door import OpenFile
from prospect.files.opening import open_file, open_received
from prospect.profile.naming import NameSource
from prospect.symbols.images.debug_files import KERNEL_LISTING, target_paths
from prospect.symbols.images.image_files import (
    cached_copies,
    debug_files,
    downloaded_debug_files,
    open_image,
    received_images,
    same_build_id,
)
from prospect.symbols.kernel.kallsyms import parse_kallsyms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.elf.image import ElfImage
    from prospect.symbols.images.image_files import FoundImage
    from prospect.symbols.table import SymbolTable

_VMLINUX = (
    "/usr/lib/debug/boot/vmlinux-{}",
    "/usr/lib/debug/lib/modules/{}/vmlinux",
    "/boot/vmlinux-{}",
    "/lib/modules/{}/build/vmlinux",
)
_SYSTEM_MAPS = ("/boot/System.map-{}", "/lib/modules/{}/System.map")


def read_system_map(path: bytes) -> tuple[SymbolTable, bytes]:
    """Read a System.map; return its table, empty if it is none, and an empty build id."""
    file = open_file(path)
    text = bytes(file.data) if isinstance(file, OpenFile) else b""
    return parse_kallsyms(text, NameSource.SYSTEM_MAP), b""


def read_vmlinux(path: bytes) -> tuple[SymbolTable, bytes]:
    """Read an uncompressed kernel image; return its table, empty if it is none, and build id."""
    found = open_image(path)
    table = _image_table(found.image) if found else None
    if found is None or table is None or not table.is_full:
        return parse_kallsyms(b""), b""
    return table, found.image.build_id or b""


def kept_listings(
    build_id: bytes, release: str, root: str, target: str = ""
) -> Iterator[SymbolTable]:
    """Read, one after the other, the listings of a kernel on this machine, the surest first.

    Args:
        build_id: of the kernel; empty if unknown, and images are then taken by release alone.
        release: of the kernel, as uname(2) has it.
        root: directory that stands for ``/``.
        target: that the recording came from, "" for none.
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
            debug_files(build_id),
            downloaded_debug_files(build_id),
            received_images(cached_copies(build_id, b"vmlinux")),
        ):
            yield from _matching_vmlinux(found, build_id)
    # The release is the recording's word: it must not lead elsewhere.
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
