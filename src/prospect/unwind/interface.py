"""Input and output of unwinding.

The caller gives the user registers of each sample, a copy of its stack, and a `CodeFinder` for the
images at addresses and their call-frame rows. It gets a forest of the places of frames, and the
reason why each stack ends. This room opens no file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from prospect.records import NamedTuple, Record, field

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prospect.columns.array_types import I32, I64, U8, U64, Bools, Ints
    from prospect.columns.forests import Forest
    from prospect.elf.frame_rows import FrameRows

END_COMPLETE = 0  # the outermost function: its return address is undefined, or 0
END_CUT = 1  # the next frame is beyond the copy of the stack
END_NO_MAP = 2  # no code is mapped at the return address
END_NO_ROW = 3  # code without call-frame information, and without a valid frame pointer
END_BAD = 4  # the next frame is invalid: it is below this one, or is not aligned
END_DEEP = 5  # more frames than the caller asked for
END_REGISTER = 6  # the frame needs a register whose value in a caller is unknown
END_SWITCHED = 7  # the caller is on another stack, of which there is no copy
END_NAMES = (
    *("complete", "cut", "no mapping", "no row", "bad frame", "too deep", "other register"),
    "other stack",
)

MODE_CFI = 0
MODE_FRAME_POINTER = 1

# Register numbers of the DWARF ABI in the order of the kernel's `perf_regs.h`; -1 for registers
# without one, and for those that are not used here.
DWARF_OF_PERF_X86_64: tuple[int, ...] = (*(0, 3, 2, 1, 4, 5, 6, 7, 16), *(-1,) * 7, *range(8, 16))
DWARF_OF_PERF_ARM64: tuple[int, ...] = (*range(32), -1)  # x0 … x30, sp, and pc


class UnwindInput(Record, eq=False):
    """The samples to unwind, all of one machine.

    Attributes:
        machine: EM_X86_64 or EM_AARCH64.
        context: i32[n] the address space of each sample at its time: any numbers from 0 on that
            `CodeFinder.locate` knows.
        pc, sp, fp: u64[n]; `fp` is rbp, or x29.
        stack_block: i32[n] row of `blocks`, -1 for a sample without a copy.
        stack_begin: i64[n] the offset of its copy in the block, in bytes.
        stack_bytes: i64[n] the size of its copy, which begins at sp.
        blocks: of bytes or of words.
        registers: DWARF number → u64[n] the other recorded registers. arm64 needs 30, the link
            register.
        is_own: bool[n] whether the innermost frame is the sample's own and called nothing; None if
            it is for no sample.
    """

    machine: int
    context: I32
    pc: U64
    sp: U64
    fp: U64
    stack_block: I32
    stack_begin: I64
    stack_bytes: I64
    blocks: Sequence[U8 | U64]
    registers: Mapping[int, U64] = field(default_factory=dict)
    is_own: Bools | None = None

    def __len__(self) -> int:
        return len(self.pc)


class CodeFinder(Protocol):
    """Finds the code at addresses, and the layout of its frames."""

    def locate(self, context: I32, address: U64) -> tuple[I32, U64, Bools]:
        """Find the images at addresses (AVMA); contexts are as in the input.

        Returns:
            i32[n] object, for `rows_of`; -1 for code of no object (JIT, a file that is gone).
            u64[n] the address in the image (SVMA); undefined for object -1.
            bool[n] whether anything executable is mapped there.
        """

    def rows_of(self, object_row: int) -> FrameRows | None:
        """Return the call-frame rows of an object, None if it has none. Called once for each."""


class SiteTable(Record, eq=False):
    """Places of frames: each at least once, in no order.

    Attributes:
        context: i32[s] as in the input.
        address: u64[s] AVMA: a return address less one, or the pc of an innermost frame or of an
            interrupted one.
        object, svma: i32[s], u64[s] as `CodeFinder.locate` returns them.
        rule: i64[s] the way from its frame to the caller, as `elf.frame_rules` packs it.
        is_interrupted: bool[s] whether a signal interrupted a frame here that is not the innermost.
    """

    context: I32
    address: U64
    object: I32
    svma: U64
    rule: I64
    is_interrupted: Bools

    def __len__(self) -> int:
        return len(self.address)


class Unwound(Record, eq=False):
    """The call chains.

    Attributes:
        stacks: rows of `sites`, each after its caller's. Some ten thousand stacks at a time share
            their common callers. Some rows may be of no sample.
        innermost: i32[n] row of `stacks` of each sample's innermost frame, -1 without frames.
        outermost: i32[n] row of `sites` of its outermost frame; undefined without frames.
        end: u8[n] END_*.
        needed_bytes: i64[n] if the copy was cut, the size that it would need for the next frame;
            else 0.
        last_fp: u64[n] the frame register in its outermost frame.
    """

    stacks: Forest
    innermost: I32
    outermost: I32
    sites: SiteTable
    end: U8
    needed_bytes: I64
    last_fp: U64

    def __len__(self) -> int:
        return len(self.end)

    def frames(self) -> I64:
        """Return how many frames each sample has, i64[n]."""
        return np.append(self.stacks.depth, -1).take(self.innermost) + np.int64(1)

    def chains(self, rows: I64 | None = None) -> UnwoundChains:
        """Return the frames of some samples, i64[r], or of all."""
        innermost = self.innermost if rows is None else self.innermost.take(rows)
        start, frame = self.stacks.lists(innermost)
        site = self.stacks.value.take(frame)
        is_return = ~self.sites.is_interrupted.take(site)
        is_return[start[:-1][innermost >= 0]] = False
        return UnwoundChains(start, site, self.sites.address.take(site) + is_return)


class UnwoundChains(NamedTuple):
    """Frames of samples, concatenated, the innermost of each first.

    Attributes:
        start: i64[r + 1] where each sample's frames begin.
        site: i32[m] rows of `Unwound.sites`.
        address: u64[m] AVMA: the pc of the innermost frame and of one that a signal interrupted,
            the return address of the others.
    """

    start: I64
    site: Ints
    address: U64
