"""Samples and timeline → distinct hits: process, thread, address and mode, with their samples.

Every sample is in exactly one row. Times and tasks are looked up once a run of samples
(`sample_groups`). Group and address make one u64 key a sample, which is counted. Nothing about an
address or the number of groups is assumed: what does not fit 64 bits is ranked first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from prospect.columns.grouping import counted, exact_sums
from prospect.columns.sorting import run_lengths, run_starts
from prospect.events.record_columns import Samples
from prospect.records import Record
from prospect.spaces.sample_groups import BLOCK_SAMPLES, KEY_BITS, folded, group_bits, group_samples

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from prospect.spaces.sample_groups import SampleGroups, TaskRuns
    from prospect.spaces.task_timeline import Timeline

# Each chunk of groups costs a pass over the samples; from here on ranking costs less.
_CHUNKS = 16

_Scalar = TypeVar("_Scalar", bound=np.generic)


class KeyPart(Record):
    """Samples as keys: group above, folded address below.

    Attributes:
        rows: i64[k] the samples; None for all of the recording, in order.
        address_bits: how many bits of a key the address has.
        groups: u64 what a key's group is a row of; None if the key says group - `first_group`.
        addresses: u64 what a key's address is a row of; None if it is the address.
    """

    keys: NDArray[np.uint64]
    rows: NDArray[np.int64] | None
    address_bits: int
    first_group: int = 0
    groups: NDArray[np.uint64] | None = None
    addresses: NDArray[np.uint64] | None = None

    def unpack(self, keys: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        """Return the groups and folded addresses of keys, whose memory the addresses take."""
        group = (keys >> np.uint64(self.address_bits)).view(np.int64)
        address = keys
        address &= np.uint64((1 << self.address_bits) - 1)
        if self.groups is None or self.addresses is None:
            group += self.first_group
            return group, address
        return self.groups.take(group).view(np.int64), self.addresses.take(address.view(np.int64))


def key_parts(
    samples: Samples, groups: SampleGroups, *, may_spend: bool = False
) -> Iterator[KeyPart]:
    """Pack the samples, in parts that share no (group, address).

    With `may_spend` nobody needs the addresses any more, and their memory may be used.
    """
    for_group = group_bits(groups.largest_address)
    address_bits = KEY_BITS - for_group
    chunks = 1 + (max(groups.limit - 1, 0) >> for_group)
    fits = groups.largest_address >> address_bits == 0
    if chunks == 1 and fits:
        is_usable = may_spend and samples.ip.flags.writeable and samples.ip.flags.c_contiguous
        keys = samples.ip if is_usable else np.empty(len(samples), np.uint64)
        _pack_all(samples, groups, address_bits, keys)
        yield KeyPart(keys, None, address_bits)
        return
    if chunks > _CHUNKS:
        chunks, address_bits = 0, 0
    for chunk in range(chunks):
        rows, group, address = _select(samples, groups, address_bits, for_group, chunk)
        keys = (group << np.uint64(address_bits)) | address
        yield KeyPart(keys, rows, address_bits, chunk << for_group)
    if not chunks or not fits:
        yield _ranked(samples, groups, address_bits)


def _pack_all(
    samples: Samples, groups: SampleGroups, address_bits: int, keys: NDArray[np.uint64]
) -> None:
    """Write the samples' keys, which may be where their addresses are."""
    for first, group in groups.blocks():
        block = slice(first, first + BLOCK_SAMPLES)
        key = np.left_shift(group, np.uint64(address_bits), out=group)
        np.bitwise_or(key, folded(samples.ip[block]), out=keys[block])


def _select(
    samples: Samples, groups: SampleGroups, address_bits: int, group_bits: int, chunk: int
) -> tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.uint64]]:
    """Return rows, group within the chunk and address of a chunk's samples that fit a key."""
    rows, chosen, addresses = [], [], []
    for first, group in groups.blocks():
        address = folded(samples.ip[first : first + BLOCK_SAMPLES])
        is_chosen = group >> np.uint64(group_bits) == chunk
        is_chosen &= address >> np.uint64(address_bits) == 0
        picked = np.flatnonzero(is_chosen)
        rows.append(first + picked)
        chosen.append(group.take(picked) & np.uint64((1 << group_bits) - 1))
        addresses.append(address.take(picked))
    return np.concatenate(rows), np.concatenate(chosen), np.concatenate(addresses)


def _ranked(samples: Samples, groups: SampleGroups, address_bits: int) -> KeyPart:
    """Pack what has longer addresses, by rank: two ranks of up to 2^32 samples fit a key.

    With 0 `address_bits` that is every sample.
    """
    rows, chosen, addresses = [], [], []
    for first, group in groups.blocks():
        address = folded(samples.ip[first : first + BLOCK_SAMPLES])
        is_chosen = address >> np.uint64(address_bits) > 0 if address_bits else address >= 0
        picked = np.flatnonzero(is_chosen)
        rows.append(first + picked)
        chosen.append(group.take(picked))
        addresses.append(address.take(picked))
    groups_met, group_rank = np.unique(np.concatenate(chosen), return_inverse=True)
    addresses_met, address_rank = np.unique(np.concatenate(addresses), return_inverse=True)
    bits = max(len(addresses_met) - 1, 0).bit_length()
    keys = (group_rank.view(np.uint64) << np.uint64(bits)) | address_rank.view(np.uint64)
    return KeyPart(keys, np.concatenate(rows), bits, groups=groups_met, addresses=addresses_met)


class Attribution(Record):
    """Distinct hits.

    Attributes:
        process_row: i32[h] row of `ProcessHistory.processes`.
        comm: i32[h] row of `ProcessHistory.names`: the thread's name at the time.
        space, epoch: i32[h] for `AddressSpaces.locate`; -1 for all but user mode.
        mode: u8[h] PERF_RECORD_MISC_CPUMODE.
        event: u16[h] row of the recording's events.
        label: u16[h] the samples' label; 0 if they have none.
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


def programs_at(
    timeline: Timeline,
    pid: NDArray[np.int32],
    tid: NDArray[np.int32],
    time_ns: NDArray[np.uint64],
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the process row of each thread at a time, and the row of its name, i32[n] each.

    Args:
        timeline: who was what, when.
        pid: their processes.
        tid: their numbers.
        time_ns: the times.
    """
    count = len(tid)
    nothing = np.zeros(count, np.uint64)
    moments = Samples(
        ip=nothing,
        task=pid.astype(np.uint32) | tid.astype(np.uint64) << np.uint64(32),
        time_ns=time_ns,
        mode=np.zeros(count, np.uint8),
        cpu=np.zeros(count, np.uint16),
        period=nothing,
        event=np.zeros(count, np.uint16),
        clock=np.zeros(count, np.uint8),
    )
    at = attribute(moments, timeline)
    return at.process_row.take(at.sample_row), at.comm.take(at.sample_row)
