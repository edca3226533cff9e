"""Stacks of samples in user space: each sample's address space, its chain's words, unwound stacks.

The kernel's part of a stack is always in the chain of its sample. The user part is in the chain as
the kernel would have written it (the PERF_CONTEXT_USER word, the instruction, return addresses from
the inside out), or in `UserStacks` if it was unwound here. Hits have an address space only in user
mode, but call chains lead from the kernel back into it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.assembly.stacks.chain_frames import USER_CONTEXT, chain_begin, user_begin
from prospect.columns.buffers import segments
from prospect.columns.forests import Forest, joined_forests
from prospect.columns.sorting import numbered
from prospect.records import NamedTuple, Record, replace
from prospect.spaces.attribution import look_up_tasks

if TYPE_CHECKING:
    from prospect.columns.array_types import I32, I64, U64
    from prospect.events.record_columns import Samples
    from prospect.spaces.task_timeline import Timeline
    from prospect.unwind.interface import Unwound


class UserContexts(Record):
    """Distinct address spaces, each in the states that it had at samples.

    Attributes:
        of_sample: i32[n] row of the columns below, for each sample.
        space, epoch: i32[c] for `AddressSpaces.locate`.
        process_row: i32[c] a process in that state; others may share it.
    """

    of_sample: I32
    space: I32
    epoch: I32
    process_row: I32


def find_user_contexts(samples: Samples, timeline: Timeline) -> UserContexts:
    """Find the state of the address space of every sample."""
    states = look_up_tasks(samples, timeline)
    space, epoch = timeline.space.take(states.change), timeline.epoch.take(states.change)
    packed = space.astype(np.int64) << 32 | epoch.astype(np.int64) & 0xFFFFFFFF
    row, first = numbered(packed)
    runs = zip(states.pair, states.length, strict=True)
    of_sample = [row.take(pair).astype(np.int32).repeat(length) for pair, length in runs]
    return UserContexts(
        of_sample=np.concatenate(of_sample) if of_sample else np.empty(0, np.int32),
        space=space.take(first),
        epoch=epoch.take(first),
        process_row=timeline.process_row.take(states.change.take(first)),
    )


class Chains(NamedTuple):
    """Concatenated words of samples; each sample has `length` i64[n] of them."""

    length: I64
    words: U64


def user_parts(samples: Samples, of_sample: I64) -> Chains:
    """Return the frames of user space that the kernel recorded for some samples."""
    begin, end = (column.take(of_sample) for column in user_begin(samples))
    length = np.maximum(end - begin - 1, 0)
    words = np.empty(0, np.uint64) if samples.chain is None else samples.chain
    return Chains(length, words.take(segments(begin + 1, length)))


def with_user_part(samples: Samples, of_sample: I64, frames: Chains) -> Samples:
    """Return the samples with new frames of user space for the rows `of_sample`, i64[k] ascending.

    Samples for which `frames` has none keep theirs.
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


class UserStacks(Record):
    """The user part of samples' stacks.

    Attributes:
        frames: a forest of frames, rows of the columns below, each after its caller.
        innermost: i32[n] row of `frames` for each sample, -1 if its chain has all known frames.
        context: i32[s] row of `UserContexts` of each place.
        address: u64[s] AVMA within the calling instruction; the pc of an innermost frame.
    """

    frames: Forest
    innermost: I32
    context: I32
    address: U64

    def with_cut_ends(self, of_sample: I64) -> UserStacks:
        """Return the stacks with an outermost frame [cut] for some samples, i64[k]."""
        rows = self.innermost.take(of_sample)
        of_sample, rows = of_sample[rows >= 0], rows[rows >= 0]
        if not len(rows):
            return self
        # Whole stacks may have the same outermost frames, so those of cut stacks are copied.
        frames, new_row = self.frames.kept(self.frames.reached(rows))
        none = np.array([-1], np.int32)
        place = np.array([len(self.address)], frames.value.dtype)
        cut = Forest(
            np.concatenate((none, frames.before + np.int32(1))),
            np.concatenate((none, frames.depth)) + np.int32(1),
            np.concatenate((place, frames.value)),
        )
        innermost = self.innermost.copy()
        innermost[of_sample] = new_row.take(rows) + np.int32(len(self.frames) + 1)
        return UserStacks(
            frames=joined_forests([self.frames, cut]),
            innermost=innermost,
            context=np.append(self.context, np.int32(-1)),
            address=np.append(self.address, np.uint64(0)),
        )

    def without(self, of_sample: I64) -> UserStacks:
        """Return the stacks without those of some samples, i64[k]."""
        innermost = self.innermost.copy()
        innermost[of_sample] = -1
        return replace(self, innermost=innermost)

    def chains(self, of_sample: I64) -> Chains:
        """Return the stacks of some samples, i64[k], as the kernel would have written them."""
        start, frame = self.frames.lists(self.innermost.take(of_sample))
        length = np.diff(start)
        words = self.address.take(self.frames.value.take(frame)) + np.uint64(1)
        # The innermost word is no return address.
        words[start[:-1][length > 0]] -= np.uint64(1)
        return Chains(length, words)


def no_user_stacks(samples: int) -> UserStacks:
    """Return the stacks of samples without unwound stacks."""
    none = np.zeros(0, np.int32)
    innermost = np.full(samples, -1, np.int32)
    return UserStacks(Forest(none, none, none), innermost, none, np.zeros(0, np.uint64))


def stacks_of_unwound(unwound: Unwound, of_sample: I64, samples: int) -> UserStacks:
    """Return the stacks of samples, of which those at i64[k] `of_sample` were unwound."""
    innermost = np.full(samples, -1, np.int32)
    innermost[of_sample] = unwound.innermost
    sites = unwound.sites
    # In a chain, an interrupted instruction further out looks like a call.
    address = sites.address - sites.is_interrupted
    return UserStacks(unwound.stacks, innermost, sites.context, address)
