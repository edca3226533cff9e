"""Whom a session follows where that is not everybody: chosen processes with all below, or threads.

Comes in: ids, and the records of each part. Goes out: which processes count, and what to call
them. Threads need no choice among samples: only they, and what they start, have events.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from prospect.capture.kernel.procfs import read_file, read_if_there
from prospect.capture.loop.attached import Attached
from prospect.capture.machine.attached_tasks import family
from prospect.errors import CaptureError
from prospect.events.columns import TASK_FORK
from prospect.light import Closing

if TYPE_CHECKING:
    from prospect.events.columns import Events
    from prospect.profile.model import ProcessTable
    from prospect.recording.events import RecordOptions

_MOST_NAMED = 3


class Followed(Closing):
    """Processes or threads that somebody named.

    Attributes:
        words: what they are called, as "process 4711 (nginx)".
        pids: the processes that were named, or whose threads were.
        has_ended: whether none of those that were named runs any more.
    """

    def __init__(self, pids: tuple[int, ...], tids: tuple[int, ...]) -> None:
        """Find them; of processes, not yet what descends from them.

        Raises:
            CaptureError: one of them is not there, or is a kernel thread.
        """
        self.has_ended = False
        self._tids = {tid: _begin(tid) for tid in tids}
        for tid, begin in self._tids.items():
            if not begin:
                raise CaptureError(f"there is no thread {tid} (-t)")
        self._attached = Attached(pids, None)
        self._members = None if tids else set(pids)
        self.pids = pids or tuple(dict.fromkeys(map(_owner, tids)))
        kind = "thread" if tids else "process"
        named = [f"{number} ({_name(number)})" for number in (tids or pids)]
        more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
        plural = "" if len(named) == 1 else "s" if tids else "es"
        self.words = f"{kind}{plural} {', '.join(named[:_MOST_NAMED])}{more}"

    def find_family(self) -> None:
        """Add what descends from the processes; call it once forks are recorded."""
        if self._members is not None:
            self._members |= set(family(self.pids))

    def take_in(self, events: Events) -> None:
        """Follow the forks of a part, and look whether those that were named still run."""
        if self._members is not None:
            tasks = events.tasks
            forks = np.flatnonzero((tasks.kind == TASK_FORK) & (tasks.time_ns > 0))
            parents = tasks.parent_pid.take(forks).tolist()
            for pid, parent in zip(tasks.pid.take(forks).tolist(), parents, strict=True):
                if parent in self._members:
                    self._members.add(pid)
                else:  # the number of one that has ended
                    self._members.discard(pid)
        if self._tids:
            self.has_ended = all(_begin(tid) != begin for tid, begin in self._tids.items())
        else:
            self.has_ended = self.has_ended or self._attached.reap() is not None

    def mark(self, processes: ProcessTable) -> None:
        """Set `is_command` and `is_descendant` of a part's processes."""
        processes.is_command[:] = np.isin(processes.pid, self.pids)
        if self._members is None:
            processes.is_descendant[:] = True
        else:
            processes.is_descendant[:] = np.isin(processes.pid, list(self._members))

    def close(self) -> None:
        """Let go of them; they run on."""
        self._attached.close()


def follow(options: RecordOptions) -> Followed | None:
    """Return whom the options name, None for nobody; raises as `Followed`."""
    is_chosen = options.pids or options.tids
    return Followed(options.pids, options.tids) if is_chosen else None


def _begin(tid: int) -> bytes:
    """Return when a thread began, which no later one of its number did; empty without one."""
    with suppress(OSError, IndexError):
        # starttime, the 20th field behind the name in parentheses; see proc(5).
        return read_file(f"/proc/{tid}/stat").rpartition(b")")[2].split()[19]
    return b""


def _owner(tid: int) -> int:
    for line in read_if_there(f"/proc/{tid}/status").splitlines():
        if line.startswith(b"Tgid:"):
            return int(line.split()[1])
    raise CaptureError(f"thread {tid} has just ended (-t)")


def _name(number: int) -> str:
    return os.fsdecode(read_if_there(f"/proc/{number}/comm").rstrip(b"\n")) or "?"
