"""The turns of threads, by program and kind: their number, their length, and their parts.

Times of turns and pieces are exact. While threads ran, samples divide their time as in the account
of a command (`prospect.estimate.wall_account`). Intervals of quantiles assume independent turns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.buffers import gather
from prospect.columns.grouping import alike, group_sums
from prospect.columns.sorting import distinct
from prospect.estimate.statistics.row_limits import Quantile, quantile_of
from prospect.estimate.wall_account import (
    Owned,
    Programs,
    Taker,
    quota_ns,
    rows_by_owner,
    samples_of_event,
    stolen_ns,
    takers_by_owner,
)
from prospect.figures.critical_path import blocked_by
from prospect.figures.processes import shown_processes
from prospect.figures.shown_rows import shown_names
from prospect.profile.group_names import service_names
from prospect.profile.model import (
    PATH_BLOCKED,
    PATH_STATES,
    THREADS_OF_TURNS,
    TURN_CUT,
    TURN_UNCLEAR,
    TURN_WHOLE,
    WallPath,
    WallTakers,
)
from prospect.records import NamedTuple, Record, replace

if TYPE_CHECKING:
    from prospect.columns.array_types import I64, Bools
    from prospect.options import Detail
    from prospect.profile.complete import CompleteProfile, ProfileByFunction
    from prospect.profile.model import TurnTable

_NS = 1e-9
_TAIL = 0.95
_MOSTLY = 0.5


class TurnRow(NamedTuple):
    """Pieces of turns that are alike.

    Attributes:
        state: one of PATH_STATES.
        thread: one of THREADS_OF_TURNS: that of the turn, or another one of its process, or of
            another process.
        during: the wait of the turn's own thread at the time, for other threads; "" if unknown.
        what: the function that ran, or the reason why the thread was blocked; "" for other states.
        ended_by: the end of a blocked time: "(interrupt)", a program, or "" if not recorded.
        seconds: their length, in all turns.
        half_width_s: half of its 95 % interval; 0.0 for exact times.
        share: of the turns' time, 0 to 1.
        pieces: for a function, those with a sample of it.
        samples: of a function.
    """

    state: str
    program: str
    thread: str
    during: str
    what: str
    ended_by: str
    seconds: float
    half_width_s: float
    share: float
    pieces: int
    longest_s: float
    samples: int


class KindOfTurns(Record):
    """The turns of a program that are of one kind.

    Attributes:
        service: of the program's processes, "" for none.
        kind: a function, or the system call of the idle waits between them.
        is_loop: whether they are rounds of event loops, which serve many requests at once.
        seconds: their length together; the rows add up to it.
        median, tail: seconds, the latter of the 95th percentile.
        deviation_s: standard deviation of their lengths.
        rows: the longest first.
        takers: programs that had the CPUs that were waited for, in the same way.
    """

    program: str
    service: str
    kind: str
    is_loop: bool
    turns: int
    threads: int
    seconds: float
    median: Quantile
    tail: Quantile
    longest_s: float
    deviation_s: float
    rows: tuple[TurnRow, ...]
    takers: tuple[Taker, ...]

    @property
    def mean_s(self) -> float:
        """The mean length of a turn."""
        return self.seconds / self.turns


class TurnAccount(Record):
    """The turns of the processes that `-V` chooses.

    Attributes:
        kinds: those with most time first.
        cut: turns that the start or the end of the recording cut, which are in no kind.
        unclear: turns with an unknown wait, in the same way.
        threads_without: threads that waited, but in no place that is known to be idle.
    """

    kinds: tuple[KindOfTurns, ...]
    cut: int
    unclear: int
    threads_without: int
    slowest: tuple[SlowTurn, ...]


def turn_account(
    profile: CompleteProfile, by_function: ProfileByFunction, event_index: int, detail: Detail
) -> TurnAccount | None:
    """Add up the pieces of turns; None for a profile without turns of chosen processes.

    `by_function` is the same profile with fewer hits; the samples of the event divide the time on
    CPUs.
    """
    turns = profile.turns
    if turns is None:
        return None
    # A thread whose process is not known has row -1.
    shown = shown_processes(profile.processes, detail)
    is_shown = np.append(shown, shown.all())
    chosen = is_shown.take(turns.process_index)
    if not chosen.any():
        return None
    is_whole = chosen & (turns.state == TURN_WHOLE)
    kinds = _Grouped(profile, turns, is_whole)
    return TurnAccount(
        kinds=tuple(kinds.accounts(by_function, event_index)),
        cut=int(np.count_nonzero(chosen & (turns.state == TURN_CUT))),
        unclear=int(np.count_nonzero(chosen & (turns.state == TURN_UNCLEAR))),
        threads_without=_threads_without(profile, turns, is_shown),
        slowest=slow_turns(profile, by_function, event_index, turns, is_whole),
    )


class _Grouped:
    """Turns and their pieces by program, service and kind; group 0 is of omitted ones."""

    def __init__(self, profile: CompleteProfile, turns: TurnTable, chosen: Bools) -> None:
        """Group the turns of a profile that are chosen, bool[n]."""
        self._profile, self._turns = profile, turns
        self._limits = quota_ns(profile, turns.pieces), stolen_ns(profile, turns.pieces)
        processes = profile.processes
        texts: dict[tuple[str, str], int] = {}
        of_process = [
            texts.setdefault((name, service), len(texts))
            for name, service in zip(processes.name, service_names(processes), strict=True)
        ]
        of_process.append(texts.setdefault(("", ""), len(texts)))
        whose = np.array(of_process, np.int64).take(turns.process_index)
        rows = np.flatnonzero(chosen)
        found = alike((whose.take(rows), turns.kind_index.take(rows)))
        self._first = rows.take(found.row)
        self._names = [list(texts)[one] for one in whose.take(self._first).tolist()]
        self._group = np.zeros(len(turns), np.int64)
        self._group[rows] = found.place.astype(np.int64) + 1

    def accounts(self, by_function: ProfileByFunction, event_index: int) -> list[KindOfTurns]:
        """Return the account of each group, those with most time first."""
        turns, length_s = self._turns, (self._turns.length_ns * _NS).astype(np.float64)
        order = np.lexsort((turns.length_ns, self._group))
        ends = np.searchsorted(self._group.take(order), np.arange(len(self._names) + 1), "right")
        rows = self._rows(by_function, event_index)
        takers: dict[int, list[Taker]] = {}
        pieces = Owned(turns.pieces, self._group.take(turns.turn_of_piece), *self._limits)
        programs = Programs(self._profile, turns.pieces)
        for group, taker in takers_by_owner(self._profile, programs, pieces):
            takers.setdefault(group, []).append(taker)
        found = []
        for place, (program, service) in enumerate(self._names):
            of_group = order[ends[place] : ends[place + 1]]
            ordered = length_s.take(of_group)
            total_s = float(turns.length_ns.take(of_group).sum()) * _NS
            found.append(
                KindOfTurns(
                    program=program,
                    service=service,
                    kind=turns.kinds[int(turns.kind_index[of_group[0]])],
                    is_loop=bool(turns.is_loop.take(of_group).mean() > _MOSTLY),
                    turns=len(of_group),
                    threads=len(distinct(turns.tid.take(of_group))),
                    seconds=total_s,
                    median=quantile_of(ordered, 0.5),
                    tail=quantile_of(ordered, _TAIL),
                    longest_s=float(ordered[-1]),
                    deviation_s=float(ordered.std()),
                    rows=tuple(
                        row._replace(share=row.seconds / total_s)
                        for row in sorted(rows.get(place + 1, ()), key=lambda row: -row.seconds)
                    ),
                    takers=tuple(takers.get(place + 1, ())),
                )
            )
        return sorted(found, key=lambda one: -one.seconds)

    def _rows(self, by_function: ProfileByFunction, event_index: int) -> dict[int, list[TurnRow]]:
        """Return the rows of each group, without shares."""
        turns, pieces = self._turns, self._turns.pieces
        if not len(pieces):
            return {}
        programs = Programs(self._profile, pieces)
        group = self._group.take(turns.turn_of_piece)
        is_own = pieces.tid == turns.tid.take(turns.turn_of_piece)
        is_near = pieces.process_index == turns.process_index.take(turns.turn_of_piece)
        thread = np.where(is_own, 0, np.where(is_near, 1, 2))
        during = turns.during_index + np.int32(1)
        owners = alike((group, thread, during, programs.of_piece))
        first, texts = owners.row, ["", *turns.during]
        found: dict[int, list[TurnRow]] = {}
        owned = Owned(pieces, owners.place.astype(np.int64), *self._limits)
        for owner, row in rows_by_owner(self._profile, by_function, event_index, owned):
            at = int(first[owner])
            found.setdefault(int(group[at]), []).append(
                TurnRow(
                    state=row.state,
                    program=programs.names[int(programs.of_piece[at])],
                    thread=THREADS_OF_TURNS[int(thread[at])],
                    during=texts[int(during[at])],
                    what=row.what,
                    ended_by=row.ended_by,
                    seconds=row.seconds,
                    half_width_s=row.half_width_s,
                    share=0.0,
                    pieces=row.pieces,
                    longest_s=row.longest_s,
                    samples=row.samples,
                )
            )
        return found


def _threads_without(profile: CompleteProfile, turns: TurnTable, is_shown: Bools) -> int:
    """Return how many threads waited and have no turn, without the kernel's."""
    threads, processes = profile.threads, profile.processes
    if threads is None:
        return 0
    is_aside = np.append(processes.is_kernel_thread | processes.is_recorder, False)
    is_asked = (is_shown & ~is_aside).take(threads.process_index) & (threads.blocks > 0)
    return int(np.count_nonzero(is_asked & ~np.isin(threads.tid, distinct(turns.tid))))


# The slowest turns of threads, each with its pieces.

MOST_SLOW_TURNS = 20
MOST_PIECES_OF_TURN = 200


class TurnPiece(NamedTuple):
    """A piece of a turn.

    Attributes:
        begin_s: since the turn's start.
        state: one of PATH_STATES.
        thread: one of THREADS_OF_TURNS.
        what: the function with most samples, or the reason why the thread was blocked; "" if
            unknown.
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
        begin_s: since the start of the recording.
        pieces: the longest ones, in chronological order.
        more_pieces: how many others there are.
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
    chosen: Bools,
) -> tuple[SlowTurn, ...]:
    """Return the slowest of the chosen turns, the slowest first.

    `chosen`, bool[n], are whole turns. The samples of the event give the function that ran.
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


def _longest(pieces: WallPath, begin: int, end: int) -> I64:
    """Return the longest pieces of a turn, i64 in chronological order."""
    order = np.argsort(-pieces.length_ns[begin:end], kind="stable")[:MOST_PIECES_OF_TURN]
    return begin + np.sort(order)


def _pieces_at(pieces: WallPath, rows: I64) -> WallPath:
    """Return some pieces, without the threads that had their CPUs."""
    nothing, long = np.empty(0, np.int32), np.empty(0, np.int64)
    takers = WallTakers(long, nothing, nothing, nothing, long)
    return replace(gather(pieces, rows, "takers", "names", "cpu"), takers=takers, cpu=None)


def _what(
    profile: CompleteProfile, by_function: ProfileByFunction, event_index: int, path: WallPath
) -> list[str]:
    """Return the function with most samples in each piece, or the reason why it was blocked."""
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
