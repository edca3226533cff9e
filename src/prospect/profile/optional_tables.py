"""The tables of a profile that are made on request.

They hold source lines and instructions, the memory maps of processes, and the calls of functions
that the recorder counted (--count-calls). If counting every call would have cost too much, there
are gaps between windows; `estimate.call_figures` estimates the calls in the gaps. Tables are
records of columns, as in `model`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.grouping import exact_sums
from prospect.records import Record, field

if TYPE_CHECKING:
    from prospect.columns.array_types import F64, I8, I32, I64, U8, U32, U64, Bools, Ints

NO_TARGET = 2**64 - 1

# Effects of an instruction on the flow of control.
FLOW_NEXT = 0
FLOW_CALL = 1
FLOW_JUMP = 2
FLOW_BRANCH = 3  # jumps on a condition
FLOW_RETURN = 4
FLOW_STOP = 5  # nothing follows: ud2, hlt, an indirect jump's table
FLOW_UNKNOWN = 6  # bytes that are no instruction

FLOW_NAMES = ("next", "call", "jump", "branch", "return", "stop", "unknown")


class LineTable(Record):
    """Places of instructions in the source, through the functions that were inlined there.

    A row has the frames from `frame_start[row]` to `frame_start[row + 1]`. The first is the
    function that holds the instruction, with the line of its call of the next. The last is the
    innermost inlined function, with the line of the instruction itself. A row without frames has no
    known line.

    Attributes:
        name_index: i32[k] into `names`, -1 if unknown.
        file_index: i32[k] into `files`, -1 if unknown.
        line: u32[k], 0 if unknown.
        names: functions, demangled.
        files: paths as the compiler recorded them.
        notes: by object row, why lines of that object are missing or incomplete.
        symbols: the linkage name of each of `names`; none if unknown.
        built_ns: by object row, when its image was modified, since the epoch.
        named_by: by path in `files`, the users whose files name it; it is opened with their rights.
    """

    frame_start: I64
    name_index: I32
    file_index: I32
    line: U32
    names: list[str]
    files: list[str]
    notes: dict[int, str] = field(default_factory=dict)
    built_ns: dict[int, int] = field(default_factory=dict)
    symbols: list[str] = field(default_factory=list)
    named_by: dict[str, set[int]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.frame_start) - 1


def innermost(lines: LineTable, row: Ints) -> tuple[I32, U32]:
    """Return the source lines of instructions themselves.

    Rows beyond the table, as of a completed profile, have no line.

    Returns:
        i32[n] rows of `lines.files`, -1 if unknown, and u32[n] lines, 0 if unknown.
    """
    frame = _innermost_frame(lines, row)
    return np.append(lines.file_index, np.int32(-1)).take(frame), np.append(
        lines.line, np.uint32(0)
    ).take(frame)


def innermost_name(lines: LineTable, row: Ints) -> I32:
    """Return the innermost function of each row of `innermost`, i32[n] of `lines.names`, or -1."""
    return np.append(lines.name_index, np.int32(-1)).take(_innermost_frame(lines, row))


def _innermost_frame(lines: LineTable, row: Ints) -> I64:
    """Return i64[n] the last frame of each row; the number of all frames if it has none."""
    inside = np.clip(row, 0, max(len(lines) - 1, 0))
    end = np.append(lines.frame_start, 0).take(inside + 1)
    known = (row >= 0) & (row < len(lines)) & (end > lines.frame_start.take(inside))
    return np.where(known, end - 1, len(lines.line))


def function_chains(lines: LineTable) -> I64:
    """Number the chains of inlined functions that contain instructions, by their names.

    Returns:
        i64[r] the number of each row's chain; -1 if it has no frames.
    """
    depth = np.diff(lines.frame_start)
    chain = np.full(len(lines), -1, np.int64)
    met = 0
    for level in range(int(depth.max(initial=0))):
        deep = np.flatnonzero(depth > level)
        name = lines.name_index.take(lines.frame_start.take(deep) + level).astype(np.int64)
        key = (chain.take(deep) + 1) * (len(lines.names) + 1) + name + 1
        distinct, place = np.unique(key, return_inverse=True)
        chain[deep] = place + met
        met += len(distinct)
    return chain


class SourceFile(Record):
    """A source file that was found on this machine.

    Attributes:
        lines: its text, without line ends; undecodable bytes as `os.fsdecode` returns them.
        modified_ns: since the epoch.
        is_public: whether every user may read it.
    """

    path: str
    lines: list[str]
    modified_ns: int
    device: int
    inode: int
    is_public: bool


class CodeTable(Record):
    """The instructions of chosen functions; those of `function_index[c]` start at `start[c]`.

    Attributes:
        function_index: i32[c] rows of the profile's functions.
        start: i64[c + 1] first instruction of each function.
        reason: by function, why it has no instructions; "" if it has some.
        address: u64[n] ascending within a function; SVMA for images, AVMA for the kernel.
        text: mnemonic and operands.
        flow: u8[n] FLOW_*.
        target: u64[n] of a direct call or jump, else `NO_TARGET`.
        target_name: function and offset there, as in ``memcpy+16``; "" if unknown.
        lines: of the instructions, one row each; None if not requested.
        source: text of source lines by (row of `lines.files`, line number), if readable.
    """

    function_index: I32
    start: I64
    reason: list[str]
    address: U64
    size_bytes: U8
    text: list[str]
    flow: U8
    target: U64
    target_name: list[str]
    lines: LineTable | None = None
    source: dict[tuple[int, int], str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.function_index)


# PROT_* bits, <asm-generic/mman-common.h>
READ, WRITE, EXECUTE = 1, 2, 4
_ALL_BITS = READ | WRITE | EXECUTE
_PERMISSIONS = [
    "".join(
        letter if prot & bit else "-" for letter, bit in (("r", READ), ("w", WRITE), ("x", EXECUTE))
    )
    for prot in range(_ALL_BITS + 1)
]


class MemoryMap(Record):
    """Mappings of one process.

    Attributes:
        start, end: u64[m] first address (AVMA) and the one after the last.
        pgoff: u64[m] file offset of `start`, in bytes.
        prot: i8[m] PROT_* bits, -1 if unknown.
        hits: i64[m] of all events.
        path: of the mapped object, one a row.
        read_ns: when the mappings of data were read, on the recording's clock; None if only
            executable ones are known.
    """

    start: U64
    end: U64
    pgoff: U64
    prot: I8
    hits: I64
    path: list[str]
    read_ns: int | None = None

    def __len__(self) -> int:
        return len(self.path)

    @property
    def size_bytes(self) -> U64:
        """u64[m]."""
        return self.end - self.start

    @property
    def is_data(self) -> Bools:
        """bool[m]: whether code certainly cannot run there."""
        found: Bools = (self.prot >= 0) & (self.prot & EXECUTE == 0)
        return found

    @property
    def permissions(self) -> list[str]:
        """The permissions, as in /proc/PID/maps, "" if unknown."""
        return [_PERMISSIONS[prot & _ALL_BITS] if prot >= 0 else "" for prot in self.prot.tolist()]

    @property
    def mapped_bytes(self) -> int:
        """The size of all mappings together, overlaps once; rows are in the order of `start`."""
        if not len(self):
            return 0
        covered = np.maximum.accumulate(self.end)
        begin = np.maximum(self.start[1:], covered[:-1])
        more = np.where(self.end[1:] > begin, self.end[1:] - begin, np.uint64(0))
        return int(self.end[0] - self.start[0]) + int(more.sum())

    @staticmethod
    def empty() -> MemoryMap:
        """Return a map without a row."""
        none = np.empty(0, np.uint64)
        return MemoryMap(none, none, none, np.empty(0, np.int8), np.empty(0, np.int64), [])


class CountedFunctions(Record):
    """The functions that were to be counted, including those that were never called.

    Attributes:
        name: demangled.
        object_path: of their images.
        function_index: i32[f] into the profile's functions; -1 for one without a hit.
        probe_ns: f64[f] cost of a probe of such a function, as measured before the run.
        probe_spread_ns: f64[f] uncertainty of that.
        left_out: why it was not counted, or not to the end; "" if it was.
    """

    name: list[str]
    object_path: list[str]
    function_index: I32
    probe_ns: F64
    probe_spread_ns: F64
    left_out: list[str]

    def __len__(self) -> int:
        return len(self.name)


class CallWindows(Record):
    """The windows in which calls were counted.

    Attributes:
        own_s: f64[w] CPU time of the command and its descendants in a window, without the time of
            probes; 0 if unknown.
        gap_s: f64[w] the same from its end to the next window, or to the end of the run.
        window_index: i32[n] into the windows.
        counted_index: i32[n] into the counted functions.
        process_index: i32[n] into processes.
    """

    own_s: F64
    gap_s: F64
    window_index: I32
    counted_index: I32
    process_index: I32
    calls: I64

    def __len__(self) -> int:
        return len(self.own_s)


class CallCounts(Record):
    """The counted calls: a row a function, process and caller.

    Attributes:
        counted_index: i32[c] into `functions`.
        process_index: i32[c] into processes, -1 if unknown.
        caller_index: i32[c] into the profile's functions: the function that the call returned to.
        windows: None if every call of the run was counted.
        dropped: calls that are in no row, because the kernel had no room for them.
        budget: the share of the command's CPU time that counting was allowed to take.
        cost_s: CPU time of counting, from the cost of a probe.
        cost_share: the same as a part of the command's CPU time; 0.0 if unknown.
        hook: the name of an entry hook that ran there, and its result; empty without.
    """

    functions: CountedFunctions
    counted_index: I32
    process_index: I32
    caller_index: I32
    calls: I64
    windows: CallWindows | None
    dropped: int
    budget: float
    cost_s: float
    cost_share: float
    hook: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.calls)


def calls_by_function(counts: CallCounts, chosen: Bools) -> I64:
    """Return i64[f]: counted calls of each function, in the chosen processes (bool[p])."""
    is_chosen = in_processes(counts.process_index, chosen)
    return exact_sums(counts.counted_index, counts.calls * is_chosen, len(counts.functions))


def callers_of(counts: CallCounts, function: int, chosen: Bools) -> tuple[I64, I64]:
    """Return the callers of a function in the chosen processes, most calls first.

    Returns:
        i64[k] rows of the profile's functions, and i64[k] their calls.
    """
    rows = np.flatnonzero(
        (counts.counted_index == function) & in_processes(counts.process_index, chosen)
    )
    caller, place = np.unique(counts.caller_index.take(rows), return_inverse=True)
    calls = exact_sums(place, counts.calls.take(rows), len(caller))
    order = np.argsort(-calls, kind="stable")
    return caller.astype(np.int64).take(order), calls.take(order)


def in_processes(process_index: I32, chosen: Bools) -> Bools:
    """Return bool[n]: rows whose process is chosen; unknown processes only if all are chosen."""
    return np.append(chosen, chosen.all()).take(process_index)
