"""A flame graph as one SVG picture, for any browser.

Comes in: samples with stacks. Goes out: an SVG 1.1 document without scripts, links or anything from
elsewhere: outermost callers at the bottom, as wide as their share of the first event's time, or of
its samples where it has none; of all time on and off the CPU where waits were recorded. Names in
full and figures show under the pointer. Frames of less than 0.1 % are left out, more of them where
the file would pass 2 MB; the picture says so.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple
from xml.sax.saxutils import escape as xml_escaped

import numpy as np

from prospect.profile.frames import (
    FrameTable,
    NamedForest,
    frame_annotations,
    frame_labels,
    frame_table,
    named_forest,
)
from prospect.profile.grouping import group_sums
from prospect.profile.portions import event_has_time
from prospect.profile.stack_weights import main_weights, nanoseconds, paths, stack_weights
from prospect.render.escape import display_width, escaped, shortened
from prospect.render.stack_renderer import StackRenderer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from prospect.profile.model import Profile
    from prospect.profile.stack_weights import StackSamples, StackWeights

_LEAST_SHARE = 0.001
_MOST_BYTES = 2_000_000
_WIDTH, _MARGIN, _ROW, _HEAD, _FOOT = 1200, 10, 17, 46, 30
_CHAR = 7.0  # width of a character at this size, about
_LONGEST_NAME = 240
_PART = 1 << 16
_ALL = (-1, -1)  # the caller of threads, beside (thread name, row of the forest)
# Hue ranges by annotation: the kernel orange, inlined aqua, JIT code green, all else red to yellow.
_HUES = {"_[k]": (28, 36), "_[i]": (176, 192), "_[j]": (96, 116), "": (0, 24)}


class _Box(NamedTuple):
    """A frame in the picture: where it stands, in shares of the whole, and what it says."""

    left: float
    share: float
    level: int
    label: str
    figure: str
    mark: str


@dataclass(frozen=True)
class SvgRenderer(StackRenderer):
    """A flame graph as a picture."""

    name: ClassVar[str] = "svg"
    suffix: ClassVar[str] = ".svg"
    media_type: ClassVar[str] = "image/svg+xml"

    def pieces(self, samples: StackSamples) -> Iterator[bytes]:
        """Yield the picture."""
        profile = samples.profile
        frames = frame_table(profile, inlined=self.inline)
        forest = named_forest(samples.stacks, frames)
        weights = main_weights(profile, stack_weights(samples))
        if not len(weights):
            yield _picture(_title(profile, [0]), [], _LEAST_SHARE)
            return
        sums = _inclusive(profile, forest, weights)
        title = _title(profile, np.unique(weights.event).tolist())
        least = _LEAST_SHARE
        picture = _picture(title, _boxes(profile, frames, forest, sums, least), least)
        while len(picture) > _MOST_BYTES:
            least *= 2
            picture = _picture(title, _boxes(profile, frames, forest, sums, least), least)
        yield picture


class _Sums(NamedTuple):
    """Inclusive weights by thread name and row of the forest, -1 for the thread itself; i64."""

    comm: NDArray[np.int64]
    row: NDArray[np.int64]
    value: NDArray[np.int64]
    unit: str


def _inclusive(profile: Profile, forest: NamedForest, weights: StackWeights) -> _Sums:
    event = profile.run.events[int(weights.event[0])]
    value, unit = weights.count, "samples"
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
    return _Sums(comm, row - 1, value, unit)


def _boxes(
    profile: Profile, frames: FrameTable, forest: NamedForest, sums: _Sums, least: float
) -> list[_Box]:
    """Place the frames of at least a share: callers before what they call, siblings by name."""
    total = int(sums.value[sums.row < 0].sum())
    if not total:
        return []
    kept = np.flatnonzero(sums.value >= max(total * least, 1))
    labels = frame_labels(profile, frames)
    marks = frame_annotations(profile, frames)
    rows = []
    for index in kept.tolist():
        comm, row, value = (int(c[index]) for c in (sums.comm, sums.row, sums.value))
        if row < 0:
            rows.append((1, profile.comms[comm], (comm, row), _ALL, value, ""))
        else:
            frame, level = int(forest.frame_index[row]), int(forest.depth[row]) + 2
            caller = comm, int(forest.caller_index[row])
            rows.append((level, labels[frame], (comm, row), caller, value, marks[frame]))
    boxes = [_Box(0.0, 1.0, 0, "all", _figure(total, total, sums.unit), "")]
    free = {_ALL: 0.0}
    for level, label, key, caller, value, mark in sorted(rows):
        left = free[key] = free[caller]
        free[caller] += value / total
        figure = _figure(value, total, sums.unit)
        boxes.append(_Box(left, value / total, level, label, figure, mark))
    return boxes


def _figure(value: int, total: int, unit: str) -> str:
    shown = f"{value / 1e9:.3f} s" if unit == "ns" else f"{value} samples"
    return f"{shown}, {100 * value / total:.2f} %"


def _title(profile: Profile, events: list[int]) -> str:
    run = profile.run
    what = " ".join(run.command) or run.origin
    return f"{what}: {' + '.join(run.events[event].name for event in events)}"


def _picture(title: str, boxes: list[_Box], least: float) -> bytes:
    levels = max((box.level for box in boxes), default=0) + 1
    height = _HEAD + levels * _ROW + _FOOT
    size = f'width="{_WIDTH}" height="{height}"'
    view = f'viewBox="0 0 {_WIDTH} {height}" font-family="monospace" font-size="11"'
    heading = f'x="{_WIDTH / 2:g}" y="26" font-size="16" text-anchor="middle"'
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<svg xmlns="http://www.w3.org/2000/svg" version="1.1" {size} {view}>',
        f'<rect {size} fill="#fffdf5"/>',
        f"<text {heading}>{_text(shortened(escaped(title), 110))}</text>",
    ]
    lines += [_drawn(box, _HEAD + (levels - 1 - box.level) * _ROW) for box in boxes]
    note = f"Frames of less than {100 * least:g} % are not shown." if boxes else "No samples."
    lines.append(f'<text x="{_MARGIN}" y="{height - 10}" fill="#555">{note}</text>')
    lines.append("</svg>")
    return ("\n".join(lines) + "\n").encode()


def _drawn(box: _Box, top: int) -> str:
    room = _WIDTH - 2 * _MARGIN
    left, width = _MARGIN + box.left * room, box.share * room
    name = escaped(box.label) + box.mark
    hint = _text(f"{shortened(name, _LONGEST_NAME)} ({box.figure})")
    rect = (
        f'<g><title>{hint}</title><rect x="{left:.2f}" y="{top}" width="{width:.2f}" '
        f'height="{_ROW - 1}" fill="{_colour(box)}" rx="1"/>'
    )
    columns = int((width - 4) / _CHAR)
    if columns < 4:
        return f"{rect}</g>"
    shown = name if display_width(name) <= columns else shortened(name, columns)
    return f'{rect}<text x="{left + 3:.2f}" y="{top + 12}">{_text(shown)}</text></g>'


def _colour(box: _Box) -> str:
    """Return a colour that the same name always has."""
    first, last = _HUES[box.mark]
    seed = zlib.crc32(box.label.encode("utf-8", "backslashreplace"))
    hue = first + seed % (last - first + 1)
    return f"hsl({hue},{70 + (seed >> 8) % 25}%,{62 + (seed >> 16) % 12}%)"


def _text(text: str) -> str:
    return xml_escaped(text, {'"': "&quot;"})
