"""Call chains of samples → the distinct lists of callers in them.

Unwound stacks replace the user part of chains. Equal chains of one address space are found by hash,
compared, and decoded once.
Source: ``kernel/events/callchain.c`` get_perf_callchain() (Linux 6.18): a context word, the
interrupted instruction, return addresses from the inside out; then the next context.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from prospect.abi import constants as abi
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
)
from prospect.columns.buffers import segments
from prospect.columns.hashing import mixed, mixed_at, random_seed
from prospect.columns.sorting import distinct, numbered
from prospect.records import NamedTuple, Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from prospect.assembly.stacks.user_stacks import UserStacks
    from prospect.columns.forests import Forest
    from prospect.events.record_columns import Samples

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
# The context word that a sample's own chain begins with, by its mode.
_CONTEXT_OF_MODE = np.zeros(8, np.uint64)
for _context, _mode in _MODE_OF_CONTEXT.items():
    _CONTEXT_OF_MODE[_mode] = context_word(_context)


class Callers(Record):
    """Distinct lists of callers; the callers of row c are `start[c]` to `start[c + 1]`.

    After these come those of an unwound stack: `outer[c]` and its callers in `frames`.

    Attributes:
        of_sample: i32[n] the list of each sample.
        start: i64[c + 1].
        address: u64[m] AVMA from the inside out, each within the instruction that called.
        mode: u8[m] PERF_RECORD_MISC_CPUMODE, CPUMODE_CUT after the last frame of a cut chain; 0 for
            contexts that are not known.
        context: i32[m] row of `UserContexts` for user mode, -1 for all else.
        outer: i32[c] row of `frames`, -1 for none.
        frames: a forest of frames of user mode, each behind its caller; rows of `places`.
        places: where these are.
    """

    of_sample: NDArray[np.int32]
    start: NDArray[np.int64]
    address: NDArray[np.uint64]
    mode: NDArray[np.uint8]
    context: NDArray[np.int32]
    outer: NDArray[np.int32]
    frames: Forest
    places: Places


class Places(NamedTuple):
    """Distinct places of frames in user mode: rows of `UserContexts` i32[p], and AVMA u64[p].

    A place without a context is that of the frame [cut].
    """

    context: NDArray[np.int32]
    address: NDArray[np.uint64]

    @property
    def mode(self) -> NDArray[np.uint8]:
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

    words: NDArray[np.uint64]
    begin: NDArray[np.int64]
    length: NDArray[np.int64]
    mode: NDArray[np.uint8]
    context: NDArray[np.int32]
    outer: NDArray[np.int32]

    def take(self, rows: NDArray[np.int64]) -> _Tails:
        return _Tails(
            self.words,
            self.begin.take(rows),
            self.length.take(rows),
            self.mode.take(rows),
            self.context.take(rows),
            self.outer.take(rows),
        )

    def blocks(self) -> Iterator[slice]:
        """Yield slices of rows whose words, and their temporaries, fit into a cache."""
        end = np.cumsum(self.length)
        total = int(end[-1]) if len(end) else 0
        edges = np.searchsorted(end, np.arange(0, total, BLOCK_WORDS))
        for first, last in itertools.pairwise(distinct(np.array([0, *edges, len(end)])).tolist()):
            yield slice(first, last)


def distinct_callers(samples: Samples, context: NDArray[np.int32], stacks: UserStacks) -> Callers:
    """Find the distinct lists of callers.

    Args:
        samples: of a recording; a sample without a chain has no callers.
        context: i32[n] each sample's row of `UserContexts`.
        stacks: what was unwound of their stacks, instead of the user part of their chains.
    """
    tails = _tails(samples, context, stacks)
    of_sample, first = _equal_tails(tails)
    return _decoded(tails.take(first), of_sample, stacks)


def _tails(samples: Samples, context: NDArray[np.int32], stacks: UserStacks) -> _Tails:
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
    # The sample itself says which instruction it interrupted; with hardware it may know better.
    is_own_frame = is_unwound & own_frames(samples, user)
    outer = np.where(is_own_frame, np.append(stacks.frames.before, -1).take(outer), outer)
    begin, length = begin + is_own * 2, length - is_own * 2
    mode = np.where(is_own & (length > 0), samples.mode, _NO_MODE)
    is_user = (mode == abi.PERF_RECORD_MISC_USER) | (outer >= 0)
    marks = np.flatnonzero(words == USER_CONTEXT)
    is_user |= np.searchsorted(marks, begin) < np.searchsorted(marks, begin + length)
    context = np.where(is_user, context, np.int32(-1))
    return _Tails(words, begin, length, mode, context, outer.astype(np.int32))


def _equal_tails(tails: _Tails) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return each tail's number, i32[n], and the first tail of each number, i64[c]."""
    while True:
        number, first = numbered(_hashes(tails, random_seed()))
        if _are_equal(tails, first.take(number)):
            return number.astype(np.int32), first


def _hashes(tails: _Tails, seed: np.uint64) -> NDArray[np.uint64]:
    """Return a hash of each tail and what else distinguishes it, u64[n]."""
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


def _are_equal(tails: _Tails, other: NDArray[np.int64]) -> bool:
    """Return whether each tail is the same as that of row `other`."""
    columns: tuple[NDArray[np.integer], ...] = (
        tails.length,
        tails.mode,
        tails.context,
        tails.outer,
    )
    if any((column.take(other) != column).any() for column in columns):
        return False
    begin = tails.begin.take(other)
    for rows in tails.blocks():
        length = tails.length[rows]
        words = tails.words.take(segments(tails.begin[rows], length))
        if (tails.words.take(segments(begin[rows], length)) != words).any():
            return False
    return True


def _decoded(tails: _Tails, of_sample: NDArray[np.int32], stacks: UserStacks) -> Callers:
    """Read context words, and turn return addresses into addresses of calls."""
    words = tails.words.take(segments(tails.begin, tails.length))
    end = np.cumsum(tails.length)
    is_context = words >= LOWEST_CONTEXT
    # The last place at or before each word where its mode was set: a context word, or the start.
    set_at = np.where(is_context, np.arange(len(words)), -1)
    start_of_word = np.repeat(end - tails.length, tails.length)
    set_at = np.maximum.accumulate(set_at) if len(set_at) else set_at
    negated = (~words.take(np.maximum(set_at, 0)) + np.uint64(1)).view(np.int64)
    mode = np.where(
        set_at < start_of_word,
        np.repeat(tails.mode, tails.length),
        _MODE_OF_WORD.take(negated, mode="clip"),
    )
    # After a context word comes the instruction itself; all others are where calls return to.
    is_return = np.ones(len(words), np.bool_)
    is_return[1:] = ~is_context[:-1]
    is_return[(end - tails.length)[tails.length > 0]] = True
    is_return &= words > 0
    # Frames that are only the innermost of samples are no callers.
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
