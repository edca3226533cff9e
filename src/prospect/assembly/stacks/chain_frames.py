"""Words of call chains: kernel frames in blocks of samples, user parts, cut ends.

All words of `ChainFrames` are addresses just after an instruction.
Source: ``kernel/events/callchain.c`` get_perf_callchain() (Linux 6.18): PERF_CONTEXT_KERNEL, the
interrupted instruction, return addresses from the inside out, then other contexts, if any.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from prospect.abi import constants as abi
from prospect.columns.buffers import segments
from prospect.columns.sorting import distinct
from prospect.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prospect.abi.attr import EventDescription
    from prospect.columns.array_types import I64, U64, Bools
    from prospect.events.record_columns import Samples

# A block's columns and their temporaries (8 bytes an element) stay in the second-level cache.
BLOCK_WORDS = 1 << 16


def context_word(context: int) -> np.uint64:
    """Return a PERF_CONTEXT_* as it is in a chain: the negative number in 64 bits."""
    return np.uint64(context % (1 << 64))


KERNEL_CONTEXT = context_word(abi.PERF_CONTEXT_KERNEL)
USER_CONTEXT = context_word(abi.PERF_CONTEXT_USER)
LOWEST_CONTEXT = context_word(abi.PERF_CONTEXT_MAX)
# Our own, after the outermost frame of a cut chain; the kernel has no such context and no such
# mode. Stacks show the frame after it as [cut].
CUT_CONTEXT = LOWEST_CONTEXT
CPUMODE_CUT = 7


class ChainFrames(Record):
    """The chains of one block of samples.

    Attributes:
        words: u64[m] frames, each the address after a call; the interrupted instruction plus 1;
            context words; 0 for addresses in the lower half of the address space.
        start, end: i64[s] begin of the kernel frames of each sample, and end of its chain.
        is_kernel: bool[s] whether the sample is the kernel's, with a chain that begins there.
    """

    samples: slice
    words: U64
    start: I64
    end: I64
    is_kernel: Bools


def frame_blocks(samples: Samples) -> Iterator[ChainFrames]:
    """Yield the chains of all samples that have any."""
    chain, chain_start = samples.chain, samples.chain_start
    if chain is None or chain_start is None:
        return
    edges = np.searchsorted(chain_start, np.arange(0, len(chain), BLOCK_WORDS), side="right") - 1
    edges = distinct(np.append(edges, len(samples))).tolist()
    for first, last in itertools.pairwise(edges):
        begin, behind = int(chain_start[first]), int(chain_start[last])
        raw = chain[begin:behind]
        signed = raw.view(np.int64)
        words = raw.copy() if signed.max() < 0 else np.where(signed < 0, raw, np.uint64(0))
        start = chain_start[first:last] - begin
        end = chain_start[first + 1 : last + 1] - begin
        is_kernel = samples.mode[first:last] == abi.PERF_RECORD_MISC_KERNEL
        is_kernel &= end - start > 1
        is_kernel &= words.take(start, mode="clip") == KERNEL_CONTEXT
        start = start + 1
        words[start[is_kernel]] += np.uint64(1)
        yield ChainFrames(slice(first, last), words, start, end, is_kernel)


def chain_begin(samples: Samples) -> I64:
    """Return i64[n] the begin of each sample's chain."""
    if samples.chain is None or samples.chain_start is None:
        return np.zeros(len(samples), np.int64)
    return samples.chain_start[:-1]


def user_begin(samples: Samples) -> tuple[I64, I64]:
    """Return i64[n] the begin of the user part of each sample's chain, and i64[n] the chain's end.

    The user part begins at its context word; without one, at the chain's end.
    """
    if samples.chain is None or samples.chain_start is None:
        none = np.zeros(len(samples), np.int64)
        return none, none
    marks = np.flatnonzero(samples.chain == USER_CONTEXT)
    begin, end = samples.chain_start[:-1], samples.chain_start[1:]
    following = np.append(marks, len(samples.chain)).take(np.searchsorted(marks, begin))
    return np.minimum(following, end), end


def own_frames(samples: Samples, user: I64) -> Bools:
    """Return bool[n] whether each sample's first frame of user mode is its own and no caller.

    `user` i64[n] is the begin of each user part, from `user_begin`.
    """
    is_user: Bools = samples.mode == abi.PERF_RECORD_MISC_USER
    is_user &= user == chain_begin(samples)
    return is_user


def cut_chains(samples: Samples, events: Sequence[EventDescription]) -> Bools:
    """Return bool[n] which samples have a call chain as long as the kernel's limit.

    If an event has longer chains than its limit, the actual limit is unknown, and none of its
    chains counts as cut.
    """
    is_cut = np.zeros(len(samples), np.bool_)
    if samples.chain is None or samples.chain_start is None:
        return is_cut
    limit = np.array([event.attr.most_frames for event in events], np.int64)
    length = np.diff(samples.chain_start)
    rows = np.flatnonzero(length >= np.maximum(limit.take(samples.event), 1))
    if not len(rows):
        return is_cut
    each = length.take(rows)
    words = samples.chain.take(segments(samples.chain_start.take(rows), each))
    frames = np.add.reduceat(words < LOWEST_CONTEXT, np.cumsum(each) - each, dtype=np.int64)
    event = samples.event.take(rows)
    longest = np.zeros(len(limit), np.int64)
    np.maximum.at(longest, event, frames)
    is_cut[rows] = (frames == limit.take(event)) & (longest <= limit).take(event)
    return is_cut


def cut_by_process(
    samples: Samples, is_cut: Bools, events: Sequence[EventDescription]
) -> tuple[tuple[int, int], ...]:
    """Return processes and the number of their samples with cut chains, bool[n].

    None if stacks were copied, as `StackCopies` has this then.
    """
    if any(event.attr.sample_stack_user for event in events):
        return ()
    task = samples.task[is_cut]
    pid, count = np.unique(task & np.uint64(0xFFFF_FFFF), return_counts=True)
    return tuple(zip(pid.tolist(), count.tolist(), strict=True))


def with_cut_ends(samples: Samples, is_cut: Bools) -> Samples:
    """Return the samples with a frame [cut] after the outermost frame of the chains `is_cut`."""
    rows = np.flatnonzero(is_cut)
    if not len(rows):
        return samples
    chain, start = samples.chain, samples.chain_start
    if chain is None or start is None:
        chain, start = np.empty(0, np.uint64), np.zeros(len(samples) + 1, np.int64)
    cut = np.tile(np.array([CUT_CONTEXT, 0], np.uint64), len(rows))
    return replace(
        samples,
        chain=np.insert(chain, start[1:].take(rows).repeat(2), cut),
        chain_start=start + 2 * np.append(0, np.cumsum(is_cut)),
    )
