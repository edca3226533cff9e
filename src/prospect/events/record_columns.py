"""The columns of records: one class for each kind of record.

Field names are the kernel's (``include/uapi/linux/perf_event.h``); strings are rows of
`Events.names`. Sample columns are in the order of the recording. Every table of side records is
in time order, and records of equal time are in the order of the recording. Its `order` column is
the row's place among the side records of all tables, by which tables can be merged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.columns.buffers import gather, segments
from prospect.columns.sorting import distinct
from prospect.records import Record, field, replace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.columns.array_types import I32, I64, U8, U16, U32, U64, Bools
    from prospect.events.runtime_records import RuntimeRecords


class RecordedRegisters(Record, eq=False):
    """Registers of states, in the order of `UserStates.register_numbers`.

    Attributes:
        blocks: of words, or of their bytes; they live as long as this does.
        block: row of `blocks`.
        at: the word of the first register of each state.
    """

    blocks: tuple[U8, ...]
    block: I32
    at: I64

    def __getitem__(self, rows: I64) -> RecordedRegisters:
        """Return the registers of some states, i64[n], like a table of registers."""
        return RecordedRegisters(self.blocks, self.block.take(rows), self.at.take(rows))

    def column(self, column: int) -> U64:
        """Return one register of all states, u64[k]."""
        found = np.empty(len(self.at), np.uint64)
        for row in distinct(self.block).tolist():
            words = self.blocks[row].view(np.uint64)
            of_block = np.flatnonzero(self.block == row)
            found[of_block] = words.take(self.at.take(of_block) + column, mode="clip")
        return found


TASK_FORK = 0
TASK_EXIT = 1
TASK_COMM = 2
TASK_EXEC = 3


class UserStates(Record):
    """The user-space part of samples: registers and the top of the stack.

    Only samples with registers have a row; kernel threads have none. A sample in the kernel has the
    registers with which its task left user space.

    Attributes:
        sample: i64[k] row of `Samples`, ascending.
        abi: u8[k] PERF_SAMPLE_REGS_ABI_32 or _64.
        registers: by `register_numbers`: u64[k, r], 0 for those that the sample's event does not
            record, or their places.
        stack_block: i32[k] row of `blocks`, -1 for samples of events that copy no stacks.
        stack_begin: i64[k] byte of the block where the copy begins, at the stack pointer.
        stack_bytes: i32[k] size of the copy; 0 if the stack could not be read.
        register_numbers: the kernel's numbers of the registers, ascending
            (``include/uapi/asm/perf_regs.h`` of ``arch/x86`` and ``arch/arm64``).
        blocks: u8[] the buffers of the records with the copies.
    """

    sample: I64
    abi: U8
    registers: U64 | RecordedRegisters
    stack_block: I32
    stack_begin: I64
    stack_bytes: I32
    register_numbers: tuple[int, ...]
    blocks: tuple[U8, ...]

    def __len__(self) -> int:
        return len(self.sample)

    def chosen(self, rows: I64) -> UserStates:
        """Return some of the states, by row, ascending."""
        return replace(
            self,
            sample=self.sample.take(rows),
            abi=self.abi.take(rows),
            registers=self.registers[rows],
            stack_block=self.stack_block.take(rows),
            stack_begin=self.stack_begin.take(rows),
            stack_bytes=self.stack_bytes.take(rows),
        )

    def register(self, number: int, rows: I64 | None = None) -> U64 | None:
        """Return a register of all states, or of some, by the kernel's number; None without."""
        if number not in self.register_numbers:
            return None
        column, registers = self.register_numbers.index(number), self.registers
        if isinstance(registers, np.ndarray):
            values = registers[:, column]
            return values if rows is None else values.take(rows)
        return (registers if rows is None else registers[rows]).column(column)


class CallBranches(Record):
    """Calls that had not returned at samples, from the CPU's branch stack.

    Attributes:
        sample: i64[k] row of `Samples`, ascending.
        start: i64[k + 1] into `source` and `target`, the innermost call first.
        source: u64[m] address of the call instruction.
        target: u64[m] address of the called function.
    """

    sample: I64
    start: I64
    source: U64
    target: U64

    def __len__(self) -> int:
        return len(self.sample)


class RawFields(Record):
    """Fields of tracepoints' records, for the samples whose events have wanted fields.

    Attributes:
        sample: i64[k] row of `Samples`, ascending.
        values: columns [k] by the event's `fields`, 0 if it has fewer; each has the smallest
            type from i16 on that holds its values.
    """

    sample: I64
    values: tuple[NDArray[np.signedinteger[Any]], ...]

    def __len__(self) -> int:
        return len(self.sample)

    def chosen(self, rows: I64, sample: I64) -> RawFields:
        """Return some of the rows, as those of other samples."""
        return RawFields(sample, tuple(column.take(rows) for column in self.values))


class RawData(Record):
    """Raw data of samples whose events' PMU has its own layout (AMD's IBS, …).

    Attributes:
        sample: i64[k] row of `Samples`, ascending.
        start: i64[k + 1] into `words`.
        words: u64[m] for each sample u32 size, then as many bytes, up to a whole word.
    """

    sample: I64
    start: I64
    words: U64

    def __len__(self) -> int:
        return len(self.sample)

    def chosen(self, rows: I64) -> RawData | None:
        """Return some of the rows, None for none."""
        if not len(rows):
            return None
        begin, length = self.start.take(rows), np.diff(self.start).take(rows)
        words = self.words.take(segments(begin, length))
        return RawData(self.sample.take(rows), np.append(0, np.cumsum(length)), words)

    def sizes(self, rows: I64) -> I64:
        """Return the sizes in bytes that some of the rows have."""
        return (self.words.take(self.start.take(rows)) & np.uint64(0xFFFF_FFFF)).astype(np.int64)

    def shifted_words(self) -> U64:
        """Return the words that begin 4 bytes after each recorded word."""
        halves = self.words.view("<u4")
        return np.append(halves[1:], np.uint32(0)).view("<u8")


class Samples(Record):
    """PERF_RECORD_SAMPLE.

    Attributes:
        ip: u64[n] address of the instruction (AVMA).
        task: u64[n] pid in the low 32 bits, tid in the high 32, as the kernel writes them.
        time_ns: u64[n].
        mode: u8[n] PERF_RECORD_MISC_CPUMODE.
        cpu: u16[n], 0xffff if unknown.
        period: u64[n]; a broadcast scalar if all are the same.
        event: u16[n] row of the recording's events; a broadcast zero if there is one.
        clock: u8[n] clock of the bank, by position of its id; a broadcast zero for one.
        chain_start: i64[n + 1] into `chain`, None if no sample has a chain.
        chain: u64[m] call-chain words with context markers.
        user: registers and stack copies, None if no sample has any.
        calls: calls by the CPU's branch stack, None if it was not recorded.
        control_group: u64[n] id of the task's control group, 0 if its event has none; None if
            no event has.
        raw: fields of tracepoints' records, None if no sample has any.
        data: raw data of PMUs, None if no sample has any.
    """

    ip: U64
    task: U64
    time_ns: U64
    mode: U8
    cpu: U16
    period: U64
    event: U16
    clock: U8
    chain_start: I64 | None = None
    chain: U64 | None = None
    user: UserStates | None = None
    calls: CallBranches | None = None
    control_group: U64 | None = None
    raw: RawFields | None = None
    data: RawData | None = None

    def __len__(self) -> int:
        return len(self.ip)


class Mmaps(Record):
    """PERF_RECORD_MMAP and MMAP2, without mappings of data.

    `build_id` has rows of `Events.build_ids`, -1 if the record has none. `inode`, `major` and
    `minor` are 0 if the record has a build id instead.
    """

    order: I64
    time_ns: U64
    pid: I32
    tid: I32
    start: U64
    length: U64
    pgoff: U64
    name: I32
    build_id: I32
    major: U32
    minor: U32
    inode: U64
    prot: U32
    mode: U8


class Tasks(Record):
    """PERF_RECORD_FORK, EXIT and COMM; `kind` is one of TASK_*.

    `name` is -1 for FORK and EXIT; `parent_pid` and `parent_tid` are -1 for COMM.
    """

    order: I64
    time_ns: U64
    kind: U8
    pid: I32
    tid: I32
    parent_pid: I32
    parent_tid: I32
    name: I32


class Losses(Record):
    """Records that the kernel did not deliver: LOST, LOST_SAMPLES, THROTTLE, UNTHROTTLE.

    `kind` is the record's type; `count` is 0 for the throttle records; `cpu` -1 if unknown.
    """

    time_ns: U64
    kind: U8
    count: U64
    id: U64
    cpu: I32


class Switches(Record):
    """PERF_RECORD_SWITCH and SWITCH_CPU_WIDE: a task leaves its CPU, or gets one.

    Attributes:
        time_ns: 0 for the last switches before the recording's start.
        task: pid in the low 32 bits, tid in the high 32.
        cpu: -1 if unknown.
        is_out: it left the CPU.
        is_preempted: it left the CPU although it was runnable.
        is_followed: whether all switches of that task are recorded; None for those of every task.
    """

    time_ns: U64
    task: U64
    cpu: I32
    is_out: Bools
    is_preempted: Bools
    is_followed: Bools | None = None

    def __len__(self) -> int:
        return len(self.time_ns)


class KernelSymbols(Record):
    """PERF_RECORD_KSYMBOL: BPF programs and trampolines are loaded and unloaded."""

    order: I64
    time_ns: U64
    address: U64
    length: U64
    kind: U8
    unregister: Bools
    name: I32


class Events(Record):
    """The content of a recording's records.

    Attributes:
        switches: None if the recording has none.
        runtimes: frames of runtimes' functions at samples; None if the recording has none.
        control_groups: id → path.
        names: byte strings that the tables' `name` columns refer to.
        build_ids: byte strings that `Mmaps.build_id` refers to.
        counts: number of records by type.
        damage: sentences on damage, empty for a whole recording.
        unread_bytes: of records that were not understood, except one at the end of a cut recording.
    """

    samples: Samples
    mmaps: Mmaps
    tasks: Tasks
    losses: Losses
    kernel_symbols: KernelSymbols
    names: list[bytes]
    build_ids: list[bytes]
    counts: dict[int, int] = field(default_factory=dict)
    damage: tuple[str, ...] = ()
    unread_bytes: int = 0
    switches: Switches | None = None
    runtimes: RuntimeRecords | None = None
    control_groups: dict[int, bytes] = field(default_factory=dict)


def kept_samples(samples: Samples, is_kept: Bools) -> Samples:
    """Return the samples that are marked, bool[n], in the same order."""
    return samples if is_kept.all() else chosen_samples(samples, np.flatnonzero(is_kept))


def chosen_samples(samples: Samples, rows: I64) -> Samples:
    """Return the samples of these rows i64[m], ascending; a row may occur several times."""
    chain_start, chain = samples.chain_start, samples.chain
    if chain_start is not None and chain is not None:
        length = np.diff(chain_start).take(rows)
        chain = chain.take(segments(chain_start.take(rows), length))
        chain_start = np.append(0, np.cumsum(length))
    columns = replace(
        samples, chain_start=None, chain=None, user=None, calls=None, raw=None, data=None
    )
    user, raw = samples.user, samples.raw
    if user:
        sample, row = _of_samples(user.sample, rows)
        user = replace(user.chosen(row), sample=sample)
    if raw:
        sample, row = _of_samples(raw.sample, rows)
        raw = raw.chosen(row, sample)
    return replace(
        gather(columns, rows),
        chain_start=chain_start,
        chain=chain,
        user=user,
        calls=samples.calls and _chosen_calls(samples.calls, rows),
        raw=raw,
        data=samples.data and _chosen_data(samples.data, rows),
    )


def _chosen_calls(calls: CallBranches, rows: I64) -> CallBranches:
    sample, row = _of_samples(calls.sample, rows)
    length = np.diff(calls.start).take(row)
    place = segments(calls.start.take(row), length)
    return replace(
        calls,
        sample=sample,
        start=np.append(0, np.cumsum(length)),
        source=calls.source.take(place),
        target=calls.target.take(place),
    )


def _chosen_data(data: RawData, rows: I64) -> RawData:
    sample, row = _of_samples(data.sample, rows)
    length = np.diff(data.start).take(row)
    words = data.words.take(segments(data.start.take(row), length))
    return replace(data, sample=sample, start=np.append(0, np.cumsum(length)), words=words)


def _of_samples(sample: I64, rows: I64) -> tuple[I64, I64]:
    """Return the rows of a table that belong to some chosen samples.

    Args:
        sample: i64[k] the sample of each row of the table, ascending.
        rows: i64[m] the chosen samples.

    Returns:
        For each row of the new table, its sample among the chosen ones and its row in the old one.
    """
    place = np.minimum(np.searchsorted(sample, rows), max(len(sample) - 1, 0))
    found = np.flatnonzero(sample.take(place) == rows) if len(sample) else np.empty(0, np.int64)
    return found, place.take(found)
