"""Samples by hit, hits by mapping and losses by CPU → tables of a profile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.abi import constants as abi
from prospect.assembly.extras import by_number, counts_of
from prospect.columns.grouping import distinct_keys
from prospect.columns.sorting import run_starts
from prospect.profile.model import KIND_JIT, HitTable, LossTable, MappingTable, SampleTable
from prospect.spaces.mappings import recorded_prot
from prospect.spaces.runs import viewed_tid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.abi.recorded_facts import RecordingInfo
    from prospect.assembly.placing.placement import Placement
    from prospect.events.record_columns import Events, Samples
    from prospect.spaces.attribution import Attribution
    from prospect.spaces.process_history import ProcessHistory

_MOST_LOST = 2.0**62


def describe_hits(
    hits: Attribution, location_index: NDArray[np.int32], history: ProcessHistory
) -> tuple[HitTable, list[str]]:
    """Return the table of hits, their entry reasons not yet known, and the names of threads.

    Args:
        hits: the distinct hits.
        location_index: i32 row of locations of each hit; more may follow.
        history: whose names `hits.comm` refers to.
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


def describe_samples(
    samples: Samples, hits: Attribution, stack_index: NDArray[np.int32] | None
) -> SampleTable:
    """Return the table of samples; `stack_index` is as there."""
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
    hits: Attribution, placement: Placement, object_rows: NDArray[np.int32], history: ProcessHistory
) -> MappingTable:
    """Return the mappings that processes had hits in, one row a process and mapping.

    Pieces of code that a jitdump file describes are one row, from the first to the last one hit.

    Args:
        hits: the distinct hits.
        placement: where they are.
        object_rows: i32[k] profile row of each of `placement.keys`.
        history: whose mappings `placement.mapping_index` refers to.
    """
    rows = np.flatnonzero(placement.mapping_index >= 0)
    mapping = placement.mapping_index.take(rows)
    placed = placement.object_index.take(rows)
    is_jit = np.array([key.kind == KIND_JIT for key in placement.keys], np.bool_).take(placed)
    merged = np.where(is_jit, len(history.mappings) + placed, mapping)
    numbers = len(history.mappings) + len(placement.keys)
    key = hits.process_row.take(rows).astype(np.int64) * numbers + merged
    # Hits are ordered by process and address: those of a mapping follow each other.
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
    """Add up by CPU what the kernel says it did not deliver.

    LOST records report losses while they can be written; the counters that the recorder read at
    the end (PERF_FORMAT_LOST, by event id) know all of them, and win where they say more.
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
    lost = np.zeros(len(cpu))
    # As real numbers: only a damaged record reports more than 2**53, and none may turn negative.
    if events.runtimes is None or not counted:
        # Else they may be of records of Python frames, which share the samples' rings.
        np.add.at(lost, row, losses.count)
    lost[counted_row] = np.maximum(lost[counted_row], list(counted.values()))
    lost = np.minimum(lost, _MOST_LOST)
    is_met = (lost > 0) | (throttled > 0)
    return LossTable(
        cpu=cpu[is_met], lost=lost[is_met].astype(np.int64), throttled=throttled[is_met]
    )
