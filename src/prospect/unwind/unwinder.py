"""Samples with stack copies → call chains: all samples go to their callers together.

Each round looks up the places of all samples, as whole columns, and moves each to its caller.
Samples that end leave the columns. Some ten thousand samples are unwound at a time, so the columns
stay in the CPU's cache; then their common frames are merged, before all frames would fill memory.

`leaf_callers` finds return addresses that only the link register holds. On arm64 a function that
calls no other makes no frame record, and other functions have none at their first and last
instructions. The records, to which x29 leads, then begin with the caller's, which returns to the
caller's caller. Defined by: the AAPCS64, "The Frame Pointer"; ``arch/arm64/kernel/stacktrace.c``,
where the kernel's chain begins with pc and goes on with x29 (Linux 6.18). ``perf report`` uses
call-frame information for them too (``tools/perf/util/arm64-frame-pointer-unwind-support.c``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.forests import hashed_forest, joined_forests, without_twins
from prospect.columns.sorting import distinct, mixed, random_seed
from prospect.elf import elf_layout
from prospect.elf import frame_rules as rules
from prospect.errors import ProspectError
from prospect.unwind import interface
from prospect.unwind.lanes import ADDRESS_BITS, CONTEXT_BITS, Lanes, SiteMemo
from prospect.unwind.step import FRAME_RECORD, GOES_ON, Round, bytecode_sites, step
from prospect.unwind.unwind_limits import MOST_FRAMES

if TYPE_CHECKING:
    from collections.abc import Callable

    from prospect.columns.array_types import I32, I64, U8, U64
    from prospect.columns.forests import Forest
    from prospect.unwind.interface import CodeFinder, UnwindInput

_LANES = 1 << 16
# Lists whose frames, and temporaries of them, stay in a cache.
_LISTS = 1 << 12
_NONE = np.zeros(0, np.int64)
# Frame records of arm64 hold the link register too.
_RECORD_WITH_LINK = FRAME_RECORD | rules.RULE_AT_CFA << rules.SECOND_BITS | 0x7FFF


def unwind(
    given: UnwindInput,
    finder: CodeFinder,
    *,
    most_frames: int = MOST_FRAMES,
    mode: int = interface.MODE_CFI,
    progress: Callable[[int], None] | None = None,
) -> interface.Unwound:
    """Unwind the stacks of samples.

    Args:
        given: the samples, of one machine.
        most_frames: of a chain.
        mode: MODE_CFI; MODE_FRAME_POINTER only follows frame records, through any mapped code.
        progress: called with the number of samples done, every ten thousand or so.

    Returns:
        The chains. A sample whose pc is no address of user space has no frames.

    Raises:
        ProspectError: stacks of this machine cannot be unwound.
    """
    if given.machine not in rules.MACHINES:
        raise ProspectError("only stacks of x86-64 and arm64 programs can be unwound")
    walker = _Walker(given, finder, most_frames, mode)
    group = given.context >> CONTEXT_BITS
    order = np.lexsort((given.stack_block, group)) if len(given) else _NONE
    for first in distinct(group).tolist():
        low, high = np.searchsorted(group.take(order), (first, first + 1)).tolist()
        walker.memo.begin_contexts(first << CONTEXT_BITS)
        for begin in range(low, high, _LANES):
            walker.walk(order[begin : min(begin + _LANES, high)])
            if progress is not None:
                progress(min(begin + _LANES, high))
        # Few frames need the second register: only samples that met one are walked with it.
        again = walker.left_over(order[low:high])
        for begin in range(0, len(again), _LANES):
            walker.walk(again[begin : begin + _LANES], follow_second=True)
    return walker.result()


class _Walker:
    """Walks samples, some at a time, and merges their stacks."""

    def __init__(self, given: UnwindInput, finder: CodeFinder, most_frames: int, mode: int) -> None:
        self.memo = SiteMemo(finder)
        self._given = given
        self._machine = rules.MACHINES[given.machine]
        self._by_link = given.machine == elf_layout.EM_AARCH64
        self._most_frames = most_frames
        self._record = 0
        if mode == interface.MODE_FRAME_POINTER:
            self._record = _RECORD_WITH_LINK if self._by_link else FRAME_RECORD
        self._blocks = [_words(block) for block in given.blocks]
        # Samples i64[f], round, and sites i32[f] of the frames of each round.
        self._frames: list[tuple[I64, int, I32]] = []
        self._stacks: list[Forest] = []
        self._rows = 0
        self._seed = random_seed()
        count = len(given)
        self._count = np.zeros(count, np.int64)
        self._end = np.full(count, interface.END_BAD, np.uint8)
        self._needed = np.zeros(count, np.int64)
        self._last_fp = np.zeros(count, np.int64)
        self._innermost = np.full(count, -1, np.int32)
        self._outermost = np.zeros(count, np.int32)

    def walk(self, samples: I64, *, follow_second: bool = False) -> None:
        """Unwind some samples."""
        self._walk(samples, follow_second=follow_second or self._by_link)
        over = _NONE if follow_second else self.left_over(samples)
        self._grow(samples, over)

    def left_over(self, samples: I64) -> I64:
        """Return which of some samples ended because they lack the second register, if known."""
        if self._by_link or self._machine.second not in self._given.registers:
            return _NONE
        return samples.take(np.flatnonzero(self._end.take(samples) == interface.END_REGISTER))

    def result(self) -> interface.Unwound:
        """Return the chains of all samples."""
        return interface.Unwound(
            stacks=joined_forests(self._stacks),
            innermost=self._innermost,
            outermost=self._outermost,
            sites=self.memo.sites(),
            end=self._end,
            needed_bytes=self._needed,
            last_fp=self._last_fp.view(np.uint64),
        )

    def _grow(self, samples: I64, over: I64) -> None:
        """Merge the frames of the last walk, by sample, the outermost first.

        Frames of the samples `over`, which are walked again, are dropped.
        """
        most = int(self._count.take(over).max(initial=0))
        self._count[over] = 0
        length = self._count.take(samples)
        end = np.cumsum(length)
        last = np.empty(len(self._given), np.int64)
        last[samples] = end - 1
        size = int(end[-1])
        last[over] = size + most - 1
        # One more, for lists without frames at the end.
        site = np.zeros(size + most + 1, np.int32)
        for sample, rank, of_frame in self._frames:
            site[last.take(sample) - rank] = of_frame
        self._frames.clear()
        self._outermost[samples] = site.take(end - length)
        site = site[:size]
        word = mixed(np.arange(int(site.max(initial=-1)) + 1, dtype=np.uint64), self._seed)
        parts, hashes, rows_of_last, rows = [], [], [], 0
        for first in range(0, len(samples), _LISTS):
            lists = slice(first, first + _LISTS)
            after = int(end[lists][-1])
            begin = after - int(length[lists].sum())
            part, row, hashed = hashed_forest(site[begin:after], length[lists], word)
            parts.append(part)
            hashes.append(hashed)
            rows_of_last.append(np.where(row < 0, -1, row + rows))
            rows += len(part)
        whole, innermost = joined_forests(parts), np.concatenate(rows_of_last)
        is_own = None if self._given.is_own is None else self._given.is_own.take(samples)
        called = whole.callers(innermost if is_own is None else innermost[~is_own])
        stacks, row = without_twins(whole, np.concatenate(hashes), called)
        row = np.where(row < 0, -1, row + self._rows)
        self._innermost[samples] = row.take(innermost)
        self._stacks.append(stacks)
        self._rows += len(stacks)

    def _walk(self, samples: I64, *, follow_second: bool) -> None:
        lanes = Lanes(self._given, self._blocks, samples)
        if follow_second:
            column = self._given.registers.get(self._machine.second)
            lanes.second = (
                np.zeros(len(lanes), np.int64)
                if column is None
                else column.take(samples).view(np.int64)
            )
        lanes.keep(np.flatnonzero(lanes.pc >> ADDRESS_BITS == 0))
        interrupted, is_first = np.arange(len(lanes)), True
        for rank in range(self._most_frames):
            if not len(lanes):
                return
            look = lanes.pc - 1
            look[interrupted] += 1
            rule, site = self.memo.look_up(lanes.key | look.view(np.uint64))
            registers = self._given.registers
            bytecode_sites(lanes, rule, site, self.memo, registers, is_first=is_first)
            met = site
            if rank and len(interrupted):
                met = site.copy()
                met[interrupted] = self.memo.interrupted(site.take(interrupted))
            self._collect(lanes, rule, met, rank)
            if self._record:
                rule = np.where(rule == rules.NO_MAP, rule, self._record)
            around = Round(self._machine, self.memo, registers, is_first, interrupted)
            callers = step(lanes, rule, site, around)
            interrupted, is_first = callers.interrupted, False
            ended = callers.end != GOES_ON
            if ended.any():
                rows = np.flatnonzero(ended)
                sample = lanes.sample.take(rows)
                self._end[sample] = callers.end.take(rows)
                self._needed[sample] = callers.needed_bytes.take(rows)
                self._last_fp[sample] = lanes.fp.take(rows)
                kept = np.flatnonzero(~ended)
                lanes.keep(kept)
                if len(interrupted):
                    interrupted = np.flatnonzero(np.isin(kept, interrupted))
        self._end[lanes.sample] = interface.END_DEEP

    def _collect(self, lanes: Lanes, rule: I64, site: I32, rank: int) -> None:
        """Keep the frames of a round; a return address without a mapping is no frame."""
        sample = lanes.sample
        if rank:
            is_frame = rule != rules.NO_MAP
            if not is_frame.all():
                kept = np.flatnonzero(is_frame)
                sample, site = sample.take(kept), site.take(kept)
        self._count[sample] = rank + 1
        self._frames.append((sample, rank, site))


def _words(block: U8 | U64) -> U64:
    octets = block.view(np.uint8)
    return octets[: len(octets) & ~7].view(np.uint64)


def leaf_callers(given: UnwindInput, known: U64, finder: CodeFinder) -> U64:
    """Find the return addresses that chains of frame records lack.

    Without a copy of the stack, unwinding finds a caller only by the link register: if call-frame
    information says that the return address is still in it, or if an image has no such information
    for the code but has it for the code at the register's address.

    Args:
        given: the samples, of arm64; sp and x29 are 0 if unknown.
        known: u64[n] the return address that comes next in each chain, 0 if it has none.

    Returns:
        u64[n] return addresses without the bits that sign them; 0 if the chain lacks none.
    """
    unwound = unwind(given, finder, most_frames=2)
    rows = np.flatnonzero(unwound.frames() > 1)
    chains = unwound.chains(rows)
    first = chains.start[:-1]
    found = chains.address.take(first + 1)
    rule = unwound.sites.rule.take(chains.site.take(first))
    sp, fp = given.sp.take(rows).view(np.int64), given.fp.take(rows).view(np.int64)
    # The same address twice is the frame record of this function, whose information is missing or
    # wrong; or a recursion, if the record is in the caller's frame.
    is_of_caller = (rule >> rules.KIND_SHIFT == rules.KIND_SP) & (sp > 0)
    is_of_caller &= fp >= sp + rules.cfa_bytes(rule)
    callers = np.zeros(len(given), np.uint64)
    callers[rows] = np.where((found != known.take(rows)) | is_of_caller, found, np.uint64(0))
    return callers
