"""Stacks of named frames → a Profile, and the tables that every other tool's profile has.

Folded stacks, perf script's text and pprof's profiles are sums without times: their hits have
stacks and no samples. The stacks of a file are columns of machine words, so that any file takes a
small multiple of its size.
"""

from __future__ import annotations

import re
from array import array
from typing import TYPE_CHECKING

import numpy as np

from prospect.errors import RecordingError
from prospect.foreign.foreign_limits import DEEPEST_STACK, LONGEST_LINE_BYTES, MOST_FRAMES
from prospect.profile.builder import no_clocks, no_samples
from prospect.profile.model import (
    BIRTH_PREEXISTING,
    CPUMODE_KERNEL,
    CPUMODE_USER,
    CUT_OBJECT,
    ENTRY_REASON_NONE,
    KIND_ANON,
    KIND_BPF,
    KIND_ELF,
    KIND_JIT,
    KIND_KERNEL,
    KIND_MODULE,
    KIND_UNKNOWN,
    KIND_VDSO,
    EntryReasonTable,
    FunctionTable,
    HitTable,
    LocationTable,
    LossTable,
    MappingTable,
    ObjectTable,
    ProcessTable,
    Profile,
    StackTable,
)
from prospect.profile.naming import NameSource
from prospect.profile.run_info import RunInfo
from prospect.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prospect.columns.array_types import I32, I64, U8, U64
    from prospect.profile.optional_tables import LineTable
    from prospect.profile.run_info import EventInfo


NO_OBJECT = ("[unknown]", KIND_UNKNOWN, "")
# Names that perf and Prospect give to objects other than programs and libraries.
_KINDS = (
    (re.compile(r"\[(guest\.)?kernel(\.kallsyms)?\]|(.*/)?vmlinux[^/]*"), KIND_KERNEL),
    (re.compile(r"\[vdso\]|\[vsyscall\]"), KIND_VDSO),
    (re.compile(r"\[?bpf(_prog_.*)?\]?"), KIND_BPF),
    (re.compile(r"\[jit\]|(.*/)?perf-\d+\.map|(.*/)?jitted-.*\.so"), KIND_JIT),
    (re.compile(r"//anon|\[anon.*\]|\[heap\]|\[stack.*\]"), KIND_ANON),
    (re.compile(r"\[(unknown|no object|guest|hypervisor|cut)\]"), KIND_UNKNOWN),
    (re.compile(r"\[[\w-]+\]|.*\.ko(\.\w+)?"), KIND_MODULE),
)

_STILL_RUNNING = 2**64 - 1

_KERNEL_KINDS = (KIND_KERNEL, KIND_MODULE, KIND_BPF)


def object_kind(path: str) -> int:
    """Return KIND_* of an object, by the names that perf and Prospect use."""
    return next((kind for form, kind in _KINDS if form.fullmatch(path)), KIND_ELF)


def run_info(  # noqa: PLR0913 - facts of such files, all but three by keyword
    origin: str,
    events: tuple[EventInfo, ...],
    wall_seconds: float,
    *,
    command: tuple[str, ...] = (),
    started_at: float = 0.0,
    cpus: int = 1,
    limits: tuple[str, ...] = (),
) -> RunInfo:
    """Return the head of a profile that another tool wrote."""
    return RunInfo(
        origin=origin,
        command=command,
        recorder="",
        recorder_command_line=(),
        hostname="",
        os_release="",
        uname="",
        arch="",
        cpu_description="",
        cpu_mhz=0.0,
        cpus=cpus,
        started_at=started_at,
        wall_seconds=wall_seconds,
        system_wide=False,
        clock=events[0].name if events else "",
        events=events,
        limits=limits,
    )


def process_table(names: list[str], pids: list[int]) -> ProcessTable:
    """Return processes that all belong to the command."""
    count = len(names)
    unknown = np.full(count, -1, np.int32)
    no, yes = np.zeros(count, np.bool_), np.ones(count, np.bool_)
    return ProcessTable(
        name=names,
        pid=np.array(pids, np.int32),
        parent_pid=unknown,
        group_pid=unknown,
        session_pid=unknown,
        parent_index=unknown,
        birth=np.full(count, BIRTH_PREEXISTING, np.uint8),
        start_ns=np.zeros(count, np.uint64),
        end_ns=np.full(count, _STILL_RUNNING, np.uint64),
        is_kernel_thread=no,
        is_recorder=no,
        is_command=yes,
        is_descendant=yes,
    )


def no_mappings() -> MappingTable:
    """Return a table without rows."""
    rows, places = np.empty(0, np.int32), np.empty(0, np.uint64)
    counts, flags = np.empty(0, np.int64), np.empty(0, np.int8)
    return MappingTable(rows, rows, places, places, places, counts, flags)


def no_losses() -> LossTable:
    """Return a table without rows."""
    return LossTable(np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.int64))


def no_entry_reasons() -> EntryReasonTable:
    """Return the one row that every table of entry reasons has."""
    return EntryReasonTable(np.array([ENTRY_REASON_NONE], np.uint8), [""])


class NamedFrames(Record):
    """Distinct frames.

    Attributes:
        objects: path, KIND_* and build id of each object.
        functions: name, symbol and object's row of each.
        function_index, address: of each location.
    """

    objects: list[tuple[str, int, str]]
    functions: list[tuple[str, str, int]]
    function_index: I64
    address: U64


class WeightedStacks(Record):
    """Stacks and their weights, columns [n].

    Attributes:
        start: i64[n + 1] where the frames of each begin.
        location: i64[m] rows of locations, the outermost first; at least one for each stack.
        process, comm, event, entry_reason: rows of the profile's tables.
        count: samples.
        period: in the event's unit.
    """

    start: I64
    location: I64
    process: I64
    comm: I64
    event: I64
    entry_reason: I64
    count: I64
    period: I64


def stack_profile(  # noqa: PLR0913 - the tables of a profile, all but two by keyword
    frames: NamedFrames,
    stacks: WeightedStacks,
    *,
    run: RunInfo,
    processes: list[tuple[str, int]],
    comms: list[str],
    entry_reasons: EntryReasonTable | None = None,
    lines: LineTable | None = None,
) -> Profile:
    """Make a profile of stacks.

    Raises:
        RecordingError: a stack is deeper than any real one.
    """
    objects, functions = _objects(frames), _functions(frames)
    is_kernel = np.isin(objects.kind, _KERNEL_KINDS)
    mode = np.where(is_kernel.take(functions.object_index), CPUMODE_KERNEL, CPUMODE_USER).astype(
        np.uint8
    )
    location_mode = mode.take(frames.function_index)
    forest, own = _forest(stacks, location_mode)
    leaf = forest.location_index.take(own)
    return Profile(
        run=run,
        comms=comms,
        processes=process_table([name for name, _ in processes], [pid for _, pid in processes]),
        objects=objects,
        functions=functions,
        locations=LocationTable(frames.function_index.astype(np.int32), frames.address),
        mappings=no_mappings(),
        hits=HitTable(
            process_index=stacks.process.astype(np.int32),
            comm_index=stacks.comm.astype(np.int32),
            location_index=leaf,
            mode=location_mode.take(leaf),
            event=stacks.event.astype(np.uint16),
            entry_reason_index=stacks.entry_reason.astype(np.int32),
            count=stacks.count,
            period=stacks.period,
            stack_index=own,
        ),
        losses=no_losses(),
        entry_reasons=entry_reasons or no_entry_reasons(),
        samples=no_samples(),
        clocks=no_clocks(),
        lines=lines,
        stacks=forest,
    )


def check_frames(count: int) -> None:
    """Check the number of frames of all stacks.

    Raises:
        RecordingError: there are too many.
    """
    if count > MOST_FRAMES:
        raise RecordingError(
            f"its stacks have more than {MOST_FRAMES} frames together: give a part of it"
        )


def _objects(frames: NamedFrames) -> ObjectTable:
    count = len(frames.objects)
    return ObjectTable(
        path=[path for path, _, _ in frames.objects],
        kind=np.array([kind for _, kind, _ in frames.objects], np.uint8),
        build_id=[build_id for _, _, build_id in frames.objects],
        source=np.full(count, NameSource.SYMTAB, np.uint8),
        note=[""] * count,
    )


def _functions(frames: NamedFrames) -> FunctionTable:
    rows = frames.functions
    zeros = np.zeros(len(rows), np.uint64)
    return FunctionTable(
        name=[name for name, _, _ in rows],
        linkage_name=[linkage_name for _, linkage_name, _ in rows],
        aliases=[()] * len(rows),
        object_index=np.array([row for _, _, row in rows], np.int32),
        address=zeros,
        size_bytes=zeros,
        is_global=np.ones(len(rows), np.bool_),
        source=np.array([_source(name, frames.objects[row][0]) for name, _, row in rows], np.uint8),
    )


def _source(name: str, path: str) -> NameSource:
    if name:
        return NameSource.SYMTAB
    return NameSource.NO_CALLERS if path == CUT_OBJECT else NameSource.NO_COVER


def _forest(stacks: WeightedStacks, location_mode: U8) -> tuple[StackTable, I32]:
    """Merge equal prefixes of stacks, a depth at a time; also return each stack's own row."""
    length = np.diff(stacks.start)
    if length.max(initial=0) > DEEPEST_STACK:
        raise RecordingError(f"a stack has more than {DEEPEST_STACK} frames")
    room = len(location_mode) + 1
    row = np.full(len(length), -1, np.int64)
    callers, locations, depths = [], [], []
    size = 0
    for depth in range(int(length.max(initial=0))):
        deep = np.flatnonzero(length > depth)
        location = stacks.location.take(stacks.start.take(deep) + depth)
        key, place = np.unique((row.take(deep) + 1) * room + location, return_inverse=True)
        row[deep] = size + place
        callers.append(key // room - 1)
        locations.append(key % room)
        depths.append(np.full(len(key), depth))
        size += len(key)
    location_index = _joined(locations)
    return StackTable(
        caller_index=_joined(callers),
        location_index=location_index,
        mode=location_mode.take(location_index),
        depth=_joined(depths),
    ), row.astype(np.int32)


def _joined(parts: list[I64]) -> I32:
    return (np.concatenate(parts) if parts else np.empty(0)).astype(np.int32)


_CHUNK_BYTES = 1 << 20


class Numbers(dict[bytes, int]):
    """Words, numbered in the order of their first look-ups."""

    def __missing__(self, word: bytes) -> int:
        number = self[word] = len(self)
        return number

    def texts(self) -> list[str]:
        """Return the words; bytes that are not UTF-8 become surrogates, as with `os.fsdecode`."""
        return [word.decode("utf-8", "surrogateescape") for word in self]


class StackColumns:
    """Stacks of frames by number, concatenated."""

    def __init__(self) -> None:
        self._frames = array("i")
        self._length = array("i")

    def __len__(self) -> int:
        return len(self._length)

    def add(self, frames: Sequence[int]) -> None:
        """Append a stack, the outermost frame first.

        Raises:
            RecordingError: it is deeper than any real one, or there are too many.
        """
        if len(frames) > DEEPEST_STACK:
            raise RecordingError(f"a stack has more than {DEEPEST_STACK} frames")
        self._frames.extend(frames)
        self._length.append(len(frames))
        check_frames(len(self._frames))

    def columns(self) -> tuple[I64, I64]:
        """Return i64[n + 1] where each stack begins, and i64[m] the frames."""
        length = np.array(self._length, np.int64)
        return np.append(0, np.cumsum(length)), np.array(self._frames, np.int64)


class OddLines:
    """The number of lines that are not understood, and the first of them."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._count = 0
        self._first = 0

    def add(self, number: int) -> None:
        """Count a line."""
        self._count += 1
        self._first = self._first or number

    def limits(self, understood: int) -> tuple[str, ...]:
        """Return the remark on them for the report's header.

        Args:
            understood: the number of lines or samples that were understood.

        Raises:
            RecordingError: the file is mostly something else.
        """
        if self._count > understood or not understood:
            raise RecordingError(f"line {max(self._first, 1)} is no {self._what}")
        if not self._count:
            return ()
        what = f"{self._count} lines are" if self._count > 1 else "1 line is"
        return (f"{what} no {self._what} and left out; the first is line {self._first}.",)


def text_lines(data: memoryview) -> Iterator[tuple[int, bytes]]:
    """Yield each line with its number from 1, without its newline.

    Raises:
        RecordingError: a line is too long.
    """
    begin, number, rest = 0, 0, b""
    while begin < len(data):
        chunk = rest + bytes(data[begin : begin + _CHUNK_BYTES])
        begin += _CHUNK_BYTES
        lines = chunk.split(b"\n")
        rest = lines.pop()
        for number, line in enumerate(lines, start=number + 1):  # noqa: B020 - goes on counting
            yield number, line.removesuffix(b"\r")
        if len(rest) > LONGEST_LINE_BYTES:
            raise RecordingError(f"line {number + 1} has more than {LONGEST_LINE_BYTES >> 20} MiB")
    if rest:
        yield number + 1, rest
