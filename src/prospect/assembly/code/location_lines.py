"""Locations of a profile → their source lines, through inlined functions: `LineTable`."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING

import numpy as np

from prospect.announcing import pluralize
from prospect.archived.symbolizers import archived_frames
from prospect.assembly.assembly_limits import LARGEST_INLINED_BYTES
from prospect.disasm.kernel_code import KernelImage, open_kernel
from prospect.figures.calls.own_code import is_own_object
from prospect.lines.debug_info import is_readable, may_be_split
from prospect.lines.symcache import line_table_of, no_frames, select_frames
from prospect.profile.model import KIND_ELF, KIND_JIT, KIND_KERNEL, SOURCE_KINDS
from prospect.records import NamedTuple, replace
from prospect.symbols.images.debug_files import has_debug_info
from prospect.symbols.images.image_files import debug_files, downloaded_debug_files, same_build_id
from prospect.symbols.images.recorded_images import identity_of
from prospect.symbols.objects import Missing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.assembly.code.recorded_objects import RecordedObjects
    from prospect.columns.array_types import I64, U64, Bools
    from prospect.elf.image import ElfImage
    from prospect.lines.symcache import Frames
    from prospect.profile.model import Profile
    from prospect.profile.optional_tables import LineTable
    from prospect.symbols.images.image_files import FoundImage
    from prospect.symbols.naming_options import SymbolOptions
    from prospect.symbols.table_cache import FileIdentity, SymbolCache

_WITH_LINES = (KIND_ELF, KIND_KERNEL)
NO_IMAGE = (
    "source lines of the kernel need its vmlinux with debug information: give it with -L, or "
    "install the kernel's debug symbols"
)


class _Wanted(NamedTuple):
    """Locations of one object row: i64[n] rows of the profile's, and u64[n] SVMAs in its image."""

    row: int
    hit: I64
    found: FoundImage
    address: U64


class _Found(NamedTuple):
    """Lines found so far, and the notes and times of `LineTable` by object row."""

    pieces: list[tuple[I64, Frames]]
    notes: dict[int, str]
    built_ns: dict[int, int]


def describe_inlined(profile: Profile, recorded: RecordedObjects) -> LineTable:
    """Find the inlined functions of the user's own code, if that takes little time.

    Only images with their own debug information are read, the smallest first, up to
    LARGEST_INLINED_BYTES together.
    """
    own = is_own_object(profile) & (profile.objects.kind == KIND_ELF)
    sizes = []
    for row in np.flatnonzero(own).tolist() if recorded.answers is None else ():
        image = recorded.image(row) if row in recorded.keys else None
        if image is None or isinstance(image, Missing) or not _has_own_lines(image.image):
            own[row] = False
        else:
            sizes.append((len(image.image.data), row))
    until = itertools.accumulate(size for size, _ in sorted(sizes))
    for end, (_, row) in zip(until, sorted(sizes), strict=True):
        own[row] &= end <= LARGEST_INLINED_BYTES
    object_of = profile.functions.object_index.take(profile.locations.function_index)
    is_known = (profile.locations.function_index >= 0) & (object_of >= 0)
    return describe_lines(profile, recorded, is_known & own.take(np.maximum(object_of, 0)))


def _has_own_lines(image: ElfImage) -> bool:
    return has_debug_info(image) and is_readable(image) and not may_be_split(image)


def describe_lines(
    profile: Profile, recorded: RecordedObjects, chosen: Bools | None = None
) -> LineTable:
    """Find the source lines of a profile's locations, through inlined functions.

    Each image's debug information is read once, and each distinct address in it looked up once.
    `chosen` bool[l] selects locations; None for all.
    """
    lines = _Found([], {}, {})
    by_file: dict[FileIdentity, list[_Wanted]] = {}
    for row, hit in _locations_of(profile, recorded, chosen):
        address = profile.locations.address.take(hit)
        kind = profile.objects.kind[row]
        if kind == KIND_JIT:
            lines.pieces.append((hit, recorded.jit_frames(row, address)))
        elif kind in SOURCE_KINDS:
            lines.pieces.append((hit, recorded.runtime_frames(row, address)))
        elif kind in _WITH_LINES and recorded.answers is not None:
            frames, note = archived_frames(recorded.answers, recorded.keys[row], address)
            _add(lines, row, hit, frames, note)
        elif kind in _WITH_LINES:
            wanted = _wanted(profile, recorded, row, hit)
            if isinstance(wanted, str):
                lines.notes[row] = wanted
                recorded.keep_frames(row, address[:0], no_frames(0), wanted)
            else:
                by_file.setdefault(identity_of(wanted.found), []).append(wanted)
    recorded.announce(f"finding the debug information of {pluralize(len(by_file), 'object')}")
    recorded.prepare_frames((ones[0].row, ones[0].found) for ones in by_file.values())
    for number, ones in enumerate(by_file.values(), 1):
        path = profile.objects.path[ones[0].row]
        recorded.announce(f"source lines of {number} of {len(by_file)} objects: {path}")
        _look_up(profile, recorded, ones, lines)
    return line_table_of(
        len(profile.locations), lines.pieces, lines.notes, lines.built_ns, recorded.named_by
    )


def _look_up(
    profile: Profile, recorded: RecordedObjects, ones: list[_Wanted], lines: _Found
) -> None:
    """Look up the addresses of one file, which may be several objects of a profile."""
    distinct = np.unique(np.concatenate([one.address for one in ones]))
    found, note = recorded.frames_here(ones[0].row, ones[0].found, distinct)
    for one in ones:
        frames = select_frames(found, np.searchsorted(distinct, one.address))
        recorded.keep_frames(one.row, profile.locations.address.take(one.hit), frames, note)
        _add(lines, one.row, one.hit, frames, note)
        if one.found.file.modified_ns:  # unknown for a file in an archive
            lines.built_ns[one.row] = one.found.file.modified_ns


def _add(lines: _Found, row: int, hit: I64, frames: Frames, note: str) -> None:
    lines.pieces.append((hit, frames))
    if note:
        lines.notes[row] = note


def _locations_of(
    profile: Profile, recorded: RecordedObjects, chosen: Bools | None
) -> Iterator[tuple[int, I64]]:
    """Yield each object row with its chosen locations, if it has any."""
    object_of = profile.functions.object_index.take(profile.locations.function_index)
    order = np.argsort(object_of, kind="stable")
    bounds = np.searchsorted(object_of.take(order), np.arange(len(profile.objects) + 1))
    for row in recorded.keys:
        hit = order[bounds[row] : bounds[row + 1]]
        if chosen is not None:
            hit = hit[chosen.take(hit)]
        if len(hit):
            yield row, hit


def _wanted(profile: Profile, recorded: RecordedObjects, row: int, hit: I64) -> _Wanted | str:
    """Find the image that has an object's lines; the reason if there is none."""
    address = profile.locations.address.take(hit)
    if profile.objects.kind[row] == KIND_KERNEL:
        kernel = kernel_with_lines(recorded.options, recorded.lines.cache)
        if isinstance(kernel, str):
            return kernel
        return _Wanted(row, hit, kernel.found, address - np.uint64(kernel.shift))
    image = recorded.image(row)
    return image.note if isinstance(image, Missing) else _Wanted(row, hit, image, address)


def kernel_with_lines(options: SymbolOptions, cache: SymbolCache | None) -> KernelImage | str:
    """Find the vmlinux of -L, else one with DWARF by the recorded kernel's build id."""
    if options.kernel_image:
        kernel = open_kernel(options, cache)
        return kernel if isinstance(kernel, KernelImage) else str(kernel)
    build_id = options.kernel_build_id
    if not build_id:
        return NO_IMAGE
    here = debug_files(build_id, options.debug_dir)
    for found in itertools.chain(here, downloaded_debug_files(build_id)):
        if same_build_id(build_id, found.image.build_id) and has_debug_info(found.image):
            path = os.fsdecode(found.file.path)
            kernel = open_kernel(replace(options, kernel_image=path, system_map=None), cache)
            if isinstance(kernel, KernelImage):
                return replace(kernel, found=found)  # which has the rights of its source
    return NO_IMAGE
