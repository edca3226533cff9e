"""Samples and the stacks of runtimes that were read at them → samples in functions of runtimes.

A sample within an interpreter's own code becomes a sample of the function that the interpreter
runs, and call chains get this function's frames instead of those of the evaluation loop. A
function's own time is that of its bytecode and of the code in the interpreter's file that it runs.
Extension modules, libraries and the kernel keep their own rows, as its callees.

Notes name the processes with many unread stacks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from prospect.abi import constants as abi
from prospect.abi import cpython, v8
from prospect.abi import runtime_frames as wire
from prospect.assembly.assembly_limits import MOST_PROCESSES
from prospect.assembly.runtimes.code_objects import place_frames
from prospect.assembly.runtimes.v8_inlining import find_v8_code, place_v8_frames
from prospect.columns.buffers import segments
from prospect.columns.sorting import distinct, run_starts
from prospect.profile.model import KIND_ANON
from prospect.records import Record, replace
from prospect.symbols.objects import RUNTIME_BASE, classify

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from prospect.assembly.runtimes.v8_inlining import V8Code
    from prospect.columns.array_types import I64, U8, U64, Bools
    from prospect.events.record_columns import Events, Mmaps, Samples
    from prospect.events.runtime_records import RuntimeImage, RuntimeRecords
    from prospect.profile.run_info import ProcessNote
    from prospect.symbols.runtime_code import RuntimeCode

_READ = (wire.WALKED, wire.TRUNCATED, wire.FAULT)
_SHIMS_SINCE = 12
_ENTRY_MARKS = 11
_OTHER = -1
_PID = np.uint64((1 << 32) - 1)
# Starting and ending leave a few samples of every process.
_SHARE, _LEAST = 0.02, 10


class RuntimeStacks(Record):
    """Python frames of samples, without those that only represent calls from C.

    Attributes:
        code: the functions at the frames' addresses.
        row: i64[s] row of `RuntimeRecords`.
        sample: i64[s] row of each stack's sample, ascending, each once.
        start: i64[s + 1] into the frames, the innermost first.
        address: u64[f] as in processes.
        run: i64[f] number of the run of the evaluation loop that a frame is in, from the outermost.
        is_cut: bool[s] whether the outer frames were not read.
        pid: i64[s] of each stack.
        text, loop: u64[s, 2] begin and end of the code of the interpreter's file, and of its loop.
        made: code that runtimes compiled.
        v8: the code of V8, None without it.
    """

    code: RuntimeCode
    row: I64
    sample: I64
    start: I64
    address: U64
    run: I64
    is_cut: Bools
    pid: I64
    text: U64
    loop: U64
    made: MadeCode
    v8: V8Code | None = None

    def are_in_own_code(self, stack: I64, address: U64) -> Bools:
        """Return bool[n] whether addresses are in code of their stack's interpreter."""
        text = self.text.take(stack, axis=0)
        is_own: Bools = (address >= text[:, 0]) & (address < text[:, 1])
        return is_own | self.made.covers(self.pid.take(stack), address)


class RuntimeSamples(Record):
    """Python stacks, u64[n] the native instructions of samples, and notes on unread stacks.

    `is_native` is whether samples kept their native addresses.
    """

    stacks: RuntimeStacks
    ip: U64
    notes: tuple[ProcessNote, ...] = ()
    is_native: bool = False


def with_runtimes(
    events: Events, *, native: bool = False, named: Collection[int] = ()
) -> tuple[Events, RuntimeSamples | None]:
    """Return events whose samples in the interpreter's own code are hits of Python functions.

    Args:
        native: whether such samples keep their addresses, and Python functions are callers only.
        named: processes that have files with names of their compiled code, which for V8 take
            precedence.

    Returns:
        The events, unchanged without Python frames; and the stacks for callers.
    """
    stacks = find_runtime_stacks(events, named)
    if stacks is None or events.runtimes is None:
        return events, None
    ip = events.samples.ip
    notes = unread_notes(events.runtimes, events.samples, stacks.row)
    if not native:
        events = replace(events, samples=_with_hits(events.samples, stacks))
    return events, RuntimeSamples(stacks, ip, notes, native)


def find_runtime_stacks(events: Events, named: Collection[int] = ()) -> RuntimeStacks | None:
    """Match the stacks with their samples; None if there are none.

    The frames of V8 in the processes `named` are left out.
    """
    records, samples = events.runtimes, events.samples
    if records is None or not len(samples):
        return None
    records = place_v8_frames(records)
    sample = np.minimum(records.sample, len(samples) - 1)
    is_mine = (records.sample < len(samples)) & (samples.task.take(sample) == records.task)
    is_mine &= np.isin(records.status, _READ) & (np.diff(records.start) > 0)
    is_mine &= np.isin(records.image, np.array(list(records.images), np.uint64))
    if named:
        numbers = [number for number, one in records.images.items() if one.runtime == wire.V8]
        is_named = np.isin(records.task & _PID, np.array(sorted(named), np.uint64))
        is_mine &= ~(is_named & np.isin(records.image, np.array(numbers, np.uint64)))
    # If several precede one sample, only the last was read at it.
    is_mine[:-1] &= records.sample[:-1] != records.sample[1:]
    rows = np.flatnonzero(is_mine)
    if not len(rows):
        return None
    code, address = place_frames(records)
    length = np.diff(records.start).take(rows)
    frames = segments(records.start.take(rows), length)
    met, image = np.unique(records.image.take(rows), return_inverse=True)
    images = [records.images[number] for number in met.tolist()]
    # CPython 3.`minor`; no other runtime's.
    minor = np.array(
        [one.version & 0xFF if one.runtime == wire.CPYTHON else _OTHER for one in images], np.int64
    ).take(image)
    owner = records.owner.take(frames)
    is_shim, ends_run = _marks(owner, np.repeat(minor, length))
    is_v8 = np.array([one.runtime == wire.V8 for one in images], np.bool_)[image]
    code_of_v8 = None
    if is_v8.any():
        of_v8 = np.repeat(is_v8, length)
        is_entry = of_v8 & (owner & v8.KIND_MASK == v8.ENTRY)
        is_shim, ends_run = np.where(of_v8, is_entry, is_shim), np.where(of_v8, is_entry, ends_run)
        code_of_v8 = find_v8_code(events, records, rows, is_v8)
    # The outermost frame ends the last run, whatever its mark says.
    end = np.cumsum(length)
    run = _runs(ends_run, end - length, end)
    kept = ~is_shim
    pid = (records.task.take(rows) & _PID).astype(np.int64)
    # Versions of CPython that compile code have tables for unwinders instead.
    makers = distinct(pid[(minor == _OTHER) & ~is_v8])
    before = np.zeros(len(kept) + 1, np.int64)
    np.cumsum(kept, out=before[1:])
    return RuntimeStacks(
        code=code,
        row=rows,
        sample=records.sample.take(rows),
        start=before.take(np.append(0, end)),
        address=address.take(frames)[kept] + RUNTIME_BASE,
        run=run[kept],
        is_cut=records.status.take(rows) != wire.WALKED,
        pid=pid,
        made=find_made_code(events.mmaps, events.names, makers),
        text=_ranges(images, "text_begin", "text_end")[image],
        loop=_ranges(images, "loop_begin", "loop_end")[image],
        v8=code_of_v8,
    )


def _ranges(images: list[RuntimeImage], begin: str, end: str) -> U64:
    return np.array([(getattr(one, begin), getattr(one, end)) for one in images], np.uint64)


def _marks(owner: U8, minor: I64) -> tuple[Bools, Bools]:
    """Return which frames only represent calls from C, and which are the outermost of their run."""
    is_shim = (minor >= _SHIMS_SINCE) & (owner >= cpython.OWNED_BY_C)
    has_marks = (minor == _ENTRY_MARKS) | (minor == _OTHER)
    is_entry = np.where(has_marks, owner & wire.OUTERMOST > 0, minor < _ENTRY_MARKS)
    return is_shim, is_shim | is_entry


def _runs(ends: Bools, begin: I64, end: I64) -> I64:
    """Number the runs of each stack from its outermost frame on, i64[f].

    A frame that is not the last of its run is in the run of the next outer frame.
    """
    ends = ends.copy()
    ends[end - 1] = True
    # Number of runs that ended before each frame, in all stacks.
    from_inside: I64 = np.cumsum(ends) - ends
    length = end - begin
    outermost: I64 = np.repeat(from_inside.take(end - 1), length)
    found: I64 = outermost - from_inside
    return found


def _with_hits(samples: Samples, stacks: RuntimeStacks) -> Samples:
    """Return samples in which those in the interpreter's own code are hits of Python functions."""
    has_frames = np.diff(stacks.start) > 0
    ip = samples.ip.take(stacks.sample)
    is_own = has_frames & (samples.mode.take(stacks.sample) == abi.PERF_RECORD_MISC_USER)
    is_in_text = stacks.are_in_own_code(np.arange(len(ip)), ip)
    if stacks.v8 is not None:
        is_in_text = np.where(stacks.v8.is_mine, stacks.v8.runs, is_in_text)
    is_own &= is_in_text
    changed = samples.ip.copy()
    leaf = stacks.address.take(stacks.start[:-1], mode="clip")
    changed[stacks.sample[is_own]] = leaf[is_own]
    return replace(samples, ip=changed)


def unread_notes(records: RuntimeRecords, samples: Samples, read: I64) -> tuple[ProcessNote, ...]:
    """Return notes on processes whose samples show no Python function, with the reason.

    Samples of a process before Python runs in it, and after an exec, are not counted. `read` i64[r]
    are the rows of `records` that belong to a sample and have frames.
    """
    pid_of_record = records.task & _PID
    languages = {
        number: wire.LANGUAGES.get(image.runtime, "Python")
        for number, image in records.images.items()
    }
    order, pids, start = _by_pid(samples)
    notes = []
    for pid in distinct(pid_of_record).tolist()[:MOST_PROCESSES]:
        row = int(np.searchsorted(pids, pid))
        if row == len(pids) or pids[row] != pid:
            continue
        mine = pid_of_record == pid
        at = records.sample[mine]
        of_pid = order[start[row] : start[row + 1]]
        first = np.searchsorted(of_pid, at.min())
        total = int(np.searchsorted(of_pid, at.max(), side="right") - first)
        shown = int(np.count_nonzero(mine.take(read)))
        status = records.status[mine]
        frames = np.diff(records.start)[mine]
        threads = int(np.count_nonzero(status == wire.NO_THREAD))
        broken = int(np.count_nonzero(status == wire.FAULT))
        cut = int(np.count_nonzero(status == wire.TRUNCATED))
        missing = total - shown - threads
        much = max(_SHARE * total, _LEAST)
        is_much = missing > much
        language = languages.get(int(records.image[mine][0]), "Python")
        parts = [f"{missing} of {total} samples show no {language} function"] if is_much else []
        if threads and is_much:
            parts.append(f"{threads} are of threads that are not {language}'s")
        lost = int(np.count_nonzero((status == wire.FAULT) & (frames == 0)))
        if broken - lost > much:
            parts.append(f"the frames of {broken - lost} samples could not be read to the end")
        if cut:
            parts.append(f"of {cut} samples only the innermost {wire.MOST_FRAMES} frames were read")
        if parts:
            notes.append((pid, f"Process {pid}: {'; '.join(parts)}."))
    return tuple(notes)


def _by_pid(samples: Samples) -> tuple[I64, U64, I64]:
    """Return samples by process, the processes, and the bounds of each one's samples."""
    pid = samples.task & _PID
    order = np.argsort(pid, kind="stable")
    ordered = pid.take(order)
    start = run_starts(ordered)
    return order, ordered.take(start), np.append(start, len(order))


# Code that runtimes compile while they run: executable memory without a file.

_EXECUTABLE = 4  # PROT_EXEC
_ADDRESS_BITS = 47
_MOST_MAKERS = 1 << 16


class MadeCode(NamedTuple):
    """Ranges of such memory in processes, at any time.

    Attributes:
        pid: i64[p] the processes that have some, ascending.
        begin, end: u64[r] with the row of the process in the high bits; `begin` ascends, and `end`
            is the highest so far.
    """

    pid: I64
    begin: U64
    end: U64

    def covers(self, pid: I64, address: U64) -> Bools:
        """Return bool[n] whether each address of a process is in such memory."""
        if not len(self.begin):
            return np.zeros(len(address), np.bool_)
        row = np.searchsorted(self.pid, pid)
        is_there = self.pid.take(row, mode="clip") == pid
        is_there &= address < np.uint64(1 << _ADDRESS_BITS)
        key = row.astype(np.uint64) << np.uint64(_ADDRESS_BITS) | address
        at = np.searchsorted(self.begin, key, side="right") - 1
        is_there &= (at >= 0) & (key < self.end.take(at, mode="clip"))
        found: Bools = is_there
        return found


def find_made_code(mmaps: Mmaps, names: Sequence[bytes], pids: I64) -> MadeCode:
    """Find such memory of some processes, distinct and ascending."""
    is_anonymous = np.array([classify(name) == KIND_ANON for name in names] + [False], np.bool_)
    chosen = (mmaps.prot & _EXECUTABLE > 0) & is_anonymous.take(mmaps.name)
    pids = pids[:_MOST_MAKERS]
    chosen &= np.isin(mmaps.pid, pids)
    chosen &= mmaps.start + mmaps.length < np.uint64(1 << _ADDRESS_BITS)
    high = np.searchsorted(pids, mmaps.pid[chosen]).astype(np.uint64) << np.uint64(_ADDRESS_BITS)
    begin = high | mmaps.start[chosen]
    order = np.argsort(begin, kind="stable")
    end = np.maximum.accumulate((begin + mmaps.length[chosen]).take(order))
    return MadeCode(pids, begin.take(order), end)
