"""Locations of a profile → their source lines, through inlined functions: `LineTable`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.lines.table import LineTableBuilder
from prospect.profile.model import KIND_ELF
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
    for row in recorded.keys:
        hit = order[bounds[row] : bounds[row + 1]]
        if profile.objects.kind[row] != KIND_ELF or not len(hit):
            continue
        found = recorded.image(row)
        if isinstance(found, Missing):
            notes[row] = found.note
            continue
        frames, note = recorded.frames(row, found, locations.address.take(hit))
        builder.add(hit, frames)
        if note:
            notes[row] = note
    return builder.table(len(locations), notes)
