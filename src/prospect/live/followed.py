"""Whom a session follows where that is not everybody: chosen processes with all below, or threads.

Comes in: who they are, and the records of each part. Goes out: which processes count. Threads need
no choice among samples: only they, and what they start, have events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.events.columns import TASK_FORK

if TYPE_CHECKING:
    from prospect.events.columns import Events
    from prospect.live.chosen import Whom
    from prospect.profile.model import ProcessTable


class Followed:
    """Processes or threads that somebody named, and who joined them."""

    def __init__(self, whom: Whom) -> None:
        """Begin with those who ran already."""
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
            else:  # the number of one that has ended
                self._members.discard(pid)

    def mark(self, processes: ProcessTable) -> None:
        """Set `is_command` and `is_descendant` of a part's processes."""
        processes.is_command[:] = np.isin(processes.pid, self._pids)
        if self._members is None:
            processes.is_descendant[:] = True
        else:
            processes.is_descendant[:] = np.isin(processes.pid, list(self._members))
