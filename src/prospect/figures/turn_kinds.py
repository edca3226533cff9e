"""Kinds of turns: the outermost function that distinguishes turns of a program from each other.

Each turn has stacks of its own thread: of its samples and of its waits. It belongs to its heaviest
stack. From the outermost function on, the stacks of a program's turns are followed as long as one
function has nearly all of the turns. If they then go on in several functions, and a turn has stacks
in one of these alone, each is a kind. If a turn has stacks in several of them, they are parts of
one kind, and so are all below. A kind has the name of the outermost function of the user's own code
on the way to it, or else of its own first function that is not on the way to the idle wait.

If most turns of a program have no stack, their kind is the system call of their idle wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.grouping import group_sums
from prospect.columns.sorting import distinct
from prospect.columns.table_rows import gather
from prospect.figures.calls.own_code import is_anonymous, is_named, is_own_code, is_start
from prospect.figures.stacks.call_forest import levels
from prospect.figures.stacks.stack_weights import paths
from prospect.records import NamedTuple, Record

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from numpy.typing import NDArray

    from prospect.figures.report.waiting import BlockedWaits

OTHER_TURNS = "other turns"
_MOST_GROUPS = 100  # programs and idle waits, those with most turns
_MOST_TURNS = 20_000  # of a group, evenly spaced, whose stacks are looked at
_LEAST_KNOWN = 0.5  # of a program's turns have a stack
_LEAST_SHARE = 0.05  # of them, in a kind
_LEAST_TURNS = 3
_MOST = 0.5  # of the turns go on in one function
_SAME = 0.9  # of a kind's turns are in the function that names it
_MOST_MIXED = 0.2  # of turns with several stacks are in several functions: these are no kinds
_LEAST_SEVERAL = 5


class StacksOfTurns(Record):
    """Stacks of turns: the turn, the stack (of the program's functions), and its weight in ns.

    Attributes:
        turn: i64[e].
        row: i64[e] of a forest.
        weight: i64[e].
        is_wait: bool[e] whether it is of a wait: of these there is one for each.
    """

    turn: NDArray[np.int64]
    row: NDArray[np.int64]
    weight: NDArray[np.int64]
    is_wait: NDArray[np.bool_]


class TurnKinds(NamedTuple):
    """The kind of each turn, i32[n], a row of the names."""

    of_turn: NDArray[np.int32]
    names: list[str]


def turn_kinds(
    stacks: StacksOfTurns,
    blocked: BlockedWaits,
    wait: NDArray[np.int64],
    group: NDArray[np.int64],
) -> TurnKinds:
    """Name the kind of each turn.

    Args:
        stacks: of the turns.
        blocked: the waits, with the forest of stacks.
        wait: i64[n] the idle wait next to each turn.
        group: i64[n] a number of each turn's program and idle wait.
    """
    names: dict[str, int] = {}
    calls = [names.setdefault(f"after {name}", len(names)) for name in blocked.names]
    index = np.array(calls, np.int32).take(blocked.name.take(wait))
    tree = _Tree(blocked)
    is_stack = tree.forest.depth.take(stacks.row) > 0  # more than the place of a sample
    stacks = gather(stacks, np.flatnonzero(is_stack))
    main = _heaviest(stacks, len(wait))
    idle_row = tree.user_row.take(blocked.stack_row.take(blocked.rows.take(wait)))
    groups, count = np.unique(group, return_counts=True)
    for number in groups[np.argsort(-count, kind="stable")][:_MOST_GROUPS].tolist():
        turns = np.flatnonzero(group == number)
        known = turns[main.take(turns) >= 0]
        if len(known) < max(_LEAST_KNOWN * len(turns), _LEAST_TURNS):
            continue
        found = _Kinds(tree, stacks, main, known).named(distinct(idle_row.take(turns)))
        if not found.names:
            continue
        kind = found.of_row.take(main.take(turns))
        rows = [names.setdefault(name, len(names)) for name in (*found.names, OTHER_TURNS)]
        index[turns] = np.array(rows, np.int32).take(kind)
    return _only_used(TurnKinds(index, list(names)))


def _only_used(kinds: TurnKinds) -> TurnKinds:
    used = distinct(kinds.of_turn)
    index = np.searchsorted(used, kinds.of_turn).astype(np.int32)
    return TurnKinds(index, [kinds.names[row] for row in used.tolist()])


def _heaviest(stacks: StacksOfTurns, turns: int) -> NDArray[np.int64]:
    """Return the stack of each turn with most weight, i64[n], -1 for none."""
    main = np.full(turns, -1, np.int64)
    if len(stacks.turn):
        (turn, row), (weight,) = group_sums([stacks.turn, stacks.row], [stacks.weight])
        order = np.lexsort((weight, turn))
        main[turn.take(order)] = row.take(order)  # the last of a turn stays
    return main


class _Tree:
    """The stacks of a profile as functions, and which of these may name a kind."""

    def __init__(self, blocked: BlockedWaits) -> None:
        frames, self.labels, _ = blocked.forest
        profile = blocked.samples.profile
        self.forest = blocked.own_forest
        self.user_row = blocked.user_stacks.user_row
        may_name = is_own_code(profile, frames) & is_named(profile, frames)
        may_name &= [not (is_start(name) or is_anonymous(name)) for name in self.labels]
        self._may_name = may_name
        self._levels = levels(self.forest.depth)

    def label(self, row: int) -> str:
        """Return the name of a row's function."""
        return self.labels[int(self.forest.frame_index[row])]

    def is_own(self, row: int) -> bool:
        """Return whether a row's function is the user's own, and says something."""
        return bool(self._may_name[int(self.forest.frame_index[row])])

    def below(self, roots: Sequence[int]) -> NDArray[np.int64]:
        """Return which root each row is below, i64[t + 1], their number for none and for -1."""
        found = np.full(len(self.forest) + 1, len(roots), np.int64)
        found[list(roots)] = np.arange(len(roots))
        for rows in self._levels[1:]:
            above = found.take(self.forest.caller_index.take(rows))
            found[rows] = np.where(found.take(rows) == len(roots), above, found.take(rows))
        return found


class _Named(NamedTuple):
    """Kinds of a program: `names`, and i64[t + 1] of rows of the forest, len(names) for others."""

    names: list[str]
    of_row: NDArray[np.int64]


class _Kinds:
    """The way from the outermost functions of a program's turns to where these part."""

    def __init__(
        self,
        tree: _Tree,
        stacks: StacksOfTurns,
        main: NDArray[np.int64],
        known: NDArray[np.int64],
    ) -> None:
        """Follow the turns of a program.

        Args:
            tree: the stacks.
            stacks: of all turns.
            main: i64[n] the stack that each turn belongs to.
            known: i64[k] the program's turns that have one, ascending.
        """
        self._tree = tree
        self._turns = known[:: len(known) // _MOST_TURNS + 1]
        self._of_turns = gather(stacks, np.flatnonzero(np.isin(stacks.turn, self._turns)))
        rows, count = np.unique(main.take(self._turns), return_counts=True)
        start, path = paths(tree.forest.caller_index, tree.forest.depth, rows)
        nodes, place = np.unique(path, return_inverse=True)
        amount = np.bincount(place, np.repeat(count, np.diff(start)), len(nodes))
        self._amount = dict(zip(nodes.tolist(), amount.tolist(), strict=True))
        self._callees: dict[int, list[int]] = {}
        for node, caller in zip(
            nodes.tolist(), tree.forest.caller_index.take(nodes).tolist(), strict=True
        ):
            self._callees.setdefault(caller, []).append(node)

    def named(self, idle_rows: NDArray[np.int64]) -> _Named:
        """Return the kinds; none if the turns have nothing in common.

        Args:
            idle_rows: i64[i] the stacks of the group's idle waits.
        """
        forest = self._tree.forest
        _, idle = paths(forest.caller_index, forest.depth, idle_rows[idle_rows >= 0])
        named = self._below(-1, set(idle.tolist()))
        names = list(dict.fromkeys(named.values()))
        number = [*(names.index(name) for name in named.values()), len(names)]
        return _Named(names, np.array(number, np.int64).take(self._tree.below(list(named))))

    def _below(self, row: int, is_idle: Container[int]) -> dict[int, str]:
        """Return the kinds below a row, -1 for all, with their names; none if it says nothing."""
        way, parts = self._way(row)
        if not parts:
            name = self._name_of_way(way, is_idle)
            return {way[-1]: name} if way and not is_start(name) else {}
        found: dict[int, str] = {}
        for part in parts:
            name = self._name_of_part(part, is_idle)
            # Where a program begins, it has not parted yet.
            found |= self._below(part, is_idle) if is_start(name) else {part: name}
        return found

    def _way(self, row: int) -> tuple[list[int], list[int]]:
        """Return the functions below a row that most turns have, and those where they part."""
        least = max(_LEAST_SHARE * len(self._turns), _LEAST_TURNS)
        way: list[int] = []
        amount = self._amount.get(row, float(len(self._turns)))
        while True:
            callees = self._callees.get(row, [])
            found = [callee for callee in callees if self._amount[callee] >= least]
            if len(found) == 1 and self._amount[found[0]] >= _MOST * amount:
                row = found[0]
                way.append(row)
                amount = self._amount[row]
            else:
                return way, found if len(found) > 1 and self._are_kinds(found) else []

    def _are_kinds(self, rows: list[int]) -> bool:
        """Return whether turns with stacks below one of these rows have none below another.

        All waits of a turn are known, so one is enough to tell; of samples it takes two.
        """
        stacks = self._of_turns
        below = self._tree.below(rows).take(stacks.row)
        is_in = np.flatnonzero(below < len(rows))
        if not len(is_in):
            return False
        turn, row = stacks.turn.take(is_in), below.take(is_in)
        _, place = np.unique(turn, return_inverse=True)
        tells = np.bincount(place, stacks.is_wait.take(is_in)) > 0
        tells |= np.bincount(place) > 1
        (turn, _), _ = group_sums([place, row], [np.ones(len(row), np.int64)])
        is_mixed = np.bincount(turn, minlength=len(tells)) > 1
        several = int(np.count_nonzero(tells))
        mixed = int(np.count_nonzero(tells & is_mixed))
        return several >= _LEAST_SEVERAL and mixed <= _MOST_MIXED * several

    def _name_of_part(self, row: int, is_idle: Container[int]) -> str:
        """Return the name for turns that part from others with a function that nearly all have."""
        least = _SAME * self._amount[row]
        way: list[int] = []
        below: int | None = row
        while below is not None:
            way.append(below)
            callees = self._callees.get(below, [])
            below = next((one for one in callees if self._amount[one] >= least), None)
        return self._name_of_way(way, is_idle)

    def _name_of_way(self, way: list[int], is_idle: Container[int]) -> str:
        """Return the first of the user's own functions on the way, or the first that is no loop."""
        after = [row for row in way if row not in is_idle]
        own = [row for row in after if self._tree.is_own(row)]
        named = [row for row in after if not is_start(self._tree.label(row))]
        rows = [*own, *named, *way]
        return self._tree.label(rows[0]) if rows else ""
