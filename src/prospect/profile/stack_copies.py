"""What became of the copies of user stacks: a row for each that was to be unwound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.records import Record

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

END_WHOLE = "complete"
END_CUT = "cut"
NO_COPY = -1
# What the kernel copies of a stack at most: a record's size is a u16.
MOST_COPY_BYTES = 65520


class StackCopies(Record):
    """Samples with registers of user space, and how far their stacks were unwound from a copy.

    Kernel threads have no such stack.

    Attributes:
        copy_bytes: how much of a stack was asked for at most.
        ends: reasons why unwinding stopped: END_WHOLE at the outermost function, END_CUT where the
            next frame lies behind the copy, and others.
        paths: of the objects in which stacks ended, "" for code without an image.
        pid: u32[n] process.
        end: i8[n] row of `ends`; NO_COPY where the stack could not be read.
        frames: i32[n] frames that the copy holds.
        needed_bytes: i64[n] of a cut stack, how large a copy would have held it whole; 0 of others.
        is_least: bool[n] whether even more may be needed, as its thread was never seen whole.
        place: i32[n] row of `paths`, -1 for a stack that is whole or has no frame.
        is_continued: bool[n] whether frame pointers, recorded beside, took it further.
        only_of_waits: whether no other event's stacks were copied, as with ``--off-cpu`` alone.
    """

    copy_bytes: int
    ends: tuple[str, ...]
    paths: tuple[str, ...]
    pid: NDArray[np.uint32]
    end: NDArray[np.int8]
    frames: NDArray[np.int32]
    needed_bytes: NDArray[np.int64]
    is_least: NDArray[np.bool_]
    place: NDArray[np.int32]
    is_continued: NDArray[np.bool_]
    only_of_waits: bool = False

    def __len__(self) -> int:
        return len(self.pid)
