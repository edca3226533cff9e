"""What each thread did last, carried from one part of a session to the next.

Comes in: the switches, births and deaths of each part, in turn. Goes out: the part's records with
switches at time 0 in front, which say of each thread whether the part found it on a CPU, ready or
waiting. A wait that lasts over the end of a part is so cut in two, whose times add up.

CPUs are drained one after the other. A switch that was drained with a part after the one in which
its thread went on elsewhere, or ended, comes too late to say anything, and is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.table_rows import appended, taken
from prospect.events.columns import TASK_EXIT, TASK_FORK, Switches
from prospect.events.selection import kept_samples
from prospect.records import replace
from prospect.spaces.runs import task_tid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.events.columns import Events, Tasks

_TID_SHIFT = np.uint64(32)
# A thread's last switch is drained so long after its end at most.
_LATEST_NS = 10 * 10**9
_NEVER = np.uint64(2**64 - 1)


def _no_switches() -> Switches:
    return Switches(
        order=np.empty(0, np.int64),
        time_ns=np.empty(0, np.uint64),
        task=np.empty(0, np.uint64),
        cpu=np.empty(0, np.int32),
        is_out=np.empty(0, np.bool_),
        is_preempted=np.empty(0, np.bool_),
    )


class LastSwitches:
    """The last switch of each thread that lives, ascending by thread."""

    def __init__(self) -> None:
        self._last = _no_switches()
        self._ended_ns: dict[int, int] = {}
        self._ended = np.empty(0, np.int32)

    def __len__(self) -> int:
        """Return of how many threads it is known what they do."""
        return len(self._last)

    def carried(self, events: Events, switch_event: int) -> Events:
        """Return a part's records with what threads did before it in front, at time 0.

        Args:
            events: of the part.
            switch_event: row of the event that samples every switch, -1 without.
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

    def take_in(self, events: Events, tids: NDArray[np.int32]) -> None:
        """Follow the switches of a part.

        Args:
            events: the part's own, without what `carried` put in front.
            tids: of all threads that live now.
        """
        tasks, switches = events.tasks, events.switches or _no_switches()
        switches = taken(switches, np.flatnonzero(~self._is_late(switches, tasks)))
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
        self._last = taken(every, order[is_last & lives])

    def _is_late(self, switches: Switches, tasks: Tasks) -> NDArray[np.bool_]:
        """Mark what is older than what is known of its thread, bool[n]."""
        late = self._is_of_ended(switches.task, switches.time_ns, tasks)
        if len(self):
            known = task_tid(self._last.task)
            tid = task_tid(switches.task)
            at = np.minimum(np.searchsorted(known, tid), len(known) - 1)
            is_known = known.take(at) == tid
            late |= is_known & (switches.time_ns < self._last.time_ns.take(at))
        return late

    def _is_of_ended(
        self, task: NDArray[np.uint64], time_ns: NDArray[np.uint64], tasks: Tasks
    ) -> NDArray[np.bool_]:
        """Mark what was done by threads that ended before, bool[n]; numbers are given again."""
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


def _latest(tasks: Tasks, chosen: NDArray[np.bool_]) -> dict[int, int]:
    """Return when each thread was last born, or ended: records are in the order of time."""
    return dict(zip(tasks.tid[chosen].tolist(), tasks.time_ns[chosen].tolist(), strict=True))


def _births(tasks: Tasks, chosen: NDArray[np.bool_]) -> Switches:
    """Return births as switches: who is born is ready, and waits for a CPU."""
    rows = np.flatnonzero(chosen)
    tid = tasks.tid.take(rows).astype(np.uint32).astype(np.uint64)
    pid = tasks.pid.take(rows).astype(np.uint32).astype(np.uint64)
    return Switches(
        order=tasks.order.take(rows),
        time_ns=tasks.time_ns.take(rows),
        task=pid | tid << _TID_SHIFT,
        cpu=np.full(len(rows), -1, np.int32),
        is_out=np.ones(len(rows), np.bool_),
        is_preempted=np.ones(len(rows), np.bool_),
    )
