"""Process rows of `spaces` + the recorder's snapshot → `ProcessTable`.

Births, ends and parents come from the records; kernel threads, process groups and sessions from
Prospect's own snapshot, because no record carries them. A process born later has its parent's group
and session, as fork() hands them down; what setpgid() and setsid() made of them is in no record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.assembly.extras import by_number, counts_of, is_i32, mapping_of, texts_of
from prospect.assembly.tables.run_facts import attached_pids
from prospect.profile.group_names import ContainerFacts, container_id, services_of
from prospect.profile.model import BIRTH_EXEC, BIRTH_PREEXISTING, ProcessTable
from prospect.records import replace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.abi.recorded_facts import RecordingInfo
    from prospect.events.record_columns import Events
    from prospect.spaces.attribution import Attribution
    from prospect.spaces.process_history import ProcessHistory

_KTHREADD_PID = 2
_GROUP_COLUMNS = 3  # group, session, and when they were read


def describe_processes(history: ProcessHistory, info: RecordingInfo) -> ProcessTable:
    """Build the process table of a profile; rows are those of `history.processes`."""
    rows = history.processes
    extras = info.extras
    later = _groups_met(extras.get("groups"), rows.pid, rows.parent_row, rows.start_ns)
    snapshot = _snapshot(extras.get("processes"), rows.pid, rows.parent_row, later)
    command_pid = extras.get("command_pid")
    is_command = _command_rows(rows.pid, rows.parent_row, rows.birth, command_pid)
    attached = attached_pids(extras)
    if attached:
        is_command = _attached_rows(rows.pid, rows.parent_row, rows.birth, attached)
    recorders = extras.get("recorder_pids")
    recorder_pids = list(filter(is_i32, recorders)) if type(recorders) is list else []
    is_recorder = np.isin(rows.pid, np.array(recorder_pids, np.int32)) & ~is_command
    return ProcessTable(
        name=[
            history.names[name].decode("utf-8", "surrogateescape") if name >= 0 else "?"
            for name in rows.name.tolist()
        ],
        pid=rows.pid,
        parent_pid=np.where(rows.parent_pid >= 0, rows.parent_pid, snapshot[0]).astype(np.int32),
        group_pid=snapshot[1],
        session_pid=snapshot[2],
        parent_index=rows.parent_row,
        birth=rows.birth,
        start_ns=rows.start_ns,
        end_ns=rows.end_ns,
        is_kernel_thread=_kernel_threads(rows.pid, rows.parent_pid, rows.parent_row, snapshot[3]),
        is_recorder=is_recorder,
        is_command=is_command,
        # The recorder may have been started by a shell that it attached to.
        is_descendant=_descended(is_command, rows.parent_row, info) & ~is_recorder,
    )


def with_control_groups(
    processes: ProcessTable, events: Events, hits: Attribution, containers: object
) -> ProcessTable:
    """Return processes with the control groups in which they were sampled last.

    Args:
        processes: without.
        events: with the groups of samples.
        hits: of processes.
        containers: `containers` of docs/recording.md.
    """
    ids = events.samples.control_group
    if ids is None:
        return processes
    last = np.zeros(len(processes), np.uint64)
    # If a row has several values, the last one stays.
    last[hits.process_row.take(hits.sample_row)] = ids
    names = {
        id_: path.decode("utf-8", "surrogateescape") for id_, path in events.control_groups.items()
    }
    groups = [names.get(id_, "") for id_ in last.tolist()]
    known = _containers(containers)
    images = [known[one].image if (one := container_id(group)) in known else "" for group in groups]
    return replace(
        processes,
        control_group=groups,
        service=services_of(groups, known),
        image=images if any(images) else None,
    )


def _containers(recorded: object) -> dict[str, ContainerFacts]:
    """Return the containers of a recording by their ids."""
    return {
        identity: ContainerFacts(*facts)
        for identity, value in mapping_of(recorded).items()
        if len(facts := texts_of(value)) == len(ContainerFacts._fields) and any(facts)
    }


def _snapshot(
    recorded: object,
    pid: NDArray[np.int32],
    parent_row: NDArray[np.int32],
    later: dict[int, list[int]],
) -> NDArray[np.int32]:
    """Return i32[4, p]: parent, group, session (-1 unknown) and the kernel-thread flag (0 or 1).

    `later` are rows whose group and session were seen later, from `_groups_met`.
    """
    columns = 4
    facts = {
        number: value
        for number, value in by_number(recorded).items()
        if type(value) is list and len(value) == columns and all(map(is_i32, value))
    }
    # Lists, as each row may be made of one before it: a hundred thousand of them are a second of
    # numpy's single elements.
    numbers = pid.tolist()
    unknown = [-1, -1, -1, 0]
    rows = [unknown] * len(numbers)
    for at, (number, parent) in enumerate(zip(numbers, parent_row.tolist(), strict=True)):
        if parent >= 0 and numbers[parent] == number:
            rows[at] = rows[parent]  # an exec keeps its process's group and session
        else:
            known = facts.pop(number, None)  # a later life of this pid is another process
            if known is not None:
                rows[at] = known
            elif parent >= 0:
                _, group, session, _ = rows[parent]
                rows[at] = [-1, group, session, 0]
            if at in later:
                rows[at] = [rows[at][0], *later[at], rows[at][3]]
    return np.array(rows, np.int32).reshape(-1, columns).T


def _groups_met(
    recorded: object,
    pid: NDArray[np.int32],
    parent_row: NDArray[np.int32],
    start_ns: NDArray[np.uint64],
) -> dict[int, list[int]]:
    """Return the groups and sessions that were read while processes ran, by their first row.

    No record reports setpgid() and setsid(). If several processes had one pid, it is the last that
    had begun then.
    """
    facts = {
        number: value
        for number, value in by_number(recorded).items()
        if type(value) is list
        and len(value) == _GROUP_COLUMNS
        and counts_of(value)
        and all(map(is_i32, value[:2]))
    }
    is_first = (parent_row < 0) | (pid.take(parent_row) != pid)
    known = np.flatnonzero(is_first & np.isin(pid, list(facts)))
    lives: dict[int, int] = {}
    for row in known[np.argsort(start_ns.take(known), kind="stable")].tolist():
        number = int(pid[row])
        if int(start_ns[row]) <= facts[number][2]:
            lives[number] = row
    return {row: facts[number][:2] for number, row in lives.items()}


def _command_rows(
    pid: NDArray[np.int32],
    parent_row: NDArray[np.int32],
    birth: NDArray[np.uint8],
    command_pid: object,
) -> NDArray[np.bool_]:
    """Mark COMMAND: the rows of its pid from its first exec on.

    Before that exec the row is the recorder's own child, still running the recorder's code.
    """
    marked = np.zeros(len(pid), np.bool_)
    if isinstance(command_pid, int):
        for row in np.flatnonzero(pid == command_pid).tolist():
            parent = int(parent_row[row])
            marked[row] = birth[row] == BIRTH_EXEC or (parent >= 0 and bool(marked[parent]))
    return marked


def _attached_rows(
    pid: NDArray[np.int32],
    parent_row: NDArray[np.int32],
    birth: NDArray[np.uint8],
    attached: tuple[int, ...],
) -> NDArray[np.bool_]:
    """Mark processes that ran before they were attached to, and what they execute later."""
    marked: NDArray[np.bool_] = np.isin(pid, attached) & (birth == BIRTH_PREEXISTING)
    for row in np.flatnonzero(np.isin(pid, attached) & (birth == BIRTH_EXEC)).tolist():
        parent = int(parent_row[row])
        marked[row] = parent >= 0 and pid[parent] == pid[row] and bool(marked[parent])
    return marked


def _descended(
    is_command: NDArray[np.bool_], parent_row: NDArray[np.int32], info: RecordingInfo
) -> NDArray[np.bool_]:
    """Mark COMMAND, or whom was attached to, and all that descends from it.

    Threads are opened one after the other, and what one of them starts meanwhile may be followed
    on some CPUs without a record of its fork. If only inheritance follows processes, all that
    are there descend from them.
    """
    if attached_pids(info.extras) and info.extras.get("scope") == "task":
        return np.ones_like(is_command)
    return _descendants(is_command, parent_row)


def _descendants(is_command: NDArray[np.bool_], parent_row: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Mark COMMAND and all below it; pointer jumping, so depth d takes log d rounds."""
    marked = is_command.copy()
    above = parent_row.astype(np.int64)
    while (above >= 0).any():
        has_parent = above >= 0
        up = np.maximum(above, 0)
        marked |= has_parent & marked.take(up)
        above = np.where(has_parent, above.take(up), -1)
    return marked


def _kernel_threads(
    pid: NDArray[np.int32],
    parent_pid: NDArray[np.int32],
    parent_row: NDArray[np.int32],
    recorded: NDArray[np.int32],
) -> NDArray[np.bool_]:
    """Mark kthreadd and its children; one that execs (a usermode program) is none any more."""
    is_thread = (recorded == 1) | (pid == _KTHREADD_PID) | (parent_pid == _KTHREADD_PID)
    after_exec = (parent_row >= 0) & (pid == pid[np.maximum(parent_row, 0)])
    marked: NDArray[np.bool_] = np.logical_and(is_thread, ~after_exec)
    return marked
