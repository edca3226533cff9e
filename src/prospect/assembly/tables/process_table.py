"""Process rows of `spaces` + the recorder's snapshot → `ProcessTable`, and memory without hits.

Births, ends and parents come from the records; kernel threads, process groups and sessions from
Prospect's snapshot, because no record has them. A process born later has its parent's group and
session, which fork() copies; no record reports setpgid() and setsid().

`UnhitMappings` returns the mappings of a process at its end that have no hit. A report requests
them process by process. Executable mappings are those of the records, all others those of a text of
/proc/PID/maps that the recorder read (the key ``memory_maps`` of Prospect's feature section,
docs/recording.md), which may come from any writer.
Defined by: proc(5); show_map_vma() in ``fs/proc/task_mmu.c`` (Linux 6.18).
"""

from __future__ import annotations

import functools
import os
import re
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.abi import constants as abi
from prospect.assembly.assembly_limits import MOST_MAP_BYTES
from prospect.assembly.extras import by_number, counts_of, is_i32, mapping_of, texts_of, unpacked
from prospect.assembly.tables.run_facts import attached_pids
from prospect.columns import sorting
from prospect.profile.group_names import ContainerFacts, container_id, services_of
from prospect.profile.model import BIRTH_EXEC, BIRTH_PREEXISTING, KIND_JIT, ProcessTable
from prospect.profile.optional_tables import MemoryMap
from prospect.records import replace
from prospect.spaces.address_spaces import recorded_prot
from prospect.symbols.objects import classify

if TYPE_CHECKING:
    from prospect.abi.recorded_facts import RecordingInfo
    from prospect.columns.array_types import I32, I64, U8, U64, Bools
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
        # A shell that the recorder attached to may have started it.
        is_descendant=_descended(is_command, rows.parent_row, info) & ~is_recorder,
    )


def with_control_groups(
    processes: ProcessTable, events: Events, hits: Attribution, containers: object
) -> ProcessTable:
    """Return processes with the control groups of their last samples.

    `containers` is the key of docs/recording.md.
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


def _snapshot(recorded: object, pid: I32, parent_row: I32, later: dict[int, list[int]]) -> I32:
    """Return i32[4, p]: parent, group, session (-1 unknown) and the kernel-thread flag (0 or 1).

    `later` has rows whose group and session were read later, from `_groups_met`.
    """
    columns = 4
    facts = {
        number: value
        for number, value in by_number(recorded).items()
        if type(value) is list and len(value) == columns and all(map(is_i32, value))
    }
    # Lists, as each row may depend on an earlier one, and numpy's single elements are slow.
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


def _groups_met(recorded: object, pid: I32, parent_row: I32, start_ns: U64) -> dict[int, list[int]]:
    """Return the groups and sessions that were read while processes ran, by their first row.

    If several processes had one pid, they belong to the last one that had begun then.
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


def _command_rows(pid: I32, parent_row: I32, birth: U8, command_pid: object) -> Bools:
    """Mark COMMAND: the rows of its pid from its first exec on.

    Before that exec it still runs the recorder's code.
    """
    marked = np.zeros(len(pid), np.bool_)
    if isinstance(command_pid, int):
        for row in np.flatnonzero(pid == command_pid).tolist():
            parent = int(parent_row[row])
            marked[row] = birth[row] == BIRTH_EXEC or (parent >= 0 and bool(marked[parent]))
    return marked


def _attached_rows(pid: I32, parent_row: I32, birth: U8, attached: tuple[int, ...]) -> Bools:
    """Mark attached processes that ran before the recording, and the programs that they exec."""
    marked: Bools = np.isin(pid, attached) & (birth == BIRTH_PREEXISTING)
    for row in np.flatnonzero(np.isin(pid, attached) & (birth == BIRTH_EXEC)).tolist():
        parent = int(parent_row[row])
        marked[row] = parent >= 0 and pid[parent] == pid[row] and bool(marked[parent])
    return marked


def _descended(is_command: Bools, parent_row: I32, info: RecordingInfo) -> Bools:
    """Mark COMMAND or the attached processes, and their descendants.

    In task scope every process of an attached recording is one: a child forked between the openings
    of two threads' events may have no record of its fork.
    """
    if attached_pids(info.extras) and info.extras.get("scope") == "task":
        return np.ones_like(is_command)
    marked = is_command.copy()
    above = parent_row.astype(np.int64)
    # Pointer jumping: depth d takes log d rounds.
    while (above >= 0).any():
        has_parent = above >= 0
        up = np.maximum(above, 0)
        marked |= has_parent & marked.take(up)
        above = np.where(has_parent, above.take(up), -1)
    return marked


def _kernel_threads(pid: I32, parent_pid: I32, parent_row: I32, recorded: I32) -> Bools:
    """Mark kthreadd and its children, except those that exec (usermode programs)."""
    is_thread = (recorded == 1) | (pid == _KTHREADD_PID) | (parent_pid == _KTHREADD_PID)
    after_exec = (parent_row >= 0) & (pid == pid[np.maximum(parent_row, 0)])
    marked: Bools = np.logical_and(is_thread, ~after_exec)
    return marked


# Names of memory without a file in the records of mappings.
_ANONYMOUS = "//anon"
_LINE = (
    rb"^([0-9a-f]{1,16})-([0-9a-f]{1,16}) ([r-])([w-])([x-])[ps] ([0-9a-f]{1,16})"
    rb" [0-9a-f]{1,8}:[0-9a-f]{1,8} [0-9]{1,20} *(.*)$"
)


class UnhitMappings:
    """The mappings without a hit, process by process."""

    def __init__(
        self, history: ProcessHistory, process_row: I32, mapping_index: I64, extras: dict[str, Any]
    ) -> None:
        """Take i32[h] the process and i64[h] the mapping of each hit, -1 for none.

        `extras` may have maps that were read whole.
        """
        self._extras = extras
        self._history = history
        self._process_row = process_row
        self._mapping_index = mapping_index
        self._paths: dict[int, str] = {}

    def __call__(self, process: int) -> MemoryMap:
        """Return the mappings without a hit of a process; none for a row beyond the history's."""
        if not 0 <= process < len(self._last_change):
            return MemoryMap.empty()
        processes = self._history.processes
        life_ns = int(processes.start_ns[process]), int(processes.end_ns[process])
        known = self._executable(process)
        whole = self._whole.of(int(processes.pid[process]), *life_ns) if self._whole else None
        return self._with_data(known, whole, process) if whole else known

    def _with_data(self, known: MemoryMap, whole: MemoryMap, process: int) -> MemoryMap:
        """Add mappings that were read but not recorded, if they overlap no recorded one."""
        table, hit = self._history.mappings, self._hit_mappings(process)
        start = np.concatenate((known.start, table.start.take(hit)))
        end = np.concatenate((known.end, table.end.take(hit)))
        is_executable = whole.prot & abi.PROT_EXEC != 0
        rows = np.flatnonzero(
            ~np.isin(whole.start, start)
            & ~(is_executable & _overlaps(whole.start, whole.end, start, end))
        )
        return MemoryMap(
            start=np.concatenate((known.start, whole.start[rows])),
            end=np.concatenate((known.end, whole.end[rows])),
            pgoff=np.concatenate((known.pgoff, whole.pgoff[rows])),
            prot=np.concatenate((known.prot, whole.prot[rows])),
            hits=np.concatenate((known.hits, whole.hits[rows])),
            path=known.path + [whole.path[row] for row in rows.tolist()],
            read_ns=whole.read_ns,
        )

    def _executable(self, process: int) -> MemoryMap:
        """Return the executable mappings without a hit, in the order of their addresses."""
        timeline, table = self._history.timeline, self._history.mappings
        change = self._last_change[process]
        start, end, mapping = self._history.address_spaces.mappings_in(
            int(timeline.space[change]), int(timeline.epoch[change])
        )
        # An MMAP record has no protection; without a mark for data it is code.
        prot = table.prot.take(mapping)
        is_wanted = (prot == 0) | (prot & abi.PROT_EXEC != 0)
        hit = self._hit_mappings(process)
        self._is_hit[hit] = True
        is_wanted &= ~self._is_hit.take(mapping)
        self._is_hit[hit] = False
        bits = recorded_prot(table, mapping[is_wanted])
        start, end, mapping = start[is_wanted], end[is_wanted], mapping[is_wanted]
        # The remaining piece of a mapping begins further inside the file than the whole.
        pgoff = table.pgoff.take(mapping) + (start - table.start.take(mapping))
        name = table.name.take(mapping)
        if self._is_jit.take(name).any():
            rows, last = self._first_and_last_pieces(name, table.name.take(hit))
            start, end, pgoff, name = start[rows], end[last], pgoff[rows], name[rows]
            bits = bits[rows]
        return MemoryMap(
            start=start,
            end=end,
            pgoff=pgoff,
            prot=bits,
            hits=np.zeros(len(start), np.int64),
            path=[self._path(row) for row in name.tolist()],
        )

    def _path(self, name: int) -> str:
        """Return a name of the history as text; most processes map the same files."""
        path = self._paths.get(name)
        if path is None:
            path = self._paths[name] = os.fsdecode(self._history.names[name])
        return path

    def _first_and_last_pieces(self, name: I32, hit_name: I32) -> tuple[I64, I64]:
        """Merge the pieces of code of a jitdump file into one row, like those with hits.

        Args:
            name: i32[k] of each mapping, in the order of addresses.
            hit_name: of the mappings with hits; the rest of their jitdump files has no row.

        Returns:
            The first and the last mapping of each row, i64[m] each; the same for other mappings.
        """
        is_jit = self._is_jit.take(name)
        group = np.where(is_jit, -1 - name.astype(np.int64), np.arange(len(name)))
        distinct, first = np.unique(group, return_index=True)
        _, behind = np.unique(group[::-1], return_index=True)
        is_kept = (distinct >= 0) | ~np.isin(-1 - distinct, hit_name)
        order = np.argsort(first[is_kept])
        return first[is_kept][order], (len(name) - 1 - behind)[is_kept][order]

    @functools.cached_property
    def _whole(self) -> WholeMaps | None:
        return WholeMaps(self._extras) if self._extras.get("memory_maps") else None

    @functools.cached_property
    def _is_jit(self) -> Bools:
        """bool[n]: whether a mapping's name, a row of the history's, is that of a jitdump file."""
        names, of_mappings = self._history.names, self._history.mappings.name
        is_jit = np.zeros(len(names) + 1, np.bool_)  # one more, for -1
        for row in sorting.distinct(of_mappings[of_mappings >= 0]).tolist():
            is_jit[row] = classify(names[row]) == KIND_JIT
        return is_jit

    @functools.cached_property
    def _is_hit(self) -> Bools:
        """bool[m]: marks of mappings for temporary use, all False."""
        return np.zeros(len(self._history.mappings), np.bool_)

    @functools.cached_property
    def _last_change(self) -> I64:
        """i64[p]: the last change of each process in the timeline; 0 if there is none."""
        process_row = self._history.timeline.process_row
        last = np.zeros(len(self._history.processes.pid), np.int64)
        known = np.flatnonzero(process_row >= 0)
        np.maximum.at(last, process_row[known], known)
        return last

    @functools.cached_property
    def _hits(self) -> tuple[I64, I64]:
        """The distinct pairs of a process and a mapping with hits, processes ascending."""
        count = max(len(self._history.mappings), 1)
        rows = np.flatnonzero(self._mapping_index >= 0)
        pairs = sorting.distinct(
            self._process_row[rows].astype(np.int64) * count + self._mapping_index[rows]
        )
        process, mapping = np.divmod(pairs, count)
        return process, mapping

    def _hit_mappings(self, process: int) -> I64:
        of_process, mapping = self._hits
        first, end = np.searchsorted(of_process, (process, process + 1))
        return mapping[first:end]


def _overlaps(start: U64, end: U64, other_start: U64, other_end: U64) -> Bools:
    """Return bool[n] which ranges share an address with any of the others."""
    order = np.argsort(other_start, kind="stable")
    first, reached = other_start[order], np.maximum.accumulate(other_end[order])
    # The number of others that begin before a range ends, and their furthest end.
    before = np.searchsorted(first, end)
    reach = np.concatenate((np.zeros(1, np.uint64), reached))[before]
    overlaps: Bools = reach > start
    return overlaps


class WholeMaps:
    """The texts of /proc/PID/maps in a recording; none if the document is invalid."""

    def __init__(self, extras: dict[str, Any]) -> None:
        document = mapping_of(extras.get("memory_maps"))
        self._packed = document.get("zlib")
        columns = [counts_of(document.get(key)) for key in ("pid", "read_ns", "size_bytes")]
        pids, times, sizes = columns if len(set(map(len, columns))) == 1 else ((), (), ())
        begins = accumulate(sizes, initial=0)
        self._rows: dict[int, list[tuple[int, int, int]]] = {}
        for pid, read_ns, begin, size in zip(pids, times, begins, sizes, strict=False):
            self._rows.setdefault(pid, []).append((read_ns, begin, size))

    def of(self, pid: int, start_ns: int, end_ns: int) -> MemoryMap | None:
        """Return the last map of a pid that was read between two times, None if there is none."""
        found = [row for row in self._rows.get(pid, ()) if start_ns <= row[0] <= end_ns]
        if not found:
            return None
        read_ns, begin, size = max(found)
        return _parsed(self._text[begin : begin + size], read_ns)

    @functools.cached_property
    def _text(self) -> bytes:
        return unpacked(self._packed, MOST_MAP_BYTES) if isinstance(self._packed, str) else b""


def _parsed(text: bytes, read_ns: int) -> MemoryMap | None:
    """Return the mappings in a text; None if it has none."""
    start, end, pgoff, prot, path = [], [], [], [], []
    for found in re.finditer(_LINE, text, re.MULTILINE):
        first, behind, read, write, execute, offset, name = found.groups()
        if int(first, 16) >= int(behind, 16):
            continue
        start.append(int(first, 16))
        end.append(int(behind, 16))
        pgoff.append(int(offset, 16))
        prot.append(
            abi.PROT_READ * (read == b"r")
            | abi.PROT_WRITE * (write == b"w")
            | abi.PROT_EXEC * (execute == b"x")
        )
        # Only the newline is escaped there (seq_path with "\n").
        path.append(name.replace(b"\\012", b"\n").decode("utf-8", "surrogateescape") or _ANONYMOUS)
    if not path:
        return None
    return MemoryMap(
        start=np.array(start, np.uint64),
        end=np.array(end, np.uint64),
        pgoff=np.array(pgoff, np.uint64),
        prot=np.array(prot, np.int8),
        hits=np.zeros(len(path), np.int64),
        path=path,
        read_ns=read_ns,
    )
