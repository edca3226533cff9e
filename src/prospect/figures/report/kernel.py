"""The kernel's profiles: all of its hits, and their parts by whom the kernel worked for.

Comes in: a completed Profile and the hits of one event. Goes out: the global kernel profile and
its parts (kernel threads, user processes, process zero), which are checked to sum up to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.errors import RenderError
from prospect.figures.portions import is_kernel_portion
from prospect.figures.ranked_rows import ranked
from prospect.figures.report.routines import RoutineTable, routine_tables
from prospect.records import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prospect.figures.portions import EventHits
    from prospect.figures.ranked_rows import RankedRows
    from prospect.profile.model import ProcessTable

PART_KERNEL_THREADS = 0
PART_USER_PROCESSES = 1
PART_PROCESS_ZERO = 2
PART_NO_PROCESS = 3
PART_NAMES = ("kernel threads", "user processes", "process zero", "no process")
_PART_COUNT = len(PART_NAMES)


class KernelProfiles(Record):
    """Every kernel hit, and the same hits by part.

    Attributes:
        whole: the routines of all kernel hits.
        parts: (name, routines) of the three parts, and of "no process" where there is any.
        row_of_hit: i32 of each hit of the profile its row of `whole`, -1 for none.
        part_row_of_hit: i32 its row of the parts' routines, one behind the other.
    """

    whole: RoutineTable
    parts: tuple[tuple[str, RoutineTable], ...]
    row_of_hit: NDArray[np.int32]
    part_row_of_hit: NDArray[np.int32]

    def ranked(self) -> list[RankedRows]:
        """Return the rows of `whole`, then those of each part."""
        found = [_ranked(self.whole, self.row_of_hit)]
        first = 0
        for _, table in self.parts:
            row = self.part_row_of_hit - np.int32(first)
            found.append(_ranked(table, np.where(row < len(table), np.maximum(row, -1), -1)))
            first += len(table)
        return found


def _ranked(table: RoutineTable, row_of_hit: NDArray[np.integer]) -> RankedRows:
    return ranked(row_of_hit.astype(np.int32, copy=False), np.arange(len(table)) < table.shown)


def kernel_part(processes: ProcessTable) -> NDArray[np.int64]:
    """Return i64[p]: the PART_* that kernel hits of each process belong to."""
    part = np.full(len(processes), PART_USER_PROCESSES, np.int64)
    part[processes.is_kernel_thread] = PART_KERNEL_THREADS
    part[processes.pid == 0] = PART_PROCESS_ZERO
    part[processes.pid < 0] = PART_NO_PROCESS
    return part


def kernel_profiles(processes: ProcessTable, hits: EventHits, threshold_s: float) -> KernelProfiles:
    """Build the kernel's profile and its parts.

    Raises:
        RenderError: the parts do not sum up to the whole, which would be a defect here.
    """
    is_kernel = is_kernel_portion(hits.portion)
    of_all = routine_tables(hits, np.where(is_kernel, 0, -1), 1)
    whole = of_all.table(0, threshold_s)
    part = np.where(is_kernel, kernel_part(processes).take(hits.process), -1)
    tables = routine_tables(hits, part, _PART_COUNT)
    parts = [(PART_NAMES[row], tables.table(row, threshold_s)) for row in range(_PART_COUNT)]
    if not len(parts[PART_NO_PROCESS][1]):
        del parts[PART_NO_PROCESS]
    check_sum(whole, [table for _, table in parts])
    return KernelProfiles(whole, tuple(parts), of_all.row_of_hit, tables.row_of_hit)


def check_sum(whole: RoutineTable, parts: Sequence[RoutineTable]) -> None:
    """Assert that the parts of the kernel's profile sum up to the whole, routine by routine.

    Raises:
        RenderError: they do not.
    """
    routine = np.concatenate([whole.function, *(part.function for part in parts)])
    balance = np.concatenate([whole.hits, *(-part.hits for part in parts)])
    distinct, row = np.unique(routine, return_inverse=True)
    if np.bincount(row, balance, len(distinct)).any():
        raise RenderError(
            "the parts of the kernel profile do not sum up to the whole; "
            "please report this, with the recording (--save FILE)"
        )
