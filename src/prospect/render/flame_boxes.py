"""The boxes of a flame graph: stacks added up by name, callers before callees.

Positions and widths are shares of the whole.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.grouping import group_sums
from prospect.columns.sorting import distinct
from prospect.figures.modes import event_has_time
from prospect.figures.stacks.frames import (
    FrameTable,
    NamedForest,
    frame_annotations,
    frame_colours,
    frame_labels,
    frame_table,
    named_forest,
)
from prospect.figures.stacks.stack_weights import main_weights, nanoseconds, paths, stack_weights
from prospect.records import NamedTuple, Record
from prospect.render.escape import escaped

if TYPE_CHECKING:
    from prospect.columns.array_types import I64
    from prospect.figures.stacks.stack_weights import StackSamples, StackWeights
    from prospect.profile.complete import CompleteProfile

_PART = 1 << 16
_ALL = (-1, -1)  # the caller of threads; others are (thread name, row of the forest)
# Hue ranges by annotation: the kernel orange, inlined aqua, of a runtime or a JIT green, else
# red to yellow.
_HUES = {"_[k]": (28, 36), "_[i]": (176, 192), "_[j]": (96, 116), "": (0, 24)}


class Box(NamedTuple):
    """A frame in the picture: its place, in shares of the whole, and its texts."""

    left: float
    share: float
    level: int
    label: str
    figure: str
    mark: str
    hue: str

    @property
    def colour(self) -> tuple[int, int, int]:
        """Hue in degrees, saturation and lightness in percent: always the same for a name."""
        first, last = _HUES[self.hue]
        seed = zlib.crc32(self.label.encode("utf-8", "backslashreplace"))
        hue = first + seed % (last - first + 1)
        return hue, 70 + (seed >> 8) % 25, 62 + (seed >> 16) % 12


class FlameGraph(Record):
    """Stacks added up by name, of the first event; of all time if waits were recorded.

    Attributes:
        profile: completed.
        forest: stacks by name.
        events: rows of `RunInfo.events` that are added up; empty if there is no sample.
        comm, row, value: i64[v] inclusive weights by thread name and row of the forest, -1 for the
            thread itself.
        unit: of the weights: "ns", "samples", or what another tool counted.
    """

    profile: CompleteProfile
    frames: FrameTable
    forest: NamedForest
    events: tuple[int, ...]
    comm: I64
    row: I64
    value: I64
    unit: str

    def boxes(self, least: float) -> list[Box]:
        """Place the frames of at least a share: callers before callees, siblings by name."""
        total = int(self.value[self.row < 0].sum())
        if not total:
            return []
        kept = np.flatnonzero(self.value >= max(total * least, 1))
        labels = frame_labels(self.profile, self.frames)
        marks = frame_annotations(self.profile, self.frames)
        hues = frame_colours(self.profile, self.frames, marks)
        forest = self.forest
        rows = []
        for index in kept.tolist():
            comm, row, value = (int(c[index]) for c in (self.comm, self.row, self.value))
            if row < 0:
                rows.append((1, self.profile.comms[comm], (comm, row), _ALL, value, "", ""))
            else:
                frame, level = int(forest.frame_index[row]), int(forest.depth[row]) + 2
                caller = comm, int(forest.caller_index[row])
                what = (labels[frame], (comm, row), caller, value, marks[frame], hues[frame])
                rows.append((level, *what))
        boxes = [Box(0.0, 1.0, 0, "all", _figure(total, total, self.unit), "", "")]
        free = {_ALL: 0.0}
        for level, label, key, caller, value, mark, hue in sorted(rows):
            left = free[key] = free[caller]
            free[caller] += value / total
            figure = _figure(value, total, self.unit)
            boxes.append(Box(left, value / total, level, label, figure, mark, hue))
        return boxes


def flame_graph(samples: StackSamples, *, inlined: bool) -> FlameGraph:
    """Add up samples."""
    profile = samples.profile
    frames = frame_table(profile, inlined=inlined)
    forest = named_forest(samples.stacks, frames)
    weights = main_weights(profile, stack_weights(samples))
    if not len(weights):
        nothing = np.empty(0, np.int64)
        return FlameGraph(profile, frames, forest, (), nothing, nothing, nothing, "samples")
    events = tuple(distinct(weights.event).tolist())
    return FlameGraph(profile, frames, forest, events, *_inclusive(profile, forest, weights))


def _inclusive(
    profile: CompleteProfile, forest: NamedForest, weights: StackWeights
) -> tuple[I64, I64, I64, str]:
    """Return thread name, row of the forest and inclusive weight, and the weights' unit."""
    event = profile.run.events[int(weights.event[0])]
    value = weights.count
    unit = escaped(event.samples_title.lower()) if event.unit else "samples"
    if event_has_time(event):
        value = nanoseconds(profile, weights.event, weights.count, weights.period)
        unit = "ns"
    parts = []
    for first in range(0, len(weights), _PART):
        part = slice(first, first + _PART)
        rows = forest.row_of_stack.take(weights.stack_index[part])
        start, path = paths(forest.caller_index, forest.depth, rows)
        sizes = np.diff(start)
        comm = weights.comm_index[part]
        # Row 0 of the keys is the thread itself.
        keys = (
            np.concatenate((comm, np.repeat(comm, sizes))),
            np.concatenate((np.zeros(len(comm), np.int64), path + 1)),
        )
        values = np.concatenate((value[part], np.repeat(value[part], sizes)))
        found, (sums,) = group_sums(keys, (values,))
        parts.append((*found, sums))
    comm, row, value = (np.concatenate(column) for column in zip(*parts, strict=True))
    (comm, row), (value,) = group_sums((comm, row), (value,))
    return comm, row - 1, value, unit


def _figure(value: int, total: int, unit: str) -> str:
    shown = f"{value / 1e9:.3f} s" if unit == "ns" else f"{value} {unit}"
    return f"{shown}, {100 * value / total:.2f} %"
