"""Names of code that a JIT made: ``/tmp/perf-PID.map``.

Comes in: the text of such a file, ``START SIZE NAME`` on each line, both numbers hexadecimal. Goes
out: a `SymbolTable`. Defined by ``tools/perf/Documentation/jit-interface.txt``. Anyone may
write to /tmp, so a file counts only if it belongs to the process's user, to root or to us; its
names may be anything and are escaped where they are shown.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from prospect.profile.naming import NameSource
from prospect.symbols.objects import Missing
from prospect.symbols.opening import OpenFile, open_below, open_file
from prospect.symbols.overlap import latest_pieces
from prospect.symbols.table import LONGEST_NAME_BYTES, SymbolTable, build_symbol_table
from prospect.symbols.text_columns import hexadecimal, line_bounds, next_spaces, padded

if TYPE_CHECKING:
    from prospect.symbols.live_process import LiveProcess

LARGEST_BYTES = 1 << 28
MOST_LINES = 1 << 22


def find_map_file(pid: int, process: LiveProcess | None) -> OpenFile | Missing:
    """Open the map file that a process wrote.

    Args:
        pid: its id as recorded.
        process: the process, if it still runs; it wrote the file in its own /tmp, under the number
            that it has in its own pid namespace.

    Returns:
        The file, or NO_ANONYMOUS; the note is empty where there simply is no file.
    """
    own_pid = process.own_pid if process else pid
    path = b"/tmp/perf-%d.map" % own_pid
    if process and process.has_other_root:
        file = open_below(process.root, path, largest_bytes=LARGEST_BYTES)
    else:
        file = open_file(path, follow=False, largest_bytes=LARGEST_BYTES)
    if file == NameSource.NO_FILE:
        return Missing(NameSource.NO_ANONYMOUS, "")
    note = _objection(file, process)
    if isinstance(file, NameSource) or note:
        return Missing(NameSource.NO_ANONYMOUS, f"{path.decode()} was not used: {note}")
    return file


def parse_map_file(text: bytes | memoryview) -> SymbolTable:
    """Parse a map file; lines that are none are skipped, later lines replace earlier ones.

    Args:
        text: the file's content, of any origin.

    Returns:
        The table by AVMA. Code that was partly written over keeps its name where it was not.
    """
    text = padded(bytes(text[:LARGEST_BYTES]))
    if text.count(b"\n") > MOST_LINES:
        text = padded(b"")
    line_start, line_end = line_bounds(text)
    first, second = next_spaces(text, line_start, 2)
    rows = np.flatnonzero(second + 1 < line_end)
    line_start, line_end = line_start.take(rows), line_end.take(rows)
    first, second = first.take(rows), second.take(rows)
    start, start_is_number = hexadecimal(text, line_start, first)
    size, size_is_number = hexadecimal(text, first + 1, second)
    top = np.uint64(2**64 - 1)
    end = np.where(size > top - start, top, start + size)
    rows = np.flatnonzero(start_is_number & size_is_number)
    name_start = second.take(rows) + 1
    name_length = np.minimum(line_end.take(rows) - name_start, LONGEST_NAME_BYTES)
    piece_start, piece_end, row = latest_pieces(start.take(rows), end.take(rows))
    return build_symbol_table(
        strings=text,
        start=piece_start,
        end=piece_end,
        limit=piece_end,
        name_start=name_start.take(row),
        name_length=name_length.take(row),
        is_global=np.zeros(len(row), np.bool_),
        source=np.full(len(row), NameSource.MAP_FILE, np.uint8),
    )


def _objection(file: OpenFile | NameSource, process: LiveProcess | None) -> str:
    """Say why a file is not believed, empty if it is."""
    if file == NameSource.NO_PERMISSION:
        return "it cannot be read by this user"
    if isinstance(file, NameSource):
        return f"it is not a regular file of at most {LARGEST_BYTES >> 20} MiB"
    if file.owner not in {0, os.geteuid(), process.owner if process else 0}:
        if process:
            return "it belongs to another user than the process"
        return "it belongs to another user, and its process is gone"
    if process and file.modified_ns < process.started_at * 1e9:
        return "it is older than the process"
    return ""
