"""Records of the scheduler → the critical path of COMMAND, and the turns of threads, with names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.abi import constants as abi
from prospect.assembly.extras import interval_ns, is_i32
from prospect.assembly.tables.run_facts import attached_pids
from prospect.assembly.threads.waits import processes_of, wakings
from prospect.columns.buffers import appended, gather
from prospect.columns.grouping import distinct_keys
from prospect.events import record_columns
from prospect.events.record_columns import TASK_EXEC, TASK_EXIT, TASK_FORK
from prospect.figures.find_turns import find_turns
from prospect.profile.complete import complete
from prospect.profile.model import TURN_UNCLEAR, TURN_WHOLE, TurnTable, WallPath, WallTakers
from prospect.records import Record, replace
from prospect.spaces.attribution import task_tid
from prospect.wall.path import NOBODY, RUNNING, critical_path, pieces_at
from prospect.wall.schedule_records import Births, Command, SchedulerRecords, Switches, Wakings
from prospect.wall.schedule_replay import ended_schedule
from prospect.wall.turns import Turns, turn_pieces

if TYPE_CHECKING:
    from prospect.abi.recorded_facts import RecordingInfo
    from prospect.columns.array_types import I32, I64, U64, Bools
    from prospect.events.record_columns import Events, Tasks
    from prospect.figures.find_turns import FoundTurns
    from prospect.profile.complete import CompleteProfile
    from prospect.profile.model import Profile
    from prospect.spaces.process_history import ProcessHistory
    from prospect.wall.path import Pieces, Schedule
    from prospect.wall.schedule_records import Processes

_NOBODY_NAME = b""
_BEGINS, _ENDS = 1, -1
# Tids of unknown threads that had a CPU: this, less the number of the CPU. No kernel assigns such
# numbers.
_UNKNOWN_TID = (1 << 31) - 1
_LEAST_UNKNOWN_TID = _UNKNOWN_TID - (1 << 16)
# From an exit until the waiting thread has a CPU, on an idle machine. And from a wake-up until the
# exit is recorded: files are closed and joined threads woken before.
_AFTER_EXIT_NS = 10_000_000
_WOKEN_BEFORE_NS = np.uint64(50_000)


class CommandPath(Record):
    """The path before its threads have names: `pieces`, and the process of each thread in it.

    `pid` i32[p] is that of the pieces, `taker_pid` i32[k] that of threads that had the CPUs, and
    `ender_pid` i32[p] that of threads that ended a wait.
    """

    pieces: Pieces
    pid: I32
    taker_pid: I32
    ender_pid: I32

    def described(self, history: ProcessHistory) -> WallPath:
        """Return the table of a profile."""
        pieces, had, timeline = self.pieces, self.pieces.takers, history.timeline
        process, name = timeline.programs_at(self.pid, pieces.tid, pieces.start_ns)
        at_ns = pieces.start_ns.take(had.piece)
        of_taker, taker_name = timeline.programs_at(self.taker_pid, had.tid, at_ns)
        of_ender, ender_name = timeline.programs_at(self.ender_pid, pieces.ended_by, pieces.end_ns)
        had = replace(had, tid=np.where(had.tid >= _LEAST_UNKNOWN_TID, np.int32(-1), had.tid))
        is_nobody, is_ended = had.tid <= NOBODY, pieces.ended_by > 0
        every = np.concatenate(
            (name, np.where(is_nobody, -1, taker_name), np.where(is_ended, ender_name, -1))
        )
        rows, index = distinct_keys((every + np.int32(1)).astype(np.int32), len(history.names) + 1)
        raw = [history.names[row - 1] if row else _NOBODY_NAME for row in rows.tolist()]
        names = [name.decode("utf-8", "surrogateescape") for name in raw]
        name_index, taker_index, ender_index = np.split(
            index.astype(np.int32), np.cumsum((len(name), len(taker_name)))
        )
        return WallPath(
            begin_ns=pieces.start_ns,
            length_ns=(pieces.end_ns - pieces.start_ns).view(np.int64),
            state=pieces.kind,
            tid=pieces.tid,
            process_index=process,
            name_index=name_index,
            ended_by=pieces.ended_by,
            ender_index=np.where(is_ended, ender_index, np.int32(-1)),
            ender_process_index=np.where(is_ended, of_ender, np.int32(-1)),
            takers=WallTakers(
                piece=had.piece,
                tid=had.tid,
                process_index=np.where(is_nobody, np.int32(-1), of_taker),
                name_index=taker_index,
                length_ns=had.length_ns,
            ),
            names=names,
            cpu=pieces.cpu,
        )


def find_path(
    events: Events, switches: record_columns.Switches | None, info: RecordingInfo
) -> CommandPath | None:
    """Follow COMMAND's wall time backwards; None if no command, or no switch of it, is recorded."""
    recorded = _recorded(events, switches, info)
    if switches is None or recorded is None:
        return None
    pieces = critical_path(*recorded)
    if pieces is None:
        return None
    if info.events[0].attr.flags & abi.FLAG_INHERIT:  # others had CPUs, and are not recorded
        had = pieces.takers
        tid = np.where(had.tid == NOBODY, np.int32(_UNKNOWN_TID), had.tid)
        pieces = replace(pieces, takers=replace(had, tid=tid))
    return with_pids(_cut_at_execs(pieces, events.tasks), recorded[0].processes)


def with_pids(pieces: Pieces, processes: Processes) -> CommandPath:
    """Return pieces with the processes of their threads."""
    return CommandPath(
        pieces,
        *(processes.pid_of(tids) for tids in (pieces.tid, pieces.takers.tid, pieces.ended_by)),
    )


def find_schedule(
    events: Events, switches: record_columns.Switches | None, info: RecordingInfo
) -> Schedule | None:
    """Return the schedule for a replay of COMMAND's run; None if `find_path` finds no path."""
    recorded = _recorded(events, switches, info)
    if recorded is None:
        return None
    tasks = events.tasks
    is_exit = (tasks.kind == TASK_EXIT) & (tasks.time_ns > 0)
    return ended_schedule(*recorded, (tasks.tid[is_exit], tasks.time_ns[is_exit]))


def _recorded(
    events: Events, switches: record_columns.Switches | None, info: RecordingInfo
) -> tuple[SchedulerRecords, Command] | None:
    """Return the scheduler's records, and the thread whose time is explained."""
    tid = info.extras.get("command_pid")
    if switches is None or not (isinstance(tid, int) and is_i32(tid)) or attached_pids(info.extras):
        return None
    records = scheduler_records(events, switches, info)
    asked = _asked(events.tasks, tid, records.begin_ns, records.end_ns)
    return records, replace(asked, everybody=info.extras.get("wall_scope") == "system")


def scheduler_records(
    events: Events, switches: record_columns.Switches, info: RecordingInfo
) -> SchedulerRecords:
    """Return the scheduler's records in a recording."""
    begin_ns, end_ns = interval_ns(info, events)
    if switches.is_followed is not None:
        switches = _with_others(switches, events.samples)
    losses, woken = events.losses, Wakings(*wakings(events, info))
    if not len(woken.time_ns):
        woken = _ended_by_exits(events.tasks, switches)
    is_lost = losses.kind == abi.PERF_RECORD_LOST
    return SchedulerRecords(
        switches=Switches(
            switches.time_ns,
            task_tid(switches.task),
            switches.cpu,
            switches.is_out,
            switches.is_preempted,
        ),
        wakings=woken,
        births=_births(events.tasks),
        processes=processes_of(events, switches.task),
        begin_ns=begin_ns,
        end_ns=end_ns,
        lost_ns=losses.time_ns[is_lost],
    )


def _with_others(
    switches: record_columns.Switches, samples: record_columns.Samples
) -> record_columns.Switches:
    """Return the switches of a recording that follows some threads only, with other threads.

    It shows which other thread got a CPU from a followed thread, and which one left it to the next
    followed one. If they are the same, this thread had the CPU meanwhile. Otherwise the clocks'
    samples, of the first event, show which threads had it; without samples it is unknown.
    """
    followed = switches.is_followed
    if followed is None:
        return switches
    others = np.flatnonzero(~followed)
    others = others.take(np.argsort(switches.cpu.take(others), kind="stable"))
    cpu, is_out = switches.cpu.take(others), switches.is_out.take(others)
    first = np.flatnonzero(~is_out[:-1] & is_out[1:] & (cpu[:-1] == cpu[1:]))
    begin, end = others.take(first), others.take(first + 1)
    task = switches.task.copy()
    differs = task_tid(task.take(begin)) != task_tid(task.take(end))
    kept = np.sort(np.concatenate((np.flatnonzero(followed), begin, end)))
    between, is_sampled = _sampled_switches(switches, samples, begin[differs], end[differs])
    differs[np.flatnonzero(differs)[is_sampled]] = False
    unknown = (_UNKNOWN_TID - cpu.take(first)[differs]).astype(np.uint64) << np.uint64(32)
    task[begin[differs]] = unknown
    task[end[differs]] = unknown
    known = gather(replace(switches, task=task), kept)
    if not len(between):
        return known
    every = appended(known, between, np.arange(len(between)))
    return gather(every, np.argsort(every.time_ns, kind="stable"))


def _sampled_switches(
    switches: record_columns.Switches, samples: record_columns.Samples, begin: I64, end: I64
) -> tuple[record_columns.Switches, Bools]:
    """Return switches half way between samples of different threads, and which times had samples.

    Args:
        begin: rows of arrivals. No other thread is recorded on that CPU until `end`.
        end: rows of the departures of other threads.
    """
    clock = np.flatnonzero(samples.event == 0)
    edges = np.concatenate((begin, end))
    cpu = np.concatenate((switches.cpu.take(edges), samples.cpu.take(clock).astype(np.int32)))
    time_ns = np.concatenate((switches.time_ns.take(edges), samples.time_ns.take(clock)))
    task = np.concatenate((switches.task.take(edges), samples.task.take(clock)))
    kind = np.repeat(np.array([_BEGINS, _ENDS, 0], np.int8), (len(begin), len(end), len(clock)))
    order = np.lexsort((-kind, time_ns, cpu))
    is_within = np.cumsum(kind.take(order)) > 0
    is_inner = is_within & (kind.take(order) == 0)
    is_begin = kind.take(order) == _BEGINS
    place, gap = np.cumsum(is_begin) - 1, order[is_begin]
    is_sampled = np.zeros(len(begin), np.bool_)
    is_sampled[gap.take(place[is_inner])] = True
    both = np.flatnonzero(
        is_within[:-1] & (task_tid(task.take(order[:-1])) != task_tid(task.take(order[1:])))
    )
    both = both[is_sampled.take(gap.take(place.take(both)))]
    before, after = order.take(both), order.take(both + 1)
    half = (time_ns.take(after) - time_ns.take(before)) // np.uint64(2)
    count, nobody = len(both), np.zeros(len(both), np.bool_)
    between = record_columns.Switches(
        time_ns=np.repeat(time_ns.take(before) + half, 2),
        task=np.stack((task.take(before), task.take(after)), axis=1).reshape(-1),
        cpu=np.repeat(cpu.take(before), 2),
        is_out=np.stack((~nobody, nobody), axis=1).reshape(-1),
        is_preempted=np.stack((~nobody, nobody), axis=1).reshape(-1),
        is_followed=np.zeros(2 * count, np.bool_),
    )
    return between, is_sampled


def _births(tasks: Tasks) -> Births:
    is_birth = (tasks.kind == TASK_FORK) & (tasks.time_ns > 0)
    return Births(tasks.time_ns[is_birth], tasks.tid[is_birth], tasks.parent_tid[is_birth])


def _ended_by_exits(tasks: Tasks, switches: record_columns.Switches) -> Wakings:
    """Return the waits that end with the exit of a process or thread that the waiting one made.

    This replaces records of wake-ups, which only root can have. A thread that gets a CPU soon after
    the exit is taken to have waited for it, as a shell waits for a command, ``make`` for a
    compiler, and pthread_join() for a thread. If there are several exits, it is the last one.
    "Soon" is twice as long as any preempted thread waited for a CPU: the machine was that busy.

    Source: do_exit() in ``kernel/exit.c``, Linux 6.18.
    """
    maker, ended, exit_ns = _lives(tasks, switches)
    early_ns = exit_ns - np.minimum(exit_ns, _WOKEN_BEFORE_NS)
    # Exits and switches of the same thread: an exit that is just before the thread gets a CPU.
    tids = np.concatenate((maker, task_tid(switches.task)))
    time_ns = np.concatenate((early_ns, switches.time_ns))
    is_exit, is_not = np.arange(len(tids)) < len(maker), np.zeros(len(maker), np.bool_)
    gets_cpu = np.append(is_not, ~switches.is_out)
    could_go_on = np.append(is_not, switches.is_out & switches.is_preempted)
    order = np.lexsort((time_ns, tids))
    at, after = order[:-1], order[1:]
    gets = gets_cpu.take(after) & (tids.take(at) == tids.take(after))
    delay_ns = time_ns.take(after) - time_ns.take(at)
    longest_ns = 2 * int(delay_ns[gets & could_go_on.take(at)].max(initial=0))
    is_it = gets & is_exit.take(at) & (delay_ns <= max(longest_ns, _AFTER_EXIT_NS))
    found = at[is_it]
    woken_ns = np.minimum(exit_ns.take(found), time_ns.take(after[is_it]))
    order = np.argsort(woken_ns, kind="stable")
    return Wakings(woken_ns.take(order), *(of.take(found.take(order)) for of in (maker, ended)))


_LEFT = 255  # among TASK_*: the thread left a CPU


def _lives(tasks: Tasks, switches: record_columns.Switches) -> tuple[I32, I32, U64]:
    """Return the threads that were born and ended: i32[l] by which one, i32[l], u64[l] the end.

    If the exit of a thread is not recorded, it is the last time that the thread left a CPU.
    """
    known = (tasks.kind == TASK_FORK) | (tasks.kind == TASK_EXIT)
    chosen, left = np.flatnonzero(known & (tasks.time_ns > 0)), np.flatnonzero(switches.is_out)
    tid = np.concatenate((tasks.tid.take(chosen), task_tid(switches.task.take(left))))
    time_ns = np.concatenate((tasks.time_ns.take(chosen), switches.time_ns.take(left)))
    kind = np.append(tasks.kind.take(chosen), np.full(len(left), _LEFT, np.uint8))
    order = np.lexsort((time_ns, tid))
    tid, time_ns, kind = tid.take(order), time_ns.take(order), kind.take(order)
    is_birth = kind == TASK_FORK
    is_new = np.append(True, tid[1:] != tid[:-1])[: len(tid)] | is_birth
    first = np.maximum.accumulate(np.where(is_new, np.arange(len(tid)), 0))
    last = np.flatnonzero(np.append(is_new[1:], True)[: len(tid)])
    last = last[is_birth.take(first.take(last)) & ~is_birth.take(last)]
    # A thread leaves its CPU once more after its exit.
    is_later = (kind.take(last) == _LEFT) & (kind.take(last - 1) == TASK_EXIT)
    last = np.where(is_later, last - 1, last)
    born = chosen.take(order.take(first.take(last)))
    return tasks.parent_tid.take(born), tid.take(last), time_ns.take(last)


def _asked(tasks: Tasks, tid: int, begin_ns: int, end_ns: int) -> Command:
    """Return when COMMAND began, with its first exec, and which of its threads ended last."""
    started = np.flatnonzero((tasks.kind == TASK_EXEC) & (tasks.pid == tid) & (tasks.time_ns > 0))
    start_ns = int(tasks.time_ns[started[0]]) if len(started) else begin_ns
    is_exit = (tasks.kind == TASK_EXIT) & (tasks.pid == tid) & (tasks.time_ns > np.uint64(start_ns))
    exits = np.flatnonzero(is_exit)
    if not (tasks.tid.take(exits) == tid).any():
        return Command(tid, start_ns, end_ns, tid)
    last = exits[int(tasks.time_ns.take(exits).argmax())]
    return Command(tid, start_ns, int(tasks.time_ns[last]), int(tasks.tid[last]))


def _cut_at_execs(pieces: Pieces, tasks: Tasks) -> Pieces:
    """Return the pieces, cut at each exec of a thread of the path."""
    execs = np.flatnonzero(tasks.kind == TASK_EXEC)
    at_ns = tasks.time_ns.take(execs)
    piece = np.maximum(np.searchsorted(pieces.start_ns, at_ns, "right") - 1, 0)
    is_cut = (at_ns > pieces.start_ns.take(piece)) & (at_ns < pieces.end_ns.take(piece))
    is_cut &= (pieces.tid.take(piece) == tasks.tid.take(execs)) & (
        pieces.kind.take(piece) == RUNNING
    )
    at_ns, piece = at_ns[is_cut], piece[is_cut]
    row = np.sort(np.concatenate((np.arange(len(pieces)), piece)))
    starts = np.sort(np.concatenate((pieces.start_ns, at_ns)))
    had = pieces.takers
    first = np.searchsorted(row, np.arange(len(pieces)))
    return replace(
        pieces,
        start_ns=starts,
        end_ns=np.append(starts[1:], pieces.end_ns[-1:]),
        tid=pieces.tid.take(row),
        cpu=pieces.cpu.take(row),
        kind=pieces.kind.take(row),
        ended_by=pieces.ended_by.take(row),
        takers=replace(had, piece=first.take(had.piece)),
    )


# Records of the scheduler and the waits of a profile → its turns, with the names of threads.


class TurnSource(Record):
    """The records of turns, kept until waits have named stacks."""

    records: SchedulerRecords

    def added_to(self, profile: Profile, history: ProcessHistory) -> Profile:
        """Return a profile with the turns of its threads, if any thread waits for work."""
        whole = complete(profile)
        found = find_turns(whole)
        if found is None:
            return profile
        return replace(profile, turns=self._table(whole, found, history, len(profile.processes)))

    def _table(
        self, profile: CompleteProfile, found: FoundTurns, history: ProcessHistory, processes: int
    ) -> TurnTable:
        whole = np.flatnonzero(found.state == TURN_WHOLE)
        tid, begin_ns = found.tid.take(whole), found.begin_ns.take(whole)
        walked = turn_pieces(self.records, Turns(tid, begin_ns, found.end_ns.take(whole)))
        # A wait that is in no table may have been idle.
        is_clear = walked.is_followed & (walked.gaps == found.waits.take(whole))
        state = found.state.copy()
        state[whole[~is_clear]] = TURN_UNCLEAR
        kept = np.flatnonzero(is_clear.take(walked.turn))
        turn, pieces = walked.turn.take(kept), pieces_at(walked.pieces, kept)
        is_other = pieces.tid != tid.take(turn)
        during = np.full(len(kept), -1, np.int32)
        during[is_other] = found.waiting.at(
            profile, tid.take(turn[is_other]), pieces.start_ns[is_other]
        )
        process = found.process_index
        return TurnTable(
            tid=found.tid,
            process_index=np.where(process < processes, process, np.int32(-1)),
            begin_ns=found.begin_ns,
            length_ns=(found.end_ns - found.begin_ns).view(np.int64),
            state=state,
            is_loop=found.is_loop,
            kind_index=found.kind_index,
            kinds=found.kinds,
            turn_of_piece=whole.take(turn).astype(np.int32),
            pieces=with_pids(pieces, self.records.processes).described(history),
            during_index=during,
            during=list(found.waiting.names),
        )


def turn_source(
    events: Events, switches: record_columns.Switches | None, info: RecordingInfo
) -> TurnSource | None:
    """Return the records of turns; None without switches."""
    return TurnSource(scheduler_records(events, switches, info)) if switches is not None else None
