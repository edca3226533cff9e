"""Callers of samples → the forest of a profile's call stacks.

Comes in: `Callers`, whose addresses were named together with those of the hits, and the hit of each
sample. Goes out: `StackTable`, and each sample's row of it. All stacks are hashed from their
outermost frame on in one pass: equal beginnings have equal hashes, and what has equal hashes is
compared.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from prospect.assembly.hashing import mixed_at, random_seed
from prospect.assembly.places import Addresses
from prospect.assembly.word_set import word_set
from prospect.events.buffers import segments
from prospect.profile.model import StackTable
from prospect.spaces.sorting import numbered

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.assembly.chains import Callers
    from prospect.assembly.user_contexts import UserContexts
    from prospect.spaces.attribution import Attribution

_MODE_BITS = 3
_HALF = np.uint64(32)


def caller_addresses(
    callers: Callers, contexts: UserContexts
) -> tuple[Addresses, NDArray[np.int64]]:
    """Return the distinct addresses of all callers, and each caller's row of them, i64[m]."""
    code = (callers.context.astype(np.int64) + 1 << _MODE_BITS | callers.mode).astype(np.uint64)
    # Two steps, because an address has 64 bits and its process has more.
    rank = word_set(callers.address).find(callers.address) + 1
    packed = rank.view(np.uint64) << _HALF | code + np.uint64(1)
    row, first = numbered(packed)
    context = callers.context.take(first)
    return Addresses(
        process_row=np.append(contexts.process_row, np.int32(-1)).take(context),
        space=np.append(contexts.space, np.int32(-1)).take(context),
        epoch=np.append(contexts.epoch, np.int32(-1)).take(context),
        mode=callers.mode.take(first),
        address=callers.address.take(first),
    ), row


def joined(hits: Attribution, callers: Addresses) -> Addresses:
    """Return the addresses of the hits, and those of their callers behind them."""
    pairs = (
        np.concatenate((getattr(hits, name), getattr(callers, name)))
        for name in ("process_row", "space", "epoch", "mode", "address")
    )
    return Addresses(*pairs)


def without_strays(
    callers: Callers, row: NDArray[np.int64], is_nowhere: NDArray[np.bool_]
) -> tuple[Callers, NDArray[np.int64]]:
    """End each list of callers before its first address that is in no mapping.

    Code that keeps no frame pointer leaves in their place whatever it computes, and what was read
    from there is no caller, nor is anything beyond it.

    Args:
        callers: of the samples.
        row: i64[m] address of each caller, from `caller_addresses`.
        is_nowhere: bool[a] of these addresses.
    """
    is_stray = is_nowhere.take(row)
    length = np.diff(callers.start)
    begin = np.repeat(callers.start[:-1], length)
    last_stray = np.maximum.accumulate(np.where(is_stray, np.arange(len(row)), -1))
    is_kept = last_stray < begin
    before = np.zeros(len(row) + 1, np.int64)
    np.cumsum(is_kept, out=before[1:])
    kept = replace(
        callers,
        start=before.take(callers.start),
        address=callers.address[is_kept],
        mode=callers.mode[is_kept],
        context=callers.context[is_kept],
    )
    return kept, row[is_kept]


def build_stacks(
    callers: Callers,
    caller_location: NDArray[np.int32],
    hits: Attribution,
    hit_location: NDArray[np.int32],
) -> tuple[StackTable, NDArray[np.int32]]:
    """Build the forest.

    Args:
        callers: of the samples.
        caller_location: i32[m] row of locations of each caller.
        hits: of the samples.
        hit_location: i32[h] row of locations of each hit.

    Returns:
        The table, and i32[n] each sample's own frame in it.
    """
    leaf = _frame(hit_location, hits.mode)
    leaf_of_hit, _ = numbered(leaf)
    pair, first_sample = numbered(leaf_of_hit.take(hits.sample_row) << 32 | callers.of_sample)
    of_callers = callers.of_sample.take(first_sample)
    length = np.diff(callers.start).take(of_callers)
    end = np.cumsum(length + 1)
    frames = np.empty(int(end[-1]) if len(end) else 0, np.uint64)
    is_leaf = np.zeros(len(frames), np.bool_)
    is_leaf[end - 1] = True
    frames[is_leaf] = leaf.take(hits.sample_row.take(first_sample))
    # Callers stand from the inside out; the forest grows from the outside in.
    inside_out = segments(-callers.start.take(of_callers + 1) + 1, length)
    frames[~is_leaf] = _frame(caller_location, callers.mode).take(-inside_out)
    table, node = _forest(frames, np.repeat(end - length - 1, length + 1))
    return table, node.take(end - 1).astype(np.int32).take(pair)


def _frame(location: NDArray[np.int32], mode: NDArray[np.uint8]) -> NDArray[np.uint64]:
    return location.astype(np.uint64) << np.uint64(_MODE_BITS) | mode


def _forest(
    frames: NDArray[np.uint64], stack_begin: NDArray[np.int64]
) -> tuple[StackTable, NDArray[np.int64]]:
    """Merge equal beginnings of stacks.

    Args:
        frames: u64[k] the frames of one stack after another, outermost first.
        stack_begin: i64[k] place where the stack of each frame begins.

    Returns:
        The table, and i64[k] each frame's row of it.
    """
    depth = np.arange(len(frames)) - stack_begin
    while True:
        total = np.zeros(len(frames) + 1, np.uint64)
        np.cumsum(mixed_at(frames, depth, random_seed()), out=total[1:])
        # What comes first comes behind its caller: the rows are in an order fit for a forest.
        row, first = numbered(total[1:] - total.take(stack_begin))
        caller = np.where(depth > 0, np.append(-1, row[:-1])[: len(row)], -1)
        columns = (frames, depth, caller)
        if all((column == column.take(first).take(row)).all() for column in columns):
            break
    frame = frames.take(first)
    return StackTable(
        caller_index=caller.take(first).astype(np.int32),
        location_index=(frame >> np.uint64(_MODE_BITS)).astype(np.int32),
        mode=(frame & np.uint64((1 << _MODE_BITS) - 1)).astype(np.uint8),
        depth=depth.take(first).astype(np.int32),
    ), row
