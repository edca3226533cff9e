"""Carry state from one part of a session to the next. `tasks` carries processes.

`LastSwitches`: each part begins with switches at time 0 that show whether a thread was on a CPU,
ready or waiting. A wait over the end of a part is two waits, whose times add up. CPUs are drained
one after the other, so a switch may arrive a part after its thread went on elsewhere, or ended.
Such a late switch is left out.

`LoadedPrograms`: a part begins with records, at time 0, of the BPF programs and trampolines that
earlier parts loaded. The kernel's listing, which is read once, has only those from before the
session.

`PythonNames`: the walker sends the name of a code object at first sight, and again from time to
time. If it stops, nobody runs the code any more. Interpreters go when their processes have ended.

`Followed`: the processes of `top -p` and their descendants, or the threads of `top -t`. Threads
need no choice among samples: only they, and the threads that they start, have events.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from prospect.abi import constants as abi
from prospect.abi import runtime_frames as wire
from prospect.abi.record_layout import layout_of
from prospect.columns.buffers import appended, gather
from prospect.columns.sorting import distinct
from prospect.events.record_columns import (
    TASK_EXIT,
    TASK_FORK,
    KernelSymbols,
    Switches,
    kept_samples,
)
from prospect.events.runtime_records import TABLES, TEXTS, NameRoom
from prospect.live.live_limits import MOST_PROGRAMS, MOST_RUNTIME_NAME_BYTES, MOST_SHARING_PIDS
from prospect.records import Record, field, replace
from prospect.spaces.attribution import task_tid

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from prospect.abi.attr import EventDescription
    from prospect.columns.array_types import I32, U64, Bools
    from prospect.events.record_columns import Events, Tasks
    from prospect.events.runtime_records import CodeKey, CodeText, RuntimeImage
    from prospect.live.chosen import Whom
    from prospect.profile.model import ProcessTable

_TID_SHIFT, _PID_MASK = np.uint64(32), np.uint64((1 << 32) - 1)
# A thread's last switch is drained at most this long after its end.
_LATEST_NS = 10 * 10**9
_NEVER = np.uint64(2**64 - 1)


def _no_switches() -> Switches:
    return Switches(
        time_ns=np.empty(0, np.uint64),
        task=np.empty(0, np.uint64),
        cpu=np.empty(0, np.int32),
        is_out=np.empty(0, np.bool_),
        is_preempted=np.empty(0, np.bool_),
    )


class LastSwitches:
    """The last switch of each living thread, ascending by thread."""

    def __init__(self) -> None:
        self._last = _no_switches()
        self._ended_ns: dict[int, int] = {}
        self._ended = np.empty(0, np.int32)

    def __len__(self) -> int:
        """Return the number of threads whose state is known."""
        return len(self._last)

    def carried(self, events: Events, switch_event: int) -> Events:
        """Return a part's records after the last switches of threads before it, at time 0.

        Args:
            switch_event: the row of the event that samples every switch, -1 for none.
        """
        switches = events.switches or _no_switches()
        is_late = self._is_late(switches, events.tasks)
        samples = events.samples
        is_stray = self._is_of_ended(samples.task, samples.time_ns, events.tasks)
        is_stray &= samples.event == switch_event
        before = replace(self._last, time_ns=np.zeros(len(self), np.uint64))
        return replace(
            events,
            switches=appended(before, switches, np.flatnonzero(~is_late)),
            samples=kept_samples(samples, ~is_stray),
        )

    def take_in(self, events: Events, tids: I32) -> None:
        """Follow the switches of a part.

        Args:
            events: the part's own records, without those that `carried` adds.
            tids: all living threads.
        """
        tasks, switches = events.tasks, events.switches or _no_switches()
        switches = gather(switches, np.flatnonzero(~self._is_late(switches, tasks)))
        is_birth = (tasks.kind == TASK_FORK) & (tasks.time_ns > 0)
        is_death = (tasks.kind == TASK_EXIT) & (tasks.time_ns > 0)
        born_ns = _latest(tasks, is_birth)
        ended_ns = self._ended_ns | _latest(tasks, is_death)
        latest_ns = max((*ended_ns.values(), *switches.time_ns[-1:].tolist()), default=0)
        self._ended_ns = {
            tid: at
            for tid, at in ended_ns.items()
            if at >= born_ns.get(tid, 0) and latest_ns - at < _LATEST_NS
        }
        self._ended = np.array(list(self._ended_ns), np.int32)
        every = appended(self._last, _births(tasks, is_birth), np.arange(int(is_birth.sum())))
        every = appended(every, switches, np.arange(len(switches)))
        tid = task_tid(every.task)
        order = np.lexsort((every.time_ns, tid))
        ordered = tid.take(order)
        is_last = np.append(ordered[1:] != ordered[:-1], True)[: len(ordered)]
        lives = np.isin(ordered, tids) & ~np.isin(ordered, self._ended) & (ordered > 0)
        self._last = gather(every, order[is_last & lives])

    def _is_late(self, switches: Switches, tasks: Tasks) -> Bools:
        """Mark switches that are older than the last known one of their thread, bool[n]."""
        late = self._is_of_ended(switches.task, switches.time_ns, tasks)
        if len(self):
            known = task_tid(self._last.task)
            tid = task_tid(switches.task)
            at = np.minimum(np.searchsorted(known, tid), len(known) - 1)
            is_known = known.take(at) == tid
            late |= is_known & (switches.time_ns < self._last.time_ns.take(at))
        return late

    def _is_of_ended(self, task: U64, time_ns: U64, tasks: Tasks) -> Bools:
        """Mark records of threads that ended before, bool[n]; the kernel reuses their numbers."""
        tid = task_tid(task)
        found = np.isin(tid, self._ended)
        if not found.any():
            return found
        rows = np.flatnonzero(found)
        is_birth = (tasks.kind == TASK_FORK) & (tasks.time_ns > 0)
        born = np.flatnonzero(is_birth & np.isin(tasks.tid, tid.take(rows)))
        again, place = np.unique(tasks.tid.take(born), return_inverse=True)
        first_ns = np.append(np.full(len(again), _NEVER), _NEVER)
        np.minimum.at(first_ns, place, tasks.time_ns.take(born))
        at = np.searchsorted(again, tid.take(rows))
        is_again = np.append(again, 0).take(at) == tid.take(rows)
        until_ns = np.where(is_again, first_ns.take(at), _NEVER)
        found[rows] = time_ns.take(rows) < until_ns
        return found


def _latest(tasks: Tasks, chosen: Bools) -> dict[int, int]:
    """Return the last time of each thread: records are in chronological order."""
    return dict(zip(tasks.tid[chosen].tolist(), tasks.time_ns[chosen].tolist(), strict=True))


def _births(tasks: Tasks, chosen: Bools) -> Switches:
    """Return births as switches: a new thread is ready, and waits for a CPU."""
    rows = np.flatnonzero(chosen)
    tid = tasks.tid.take(rows).astype(np.uint32).astype(np.uint64)
    pid = tasks.pid.take(rows).astype(np.uint32).astype(np.uint64)
    return Switches(
        time_ns=tasks.time_ns.take(rows),
        task=pid | tid << _TID_SHIFT,
        cpu=np.full(len(rows), -1, np.int32),
        is_out=np.ones(len(rows), np.bool_),
        is_preempted=np.ones(len(rows), np.bool_),
    )


class LoadedPrograms:
    """The programs that the session saw loaded and not unloaded, the oldest first.

    By address, each has the length, kind and name of its record; see `KernelSymbols`.
    """

    def __init__(self) -> None:
        self._programs: dict[int, tuple[int, int, bytes]] = {}

    def __len__(self) -> int:
        """Return their number."""
        return len(self._programs)

    def carried(self, events: Events) -> Events:
        """Return a part's records after those of the programs that were loaded before it."""
        if not self._programs:
            return events
        size = len(self._programs)
        lengths, kinds, names = zip(*self._programs.values(), strict=True)
        before = KernelSymbols(
            order=np.zeros(size, np.int64),
            time_ns=np.zeros(size, np.uint64),
            address=np.fromiter(self._programs, np.uint64, size),
            length=np.array(lengths, np.uint64),
            kind=np.array(kinds, np.uint8),
            unregister=np.zeros(size, np.bool_),
            name=np.arange(len(events.names), len(events.names) + size, dtype=np.int32),
        )
        own = events.kernel_symbols
        return replace(
            events,
            kernel_symbols=appended(before, own, np.arange(len(own.order))),
            names=[*events.names, *names],
        )

    def take_in(self, events: Events) -> None:
        """Follow the programs that a part loaded and unloaded.

        Args:
            events: the part's own records, without those that `carried` adds.
        """
        table = events.kernel_symbols
        columns = (table.address, table.length, table.kind, table.unregister, table.name)
        for address, length, kind, is_gone, name in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            self._programs.pop(address, None)
            if not is_gone and name >= 0:
                self._programs[address] = length, kind, events.names[name]
            if len(self._programs) > MOST_PROGRAMS:
                del self._programs[next(iter(self._programs))]


_RECORD = struct.Struct("<IHH")
_RAW_BYTES = 4
# Beyond this share of the space, names go with the last process of their interpreter: if
# interpreters start all the time, most names are of those that have ended.
_SCARCE_SHARE = 0.125
# Rings and looks may delay a name: one interval more than needed.
_KEPT_NS = 3 * 10**9 * wire.SENT_AGAIN_S
# How long to keep names of an interpreter whose processes have ended: a child of theirs may not
# have been sampled yet.
_KEPT_ENDED_NS = 2 * 60 * 10**9


class _Interpreter(Record, frozen=False):
    """The names of one interpreter.

    Attributes:
        texts: those of its code objects, with the time of the last record.
        known_ns: the time of the last record of the image.
        image: None for no record.
        pids: at most `MOST_SHARING_PIDS` processes that were sampled in it.
        ended_ns: when all of these were first seen ended, 0 if some run or none is known.
    """

    texts: dict[CodeKey, tuple[int, CodeText]] = field(default_factory=dict)
    known_ns: int = 0
    image: RuntimeImage | None = None
    pids: set[int] = field(default_factory=set)
    ended_ns: int = 0

    def see(self, running: Container[int], now_ns: int) -> None:
        """Note whether its processes run."""
        is_known = 0 < len(self.pids) < MOST_SHARING_PIDS
        have_ended = is_known and not any(pid in running for pid in self.pids)
        self.ended_ns = (self.ended_ns or now_ns) if have_ended else 0


class PythonNames:
    """The names of interpreters and code objects, and the time of their last record."""

    def __init__(self, most_bytes: int = MOST_RUNTIME_NAME_BYTES) -> None:
        """Begin with space for this many bytes of names."""
        self._interpreters: dict[int, _Interpreter] = {}
        self._room = NameRoom(most_bytes)
        # Processes that run the same program share their texts.
        self._shared: dict[CodeText, CodeText] = {}

    def __len__(self) -> int:
        """Return the number of known code objects."""
        return sum(len(one.texts) for one in self._interpreters.values())

    def carried(self, events: Events, end_ns: int, running: Container[int] = ()) -> Events:
        """Keep the names of a part's records; return them with all names that its stacks may need.

        Args:
            running: the processes that ran when the part began.
        """
        self._forget(end_ns, running)
        python = events.runtimes
        if python is None:
            return events
        for number, image in python.images.items():
            known = self._interpreters.setdefault(number, _Interpreter())
            known.image, known.known_ns = image, end_ns
        left_out = dict(python.left_out)
        for key, text in python.texts.items():
            known = self._interpreters.setdefault(key.image, _Interpreter())
            if not self._keep(known, key, text, end_ns):
                left_out[key.image] = left_out.get(key.image, 0) + 1
        pids = (python.task & _PID_MASK).tolist()
        for pid, number in set(zip(pids, python.image.tolist(), strict=True)):
            sampled = self._interpreters.get(number)
            if sampled and len(sampled.pids) < MOST_SHARING_PIDS:
                sampled.pids.add(pid)
        used = [(one, self._interpreters.get(one)) for one in distinct(python.image).tolist()]
        return replace(
            events,
            runtimes=replace(
                python,
                images={number: one.image for number, one in used if one and one.image},
                texts={key: text for _, one in used if one for key, (_, text) in one.texts.items()},
                left_out=tuple(left_out.items()),
            ),
        )

    def _keep(self, known: _Interpreter, key: CodeKey, text: CodeText, now_ns: int) -> bool:
        """Keep new texts of a code object; return whether it has any."""
        before = known.texts.get(key)
        if before:
            new = {name: one for name, one in text._asdict().items() if one is not None}
            text = before[1]._replace(**new)
        if self._room.take(key, text, known.image.user if known.image else 0):
            known.texts[key] = now_ns, self._shared.setdefault(text, text)
            return True
        return before is not None

    def _forget(self, now_ns: int, running: Container[int]) -> None:
        """Forget names without a recent record, and interpreters whose processes have ended."""
        forgotten: list[CodeKey] = []
        kept_ended_ns = -1 if self._room.taken_share > _SCARCE_SHARE else _KEPT_ENDED_NS
        for number, one in list(self._interpreters.items()):
            one.see(running, now_ns)
            if one.ended_ns and one.ended_ns < now_ns - kept_ended_ns:
                forgotten += self._interpreters.pop(number).texts
                continue
            old = [key for key, (at, _) in one.texts.items() if at < now_ns - _KEPT_NS]
            for key in old:
                del one.texts[key]
            forgotten += old
            if one.known_ns < now_ns - _KEPT_NS:
                one.image = None
                if not one.texts:
                    del self._interpreters[number]
        for key in forgotten:
            self._room.forget(key)
        if forgotten:
            kept = (text for one in self._interpreters.values() for _, text in one.texts.values())
            self._shared = {text: text for text in kept}

    def records(self, events: Sequence[EventDescription]) -> bytes:
        """Return samples of time 0 with all known names."""
        found = [one for one in events if wire.is_frames_event(one.attr, one.name) and one.ids]
        if not found:
            return b""
        return b"".join(_sample(found[0], payload) for payload in self._payloads())

    def _payloads(self) -> Iterator[bytes]:
        for number, one in self._interpreters.items():
            if one.image is None:
                continue
            version, *places, described, user, runtime = one.image
            payload = wire.IMAGE.pack(version | runtime << wire.RUNTIME_SHIFT, described, *places)
            yield _head(wire.KIND_IMAGE, 0, len(payload), (0, number, user, 0)) + payload
        for interpreter in self._interpreters.values():
            for (image_number, code, signature), (_, text) in interpreter.texts.items():
                place = (signature, image_number, code, text.beginning)
                for kind, name in (TEXTS | TABLES).items():
                    part = getattr(text, name)
                    if part is not None:
                        status, content = (0, part) if kind in TABLES else part
                        yield _head(kind, status, len(content), place) + content


def _head(kind: int, status: int, count: int, place: tuple[int, int, int, int]) -> bytes:
    return wire.HEADER.pack(wire.MAGIC, kind, status, count, *place)


def _sample(event: EventDescription, payload: bytes) -> bytes:
    """Return a sample of the event of Python frames, at time 0."""
    layout = layout_of(event.attr)
    fixed = [0] * layout.fixed_words
    fixed[layout.sample["identifier"]] = event.ids[0]
    size = -(-(_RAW_BYTES + len(payload)) // 8) * 8 - _RAW_BYTES
    record = struct.pack(f"<{len(fixed) - 1}QI", *fixed[1:], size) + payload.ljust(size, b"\0")
    return _RECORD.pack(abi.PERF_RECORD_HIDDEN_SAMPLE, 0, _RECORD.size + len(record)) + record


class Followed:
    """The chosen processes or threads, and their descendants."""

    def __init__(self, whom: Whom) -> None:
        """Begin with those that run already."""
        self._pids = whom.pids
        self._members = None if whom.members is None else {*whom.pids, *whom.members}

    def take_in(self, events: Events) -> None:
        """Follow the forks of a part."""
        if self._members is None:
            return
        tasks = events.tasks
        forks = np.flatnonzero((tasks.kind == TASK_FORK) & (tasks.time_ns > 0))
        parents = tasks.parent_pid.take(forks).tolist()
        for pid, parent in zip(tasks.pid.take(forks).tolist(), parents, strict=True):
            if parent in self._members:
                self._members.add(pid)
            else:  # the number may be that of a process that has ended
                self._members.discard(pid)

    def mark(self, processes: ProcessTable) -> None:
        """Set `is_command` and `is_descendant` of a part's processes."""
        processes.is_command[:] = np.isin(processes.pid, self._pids)
        if self._members is None:
            processes.is_descendant[:] = True
        else:
            processes.is_descendant[:] = np.isin(processes.pid, list(self._members))
