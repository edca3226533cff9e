"""Build a profile row by row, as the pipeline would make it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from prospect.profile.builder import no_clocks, no_samples
from prospect.profile.model import (
    BIRTH_PREEXISTING,
    CPUMODE_USER,
    ENTRY_REASON_NONE,
    KIND_ELF,
    EntryReasonTable,
    FunctionTable,
    HitTable,
    LocationTable,
    LossTable,
    MappingTable,
    ObjectTable,
    ProcessTable,
    Profile,
)
from prospect.profile.naming import NameSource
from prospect.profile.run_info import EventInfo, RunInfo
from prospect.records import replace

STILL_RUNNING = 2**64 - 1
_PROCESS_COLUMNS = {
    "pid": np.int32,
    "parent_pid": np.int32,
    "group_pid": np.int32,
    "session_pid": np.int32,
    "parent_index": np.int32,
    "birth": np.uint8,
    "start_ns": np.uint64,
    "end_ns": np.uint64,
    "is_kernel_thread": np.bool_,
    "is_recorder": np.bool_,
    "is_command": np.bool_,
    "is_descendant": np.bool_,
}


def clock_event(frequency_hz: float) -> EventInfo:
    return EventInfo("cpu-clock", 1e-9, 1.0 / frequency_hz, frequency_hz)


def run_info(**facts: Any) -> RunInfo:
    run = RunInfo(
        origin="perf.data",
        command=(),
        recorder="prospect 0.1.0",
        recorder_command_line=(),
        hostname="fctype2",
        os_release="6.1.0",
        uname="Linux fctype2 6.1.0 x86_64",
        arch="x86_64",
        cpu_description="A processor",
        cpu_mhz=846.337,
        cpus=1,
        started_at=1018800000.0,
        wall_seconds=4.0,
        system_wide=True,
        clock="cpu-clock, a timer",
        events=(clock_event(256.0),),
    )
    return replace(run, **facts)


@dataclass
class ProfileBuilder:
    """Adds rows; each method returns the row, for those that refer to it."""

    run: RunInfo = field(default_factory=run_info)
    processes: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    objects: list[tuple[str, int, str, int, str]] = field(default_factory=list)
    functions: list[dict[str, Any]] = field(default_factory=list)
    locations: dict[tuple[int, int], int] = field(default_factory=dict)
    mappings: list[tuple[int, int, int, int, int, int]] = field(default_factory=list)
    hits: list[tuple[int, int, int, int, int, int]] = field(default_factory=list)
    entry_reasons: list[tuple[int, str]] = field(default_factory=lambda: [(ENTRY_REASON_NONE, "")])
    hit_reasons: list[int] = field(default_factory=list)
    losses: list[tuple[int, int, int]] = field(default_factory=list)

    def process(self, name: str, pid: int, **columns: Any) -> int:
        defaults = {
            "parent_pid": -1,
            "group_pid": -1,
            "session_pid": -1,
            "parent_index": -1,
            "birth": BIRTH_PREEXISTING,
            "start_ns": 0,
            "end_ns": STILL_RUNNING,
            "is_kernel_thread": False,
            "is_recorder": False,
            "is_command": False,
            "is_descendant": columns.get("is_command", False),
        }
        self.processes.append((name, {"pid": pid, **defaults, **columns}))
        return len(self.processes) - 1

    def object(
        self,
        path: str,
        kind: int = KIND_ELF,
        build_id: str = "",
        source: int = NameSource.SYMTAB,
        note: str = "",
    ) -> int:
        self.objects.append((path, kind, build_id, source, note))
        return len(self.objects) - 1

    def function(self, name: str, object_index: int, address: int, **columns: Any) -> int:
        defaults = {
            "linkage_name": name,
            "aliases": (),
            "size_bytes": 16,
            "is_global": True,
            "source": NameSource.SYMTAB,
        }
        self.functions.append(
            {
                "name": name,
                "object_index": object_index,
                "address": address,
                **defaults,
                **columns,
            }
        )
        return len(self.functions) - 1

    def hit(
        self,
        process: int,
        function: int,
        count: int,
        mode: int = CPUMODE_USER,
        *,
        event: int = 0,
        period: int | None = None,
        offset: int = 0,
        entry_reason: tuple[int, str] = (ENTRY_REASON_NONE, ""),
    ) -> None:
        if function < 0:
            location = -1
        else:
            address = self.functions[function]["address"] + offset
            location = self.locations.setdefault((function, address), len(self.locations))
        if period is None:
            rate = self.run.events[event].frequency_hz or 1000.0
            period = round(count * 1e9 / rate)
        self.hits.append((process, location, mode, event, count, period))
        if entry_reason not in self.entry_reasons:
            self.entry_reasons.append(entry_reason)
        self.hit_reasons.append(self.entry_reasons.index(entry_reason))

    def mapping(
        self,
        process: int,
        object_index: int,
        start: int,
        size: int,
        *,
        pgoff: int = 0,
        hits: int = 0,
    ) -> None:
        self.mappings.append((process, object_index, start, start + size, pgoff, hits))

    def build(self) -> Profile:
        return Profile(
            run=self.run,
            comms=["comm"],
            processes=self._process_table(),
            objects=ObjectTable(
                path=[row[0] for row in self.objects],
                kind=np.array([row[1] for row in self.objects], np.uint8),
                build_id=[row[2] for row in self.objects],
                source=np.array([row[3] for row in self.objects], np.uint8),
                note=[row[4] for row in self.objects],
            ),
            functions=self._function_table(),
            locations=LocationTable(
                function_index=np.array([row[0] for row in self.locations], np.int32),
                address=np.array([row[1] for row in self.locations], np.uint64),
            ),
            mappings=MappingTable(
                process_index=_column(self.mappings, 0, np.int32),
                object_index=_column(self.mappings, 1, np.int32),
                start=_column(self.mappings, 2, np.uint64),
                end=_column(self.mappings, 3, np.uint64),
                pgoff=_column(self.mappings, 4, np.uint64),
                hits=_column(self.mappings, 5, np.int64),
                prot=np.full(len(self.mappings), 5, np.int8),
            ),
            hits=HitTable(
                process_index=_column(self.hits, 0, np.int32),
                comm_index=np.zeros(len(self.hits), np.int32),
                location_index=_column(self.hits, 1, np.int32),
                mode=_column(self.hits, 2, np.uint8),
                event=_column(self.hits, 3, np.uint8),
                entry_reason_index=np.array(self._hit_entry_reasons(), np.int32),
                count=_column(self.hits, 4, np.int64),
                period=_column(self.hits, 5, np.int64),
            ),
            losses=LossTable(
                cpu=_column(self.losses, 0, np.int32),
                lost=_column(self.losses, 1, np.int64),
                throttled=_column(self.losses, 2, np.int64),
            ),
            entry_reasons=EntryReasonTable(
                np.array([kind for kind, _ in self.entry_reasons], np.uint8),
                [name for _, name in self.entry_reasons],
            ),
            samples=no_samples(),
            clocks=no_clocks(),
        )

    def _hit_entry_reasons(self) -> list[int]:
        """Entry reasons by hit; those that a test put into `hits` itself have none."""
        return self.hit_reasons + [0] * (len(self.hits) - len(self.hit_reasons))

    def _process_table(self) -> ProcessTable:
        return ProcessTable(
            name=[name for name, _ in self.processes],
            **{
                column: np.array([row[column] for _, row in self.processes], dtype)
                for column, dtype in _PROCESS_COLUMNS.items()
            },
        )

    def _function_table(self) -> FunctionTable:
        rows = self.functions
        return FunctionTable(
            name=[row["name"] for row in rows],
            linkage_name=[row["linkage_name"] for row in rows],
            aliases=[row["aliases"] for row in rows],
            object_index=np.array([row["object_index"] for row in rows], np.int32),
            address=np.array([row["address"] for row in rows], np.uint64),
            size_bytes=np.array([row["size_bytes"] for row in rows], np.uint64),
            is_global=np.array([row["is_global"] for row in rows], np.bool_),
            source=np.array([row["source"] for row in rows], np.uint8),
        )


def _column(rows: list[tuple[int, ...]], position: int, dtype: Any) -> Any:
    return np.array([row[position] for row in rows], dtype)
