"""Side records → `ProcessHistory`: the processes, thread names and address spaces of a recording.

`attribution` reads the timeline, and later stages the address spaces. Records win over the snapshot
that raced with them. Most mappings are of started programs and cover no other mapping:
`started_mappings` finds those all at once, and only the others are replayed one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.abi import constants as abi
from prospect.columns.buffers import gather
from prospect.columns.sorting import distinct, numbered
from prospect.events.record_columns import TASK_EXEC, TASK_FORK
from prospect.records import Record, replace
from prospect.spaces.address_spaces import (
    MadeMappings,
    build_address_spaces,
    file_by_tree,
    is_of_kernel,
    mappings_of,
    number_versions,
)
from prospect.spaces.attribution import task_pid, task_runs, task_tid
from prospect.spaces.replay import KIND_MMAP, Replay, SideRecords, freeze_processes
from prospect.spaces.task_timeline import TaskIds, Timeline, build_track, collect_ids, with_ranks

if TYPE_CHECKING:
    from prospect.columns.array_types import I32, I64
    from prospect.events.record_columns import Events, Mmaps, Tasks
    from prospect.spaces.address_spaces import AddressSpaces, Mappings
    from prospect.spaces.attribution import TaskRuns
    from prospect.spaces.replay import ProcessRows

# Bits of a record's place among all, in a key with the rank of its pid.
_PLACE_BITS = 32

_NAME_OF_IDLE = b"swapper"
_NAME_OF_UNKNOWN = b"unknown"


class Started(Record):
    """Mappings of programs that fork no process and never map over a mapping.

    Attributes:
        mapping: i64[k] ascending.
        task: i64[k] the record of the exec before each.
        other: i64[m - k] all others, ascending.
    """

    mapping: I64
    task: I64
    other: I64


def started_mappings(tasks: Tasks, mmaps: Mmaps, mappings: Mappings, ids: TaskIds) -> Started:
    """Find the mappings of programs that fork no process and never map over a mapping."""
    in_time = np.argsort(np.concatenate((tasks.order, mmaps.order)), kind="stable")
    place = np.empty_like(in_time)
    place[in_time] = np.arange(len(in_time))
    of_task, of_mmap = place[: len(tasks.order)], place[len(tasks.order) :]
    is_live = tasks.time_ns > 0  # a snapshot lists processes that began before
    is_birth = (tasks.kind == TASK_FORK) & (tasks.pid != tasks.parent_pid) & is_live
    begin = np.flatnonzero(is_birth | (tasks.kind == TASK_EXEC) & is_live)
    key = _key(ids.find(tasks.pid.take(begin)), of_task.take(begin))
    order = np.argsort(key)
    key, begin = key.take(order), begin.take(order)
    is_plain = ~is_birth.take(begin)
    forks = np.flatnonzero(is_birth)
    parent = _begin_before(key, ids.find(tasks.parent_pid.take(forks)), of_task.take(forks))
    is_plain[parent[parent >= 0]] = False
    program = _begin_before(key, ids.find(mmaps.pid), of_mmap)
    # The last entry is for mappings before any exec or fork of their process.
    found = np.flatnonzero(np.append(is_plain, False).take(program))
    program, start, end = program.take(found), mappings.start.take(found), mappings.end.take(found)
    *_, overlaps = file_by_tree(program, start, end, len(begin))
    is_apart = ~overlaps.take(program)
    found = found[is_apart]
    is_other = np.ones(len(mmaps.start), np.bool_)
    is_other[found] = False
    return Started(found, begin.take(program[is_apart]), np.flatnonzero(is_other))


def _key(rank: I64, place: I64) -> I64:
    return rank << _PLACE_BITS | place


def _begin_before(begins: I64, rank: I64, place: I64) -> I64:
    """Return the last of the `begins` of its pid before each record, i64[n], -1 for none."""
    if not len(begins):
        return np.full(len(rank), -1)
    row = np.searchsorted(begins, _key(rank, place)) - 1
    is_of_pid = (row >= 0) & (begins.take(row) >> _PLACE_BITS == rank)
    return np.where(is_of_pid, row, -1)


class ProcessHistory(Record):
    """Processes, threads and mappings of a recording, at each time.

    Attributes:
        mappings: `AddressSpaces.locate` returns rows of these.
        kernel_mappings: text of the kernel and its modules, in chronological order.
        names: the recording's names, and after them ``swapper``, ``:PID`` and the like for
            tasks that no record names.
        runs: runs of the recording's samples.
    """

    processes: ProcessRows
    timeline: Timeline
    address_spaces: AddressSpaces
    mappings: Mappings
    kernel_mappings: Mappings
    names: list[bytes]
    build_ids: list[bytes]
    runs: list[TaskRuns]


def build_spaces(events: Events) -> ProcessHistory:
    """Replay a recording's side records.

    Every task that has a sample gets a process row and a thread name, even if no record names it.
    Takes about 2 µs a record of a task, and a tenth of that for most mappings.
    """
    runs = list(task_runs(events.samples))
    tasks_of_runs = [distinct(one.task) for one in runs]
    sampled = distinct(np.concatenate([np.empty(0, np.uint64), *tasks_of_runs]))
    sampled_pid, sampled_tid = task_pid(sampled), task_tid(sampled)
    tasks, mmaps = events.tasks, events.mmaps
    columns = (tasks.pid, tasks.tid, tasks.parent_pid, tasks.parent_tid, mmaps.pid)
    ids = collect_ids(*columns, sampled_pid, sampled_tid)
    tasks, user_mmaps = _records_to_replay(tasks, mmaps, ids)
    mappings = mappings_of(user_mmaps)
    started = started_mappings(tasks, user_mmaps, mappings, ids)
    one_by_one = gather(user_mmaps, started.other), gather(mappings, started.other)
    replay = Replay(_side_records(tasks, *one_by_one, ids), len(ids))
    replay.run()
    pid_rank, tid_rank = ids.find(sampled_pid), ids.find(sampled_tid)
    for pid in distinct(pid_rank).tolist():
        replay.known_row(pid)
    names = list(events.names)
    timeline = _freeze_timeline(replay, ids, _thread_ids(replay, ids, pid_rank, tid_rank), names)
    name = _fill_names(names, ids, replay.processes.name, replay.processes.pid)
    process_row, made = _made_mappings(replay, started, mappings, len(tasks.order))
    spaces = replay.spaces
    return ProcessHistory(
        processes=freeze_processes(replay.processes, ids.ids, name),
        timeline=timeline,
        address_spaces=build_address_spaces(
            np.array(spaces.version_space, np.int64), number_versions(spaces.version_parent), made
        ),
        mappings=replace(mappings, process_row=process_row),
        kernel_mappings=mappings_of(
            gather(mmaps, np.flatnonzero(is_of_kernel(mmaps) & (mmaps.length > 0)))
        ),
        names=names,
        build_ids=events.build_ids,
        runs=runs,
    )


def _records_to_replay(tasks: Tasks, mmaps: Mmaps, ids: TaskIds) -> tuple[Tasks, Mmaps]:
    """Leave out records of no process, and the snapshot's records of processes that it raced with.

    If the first record of a pid is its birth, it was born after recording began. The snapshot,
    which came later but has time 0, then saw it in the middle of its life.
    """
    keep_task = (tasks.pid >= 0) & (tasks.tid >= 0)
    keep_mmap = ~is_of_kernel(mmaps) & (mmaps.length > 0)
    task_rank, mmap_rank = ids.find(tasks.pid), ids.find(mmaps.pid)
    is_birth = (tasks.kind == TASK_FORK) & (tasks.pid != tasks.parent_pid) & (tasks.time_ns > 0)
    never = np.iinfo(np.int64).max
    first_birth = np.full(len(ids), never)
    first_record = np.full(len(ids), never)
    np.minimum.at(first_birth, task_rank[is_birth], tasks.order[is_birth])
    for rank, table in ((task_rank, tasks), (mmap_rank, mmaps)):
        is_live = table.time_ns > 0
        np.minimum.at(first_record, rank[is_live], table.order[is_live])
    born_live = (first_birth == first_record) & (first_birth != never)
    keep_task &= (tasks.time_ns > 0) | ~born_live.take(task_rank)
    keep_mmap &= (mmaps.time_ns > 0) | ~born_live.take(mmap_rank)
    return gather(tasks, np.flatnonzero(keep_task)), gather(mmaps, np.flatnonzero(keep_mmap))


def _side_records(tasks: Tasks, mmaps: Mmaps, mappings: Mappings, ids: TaskIds) -> SideRecords:
    """Merge the tables in chronological order, as lists."""
    order = np.argsort(np.concatenate((tasks.order, mmaps.order)), kind="stable")
    kind = np.concatenate((tasks.kind, np.full(len(mmaps.order), KIND_MMAP, np.uint8)))
    row = np.concatenate((np.arange(len(tasks.order)), np.arange(len(mmaps.order))))
    return SideRecords(
        kind=kind.take(order).tolist(),
        row=row.take(order).tolist(),
        task_pid=ids.find(tasks.pid).tolist(),
        task_tid=ids.find(tasks.tid).tolist(),
        parent_pid=ids.find(tasks.parent_pid).tolist(),
        parent_tid=ids.find(tasks.parent_tid).tolist(),
        task_ns=tasks.time_ns.tolist(),
        task_name=tasks.name.tolist(),
        mmap_pid=ids.find(mmaps.pid).tolist(),
        mmap_ns=mappings.time_ns.tolist(),
        mmap_start=mappings.start.tolist(),
        mmap_end=mappings.end.tolist(),
        mmap_runs=((mappings.prot & abi.PROT_EXEC) != 0).tolist(),
        mmap_content=_number_contents(mappings).tolist(),
    )


def _number_contents(mappings: Mappings) -> I64:
    """Give mappings that put the same file at the same address the same number, i64[m]."""
    number, _ = numbered(mappings.start - mappings.pgoff)
    for column in ("inode", "name", "build_id", "major", "minor"):
        other, _ = numbered(getattr(mappings, column))
        number, _ = numbered(number << 32 | other)
    return number


def _thread_ids(replay: Replay, ids: TaskIds, pid_rank: I64, tid_rank: I64) -> TaskIds:
    """Give threads that no record names their process's name."""
    rank = np.arange(len(ids), dtype=np.int32)
    for pid, tid in zip(pid_rank.tolist(), tid_rank.tolist(), strict=True):
        if tid and not replay.is_named[tid]:
            rank[tid] = pid
    return with_ranks(ids.ids, rank)


def _fill_names(names: list[bytes], ids: TaskIds, name: list[int], rank: list[int]) -> I32:
    """Return rows of `names`, with a made-up name, which it adds to them, for each task with -1."""
    filled = np.array(name, np.int32)
    missing = np.flatnonzero(filled < 0).tolist()
    row_of = {name: row for row, name in enumerate(names)} if missing else {}
    special = {0: _NAME_OF_IDLE, -1: _NAME_OF_UNKNOWN}
    for row in missing:
        number = int(ids.ids[rank[row]])
        made_up = special.get(number, b":%d" % number)
        filled[row] = row_of.setdefault(made_up, len(names))
        if filled[row] == len(names):
            names.append(made_up)
    return filled


def _freeze_timeline(
    replay: Replay, processes: TaskIds, threads: TaskIds, names: list[bytes]
) -> Timeline:
    process_track, change = build_track(processes, replay.state_pid, replay.state_ns)
    thread_track, comm_change = build_track(threads, replay.comm_tid, replay.comm_ns)
    spaces = replay.spaces
    version = np.array(replay.state_version, np.int64)

    def by_change(column: list[int] | I32) -> I32:
        # Change -1, the last row, is for ids that never occurred.
        return np.append(np.array(column, np.int32), np.int32(-1)).take(change)

    comm = _fill_names(names, processes, [*replay.comm_name, -1], [*replay.comm_tid, 0])
    return Timeline(
        processes=process_track,
        process_row=by_change(replay.state_row),
        space=by_change(np.array(spaces.version_space, np.int32).take(version)),
        epoch=by_change(np.array(spaces.version_epoch, np.int32).take(version)),
        threads=thread_track,
        comm=comm.take(comm_change),
    )


def _made_mappings(
    replay: Replay, started: Started, mappings: Mappings, tasks: int
) -> tuple[I32, MadeMappings]:
    """Return the process row that made each mapping, i32[m], and the versions in which it did."""
    exec_row, exec_version = np.empty((2, tasks), np.int64)
    exec_row[replay.exec_task] = replay.exec_row
    exec_version[replay.exec_task] = replay.exec_version
    process_row = np.empty(len(mappings), np.int32)
    process_row[started.other] = replay.mapping_row
    process_row[started.mapping] = exec_row.take(started.task)
    one_by_one = started.other.take(np.array(replay.spaces.made, np.int64))
    made = np.concatenate((one_by_one, started.mapping))
    made_in = np.array(replay.spaces.made_in, np.int64)
    version = np.concatenate((made_in, exec_version.take(started.task)))
    order = np.argsort(made, kind="stable")
    made = made.take(order)
    return process_row, MadeMappings(
        version=version.take(order),
        mapping=made,
        start=mappings.start.take(made),
        end=mappings.end.take(made),
    )
