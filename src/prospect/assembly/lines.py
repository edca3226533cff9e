"""Locations of a profile → their source lines, through inlined functions: `LineTable`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.assembly.jit_source import jit_frames
from prospect.assembly.kernel_lines import kernel_with_lines
from prospect.lines.table import LineTableBuilder
from prospect.profile.model import KIND_ELF, KIND_JIT, KIND_KERNEL
from prospect.symbols.objects import Missing

if TYPE_CHECKING:
    from prospect.assembly.recorded_objects import RecordedObjects
    from prospect.profile.model import Profile
    from prospect.profile.source import LineTable


def describe_lines(profile: Profile, recorded: RecordedObjects) -> LineTable:
    """Find the source line of every location, through inlined functions.

    Each image's debug information is read once, each location looked up once.
    """
    locations = profile.locations
    object_of = profile.functions.object_index.take(locations.function_index)
    order = np.argsort(object_of, kind="stable")
    bounds = np.searchsorted(object_of.take(order), np.arange(len(profile.objects) + 1))
    builder = LineTableBuilder()
    notes: dict[int, str] = {}
    built_ns: dict[int, int] = {}
    for row in recorded.keys:
        hit = order[bounds[row] : bounds[row + 1]]
        if not len(hit):
            continue
        if profile.objects.kind[row] == KIND_JIT:
            builder.add(hit, jit_frames(recorded, row, locations.address.take(hit)))
            continue
        address = locations.address.take(hit)
        if profile.objects.kind[row] == KIND_KERNEL and recorded.answers is None:
            kernel = kernel_with_lines(recorded.options, recorded.lines.cache)
            if isinstance(kernel, str):
                notes[row] = kernel
                continue
            found, address = kernel.found, address - np.uint64(kernel.shift)
        elif profile.objects.kind[row] == KIND_ELF:
            image = recorded.image(row)
            if isinstance(image, Missing):
                notes[row] = image.note
                continue
            found = image
        else:
            continue
        frames, note = recorded.frames(row, found, address)
        builder.add(hit, frames)
        if recorded.answers is None:  # what an archive stands an image in by has no time
            built_ns[row] = found.file.modified_ns
        if note:
            notes[row] = note
    return builder.table(len(locations), notes, built_ns)
