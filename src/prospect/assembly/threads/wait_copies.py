"""Copies of stacks at switches, each of whose pieces is recorded once.

Source: `prospect.capture.following.wait_stacks`, which defines the samples' raw data.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from typing import TYPE_CHECKING

import numpy as np

from prospect.assembly.assembly_limits import MOST_COPIED_BYTES
from prospect.columns.buffers import segments
from prospect.records import Record, replace

if TYPE_CHECKING:
    from prospect.abi.recorded_facts import RecordingInfo
    from prospect.columns.array_types import I64, U8, U64
    from prospect.events.record_columns import Events, RawData, UserStates


_WORD_BYTES = 8
_PIECE_WORDS = 64
_PIECE_BYTES = _PIECE_WORDS * _WORD_BYTES
# Larger copies are in a file without a name, which the kernel can write to disk.
_HELD_BYTES = 1 << 26
_NEW = np.uint64(1)
_ROWS_AT_ONCE = 1 << 12
_SP = {"x86_64": 7, "aarch64": 31}


class _Stacks(Record):
    """The stacks in raw data.

    Attributes:
        key: u64[s] ascending.
        begin: i64[s] first word of the keys of its pieces in the raw data.
        pieces: i64[s] number of its pieces.
        piece_key: u64[p] ascending.
        piece_begin: i64[p] first word of the piece in the raw data.
    """

    key: U64
    begin: I64
    pieces: I64
    piece_key: U64
    piece_begin: I64


def with_copies_of_waits(events: Events, info: RecordingInfo, row: int) -> Events:
    """Return the records with copies for the samples of switches, of event `row`, not raw data."""
    samples = events.samples
    data = samples.data
    if data is None:
        return events
    of_switch = samples.event.take(data.sample) == row
    chosen, others = np.flatnonzero(of_switch), np.flatnonzero(~of_switch)
    user = samples.user
    if user is not None and len(user) and len(chosen) and info.arch in _SP:
        user = _with_copies(user, data, chosen, _SP[info.arch])
    return replace(events, samples=replace(samples, user=user, data=data.chosen(others)))


def _with_copies(states: UserStates, data: RawData, chosen: I64, sp_number: int) -> UserStates:
    """Return the states with copies, for the chosen rows of raw data."""
    size = data.sizes(chosen)
    chosen, size = chosen[size >= _WORD_BYTES], size[size >= _WORD_BYTES]
    # A size of 32 bits precedes them, so words begin in the middle of recorded ones.
    words = data.shifted_words()
    begin = data.start.take(chosen)
    key = words.take(begin)
    found = _stacks(words, key, begin + 1, size)
    stack_pointer = states.register(sp_number)
    if stack_pointer is None or not len(found.piece_key):
        return states
    row = np.minimum(np.searchsorted(states.sample, data.sample.take(chosen)), len(states) - 1)
    stack = np.minimum(np.searchsorted(found.key, key), len(found.key) - 1)
    sp = stack_pointer.take(row)
    is_known = states.sample.take(row) == data.sample.take(chosen)
    is_known &= found.key.take(stack) == key
    is_known &= sp % np.uint64(_WORD_BYTES) == 0
    row, stack, sp = row[is_known], stack[is_known], sp[is_known]
    most = int(found.pieces.max(initial=0)) * _PIECE_BYTES
    used, block = _room(np.unique(stack), most)
    held_bytes = _copy(words, found, used, block)
    place = np.minimum(np.searchsorted(used, stack), max(len(used) - 1, 0))
    is_held = used.take(place) == stack if len(used) else np.zeros(len(stack), np.bool_)
    row, place, sp = row[is_held], place[is_held], sp[is_held]
    offset = (sp % np.uint64(_PIECE_BYTES)).astype(np.int64)
    columns = {
        name: getattr(states, name).copy() for name in ("stack_block", "stack_begin", "stack_bytes")
    }
    columns["stack_block"][row] = len(states.blocks)
    columns["stack_begin"][row] = place * most + offset
    columns["stack_bytes"][row] = np.maximum(held_bytes.take(place) - offset, 0)
    return replace(states, blocks=(*states.blocks, block), **columns)


def _stacks(words: U64, key: U64, begin: I64, size: I64) -> _Stacks:
    """Find the stacks and the pieces in raw data; leave out damaged ones."""
    body = size // _WORD_BYTES - 1
    pieces, new = body % _PIECE_WORDS, body // _PIECE_WORDS
    listed = np.flatnonzero(body > 0)
    at = segments(begin.take(listed), pieces.take(listed))
    of_stack = np.repeat(np.arange(len(listed)), pieces.take(listed))
    is_new = (words.take(at) & _NEW) > 0
    counted = np.bincount(of_stack, is_new, len(listed)).astype(np.int64)
    whole = counted == new.take(listed)
    kept = np.flatnonzero(is_new & whole.take(of_stack))
    # The number of each new piece within its sample.
    owner = of_stack.take(kept)
    number = np.arange(len(kept)) - np.searchsorted(owner, owner)
    bodies = (begin + pieces).take(listed).take(owner) + _PIECE_WORDS * number
    piece_key, first = np.unique(words.take(at.take(kept)) & ~_NEW, return_index=True)
    listed = listed[whole]
    stack_key, first_stack = np.unique(key.take(listed), return_index=True)
    listed = listed.take(first_stack)
    return _Stacks(
        stack_key, begin.take(listed), pieces.take(listed), piece_key, bodies.take(first)
    )


def _copy(words: U64, found: _Stacks, used: I64, block: U8) -> I64:
    """Write the concatenated copies of some stacks; return the bytes of each."""
    most = int(found.pieces.max(initial=0))
    copies = block.view("<u8").reshape(len(used), most * _PIECE_WORDS)
    within = np.arange(_PIECE_WORDS)
    is_going_on = np.ones(len(used), np.bool_)
    held = np.zeros(len(used), np.int64)
    for number in range(most):
        begin, pieces = found.begin.take(used), found.pieces.take(used)
        key = words.take(begin + number, mode="clip") & ~_NEW
        at = np.minimum(np.searchsorted(found.piece_key, key), len(found.piece_key) - 1)
        is_going_on &= (number < pieces) & (key > 0) & (found.piece_key.take(at) == key)
        rows = np.flatnonzero(is_going_on)
        source = found.piece_begin.take(at.take(rows))
        for first in range(0, len(rows), _ROWS_AT_ONCE):
            part = slice(first, first + _ROWS_AT_ONCE)
            copies[rows[part, None], number * _PIECE_WORDS + within] = words.take(
                source[part, None] + within
            )
        held[rows] += _PIECE_BYTES
    return held


def _room(stacks: I64, each_bytes: int) -> tuple[I64, U8]:
    """Return the stacks that fit into the memory limit, and the memory."""
    stacks = stacks[: MOST_COPIED_BYTES // max(each_bytes, 1)]
    size_bytes = len(stacks) * each_bytes
    if size_bytes > _HELD_BYTES:
        try:
            with tempfile.TemporaryFile() as file:
                os.posix_fallocate(file.fileno(), 0, size_bytes)
                return stacks, np.frombuffer(mmap.mmap(file.fileno(), size_bytes), np.uint8)
        except OSError:
            stacks = stacks[: _HELD_BYTES // each_bytes]
            size_bytes = len(stacks) * each_bytes
    return stacks, np.zeros(size_bytes, np.uint8)
