"""Side records, which are all except samples: collected, sorted by time, and made tables.

Layouts: the comments of PERF_RECORD_* in ``include/uapi/linux/perf_event.h`` (Linux 6.18). The
sample_id tail follows a name, which ends in NUL and is padded to 8 bytes; in records that perf
synthesized it is zero or missing.

A program's names may have 4 KB each, and most are equal. So each distinct name is kept once, and a
record has its number.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from prospect.abi import constants as abi
from prospect.abi.record_layout import record_struct
from prospect.columns.buffers import segments
from prospect.events.events_limits import MOST_NAME_BYTES
from prospect.events.record_columns import (
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
from prospect.events.sample_schema import at_rows
from prospect.records import NamedTuple, Record

if TYPE_CHECKING:
    from prospect.columns.array_types import I32, I64, U16, U64, Bools
    from prospect.events.sample_schema import PerEvent, Schema


# Records of other types are only counted.
_NAMED = (
    abi.PERF_RECORD_MMAP,
    abi.PERF_RECORD_MMAP2,
    abi.PERF_RECORD_COMM,
    abi.PERF_RECORD_KSYMBOL,
    abi.PERF_RECORD_CGROUP,
)
DECODED_TYPES = (
    *_NAMED,
    abi.PERF_RECORD_FORK,
    abi.PERF_RECORD_EXIT,
    abi.PERF_RECORD_LOST,
    abi.PERF_RECORD_LOST_SAMPLES,
    abi.PERF_RECORD_THROTTLE,
    abi.PERF_RECORD_UNTHROTTLE,
    abi.PERF_RECORD_SWITCH,
    abi.PERF_RECORD_SWITCH_CPU_WIDE,
)
# Words of header and body, up to the name or the tail.
_BODY_WORDS = {kind: record_struct(kind).size // 8 for kind in DECODED_TYPES}
# The word of the time, for records with the time in the body.
_TIME_WORDS = {
    abi.PERF_RECORD_FORK: 3,
    abi.PERF_RECORD_EXIT: 3,
    abi.PERF_RECORD_THROTTLE: 1,
    abi.PERF_RECORD_UNTHROTTLE: 1,
}
# The kernel's and perf's own types are below this.
_COMMON_TYPES = 128
_KNOWN_TYPES = (*abi.KERNEL_RECORD_TYPES, *abi.PERF_RECORD_TYPES)
_TABLE_SIZE = 1 + max(_BODY_WORDS)
_MMAP2_PROT_WORD = 8
# Records are packed once they have so many words.
_PACKED_WORDS = 1 << 22
# The kernel's name for a path that is too long.
_NO_PATH = b"//toolong"
# The other half of the word has `flags`.
_PROT_MASK = np.uint64((1 << 32) - 1)


def _by_type(values: dict[int, int]) -> I64:
    table = np.zeros(_TABLE_SIZE, np.int64)
    table[list(values)] = list(values.values())
    return table


_BODY_WORDS_OF = _by_type(_BODY_WORDS)
_TIME_WORD_OF = _by_type(_TIME_WORDS)
_IS_KNOWN = np.isin(np.arange(_COMMON_TYPES + 1), _KNOWN_TYPES)
_IS_NAMED = _by_type(dict.fromkeys(_NAMED, 1)).astype(np.bool_)

_MASK_TYPE = np.uint64(0xFFFFFFFF)
_SHIFT_HIGH = np.uint64(32)


class Records(Record):
    """Side records in time order, one row each.

    Attributes:
        words: u64 all records in the order of the recording, without their names.
        start: i64[n] the place of each in `words`.
        name_number: i64[n] row of `names`, -1 for types without.
        names: in the order of the recording.
        type: i64[n] PERF_RECORD_*.
        misc: u16[n] of the header.
        time_ns: u64[n] from body or tail, 0 without.
        id: u64[n] from the tail, 0 without.
        cpu: i32[n] from the tail, -1 without.
        task: u64[n] from the tail, pid in the low half, tid in the high one; all ones without.
    """

    words: U64
    start: I64
    name_number: I64
    names: list[bytes]
    type: I64
    misc: U16
    time_ns: U64
    id: U64
    cpu: I32
    task: U64

    def of(self, *types: int) -> I64:
        """Return the rows of records of `types`, which are also the tables' `order`."""
        rows: I64 = np.isin(self.type, types).nonzero()[0]
        return rows

    def word(self, rows: I64, offset: int) -> U64:
        """Return the word `offset` after the header of each of `rows`, u64."""
        return self.words.take(self.start.take(rows) + offset)

    def low(self, rows: I64, offset: int) -> I32:
        """Return the low half of that word, i32."""
        return self.words.view(np.int32).take(2 * (self.start.take(rows) + offset))

    def high(self, rows: I64, offset: int) -> I32:
        """Return the high half of that word, i32."""
        return self.words.view(np.int32).take(2 * (self.start.take(rows) + offset) + 1)


class SideRecords:
    """Copies of the side records so far; a `record_starts.RecordSink`.

    They are copied because a block's memory ends with the next block, and decoded together because
    most blocks have few of each type.

    Attributes:
        short: the number of records left out because they are shorter than their type's fields.
        unknown: the number of records left out because their type is unknown.
        left_out_words: the size of both.
        left_out_names: the number of names left out because all take too much memory.
        deferred_chains: the words of PERF_RECORD_CALLCHAIN_DEFERRED, several records in each.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._parts: list[U64] = []
        self._sizes: list[I64] = []
        self._part_words = 0
        self._packed: list[tuple[U64, I64, I64]] = []
        self._names: dict[bytes, int] = {}
        self._name_bytes = 0
        self._common_counts = np.zeros(_COMMON_TYPES + 1, np.int64)
        self._other_counts: Counter[int] = Counter()
        self.short = 0
        self.unknown = 0
        self.left_out_words = 0
        self.left_out_names = 0
        self.deferred_chains: list[U64] = []

    @property
    def counts(self) -> dict[int, int]:
        """Number of records by type."""
        common = enumerate(self._common_counts[:-1].tolist())
        return {type_: number for type_, number in common if number} | self._other_counts

    def append(self, words: U64, positions: I64) -> None:
        """Append the records whose headers are at `positions`, ascending."""
        header = words.take(positions)
        type_ = (header & _MASK_TYPE).view(np.int64)
        self._count(type_)
        body = np.where(type_ < _TABLE_SIZE, _BODY_WORDS_OF.take(type_, mode="clip"), 0)
        size = (header >> np.uint64(51)).view(np.int64)
        whole = (body > 0) & (size >= body)
        is_short = body > size
        is_unknown = ~_IS_KNOWN.take(type_, mode="clip")
        self.short += int(np.count_nonzero(is_short))
        self.unknown += int(np.count_nonzero(is_unknown))
        self.left_out_words += int(size[is_short | is_unknown].sum())
        is_chain = type_ == abi.PERF_RECORD_CALLCHAIN_DEFERRED
        if is_chain.any():
            self.deferred_chains.append(words.take(segments(positions[is_chain], size[is_chain])))
        if not whole.all():
            positions, size = positions[whole], size[whole]
        if len(size):
            self._parts.append(words.take(segments(positions, size)))
            self._sizes.append(size)
            self._part_words += len(self._parts[-1])
            if self._part_words > _PACKED_WORDS:
                self._pack()

    def _count(self, types: I64) -> None:
        common = np.bincount(np.minimum(types, _COMMON_TYPES), minlength=_COMMON_TYPES + 1)
        self._common_counts += common
        if common[-1]:
            self._other_counts.update(types[types >= _COMMON_TYPES].tolist())

    def finish(self) -> Records:
        """Return all records so far, in time order."""
        self._pack()
        words, size, name_number = zip(*self._packed, strict=True)
        self._packed.clear()
        return _describe(
            np.concatenate(words),
            np.concatenate(size),
            np.concatenate(name_number),
            list(self._names),
            self._schema,
        )

    def _pack(self) -> None:
        """Pack the collected records: remove names, and mappings of data."""
        words = np.concatenate([np.empty(0, np.uint64), *self._parts])
        size = np.concatenate([np.empty(0, np.int64), *self._sizes])
        self._parts.clear()
        self._sizes.clear()
        self._part_words = 0
        end = np.cumsum(size)
        start = end - size
        type_, misc = _type_and_misc(words, start)
        kept = (~_is_data_mapping(words, start, type_, misc)).nonzero()[0]
        start, end, type_ = start.take(kept), end.take(kept), type_.take(kept)
        tail_words = at_rows(self._schema.tail_words, _events_of_tails(words, end, self._schema))
        has_tail = _has_tail(words, start, end, type_, tail_words)
        body_end = end - np.where(has_tail, tail_words, 0)
        is_named = _IS_NAMED.take(type_)
        name_start = np.where(is_named, start + _BODY_WORDS_OF.take(type_), body_end)
        name_number = np.full(len(kept), -1, np.int64)
        named = is_named.nonzero()[0]
        name_number[named] = self._numbers(words, name_start.take(named), body_end.take(named))
        # Each record has two pieces: up to its name, and its tail.
        pieces = np.stack((start, body_end), axis=1).reshape(-1)
        lengths = np.stack((name_start - start, end - body_end), axis=1).reshape(-1)
        size = (name_start - start) + (end - body_end)
        # A negative size marks a record with a name and without a tail, whose last words are its
        # body.
        size = np.where(is_named & ~has_tail, -size, size)
        self._packed.append((words.take(segments(pieces, lengths)), size, name_number))

    def _numbers(self, words: U64, begin: I64, end: I64) -> list[int]:
        """Number the names in ``words[begin[i]:end[i]]``."""
        distinct, row = _distinct_bytes(words, begin, end)
        number = [self._number(raw.split(b"\0", 1)[0]) for raw in distinct]
        return [number[one] for one in row]

    def _number(self, name: bytes) -> int:
        known = self._names.get(name)
        if known is not None:
            return known
        if self._name_bytes + len(name) > MOST_NAME_BYTES:
            self.left_out_names += 1
            return self._names.setdefault(_NO_PATH, len(self._names))
        self._name_bytes += len(name)
        return self._names.setdefault(name, len(self._names))


def _distinct_bytes(words: U64, begin: I64, end: I64) -> tuple[list[bytes], list[int]]:
    """Return the distinct bytes of ``words[begin[i]:end[i]]``, and the row of each of these."""
    # One copy of all, cut as bytes: numpy has no faster way to intern strings.
    data = words.take(segments(begin, end - begin)).tobytes()
    cuts = [0, *(8 * np.cumsum(end - begin)).tolist()]
    rows: dict[bytes, int] = {}
    row = [rows.setdefault(data[at:to], len(rows)) for at, to in itertools.pairwise(cuts)]
    return list(rows), row


def _type_and_misc(words: U64, start: I64) -> tuple[I64, U16]:
    header = words.take(start)
    return (header & _MASK_TYPE).view(np.int64), (header >> _SHIFT_HIGH).astype(np.uint16)


def _describe(
    words: U64, size: I64, name_number: I64, names: list[bytes], schema: Schema
) -> Records:
    may_have_tail = size >= 0
    end: I64 = np.cumsum(np.abs(size))
    start = end - np.abs(size)
    type_, misc = _type_and_misc(words, start)
    rows = _events_of_tails(words, end, schema)
    tail_words = at_rows(schema.tail_words, rows)
    has_tail = may_have_tail & (end - start - _BODY_WORDS_OF.take(type_) >= tail_words)

    def from_tail(offset: PerEvent, absent: int) -> U64:
        there = has_tail & (np.asarray(offset) != 0)
        return np.where(there, words.take(end + offset, mode="clip"), np.uint64(absent))

    time_ns = from_tail(at_rows(schema.tail["time"], rows), 0)
    time_word = _TIME_WORD_OF.take(type_)
    time_ns = np.where(time_word > 0, words.take(start + time_word), time_ns)
    cpu = from_tail(at_rows(schema.tail["cpu"], rows), 0xFFFFFFFF)
    task = from_tail(at_rows(schema.tail["tid"], rows), (1 << 64) - 1)
    id_ = from_tail(schema.id_tail_word, 0)
    order = np.argsort(time_ns, kind="stable")
    return Records(
        words=words,
        start=start.take(order),
        name_number=name_number.take(order),
        names=names,
        type=type_.take(order),
        misc=misc.take(order),
        time_ns=time_ns.take(order),
        id=id_.take(order),
        cpu=cpu.astype(np.uint32).view(np.int32).take(order),
        task=task.take(order),
    )


def _is_data_mapping(words: U64, start: I64, type_: I64, misc: U16) -> Bools:
    """Return bool[n]: mappings without code, by `prot` if it is known, else by the misc bit.

    Read-only mappings stay: interpreters run Android's dex and vdex files from there, and
    simpleperf gives the code of its JIT the `prot` 0x4000. Writable memory is heaps and stacks, and
    words that point there are no frames. perf synthesizes MMAP2 records of the kernel and its
    modules with a `prot` of 0.

    Source: ``perf_event_mmap_event`` (``kernel/events/core.c``, 6.18),
    ``perf_event__synthesize_modules_maps_cb`` (``tools/perf/util/synthetic-events.c``, 6.18),
    ``system/extras/simpleperf/JITDebugReader.cpp`` of Android.
    """
    is_mmap2 = type_ == abi.PERF_RECORD_MMAP2
    is_mapping = is_mmap2 | (type_ == abi.PERF_RECORD_MMAP)
    mode = misc & abi.PERF_RECORD_MISC_CPUMODE_MASK
    is_kernel = np.isin(mode, (abi.PERF_RECORD_MISC_KERNEL, abi.PERF_RECORD_MISC_GUEST_KERNEL))
    prot = words.take(np.where(is_mmap2, start + _MMAP2_PROT_WORD, start))
    prot = prot & _PROT_MASK
    may_hold_frames = ((prot & abi.PROT_EXEC) != 0) | ((prot != 0) & ((prot & abi.PROT_WRITE) == 0))
    is_data = (misc & abi.PERF_RECORD_MISC_MMAP_DATA) != 0
    dropped: Bools = np.where(is_mmap2, ~is_kernel & ~may_hold_frames, is_mapping & is_data)
    return dropped


def _events_of_tails(words: U64, end: I64, schema: Schema) -> I64 | None:
    """Return the event of each record's tail, None if all have one layout."""
    if schema.is_uniform:
        return None
    if not schema.ids or not schema.id_tail_word:
        return np.zeros(len(end), np.int64)
    rows, _ = schema.ids.events_of(words.take(end + schema.id_tail_word, mode="clip"))
    # A word that is no id means no tail, or one that perf wrote for the first event.
    return np.maximum(rows, 0)


def _has_tail(words: U64, start: I64, end: I64, type_: I64, tail_words: PerEvent) -> Bools:
    """Return bool[n]: records with a tail, not a name up to their end."""
    room = end - start - _BODY_WORDS_OF.take(type_) - tail_words
    last_of_name = words.take(end - tail_words - 1, mode="clip")
    name_ends = (room >= 1) & ((last_of_name >> np.uint64(56)) == 0)
    is_named = _IS_NAMED.take(type_)
    has_tail: Bools = np.where(is_named, name_ends, room >= 0)
    return has_tail


_LOSSES = (
    abi.PERF_RECORD_LOST,
    abi.PERF_RECORD_LOST_SAMPLES,
    abi.PERF_RECORD_THROTTLE,
    abi.PERF_RECORD_UNTHROTTLE,
)
_BUILD_ID_WORD = 5
# The minor number is the high half of that word, and has 20 bits (``include/linux/kdev_t.h``).
_MINOR_END_BIT = np.uint64(32 + 20)
_INODE_BITS = np.uint64(48)
_MASK_LOW = np.uint64((1 << 32) - 1)
# PERF_RECORD_MISC_LOST_SAMPLES_BPF: perf's own filter dropped them, as it was asked to.
_FILTERED_OUT = np.uint16(1 << 15)
_MASK_BYTE = np.uint64(0xFF)


class SideTables(NamedTuple):
    """The tables of a recording's side records."""

    mmaps: Mmaps
    tasks: Tasks
    losses: Losses
    kernel_symbols: KernelSymbols
    switches: Switches | None
    control_groups: dict[int, bytes]
    names: list[bytes]
    build_ids: list[bytes]


def side_tables(records: Records, asks_for_build_ids: Bools) -> SideTables:
    """Decode the side records of a recording.

    `asks_for_build_ids` bool[n] tells whether the event of each record has ``attr.build_id``.
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


def _names(records: Records) -> tuple[I32, list[bytes]]:
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


def _build_ids(records: Records, has_build_id: Bools) -> tuple[I32, list[bytes]]:
    """Return the row of each record's build id (-1 without) and the build ids."""
    rows = has_build_id.nonzero()[0]
    rows = rows[(records.word(rows, _BUILD_ID_WORD) & _MASK_BYTE) != 0]
    begin = records.start.take(rows) + _BUILD_ID_WORD
    build_id = np.full(len(records.type), -1, np.int32)
    distinct, row = _distinct_bytes(records.words, begin, begin + 3)
    numbers: dict[bytes, int] = {}
    # build_id_size u8, 3 reserved bytes, build_id u8[20]
    texts = (raw[4 : 4 + min(raw[0], 20)] for raw in distinct)
    number = [numbers.setdefault(text, len(numbers)) for text in texts]
    build_id[rows] = [number[one] for one in row]
    return build_id, list(numbers)


def _has_build_id(records: Records, asks: Bools) -> Bools:
    """Return which records are MMAP2 with a build id instead of device and inode.

    The misc bit is not enough. The kernel sets it in a header that all events share, and does not
    clear it for the next event: one with ``attr.build_id`` 0 gets the bit with its device and inode
    if another recorder requests build ids. The attr is not enough either: ``perf inject`` writes
    build ids into records of events without it. So for events without it the content decides.

    Source: ``perf_event_mmap_output`` (``kernel/events/core.c``, 6.18).
    """
    is_marked = (records.misc & abi.PERF_RECORD_MISC_MMAP_BUILD_ID) != 0
    has: Bools = is_marked & (records.type == abi.PERF_RECORD_MMAP2)
    doubtful = (has & ~asks).nonzero()[0]
    has[doubtful] = _reads_as_build_id(records, doubtful)
    return has


def _reads_as_build_id(records: Records, rows: I64) -> Bools:
    """Return which of these MMAP2 records have a build id that cannot be device and inode.

    A build id follows its size, 1 to 20, as a 32-bit number, and is padded with zeros. The kernel's
    device numbers have 20 bits of minor, and no file system with a major number has inodes of
    2**48.
    """
    words = [records.word(rows, _BUILD_ID_WORD + word) for word in range(3)]
    raw = np.stack(words, axis=1).astype("<u8").view(np.uint8).reshape(len(rows), 24)
    size = (words[0] & _MASK_LOW).view(np.int64)
    is_padding = np.arange(20) >= size[:, np.newaxis]
    is_sized = (size >= 1) & (size <= 20) & ~(raw[:, 4:].astype(np.bool_) & is_padding).any(axis=1)
    is_device = (words[0] >> _MINOR_END_BIT == 0) & (words[1] >> _INODE_BITS == 0)
    found: Bools = is_sized & ~is_device
    return found


def _mmaps(records: Records, name: I32, build_id: I32, has_build_id: Bools) -> Mmaps:
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


def _tasks(records: Records, name: I32) -> Tasks:
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
    """Return losses, each once.

    perf record (from 6.1 on) appends how many samples each event lost, as LOST_SAMPLES without a
    time. LOST records of the kernel count the same, and records of other events of their buffer.

    Source: record__read_lost_samples() in ``tools/perf/builtin-record.c``, Linux 6.18.
    """
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
    time_ns, is_filtered = records.time_ns.take(rows), records.misc.take(rows) & _FILTERED_OUT > 0
    count[is_lost_samples & is_filtered] = 0
    if (is_lost_samples & ~is_filtered & (time_ns == 0)).any():
        count[is_lost] = 0
    return Losses(
        time_ns=time_ns,
        kind=type_.astype(np.uint8),
        count=count,
        id=id_,
        cpu=records.cpu.take(rows),
    )


def _kernel_symbols(records: Records, name: I32) -> KernelSymbols:
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
        time_ns=records.time_ns.take(rows),
        task=records.task.take(rows),
        cpu=records.cpu.take(rows),
        is_out=is_out,
        is_preempted=is_out & ((misc & abi.PERF_RECORD_MISC_SWITCH_OUT_PREEMPT) != 0),
    )


def _control_groups(records: Records, name: I32, names: list[bytes]) -> dict[int, bytes]:
    """Return the paths of control groups by id; the last one of a reused id."""
    rows = records.of(abi.PERF_RECORD_CGROUP)
    ids = records.word(rows, 1).tolist()
    return {id_: names[row] for id_, row in zip(ids, name.take(rows).tolist(), strict=True)}
