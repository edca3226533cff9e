"""Mappings, locations and functions of a pprof profile → frames, and source lines if it has any."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.errors import RecordingError
from prospect.figures.stacks.frames import object_label
from prospect.foreign.object_kinds import NO_OBJECT, object_kind
from prospect.foreign.protobuf import LENGTH, VARINT, fields, signed
from prospect.foreign.stacks import NamedFrames
from prospect.profile.source import LineTable
from prospect.records import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_Line = tuple[int, int]  # function's row, source line


def read_frames(
    mappings: Sequence[bytes],
    locations: Sequence[bytes],
    functions: Sequence[bytes],
    text: Callable[[int], str],
) -> tuple[NamedFrames, LineTable | None, dict[int, int]]:
    """Read what stacks are made of.

    Args:
        mappings: the messages of this kind.
        locations: likewise.
        functions: likewise.
        text: gives a string by its number.

    Returns:
        The frames, their lines where there are any, and the row of each location by its id.

    Raises:
        RecordingError: one refers to another that is not there.
    """
    objects: dict[tuple[str, int, str], int] = {}
    mapping_rows = {}
    for part in mappings:
        of = _numbers(part)
        path = text(of.get(5, 0)) or NO_OBJECT[0]
        key = (path, object_kind(path), text(of.get(6, 0)))
        mapping_rows[of.get(1, 0)] = objects.setdefault(key, len(objects))
    paths = [path for path, _, _ in objects]
    known = _read_functions(functions, text)
    table: dict[tuple[str, str, int], int] = {}
    function_index: list[int] = []
    address: list[int] = []
    inlined: list[list[_Line]] = []
    row_of_id: dict[int, int] = {}
    for part in locations:
        numbers, lines = _read_location(part, known)
        row = mapping_rows.get(numbers.get(2, 0))
        if row is None:
            row = objects.setdefault(NO_OBJECT, len(objects))
            paths += [NO_OBJECT[0]] * (len(objects) - len(paths))
        name, raw_name, _ = known[lines[-1][0]] if lines else ("", "", "")
        if name == f"[{object_label(paths[row])}]":
            name = raw_name = ""
        function_index.append(table.setdefault((name, raw_name, row), len(table)))
        row_of_id[numbers.get(1, 0)] = len(address)
        address.append(numbers.get(3, 0))
        inlined.append(lines[::-1])
    frames = NamedFrames(
        list(objects), list(table), np.array(function_index, np.int64), np.array(address, np.uint64)
    )
    return frames, _line_table(inlined, known), row_of_id


def with_no_place(
    frames: NamedFrames, lines: LineTable | None
) -> tuple[NamedFrames, LineTable | None]:
    """Add a location, the last, for samples without a stack."""
    objects = [*frames.objects, NO_OBJECT]
    functions = [*frames.functions, ("", "", len(objects) - 1)]
    whole = NamedFrames(
        objects,
        functions,
        np.append(frames.function_index, len(functions) - 1),
        np.append(frames.address, np.uint64(0)),
    )
    if lines is None:
        return whole, None
    return whole, replace(lines, frame_start=np.append(lines.frame_start, lines.frame_start[-1]))


def _numbers(part: bytes) -> dict[int, int]:
    return {number: value for number, kind, value, _ in fields(part) if kind == VARINT}


def _read_functions(
    functions: Sequence[bytes], text: Callable[[int], str]
) -> dict[int, tuple[str, str, str]]:
    """Return name, symbol and file of each function by its id."""
    known = {}
    for part in functions:
        of = _numbers(part)
        name, raw_name = text(of.get(2, 0)), text(of.get(3, 0))
        known[of.get(1, 0)] = (name or raw_name, raw_name or name, text(of.get(4, 0)))
    return known


def _read_location(
    part: bytes, known: dict[int, tuple[str, str, str]]
) -> tuple[dict[int, int], list[_Line]]:
    numbers, lines = {}, []
    for number, kind, value, inner in fields(part):
        if kind == VARINT:
            numbers[number] = value
        elif kind == LENGTH and number == 4:
            of = _numbers(inner)
            if of.get(1, 0) not in known:
                raise RecordingError("damaged pprof profile: it lacks a function that it refers to")
            lines.append((of.get(1, 0), min(max(signed(of.get(2, 0)), 0), 2**32 - 1)))
    return numbers, lines


def _line_table(
    inlined: list[list[_Line]], known: dict[int, tuple[str, str, str]]
) -> LineTable | None:
    """Return the lines of locations, outermost first; None where none is known."""
    if not any(len(lines) > 1 or any(line for _, line in lines) for lines in inlined):
        return None
    names: dict[str, int] = {}
    files: dict[str, int] = {}
    rows = [
        (
            names.setdefault(known[function][0], len(names)),
            files.setdefault(known[function][2], len(files)) if known[function][2] else -1,
            line,
        )
        for lines in inlined
        for function, line in lines
    ]
    columns = np.array(rows, np.int64).reshape(-1, 3)
    return LineTable(
        frame_start=np.append(0, np.cumsum([len(lines) for lines in inlined])),
        name_index=columns[:, 0].astype(np.int32),
        file_index=columns[:, 1].astype(np.int32),
        line=columns[:, 2].astype(np.uint32),
        names=list(names),
        files=list(files),
    )
