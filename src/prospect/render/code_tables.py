"""Numbered tables of the locations, functions and strings that stacks use, for pprof and OTLP.

Rows count from 0; a format adds its own first number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.figures.stacks.frames import KERNEL_KINDS, frame_files, frame_labels
from prospect.figures.stacks.stack_weights import paths
from prospect.records import Record, field

if TYPE_CHECKING:
    from prospect.columns.array_types import I64, U64, Ints
    from prospect.figures.stacks.frames import FrameTable
    from prospect.figures.stacks.stack_weights import StackSamples, StackWeights
    from prospect.profile.complete import CompleteProfile


class Strings(Record, frozen=False):
    """A table of strings by number, the empty one first; a look-up adds a new string."""

    rows: dict[str, int] = field(default_factory=lambda: {"": 0})

    def __getitem__(self, text: str) -> int:
        return self.rows.setdefault(text, len(self.rows))

    def of(self, texts: list[str]) -> I64:
        """Return i64[n] the number of each."""
        return np.array([self[text] for text in texts], np.int64)


_PAGE = 0x1000
_KERNEL_PATH = "[kernel.kallsyms]"


class CodeTables(Record):
    """The rows that stacks refer to.

    Attributes:
        object_index: i64[o] objects in use, the command's own first.
        mapping_start, mapping_limit: u64[o] the range of an object's addresses in use.
        location_mapping: i64[l] row of the objects above.
        location_address: u64[l].
        line_start: i64[l + 1] first line of each location.
        line_frame: i64[k] row of the functions, the innermost first.
        line_number: i64[k], 0 if unknown.
        function_name, function_linkage_name, function_file: i64[f] strings.
        location_row: i64[s] row of the locations for each row of the stacks; -1 if not in use.
    """

    object_index: I64
    mapping_start: U64
    mapping_limit: U64
    location_mapping: I64
    location_address: U64
    line_start: I64
    line_frame: I64
    line_number: I64
    function_name: I64
    function_linkage_name: I64
    function_file: I64
    location_row: I64


def code_tables(samples: StackSamples, frames: FrameTable, strings: Strings) -> CodeTables:
    """Number the locations, functions and objects of samples' stacks."""
    profile, stacks = samples.profile, samples.stacks
    in_use = np.zeros(len(stacks), np.bool_)
    in_use[samples.stack_index] = True
    rows = np.flatnonzero(in_use)
    while len(rows):
        callers = stacks.caller_index.take(rows)
        callers = callers[callers >= 0]
        rows = np.unique(callers[~in_use.take(callers)])
        in_use[rows] = True
    is_location = np.zeros(len(profile.locations), np.bool_)
    is_location[stacks.location_index[in_use]] = True
    location = np.flatnonzero(is_location)
    rank = np.cumsum(is_location) - 1
    location_row = np.where(in_use, rank.take(stacks.location_index), -1)
    function = profile.locations.function_index.take(location)
    object_index = profile.functions.object_index.take(function).astype(np.int64)
    address = profile.locations.address.take(location)
    objects, mapping = _objects_in_use(profile, object_index)
    start, limit = _bounds(profile, objects, mapping, address)
    line_start, line_frame, line_number = _lines(frames, location)
    used_frames, line_frame = np.unique(line_frame, return_inverse=True)
    names, linkage_names, files = _functions(profile, frames, used_frames)
    return CodeTables(
        object_index=objects,
        mapping_start=start,
        mapping_limit=limit,
        location_mapping=mapping,
        location_address=address,
        line_start=line_start,
        line_frame=line_frame.astype(np.int64),
        line_number=line_number,
        function_name=strings.of(names),
        function_linkage_name=strings.of(linkage_names),
        function_file=strings.of(files),
        location_row=location_row,
    )


def object_build_ids(profile: CompleteProfile, tables: CodeTables) -> list[str]:
    """Return the build id of each object in use; the kernel's is that of the recorded machine."""
    objects = profile.objects
    return [
        objects.build_id[row]
        or (profile.run.kernel_build_id if objects.path[row] == _KERNEL_PATH else "")
        for row in tables.object_index.tolist()
    ]


def stacks_innermost_first(
    samples: StackSamples, tables: CodeTables, stack_index: I64
) -> tuple[I64, I64]:
    """Return i64[n + 1] where stacks begin, and i64[m] rows of the locations, innermost first."""
    stacks = samples.stacks
    backwards = stack_index[::-1]
    start, frames = paths(stacks.caller_index, stacks.depth, backwards)
    sizes = np.diff(start)[::-1]
    return np.append(0, np.cumsum(sizes)), tables.location_row.take(frames[::-1])


def value_columns(
    profile: CompleteProfile, weights: StackWeights, nanoseconds: I64
) -> list[tuple[int, str, str, I64]]:
    """Return (event, type, unit, i64[w]) of each value that a stack has.

    An event has samples, and time or, if its periods are not time, its counts. With several events
    a row of weights has zeros in the columns of the others.
    """
    events = profile.run.events
    present = np.unique(weights.event).tolist() or [0]
    columns = []
    for event in present:
        is_one = weights.event == event
        name = events[event].name
        if events[event].unit:  # the columns of the tool that wrote it
            if events[event].counts:
                count = np.where(is_one, weights.count, 0)
                columns.append((event, events[event].counts, "count", count))
            columns.append((event, name, events[event].unit, np.where(is_one, weights.period, 0)))
            continue
        kind = "samples" if len(present) == 1 else f"{name} samples"
        columns.append((event, kind, "count", np.where(is_one, weights.count, 0)))
        if events[event].seconds_per_period > 0 or events[event].seconds_per_hit > 0:
            kind = "cpu" if len(present) == 1 else name
            columns.append((event, kind, "nanoseconds", np.where(is_one, nanoseconds, 0)))
        else:
            columns.append((event, name, "count", np.where(is_one, weights.period, 0)))
    return columns


def _objects_in_use(profile: CompleteProfile, object_index: I64) -> tuple[I64, I64]:
    objects, mapping = np.unique(object_index, return_inverse=True)
    command = profile.run.command[0].rsplit("/", 1)[-1] if profile.run.command else ""
    is_other = np.array(
        [profile.objects.path[row].rsplit("/", 1)[-1] != command for row in objects.tolist()],
        np.bool_,
    )
    order = np.argsort(is_other, kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return objects.take(order), rank.take(mapping)


def _bounds(profile: CompleteProfile, objects: I64, mapping: I64, address: U64) -> tuple[U64, U64]:
    start = np.full(len(objects), 2**64 - 1, np.uint64)
    last = np.zeros(len(objects), np.uint64)
    np.minimum.at(start, mapping, address)
    np.maximum.at(last, mapping, address)
    page = np.uint64(_PAGE - 1)
    is_image = ~np.isin(profile.objects.kind.take(objects), KERNEL_KINDS)
    # Images are at their own addresses, so that a disassembler finds them.
    start = np.where(is_image, np.uint64(0), start & ~page)
    return start, np.minimum(last | page, np.uint64(2**64 - 2)) + np.uint64(1)


def _lines(frames: FrameTable, location: Ints) -> tuple[I64, I64, I64]:
    sizes = (frames.start[1:] - frames.start[:-1]).take(location)
    start = np.append(0, np.cumsum(sizes))
    backwards = frames.start[1:].take(location) - 1 + start[:-1]
    row = np.repeat(backwards, sizes) - np.arange(int(start[-1]))
    return start, frames.frame.take(row), frames.line.take(row)


def _functions(
    profile: CompleteProfile, frames: FrameTable, used: I64
) -> tuple[list[str], list[str], list[str]]:
    labels = frame_labels(profile, frames)
    files = frame_files(profile, frames)
    return (
        [labels[row] for row in used.tolist()],
        [frames.linkage_name[row] or labels[row] for row in used.tolist()],
        [files[row] for row in used.tolist()],
    )
