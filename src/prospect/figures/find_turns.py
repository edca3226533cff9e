"""The turns of a server's threads: from the end of an idle wait to the start of the next one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.grouping import alike
from prospect.columns.moments import moment_keys
from prospect.columns.sorting import distinct
from prospect.figures.report.idle_waits import (
    CONDITION,
    LOOP,
    POLL,
    READ,
    SCHEDULER,
    SLEEP,
)
from prospect.figures.report.waiting import blocked_waits
from prospect.figures.stacks.call_forest import levels
from prospect.figures.turn_kinds import StacksOfTurns, turn_kinds
from prospect.profile.model import TURN_CUT, TURN_WHOLE
from prospect.records import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prospect.figures.report.waiting import BlockedWaits
    from prospect.profile.complete import CompleteProfile
    from prospect.profile.model import ThreadTimes

# Not the end of a child or a thread: what that did belongs to the turn.
_ENDS = (LOOP, POLL, SLEEP, CONDITION, READ, SCHEDULER)
# Functions of loops that serve many requests at once: asyncio, libuv, nginx, gevent, libevent,
# Redis, Tokio, Netty, Tornado. PostgreSQL's processes have a loop too, each for one client.
_LOOPS = (
    *("BaseEventLoop", "_run_once", "run_forever", "uv__io_poll", "uv_run", "ngx_process_events"),
    *("ngx_epoll_process_events", "ngx_worker_process_cycle", "Hub.run", "gevent", "ev_run"),
    *("event_base_loop", "aeMain", "aeProcessEvents", "tokio::", "mio::", "NioEventLoop"),
    *("EpollEventLoop", "IOLoop.start", "uvloop"),
)
# The weight of a sample next to a wait's length, to tell what a turn mostly is.
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

    tid: NDArray[np.int32]
    process_index: NDArray[np.int32]
    begin_ns: NDArray[np.uint64]
    end_ns: NDArray[np.uint64]
    state: NDArray[np.uint8]
    is_loop: NDArray[np.bool_]
    waits: NDArray[np.int64]
    kind_index: NDArray[np.int32]
    kinds: list[str]
    waiting: NamedWaits

    def __len__(self) -> int:
        return len(self.tid)


class NamedWaits(Record):
    """Waits of a profile with their names: `row` i64[w] of its table, `name` i64[w] of `names`."""

    row: NDArray[np.int64]
    name: NDArray[np.int64]
    names: Sequence[str]

    def at(
        self, profile: CompleteProfile, tid: NDArray[np.int32], time_ns: NDArray[np.uint64]
    ) -> NDArray[np.int32]:
        """Return what each thread was blocked by at a time, or next: i32[n] of `names`.

        It is -1 for nothing any more. A thread that asks another for something may go on for a
        moment before it waits for the answer.
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

    at: NDArray[np.int64]
    tid: NDArray[np.int32]
    life: NDArray[np.int64]
    begin_ns: NDArray[np.uint64]
    end_ns: NDArray[np.uint64]


def find_turns(profile: CompleteProfile) -> FoundTurns | None:
    """Find the turns of all threads but Prospect's own; None if no thread has an idle wait.

    Args:
        profile: with its waits and the times of its threads.
    """
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
        (blocked.tid, _begin_ns(profile, blocked)), (tid, begin_ns), (tid, end_ns)
    )
    ordered = np.sort(of_waits)
    is_loop = _is_loop(blocked, wait)
    process_index = _processes(profile, blocked).take(wait)
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


def _begin_ns(profile: CompleteProfile, blocked: BlockedWaits) -> NDArray[np.uint64]:
    waits = profile.waits
    return np.empty(0, np.uint64) if waits is None else waits.begin_ns.take(blocked.wait_rows)


def _processes(profile: CompleteProfile, blocked: BlockedWaits) -> NDArray[np.int32]:
    waits = profile.waits
    return np.empty(0, np.int32) if waits is None else waits.process_index.take(blocked.wait_rows)


def _groups(
    profile: CompleteProfile, process_index: NDArray[np.int32], idle_name: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return a number for the program of each turn and what its idle wait is, i64[n]."""
    number: dict[str, int] = {}
    rows = [number.setdefault(name, len(number)) for name in profile.processes.name]
    program = np.array(rows, np.int64).take(process_index)
    return alike((program, idle_name)).place.astype(np.int64)


def _idle(profile: CompleteProfile, threads: ThreadTimes, blocked: BlockedWaits) -> _Idle:
    is_end = blocked.idle & np.isin(blocked.kind, _ENDS)
    is_end &= ~profile.processes.is_recorder.take(_processes(profile, blocked))
    rows = np.flatnonzero(is_end)
    tid, begin_ns = blocked.tid.take(rows), _begin_ns(profile, blocked).take(rows)
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
) -> tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint8]]:
    """Return turns by thread and time: an idle wait next to each, its start, end and state.

    Those that the recording cuts begin with it, if the thread was there and is not known to have
    been idle, or end with it.
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


def _is_loop(blocked: BlockedWaits, wait: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return of idle waits, i64[n] rows of the waits, whether they are a loop's for many requests.

    A function of such a loop is on their stack.
    """
    labels, forest = blocked.forest.labels, blocked.own_forest
    named = np.array([any(part in label for part in _LOOPS) for label in labels], np.bool_)
    on_path = named.take(forest.frame_index)
    for rows in levels(forest.depth)[1:]:
        on_path[rows] |= on_path.take(forest.caller_index.take(rows))
    row = blocked.stack_row.take(blocked.rows.take(wait))
    is_loop: NDArray[np.bool_] = on_path.take(row) & (blocked.kind.take(wait) == LOOP)
    return is_loop


def _stacks(
    blocked: BlockedWaits,
    turns: tuple[NDArray[np.int32], NDArray[np.uint64], NDArray[np.uint64]],
) -> StacksOfTurns:
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
