"""Mappings that may hold frames, of processes and of the kernel, as their records describe them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.abi import constants as abi
from prospect.records import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.events.record_columns import Mmaps

_LAST_ADDRESS = np.uint64((1 << 64) - 1)


class Mappings(Record):
    """Mappings in chronological order; none is ever edited, what covers it later is another row.

    Attributes:
        start, end: u64[m] first address (AVMA) and the one after the last; start < end.
        pgoff: u64[m] file offset of `start`, in bytes.
        name: i32[m] row of `ProcessHistory.names`.
        build_id: i32[m] row of `ProcessHistory.build_ids`, -1 if the record has none.
        major, minor: u32[m] device, 0 if the record carries a build id instead.
        inode: u64[m], 0 the same.
        prot: u32[m] PROT_*, 0 if the record does not say.
        mode: u8[m] PERF_RECORD_MISC_CPUMODE.
        process_row: i32[m] row of `ProcessHistory.processes` that made it, -1 for the kernel's.
        time_ns: u64[m], 0 if a snapshot found it.
    """

    start: NDArray[np.uint64]
    end: NDArray[np.uint64]
    pgoff: NDArray[np.uint64]
    name: NDArray[np.int32]
    build_id: NDArray[np.int32]
    major: NDArray[np.uint32]
    minor: NDArray[np.uint32]
    inode: NDArray[np.uint64]
    prot: NDArray[np.uint32]
    mode: NDArray[np.uint8]
    process_row: NDArray[np.int32]
    time_ns: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.start)


def recorded_prot(mappings: Mappings, rows: NDArray[np.int64]) -> NDArray[np.int8]:
    """Return the PROT_READ, PROT_WRITE and PROT_EXEC bits of some rows, -1 if unknown, i8."""
    prot = mappings.prot.take(rows)
    known = prot & (abi.PROT_READ | abi.PROT_WRITE | abi.PROT_EXEC)
    found: NDArray[np.int8] = np.where(prot == 0, -1, known.astype(np.int8)).astype(np.int8)
    return found


def is_of_kernel(mmaps: Mmaps) -> NDArray[np.bool_]:
    """Return which records describe the kernel's own text and modules.

    They carry pid -1 and a kernel's CPU mode. Source: ``kernel/events/core.c``
    perf_event_mmap_event(), ``tools/perf/util/synthetic-events.c``
    perf_event__synthesize_kernel_mmap().
    """
    modes = (abi.PERF_RECORD_MISC_KERNEL, abi.PERF_RECORD_MISC_GUEST_KERNEL)
    return np.isin(mmaps.mode, modes) | (mmaps.pid < 0)


def describe_mappings(mmaps: Mmaps, process_row: NDArray[np.int32]) -> Mappings:
    """Return records, none of length 0, as mappings that `process_row` made."""
    end = mmaps.start + mmaps.length
    # Only a damaged record reaches over the end of the address space.
    end[end < mmaps.start] = _LAST_ADDRESS
    return Mappings(
        start=mmaps.start,
        end=end,
        pgoff=mmaps.pgoff,
        name=mmaps.name,
        build_id=mmaps.build_id,
        major=mmaps.major,
        minor=mmaps.minor,
        inode=mmaps.inode,
        prot=mmaps.prot,
        mode=mmaps.mode,
        process_row=process_row,
        time_ns=mmaps.time_ns,
    )
