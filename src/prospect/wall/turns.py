"""Records of the scheduler → the pieces of turns, across threads.

A turn of a thread is the time from the wake-up that ended an idle wait to the start of its next
one. As in the path of a command (`prospect.wall.path`), wake-ups lead backwards to other threads,
of any process, until the start of the turn. All turns are followed at once, one step of each at a
time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from prospect.records import Record
from prospect.wall.path import Parts, parts_of_stretches, pieces_of
from prospect.wall.schedule_records import BLOCK, stretches
from prospect.wall.steps import steps

if TYPE_CHECKING:
    from prospect.columns.array_types import I32, I64, U64, Bools
    from prospect.wall.path import Pieces
    from prospect.wall.schedule_records import SchedulerRecords, Stretches
    from prospect.wall.steps import Steps

# Each turn that waits for a long chain of threads has that chain's steps.
MOST_TURN_STEPS = 1 << 24
# With fewer turns left, a step of each in Python costs less than one in numpy.
_FEW_TURNS = 24


class Turns(Record):
    """Turns of threads; those of a thread are disjoint."""

    tid: I32
    start_ns: U64
    end_ns: U64

    def __len__(self) -> int:
        return len(self.tid)


class TurnPieces(Record):
    """The pieces of turns.

    Attributes:
        turn: i32[p] row of the turns, ascending.
        pieces: those of each turn in chronological order. Each begins where the one before ends,
            and together they cover the turn.
        is_followed: bool[n] which turns have pieces: not those beyond MOST_TURN_STEPS, nor those of
            threads that never had a CPU.
        gaps: i64[n] how often the thread left its CPU within the turn, to wait.
    """

    turn: I32
    pieces: Pieces
    is_followed: Bools
    gaps: I64


def turn_pieces(records: SchedulerRecords, turns: Turns) -> TurnPieces:
    """Follow every turn backwards; turns begin and end within the recording."""
    found = stretches(records)
    every = steps(records, found, None)
    last = found.last_before(turns.tid, turns.end_ns).astype(np.int32)
    walked, is_followed = _walk(every, last, turns)
    turn, parts = _parts(found, every, walked, turns)
    return TurnPieces(
        turn=turn,
        pieces=pieces_of(records, found, parts),
        is_followed=is_followed,
        gaps=_gaps(found, turns),
    )


# Stretches on the way of turns, the last one of each turn first: i32[v] the turn, i32[v] the
# stretch, and u64[v] when the way enters it.
_Walked: TypeAlias = "tuple[I32, I32, U64]"


def _walk(every: Steps, last: I32, turns: Turns) -> tuple[_Walked, Bools]:
    """Follow turns from their last stretches, -1 for none.

    Returns:
        The way, and which turns were followed to their beginning.
    """
    rows = np.flatnonzero(last >= 0)
    turn, stretch = rows.astype(np.int32), last.take(rows)
    enter_ns = turns.end_ns.take(rows)
    blocks: list[_Walked] = []
    room = MOST_TURN_STEPS
    while len(turn) > _FEW_TURNS and room >= len(turn):
        blocks.append((turn, stretch, enter_ns))
        room -= len(turn)
        left_ns, before = every.enter_ns.take(stretch), every.previous.take(stretch)
        goes_on = (before >= 0) & (left_ns > turns.start_ns.take(turn))
        turn, stretch, enter_ns = turn[goes_on], before[goes_on], left_ns[goes_on]
    is_followed = np.zeros(len(turns), np.bool_)
    is_followed[rows] = True
    for one, row, from_ns in zip(turn.tolist(), stretch.tolist(), enter_ns.tolist(), strict=True):
        found = _walk_one(every, row, from_ns, int(turns.start_ns[one]), room)
        is_followed[one] = found is not None
        if found is not None:
            room -= len(found[0])
            blocks.append((np.full(len(found[0]), one, np.int32), *found))
    blocks.append((turn[:0], stretch[:0], enter_ns[:0]))
    turn, stretch, enter_ns = (np.concatenate(part) for part in zip(*blocks, strict=True))
    kept = np.flatnonzero(is_followed.take(turn))
    kept = kept.take(np.argsort(turn.take(kept), kind="stable"))
    return (turn.take(kept), stretch.take(kept), enter_ns.take(kept)), is_followed


def _walk_one(
    every: Steps, stretch: int, enter_ns: int, start_ns: int, room: int
) -> tuple[I32, U64] | None:
    """Follow one turn; None if it has more steps than there is room for."""
    previous, left_ns = every.previous.data, every.enter_ns.data
    rows: list[int] = []
    times: list[int] = []
    while stretch >= 0:
        if len(rows) >= room:
            return None
        rows.append(stretch)
        times.append(enter_ns)
        enter_ns = left_ns[stretch]
        if enter_ns <= start_ns:
            break
        stretch = previous[stretch]
    return np.array(rows, np.int32), np.array(times, np.uint64)


def _parts(found: Stretches, every: Steps, walked: _Walked, turns: Turns) -> tuple[I32, Parts]:
    """Return the turn of each piece, i32[p], and the pieces, in the order of turns and time.

    Time before the first stretch of the thread with which a turn begins is unknown.
    """
    turn, stretch, enter_ns = walked
    left_ns = every.enter_ns.take(stretch)
    start_ns = turns.start_ns.take(turn)
    ends = np.flatnonzero((every.previous.take(stretch) < 0) & (left_ns > start_ns))
    blocks = [Parts.unknown(start_ns.take(ends), left_ns.take(ends), stretch.take(ends))]
    turn_blocks = [turn.take(ends)]
    for first in range(0, len(turn), BLOCK):
        rows = slice(first, first + BLOCK)
        parts, visit = parts_of_stretches(found, every, stretch[rows], enter_ns[rows])
        begin_ns = np.maximum(parts.start_ns, start_ns[rows].take(visit))
        kept = np.flatnonzero(parts.end_ns > begin_ns)
        turn_blocks.append(turn[rows].take(visit.take(kept)))
        blocks.append(parts._replace(start_ns=begin_ns).take(kept))
    turn, parts = np.concatenate(turn_blocks), Parts.concatenate(blocks)
    order = np.lexsort((parts.start_ns, turn))
    return turn.take(order), parts.take(order)


def _gaps(found: Stretches, turns: Turns) -> I64:
    """Return i64[n] how often each turn's thread left its CPU within it, to wait."""
    threads = found.threads
    thread = threads.row(turns.tid)
    leaves = np.flatnonzero(~found.is_preempted & (found.thread >= 0))
    keys = threads.key(found.thread.take(leaves), found.out_ns.take(leaves))
    first = np.searchsorted(keys, threads.key(thread, turns.start_ns), "right")
    return np.searchsorted(keys, threads.key(thread, turns.end_ns)) - first
