"""Samples with registers and stack copies → the same samples with whole stacks.

Comes in: sample columns and the code of the recording. Goes out: `UserStacks` of what was unwound,
columns whose `chain` has the user's frames of other samples as the kernel would have written them
(the PERF_CONTEXT_USER word, the instruction, return addresses from the inside out), and what became
of the copies.

Where frame pointers were recorded beside a copy (`--call-graph auto`), they take a stack further
that the copy or its call-frame information could not: but only from a return address on that both
have, so that neither is believed against the other.

Chains of frame pointers that come with the link register (arm64) get the callers of leaves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from prospect.abi import constants as abi
from prospect.announcing import silent
from prospect.assembly.stacks.chain_frames import (
    USER_CONTEXT,
    chain_begin,
    cut_chains,
    own_frames,
    user_begin,
)
from prospect.assembly.stacks.stack_ends import stack_copies
from prospect.assembly.stacks.user_stacks import Chains, no_user_stacks, stacks_of_unwound
from prospect.columns.buffers import segments
from prospect.records import NamedTuple, replace
from prospect.unwind import model
from prospect.unwind.leaves import leaf_callers
from prospect.unwind.unwinder import unwind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from prospect.abi.recording import RecordingInfo
    from prospect.announcing import Announce
    from prospect.assembly.stacks.recorded_code import RecordedCode
    from prospect.assembly.stacks.user_contexts import UserContexts
    from prospect.assembly.stacks.user_stacks import UserStacks
    from prospect.events.columns import CallBranches, Samples, UserStates
    from prospect.profile.stack_copies import StackCopies


class _Machine(NamedTuple):
    """A machine's ELF number, its registers by the kernel's numbers, and some of them by name.

    `link` is that of return addresses, where the machine has one.
    """

    number: int
    dwarf_of_perf: tuple[int, ...]
    pc: int
    sp: int
    fp: int
    link: int | None = None


# By uname(2); e_machine of ``include/uapi/linux/elf-em.h``.
_MACHINES = {
    "x86_64": _Machine(62, model.DWARF_OF_PERF_X86_64, pc=8, sp=7, fp=6),
    "aarch64": _Machine(183, model.DWARF_OF_PERF_ARM64, pc=32, sp=31, fp=29, link=30),
}


# Of a processor's stack of calls (Intel since Skylake; those before hold 16).
_MOST_BRANCHES = 32


class WholeStacks(NamedTuple):
    """Samples whose user frames are those of `unwound`, or of their chains where that has none.

    `copies` says what became of the copies, None where there are none, or none that can be unwound.
    `is_cut` bool[n]: a limit cut the stack; frames of such a stack are always in the chain, unless
    only those of the kernel were cut.
    """

    samples: Samples
    unwound: UserStacks
    copies: StackCopies | None
    is_cut: NDArray[np.bool_]


def with_whole_stacks(
    samples: Samples,
    contexts: UserContexts,
    code: RecordedCode,
    info: RecordingInfo,
    announce: Announce = silent,
) -> WholeStacks:
    """Find the callers in user space.

    Args:
        samples: of a recording.
        contexts: their address spaces.
        code: what stands in them.
        info: what the recording says of itself.
        announce: called with how far it is.
    """
    nothing = no_user_stacks(len(samples))
    is_cut = cut_chains(samples, info.events)
    if samples.calls is not None:
        is_cut[samples.calls.sample] |= np.diff(samples.calls.start) >= _MOST_BRANCHES
        samples = with_user_part(samples, samples.calls.sample, _branch_chains(samples))
    machine = _MACHINES.get(info.arch)
    copy_bytes = max(event.attr.sample_stack_user for event in info.events)
    states = samples.user
    if states is None or machine is None:
        return WholeStacks(samples, nothing, None, is_cut)
    begin, end = (column.take(states.sample) for column in user_begin(samples))
    is_64 = states.abi == abi.PERF_SAMPLE_REGS_ABI_64
    # Chains by frame pointers stay as they are, but for the caller of a leaf.
    has_chain = (states.stack_bytes == 0) & (end - begin > 1)
    if machine.link in states.register_numbers:
        rows = np.flatnonzero(is_64 & has_chain)
        taken = _input(states, rows, contexts, machine)
        samples = _with_leaf_callers(samples, states.sample.take(rows), taken, code)
    if not copy_bytes or not _has(states, machine):
        return WholeStacks(samples, nothing, None, is_cut)
    rows = np.flatnonzero(is_64 & ~has_chain)
    taken = replace(
        _input(states, rows, contexts, machine),
        is_own=own_frames(samples, user_begin(samples)[0]).take(states.sample.take(rows)),
    )
    announce("unwinding stacks")
    unwound = unwind(
        taken, code, progress=lambda done: announce(f"unwinding stacks, {done / len(rows):.0%}")
    )
    of_sample = states.sample.take(rows)
    stacks = stacks_of_unwound(unwound, of_sample, len(samples))
    samples, stacks, is_continued = _continued(samples, stacks, of_sample, unwound.end)
    copies = stack_copies(
        taken, unwound, samples.task.take(of_sample), code.keys, copy_bytes, is_continued
    )
    if not info.events[0].attr.sample_stack_user:
        copies = replace(copies, only_of_waits=True)
    # The user's part of a chain counts only where it took a stack further.
    is_short = (taken.stack_block >= 0) & np.isin(unwound.end, (model.END_CUT, model.END_DEEP))
    is_short &= ~is_continued & (unwound.innermost >= 0)
    is_cut[of_sample[~is_continued & (end > begin).take(rows)]] = False
    short = of_sample[is_short]
    is_cut[short] = True
    held = short[stacks.innermost.take(short) >= 0]
    samples = with_user_part(samples, held, stacks.chains(held))
    return WholeStacks(samples, stacks.without(held), copies, is_cut)


def _has(states: UserStates, machine: _Machine) -> bool:
    return {machine.pc, machine.sp, machine.fp} <= set(states.register_numbers)


class _Registers(Mapping[int, "NDArray[np.uint64]"]):
    """Registers of some states, rows i64[k]; each is gathered when it is asked for."""

    def __init__(self, states: UserStates, rows: NDArray[np.int64], names: dict[int, int]) -> None:
        """Take the kernel's number of each register by the name that it is to have here."""
        self._states, self._rows, self._names = states, rows, names

    def __getitem__(self, name: int) -> NDArray[np.uint64]:
        found = self._states.register(self._names[name], self._rows)
        if found is None:
            raise KeyError(name)
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[int]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _input(
    states: UserStates,
    rows: NDArray[np.int64],
    contexts: UserContexts,
    machine: _Machine,
) -> model.UnwindInput:
    """Return what is known of some states, rows i64[k]; 0 for registers that are not recorded."""
    numbers = states.register_numbers
    registers = _Registers(states, rows, {number: number for number in numbers})
    unknown = np.zeros(len(rows), np.uint64)
    stack_bytes = states.stack_bytes.take(rows).astype(np.int64)
    dwarf = machine.dwarf_of_perf
    return model.UnwindInput(
        machine=machine.number,
        context=contexts.of_sample.take(states.sample.take(rows)),
        pc=registers.get(machine.pc, unknown),
        sp=registers.get(machine.sp, unknown),
        fp=registers.get(machine.fp, unknown),
        stack_block=np.where(stack_bytes > 0, states.stack_block.take(rows), np.int32(-1)),
        stack_begin=states.stack_begin.take(rows),
        stack_bytes=stack_bytes,
        blocks=states.blocks,
        registers=_Registers(
            states,
            rows,
            {
                dwarf[number]: number
                for number in numbers
                if number < len(dwarf) and dwarf[number] >= 0
            },
        ),
    )


def user_parts(samples: Samples, of_sample: NDArray[np.int64]) -> Chains:
    """Return the frames of user space that the kernel recorded for some samples."""
    begin, end = (column.take(of_sample) for column in user_begin(samples))
    length = np.maximum(end - begin - 1, 0)
    words = np.empty(0, np.uint64) if samples.chain is None else samples.chain
    return Chains(length, words.take(segments(begin + 1, length)))


def _with_leaf_callers(
    samples: Samples, of_sample: NDArray[np.int64], given: model.UnwindInput, code: RecordedCode
) -> Samples:
    """Put the caller of a leaf, from the link register, behind the leaf.

    Args:
        samples: of a recording.
        of_sample: i64[k] rows of samples with a chain in user space, ascending.
        given: the registers of these; their pc is that of the chain.
        code: what stands in their address spaces.
    """
    parts = user_parts(samples, of_sample)
    begin = np.cumsum(parts.length) - parts.length
    known = np.where(parts.length > 1, parts.words.take(begin + 1, mode="clip"), np.uint64(0))
    caller = leaf_callers(replace(given, pc=parts.words.take(begin)), known, code)
    rows = np.flatnonzero(caller)
    words = np.insert(parts.words, begin.take(rows) + 1, caller.take(rows))
    return with_user_part(samples, of_sample, Chains(parts.length + (caller > 0), words))


def _continued(
    samples: Samples, stacks: UserStacks, of_sample: NDArray[np.int64], end: NDArray[np.uint8]
) -> tuple[Samples, UserStacks, NDArray[np.bool_]]:
    """Add to stacks that are not whole what frame pointers say lies behind their last frame.

    Args:
        samples: of a recording.
        stacks: of these.
        of_sample: i64[k] the samples that were unwound, ascending.
        end: u8[k] why their stacks end.

    Returns:
        The samples, where longer stacks are chains, the other stacks, and bool[k] which stacks
        became longer.
    """
    asked = np.flatnonzero((end != model.END_COMPLETE) & (stacks.innermost.take(of_sample) >= 0))
    other = user_parts(samples, of_sample.take(asked))
    asked = asked[other.length > 0]
    is_longer = np.zeros(len(of_sample), np.bool_)
    if not len(asked):
        return samples, stacks, is_longer
    other = user_parts(samples, of_sample.take(asked))
    chains, added = _joined(stacks.chains(of_sample.take(asked)), other)
    is_longer[asked] = added > 0
    rows = of_sample.take(asked)
    return with_user_part(samples, rows, chains), stacks.without(rows), is_longer


def _joined(frames: Chains, other: Chains) -> tuple[Chains, NDArray[np.int64]]:
    """Add to stacks what others, of as many samples, have behind their last frame.

    Returns:
        The stacks, and i64[k] how many frames each got.
    """
    begin = np.cumsum(other.length) - other.length
    place = segments(np.zeros(len(begin), np.int64), other.length)
    last = frames.words.take(np.cumsum(frames.length) - 1)
    # Frame pointers may miss frames, but never have more of them than there are. In a recursion
    # many are alike: then the one nearest to the same depth.
    is_match = other.words == last.repeat(other.length)
    is_match &= place < frames.length.repeat(other.length)
    matched = np.maximum.reduceat(np.where(is_match, place, -1), begin)
    added = np.where(matched >= 0, other.length - matched - 1, 0)
    total = frames.length + added
    words = np.empty(int(total.sum()), np.uint64)
    begin_of = np.cumsum(total) - total
    words[segments(begin_of, frames.length)] = frames.words
    words[segments(begin_of + frames.length, added)] = other.words.take(
        segments(begin + matched + 1, added)
    )
    return Chains(total, words), added


def _branch_chains(samples: Samples) -> Chains:
    """Return the stacks of calls in the processor's branch stack."""
    calls: CallBranches | None = samples.calls
    if calls is None:
        return Chains(np.zeros(0, np.int64), np.zeros(0, np.uint64))
    calls_each = np.diff(calls.start)
    is_user = samples.mode.take(calls.sample) == abi.PERF_RECORD_MISC_USER
    # Of a sample in the kernel the last call in user space says at least the function.
    called = np.append(calls.target, np.uint64(0)).take(calls.start[:-1])
    called[calls_each == 0] = 0
    first = np.where(is_user, samples.ip.take(calls.sample), called)
    length = np.where(first > 0, calls_each + 1, 0)
    words = np.empty(int(length.sum()), np.uint64)
    begin = (np.cumsum(length) - length)[length > 0]
    words[begin] = first[length > 0]
    # As all chains have it: an address behind the call.
    kept = np.where(length > 0, calls_each, 0)
    source = calls.source.take(segments(calls.start[:-1], kept))
    words[segments(begin + 1, calls_each[length > 0])] = source + np.uint64(1)
    return Chains(length, words)


def with_user_part(samples: Samples, of_sample: NDArray[np.int64], frames: Chains) -> Samples:
    """Return the samples with other frames of user space; those with none keep theirs.

    Args:
        samples: of a recording.
        of_sample: i64[k] rows of samples, ascending.
        frames: of these k.
    """
    has_frames = frames.length > 0
    rows = of_sample[has_frames]
    length = frames.length[has_frames]
    user, end = user_begin(samples)
    begin = chain_begin(samples)
    kept = end - begin
    kept[rows] = user.take(rows) - begin.take(rows)
    total = kept.copy()
    total[rows] += length + 1
    start = np.zeros(len(samples) + 1, np.int64)
    np.cumsum(total, out=start[1:])
    words = np.empty(int(start[-1]), np.uint64)
    old = np.empty(0, np.uint64) if samples.chain is None else samples.chain
    words[segments(start[:-1], kept)] = old.take(segments(begin, kept))
    at = (start[:-1] + kept).take(rows)
    words[at] = USER_CONTEXT
    words[segments(at + 1, length)] = frames.words
    return replace(samples, chain_start=start, chain=words)
