"""The slowest turns of threads, each with its pieces and what they were."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.grouping import group_sums
from prospect.estimate.wall_account import Programs, samples_of_event
from prospect.figures.function_names import shown_names
from prospect.figures.wall_waits import blocked_by
from prospect.profile.model import (
    PATH_BLOCKED,
    PATH_STATES,
    THREADS_OF_TURNS,
    WallPath,
    WallTakers,
)
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.profile.complete import CompleteProfile, ProfileByFunction
    from prospect.profile.model import TurnTable

_NS = 1e-9
MOST_SLOW_TURNS = 20
MOST_PIECES_OF_TURN = 200


class TurnPiece(NamedTuple):
    """A piece of a turn.

    Attributes:
        begin_s: since the turn's start.
        seconds: how long.
        state: one of PATH_STATES.
        program: of the thread.
        thread: one of THREADS_OF_TURNS.
        what: the function that most samples hit, or what blocked the thread; "" if unknown.
    """

    begin_s: float
    seconds: float
    state: str
    program: str
    thread: str
    what: str


class SlowTurn(NamedTuple):
    """A turn.

    Attributes:
        program, kind: as of `KindOfTurns`.
        tid: the thread.
        begin_s: since the start of the recording.
        seconds: how long.
        pieces: the longest ones, in chronological order.
        more_pieces: how many there are besides.
    """

    program: str
    kind: str
    tid: int
    begin_s: float
    seconds: float
    pieces: tuple[TurnPiece, ...]
    more_pieces: int


def slow_turns(
    profile: CompleteProfile,
    by_function: ProfileByFunction,
    event_index: int,
    turns: TurnTable,
    chosen: NDArray[np.bool_],
) -> tuple[SlowTurn, ...]:
    """Return the slowest of the chosen turns, the slowest first.

    Args:
        profile: with its waits.
        by_function: the same with fewer hits.
        event_index: the event whose samples say which function ran.
        turns: of the profile.
        chosen: bool[n] which of them, whole ones.
    """
    rows = np.flatnonzero(chosen)
    rows = rows.take(np.argsort(-turns.length_ns.take(rows), kind="stable")[:MOST_SLOW_TURNS])
    bounds = np.searchsorted(turns.turn_of_piece, np.stack((rows, rows + 1)))
    kept = [_longest(turns.pieces, *bound) for bound in bounds.T.tolist()]
    path = _pieces_at(turns.pieces, np.concatenate([*kept, np.empty(0, np.int64)]))
    programs = Programs(profile, path)
    what = _what(profile, by_function, event_index, path)
    names = [*profile.processes.name, ""]
    found, first = [], 0
    for row, own, (begin, end) in zip(rows.tolist(), kept, bounds.T.tolist(), strict=True):
        process, begin_ns = int(turns.process_index[row]), int(turns.begin_ns[row])
        pieces = []
        for at in range(first, first + len(own)):
            is_own = path.tid[at] == turns.tid[row]
            thread = 0 if is_own else 1 if path.process_index[at] == process else 2
            pieces.append(
                TurnPiece(
                    begin_s=(int(path.begin_ns[at]) - begin_ns) * _NS,
                    seconds=int(path.length_ns[at]) * _NS,
                    state=PATH_STATES[int(path.state[at])],
                    program=programs.names[int(programs.of_piece[at])],
                    thread=THREADS_OF_TURNS[thread],
                    what=what[at],
                )
            )
        first += len(own)
        found.append(
            SlowTurn(
                program=names[process],
                kind=turns.kinds[int(turns.kind_index[row])],
                tid=int(turns.tid[row]),
                begin_s=(begin_ns - profile.run.begin_ns) * _NS,
                seconds=int(turns.length_ns[row]) * _NS,
                pieces=tuple(pieces),
                more_pieces=end - begin - len(own),
            )
        )
    return tuple(found)


def _longest(pieces: WallPath, begin: int, end: int) -> NDArray[np.int64]:
    """Return the longest pieces of a turn, i64 in chronological order."""
    order = np.argsort(-pieces.length_ns[begin:end], kind="stable")[:MOST_PIECES_OF_TURN]
    return begin + np.sort(order)


def _pieces_at(pieces: WallPath, rows: NDArray[np.int64]) -> WallPath:
    """Return some pieces, without who had their CPUs."""
    nothing = np.empty(0, np.int32)
    return WallPath(
        begin_ns=pieces.begin_ns.take(rows),
        length_ns=pieces.length_ns.take(rows),
        state=pieces.state.take(rows),
        tid=pieces.tid.take(rows),
        process_index=pieces.process_index.take(rows),
        name_index=pieces.name_index.take(rows),
        ended_by=pieces.ended_by.take(rows),
        ender_index=pieces.ender_index.take(rows),
        ender_process_index=pieces.ender_process_index.take(rows),
        takers=WallTakers(
            nothing.astype(np.int64), nothing, nothing, nothing, nothing.astype(np.int64)
        ),
        names=pieces.names,
    )


def _what(
    profile: CompleteProfile, by_function: ProfileByFunction, event_index: int, path: WallPath
) -> list[str]:
    """Return what each piece was: the function that most samples hit, or what blocked it."""
    what = [""] * len(path)
    piece, function = samples_of_event(by_function, event_index, path)
    (of_piece, of_function), (samples,) = group_sums(
        [piece, function], [np.ones(len(piece), np.int64)]
    )
    names = shown_names(by_function.functions, of_function.tolist())
    for at in np.argsort(samples, kind="stable").tolist():
        what[int(of_piece[at])] = names[at]
    reason, reasons = blocked_by(profile, path)
    for at in np.flatnonzero(path.state == PATH_BLOCKED).tolist():
        what[at] = str(reasons[int(reason[at])])
    return what
