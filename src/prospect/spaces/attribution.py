"""Samples and timeline → distinct hits: who had how many samples at which address, and as what.

Comes in: sample columns in the order of the recording, and `Timeline`. Goes out: `Attribution`.
Every sample is in exactly one row. Times and tasks are looked up once a run of samples (`groups`);
group and address make one u64 key a sample (`keys`), which is counted here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from prospect.columns.counting import counted
from prospect.columns.grouping import exact_sums
from prospect.columns.sorting import run_lengths, run_starts
from prospect.records import Record
from prospect.spaces.groups import group_samples
from prospect.spaces.keys import key_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prospect.events.columns import Samples
    from prospect.spaces.keys import KeyPart
    from prospect.spaces.runs import TaskRuns
    from prospect.spaces.timeline import Timeline

_Scalar = TypeVar("_Scalar", bound=np.generic)


class Attribution(Record):
    """Distinct hits.

    Attributes:
        process_row: i32[h] row of `World.processes`.
        comm: i32[h] row of `World.names`: the thread's name at the time.
        space, epoch: i32[h] for `AddressSpaces.locate`; -1 for all but user mode.
        mode: u8[h] PERF_RECORD_MISC_CPUMODE.
        event: u16[h] row of the recording's events.
        label: u16[h] the samples' label; 0 where they have none.
        address: u64[h] AVMA.
        count: i64[h] samples.
        period: i64[h] sum of their periods.
        sample_row: i32[n] the row that each sample is in.
    """

    process_row: NDArray[np.int32]
    comm: NDArray[np.int32]
    space: NDArray[np.int32]
    epoch: NDArray[np.int32]
    mode: NDArray[np.uint8]
    event: NDArray[np.uint16]
    label: NDArray[np.uint16]
    address: NDArray[np.uint64]
    count: NDArray[np.int64]
    period: NDArray[np.int64]
    sample_row: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.count)


def attribute(
    samples: Samples,
    timeline: Timeline,
    label: NDArray[np.uint16] | None = None,
    runs: Sequence[TaskRuns] | None = None,
    *,
    may_spend: bool = False,
) -> Attribution:
    """Count the samples by process row, thread name, space, epoch, mode, event, label and address.

    Args:
        samples: in any order; costs least where neighbours are of one task, as recorded.
        timeline: of the same recording. A task that it never heard of gets process row -1.
        label: u16[n] something more that separates samples.
        runs: of these samples, if they were cut into runs before.
        may_spend: whether nobody needs the samples' addresses any more: they may be overwritten.
    """
    groups = group_samples(samples, timeline, label, runs)
    sample_row = np.empty(len(samples), np.int32)
    tables: list[_Distinct] = []
    rows = 0
    for part in key_parts(samples, groups, may_spend=may_spend):
        table, place = _count(part, samples.period, rows)
        if part.rows is None:
            sample_row = place
        else:
            sample_row[part.rows] = place
        rows += len(table.count)
        tables.append(table)
    group = _joined([table.group for table in tables])
    starts = run_starts(group)
    length = run_lengths(starts, len(group))
    columns = groups.describe(group.take(starts), timeline)
    address = _joined([table.address for table in tables])
    np.invert(address, out=address, where=columns.is_negative.repeat(length))
    return Attribution(
        process_row=columns.process_row.repeat(length),
        comm=columns.comm.repeat(length),
        space=columns.space.repeat(length),
        epoch=columns.epoch.repeat(length),
        mode=columns.mode.repeat(length),
        event=columns.event.repeat(length),
        label=columns.label.repeat(length),
        address=address,
        count=_joined([table.count for table in tables]),
        period=_joined([table.period for table in tables]),
        sample_row=sample_row,
    )


def _joined(columns: list[NDArray[_Scalar]]) -> NDArray[_Scalar]:
    return columns[0] if len(columns) == 1 else np.concatenate(columns)


class _Distinct(Record):
    """Distinct hits of one part of the samples; addresses are folded."""

    group: NDArray[np.int64]
    address: NDArray[np.uint64]
    count: NDArray[np.int64]
    period: NDArray[np.int64]


def _count(
    part: KeyPart, period: NDArray[np.uint64], first_row: int
) -> tuple[_Distinct, NDArray[np.int32]]:
    """Count a part's keys and add up the periods; number its samples' rows from `first_row`."""
    is_constant = period.strides == (0,) or not np.count_nonzero(period != period[:1])
    keys = counted(part.keys, may_spend=True)
    if is_constant:
        summed = keys.rows * period[:1].view(np.int64)
    else:
        chosen = period if part.rows is None else period.take(part.rows)
        summed = exact_sums(keys.place, chosen.view(np.int64), len(keys.value))
    place = keys.place
    place += np.int32(first_row)
    return _Distinct(*part.unpack(keys.value), keys.rows, summed), place
