"""Input and output of unwinding.

The caller gives the registers of user space of each sample and a copy of its stack, and says which
image is at an address and what its call-frame rows are: nothing is opened here. It gets a forest of
the places of frames, and why stacks end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from prospect.records import NamedTuple, Record, field

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from prospect.columns.forests import Forest
    from prospect.elf.frame_rows import FrameRows

END_COMPLETE = 0  # the outermost function: its return address is undefined, or 0
END_CUT = 1  # the next frame is beyond the copy of the stack
END_NO_MAP = 2  # no code is mapped at the return address
END_NO_ROW = 3  # code without call-frame information, and no frame pointer that would do
END_BAD = 4  # the next frame is invalid: it is below this one, or is not aligned
END_DEEP = 5  # as many frames as were asked for
END_REGISTER = 6  # the frame is found by a register that is not known in a caller
END_SWITCHED = 7  # the caller is on another stack, of which there is no copy
END_NAMES = (
    *("complete", "cut", "no mapping", "no row", "bad frame", "too deep", "other register"),
    "other stack",
)

MODE_CFI = 0
MODE_FRAME_POINTER = 1

# Register numbers of the DWARF ABI in the order of the kernel's `perf_regs.h`; -1 for those that
# have none or are of no use here.
DWARF_OF_PERF_X86_64: tuple[int, ...] = (
    *(0, 3, 2, 1, 4, 5, 6, 7, 16),
    *(-1,) * 7,
    *range(8, 16),
)
DWARF_OF_PERF_ARM64: tuple[int, ...] = (*range(32), -1)  # x0 … x30, sp, and pc


class UnwindInput(Record, eq=False):
    """The samples to unwind, all of one machine.

    Attributes:
        machine: EM_X86_64 or EM_AARCH64.
        context: i32[n] the address space of each sample, in the state that it met it in: any
            numbers from 0 on that `CodeFinder.locate` knows.
        pc, sp, fp: u64[n]; `fp` is rbp, or x29.
        stack_block: i32[n] row of `blocks`, -1 for a sample without a copy.
        stack_begin: i64[n] where in the block its copy begins, in bytes.
        stack_bytes: i64[n] how much of the stack is there; its first byte is the one at sp.
        blocks: of bytes or of words; copies are read where they lie.
        registers: DWARF number → u64[n] the other registers, as far as they were recorded. arm64
            needs 30, the link register.
        is_own: bool[n] whether the innermost frame is the sample's own and called nothing; where
            it is not told, none is.
    """

    machine: int
    context: NDArray[np.int32]
    pc: NDArray[np.uint64]
    sp: NDArray[np.uint64]
    fp: NDArray[np.uint64]
    stack_block: NDArray[np.int32]
    stack_begin: NDArray[np.int64]
    stack_bytes: NDArray[np.int64]
    blocks: Sequence[NDArray[np.uint8] | NDArray[np.uint64]]
    registers: Mapping[int, NDArray[np.uint64]] = field(default_factory=dict)
    is_own: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.pc)


class CodeFinder(Protocol):
    """Which code is where, and how its frames are laid out."""

    def locate(
        self, context: NDArray[np.int32], address: NDArray[np.uint64]
    ) -> tuple[NDArray[np.int32], NDArray[np.uint64], NDArray[np.bool_]]:
        """Find the images at addresses.

        Args:
            context: i32[n] as in the input.
            address: u64[n] AVMA.

        Returns:
            i32[n] object, which `rows_of` takes, -1 for code of none (JIT, a file that is gone);
            u64[n] the address as the image states it (SVMA), of no meaning if there is none;
            bool[n] whether anything executable is mapped there.
        """

    def rows_of(self, object_row: int) -> FrameRows | None:
        """Return the call-frame rows of an object, None if it has none. Asked once each."""


class SiteTable(Record, eq=False):
    """Places of frames: each at least once, in no order.

    Attributes:
        context: i32[s] as in the input.
        address: u64[s] AVMA that was looked up: a return address less one, or the pc of an
            innermost frame or of an interrupted one.
        object: i32[s] as `CodeFinder.locate` has it.
        svma: u64[s] the same.
        rule: i64[s] how its frame leads to the caller, as `elf.frame_rules` packs it.
        is_interrupted: bool[s] whether it is one where a signal interrupted a frame further out.
    """

    context: NDArray[np.int32]
    address: NDArray[np.uint64]
    object: NDArray[np.int32]
    svma: NDArray[np.uint64]
    rule: NDArray[np.int64]
    is_interrupted: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.address)


class Unwound(Record, eq=False):
    """The call chains.

    Attributes:
        stacks: rows of `sites`, each behind its caller's. Stacks that are taken together, some ten
            thousand, share all callers that they have in common. No sample may have some rows.
        innermost: i32[n] row of `stacks` of each sample's innermost frame, -1 without frames.
        outermost: i32[n] row of `sites` of its outermost frame; of no meaning without frames.
        end: u8[n] END_*.
        needed_bytes: i64[n] where the copy was cut, how long it would have had to be for the next
            frame; else 0.
        last_fp: u64[n] the frame register in its outermost frame.
    """

    stacks: Forest
    innermost: NDArray[np.int32]
    outermost: NDArray[np.int32]
    sites: SiteTable
    end: NDArray[np.uint8]
    needed_bytes: NDArray[np.int64]
    last_fp: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.end)

    def frames(self) -> NDArray[np.int64]:
        """Return how many frames each sample has, i64[n]."""
        return np.append(self.stacks.depth, -1).take(self.innermost) + np.int64(1)

    def chains(self, rows: NDArray[np.int64] | None = None) -> UnwoundChains:
        """Return the frames of some samples, i64[r], or of all."""
        innermost = self.innermost if rows is None else self.innermost.take(rows)
        start, frame = self.stacks.lists(innermost)
        site = self.stacks.value.take(frame)
        is_return = ~self.sites.is_interrupted.take(site)
        is_return[start[:-1][innermost >= 0]] = False
        return UnwoundChains(start, site, self.sites.address.take(site) + is_return)


class UnwoundChains(NamedTuple):
    """Frames of samples, one sample's behind another's, the innermost first.

    Attributes:
        start: i64[r + 1] where each sample's frames begin.
        site: i32[m] rows of `Unwound.sites`.
        address: u64[m] AVMA: the pc of the innermost frame and of one that a signal interrupted,
            the return address of the others.
    """

    start: NDArray[np.int64]
    site: NDArray[np.integer]
    address: NDArray[np.uint64]
