"""Records of the scheduler → what the turns of threads consist of, across threads.

A turn of a thread is the time from the wake-up that ended an idle wait to the start of its next
one. Like the path of a command (`prospect.wall.path`) it is followed backwards, by who woke whom,
in any process, until the start of the turn. All turns are followed at once, one step of each at a
time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.records import NamedTuple, Record
from prospect.wall.path import BLOCK, NOT_KNOWN, Parts, parts_of_stretches, pieces_of
from prospect.wall.schedule_records import NOT_RECORDED, stretches
from prospect.wall.steps import steps

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.wall.path import Pieces
    from prospect.wall.schedule_records import SchedulerRecords, Stretches, Threads
    from prospect.wall.steps import Steps

# Turns of threads that wait for the same long chain of threads have it each.
MOST_TURN_STEPS = 1 << 24
# With fewer turns left, a step of each in Python costs less than one of numpy.
_FEW_TURNS = 24
_NO_THREAD = 0


class Turns(Record):
    """Turns: `tid` i32[n] the thread, and u64[n] from and until when; disjoint for a thread."""

    tid: NDArray[np.int32]
    start_ns: NDArray[np.uint64]
    end_ns: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.tid)


class TurnPieces(Record):
    """The pieces of turns.

    Attributes:
        turn: i32[p] row of the turns, ascending.
        pieces: of each turn, in chronological order; each begins where the one before ends, the
            first as the turn begins, the last ends as the turn ends.
        is_followed: bool[n] of the turns. Those beyond MOST_TURN_STEPS were not followed, and those
            of threads that never had a CPU: they have no pieces.
        gaps: i64[n] how often the thread was off its CPU within the turn without having lost it.
    """

    turn: NDArray[np.int32]
    pieces: Pieces
    is_followed: NDArray[np.bool_]
    gaps: NDArray[np.int64]


def turn_pieces(records: SchedulerRecords, turns: Turns) -> TurnPieces:
    """Follow every turn backwards.

    Args:
        turns: with begins and ends within the recording.
    """
    threads, found = stretches(records)
    every = steps(records, threads, found, _NO_THREAD, everybody=True)
    keys = threads.key(found.thread, found.in_ns)
    thread = threads.row(turns.tid)
    last = np.searchsorted(keys, threads.key(thread, turns.end_ns)) - 1
    is_there = (last >= 0) & (thread >= 0)
    is_there[is_there] = found.thread.take(last[is_there]) == thread[is_there]
    walked, is_followed = _walk(every, np.flatnonzero(is_there), last.astype(np.int32), turns)
    turn, parts = _parts(found, every, walked, turns)
    return TurnPieces(
        turn=turn,
        pieces=pieces_of(records, threads, found, parts),
        is_followed=is_followed,
        gaps=_gaps(threads, found, thread, turns),
    )


class _Walked(NamedTuple):
    """Stretches on the way of turns, the last one of each turn first.

    Attributes:
        turn: i32[v].
        stretch: i32[v].
        enter_ns: u64[v] when the way enters it.
    """

    turn: NDArray[np.int32]
    stretch: NDArray[np.int32]
    enter_ns: NDArray[np.uint64]


def _walk(
    every: Steps, rows: NDArray[np.int64], last: NDArray[np.int32], turns: Turns
) -> tuple[_Walked, NDArray[np.bool_]]:
    """Follow some turns from their last stretches; return which were followed to their begin."""
    turn, stretch = rows.astype(np.int32), last.take(rows)
    enter_ns = turns.end_ns.take(rows)
    blocks: list[tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.uint64]]] = []
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
    if blocks:
        turn, stretch, enter_ns = (np.concatenate(part) for part in zip(*blocks, strict=True))
    else:
        turn, stretch, enter_ns = turn[:0], stretch[:0], enter_ns[:0]
    kept = np.flatnonzero(is_followed.take(turn))
    kept = kept.take(np.argsort(turn.take(kept), kind="stable"))
    return _Walked(turn.take(kept), stretch.take(kept), enter_ns.take(kept)), is_followed


def _walk_one(
    every: Steps, stretch: int, enter_ns: int, start_ns: int, room: int
) -> tuple[NDArray[np.int32], NDArray[np.uint64]] | None:
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


def _parts(
    found: Stretches, every: Steps, walked: _Walked, turns: Turns
) -> tuple[NDArray[np.int32], Parts]:
    """Return the pieces of turns in the order of these and of time, and the turn of each, i32[p].

    The time before the first stretch of a thread that a turn begins with is not known.
    """
    left_ns = every.enter_ns.take(walked.stretch)
    start_ns = turns.start_ns.take(walked.turn)
    ends = np.flatnonzero((every.previous.take(walked.stretch) < 0) & (left_ns > start_ns))
    turn = [walked.turn.take(ends)]
    blocks = [
        Parts(
            start_ns.take(ends),
            left_ns.take(ends),
            walked.stretch.take(ends),
            np.full(len(ends), NOT_KNOWN, np.uint8),
            np.full(len(ends), NOT_RECORDED, np.int32),
        )
    ]
    for first in range(0, len(walked.turn), BLOCK):
        rows = slice(first, first + BLOCK)
        parts, visit = parts_of_stretches(found, every, walked.stretch[rows], walked.enter_ns[rows])
        begin_ns = np.maximum(parts.start_ns, start_ns[rows].take(visit))
        kept = np.flatnonzero(parts.end_ns > begin_ns)
        turn.append(walked.turn[rows].take(visit.take(kept)))
        parts = parts._replace(start_ns=begin_ns)
        blocks.append(_taken(parts, kept))
    of_turn = np.concatenate(turn)
    parts = Parts(*(np.concatenate(columns) for columns in zip(*blocks, strict=True)))
    order = np.lexsort((parts.start_ns, of_turn))
    return of_turn.take(order), _taken(parts, order)


def _taken(parts: Parts, rows: NDArray[np.int64]) -> Parts:
    return Parts._make(column.take(rows) for column in parts)


def _gaps(
    threads: Threads, found: Stretches, thread: NDArray[np.int32], turns: Turns
) -> NDArray[np.int64]:
    """Return i64[n] how often each turn's thread left its CPU within it, to wait."""
    leaves = np.flatnonzero(~found.is_preempted & (found.thread >= 0))
    keys = threads.key(found.thread.take(leaves), found.out_ns.take(leaves))
    first = np.searchsorted(keys, threads.key(thread, turns.start_ns), "right")
    return np.searchsorted(keys, threads.key(thread, turns.end_ns)) - first
