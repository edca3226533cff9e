"""Callers of samples → the forest of a profile's call stacks.

Comes in: `Callers`, whose addresses were named together with those of the hits, and the hit of each
sample. Goes out: `StackTable`, and each sample's row of it. All stacks are hashed from their
outermost frame on in one pass: equal beginnings have equal hashes, and what has equal hashes is
compared.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from prospect.assembly.placing.places import Addresses
from prospect.assembly.stacks.chain_frames import BLOCK_WORDS
from prospect.columns.buffers import segments
from prospect.columns.hashing import mixed, mixed_at, random_seed
from prospect.columns.sorting import distinct, numbered
from prospect.profile.model import StackTable
from prospect.records import NamedTuple, replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from prospect.assembly.stacks.chains import Callers
    from prospect.assembly.stacks.user_contexts import UserContexts
    from prospect.spaces.attribution import Attribution

_MODE_BITS = 3


def caller_addresses(
    callers: Callers, contexts: UserContexts
) -> tuple[Addresses, NDArray[np.int64]]:
    """Return the distinct addresses of all callers, and each caller's row of them, i64[m]."""
    code = (callers.context.astype(np.int64) + 1 << _MODE_BITS | callers.mode).astype(np.uint64)
    while True:
        row, first = numbered(mixed(callers.address, random_seed()) + mixed(code, random_seed()))
        columns = (callers.address, code)
        if all((column.take(first).take(row) == column).all() for column in columns):
            break
    context = callers.context.take(first)
    return Addresses(
        process_row=np.append(contexts.process_row, np.int32(-1)).take(context),
        space=np.append(contexts.space, np.int32(-1)).take(context),
        epoch=np.append(contexts.epoch, np.int32(-1)).take(context),
        mode=callers.mode.take(first),
        address=callers.address.take(first),
    ), row


def joined(hits: Attribution | Addresses, callers: Addresses) -> Addresses:
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
    lists = _Lists(
        frames=_frame(caller_location, callers.mode),
        begin=callers.start.take(of_callers),
        length=np.diff(callers.start).take(of_callers),
        leaf=leaf.take(hits.sample_row.take(first_sample)),
    )
    while True:
        found = _forest(lists, random_seed())
        if found:
            return found[0], found[1].take(pair)


def _frame(location: NDArray[np.int32], mode: NDArray[np.uint8]) -> NDArray[np.uint64]:
    return location.astype(np.uint64) << np.uint64(_MODE_BITS) | mode


class _Lists(NamedTuple):
    """Distinct stacks: callers from the inside out, and the sample's own frame.

    `frames` u64[m] are callers, as `_frame` has them; those of a stack are `begin` to `begin` +
    `length`, i64[c] each. `leaf` u64[c] is the sample's own frame.
    """

    frames: NDArray[np.uint64]
    begin: NDArray[np.int64]
    length: NDArray[np.int64]
    leaf: NDArray[np.uint64]

    def blocks(self) -> Iterator[_Lists]:
        """Yield stacks whose frames, and their temporaries, fit into a cache."""
        end = np.cumsum(self.length + 1)
        total = int(end[-1]) if len(end) else 0
        edges = np.searchsorted(end, np.arange(0, total, BLOCK_WORDS))
        for first, last in itertools.pairwise(distinct(np.array([0, *edges, len(end)])).tolist()):
            yield _Lists(
                self.frames, self.begin[first:last], self.length[first:last], self.leaf[first:last]
            )


class _Frames(NamedTuple):
    """Frames of stacks, outermost first, without most that were in the stack before.

    A frame that was not (`is_new`) stands right behind its caller. `hash` is of the frame and all
    its callers; `is_leaf` marks the samples' own frames.
    """

    frame: NDArray[np.uint64]
    depth: NDArray[np.int64]
    hash: NDArray[np.uint64]
    is_new: NDArray[np.bool_]
    is_leaf: NDArray[np.bool_]


def _forest(lists: _Lists, seed: np.uint64) -> tuple[StackTable, NDArray[np.int32]] | None:
    """Merge equal beginnings of stacks.

    Returns:
        The table, and i32[c] the row of each stack's own frame; None if hashes collide.
    """
    parts = [_changed_frames(block, seed) for block in lists.blocks()]
    if not parts:
        none = np.empty(0, np.int32)
        return StackTable(none, none, np.empty(0, np.uint8), none), none
    found = _Frames(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    # What comes first comes behind its caller: the rows are in an order fit for a forest.
    row, first = numbered(found.hash)
    caller = np.where(found.depth > 0, np.append(-1, row[:-1]), -1)
    # What was in the stack before is equal to something new.
    new = np.flatnonzero(found.is_new)
    same = first.take(row.take(new))
    columns = (found.frame, found.depth, caller)
    if any((column.take(new) != column.take(same)).any() for column in columns):
        return None
    frame = found.frame.take(first)
    return StackTable(
        caller_index=caller.take(first).astype(np.int32),
        location_index=(frame >> np.uint64(_MODE_BITS)).astype(np.int32),
        mode=(frame & np.uint64((1 << _MODE_BITS) - 1)).astype(np.uint8),
        depth=found.depth.take(first).astype(np.int32),
    ), row[found.is_leaf].astype(np.int32)


def _changed_frames(lists: _Lists, seed: np.uint64) -> _Frames:
    """Return the frames of some stacks; samples of a thread share most with the one before."""
    length = lists.length + 1
    end = np.cumsum(length)
    is_leaf = np.zeros(int(end[-1]), np.bool_)
    is_leaf[end - 1] = True
    frames = np.empty(len(is_leaf), np.uint64)
    frames[end - 1] = lists.leaf
    # Callers stand from the inside out; the forest grows from the outside in.
    inside_out = segments(1 - lists.begin - lists.length, lists.length)
    frames[~is_leaf] = lists.frames.take(-inside_out)
    place, begin = np.arange(len(frames)), np.repeat(end - length, length)
    before = np.repeat(np.append(0, length[:-1]), length)
    differs = (place - begin >= before) | (frames.take(place - before) != frames)
    is_new = np.maximum.accumulate(np.where(differs, place, -1)) >= begin
    is_asked = is_new | is_leaf
    is_asked[:-1] |= is_new[1:]
    asked = np.flatnonzero(is_asked)
    total = np.zeros(len(frames) + 1, np.uint64)
    np.cumsum(mixed_at(frames, place - begin, seed), out=total[1:])
    begin = begin.take(asked)
    return _Frames(
        frame=frames.take(asked),
        depth=asked - begin,
        hash=total.take(asked + 1) - total.take(begin),
        is_new=is_new.take(asked),
        is_leaf=is_leaf.take(asked),
    )
