"""Samples with call chains or copies of stacks → the forest of a profile's call stacks.

The work has two steps, because callers are placed and named together with the hits: `find_callers`
finds the distinct lists of callers and their addresses, `named_stacks` makes `StackTable` of them.
Lists of callers become a forest, in which each list shares its common frames with the one before,
after the frames of unwound stacks. Then equal frames of one caller are merged, a depth at a time.

Unwound stacks replace the user part of call chains. Equal chains of one address space are found by
hash, compared, and decoded once. A first screen unwinds only the copies of the processes that it
shows.
Source: ``kernel/events/callchain.c`` get_perf_callchain() (Linux 6.18): a context word, the
interrupted instruction, return addresses from the inside out; then the next context.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from prospect.abi import constants as abi
from prospect.announcing import silent
from prospect.assembly.placing.placement import Addresses
from prospect.assembly.stacks.chain_frames import (
    BLOCK_WORDS,
    CPUMODE_CUT,
    CUT_CONTEXT,
    LOWEST_CONTEXT,
    USER_CONTEXT,
    chain_begin,
    context_word,
    own_frames,
    user_begin,
    with_cut_ends,
)
from prospect.assembly.stacks.user_stacks import find_user_contexts, no_user_stacks
from prospect.assembly.tables.process_table import describe_processes
from prospect.columns.buffers import gather, segments
from prospect.columns.forests import Forest, forest_of_lists, joined_forests
from prospect.columns.sorting import distinct, mixed, mixed_at, numbered, random_seed
from prospect.figures.processes import shown_processes
from prospect.profile.model import StackTable
from prospect.records import NamedTuple, Record, replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.abi.recorded_facts import RecordingInfo
    from prospect.announcing import Announce
    from prospect.assembly.placing.placement import Placement
    from prospect.assembly.runtimes.runtime_stacks import RuntimeSamples
    from prospect.assembly.stacks.user_stacks import UserContexts, UserStacks
    from prospect.columns.array_types import I32, I64, U8, U64, Bools, Ints
    from prospect.events.record_columns import Samples
    from prospect.options import Detail
    from prospect.profile.model import StackCopies
    from prospect.spaces.attribution import Attribution
    from prospect.spaces.process_history import ProcessHistory
    from prospect.symbols.symbolizer import Symbolizer


_MODE_BITS = 3
_FRAME_BITS = np.uint64(31 + _MODE_BITS)  # of a row of locations, and a mode
_OUTER = np.uint64(1 << 63)

_NO_MODE = np.uint8(0)
_MODE_OF_CONTEXT = {
    abi.PERF_CONTEXT_HV: abi.PERF_RECORD_MISC_HYPERVISOR,
    abi.PERF_CONTEXT_KERNEL: abi.PERF_RECORD_MISC_KERNEL,
    abi.PERF_CONTEXT_USER: abi.PERF_RECORD_MISC_USER,
    abi.PERF_CONTEXT_GUEST_KERNEL: abi.PERF_RECORD_MISC_GUEST_KERNEL,
    abi.PERF_CONTEXT_GUEST_USER: abi.PERF_RECORD_MISC_GUEST_USER,
}
_MODE_OF_WORD = np.zeros(-abi.PERF_CONTEXT_MAX + 1, np.uint8)
for _context, _mode in _MODE_OF_CONTEXT.items():
    _MODE_OF_WORD[-_context] = _mode
_MODE_OF_WORD[-int(CUT_CONTEXT.view(np.int64))] = CPUMODE_CUT
# The context word at the begin of a sample's chain, by the sample's mode.
_CONTEXT_OF_MODE = np.zeros(8, np.uint64)
for _context, _mode in _MODE_OF_CONTEXT.items():
    _CONTEXT_OF_MODE[_mode] = context_word(_context)


class SampleCallers(Record):
    """Callers of all samples, their distinct addresses, and the row of each caller's address.

    `row` is from `caller_addresses`; `copies` is None if there are no copies of stacks.
    """

    callers: Callers
    addresses: Addresses
    row: I64
    copies: StackCopies | None


def find_callers(  # noqa: PLR0913 - one stage's input, and how it is to work
    samples: Samples,
    history: ProcessHistory,
    info: RecordingInfo,
    symbolizer: Symbolizer,
    is_cut: Bools,
    *,
    announce: Announce = silent,
    runtimes: RuntimeSamples | None = None,
) -> SampleCallers | None:
    """Read the call chains and unwind copies of stacks; None if no sample has either.

    Args:
        symbolizer: finds the images with the call-frame information.
        is_cut: bool[n] from `cut_chains`.
        announce: called with the progress.
        runtimes: the runtimes' frames of samples, None if there are none.
    """
    has_states = samples.user is not None or samples.calls is not None
    if samples.chain is None and not has_states and runtimes is None:
        return None
    contexts = find_user_contexts(samples, history.timeline)
    stacks, copies, short = no_user_stacks(len(samples)), None, np.zeros(0, np.int64)
    if has_states:
        from prospect.assembly.stacks.recorded_code import RecordedCode  # noqa: PLC0415 - rarely recorded
        from prospect.assembly.stacks.unwinding import with_whole_stacks  # noqa: PLC0415 - rarely recorded

        code = RecordedCode(contexts, history, info, symbolizer)
        samples, stacks, copies, is_cut, short = with_whole_stacks(
            samples, contexts, code, info, is_cut=is_cut, announce=announce
        )
        del code
        # Naming finds the files that it needs again, the smallest first.
        symbolizer.images.let_go()
    if runtimes is not None:
        from prospect.assembly.runtimes.runtime_callers import with_runtime_callers  # noqa: PLC0415 - rarely recorded

        # A stack with all of its Python frames is whole, even if the native stack was cut.
        begin, end = (column.take(runtimes.stacks.sample) for column in user_begin(samples))
        is_cut = is_cut.copy()
        is_cut[runtimes.stacks.sample] &= begin == end
        is_cut[runtimes.stacks.sample] |= runtimes.stacks.is_cut
        samples, stacks = with_runtime_callers(samples, stacks, runtimes)
    announce("putting call stacks together")
    samples, stacks = with_cut_ends(samples, is_cut), stacks.with_cut_ends(short)
    callers = distinct_callers(samples, contexts.of_sample, stacks)
    return SampleCallers(callers, *caller_addresses(callers, contexts), copies)


def named_stacks(
    found: SampleCallers, placement: Placement, location_index: I32, hits: Attribution
) -> tuple[StackTable, I32]:
    """Build the stacks when the addresses of hits and callers have names.

    Args:
        placement: of hits, then callers, then other addresses.
        location_index: i32[a] row of locations of each of these addresses.

    Returns:
        The table, and i32[n] each sample's own frame in it.
    """
    is_nowhere = placement.is_nowhere[len(hits) :]
    callers, row = without_strays(found.callers, found.row, is_nowhere)
    caller_location = location_index[len(hits) :].take(row)
    return build_stacks(callers, caller_location, hits, location_index[: len(hits)])


def caller_addresses(callers: Callers, contexts: UserContexts) -> tuple[Addresses, I64]:
    """Return the distinct addresses of all callers, and the row of each caller's address.

    The latter is i64[m + p]: of the callers of lists, then of `Callers.places`.
    """
    places = callers.places
    address = np.concatenate((callers.address, places.address))
    context = np.concatenate((callers.context, places.context))
    mode = np.concatenate((callers.mode, places.mode))
    code = (context.astype(np.int64) + 1 << _MODE_BITS | mode).astype(np.uint64)
    while True:
        row, first = numbered(mixed(address, random_seed()) + mixed(code, random_seed()))
        columns = (address, code)
        if all((column.take(first).take(row) == column).all() for column in columns):
            break
    context = context.take(first)
    return Addresses(
        process_row=np.append(contexts.process_row, np.int32(-1)).take(context),
        space=np.append(contexts.space, np.int32(-1)).take(context),
        epoch=np.append(contexts.epoch, np.int32(-1)).take(context),
        mode=mode.take(first),
        address=address.take(first),
    ), row


def without_strays(callers: Callers, row: I64, is_nowhere: Bools) -> tuple[Callers, I64]:
    """End each list of callers before its first address that is in no mapping.

    Code without frame pointers uses their register for other values, so a value read from there is
    no caller, nor is anything beyond it.

    Args:
        row: i64[m] address of each caller, from `caller_addresses`.
        is_nowhere: bool[a] whether these addresses are in no mapping.
    """
    is_stray = is_nowhere.take(row)
    if not is_stray.any():
        return callers, row
    of_places = is_stray[len(callers.address) :].take(callers.frames.value)
    is_stray = is_stray[: len(callers.address)]
    length = np.diff(callers.start)
    begin = np.repeat(callers.start[:-1], length)
    last_stray = np.maximum.accumulate(np.where(is_stray, np.arange(len(is_stray)), -1))
    is_kept = last_stray < begin
    before = np.zeros(len(is_stray) + 1, np.int64)
    np.cumsum(is_kept, out=before[1:])
    start = before.take(callers.start)
    # A stray and the frames after it are no callers.
    is_whole = np.diff(start) == length
    frames, outer = callers.frames, callers.outer
    frames = frames.with_before(np.where(_at(of_places, frames.before), -1, frames.before))
    outer = np.where(is_whole & ~_at(of_places, outer), outer, -1)
    frames, new_row = frames.kept(frames.reached(outer))
    kept = replace(
        callers,
        start=start,
        address=callers.address[is_kept],
        mode=callers.mode[is_kept],
        context=callers.context[is_kept],
        outer=new_row.take(outer),
        frames=frames,
    )
    return kept, np.append(row[: len(is_stray)][is_kept], row[len(is_stray) :])


def _at(column: Bools, rows: I32) -> Bools:
    """Return the values at rows, False at row -1."""
    return np.append(column, False).take(rows)


def build_stacks(
    callers: Callers, caller_location: I32, hits: Attribution, hit_location: I32
) -> tuple[StackTable, I32]:
    """Build the forest; return the table, and i32[n] each sample's own frame in it.

    Args:
        caller_location: i32[m + p] row of locations of each caller, and of each of the places.
        hit_location: i32[h] row of locations of each hit.
    """
    leaf = _frame(hit_location, hits.mode)
    leaf_of_hit, _ = numbered(leaf)
    pair, first_sample = numbered(leaf_of_hit.take(hits.sample_row) << 32 | callers.of_sample)
    of_callers = callers.of_sample.take(first_sample)
    in_lists = len(callers.address)
    lists = _Lists(
        frames=_frame(caller_location[:in_lists], callers.mode),
        begin=callers.start.take(of_callers),
        length=np.diff(callers.start).take(of_callers),
        outer=callers.outer.take(of_callers),
        leaf=leaf.take(hits.sample_row.take(first_sample)),
    )
    of_places = _frame(caller_location[in_lists:], callers.places.mode)
    outer = callers.frames._replace(value=of_places.take(callers.frames.value))
    whole, last = _joined(outer, lists)
    table, row = _merged(whole)
    return table, row.take(last).take(pair)


def _joined(outer: Forest, lists: _Lists) -> tuple[Forest, I64]:
    """Add lists to the forest of unwound stacks, each after its `outer` frame.

    Returns:
        The forest, and i64[c] the row of each stack's own frame.
    """
    depth_of = np.append(outer.depth, -1)
    # Most stacks have no frames between their own frame and the unwound ones.
    bare = np.flatnonzero(lists.length == 0)
    before = lists.outer.take(bare)
    leaves = Forest(before, depth_of.take(before) + np.int32(1), lists.leaf.take(bare))
    others = np.flatnonzero(lists.length)
    inner, last_of_inner = _forest(lists.take(others))
    # In the forest of the others, marked frames are rows of the outer forest.
    is_marked = inner.value >= _OUTER
    marked, own = np.flatnonzero(is_marked), np.flatnonzero(~is_marked)
    first = len(outer) + len(leaves)
    stands_for = np.empty(len(inner) + 1, np.int32)
    stands_for[own] = np.arange(first, first + len(own))
    stands_for[marked] = (inner.value.take(marked) & ~_OUTER).view(np.int64)
    stands_for[-1] = -1
    inner = Forest(
        stands_for.take(inner.before.take(own)), inner.depth.take(own), inner.value.take(own)
    )
    none = np.array([-1], np.int32)
    whole = Forest(
        np.concatenate((outer.before, before, inner.before)),
        np.concatenate((outer.depth, leaves.depth, inner.depth, none)),
        np.concatenate((outer.value, leaves.value, inner.value)),
    )
    for rows in inner.levels():
        at = rows + first
        whole.depth[at] = whole.depth.take(whole.before.take(at)) + 1
    last = np.empty(len(lists.length), np.int64)
    last[bare] = np.arange(len(outer), first)
    last[others] = stands_for.take(last_of_inner)
    return whole._replace(depth=whole.depth[:-1]), last


def _frame(location: I32, mode: U8) -> U64:
    return location.astype(np.uint64) << np.uint64(_MODE_BITS) | mode


class _Lists(NamedTuple):
    """Distinct stacks: callers from the inside out, and the sample's own frame.

    `frames` u64[m] are callers, from `_frame`; those of a stack are `begin` to `begin` + `length`,
    i64[c] each. After these comes `outer` i32[c], a row of `Callers.frames` or -1. `leaf` u64[c] is
    the sample's own frame.
    """

    frames: U64
    begin: I64
    length: I64
    outer: I32
    leaf: U64

    def take(self, rows: I64) -> _Lists:
        begin, length = self.begin.take(rows), self.length.take(rows)
        return _Lists(self.frames, begin, length, self.outer.take(rows), self.leaf.take(rows))

    def blocks(self) -> Iterator[_Lists]:
        """Yield stacks whose frames, and their temporaries, fit into a cache."""
        for first, last in _blocks(self.length + 2):
            yield self.take(np.arange(first, last))


def _blocks(length: I64) -> Iterator[tuple[int, int]]:
    """Return bounds of rows of about `BLOCK_WORDS` words together."""
    end = np.cumsum(length)
    total = int(end[-1]) if len(end) else 0
    edges = np.searchsorted(end, np.arange(0, total, BLOCK_WORDS))
    return itertools.pairwise(distinct(np.array([0, *edges, len(end)])).tolist())


def _forest(lists: _Lists) -> tuple[Forest, I32]:
    """Put stacks into a forest, and return i32[c] the row of each one's own frame.

    The first value of a stack with an `outer` frame is `_OUTER` and this frame.
    """
    parts, rows, size = [], [np.empty(0, np.int32)], 0
    for block in lists.blocks():
        goes_on = block.outer >= 0
        length = block.length + 1 + goes_on
        end = np.cumsum(length)
        frames = np.empty(int(end[-1]), np.uint64)
        frames[end - 1] = block.leaf
        frames[(end - length)[goes_on]] = _OUTER | block.outer[goes_on].astype(np.uint64)
        # Callers are ordered from the inside out; the forest grows from the outside in.
        inside_out = segments(1 - block.begin - block.length, block.length)
        at = segments(end - 1 - block.length, block.length)
        frames[at] = block.frames.take(-inside_out)
        part, last = forest_of_lists(frames, length)
        parts.append(part)
        rows.append(last + np.int32(size))
        size += len(part)
    if not parts:
        none = np.empty(0, np.int32)
        return Forest(none, none, np.empty(0, np.uint64)), none
    return joined_forests(parts), np.concatenate(rows)


def _merged(forest: Forest) -> tuple[StackTable, I32]:
    """Merge equal frames of one caller; return the table, and i32[t] the row of each frame."""
    row = np.full(len(forest) + 1, -1, np.int32)
    keys: list[U64] = [np.empty(0, np.uint64)]
    depth, size = [np.empty(0, np.int32)], 0
    for number, rows in enumerate(forest.levels()):
        caller = row.take(forest.before.take(rows)) + 1
        key = caller.astype(np.uint64) << _FRAME_BITS
        key |= forest.value.take(rows)
        place, first = numbered(key)
        row[rows] = place + size
        keys.append(key.take(first))
        depth.append(np.full(len(first), number, np.int32))
        size += len(first)
    key = np.concatenate(keys)
    frame = key & (np.uint64(1) << _FRAME_BITS) - np.uint64(1)
    return StackTable(
        caller_index=(key >> _FRAME_BITS).astype(np.int32) - np.int32(1),
        location_index=(frame >> np.uint64(_MODE_BITS)).astype(np.int32),
        mode=(frame & np.uint64((1 << _MODE_BITS) - 1)).astype(np.uint8),
        depth=np.concatenate(depth),
    ), row


class Callers(Record):
    """Distinct lists of callers; the callers of row c are `start[c]` to `start[c + 1]`.

    After these come those of an unwound stack: `outer[c]` and its callers in `frames`.

    Attributes:
        of_sample: i32[n] the list of each sample.
        start: i64[c + 1].
        address: u64[m] AVMA from the inside out, each within the instruction that called.
        mode: u8[m] PERF_RECORD_MISC_CPUMODE, CPUMODE_CUT after the last frame of a cut chain; 0 for
            unknown contexts.
        context: i32[m] row of `UserContexts` for user mode, -1 for other modes.
        outer: i32[c] row of `frames`, -1 for none.
        frames: a forest of frames of user mode, each after its caller; rows of `places`.
        places: of these frames.
    """

    of_sample: I32
    start: I64
    address: U64
    mode: U8
    context: I32
    outer: I32
    frames: Forest
    places: Places


class Places(NamedTuple):
    """Distinct places of frames in user mode: rows of `UserContexts` i32[p], and AVMA u64[p].

    A place without a context is that of the frame [cut].
    """

    context: I32
    address: U64

    @property
    def mode(self) -> U8:
        """u8[p]: as in `Callers`."""
        mode = np.full(len(self.context), abi.PERF_RECORD_MISC_USER, np.uint8)
        mode[self.context < 0] = CPUMODE_CUT
        return mode


class _Tails(Record):
    """The callers in the samples' chains: words `begin` to `begin + length` of `words`.

    `mode` u8[n] is that of the first words, before any context word. `context` i32[n] is the
    sample's row of `UserContexts`, -1 if no word of the tail is one of user mode. `outer` i32[n]
    is the frame of an unwound stack that is the next caller, -1 for none.
    """

    words: U64
    begin: I64
    length: I64
    mode: U8
    context: I32
    outer: I32

    def blocks(self) -> Iterator[slice]:
        """Yield slices of rows whose words, and their temporaries, fit into a cache."""
        for first, last in _blocks(self.length):
            yield slice(first, last)


def distinct_callers(samples: Samples, context: I32, stacks: UserStacks) -> Callers:
    """Find the distinct lists of callers.

    Args:
        samples: a sample without a chain has no callers.
        context: i32[n] each sample's row of `UserContexts`.
        stacks: unwound stacks, which replace the user part of chains.
    """
    tails = _tails(samples, context, stacks)
    of_sample, first = _equal_tails(tails)
    return _decoded(gather(tails, first, "words"), of_sample, stacks)


def _tails(samples: Samples, context: I32, stacks: UserStacks) -> _Tails:
    words = np.empty(0, np.uint64) if samples.chain is None else samples.chain
    begin = chain_begin(samples)
    user, end = user_begin(samples)
    outer = stacks.innermost
    is_unwound = outer >= 0
    length = np.where(is_unwound, user, end) - begin
    own_context = _CONTEXT_OF_MODE.take(samples.mode)
    is_own = (length > 1) & (own_context > 0)
    rows = np.flatnonzero(is_own)
    is_own[rows] = words.take(begin.take(rows)) == own_context.take(rows)
    # The sample has the interrupted instruction, with hardware support more exactly.
    is_own_frame = is_unwound & own_frames(samples, user)
    outer = np.where(is_own_frame, np.append(stacks.frames.before, -1).take(outer), outer)
    begin, length = begin + is_own * 2, length - is_own * 2
    mode = np.where(is_own & (length > 0), samples.mode, _NO_MODE)
    is_user = (mode == abi.PERF_RECORD_MISC_USER) | (outer >= 0)
    marks = np.flatnonzero(words == USER_CONTEXT)
    is_user |= np.searchsorted(marks, begin) < np.searchsorted(marks, begin + length)
    context = np.where(is_user, context, np.int32(-1))
    return _Tails(words, begin, length, mode, context, outer.astype(np.int32))


def _equal_tails(tails: _Tails) -> tuple[I32, I64]:
    """Return each tail's number, i32[n], and the first tail of each number, i64[c]."""
    while True:
        number, first = numbered(_hashes(tails, random_seed()))
        if _are_equal(tails, first.take(number)):
            return number.astype(np.int32), first


def _hashes(tails: _Tails, seed: np.uint64) -> U64:
    """Return u64[n] a hash of each tail and its other columns."""
    facts = tails.mode.astype(np.uint64) << np.uint64(32) | tails.context.astype(np.uint32)
    hashes = mixed(mixed(facts, seed) + tails.outer.view(np.uint32), seed)
    for rows in tails.blocks():
        length = tails.length[rows]
        end = np.cumsum(length)
        place = np.arange(int(end[-1])) - np.repeat(end - length, length)
        words = tails.words.take(segments(tails.begin[rows], length))
        total = np.zeros(len(words) + 1, np.uint64)
        np.cumsum(mixed_at(words, place, seed), out=total[1:])
        hashes[rows] += total.take(end) - total.take(end - length)
    return hashes


def _are_equal(tails: _Tails, other: I64) -> bool:
    """Return whether each tail is the same as that of row `other`."""
    columns: tuple[Ints, ...]
    columns = tails.length, tails.mode, tails.context, tails.outer
    if any((column.take(other) != column).any() for column in columns):
        return False
    begin = tails.begin.take(other)
    for rows in tails.blocks():
        length = tails.length[rows]
        words = tails.words.take(segments(tails.begin[rows], length))
        if (tails.words.take(segments(begin[rows], length)) != words).any():
            return False
    return True


def _decoded(tails: _Tails, of_sample: I32, stacks: UserStacks) -> Callers:
    """Read context words, and turn return addresses into addresses of calls."""
    words = tails.words.take(segments(tails.begin, tails.length))
    end = np.cumsum(tails.length)
    is_context = words >= LOWEST_CONTEXT
    # The last context word at or before each word, which sets its mode; -1 for the start.
    set_at = np.where(is_context, np.arange(len(words)), -1)
    start_of_word = np.repeat(end - tails.length, tails.length)
    set_at = np.maximum.accumulate(set_at) if len(set_at) else set_at
    negated = (~words.take(np.maximum(set_at, 0)) + np.uint64(1)).view(np.int64)
    mode = np.where(
        set_at < start_of_word,
        np.repeat(tails.mode, tails.length),
        _MODE_OF_WORD.take(negated, mode="clip"),
    )
    # After a context word comes the instruction; all other words are return addresses.
    is_return = np.ones(len(words), np.bool_)
    is_return[1:] = ~is_context[:-1]
    is_return[(end - tails.length)[tails.length > 0]] = True
    is_return &= words > 0
    # Innermost frames of samples are no callers.
    frames, new_row = stacks.frames.kept(stacks.frames.reached(tails.outer))
    is_met = np.zeros(len(stacks.address), np.bool_)
    is_met[frames.value] = True
    place = np.cumsum(is_met, dtype=np.int32) - np.int32(1)
    kept = np.flatnonzero(~is_context)
    before = np.zeros(len(words) + 1, np.int64)
    np.cumsum(~is_context, out=before[1:])
    mode = mode.take(kept)
    is_user = mode == abi.PERF_RECORD_MISC_USER
    context = np.repeat(tails.context, tails.length).take(kept)
    return Callers(
        of_sample=of_sample,
        start=before.take(np.append(0, end)),
        address=words.take(kept) - is_return.take(kept),
        mode=mode,
        context=np.where(is_user, context, np.int32(-1)),
        outer=new_row.take(tails.outer),
        frames=frames._replace(value=place.take(frames.value)),
        places=Places(stacks.context[is_met], stacks.address[is_met]),
    )


def with_shown_copies(
    samples: Samples,
    hits: Attribution,
    history: ProcessHistory,
    info: RecordingInfo,
    detail: Detail,
) -> Samples:
    """Return samples without copies of the stacks of processes that `-V` does not show.

    Unwinding those would take most of the time of a first screen on a busy machine.
    """
    user = samples.user
    if user is None or detail not in ("2", "3"):
        return samples
    shown = shown_processes(describe_processes(history, info), detail)
    process = hits.process_row.take(hits.sample_row.take(user.sample))
    rows = np.flatnonzero(np.append(shown, False).take(process))
    return replace(samples, user=user.chosen(rows))
