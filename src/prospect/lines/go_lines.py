"""Addresses in a Go image → functions, files and lines, through inlined calls, without DWARF.

Go's own table has what its tracebacks print. All addresses are looked up together: first the
innermost inlined call, then, round by round, the call that contains it.
Source: ``runtime/symtab.go`` funcline1() and ``runtime/symtabinl.go`` (Go 1.27), whose steps hold
for all tables from Go 1.16 on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.elf.go_table import NO_DATA
from prospect.lines.symcache import DEEPEST, Frames, join_frames, no_frames
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.elf.go_table import GoTable

_LONGEST_TEXT_BYTES = 1 << 16
_PIECE = 4096


class _Round(NamedTuple):
    """Frames of one depth: rows of the addresses, offsets of names and files, lines; i64[k]."""

    row: NDArray[np.int64]
    name: NDArray[np.int64]
    file: NDArray[np.int64]
    line: NDArray[np.int64]


def go_frames(table: GoTable, svma: NDArray[np.uint64]) -> Frames:
    """Find the frames of addresses, u64[n], best distinct."""
    pieces = []
    # Neighbours are in the same functions, whose values are then unpacked once.
    order = np.argsort(svma, kind="stable")
    for begin in range(0, len(svma), _PIECE):
        row = order[begin : begin + _PIECE]
        pieces.append((row, _piece(table, svma.take(row))))
    return join_frames(len(svma), pieces)


def _piece(table: GoTable, svma: NDArray[np.uint64]) -> Frames:
    rounds: list[_Round] = []
    function = table.row_of(svma)
    row = np.flatnonzero(function >= 0)
    function = function.take(row)
    distance = (svma.take(row) - table.start.take(function)).astype(np.int64)
    calls, lines, files = (
        table.values.unpacked(column(function))
        for column in (table.inlined_calls, table.line_numbers, table.file_numbers)
    )
    while len(row) and len(rounds) < DEEPEST:
        call = calls.at(table.inlined_calls(function), distance)
        inlined, parent = np.full(len(row), NO_DATA), np.full(len(row), NO_DATA)
        rows = np.flatnonzero(call >= 0)
        inlined[rows], parent[rows] = table.tree_fields(
            table.tree(function.take(rows)), call.take(rows)
        )
        name = np.where(inlined >= 0, inlined, table.name.take(function))
        line = lines.at(table.line_numbers(function), distance)
        number = files.at(table.file_numbers(function), distance)
        file = _file_names(table, table.unit(function) + number, number >= 0)
        line = np.where((line > 0) & (line < 1 << 31), line, 0)
        rounds.append(_Round(row, name, file, line))
        goes_on = np.flatnonzero((inlined >= 0) & (parent >= 0))
        row, function = row.take(goes_on), function.take(goes_on)
        distance = parent.take(goes_on)
    return _joined(table, len(svma), rounds) if rounds else no_frames(len(svma))


def _file_names(
    table: GoTable, at: NDArray[np.int64], is_known: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Return offsets of file names at places in `units`, i64[k]; -1 if there is none."""
    is_known = is_known & (at < len(table.units))
    if not is_known.any():
        return np.full(len(at), -1)
    file = table.units.take(at, mode="clip").astype(np.int64)
    return np.where(is_known & (file < len(table.files)), file, -1)


def _joined(table: GoTable, addresses: int, rounds: list[_Round]) -> Frames:
    """Put the rounds together, the outermost frame of each address first."""
    row = np.concatenate([one.row for one in reversed(rounds)])
    order = np.argsort(row, kind="stable")
    start = np.zeros(addresses + 1, np.int64)
    np.cumsum(np.bincount(row, minlength=addresses), out=start[1:])
    name, file, line = (
        np.concatenate([one[column] for one in reversed(rounds)]).take(order)
        for column in (1, 2, 3)
    )
    names, name_index = _texts(table.names, name)
    files, file_index = _texts(table.files, file)
    paths = [path.decode("utf-8", "surrogateescape") for path in files]
    return Frames(start, name_index, file_index, line.astype(np.uint32), names, paths)


def _texts(text: memoryview, offset: NDArray[np.int64]) -> tuple[list[bytes], NDArray[np.int32]]:
    """Cut texts at offsets; return the distinct ones, and i32[k] which each is, -1 for none."""
    distinct, index = np.unique(offset, return_inverse=True)
    rows: dict[bytes, int] = {}
    row_of = np.full(len(distinct), -1, np.int32)
    for place, at in enumerate(distinct.tolist()):
        found = bytes(text[at : at + _LONGEST_TEXT_BYTES]).partition(b"\0")[0] if at >= 0 else b""
        if found:
            row_of[place] = rows.setdefault(found, len(rows))
    return list(rows), row_of.take(index)
