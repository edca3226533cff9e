"""Side records in time order → the tables of `columns`.

Layouts: the comments of PERF_RECORD_* in ``include/uapi/linux/perf_event.h`` (Linux 6.18).
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from prospect.abi import constants as abi
from prospect.columns.buffers import segments
from prospect.events.columns import (
    TASK_COMM,
    TASK_EXEC,
    TASK_EXIT,
    TASK_FORK,
    KernelSymbols,
    Losses,
    Mmaps,
    Switches,
    Tasks,
)
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from prospect.events.side import Records

    Rows = NDArray[np.int64]

_LOSSES = (
    abi.PERF_RECORD_LOST,
    abi.PERF_RECORD_LOST_SAMPLES,
    abi.PERF_RECORD_THROTTLE,
    abi.PERF_RECORD_UNTHROTTLE,
)
_MMAP2_PROT_WORD = 8
_BUILD_ID_WORD = 5
# The minor number is the high half of that word, and has 20 bits (``include/linux/kdev_t.h``).
_MINOR_END_BIT = np.uint64(32 + 20)
_INODE_BITS = np.uint64(48)
_MASK_LOW = np.uint64((1 << 32) - 1)
_MASK_BYTE = np.uint64(0xFF)


class SideTables(NamedTuple):
    """What the side records of a recording say."""

    mmaps: Mmaps
    tasks: Tasks
    losses: Losses
    kernel_symbols: KernelSymbols
    switches: Switches | None
    control_groups: dict[int, bytes]
    names: list[bytes]
    build_ids: list[bytes]


def side_tables(records: Records, asks_for_build_ids: NDArray[np.bool_]) -> SideTables:
    """Decode the side records of a recording.

    Args:
        records: all of them.
        asks_for_build_ids: bool[n], whether the event that wrote each has ``attr.build_id``.
    """
    name, names = _names(records)
    has_build_id = _has_build_id(records, asks_for_build_ids)
    build_id, build_ids = _build_ids(records, has_build_id)
    return SideTables(
        _mmaps(records, name, build_id, has_build_id),
        _tasks(records, name),
        _losses(records),
        _kernel_symbols(records, name),
        _switches(records),
        _control_groups(records, name, names),
        names,
        build_ids,
    )


def _strings(
    words: NDArray[np.uint64], begin: Rows, end: Rows, text_of: Callable[[bytes], bytes]
) -> tuple[NDArray[np.int32], list[bytes]]:
    """Number the distinct strings that stand in ``words[begin[i]:end[i]]``, by first appearance.

    Args:
        words: u64 the records.
        begin: i64[n] words.
        end: i64[n] words.
        text_of: what those bytes mean; asked once for each distinct value.

    Returns:
        i32[n] row of the string, and the strings.
    """
    length = end - begin
    # One copy of all of them, cut as bytes: numpy has no faster way to intern strings.
    data = words.take(segments(begin, length)).tobytes()
    cuts = [0, *(8 * np.cumsum(length)).tolist()]
    slots: dict[bytes, int] = {}
    slot = [slots.setdefault(data[at:to], len(slots)) for at, to in itertools.pairwise(cuts)]
    texts: dict[bytes, int] = {}
    row_of_slot = [texts.setdefault(text_of(raw), len(texts)) for raw in slots]
    return np.array(row_of_slot, np.int32).take(np.array(slot, np.int64)), list(texts)


def _names(records: Records) -> tuple[NDArray[np.int32], list[bytes]]:
    """Return the row of each record's name (-1 without) and the names, by first appearance."""
    rows = (records.name_number >= 0).nonzero()[0]
    number, first, of_row = np.unique(
        records.name_number.take(rows), return_index=True, return_inverse=True
    )
    order = np.argsort(first)
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    name = np.full(len(records.type), -1, np.int32)
    name[rows] = rank.take(of_row)
    return name, [records.names[one] for one in number.take(order).tolist()]


def _build_ids(
    records: Records, has_build_id: NDArray[np.bool_]
) -> tuple[NDArray[np.int32], list[bytes]]:
    """Return the row of each record's build id (-1 without) and the build ids."""
    rows = has_build_id.nonzero()[0]
    rows = rows[(records.word(rows, _BUILD_ID_WORD) & _MASK_BYTE) != 0]
    begin = records.start.take(rows) + _BUILD_ID_WORD
    build_id = np.full(len(records.type), -1, np.int32)
    # build_id_size u8, 3 reserved bytes, build_id u8[20]
    build_id[rows], build_ids = _strings(
        records.words, begin, begin + 3, lambda raw: raw[4 : 4 + min(raw[0], 20)]
    )
    return build_id, build_ids


def _has_build_id(records: Records, asks: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which records are MMAP2 with a build id in the place of device and inode.

    The misc bit alone does not say so. The kernel sets it in a header that all events share, and
    does not clear it for the next event: one with ``attr.build_id`` 0 gets the bit with its device
    and inode whenever somebody else records build ids. The attr does not always say so either:
    ``perf inject`` writes build ids into records of events that did not ask for any. So where the
    attr does not ask, the content decides.

    Source: ``perf_event_mmap_output`` (``kernel/events/core.c``, 6.18).
    """
    is_marked = (records.misc & abi.PERF_RECORD_MISC_MMAP_BUILD_ID) != 0
    has: NDArray[np.bool_] = is_marked & (records.type == abi.PERF_RECORD_MMAP2)
    doubtful = (has & ~asks).nonzero()[0]
    has[doubtful] = _reads_as_build_id(records, doubtful)
    return has


def _reads_as_build_id(records: Records, rows: Rows) -> NDArray[np.bool_]:
    """Return which of these MMAP2 records hold a build id that can be no device and inode.

    A build id is preceded by its size, 1 to 20, as a 32-bit number, and filled up with zeros. The
    kernel's device numbers have 20 bits of minor, and no file system that has a major number
    counts inodes to 2**48.
    """
    words = [records.word(rows, _BUILD_ID_WORD + word) for word in range(3)]
    raw = np.stack(words, axis=1).astype("<u8").view(np.uint8).reshape(len(rows), 24)
    size = (words[0] & _MASK_LOW).view(np.int64)
    is_padding = np.arange(20) >= size[:, np.newaxis]
    is_sized = (size >= 1) & (size <= 20) & ~(raw[:, 4:].astype(np.bool_) & is_padding).any(axis=1)
    is_device = (words[0] >> _MINOR_END_BIT == 0) & (words[1] >> _INODE_BITS == 0)
    found: NDArray[np.bool_] = is_sized & ~is_device
    return found


def _mmaps(
    records: Records,
    name: NDArray[np.int32],
    build_id: NDArray[np.int32],
    has_build_id: NDArray[np.bool_],
) -> Mmaps:
    rows = records.of(abi.PERF_RECORD_MMAP, abi.PERF_RECORD_MMAP2)
    is_mmap2 = records.type.take(rows) == abi.PERF_RECORD_MMAP2
    has_inode = is_mmap2 & ~has_build_id.take(rows)
    mmap2 = rows[is_mmap2]
    with_inode = rows[has_inode]
    prot = np.full(len(rows), abi.PROT_EXEC, np.uint32)
    prot[is_mmap2] = records.low(mmap2, _MMAP2_PROT_WORD)
    major, minor = np.zeros(len(rows), np.uint32), np.zeros(len(rows), np.uint32)
    inode = np.zeros(len(rows), np.uint64)
    major[has_inode] = records.low(with_inode, 5).view(np.uint32)
    minor[has_inode] = records.high(with_inode, 5).view(np.uint32)
    inode[has_inode] = records.word(with_inode, 6)
    return Mmaps(
        order=rows,
        time_ns=records.time_ns.take(rows),
        pid=records.low(rows, 1),
        tid=records.high(rows, 1),
        start=records.word(rows, 2),
        length=records.word(rows, 3),
        pgoff=records.word(rows, 4),
        name=name.take(rows),
        build_id=build_id.take(rows),
        major=major,
        minor=minor,
        inode=inode,
        prot=prot,
        mode=(records.misc.take(rows) & abi.PERF_RECORD_MISC_CPUMODE_MASK).astype(np.uint8),
    )


def _tasks(records: Records, name: NDArray[np.int32]) -> Tasks:
    rows = records.of(abi.PERF_RECORD_FORK, abi.PERF_RECORD_EXIT, abi.PERF_RECORD_COMM)
    type_ = records.type.take(rows)
    is_comm = type_ == abi.PERF_RECORD_COMM
    is_exec = is_comm & ((records.misc.take(rows) & abi.PERF_RECORD_MISC_COMM_EXEC) != 0)
    kind = np.where(type_ == abi.PERF_RECORD_EXIT, TASK_EXIT, TASK_FORK)
    kind[is_comm] = TASK_COMM
    kind[is_exec] = TASK_EXEC
    forks = rows[~is_comm]
    tid = records.high(rows, 1)  # COMM: pid, tid; FORK and EXIT: pid, ppid, tid, ptid
    parent_pid = np.full(len(rows), -1, np.int32)
    parent_tid = parent_pid.copy()
    parent_pid[~is_comm] = records.high(forks, 1)
    parent_tid[~is_comm] = records.high(forks, 2)
    tid[~is_comm] = records.low(forks, 2)
    return Tasks(
        order=rows,
        time_ns=records.time_ns.take(rows),
        kind=kind.astype(np.uint8),
        pid=records.low(rows, 1),
        tid=tid,
        parent_pid=parent_pid,
        parent_tid=parent_tid,
        name=name.take(rows),
    )


def _losses(records: Records) -> Losses:
    rows = records.of(*_LOSSES)
    type_ = records.type.take(rows)
    count = np.zeros(len(rows), np.uint64)
    id_ = records.id.take(rows)
    is_lost = type_ == abi.PERF_RECORD_LOST
    is_lost_samples = type_ == abi.PERF_RECORD_LOST_SAMPLES
    is_throttle = ~(is_lost | is_lost_samples)
    id_[is_lost] = records.word(rows[is_lost], 1)
    count[is_lost] = records.word(rows[is_lost], 2)
    count[is_lost_samples] = records.word(rows[is_lost_samples], 1)
    id_[is_throttle] = records.word(rows[is_throttle], 2)
    return Losses(
        time_ns=records.time_ns.take(rows),
        kind=type_.astype(np.uint8),
        count=count,
        id=id_,
        cpu=records.cpu.take(rows),
    )


def _kernel_symbols(records: Records, name: NDArray[np.int32]) -> KernelSymbols:
    rows = records.of(abi.PERF_RECORD_KSYMBOL)
    length_kind_flags = records.word(rows, 2)
    flags = length_kind_flags >> np.uint64(48)
    return KernelSymbols(
        order=rows,
        time_ns=records.time_ns.take(rows),
        address=records.word(rows, 1),
        length=length_kind_flags & _MASK_LOW,
        kind=((length_kind_flags >> np.uint64(32)) & _MASK_BYTE).astype(np.uint8),
        unregister=(flags & np.uint64(abi.PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER)) != 0,
        name=name.take(rows),
    )


def _switches(records: Records) -> Switches | None:
    rows = records.of(abi.PERF_RECORD_SWITCH, abi.PERF_RECORD_SWITCH_CPU_WIDE)
    if not len(rows):
        return None
    misc = records.misc.take(rows)
    is_out = (misc & abi.PERF_RECORD_MISC_SWITCH_OUT) != 0
    return Switches(
        order=rows,
        time_ns=records.time_ns.take(rows),
        task=records.task.take(rows),
        cpu=records.cpu.take(rows),
        is_out=is_out,
        is_preempted=is_out & ((misc & abi.PERF_RECORD_MISC_SWITCH_OUT_PREEMPT) != 0),
    )


def _control_groups(
    records: Records, name: NDArray[np.int32], names: list[bytes]
) -> dict[int, bytes]:
    """Return the paths of control groups by id; of an id that was given again the last one."""
    rows = records.of(abi.PERF_RECORD_CGROUP)
    ids = records.word(rows, 1).tolist()
    return {id_: names[row] for id_, row in zip(ids, name.take(rows).tolist(), strict=True)}
