"""What profiles of other tools share: the tables that they say nothing for, and their heads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.profile.model import (
    BIRTH_PREEXISTING,
    CAUSE_NONE,
    CauseTable,
    LossTable,
    MappingTable,
    ProcessTable,
)
from prospect.profile.run_info import RunInfo

if TYPE_CHECKING:
    from prospect.profile.run_info import EventInfo

_STILL_RUNNING = 2**64 - 1


def run_info(  # noqa: PLR0913 - what such files say, all but three by keyword
    origin: str,
    events: tuple[EventInfo, ...],
    wall_seconds: float,
    *,
    command: tuple[str, ...] = (),
    started_at: float = 0.0,
    cpus: int = 1,
    limits: tuple[str, ...] = (),
) -> RunInfo:
    """Return the head of a profile that another tool wrote."""
    return RunInfo(
        origin=origin,
        command=command,
        recorder="",
        recorder_command_line=(),
        hostname="",
        os_release="",
        uname="",
        arch="",
        cpu_description="",
        cpu_mhz=0.0,
        cpus=cpus,
        started_at=started_at,
        wall_seconds=wall_seconds,
        system_wide=False,
        clock=events[0].name if events else "",
        events=events,
        limits=limits,
    )


def process_table(names: list[str], pids: list[int]) -> ProcessTable:
    """Return processes that are all the command: there are no others."""
    count = len(names)
    unknown = np.full(count, -1, np.int32)
    no, yes = np.zeros(count, np.bool_), np.ones(count, np.bool_)
    return ProcessTable(
        name=names,
        pid=np.array(pids, np.int32),
        parent_pid=unknown,
        group_pid=unknown,
        session_pid=unknown,
        parent_index=unknown,
        birth=np.full(count, BIRTH_PREEXISTING, np.uint8),
        start_ns=np.zeros(count, np.uint64),
        end_ns=np.full(count, _STILL_RUNNING, np.uint64),
        is_kernel_thread=no,
        is_recorder=no,
        is_command=yes,
        is_descendant=yes,
    )


def no_mappings() -> MappingTable:
    """Return a table without rows."""
    rows, places = np.empty(0, np.int32), np.empty(0, np.uint64)
    counts, flags = np.empty(0, np.int64), np.empty(0, np.int8)
    return MappingTable(rows, rows, places, places, places, counts, flags)


def no_losses() -> LossTable:
    """Return a table without rows."""
    return LossTable(np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.int64))


def no_causes() -> CauseTable:
    """Return the one row that every table of causes has."""
    return CauseTable(np.array([CAUSE_NONE], np.uint8), [""])
