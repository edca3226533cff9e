"""Hits by mapping and losses by CPU → the `MappingTable` and `LossTable` of a profile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.abi import constants as abi
from prospect.profile.model import LossTable, MappingTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.abi.recording import RecordingInfo
    from prospect.assembly.places import Placement
    from prospect.events.columns import Events
    from prospect.spaces.attribution import Attribution
    from prospect.spaces.world import World


def describe_mappings(
    hits: Attribution, placement: Placement, object_rows: NDArray[np.int32], world: World
) -> MappingTable:
    """Return the mappings that processes had hits in, one row a process and mapping.

    Args:
        hits: the distinct hits.
        placement: where they are.
        object_rows: i32[k] profile row of each of `placement.keys`.
        world: whose mappings `placement.mapping_index` refers to.
    """
    rows = np.flatnonzero(placement.mapping_index >= 0)
    mapping = placement.mapping_index.take(rows)
    key = hits.process_row.take(rows).astype(np.int64) * max(len(world.mappings), 1) + mapping
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    counted = np.bincount(group, hits.count.take(rows), len(first)).astype(np.int64)
    mapping, rows = mapping[first], rows[first]
    return MappingTable(
        process_index=hits.process_row[rows],
        object_index=object_rows[placement.object_index[rows]],
        start=world.mappings.start.take(mapping),
        end=world.mappings.end.take(mapping),
        pgoff=world.mappings.pgoff.take(mapping),
        hits=counted,
    )


def describe_losses(events: Events, info: RecordingInfo) -> LossTable:
    """Add up by CPU what the kernel says it did not deliver.

    LOST records tell of losses while they can be written; the counters that the recorder read at
    the end (PERF_FORMAT_LOST, by event id) know all of them, and win where they say more.
    """
    losses = events.losses
    is_throttle = losses.kind == abi.PERF_RECORD_THROTTLE
    cpus = np.unique(losses.cpu)
    lost = {int(cpu): int(losses.count[losses.cpu == cpu].sum()) for cpu in cpus}
    throttled = {int(cpu): int((is_throttle & (losses.cpu == cpu)).sum()) for cpu in cpus}
    for cpu, count in _counted_losses(info).items():
        lost[cpu] = max(lost.get(cpu, 0), count)
    rows = sorted(cpu for cpu in lost if lost[cpu] or throttled.get(cpu))
    return LossTable(
        cpu=np.array(rows, np.int32),
        lost=np.array([lost[cpu] for cpu in rows], np.int64),
        throttled=np.array([throttled.get(cpu, 0) for cpu in rows], np.int64),
    )


def _counted_losses(info: RecordingInfo) -> dict[int, int]:
    recorded = info.extras.get("lost_by_cpu")
    if not isinstance(recorded, dict):
        return {}
    return {
        int(cpu): count
        for cpu, count in recorded.items()
        if str(cpu).isdigit() and isinstance(count, int) and count >= 0
    }
