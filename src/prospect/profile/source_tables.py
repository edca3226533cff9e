"""The tables of a profile that lead to source and instructions; made only where they are asked for.

Tables are records of columns, as in `model`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.records import Record, field

if TYPE_CHECKING:
    from numpy.typing import NDArray

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

    A row has the frames from `frame_start[row]` to `frame_start[row + 1]`: first the function that
    holds the instruction, with the line of its call of the next; last the innermost inlined one,
    with the line of the instruction itself. A row without frames has no known line.

    Attributes:
        name_index: i32[k] into `names`, -1 if unknown.
        file_index: i32[k] into `files`, -1 if unknown.
        line: u32[k], 0 if unknown.
        names: functions, demangled.
        files: paths as the compiler recorded them.
        notes: by object row, why lines of that object are missing or not whole.
        symbols: of each of `names`, as its linkage has it; none if that is not known.
        built_ns: by object row, when its image was changed last, since the epoch.
        named_by: by path in `files`, the users whose word it is, with whose rights it is read.
    """

    frame_start: NDArray[np.int64]
    name_index: NDArray[np.int32]
    file_index: NDArray[np.int32]
    line: NDArray[np.uint32]
    names: list[str]
    files: list[str]
    notes: dict[int, str] = field(default_factory=dict)
    built_ns: dict[int, int] = field(default_factory=dict)
    symbols: list[str] = field(default_factory=list)
    named_by: dict[str, set[int]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.frame_start) - 1


def innermost(
    lines: LineTable, row: NDArray[np.integer]
) -> tuple[NDArray[np.int32], NDArray[np.uint32]]:
    """Return the source lines of instructions themselves.

    Rows that the table has not, as of a completed profile, have no line.

    Returns:
        i32[n] rows of `lines.files`, -1 if unknown, and u32[n] lines, 0 if unknown.
    """
    frame = _innermost_frame(lines, row)
    return np.append(lines.file_index, np.int32(-1)).take(frame), np.append(
        lines.line, np.uint32(0)
    ).take(frame)


def innermost_name(lines: LineTable, row: NDArray[np.integer]) -> NDArray[np.int32]:
    """Return i32[n] the functions that instructions were written in: rows of `lines.names`, or -1.

    Rows as in `innermost`.
    """
    return np.append(lines.name_index, np.int32(-1)).take(_innermost_frame(lines, row))


def _innermost_frame(lines: LineTable, row: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return i64[n] the last frame of each row; the number of all frames where it has none."""
    inside = np.clip(row, 0, max(len(lines) - 1, 0))
    end = np.append(lines.frame_start, 0).take(inside + 1)
    known = (row >= 0) & (row < len(lines)) & (end > lines.frame_start.take(inside))
    return np.where(known, end - 1, len(lines.line))


def function_chains(lines: LineTable) -> NDArray[np.int64]:
    """Number the ways through inlined functions that lead to instructions, by their names.

    Returns:
        i64[r] for each row the number of its way; -1 if it has no frames.
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
    """A source file that was found here.

    Attributes:
        path: where.
        lines: its text, without line ends; undecodable bytes as `os.fsdecode` has them.
        modified_ns: since the epoch.
        device, inode: which file it is.
        is_public: whether every user may read it.
    """

    path: str
    lines: list[str]
    modified_ns: int
    device: int
    inode: int
    is_public: bool


class CodeTable(Record):
    """The instructions of chosen functions; those of `function_index[c]` from `start[c]` on.

    Attributes:
        function_index: i32[c] rows of the profile's functions.
        start: i64[c + 1] first instruction of each function.
        reason: list[str] by function: why it has no instructions; "" where it has some.
        address: u64[n] rising within a function; SVMA for images, AVMA for the kernel.
        text: list[str] mnemonic and operands.
        flow: u8[n] FLOW_*.
        target: u64[n] where a direct call or jump leads, else `NO_TARGET`.
        target_name: list[str] function and offset there, as in ``memcpy+16``; "" where unknown.
        lines: of the instructions, one row each; None if they were not asked for.
        source: text of source lines by (row of `lines.files`, line number), as far as readable.
    """

    function_index: NDArray[np.int32]
    start: NDArray[np.int64]
    reason: list[str]
    address: NDArray[np.uint64]
    size_bytes: NDArray[np.uint8]
    text: list[str]
    flow: NDArray[np.uint8]
    target: NDArray[np.uint64]
    target_name: list[str]
    lines: LineTable | None = None
    source: dict[tuple[int, int], str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.function_index)
