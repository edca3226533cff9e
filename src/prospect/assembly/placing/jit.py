"""Events and recording → events with mappings of JIT code, and the names of that code.

Mappings of jitdump files show which process logs its code to which file. The code in a dump becomes
mappings with the times in the dump, so that reused addresses and moved code are distinguished
(`spaces.code_loads`).
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.abi import constants as abi
from prospect.assembly.assembly_limits import (
    LARGEST_COPY_BYTES,
    MOST_COPIED_FILE_BYTES,
    MOST_COPIES,
    MOST_DUMPS,
)
from prospect.assembly.extras import counts_of, interval_ns, is_i32, mapping_of, unpacked
from prospect.columns.grouping import counted
from prospect.columns.sorting import distinct
from prospect.events.record_columns import TASK_EXEC
from prospect.files.budget import Cost
from prospect.profile.model import KIND_ANON
from prospect.records import NamedTuple, Record, field
from prospect.spaces.code_loads import CodeLoads, insert_code_loads
from prospect.symbols.jit.map_files import clock_shift_ns, dump_pid, find_dump, held_bytes_of
from prospect.symbols.live_process import live_process, monotonic_shift_ns
from prospect.symbols.naming_options import MapCopy
from prospect.symbols.objects import DELETED, JITDUMP_PREFIX, classify

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.abi.recorded_facts import RecordingInfo
    from prospect.columns.array_types import I32, I64, U64, Bools
    from prospect.events.record_columns import Events, Samples, Tasks
    from prospect.files.budget import ReadBudget
    from prospect.profile.run_info import ProcessNote
    from prospect.symbols.jit.hotspot_code import HotspotCode
    from prospect.symbols.jit.jit_code import JitCode
    from prospect.symbols.jit.jitdump import JitDump

_CLOCK_MONOTONIC = 1
_JVM = re.compile(rb"(?s:.*)/libjvm\.so(?: \(deleted\))?")
_NEVER_NS = (1 << 64) - 1


class JitRecords(Record):
    """The JIT code of a recording.

    Attributes:
        events: with mappings of the code.
        code: of jitdump files, by the names of those mappings.
        maps: map files in the recording, by process id.
        dumps: jitdump files of this machine, by process id.
        pids: processes that wrote a file with names of JIT code, as far as the recording shows.
        jvm_pids: processes of JVMs whose code was recorded.
        notes: about files that were not used.
    """

    events: Events
    code: dict[bytes, JitCode] = field(default_factory=dict)
    maps: dict[int, tuple[MapCopy, ...]] = field(default_factory=dict)
    dumps: dict[int, memoryview] = field(default_factory=dict)
    pids: frozenset[int] = frozenset()
    jvm_pids: frozenset[int] = frozenset()
    notes: tuple[ProcessNote, ...] = ()


class _Marker(Record):
    """A mapping of a jitdump file: the process logs to it from this row of mappings to `end_ns`."""

    row: int
    pid: int
    path: bytes
    end_ns: int


def find_jit_code(
    events: Events, info: RecordingInfo, recorded_until: float, budget: ReadBudget
) -> JitRecords:
    """Read the jitdump files of a recording's processes and map their code.

    `recorded_until` is the recording's end in seconds since the epoch, 0 for unknown.
    """
    copies = recorded_copies(info.extras)
    markers = _markers(events)
    jvms = _jvm_markers(events, copies.jvms)
    if not markers and not jvms:
        return JitRecords(events, maps=copies.maps, pids=frozenset(copies.maps))
    has_times = _is_monotonic(info)
    is_here = not (info.archive or info.target) and info.hostname in {"", os.uname().nodename}
    touched = _touched_addresses(events.samples)
    _, end_ns = interval_ns(info, events)
    code: dict[bytes, JitCode] = {}
    dumps: dict[int, memoryview] = {}
    notes: list[ProcessNote] = []
    logs = []
    too_big = budget.admit(
        _costs(markers[:MOST_DUMPS], copies.dumps, recorded_until, info.named_by, is_here=is_here)
    )
    for number, marker in enumerate(markers[:MOST_DUMPS]):
        copy = copies.dumps.get(marker.pid)
        if number in too_big:
            notes.append((marker.pid, f"{_shown(marker.path)} was not used: {too_big[number]}."))
            continue
        if copy is None and not is_here:
            where = f"{_shown(marker.path)} is on the recorded machine"
            notes.append((marker.pid, f"{where}; its code is unnamed."))
            continue
        process = live_process(marker.pid, recorded_until)
        found = find_dump(marker.path, process, copy, info.named_by)
        if isinstance(found, str):
            notes.append((marker.pid, f"{found}."))
            continue
        code[JITDUMP_PREFIX + marker.path] = found
        if copy is None:
            dumps[marker.pid] = found.dump.data
        clock = _clock(events, marker, found.dump, has_times=has_times, end_ns=end_ns)
        said = _reservations(marker.path, found, clock)
        notes += [(marker.pid, sentence) for sentence in said]
        logs.append(_loads(events, marker, found, touched, clock))
    clock = _Clock() if has_times else _Clock(trouble="the recording has another clock")
    for marker, jvm in jvms:
        code[JITDUMP_PREFIX + marker.path] = jvm
        logs.append(_loads(events, marker, jvm, touched, clock))
    if len(markers) > MOST_DUMPS:
        sentence = f"Only the first {MOST_DUMPS} of {len(markers)} jitdump files were read."
        notes += [(marker.pid, sentence) for marker in markers[MOST_DUMPS:]]
    mapped = insert_code_loads(events, logs, _is_anonymous(events)) if logs else events
    jvm_pids = frozenset(marker.pid for marker, _ in jvms)
    pids = jvm_pids.union(copies.maps, (marker.pid for marker in markers))
    return JitRecords(
        *(mapped, code, copies.maps, dumps, pids, jvm_pids, tuple(dict.fromkeys(notes)))
    )


def _is_anonymous(events: Events) -> Bools:
    """Return bool[n] which of the names are those of mappings without a file."""
    is_anonymous = np.zeros(len(events.names), np.bool_)
    for row in _mapped_names(events):
        is_anonymous[row] = classify(events.names[row]) == KIND_ANON
    return is_anonymous


def _mapped_names(events: Events) -> list[int]:
    """Return the rows of the names of mappings; there may be millions of other names, of tasks."""
    return [row for row in distinct(events.mmaps.name).tolist() if row >= 0]


def _costs(
    markers: list[_Marker],
    copies: dict[int, bytes],
    recorded_until: float,
    named_by: int,
    *,
    is_here: bool,
) -> Iterator[Cost[int]]:
    """Yield the costs of the files of markers, by the markers' numbers."""
    for number, marker in enumerate(markers):
        held_bytes = 0
        if marker.pid in copies:
            held_bytes = len(copies[marker.pid])
        elif is_here:
            process = live_process(marker.pid, recorded_until)
            held_bytes = held_bytes_of(marker.path.removesuffix(DELETED), process, named_by)
        # As measured with short code.
        yield Cost(10 * held_bytes, 4 * held_bytes, number)


def _markers(events: Events) -> list[_Marker]:
    """Find the mappings of jitdump files, the first for each process, file and program it ran."""
    mmaps = events.mmaps
    dumps = [row for row in _mapped_names(events) if dump_pid(events.names[row])]
    rows = np.flatnonzero(np.isin(mmaps.name, dumps))
    pid = mmaps.pid.take(rows)
    columns = (rows, pid, mmaps.name.take(rows))
    found: dict[tuple[int, bytes, int], _Marker] = {}
    for row, of_pid, name, end_ns in zip(
        *(column.tolist() for column in columns),
        _next_execs(events.tasks, pid, mmaps.order.take(rows)),
        strict=True,
    ):
        key = (of_pid, events.names[name], end_ns)
        if key not in found:
            found[key] = _Marker(row, *key)
    return list(found.values())


def _jvm_markers(events: Events, jvms: list[tuple[int, str]]) -> list[tuple[_Marker, HotspotCode]]:
    """Read the recorded code of sampled JVMs, with the mapping of each one's library."""
    if jvms:
        sampled = set(distinct(events.samples.task & np.uint64(0xFFFF_FFFF)).tolist())
        jvms = [jvm for jvm in jvms if jvm[0] in sampled]
    if not jvms:
        return []
    mmaps = events.mmaps
    names = [row for row in _mapped_names(events) if _JVM.fullmatch(events.names[row])]
    rows = np.flatnonzero(np.isin(mmaps.name, names) & np.isin(mmaps.pid, [pid for pid, _ in jvms]))
    ends = _next_execs(events.tasks, mmaps.pid.take(rows), mmaps.order.take(rows))
    pids = mmaps.pid.take(rows).tolist()
    found = []
    for pid, code in read_jvms(jvms):
        # If a process ran several programs, the one that ran when its code was read.
        opened_ns = code.dump.opened_ns
        mine = [
            (row, end_ns)
            for row, of_pid, end_ns in zip(rows.tolist(), pids, ends, strict=True)
            if of_pid == pid and opened_ns < end_ns
        ]
        if mine:
            row, end_ns = mine[0]
            found.append((_Marker(row, pid, code.path, end_ns), code))
    return found


# The last results of `read_jvms`, by name and content: a session calls it for each window, and most
# JVMs have no new code.
_known_jvms: dict[tuple[bytes, str], HotspotCode] = {}


def read_jvms(jvms: list[tuple[int, str]]) -> list[tuple[int, HotspotCode]]:
    """Read recorded code of JVMs, if it has changed since the last call.

    Args:
        jvms: process id and records of each, as in `JitCopies`.

    Returns:
        Process id and code of those that have any.
    """
    from prospect.symbols.jit.hotspot_code import read_hotspot  # noqa: PLC0415 - few recordings have any

    found = []
    known, left = dict(_known_jvms), MOST_COPIED_FILE_BYTES
    _known_jvms.clear()
    for number, (pid, packed) in enumerate(jvms):
        key = b"[JVM %d.%d]" % (pid, number), packed
        code = known.get(key)
        size = len(code.dump.data) if code else 0
        if code is None or size > left:
            data = unpacked(packed, min(left, LARGEST_COPY_BYTES)) if left > 0 else b""
            code, size = read_hotspot(key[0], data), len(data)
        left -= size
        if code is not None:
            _known_jvms[key] = code
            found.append((pid, code))
    return found


def _next_execs(tasks: Tasks, pid: I32, order: I64) -> list[int]:
    """Return the time of the first exec of each process after a place of the recording.

    All execs are read once.
    """
    execs = np.flatnonzero((tasks.kind == TASK_EXEC) & np.isin(tasks.pid, pid))
    of_pid = np.concatenate((tasks.pid.take(execs), pid))
    at = np.concatenate((tasks.order.take(execs), order))
    ends = np.concatenate((tasks.time_ns.take(execs), np.full(len(pid), _NEVER_NS, np.uint64)))
    backwards = np.lexsort((at, of_pid))[::-1]
    found = [_NEVER_NS] * len(pid)
    process, end_ns = -1, _NEVER_NS
    for row, one, time_ns in zip(
        backwards.tolist(),
        of_pid.take(backwards).tolist(),
        ends.take(backwards).tolist(),
        strict=True,
    ):
        if one != process:
            process, end_ns = one, _NEVER_NS
        if row < len(execs):
            end_ns = min(end_ns, time_ns)
        else:
            found[row - len(execs)] = end_ns
    return found


def _is_monotonic(info: RecordingInfo) -> bool:
    """Return whether the samples' times are on the clock that jitdump files use."""
    return bool(info.events) and all(
        event.attr.flags & abi.FLAG_USE_CLOCKID and event.attr.clockid == _CLOCK_MONOTONIC
        for event in info.events
    )


class _Clock(NamedTuple):
    """How far a dump's times are ahead, or why they cannot be used."""

    shift_ns: int = 0
    trouble: str = ""


def _clock(
    events: Events, marker: _Marker, dump: JitDump, *, has_times: bool, end_ns: int
) -> _Clock:
    """Compare the clock of a dump with the recording's."""
    if dump.is_cpu_time:
        return _Clock(trouble="it has the processor's own time")
    if not has_times:
        return _Clock(trouble="the recording has another clock (perf record takes -k mono)")
    shift_ns = clock_shift_ns(dump, int(events.mmaps.time_ns[marker.row]), end_ns)
    if shift_ns is None:
        shift_ns = monotonic_shift_ns(marker.pid)
        if not shift_ns:
            return _Clock(trouble="it has the time of a time namespace that is gone")
    return _Clock(shift_ns)


def _reservations(path: bytes, code: JitCode, clock: _Clock) -> Iterator[str]:
    """Yield sentences about the limits of a dump."""
    if code.dump.damage:
        yield f"{_shown(path)} was read in part: {code.dump.damage}."
    if clock.trouble:
        yield (
            f"{_shown(path)}: {clock.trouble}, so if code was written over other code,"
            " the last one has all samples."
        )


def _touched_addresses(samples: Samples) -> U64 | None:
    """Return the distinct addresses that need names, ascending; None for unknown ones."""
    if samples.user is not None:
        return None  # unwinding finds addresses that are not in the samples
    user = samples.mode & abi.PERF_RECORD_MISC_CPUMODE_MASK == abi.PERF_RECORD_MISC_USER
    parts = [samples.ip[user]]
    if samples.chain is not None:
        # Most words of chains are the kernel's addresses, which no process maps.
        parts.append(samples.chain[samples.chain.view(np.int64) >= 0])
    return counted(np.concatenate(parts)).value


def _loads(
    events: Events, marker: _Marker, code: JitCode, touched: U64 | None, clock: _Clock
) -> CodeLoads:
    """Return a dump's loads and moves with times, without those that no sample is in."""
    dump = code.dump
    time_ns = np.concatenate((dump.time_ns, dump.moved_ns))
    start = np.concatenate((dump.address, dump.moved_to))
    length = np.concatenate((dump.size, dump.size.take(dump.moved)))
    pgoff = np.concatenate((code.svma, code.svma.take(dump.moved)))
    kept = start + length > start
    if touched is not None:
        first = np.searchsorted(touched, start)
        kept &= np.searchsorted(touched, start + length) > first
    begin_ns = events.mmaps.time_ns[marker.row]
    if not clock.trouble:
        # Modulo 2**64: times far outside of the recording stay so.
        time_ns -= np.uint64(clock.shift_ns % (1 << 64))
        kept &= time_ns < np.uint64(marker.end_ns)
        time_ns = np.maximum(time_ns, begin_ns)
    # By time, else in the order of the file, moves after loads.
    rows = np.flatnonzero(kept)
    rows = rows.take(np.argsort(time_ns.take(rows), kind="stable"))
    return CodeLoads(
        pid=marker.pid,
        name=JITDUMP_PREFIX + marker.path,
        begin_order=int(events.mmaps.order[marker.row]),
        end_ns=marker.end_ns,
        time_ns=np.full(len(rows), begin_ns) if clock.trouble else time_ns.take(rows),
        start=start.take(rows),
        length=length.take(rows),
        pgoff=pgoff.take(rows),
    )


def _shown(path: bytes) -> str:
    return path.decode(errors="replace")


class JitCopies(Record):
    """Map and jitdump files by process id; process id and packed records of JVMs."""

    maps: dict[int, tuple[MapCopy, ...]] = field(default_factory=dict)
    dumps: dict[int, bytes] = field(default_factory=dict)
    jvms: list[tuple[int, str]] = field(default_factory=list)


def recorded_copies(extras: dict[str, Any]) -> JitCopies:
    """Unpack the recorder's copies (docs/recording.md), which may come from any writer."""
    listed = extras.get("jit_files")
    copies = JitCopies()
    left = MOST_COPIED_FILE_BYTES
    for entry in listed[:MOST_COPIES] if isinstance(listed, list) else ():
        one = mapping_of(entry)
        pid, packed = one.get("pid"), one.get("zlib")
        if not isinstance(pid, int) or not is_i32(pid) or not isinstance(packed, str):
            continue
        if one.get("kind") == "hotspot":
            copies.jvms.append((pid, packed))
            continue
        content = unpacked(packed, min(left, LARGEST_COPY_BYTES)) if left > 0 else b""
        left -= len(content)
        if one.get("kind") == "map":
            modified_ns = next(iter(counts_of([one.get("modified_ns")])), 0)
            copies.maps[pid] = (*copies.maps.get(pid, ()), MapCopy(modified_ns, content))
        elif one.get("kind") == "dump" and content:
            copies.dumps[pid] = content
    return copies
