"""Anonymous memory that a program put in the place of its own code → the program's file.

Programs with much code copy it onto huge pages as they start: Node (--use-largepages), MySQL and
Chromium map anonymous memory over the text of the executable, libhugetlbfs moves it there. From
then on mappings say ``//anon``, which perf names by a JIT's map file or not at all. Only the
executable counts: a library may have been closed, and a JIT's code put where it stood.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.sorting import distinct
from prospect.profile.model import KIND_ANON, KIND_ELF
from prospect.symbols.objects import classify

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.spaces.mappings import Mappings
    from prospect.spaces.world import World


def find_remapped_text(hit_mappings: NDArray[np.int64], world: World) -> dict[int, int]:
    """Find which of the mappings that were hit hold a copy of their executable's code.

    Args:
        hit_mappings: i64[k] rows of the world's mappings.
        world: of the recording.

    Returns:
        For each such row the row of a mapping of the executable: the address in memory differs
        from the offset in the file by as much.
    """
    table = world.mappings
    of_executable: dict[int, NDArray[np.int64]] = {}
    found = {}
    names = table.name[hit_mappings]
    anonymous = [
        name for name in distinct(names).tolist() if classify(world.names[name]) == KIND_ANON
    ]
    for row in hit_mappings[np.isin(names, anonymous)].tolist():
        process = int(table.process_row[row])
        if process not in of_executable:
            of_executable[process] = _mappings_of_executable(process, world)
        around = _replaced(table, of_executable[process], row)
        # What stood there may have been moved twice; then nothing says what is there now.
        shift = table.pgoff.take(around) - table.start.take(around)
        if len(around) and (shift == shift[0]).all():
            found[row] = int(around[-1])
    return found


def _mappings_of_executable(process: int, world: World) -> NDArray[np.int64]:
    """Return the rows of what exec() mapped first: the executable stands before its loader.

    A snapshot lists mappings by address, where the executable is the lowest.
    """
    table = world.mappings
    own = np.flatnonzero(table.process_row == process)
    for row in own.tolist():
        name = table.name[row]
        if classify(world.names[name]) == KIND_ELF:
            executable: NDArray[np.int64] = own[table.name.take(own) == name]
            return executable
    return own[:0]


def _replaced(table: Mappings, rows: NDArray[np.int64], anonymous: int) -> NDArray[np.int64]:
    """Return which of the rows lost some of their place to the anonymous mapping.

    They were seen before it, or, where a snapshot came later, are left on both sides of it.
    """
    start, end = table.start.take(rows), table.end.take(rows)
    low, high = table.start[anonymous], table.end[anonymous]
    before: NDArray[np.int64] = rows[(rows < anonymous) & (start < high) & (end > low)]
    if len(before):
        return before
    left, right = rows[end == low], rows[start == high]
    return np.concatenate((left, right)) if len(left) and len(right) else rows[:0]
