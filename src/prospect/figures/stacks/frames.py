"""Frames by name: the name of a location in a stack, with the functions that were inlined there.

Stacks by address with the same names become one. A box of a flame graph has such a name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.forests import levels
from prospect.columns.grouping import distinct_keys
from prospect.profile.model import KIND_BPF, KIND_JIT, KIND_KERNEL, KIND_MODULE, SOURCE_KINDS
from prospect.profile.naming import NameSource, gather
from prospect.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prospect.columns.array_types import I64, Bools
    from prospect.profile.complete import CompleteProfile
    from prospect.profile.model import Profile, StackTable

KERNEL_KINDS = (KIND_KERNEL, KIND_MODULE, KIND_BPF)
# Of `SOURCE_KINDS`, in their order, and of the JVM.
LANGUAGES = ("Python", "Ruby", "PHP", "JavaScript", "Java")


class FrameTable(Record):
    """Distinct frames by name, and those of each location.

    Attributes:
        name: of the function, "" if unknown.
        linkage_name: "" if unknown.
        object_index: i64[f] row of the profile's objects.
        function_index: i64[f] row of the profile's functions, -1 for an inlined one.
        file_index: i64[f] row of `LineTable.files` where an inlined function, or its caller, has
            its first known line; -1 if unknown.
        start: i64[l + 1] first frame of each location.
        frame: i64[k] rows of this table: the function, then the ones inlined into it, outermost
            first.
        line: i64[k] source line in that frame, 0 if unknown.
    """

    name: list[str]
    linkage_name: list[str]
    object_index: I64
    function_index: I64
    file_index: I64
    start: I64
    frame: I64
    line: I64

    def __len__(self) -> int:
        return len(self.name)


class NamedForest(Record):
    """Stacks by name; `StackTable` has them by address.

    Attributes:
        caller_index: i64[t] row of the calling frame, less than the row itself; -1 for outermost.
        frame_index: i64[t] into the frames.
        depth: i64[t] number of callers.
        row_of_stack: i64[s] row of this table for each row of the stacks by address.
    """

    caller_index: I64
    frame_index: I64
    depth: I64
    row_of_stack: I64

    def __len__(self) -> int:
        return len(self.caller_index)


def frame_table(profile: CompleteProfile, *, inlined: bool = True) -> FrameTable:
    """Name the frames of every location of a completed profile.

    Inlined functions are separate frames if `inlined`, which takes a profile with `lines`.
    """
    functions, lines = profile.functions, profile.lines
    start, location, row = _line_rows(profile, inlined=inlined)
    is_inner = np.arange(len(location)) > start.take(location)
    inner, file_index = np.full(len(location), -1, np.int64), np.full(len(location), -1, np.int64)
    line, names, symbols = np.zeros(len(location), np.int64), [""], [""]
    if lines is not None:
        names = [*lines.names, ""]
        symbols = [*(lines.symbols or lines.names), ""]
        inner = np.where(is_inner, np.append(lines.name_index, -1).take(row), -1).astype(np.int64)
        inner[is_inner & (inner < 0)] = len(lines.names)
        file_index = np.append(lines.file_index, -1).take(row).astype(np.int64)
        line = np.append(lines.line, 0).take(row).astype(np.int64)
    function = profile.locations.function_index.astype(np.int64).take(location)
    objects = functions.object_index.astype(np.int64).take(function)
    key = np.where(inner < 0, function, len(functions) + objects * (1 << 31) + inner)
    distinct, rows, frame = np.unique(key, return_index=True, return_inverse=True)
    first: NDArray[np.intp] = np.atleast_1d(rows)
    function_index = np.where(distinct < len(functions), distinct, -1)
    inner_rows, function_rows = inner.take(first).tolist(), function_index.tolist()

    def named(of_function: Sequence[str], of_inlined: list[str]) -> list[str]:
        own = iter(gather(of_function, [row for row in function_rows if row >= 0]))
        return [
            next(own) if row >= 0 else of_inlined[inlined_row]
            for row, inlined_row in zip(function_rows, inner_rows, strict=True)
        ]

    return FrameTable(
        name=named(functions.name, names),
        linkage_name=named(functions.linkage_name, symbols),
        object_index=objects.take(first),
        function_index=function_index,
        file_index=file_index.take(first),
        start=start,
        frame=frame.astype(np.int64),
        line=line,
    )


def frames_by_line(frames: FrameTable) -> tuple[FrameTable, I64, I64]:
    """Separate frames of one name by their source line.

    Returns:
        A table with a row for each frame and line, i64[g] the row of `frames` of each, and i64[g]
        its line, 0 if unknown.
    """
    key = frames.frame << 32 | np.minimum(frames.line, 2**32 - 1)
    distinct, place = np.unique(key, return_inverse=True)
    own, line = distinct >> 32, distinct & (2**32 - 1)
    rows = own.tolist()
    return (
        replace(
            frames,
            name=[frames.name[row] for row in rows],
            linkage_name=[frames.linkage_name[row] for row in rows],
            object_index=frames.object_index.take(own),
            function_index=frames.function_index.take(own),
            file_index=frames.file_index.take(own),
            frame=place.astype(np.int64),
        ),
        own,
        line,
    )


def _line_rows(profile: CompleteProfile, *, inlined: bool) -> tuple[I64, I64, I64]:
    """Return where the frames of each location begin, and each frame's location and line row.

    The line row is one past the last of `LineTable.line` if there is none.
    """
    count, lines = len(profile.locations), profile.lines
    sizes = np.ones(count, np.int64)
    first = np.zeros(count, np.int64)
    nothing = 0
    if lines is not None:
        # A completed profile may have a location more than its table of lines.
        known = np.zeros(count, np.int64)
        known[: len(lines)] = np.diff(lines.frame_start)
        nothing = len(lines.line)
        first[: len(lines)] = lines.frame_start[:-1]
        first[known == 0] = nothing
        if inlined:
            sizes = np.maximum(known, 1)
    start = np.append(0, np.cumsum(sizes))
    location = np.repeat(np.arange(count), sizes)
    nth = np.arange(len(location)) - start.take(location)
    return start, location, np.minimum(first.take(location) + nth, nothing)


def is_kernel_frame(profile: Profile, frames: FrameTable) -> Bools:
    """Return bool[f]: the frames of the kernel, its modules and its BPF programs."""
    return np.isin(profile.objects.kind.take(frames.object_index), KERNEL_KINDS)


def frame_labels(profile: Profile, frames: FrameTable) -> list[str]:
    """Return the label of each frame: its function, or in brackets its object."""
    return [
        name or f"[{object_label(profile.objects.path[row])}]"
        for name, row in zip(frames.name, frames.object_index.tolist(), strict=True)
    ]


def with_alike_as_one(profile: CompleteProfile, frames: FrameTable) -> FrameTable:
    """Merge frames of one label and one object's name into the first.

    These are functions of one name in a file, nameless code, and code that a JIT compiled again or
    in several processes, which output cannot distinguish. Rows of the others remain, without a
    location.
    """
    return replace(frames, frame=first_of_each(alike_labels(profile, frames)).take(frames.frame))


def alike_labels(profile: Profile, frames: FrameTable) -> list[tuple[str, str]]:
    """Return the printed texts of each frame: its label and its object's name."""
    objects = [object_label(path) for path in profile.objects.path]
    of_object = [objects[row] for row in frames.object_index.tolist()]
    return list(zip(frame_labels(profile, frames), of_object, strict=True))


def first_of_each(labels: Sequence[object]) -> I64:
    """Return for each label the row that has it first."""
    first: dict[object, int] = {}
    rows = [first.setdefault(label, row) for row, label in enumerate(labels)]
    return np.array(rows, np.int64)


def object_label(path: str) -> str:
    """Return the last part of a path, without brackets."""
    return path.rsplit("/", 1)[-1].strip("[]") or path


def frame_annotations(profile: CompleteProfile, frames: FrameTable) -> list[str]:
    """Return ``_[k]`` for the kernel's frames, ``_[i]`` for inlined ones, ``_[j]`` for JIT code.

    Source: FlameGraph, stackcollapse-perf.pl --all, by which flamegraph.pl colours.
    """
    kinds = profile.objects.kind.take(frames.object_index)
    marks = np.where(kinds == KIND_JIT, "_[j]", "")
    marks = np.where(frames.function_index < 0, "_[i]", marks)
    marks = np.where(is_kernel_frame(profile, frames), "_[k]", marks)
    found: list[str] = marks.tolist()
    return found


def frame_colours(
    profile: CompleteProfile, frames: FrameTable, annotations: list[str]
) -> list[str]:
    """Return the annotation for the colour of each frame: runtimes' functions are as JIT code."""
    is_runtime = (frame_languages(profile, frames) >= 0).tolist()
    return [
        "_[j]" if of_runtime and not mark else mark
        for of_runtime, mark in zip(is_runtime, annotations, strict=True)
    ]


def frame_files(profile: CompleteProfile, frames: FrameTable) -> list[str]:
    """Return the source file of each frame, "" if unknown.

    The object of a function that a runtime names is its file.
    """
    objects, files = profile.objects, [*(profile.lines.files if profile.lines else []), ""]
    is_source = np.isin(objects.kind, SOURCE_KINDS).tolist()
    return [
        files[file] or (objects.path[row] if is_source[row] else "")
        for file, row in zip(frames.file_index.tolist(), frames.object_index.tolist(), strict=True)
    ]


def frame_languages(profile: CompleteProfile, frames: FrameTable) -> I64:
    """Return i64[f] the row of `LANGUAGES` of each frame that a runtime names, -1 for others."""
    kinds = profile.objects.kind.take(frames.object_index)
    language = np.full(len(frames), -1, np.int64)
    for row, kind in enumerate(SOURCE_KINDS):
        language[kinds == kind] = row
    is_java = profile.objects.source.take(frames.object_index) == NameSource.JVM
    language[is_java] = LANGUAGES.index("Java")
    return language


def named_forest(stacks: StackTable, frames: FrameTable) -> NamedForest:
    """Merge stacks whose frames have the same names, and insert inlined functions.

    Each round handles a depth and an inlined function: callers have their rows before their
    callees.
    """
    sizes = np.diff(frames.start)
    of_stack = sizes.take(stacks.location_index)
    room = int(of_stack.sum())
    caller_index, frame_index, depth = (np.empty(room + 1, np.int64) for _ in range(3))
    depth[-1] = -1  # for the caller -1 of an outermost frame
    row_of_stack = np.full(len(stacks) + 1, -1, np.int64)
    size = 0
    for rows in levels(stacks.depth):
        start = frames.start.take(stacks.location_index.take(rows))
        row = row_of_stack.take(stacks.caller_index.take(rows))
        for nth in range(int(of_stack.take(rows).max(initial=0))):
            has = np.flatnonzero(of_stack.take(rows) > nth)
            frame = frames.frame.take(start.take(has) + nth)
            key = (row.take(has) + 1) * len(frames) + frame
            key, place = distinct_keys(key, (size + 1) * len(frames))
            new = slice(size, size + len(key))
            caller_index[new] = key // len(frames) - 1
            frame_index[new] = key % len(frames)
            depth[new] = depth.take(caller_index[new]) + 1
            row[has] = size + place
            size += len(key)
        row_of_stack[rows] = row
    return NamedForest(caller_index[:size], frame_index[:size], depth[:size], row_of_stack[:-1])
