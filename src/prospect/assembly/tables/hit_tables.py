"""Samples by hit, hits by mapping, losses by CPU and counted calls → tables of a profile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.abi import constants as abi
from prospect.abi.syscall_names import NO_SUCH_CALL, syscall_name
from prospect.assembly.extras import by_number, counts_of, is_i32, mapping_of, number_of
from prospect.assembly.tables.run_facts import lost_beside
from prospect.columns.grouping import distinct_keys, group_sums
from prospect.columns.sorting import run_starts
from prospect.profile.model import (
    KIND_JIT,
    HitTable,
    LossTable,
    MappingTable,
    SampleTable,
    SyscallTable,
)
from prospect.spaces.address_spaces import recorded_prot
from prospect.spaces.attribution import viewed_tid

if TYPE_CHECKING:
    from prospect.abi.recorded_facts import RecordingInfo
    from prospect.assembly.placing.placement import Placement
    from prospect.columns.array_types import I32, I64, U64
    from prospect.events.record_columns import Events, Samples
    from prospect.profile.model import ProcessTable
    from prospect.spaces.attribution import Attribution
    from prospect.spaces.process_history import ProcessHistory

_MOST_LOST = 2.0**62


def describe_hits(
    hits: Attribution, location_index: I32, history: ProcessHistory
) -> tuple[HitTable, list[str]]:
    """Return the table of hits, still without entry reasons, and the names of threads.

    `location_index` has i32 the row of locations of each hit first.
    """
    comms, comm_index = distinct_keys(hits.comm + np.int32(1), len(history.names) + 1)
    names = [history.names[row - 1] if row else b"?" for row in comms.tolist()]
    return HitTable(
        process_index=hits.process_row,
        comm_index=comm_index.astype(np.int32),
        location_index=location_index[: len(hits)],
        mode=hits.mode,
        event=hits.event,
        entry_reason_index=np.zeros(len(hits), np.int32),
        count=hits.count,
        period=hits.period,
    ), [name.decode("utf-8", "surrogateescape") for name in names]


def describe_samples(samples: Samples, hits: Attribution, stack_index: I32 | None) -> SampleTable:
    """Return the table of samples."""
    return SampleTable(
        hit_index=hits.sample_row,
        time_ns=samples.time_ns,
        cpu=samples.cpu,
        clock=samples.clock,
        period=samples.period,
        tid=viewed_tid(samples.task),
        stack_index=stack_index,
    )


def describe_mappings(
    hits: Attribution, placement: Placement, object_rows: I32, history: ProcessHistory
) -> MappingTable:
    """Return the mappings with hits, one row for a process and mapping.

    The code of a jitdump file is one row, from the first to the last hit piece. `object_rows`
    i32[k] has the profile's row of each of `placement.keys`.
    """
    rows = np.flatnonzero(placement.mapping_index >= 0)
    mapping = placement.mapping_index.take(rows)
    placed = placement.object_index.take(rows)
    is_jit = np.array([key.kind == KIND_JIT for key in placement.keys], np.bool_).take(placed)
    merged = np.where(is_jit, len(history.mappings) + placed, mapping)
    numbers = len(history.mappings) + len(placement.keys)
    key = hits.process_row.take(rows).astype(np.int64) * numbers + merged
    # Hits are ordered by process and address, so those of a mapping follow each other.
    run = run_starts(key, mapping)
    count = np.add.reduceat(hits.count.take(rows), run) if len(run) else np.empty(0, np.int64)
    key, mapping, rows = key.take(run), mapping.take(run), rows.take(run)
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    counted = np.bincount(group, count, len(first)).astype(np.int64)
    start = np.full(len(first), np.iinfo(np.uint64).max)
    end = np.zeros(len(first), np.uint64)
    np.minimum.at(start, group, history.mappings.start.take(mapping))
    np.maximum.at(end, group, history.mappings.end.take(mapping))
    mapping, rows = mapping[first], rows[first]
    return MappingTable(
        process_index=hits.process_row[rows],
        object_index=object_rows[placement.object_index[rows]],
        start=start,
        end=end,
        pgoff=history.mappings.pgoff.take(mapping),
        hits=counted,
        prot=recorded_prot(history.mappings, mapping),
    )


def describe_losses(events: Events, info: RecordingInfo) -> LossTable:
    """Add up the losses that the kernel reports, by CPU.

    LOST records report losses while they can be written; the counters that the recorder read at the
    end (PERF_FORMAT_LOST, by event id) have all of them. The greater number counts.
    """
    losses = events.losses
    counted = {
        cpu: count
        for cpu, count in by_number(info.extras.get("lost_by_cpu")).items()
        if counts_of([count])
    }
    counted_cpu = np.array(list(counted), np.int32)
    cpu, place = np.unique(np.concatenate((losses.cpu, counted_cpu)), return_inverse=True)
    row, counted_row = np.split(place, [len(losses.cpu)])
    is_throttle = losses.kind == abi.PERF_RECORD_THROTTLE
    throttled = np.bincount(row[is_throttle], minlength=len(cpu))
    count = np.where(lost_beside(losses, info), np.uint64(0), losses.count)
    lost = np.zeros(len(cpu))
    # As floats, which never become negative: only a damaged record reports more than 2**53.
    if events.runtimes is None or not counted:
        # Otherwise they may be losses of Python frames, which share the samples' rings.
        np.add.at(lost, row, count)
    lost[counted_row] = np.maximum(lost[counted_row], list(counted.values()))
    lost = np.minimum(lost, _MOST_LOST)
    is_met = (lost > 0) | (throttled > 0)
    return LossTable(
        cpu=cpu[is_met], lost=lost[is_met].astype(np.int64), throttled=throttled[is_met]
    )


# System calls that the recorder counted + process rows → `SyscallTable`.
#
# They are the value of `syscalls` in Prospect's feature section (docs/recording.md), which may come
# from any writer. There is no table if nothing was counted or the value is invalid.

_COLUMNS = ("image", "number", "compat", "calls", "ended", "time_ns")
# Sums of counts must fit into 64 bits.
_MOST = 1 << 62


def describe_syscalls(info: RecordingInfo, processes: ProcessTable) -> SyscallTable | None:
    """Build the table of counted system calls; rows ascend by process, then by name."""
    document = mapping_of(info.extras.get("syscalls"))
    counts = _columns(document.get("counts"))
    image_pid, since_ns = _images(document.get("images"))
    if counts is None or image_pid is None or (counts["image"] >= len(image_pid)).any():
        return None
    process = _rows_at(image_pid, since_ns, processes)
    called, name_of_call = np.unique(
        counts["number"] << 1 | (counts["compat"] > 0), return_inverse=True
    )
    names, name_index = _names(info.arch, called.tolist())
    (row, name, compat), (calls, ended, time_ns) = group_sums(
        (process.take(counts["image"]) + 1, name_index[name_of_call], counts["compat"] > 0),
        tuple(counts[column] for column in ("calls", "ended", "time_ns")),
    )
    return SyscallTable(
        process_index=(row - 1).astype(np.int32),
        name_index=name.astype(np.int32),
        is_compat=compat.astype(np.bool_),
        calls=calls,
        unfinished=np.maximum(calls - ended, 0),
        time_ns=time_ns,
        names=names,
        dropped=next(iter(counts_of([document.get("dropped")])), 0),
        cost_ns=max(number_of(document.get("cost_ns")), 0.0),
    )


def _columns(document: object) -> dict[str, I64] | None:
    """Return the columns of the counts; None if one is missing, of another length, or too large."""
    columns = {name: counts_of(mapping_of(document).get(name)) for name in _COLUMNS}
    rows = len(columns["image"])
    if not rows or any(len(column) != rows for column in columns.values()):
        return None
    arrays = {name: np.array(column, np.int64) for name, column in columns.items()}
    summed = [arrays[name] for name in ("calls", "ended", "time_ns")]
    if any(column.sum(dtype=np.float64) >= _MOST for column in summed):
        return None
    return arrays if (arrays["number"] <= NO_SUCH_CALL).all() else None


def _images(document: object) -> tuple[I64 | None, U64]:
    """Return pid and since_ns of the program images; None for invalid pids."""
    pids: Any = mapping_of(document).get("pid")
    since_ns = counts_of(mapping_of(document).get("since_ns"))
    if type(pids) is not list or len(pids) != len(since_ns) or not all(map(is_i32, pids)):
        return None, np.empty(0, np.uint64)
    return np.array(pids, np.int64), np.array(since_ns, np.uint64)


def _names(machine: str, called: list[int]) -> tuple[list[str], I64]:
    """Return distinct names in order, and the row of the name for each ``number * 2 + compat``."""
    names = [syscall_name(machine, call >> 1, compat=bool(call & 1)) for call in called]
    distinct = sorted(set(names))
    place = {name: index for index, name in enumerate(distinct)}
    return distinct, np.array([place[name] for name in names], np.int64)


def _rows_at(pid: I64, time_ns: U64, processes: ProcessTable) -> I64:
    """Return i64 the process row of each pid at a time; else its first row, -1 for none.

    A row begins at the fork or the exec, and an image at its first call, so it is the last row that
    had begun.
    """
    count = len(processes)
    every_pid = np.concatenate((processes.pid.astype(np.int64), pid))
    every_time = np.concatenate((processes.start_ns, time_ns))
    is_asked = np.arange(len(every_pid)) >= count
    order = np.lexsort((is_asked, every_time, every_pid))
    places = np.arange(len(order))
    is_row = ~is_asked.take(order)
    before = np.maximum.accumulate(np.where(is_row, places, -1))
    after = np.minimum.accumulate(np.where(is_row, places, len(order))[::-1])[::-1]
    found = np.full(len(order), -1, np.int64)
    for near in (after, before):  # the one before wins
        row = order.take(np.clip(near, 0, len(order) - 1))
        is_own = (near >= 0) & (near < len(order)) & (every_pid.take(row) == every_pid.take(order))
        found = np.where(is_own, row, found)
    result = np.empty(len(order), np.int64)
    result[order] = found
    return result[count:]
