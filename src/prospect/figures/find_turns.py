"""The turns of a server's threads: from the end of an idle wait to the start of the next one.

The kind of a turn is the outermost function that distinguishes a program's turns from each other.
Each turn has stacks of its own thread, of its samples and of its waits, and belongs to its heaviest
stack. If turns with functions of the user's own code on their stacks have much of a program's time,
only these functions count, otherwise all but those in which programs and threads begin. From the
outermost one on, the stacks of a program's turns are followed while most turns continue in the same
function. If they then continue in several functions, and no turn has stacks in two of these, each
is a kind. If a turn has stacks in several of them, they are parts of one kind, with all functions
below. A kind has the name of its first function that is not on the way to the idle wait.

If turns without a stack have most of the time, their kind is the system call of their idle wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.buffers import gather
from prospect.columns.forests import levels
from prospect.columns.grouping import alike, group_sums
from prospect.columns.sorting import distinct
from prospect.figures.calls.own_code import is_anonymous, is_named, is_own_code, is_start
from prospect.figures.critical_path import moment_keys
from prospect.figures.report.idle_waits import CONDITION, LOOP, POLL, READ, SCHEDULER, SLEEP
from prospect.figures.report.waiting import blocked_waits
from prospect.figures.stacks.stack_weights import paths
from prospect.profile.model import TURN_CUT, TURN_WHOLE
from prospect.records import NamedTuple, Record, replace

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from prospect.columns.array_types import I32, I64, U8, U64, Bools
    from prospect.figures.report.waiting import BlockedWaits
    from prospect.figures.stacks.frames import NamedForest
    from prospect.profile.complete import CompleteProfile
    from prospect.profile.model import ThreadTimes


OTHER_TURNS = "other turns"
AFTER = "after "  # and the system call of the idle wait
_MOST_GROUPS = 100  # programs and idle waits, those with most turns
_MOST_TURNS = 20_000  # of a group, evenly spaced, whose stacks are looked at
_LEAST_OWN = 0.25  # of the time of a program's turns is in those with the user's own code
_LEAST_KNOWN = 0.5  # of it is in those with a stack
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
        is_wait: bool[e] whether it is of a wait: each wait has one stack.
    """

    turn: I64
    row: I64
    weight: I64
    is_wait: Bools


class TurnKinds(NamedTuple):
    """The kind of each turn, i32[n], a row of the names."""

    of_turn: I32
    names: list[str]


def turn_kinds(
    stacks: StacksOfTurns, blocked: BlockedWaits, wait: I64, group: I64, length_ns: I64
) -> TurnKinds:
    """Name the kind of each turn.

    Args:
        blocked: the waits, with the forest of stacks.
        wait: i64[n] the idle wait next to each turn.
        group: i64[n] a number of each turn's program and idle wait.
        length_ns: i64[n] of each turn.
    """
    names: dict[str, int] = {}
    calls = [names.setdefault(f"{AFTER}{name}", len(names)) for name in blocked.names]
    index = np.array(calls, np.int32).take(blocked.name.take(wait))
    is_stack = blocked.own_forest.depth.take(stacks.row) > 0  # more than the place of a sample
    stacks = gather(stacks, np.flatnonzero(is_stack))
    idle_row = blocked.user_stacks.user_row.take(blocked.stack_row.take(blocked.rows.take(wait)))
    groups, count = np.unique(group, return_counts=True)
    is_named = np.zeros(len(wait), np.bool_)
    for tree, least in _trees(blocked):
        of_tree = tree.stacks(stacks)
        main = _heaviest(of_tree, len(wait))
        for number in groups[np.argsort(-count, kind="stable")][:_MOST_GROUPS].tolist():
            turns = np.flatnonzero((group == number) & ~is_named)
            known = turns[main.take(turns) >= 0]
            # Many turns may be short: several processes wake up for one request.
            known_ns, whole_ns = (length_ns.take(rows).sum() for rows in (known, turns))
            if len(known) < _LEAST_TURNS or known_ns < least * whole_ns:
                continue
            idle = tree.row_of.take(distinct(idle_row.take(turns)))
            kinds, kind_of_row = _Kinds(tree, of_tree, main, known).named(idle)
            if kinds:
                rows = [names.setdefault(name, len(names)) for name in (*kinds, OTHER_TURNS)]
                index[turns] = np.array(rows, np.int32).take(kind_of_row.take(main.take(turns)))
                is_named[turns] = True
    used, known_names = distinct(index), list(names)
    of_turn = np.searchsorted(used, index).astype(np.int32)
    return TurnKinds(of_turn, [known_names[row] for row in used.tolist()])


def _heaviest(stacks: StacksOfTurns, turns: int) -> I64:
    """Return the stack of each turn with most weight, i64[n], -1 for none."""
    main = np.full(turns, -1, np.int64)
    if len(stacks.turn):
        (turn, row), (weight,) = group_sums([stacks.turn, stacks.row], [stacks.weight])
        order = np.lexsort((weight, turn))
        main[turn.take(order)] = row.take(order)  # the last of a turn stays
    return main


class _Tree:
    """Stacks of a profile without some of their functions."""

    def __init__(self, forest: NamedForest, labels: list[str], is_kept: Bools) -> None:
        """Keep the frames `is_kept`, bool[f]."""
        kept = is_kept.take(forest.frame_index)
        # The row of this tree for each row of the forest, and one more for none.
        self.row_of = np.full(len(forest) + 1, -1, np.int64)
        self.labels: list[str] = []
        caller: list[int] = []
        depth: list[int] = []
        number: dict[tuple[int, int], int] = {}
        for rows in levels(forest.depth):
            above = self.row_of.take(forest.caller_index.take(rows))
            self.row_of[rows] = above
            stays = np.flatnonzero(kept.take(rows))
            pairs = alike((above.take(stays) + 1, forest.frame_index.take(rows.take(stays))))
            found = []
            for at in stays.take(pairs.row).tolist():
                key = int(above[at]), int(forest.frame_index[rows[at]])
                if key not in number:
                    number[key] = len(caller)
                    caller.append(key[0])
                    depth.append(depth[key[0]] + 1 if key[0] >= 0 else 0)
                    self.labels.append(labels[key[1]])
                found.append(number[key])
            self.row_of[rows.take(stays)] = np.array(found, np.int64).take(pairs.place)
        self.caller_index = np.array(caller, np.int64)
        self.depth = np.array(depth, np.int64)
        self._levels = levels(self.depth)

    def stacks(self, stacks: StacksOfTurns) -> StacksOfTurns:
        """Return stacks as rows of this tree, without those that have none."""
        found = replace(stacks, row=self.row_of.take(stacks.row))
        return gather(found, np.flatnonzero(found.row >= 0))

    def below(self, roots: Sequence[int]) -> I64:
        """Return the root above each row, i64[t + 1], the number of roots for none and for -1."""
        found = np.full(len(self.depth) + 1, len(roots), np.int64)
        found[list(roots)] = np.arange(len(roots))
        for rows in self._levels[1:]:
            above = found.take(self.caller_index.take(rows))
            found[rows] = np.where(found.take(rows) == len(roots), above, found.take(rows))
        return found


def _trees(blocked: BlockedWaits) -> Iterator[tuple[_Tree, float]]:
    """Yield the stacks of the user's own functions, then of all but starts of programs.

    With each comes the share of the time of a program's turns that such turns must have.
    """
    frames, labels, _ = blocked.forest
    profile = blocked.samples.profile
    is_plain = np.array([_may_name(name) for name in labels], np.bool_)
    is_own = is_own_code(profile, frames) & is_named(profile, frames) & is_plain
    yield _Tree(blocked.own_forest, labels, is_own), _LEAST_OWN
    yield _Tree(blocked.own_forest, labels, is_plain), _LEAST_KNOWN


def _may_name(name: str) -> bool:
    """Return whether a function neither starts a program nor is within another function."""
    begins = is_start(name) or is_start(name.rpartition(".")[2])
    return not (begins or is_anonymous(name) or "<locals>" in name)


class _Kinds:
    """The way from the outermost functions of a program's turns to where these diverge."""

    def __init__(self, tree: _Tree, stacks: StacksOfTurns, main: I64, known: I64) -> None:
        """Follow the turns of a program.

        Args:
            main: i64[n] the stack that each turn belongs to.
            known: i64[k] the program's turns that have one, ascending.
        """
        self._tree = tree
        self._turns = known[:: len(known) // _MOST_TURNS + 1]
        self._of_turns = gather(stacks, np.flatnonzero(np.isin(stacks.turn, self._turns)))
        rows, count = np.unique(main.take(self._turns), return_counts=True)
        start, path = paths(tree.caller_index, tree.depth, rows)
        nodes, place = np.unique(path, return_inverse=True)
        amount = np.bincount(place, np.repeat(count, np.diff(start)), len(nodes))
        self._amount = dict(zip(nodes.tolist(), amount.tolist(), strict=True))
        self._callees: dict[int, list[int]] = {}
        callers = tree.caller_index.take(nodes)
        for node, caller in zip(nodes.tolist(), callers.tolist(), strict=True):
            self._callees.setdefault(caller, []).append(node)

    def named(self, idle_rows: I64) -> tuple[list[str], I64]:
        """Name the kinds; none if the turns have nothing in common.

        `idle_rows`, i64[i], are the stacks of the group's idle waits, -1 for none.

        Returns:
            The names, and the kind of each row of the tree, i64[t + 1], the number of names for
            others.
        """
        tree = self._tree
        _, idle = paths(tree.caller_index, tree.depth, idle_rows[idle_rows >= 0])
        is_idle = set(idle.tolist())
        way, parts = self._way()
        named = {part: self._name(self._with_most(part), is_idle) for part in parts}
        if way and not parts:
            named = {way[-1]: self._name(way, is_idle)}
        names = list(dict.fromkeys(named.values()))
        number = [*(names.index(name) for name in named.values()), len(names)]
        return names, np.array(number, np.int64).take(tree.below(list(named)))

    def _way(self) -> tuple[list[int], list[int]]:
        """Return the functions that most turns have, and those where they diverge, if they do."""
        least = max(_LEAST_SHARE * len(self._turns), _LEAST_TURNS)
        way: list[int] = []
        amount = float(len(self._turns))
        while True:
            callees = self._callees.get(way[-1] if way else -1, [])
            found = [row for row in callees if self._amount[row] >= least]
            if len(found) == 1 and self._amount[found[0]] >= _MOST * amount:
                way.append(found[0])
                amount = self._amount[found[0]]
            else:
                return way, found if len(found) > 1 and self._are_kinds(found) else []

    def _with_most(self, row: int) -> list[int]:
        """Return a row and those below it that nearly all of its turns have."""
        least = _SAME * self._amount[row]
        way: list[int] = []
        below: int | None = row
        while below is not None:
            way.append(below)
            callees = self._callees.get(below, [])
            below = next((one for one in callees if self._amount[one] >= least), None)
        return way

    def _name(self, way: list[int], is_idle: Container[int]) -> str:
        """Return the first function on the way that is not on that to an idle wait."""
        return self._tree.labels[next((row for row in way if row not in is_idle), way[-1])]

    def _are_kinds(self, rows: list[int]) -> bool:
        """Return whether turns with stacks below one of these rows have none below another.

        All waits of a turn are known, so one is evidence; of samples it takes two.
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


# Not the end of a child or a thread: its work belongs to the turn.
_ENDS = (LOOP, POLL, SLEEP, CONDITION, READ, SCHEDULER)
# Functions of loops that serve many requests at once: asyncio, libuv, nginx, gevent, libevent,
# Redis, Tokio, Netty, Tornado. PostgreSQL's processes have a loop too, each for one client.
_LOOPS = (
    *("BaseEventLoop", "_run_once", "run_forever", "uv__io_poll", "uv_run", "ngx_process_events"),
    *("ngx_epoll_process_events", "ngx_worker_process_cycle", "Hub.run", "gevent", "ev_run"),
    *("event_base_loop", "aeMain", "aeProcessEvents", "tokio::", "mio::", "NioEventLoop"),
    *("EpollEventLoop", "IOLoop.start", "uvloop"),
)
# The weight of a sample compared with a wait's length.
_SAMPLE_NS = 1_000_000


class FoundTurns(Record):
    """Turns by thread and time, without their pieces.

    Attributes:
        tid, process_index: i32[n] the thread and its program.
        begin_ns, end_ns: u64[n].
        state: u8[n] TURN_WHOLE or TURN_CUT.
        is_loop: bool[n], as of `TurnTable`.
        waits: i64[n] how many waits of the thread within it are in the table of waits.
        kind_index: i32[n] row of `kinds`.
        kinds: as of `TurnTable`.
        waiting: what the threads were blocked by.
    """

    tid: I32
    process_index: I32
    begin_ns: U64
    end_ns: U64
    state: U8
    is_loop: Bools
    waits: I64
    kind_index: I32
    kinds: list[str]
    waiting: NamedWaits

    def __len__(self) -> int:
        return len(self.tid)


class NamedWaits(Record):
    """Waits of a profile with their names: `row` i64[w] of its table, `name` i64[w] of `names`."""

    row: I64
    name: I64
    names: Sequence[str]

    def at(self, profile: CompleteProfile, tid: I32, time_ns: U64) -> I32:
        """Return what each thread was blocked by at a time, or next: i32[n] of `names`.

        It is -1 if the thread was not blocked after that. A thread that requests something from
        another may continue for a moment before it waits for the answer.
        """
        waits = profile.waits
        if waits is None or not len(self.row):
            return np.full(len(tid), -1, np.int32)
        of_waits = waits.tid.take(self.row)
        end_ns = waits.begin_ns.take(self.row) + waits.length_ns.take(self.row)
        ends, wanted = moment_keys((of_waits, end_ns), (tid, time_ns))
        order = np.argsort(ends, kind="stable")
        place = np.searchsorted(ends.take(order), wanted, "right")
        row = order.take(np.minimum(place, len(order) - 1))
        is_its = (place < len(order)) & (of_waits.take(row) == tid)
        return np.where(is_its, self.name.take(row), -1).astype(np.int32)


class _Idle(Record):
    """Idle waits by life of a thread and time, [i] each; `at` is their row of the waits."""

    at: I64
    tid: I32
    life: I64
    begin_ns: U64
    end_ns: U64


def find_turns(profile: CompleteProfile) -> FoundTurns | None:
    """Find the turns of all threads but Prospect's own; None if no thread has an idle wait."""
    blocked = blocked_waits(profile, "4", alone=False)
    threads = profile.threads
    if blocked is None or threads is None:
        return None
    idle = _idle(profile, threads, blocked)
    if not len(idle.at):
        return None
    before, begin_ns, end_ns, state = _intervals(profile, threads, idle)
    tid = idle.tid.take(before)
    wait = idle.at.take(before)
    of_waits, begins, ends = moment_keys(
        (blocked.tid, blocked.begin_ns), (tid, begin_ns), (tid, end_ns)
    )
    ordered = np.sort(of_waits)
    is_loop = _is_loop(blocked, wait)
    process_index = blocked.process_index.take(wait)
    kinds = turn_kinds(
        _stacks(blocked, (tid, begin_ns, end_ns)),
        blocked,
        wait,
        _groups(profile, process_index, blocked.name.take(wait)),
        (end_ns - begin_ns).view(np.int64),
    )
    return FoundTurns(
        tid=tid,
        process_index=process_index,
        begin_ns=begin_ns,
        end_ns=end_ns,
        state=state,
        is_loop=is_loop,
        waits=np.searchsorted(ordered, ends) - np.searchsorted(ordered, begins, "right"),
        kind_index=kinds.of_turn,
        kinds=kinds.names,
        waiting=NamedWaits(blocked.wait_rows, blocked.name, blocked.names),
    )


def _groups(profile: CompleteProfile, process_index: I32, idle_name: I64) -> I64:
    """Return a number for the program of each turn and its idle wait, i64[n]."""
    number: dict[str, int] = {}
    rows = [number.setdefault(name, len(number)) for name in profile.processes.name]
    program = np.array(rows, np.int64).take(process_index)
    return alike((program, idle_name)).place.astype(np.int64)


def _idle(profile: CompleteProfile, threads: ThreadTimes, blocked: BlockedWaits) -> _Idle:
    is_end = blocked.idle & np.isin(blocked.kind, _ENDS)
    is_end &= ~profile.processes.is_recorder.take(blocked.process_index)
    rows = np.flatnonzero(is_end)
    tid, begin_ns = blocked.tid.take(rows), blocked.begin_ns.take(rows)
    lives, begins = moment_keys((threads.tid, threads.begin_ns), (tid, begin_ns))
    life = np.searchsorted(lives, begins, "right") - 1
    is_there = (life >= 0) & (threads.tid.take(np.maximum(life, 0)) == tid)
    kept = np.flatnonzero(is_there)
    kept = kept.take(np.argsort(begins.take(kept), kind="stable"))
    rows, begin_ns = rows.take(kept), begin_ns.take(kept)
    return _Idle(
        at=rows,
        tid=tid.take(kept),
        life=life.take(kept),
        begin_ns=begin_ns,
        end_ns=begin_ns + blocked.ns.take(rows).view(np.uint64),
    )


def _intervals(
    profile: CompleteProfile, threads: ThreadTimes, idle: _Idle
) -> tuple[I64, U64, U64, U8]:
    """Return turns by thread and time: an idle wait next to each, its start, end and state.

    Turns that the recording cuts begin with it, if the thread existed and is not known to have been
    idle, or end with it.
    """
    rows = np.arange(len(idle.at))
    is_first = np.append(True, idle.life[1:] != idle.life[:-1])
    is_last = np.append(is_first[1:], True)
    whole = rows[~is_last]
    born_ns, died_ns = threads.begin_ns.take(idle.life), threads.end_ns.take(idle.life)
    run = profile.run
    heads = rows[is_first & (born_ns <= np.uint64(run.begin_ns)) & (born_ns < idle.begin_ns)]
    tails = rows[is_last & (died_ns >= np.uint64(run.end_ns)) & (idle.end_ns < died_ns)]
    before = np.concatenate((whole, heads, tails))
    begin_ns = np.concatenate(
        (idle.end_ns.take(whole), born_ns.take(heads), idle.end_ns.take(tails))
    )
    end_ns = np.concatenate(
        (idle.begin_ns.take(whole + 1), idle.begin_ns.take(heads), died_ns.take(tails))
    )
    state = np.full(len(before), TURN_CUT, np.uint8)
    state[: len(whole)] = TURN_WHOLE
    kept = np.flatnonzero(begin_ns < end_ns)
    kept = kept.take(np.lexsort((begin_ns.take(kept), idle.life.take(before.take(kept)))))
    return before.take(kept), begin_ns.take(kept), end_ns.take(kept), state.take(kept)


def _is_loop(blocked: BlockedWaits, wait: I64) -> Bools:
    """Return which idle waits, i64[n] rows of the waits, are in a loop that serves many requests.

    A function of such a loop is on their stack.
    """
    labels, forest = blocked.forest.labels, blocked.own_forest
    named = np.array([any(part in label for part in _LOOPS) for label in labels], np.bool_)
    on_path = named.take(forest.frame_index)
    for rows in levels(forest.depth)[1:]:
        on_path[rows] |= on_path.take(forest.caller_index.take(rows))
    row = blocked.stack_row.take(blocked.rows.take(wait))
    is_loop: Bools = on_path.take(row) & (blocked.kind.take(wait) == LOOP)
    return is_loop


def _stacks(blocked: BlockedWaits, turns: tuple[I32, U64, U64]) -> StacksOfTurns:
    """Return the stacks of the turns' own threads within them: of samples and of waits."""
    tid, begin_ns, end_ns = turns
    samples = blocked.samples
    table = samples.profile.samples
    user_row = blocked.user_stacks.user_row.take(blocked.stack_row)
    is_known = (user_row >= 0) & ~blocked.user_stacks.is_cut.take(blocked.stack_row)
    rows = np.flatnonzero(is_known & np.isin(samples.tid, distinct(tid)))
    begins, ends, moments = moment_keys(
        (tid, begin_ns), (tid, end_ns), (samples.tid.take(rows), table.time_ns.take(rows))
    )
    turn = np.searchsorted(begins, moments, "right") - 1
    turn = np.maximum(turn, 0)
    # The wait for a CPU begins with the turn, with the stack of the idle wait.
    is_in = (moments > begins.take(turn)) & (moments < ends.take(turn))
    rows, turn = rows[is_in], turn[is_in]
    is_wait = rows >= blocked.first_wait
    return StacksOfTurns(
        turn=turn,
        row=user_row.take(rows),
        weight=np.where(is_wait, samples.period.take(rows), _SAMPLE_NS),
        is_wait=is_wait,
    )
