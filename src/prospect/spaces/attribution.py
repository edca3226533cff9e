"""Samples and timeline → distinct hits: process, thread, address and mode, with their samples.

Every sample is in exactly one row. The kernel writes a CPU's samples in chronological order, and a
task stays on a CPU for many of them, so times and tasks are looked up once for each run of
neighbouring samples of one task. Samples of one process row, thread name, space, mode, event and
label are a group: `SampleGroups` yields the groups of samples block by block, so no column holds
them all. Group and address become one u64 key per sample, and equal keys are counted. Groups and
addresses that do not fit 64 bits are replaced by their ranks.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.abi import constants as abi
from prospect.columns.grouping import counted, exact_sums
from prospect.columns.sorting import distinct, run_lengths, run_starts
from prospect.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from prospect.columns.array_types import I32, I64, U8, U16, U64, Bools
    from prospect.events.record_columns import Samples
    from prospect.spaces.task_timeline import Timeline

# A block's columns and their temporaries (8 bytes an element) stay in the second-level cache.
BLOCK_SAMPLES = 1 << 16
# The place of a word's low half in memory.
_LOW_HALF = int(sys.byteorder == "big")


class TaskRuns(Record):
    """Runs of one block of samples.

    Attributes:
        first_sample: row of the block's first sample in the recording.
        start: i64[r] the runs' first samples, relative to `first_sample`, ascending from 0.
        length: i64[r] samples, at least 1.
        task: u64[r] as in `Samples.task`.
        first_ns, last_ns: u64[r] times of the runs' first and last samples.
    """

    first_sample: int
    start: I64
    length: I64
    task: U64
    first_ns: U64
    last_ns: U64


def task_runs(samples: Samples) -> Iterator[TaskRuns]:
    """Cut the samples into runs, block by block; a run ends with its block at the latest."""
    for first_sample in range(0, len(samples), BLOCK_SAMPLES):
        task = samples.task[first_sample : first_sample + BLOCK_SAMPLES]
        time_ns = samples.time_ns[first_sample : first_sample + BLOCK_SAMPLES]
        is_cut = task[1:] != task[:-1]
        is_cut |= time_ns[1:] < time_ns[:-1]
        cuts = np.flatnonzero(is_cut)
        start = np.concatenate(([0], cuts + 1))
        last = np.append(cuts, len(task) - 1)
        yield TaskRuns(
            first_sample=first_sample,
            start=start,
            length=last - start + 1,
            task=task.take(start),
            first_ns=time_ns.take(start),
            last_ns=time_ns.take(last),
        )


def task_pid(task: U64) -> I32:
    """Return the pid of each task word, i32; -1 if the kernel did not know it."""
    return _halves(task, _LOW_HALF)


def task_tid(task: U64) -> I32:
    """Return the tid of each task word, i32; -1 if the kernel did not know it."""
    return _halves(task, 1 - _LOW_HALF)


def viewed_tid(task: U64) -> I32:
    """Return the tid of each task word, i32, as a view of the words."""
    return np.ascontiguousarray(task).view(np.int32)[1 - _LOW_HALF :: 2]


def _halves(task: U64, half: int) -> I32:
    halves = np.ascontiguousarray(task).view(np.int32)
    return np.ascontiguousarray(halves[half::2])


KEY_BITS = 64
# The largest virtual addresses in common use: 52 bits on arm64 (LVA); x86-64 has 47.
_ADDRESS_BITS = 52

# A sample's kind: CPU mode in 3 bits, whether the address's top bit is set, the event and, if there
# are labels, the label.
_SIGN_SHIFT = 3
_EVENT_SHIFT = 4
# Sorting the index costs less than larger tables than these.
_MOST_KINDS = 1 << 22
_FEW_KINDS = 1 << 8
_MOST_GROUPS = 1 << 25


def folded(address: U64) -> U64:
    """Return addresses with the top half of the address space folded onto the bottom half."""
    signed = address.view(np.int64)
    return (signed ^ (signed >> 63)).view(np.uint64)


def group_bits(largest_address: int) -> int:
    """Return how many bits of a key are for the group if folded addresses have this size."""
    return KEY_BITS - min(largest_address.bit_length(), _ADDRESS_BITS)


class TaskStates(Record):
    """The tasks of runs.

    Attributes:
        change, comm: i64[u] distinct pairs of rows of `Timeline.processes` and of names.
        length: per block, i64[r] samples of each run.
        pair: per block, i64[r] the pair of each run.
    """

    change: I64
    comm: I64
    length: list[I64]
    pair: list[I64]


def look_up_tasks(
    samples: Samples, timeline: Timeline, all_runs: Iterable[TaskRuns] | None = None
) -> TaskStates:
    """Find the process state and the thread name of every sample, a run at a time."""
    comms = int(timeline.comm.max()) + 1

    def code_of(change: I64, named: I64) -> I64:
        return change * comms + timeline.comm.take(named)

    lengths, codes = [], []
    for runs in task_runs(samples) if all_runs is None else all_runs:
        change, is_settled = timeline.processes.find_runs(
            task_pid(runs.task), runs.first_ns, runs.last_ns
        )
        named, is_named = timeline.threads.find_runs(
            task_tid(runs.task), runs.first_ns, runs.last_ns
        )
        code, length = code_of(change, named), runs.length
        is_settled &= is_named
        if not is_settled.all():
            each = np.repeat(code, length)
            # Something changes within these runs: look up each of their samples.
            rows = np.flatnonzero(np.repeat(~is_settled, length))
            task = samples.task.take(runs.first_sample + rows)
            time_ns = samples.time_ns.take(runs.first_sample + rows)
            change = timeline.processes.find(task_pid(task), time_ns)
            each[rows] = code_of(change, timeline.threads.find(task_tid(task), time_ns))
            start = run_starts(each)
            code, length = each.take(start), run_lengths(start, len(each))
        lengths.append(length)
        codes.append(code)
    met = distinct(np.concatenate(codes)) if codes else np.empty(0, np.int64)
    return TaskStates(
        change=met // comms,
        comm=met % comms,
        length=lengths,
        pair=[np.searchsorted(met, code) for code in codes],
    )


class _Kinds(Record):
    """The kinds of all samples.

    Attributes:
        code: u8[n] or u32[n] of each sample.
        codes: the number of codes, not all of which occur.
        present: i64[k] the codes that occur.
        kind, label: i64[k] their kinds and labels.
        largest_address: the largest of the samples' `folded` addresses.
    """

    code: NDArray[np.unsignedinteger]
    codes: int
    present: I64
    kind: I64
    label: I64
    largest_address: int

    @property
    def is_user(self) -> Bools:
        """Which of the codes that occur are of user mode, bool[k]."""
        mode = self.kind & abi.PERF_RECORD_MISC_CPUMODE_MASK
        is_user: Bools = mode == abi.PERF_RECORD_MISC_USER
        return is_user


class SampleGroups(Record):
    """The group of every sample.

    Attributes:
        limit: group numbers are below this: the number of codes that occur times that of pairs, or
            the number of groups that occur.
        largest_address: the largest of the samples' `folded` addresses.
    """

    limit: int
    largest_address: int
    _tasks: TaskStates
    _kinds: _Kinds
    # Per code: where its pairs begin among the groups, and in `_member`, which has all pairs twice:
    # themselves, and the first one alike.
    _base: I64
    _member_base: I64
    _member: I64
    # Numbers of the groups that occur, and those groups; None if a number is the group.
    _number: I64 | None = None
    _met: I64 | None = None

    def blocks(self) -> Iterator[tuple[int, U64]]:
        """Yield each block's first sample and its samples' groups, u64."""
        for block, (length, pair) in enumerate(
            zip(self._tasks.length, self._tasks.pair, strict=True)
        ):
            first = block * BLOCK_SAMPLES
            code = self._kinds.code[first : first + BLOCK_SAMPLES]
            cell = np.repeat(pair, length)
            cell += self._member_base.take(code)
            group = self._member.take(cell)
            group += self._base.take(code)
            if self._number is not None:
                group = self._number.take(group)
            yield first, group.view(np.uint64)

    def numbered(self) -> SampleGroups:
        """Return the same groups, numbered so that all numbers below `limit` occur."""
        is_met = np.zeros(self.limit, np.bool_)
        for _, group in self.blocks():
            is_met[group.view(np.int64)] = True
        met = np.flatnonzero(is_met)
        number = np.zeros(self.limit, np.int64)
        number[met] = np.arange(len(met))
        return replace(self, limit=len(met), _number=number, _met=met)

    def describe(self, group: I64, timeline: Timeline) -> tuple[dict[str, NDArray[Any]], Bools]:
        """Describe some groups.

        Returns:
            Columns as in `Attribution`, and bool[h] which groups' addresses have their top bit set.
        """
        if self._met is not None:
            group = self._met.take(group)
        pairs = max(len(self._tasks.change), 1)
        row = group // pairs
        kind = self._kinds.kind.take(row)
        pair = group % pairs
        change = self._tasks.change.take(pair)
        is_user = self._kinds.is_user.take(row)
        columns = {
            "process_row": timeline.process_row.take(change),
            "comm": self._tasks.comm.take(pair).astype(np.int32),
            "space": np.where(is_user, timeline.space.take(change), np.int32(-1)),
            "epoch": np.where(is_user, timeline.epoch.take(change), np.int32(-1)),
            "mode": (kind & abi.PERF_RECORD_MISC_CPUMODE_MASK).astype(np.uint8),
            "event": (kind >> _EVENT_SHIFT).astype(np.uint16),
            "label": self._kinds.label.take(row).astype(np.uint16),
        }
        return columns, (kind >> _SIGN_SHIFT & 1).astype(np.bool_)


def group_samples(
    samples: Samples, timeline: Timeline, label: U16 | None, runs: Iterable[TaskRuns] | None = None
) -> SampleGroups:
    """Group the samples; outside user mode all spaces are -1."""
    tasks = look_up_tasks(samples, timeline, runs)
    kinds = _find_kinds(samples, label)
    # Outside user mode epochs do not matter: the first of all pairs that are alike is for all.
    row = timeline.process_row.take(tasks.change).astype(np.int64)
    alike = (row + 1) * (int(tasks.comm.max(initial=0)) + 1) + tasks.comm
    _, first_alike, alike_rank = np.unique(alike, return_index=True, return_inverse=True)
    pairs = len(tasks.change)
    base = np.zeros(kinds.codes, np.int64)
    base[kinds.present] = np.arange(len(kinds.present)) * pairs
    member_base = np.zeros(kinds.codes, np.int64)
    member_base[kinds.present] = np.where(kinds.is_user, 0, pairs)
    groups = SampleGroups(
        limit=len(kinds.present) * pairs,
        largest_address=kinds.largest_address,
        _tasks=tasks,
        _kinds=kinds,
        _base=base,
        _member_base=member_base,
        _member=np.concatenate((np.arange(pairs), first_alike.take(alike_rank))),
    )
    has_room = groups.limit <= 1 << group_bits(groups.largest_address)
    return groups if has_room or groups.limit > _MOST_GROUPS else groups.numbered()


def _find_kinds(samples: Samples, label: U16 | None) -> _Kinds:
    kinds = (int(samples.event.max(initial=0)) + 1) << _EVENT_SHIFT
    codes = kinds * (int(label.max(initial=0)) + 1 if label is not None else 1)
    code_type: type[np.unsignedinteger] = np.uint8 if codes <= _FEW_KINDS else np.uint32
    code: NDArray[np.unsignedinteger] = np.empty(len(samples), code_type)
    is_present = np.zeros(kinds, np.bool_)
    largest = 0
    for first in range(0, len(samples), BLOCK_SAMPLES):
        block = slice(first, first + BLOCK_SAMPLES)
        address = samples.ip[block].view(np.int64)
        largest = max(largest, int(address.max()), ~int(address.min()))
        part = code[block]
        np.bitwise_and(samples.mode[block], abi.PERF_RECORD_MISC_CPUMODE_MASK, out=part)
        part |= (address < 0).astype(code_type) << code_type(_SIGN_SHIFT)
        if kinds > 1 << _EVENT_SHIFT:
            part |= samples.event[block].astype(code_type) << code_type(_EVENT_SHIFT)
        is_present[part[run_starts(part)]] = True
    if label is None:
        present = np.flatnonzero(is_present)
        return _Kinds(code, kinds, present, present, np.zeros_like(present), largest)
    if codes > _MOST_KINDS:
        met, rank = np.unique(label.astype(np.int64) * kinds + code, return_inverse=True)
        code, codes, present = rank.astype(np.uint32), len(met), np.arange(len(met))
        return _Kinds(code, codes, present, met % kinds, met // kinds, largest)
    if codes > kinds:
        code += label.astype(code_type) * code_type(kinds)
    is_present = np.zeros(codes, np.bool_)
    is_present[code] = True
    present = np.flatnonzero(is_present)
    return _Kinds(code, codes, present, present % kinds, present // kinds, largest)


# Each chunk of groups costs a pass over the samples: ranking costs less than more of them.
_CHUNKS = 16


class KeyPart(Record):
    """Samples as keys: group above, folded address below.

    Attributes:
        rows: i64[k] the samples; None for all of the recording, in order.
        address_bits: bits of the address in a key.
        groups: u64, of which a key has the row of its group; None if it has group - `first_group`.
        addresses: u64, of which a key has the row of its address; None if it has the address.
    """

    keys: U64
    rows: I64 | None
    address_bits: int
    first_group: int = 0
    groups: U64 | None = None
    addresses: U64 | None = None

    def unpack(self, keys: U64) -> tuple[I64, U64]:
        """Return the groups and folded addresses of keys; the addresses reuse the keys' memory."""
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

    With `may_spend` the keys may overwrite the samples' addresses.
    """
    for_group = group_bits(groups.largest_address)
    address_bits = KEY_BITS - for_group
    chunks = 1 + (max(groups.limit - 1, 0) >> for_group)
    fits = groups.largest_address >> address_bits == 0
    if chunks == 1 and fits:
        is_usable = may_spend and samples.ip.flags.writeable and samples.ip.flags.c_contiguous
        keys = samples.ip if is_usable else np.empty(len(samples), np.uint64)
        for first, group in groups.blocks():
            block = slice(first, first + BLOCK_SAMPLES)
            key = np.left_shift(group, np.uint64(address_bits), out=group)
            np.bitwise_or(key, folded(samples.ip[block]), out=keys[block])
        yield KeyPart(keys, None, address_bits)
        return
    if chunks > _CHUNKS:
        chunks, address_bits = 0, 0
    for chunk in range(chunks):
        first_group = chunk << for_group
        chosen = range(first_group, first_group + (1 << for_group))
        rows, group, address = _select(samples, groups, address_bits, chosen)
        keys = (group - np.uint64(first_group) << np.uint64(address_bits)) | address
        yield KeyPart(keys, rows, address_bits, first_group)
    if not chunks or not fits:
        yield _ranked(samples, groups, address_bits)


def _select(
    samples: Samples, groups: SampleGroups, address_bits: int, chosen: range | None
) -> tuple[I64, U64, U64]:
    """Return rows, groups and folded addresses of some samples.

    They are those of the chosen groups whose addresses fit a key, or all whose addresses do not.
    With 0 `address_bits` none fits.
    """
    parts = []
    for first, group in groups.blocks():
        address = folded(samples.ip[first : first + BLOCK_SAMPLES])
        fits = address >> np.uint64(address_bits) == 0
        if chosen is not None:
            fits &= (group >= chosen.start) & (group < chosen.stop)
            picked = np.flatnonzero(fits)
        else:
            picked = np.flatnonzero(~fits) if address_bits else np.arange(len(group))
        parts.append((first + picked, group.take(picked), address.take(picked)))
    rows, group, address = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return rows, group, address


def _ranked(samples: Samples, groups: SampleGroups, address_bits: int) -> KeyPart:
    """Pack samples whose addresses do not fit, by rank: two ranks of up to 2^32 fit a key."""
    rows, group, address = _select(samples, groups, address_bits, None)
    groups_met, group_rank = np.unique(group, return_inverse=True)
    addresses_met, address_rank = np.unique(address, return_inverse=True)
    bits = max(len(addresses_met) - 1, 0).bit_length()
    keys = (group_rank.view(np.uint64) << np.uint64(bits)) | address_rank.view(np.uint64)
    return KeyPart(keys, rows, bits, groups=groups_met, addresses=addresses_met)


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

    process_row: I32
    comm: I32
    space: I32
    epoch: I32
    mode: U8
    event: U16
    label: U16
    address: U64
    count: I64
    period: I64
    sample_row: I32

    def __len__(self) -> int:
        return len(self.count)


def attribute(
    samples: Samples,
    timeline: Timeline,
    label: U16 | None = None,
    runs: Sequence[TaskRuns] | None = None,
    *,
    may_spend: bool = False,
) -> Attribution:
    """Count the samples by process row, thread name, space, epoch, mode, event, label and address.

    Args:
        samples: in any order; the recorded order, in which neighbours are of one task, costs least.
        timeline: of the same recording. A task that it does not have gets process row -1.
        label: u16[n] something more that separates samples.
        runs: the runs of these samples, if known.
        may_spend: whether the samples' addresses may be overwritten.
    """
    groups = group_samples(samples, timeline, label, runs)
    sample_row = np.empty(len(samples), np.int32)
    tables = []
    rows = 0
    for part in key_parts(samples, groups, may_spend=may_spend):
        table, place = _count(part, samples.period, rows)
        if part.rows is None:
            sample_row = place
        else:
            sample_row[part.rows] = place
        rows += len(table[0])
        tables.append(table)
    group, address, count, period = (
        columns[0] if len(columns) == 1 else np.concatenate(columns)
        for columns in zip(*tables, strict=True)
    )
    starts = run_starts(group)
    length = run_lengths(starts, len(group))
    columns, is_negative = groups.describe(group.take(starts), timeline)
    np.invert(address, out=address, where=is_negative.repeat(length))
    return Attribution(
        **{name: column.repeat(length) for name, column in columns.items()},
        address=address,
        count=count,
        period=period,
        sample_row=sample_row,
    )


def _count(part: KeyPart, period: U64, first_row: int) -> tuple[tuple[I64, U64, I64, I64], I32]:
    """Count a part's keys and add up the periods; number its samples' rows from `first_row`.

    Returns:
        Group, folded address, count and period of each distinct key; and i32[k] the samples' rows.
    """
    is_constant = period.strides == (0,) or not np.count_nonzero(period != period[:1])
    keys = counted(part.keys, may_spend=True)
    if is_constant:
        summed = keys.rows * period[:1].view(np.int64)
    else:
        chosen = period if part.rows is None else period.take(part.rows)
        summed = exact_sums(keys.place, chosen.view(np.int64), len(keys.value))
    place = keys.place
    place += np.int32(first_row)
    return (*part.unpack(keys.value), keys.rows, summed), place
