"""Samples with registers and stack copies → the same samples with whole stacks.

If frame pointers were recorded along with a copy (`--call-graph auto`), they continue a stack
beyond the copy or its call-frame information, but only from a return address that both have, so
that they never contradict each other. Chains of frame pointers with the link register (arm64) get
the callers of leaves.

`StackCopies` shows which stacks are whole, where the others end, and the size of copy that would
have held them. That size follows from the stack's thread: if other samples of the same thread were
unwound to the outermost function, the stack's far end is known. A thread has more than one stack in
its life, after an exec, and with signals and green threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from prospect.abi import constants as abi
from prospect.announcing import silent
from prospect.assembly.assembly_limits import MOST_STACK_BYTES
from prospect.assembly.stacks.chain_frames import own_frames, user_begin
from prospect.assembly.stacks.recorded_code import RecordedCode
from prospect.assembly.stacks.user_stacks import (
    Chains,
    find_user_contexts,
    no_user_stacks,
    stacks_of_unwound,
    user_parts,
    with_user_part,
)
from prospect.columns.buffers import segments
from prospect.columns.sorting import numbered
from prospect.profile.model import NO_COPY, StackCopies
from prospect.records import NamedTuple, replace
from prospect.unwind import interface
from prospect.unwind.unwinder import leaf_callers, unwind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from prospect.abi.recorded_facts import RecordingInfo
    from prospect.announcing import Announce
    from prospect.assembly.stacks.user_stacks import UserContexts, UserStacks
    from prospect.columns.array_types import I8, I64, U8, U64, Bools
    from prospect.events.record_columns import CallBranches, Samples, UserStates
    from prospect.spaces.process_history import ProcessHistory
    from prospect.symbols.objects import ObjectKey
    from prospect.symbols.symbolizer import Symbolizer
    from prospect.unwind.interface import UnwindInput, Unwound


class Machine(NamedTuple):
    """A machine's ELF number, its registers by the kernel's numbers, and some of them by name.

    `link` is the register of return addresses, if the machine has one.
    """

    number: int
    dwarf_of_perf: tuple[int, ...]
    pc: int
    sp: int
    fp: int
    link: int | None = None


# By uname(2); e_machine of ``include/uapi/linux/elf-em.h``.
MACHINES = {
    "x86_64": Machine(62, interface.DWARF_OF_PERF_X86_64, pc=8, sp=7, fp=6),
    "aarch64": Machine(183, interface.DWARF_OF_PERF_ARM64, pc=32, sp=31, fp=29, link=30),
}

_NONE = np.zeros(0, np.int64)
# Entries of a CPU's call stack (Intel since Skylake; those before hold 16).
_MOST_BRANCHES = 32


class WholeStacks(NamedTuple):
    """Samples whose user frames are those of `unwound`, or of their chains if it has none.

    `copies` is None if there are no copies that can be unwound. A limit cut the chains of samples
    `is_cut`, bool[n], and the unwound stacks of `short`, i64[k].
    """

    samples: Samples
    unwound: UserStacks
    copies: StackCopies | None
    is_cut: Bools
    short: I64


def with_whole_stacks(  # noqa: PLR0913 - one stage's input, and how it is to work
    samples: Samples,
    contexts: UserContexts,
    code: RecordedCode,
    info: RecordingInfo,
    *,
    is_cut: Bools,
    announce: Announce = silent,
) -> WholeStacks:
    """Find the callers in user space.

    `is_cut` bool[n] is from `cut_chains`; `announce` is called with the progress.
    """
    nothing = no_user_stacks(len(samples))
    is_cut = is_cut.copy()
    if samples.calls is not None:
        is_cut[samples.calls.sample] |= np.diff(samples.calls.start) >= _MOST_BRANCHES
        chains = _branch_chains(samples, samples.calls)
        samples = with_user_part(samples, samples.calls.sample, chains)
    machine = MACHINES.get(info.arch)
    copy_bytes = max(event.attr.sample_stack_user for event in info.events)
    states = samples.user
    if states is None or machine is None:
        return WholeStacks(samples, nothing, None, is_cut, _NONE)
    begin, end = (column.take(states.sample) for column in user_begin(samples))
    is_64 = states.abi == abi.PERF_SAMPLE_REGS_ABI_64
    # Chains by frame pointers only get the caller of a leaf.
    has_chain = (states.stack_bytes == 0) & (end - begin > 1)
    if machine.link in states.register_numbers:
        rows = np.flatnonzero(is_64 & has_chain)
        taken = unwind_input(states, rows, contexts, machine)
        samples = _with_leaf_callers(samples, states.sample.take(rows), taken, code)
    needed = {machine.pc, machine.sp, machine.fp}
    if not copy_bytes or not needed <= set(states.register_numbers):
        return WholeStacks(samples, nothing, None, is_cut, _NONE)
    rows = np.flatnonzero(is_64 & ~has_chain)
    taken = replace(
        unwind_input(states, rows, contexts, machine),
        is_own=own_frames(samples, user_begin(samples)[0]).take(states.sample.take(rows)),
    )
    announce("unwinding stacks")
    unwound = unwind(
        taken, code, progress=lambda done: announce(f"unwinding stacks, {done / len(rows):.0%}")
    )
    of_sample = states.sample.take(rows)
    stacks = stacks_of_unwound(unwound, of_sample, len(samples))
    samples, stacks, is_continued = _continued(
        samples, stacks, of_sample, unwound.end, is_fp_kept=unwound.last_fp == taken.fp
    )
    copies = stack_copies(
        taken, unwound, samples.task.take(of_sample), code.keys, copy_bytes, is_continued
    )
    if not info.events[0].attr.sample_stack_user:
        copies = replace(copies, only_of_waits=True)
    # The user part of a chain counts only if it continued a stack.
    is_short = (taken.stack_block >= 0) & np.isin(
        unwound.end, (interface.END_CUT, interface.END_DEEP)
    )
    is_short &= ~is_continued & (unwound.innermost >= 0)
    is_cut[of_sample[~is_continued & (end > begin).take(rows)]] = False
    short = of_sample[is_short]
    is_in_chain = stacks.innermost.take(short) < 0
    is_cut[short] = is_in_chain
    return WholeStacks(samples, stacks, copies, is_cut, short[~is_in_chain])


class _Registers(Mapping[int, "U64"]):
    """Registers of some states, rows i64[k], each gathered on request.

    `names` has the kernel's number of each register by its number here.
    """

    def __init__(self, states: UserStates, rows: I64, names: dict[int, int]) -> None:
        self._states, self._rows, self._names = states, rows, names

    def __getitem__(self, name: int) -> U64:
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


def unwind_input(
    states: UserStates, rows: I64, contexts: UserContexts, machine: Machine
) -> interface.UnwindInput:
    """Return the unwinder's input for some states, rows i64[k]; 0 for unrecorded registers."""
    numbers = states.register_numbers
    registers = _Registers(states, rows, {number: number for number in numbers})
    unknown = np.zeros(len(rows), np.uint64)
    stack_bytes = states.stack_bytes.take(rows).astype(np.int64)
    dwarf = machine.dwarf_of_perf
    return interface.UnwindInput(
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


def _with_leaf_callers(
    samples: Samples, of_sample: I64, given: interface.UnwindInput, code: RecordedCode
) -> Samples:
    """Add the caller of a leaf, from the link register, after the leaf.

    Args:
        of_sample: i64[k] rows of samples with a chain in user space, ascending.
        given: the registers of these; their pc is that of the chain.
    """
    parts = user_parts(samples, of_sample)
    begin = np.cumsum(parts.length) - parts.length
    known = np.where(parts.length > 1, parts.words.take(begin + 1, mode="clip"), np.uint64(0))
    caller = leaf_callers(replace(given, pc=parts.words.take(begin)), known, code)
    rows = np.flatnonzero(caller)
    words = np.insert(parts.words, begin.take(rows) + 1, caller.take(rows))
    return with_user_part(samples, of_sample, Chains(parts.length + (caller > 0), words))


def _continued(
    samples: Samples, stacks: UserStacks, of_sample: I64, end: U8, *, is_fp_kept: Bools
) -> tuple[Samples, UserStacks, Bools]:
    """Add to incomplete stacks the callers of their last frame by frame pointers.

    Args:
        of_sample: i64[k] the samples that were unwound, ascending.
        end: u8[k] END_* of their stacks.
        is_fp_kept: bool[k] whether the outermost frame has the sample's frame register.

    Returns:
        The samples, in which longer stacks are chains, the other stacks, and bool[k] which stacks
        became longer.
    """
    asked = np.flatnonzero(
        (end != interface.END_COMPLETE) & (stacks.innermost.take(of_sample) >= 0)
    )
    other = user_parts(samples, of_sample.take(asked))
    asked = asked[other.length > 0]
    is_longer = np.zeros(len(of_sample), np.bool_)
    if not len(asked):
        return samples, stacks, is_longer
    other = user_parts(samples, of_sample.take(asked))
    is_next = is_fp_kept.take(asked) & (end.take(asked) == interface.END_SWITCHED)
    chains, added = _joined(stacks.chains(of_sample.take(asked)), other, is_next)
    is_longer[asked] = added > 0
    rows = of_sample.take(asked)
    return with_user_part(samples, rows, chains), stacks.without(rows), is_longer


def _joined(frames: Chains, other: Chains, is_next: Bools) -> tuple[Chains, I64]:
    """Add to stacks the frames that `other` has after their last frame.

    Args:
        is_next: bool[k] whether the first frame record is that of the stack's last frame, which is
            on another stack: then all following return addresses are those of its callers.

    Returns:
        The stacks, and i64[k] the number of frames added to each.
    """
    begin = np.cumsum(other.length) - other.length
    place = segments(np.zeros(len(begin), np.int64), other.length)
    last = frames.words.take(np.cumsum(frames.length) - 1)
    # Frame pointers may miss frames, but never have additional ones. In a recursion many frames are
    # equal: then the one nearest to the same depth matches.
    is_match = other.words == last.repeat(other.length)
    is_match &= place < frames.length.repeat(other.length)
    matched = np.maximum.reduceat(np.where(is_match, place, -1), begin)
    matched = np.where((matched < 0) & is_next, 0, matched)
    added = np.where(matched >= 0, other.length - matched - 1, 0)
    total = frames.length + added
    words = np.empty(int(total.sum()), np.uint64)
    begin_of = np.cumsum(total) - total
    words[segments(begin_of, frames.length)] = frames.words
    words[segments(begin_of + frames.length, added)] = other.words.take(
        segments(begin + matched + 1, added)
    )
    return Chains(total, words), added


def _branch_chains(samples: Samples, calls: CallBranches) -> Chains:
    """Return the stacks of calls in the CPU's branch stack."""
    calls_each = np.diff(calls.start)
    is_user = samples.mode.take(calls.sample) == abi.PERF_RECORD_MISC_USER
    # A sample in the kernel gets at least the function of the last call in user space.
    called = np.append(calls.target, np.uint64(0)).take(calls.start[:-1])
    called[calls_each == 0] = 0
    first = np.where(is_user, samples.ip.take(calls.sample), called)
    length = np.where(first > 0, calls_each + 1, 0)
    words = np.empty(int(length.sum()), np.uint64)
    begin = (np.cumsum(length) - length)[length > 0]
    words[begin] = first[length > 0]
    # As in all chains, an address after the call.
    kept = np.where(length > 0, calls_each, 0)
    source = calls.source.take(segments(calls.start[:-1], kept))
    words[segments(begin + 1, calls_each[length > 0])] = source + np.uint64(1)
    return Chains(length, words)


def stack_copies(  # noqa: PLR0913, PLR0917 - facts from as many stages
    taken: UnwindInput,
    unwound: Unwound,
    task: U64,
    keys: Sequence[ObjectKey],
    copy_bytes: int,
    is_continued: Bools,
) -> StackCopies:
    """Return the results of unwinding for each stack.

    Args:
        task: u64[n] pid and tid of each sample.
        keys: the objects, by the rows in the sites.
        copy_bytes: size of copies in the event's attributes.
        is_continued: bool[n] which stacks frame pointers continued.
    """
    has_copy = taken.stack_block >= 0
    frames = unwound.frames()
    end = np.where(has_copy, unwound.end.astype(np.int8), NO_COPY)
    needed, is_least = _needed_bytes(taken, unwound, task, end)
    is_short = has_copy & (unwound.end != interface.END_COMPLETE) & (frames > 0)
    last = unwound.sites.object.take(unwound.outermost[is_short])
    rows, place_of = np.unique(last, return_inverse=True)
    place = np.full(len(end), -1, np.int32)
    place[is_short] = place_of
    return StackCopies(
        copy_bytes=copy_bytes,
        ends=interface.END_NAMES,
        paths=tuple(
            keys[row].path.decode(errors="surrogateescape") if row >= 0 else ""
            for row in rows.tolist()
        ),
        pid=(task & np.uint64(0xFFFF_FFFF)).astype(np.uint32),
        end=end,
        frames=frames.astype(np.int32),
        needed_bytes=needed,
        is_least=is_least,
        place=place,
        is_continued=is_continued,
    )


def _needed_bytes(taken: UnwindInput, unwound: Unwound, task: U64, end: I8) -> tuple[I64, Bools]:
    """Return the sizes that would have held cut stacks, i64[n], and which may be too small."""
    whole, cut = (
        np.flatnonzero(end == interface.END_COMPLETE),
        np.flatnonzero(end == interface.END_CUT),
    )
    needed, is_least = np.zeros(len(end), np.int64), np.zeros(len(end), np.bool_)
    if not len(cut):
        return needed, is_least
    number, _ = numbered(task)
    sp = taken.sp.take(cut)
    # A copy ends at the end of the stack's mapping, or before: of several the nearest is the best.
    behind = taken.sp.take(whole) + taken.stack_bytes.take(whole).astype(np.uint64)
    above = _next_above(number.take(cut), sp, number.take(whole), behind) - sp
    is_known = above <= MOST_STACK_BYTES
    least = unwound.needed_bytes.take(cut).astype(np.uint64)
    needed[cut] = np.where(is_known, np.maximum(above, least), least).astype(np.int64)
    is_least[cut] = ~is_known
    return needed, is_least


def _next_above(group: I64, value: U64, among: I64, candidates: U64) -> U64:
    """Return for each value, u64[n], its group's least candidate above it, else the largest u64.

    `group` has the group of each value, `among` that of each candidate.
    """
    groups, values = np.append(group, among), np.append(value, candidates)
    is_candidate = np.arange(len(groups)) >= len(group)
    # A candidate that equals a value is not above it, so it comes before.
    order = np.lexsort((~is_candidate, values, groups))
    at = np.where(is_candidate.take(order), np.arange(len(order)), len(order))
    after = np.minimum.accumulate(at[::-1])[::-1]
    after = after[np.argsort(order, kind="stable")[: len(group)]]
    found = np.append(order, -1).take(after)
    is_found = (after < len(order)) & (groups.take(found) == group)
    return np.where(is_found, values.take(found), np.iinfo(np.uint64).max)


# Samples in a JVM's interpreter → samples in the bytecode that it interprets.
#
# All interpreted methods spend their time in the same code. If a copy of the stack shows the
# method, the place in its bytecode becomes the sample's address.

_PID = np.uint64(0xFFFF_FFFF)


def in_bytecode(
    samples: Samples,
    history: ProcessHistory,
    info: RecordingInfo,
    symbolizer: Symbolizer,
    pids: Iterable[int],
) -> Samples:
    """Return samples with addresses in bytecode, if these are known.

    `pids` are the processes of JVMs whose code was recorded.
    """
    states, machine = samples.user, MACHINES.get(info.arch)
    if states is None or machine is None or machine.pc not in states.register_numbers:
        return samples
    of_jvm = np.isin(samples.task.take(states.sample) & _PID, np.array([*pids], np.uint64))
    is_user = samples.mode.take(states.sample) == abi.PERF_RECORD_MISC_USER
    rows = np.flatnonzero(of_jvm & is_user & (states.stack_bytes > 0))
    if not len(rows):
        return samples
    contexts = find_user_contexts(samples, history.timeline)
    code = RecordedCode(contexts, history, info, symbolizer)
    given = unwind_input(states, rows, contexts, machine)
    unwound = unwind(given, code, most_frames=1)
    symbolizer.images.let_go()
    known = np.flatnonzero(unwound.frames() > 0)
    address = unwound.chains(known).address
    ip = samples.ip.copy()
    is_moved = address != given.pc.take(known)
    ip[states.sample.take(rows.take(known[is_moved]))] = address[is_moved]
    return replace(samples, ip=ip)
