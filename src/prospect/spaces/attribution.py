"""Samples and timeline → distinct hits: who had how many samples at which address, and as what.

Comes in: sample columns in the order of the recording, and `Timeline`. Goes out: `Attribution`.
Every sample is in exactly one row. Times and tasks are looked up once a run of samples (`groups`);
group and address make one u64 key a sample (`keys`), which is sorted and counted here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prospect.spaces.groups import group_samples
from prospect.spaces.keys import key_parts
from prospect.spaces.periods import few_periods

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.events.columns import Samples
    from prospect.spaces.keys import KeyPart
    from prospect.spaces.periods import FewPeriods
    from prospect.spaces.timeline import Timeline


@dataclass(frozen=True)
class Attribution:
    """Distinct hits.

    Attributes:
        process_row: i32[h] row of `World.processes`.
        comm: i32[h] row of `World.names`: the thread's name at the time.
        space, epoch: i32[h] for `AddressSpaces.locate`; -1 for all but user mode.
        mode: u8[h] PERF_RECORD_MISC_CPUMODE.
        event: u8[h] row of the recording's events.
        address: u64[h] AVMA.
        count: i64[h] samples.
        period: i64[h] sum of their periods.
        sample_row: i32[n] the row that each sample is in; None unless asked for.
    """

    process_row: NDArray[np.int32]
    comm: NDArray[np.int32]
    space: NDArray[np.int32]
    epoch: NDArray[np.int32]
    mode: NDArray[np.uint8]
    event: NDArray[np.uint8]
    address: NDArray[np.uint64]
    count: NDArray[np.int64]
    period: NDArray[np.int64]
    sample_row: NDArray[np.int32] | None = None

    def __len__(self) -> int:
        return len(self.count)


def attribute(samples: Samples, timeline: Timeline, *, with_rows: bool = False) -> Attribution:
    """Count the samples by process row, thread name, space, epoch, mode, event and address.

    Args:
        samples: in any order; costs least where neighbours are of one task, as recorded.
        timeline: of the same recording. Tasks that it never heard of get process row and comm -1.
        with_rows: also return each sample's row, at two to three times the cost.
    """
    groups = group_samples(samples, timeline)
    periods = few_periods(samples.period)
    sample_row = np.empty(len(samples), np.int32) if with_rows else None
    tables: list[_Distinct] = []
    rows = 0
    for part in key_parts(samples, groups, periods):
        table = _count(part, samples.period, periods, sample_row, rows)
        rows += len(table.count)
        tables.append(table)
    columns = groups.describe(np.concatenate([table.group for table in tables]), timeline)
    address = np.concatenate([table.address for table in tables])
    np.invert(address, out=address, where=columns.is_negative)
    return Attribution(
        process_row=columns.process_row,
        comm=columns.comm,
        space=columns.space,
        epoch=columns.epoch,
        mode=columns.mode,
        event=columns.event,
        address=address,
        count=np.concatenate([table.count for table in tables]),
        period=np.concatenate([table.period for table in tables]),
        sample_row=sample_row,
    )


@dataclass(frozen=True)
class _Distinct:
    """Distinct hits of one part of the samples; addresses are folded."""

    group: NDArray[np.int64]
    address: NDArray[np.uint64]
    count: NDArray[np.int64]
    period: NDArray[np.int64]


def _count(
    part: KeyPart,
    period: NDArray[np.uint64],
    periods: FewPeriods | None,
    sample_row: NDArray[np.int32] | None,
    first_row: int,
) -> _Distinct:
    """Sort a part's keys and add up what is equal; number the samples' rows from `first_row`."""
    keys, samples = _sorted(part, is_order_needed=periods is None or sample_row is not None)
    starts = _starts(keys)
    count = np.diff(starts, append=len(keys))
    keys = keys.take(starts)
    if periods is not None:
        rank = (keys & np.uint64((1 << part.period_bits) - 1)).view(np.int64)
        summed = count * periods.values.take(rank).view(np.int64)
    else:
        summed = np.add.reduceat(period.take(samples).view(np.int64), starts)
    # Keys of one hit that differ in the period alone become one row.
    keys = keys >> np.uint64(part.period_bits)
    hit_starts = _starts(keys)
    if sample_row is not None:
        hit = np.repeat(np.arange(len(hit_starts)), np.diff(hit_starts, append=len(keys)))
        sample_row[samples] = np.repeat(first_row + hit, count)
    group, address = part.unpack(keys.take(hit_starts))
    return _Distinct(
        group, address, np.add.reduceat(count, hit_starts), np.add.reduceat(summed, hit_starts)
    )


def _sorted(
    part: KeyPart, *, is_order_needed: bool
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the keys in order and, where needed, the samples that they are of."""
    if not is_order_needed:
        part.keys.sort()
        return part.keys, np.empty(0, np.int64)
    order = np.argsort(part.keys)
    return part.keys.take(order), order if part.rows is None else part.rows.take(order)


def _starts(keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return where each run of equal keys begins; none for no keys."""
    return np.flatnonzero(np.concatenate(([len(keys) > 0], keys[1:] != keys[:-1])))
