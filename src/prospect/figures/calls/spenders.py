"""The functions that spend most with all that they call, beyond the trivial.

Near the root of every stack are functions with all of the time, and below a function that calls
only one other there is a path of functions with the same time. A row for each would hide the
answer. So a *path* follows the callee that has at least `_SAME` of a function's time, as long as
there is one, and each path has one row: the innermost function of the user's own code on it, or,
without any, the first one that is no dispatcher. A dispatcher is code of the system or of a package
that spends most of its time in functions of the user, as event loops and frameworks do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.forests import levels
from prospect.figures.calls.call_graph import call_arcs
from prospect.figures.calls.own_code import (
    IMPORT,
    MODULE,
    is_anonymous,
    is_named,
    is_own_code,
    is_start,
)
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from prospect.columns.array_types import F64
    from prospect.figures.calls.call_graph import CallGraph, FrameTotals

MOST_SPENDERS = 5
_LEAST_SHARE = 0.05
_SAME = 0.9  # of a function's time: a callee with as much is in the same row
_MOSTLY = 0.5  # of a dispatcher's time is in functions of the user
_NESTED = 0.8  # of the time of a row: a callee with more adds nothing
_LEAF = 0.8  # of a function's time is its own: it is among the functions by own time
_LONGEST_PATH = 64


class Spender(NamedTuple):
    """A function with all that it calls.

    Attributes:
        frame: row of the graph's frames.
        end: row of the last frame on its path, where its time begins to spread; the same if it
            spreads at once.
        is_own: whether it is the user's own code.
    """

    frame: int
    end: int
    is_own: bool


def spenders(graph: CallGraph, totals: FrameTotals) -> list[Spender]:
    """Return the functions that spend most with all that they call, most first.

    Without callers in user space there are none.
    """
    return _Choice(graph, totals).made()


class _Choice:
    """The common state of the rules: candidates, arcs between them, and whose code they are."""

    def __init__(self, graph: CallGraph, totals: FrameTotals) -> None:
        self._graph = graph
        self._amount = totals.total_s if graph.seconds else totals.total_hits
        self._own = self._time_in_functions()
        self._whole = graph.seconds or graph.hits
        self._is_own = is_own_code(graph.profile, graph.frames)
        named = is_named(graph.profile, graph.frames)
        frames = np.flatnonzero(named & (self._amount >= max(_LEAST_SHARE * self._whole, 1e-12)))
        self._frames: list[int] = frames[np.argsort(-self._amount[frames], kind="stable")].tolist()
        # Only these frames are tested for starts of programs.
        asked = [*np.flatnonzero(self._is_own).tolist(), *self._frames]
        self._starts = {row for row in asked if is_start(graph.labels[row])}
        self._frames = [frame for frame in self._frames if frame not in self._starts]
        self._callee, self._caller = self._arcs()

    def made(self) -> list[Spender]:
        """Return the rows, the user's own functions before others."""
        if not self._callee:
            return []
        below = self._own_below()
        candidates = [frame for frame in self._frames if not self._is_part(frame)]
        found: dict[int, Spender] = {}
        covered: set[int] = set()
        for is_own in (True, False):
            for frame in candidates:
                if len(found) == MOST_SPENDERS:
                    break
                if self._is_own[frame] != is_own or frame in covered or self._is_leaf(frame):
                    continue
                path = self._path(frame)
                says_nothing = self._is_main if is_own else self._is_dispatcher
                if says_nothing(frame, path, below, found):
                    continue
                found[frame] = Spender(frame, path[-1], is_own)
                covered.update(path)
        return sorted(found.values(), key=lambda one: -self._amount[one.frame])

    def _arcs(self) -> tuple[dict[int, tuple[int, float]], dict[int, tuple[int, float]]]:
        """Return each candidate's main callee and its main caller, with the time of the arc."""
        is_frame = np.zeros(len(self._graph.frames), np.bool_)
        is_frame[self._frames] = True
        arcs = call_arcs(self._graph, is_frame)
        amount = arcs.total_s if self._graph.seconds else arcs.hits
        callee: dict[int, tuple[int, float]] = {}
        caller: dict[int, tuple[int, float]] = {}
        rows = np.flatnonzero(arcs.caller != arcs.callee)
        for row in rows[np.argsort(amount[rows], kind="stable")].tolist():
            above, beneath = int(arcs.caller[row]), int(arcs.callee[row])
            callee[above] = beneath, float(amount[row])
            caller[beneath] = above, float(amount[row])
        return callee, caller

    def _own_below(self) -> F64:
        """Return f64[f]: the time of each frame in which functions of the user ran below it."""
        graph = self._graph
        forest, frame = graph.forest, graph.forest.frame_index
        own = graph.self_s if graph.seconds else graph.self_hits.astype(np.float64)
        total = graph.total_s if graph.seconds else graph.total_hits
        is_function = self._is_own.copy()
        names = graph.labels
        is_function[[row for row in self._starts if names[row] != MODULE]] = False
        without = own.astype(np.float64)  # in which none ran
        is_cut = is_function.take(frame)
        for rows in reversed(levels(forest.depth)[1:]):
            passed = rows[~is_cut.take(rows)]
            np.add.at(without, forest.caller_index.take(passed), without.take(passed))
        outer = graph.outermost_rows
        below = np.bincount(frame[outer], (total - without)[outer], len(graph.frames))
        return below.astype(np.float64)

    def _path(self, frame: int) -> list[int]:
        """Return the frames from this one on that have nearly all of its time."""
        path = [frame]
        least = _SAME * self._amount[frame]
        while len(path) < _LONGEST_PATH:
            callee, amount = self._callee.get(path[-1], (-1, 0.0))
            if amount < least or callee in path:
                break
            path.append(callee)
        return path

    def _is_part(self, frame: int) -> bool:
        """Return whether this is a lambda or the like, with nearly all calls from one function."""
        caller, amount = self._caller.get(frame, (-1, 0.0))
        return (
            caller >= 0
            and is_anonymous(self._graph.labels[frame])
            and amount >= _SAME * self._amount[frame]
        )

    def _is_main(self, frame: int, path: list[int], below: F64, _: dict[int, Spender]) -> bool:
        """Return whether other functions of the user are more informative than this one.

        It has a path to one of them, or it has all of the time, and they spend it.
        """
        names = self._graph.labels
        return bool(min(self._amount[frame], below[frame]) >= _SAME * self._whole) or any(
            self._is_own[one] and not self._is_leaf(one) and not is_anonymous(names[one])
            for one in path[1:]
        )

    def _is_dispatcher(
        self, frame: int, path: list[int], below: F64, found: dict[int, Spender]
    ) -> bool:
        """Return whether installed code runs the user's, or adds nothing to other rows."""
        is_import = self._graph.labels[frame] == IMPORT
        if not is_import and below[frame] >= _MOSTLY * self._amount[frame]:
            return True
        return any(one in found for one in path) or self._is_nested(frame, found)

    def _is_leaf(self, frame: int) -> bool:
        """Return whether a function's own time, with its inlined functions, is nearly all it has.

        An inlined function is in no table of own time, so it never is one.
        """
        is_function = self._graph.frames.function_index[frame] >= 0
        return bool(is_function and self._own[frame] >= _LEAF * self._amount[frame])

    def _time_in_functions(self) -> F64:
        """Return f64[f]: the time of each frame itself and of the functions inlined in it."""
        graph = self._graph
        forest, frame = graph.forest, graph.forest.frame_index
        own = np.array(graph.self_s if graph.seconds else graph.self_hits, np.float64)
        is_inlined = graph.frames.function_index.take(frame) < 0
        for rows in reversed(levels(forest.depth)[1:]):
            inner = rows[is_inlined.take(rows)]
            np.add.at(own, forest.caller_index.take(inner), own.take(inner))
        return np.bincount(frame, own, len(graph.frames)).astype(np.float64)

    def _is_nested(self, frame: int, found: dict[int, Spender]) -> bool:
        """Return whether a row calls this function and has not much more time."""
        above = frame
        for _ in range(_LONGEST_PATH):
            caller, amount = self._caller.get(above, (-1, 0.0))
            if amount < _SAME * self._amount[above]:
                return False
            above = caller
            if above in found:
                return bool(self._amount[frame] > _NESTED * self._amount[above])
        return False
