"""Processes or threads that were named: their ids and names, and whether they still run.

This module knows the standard library alone: for `prospect top --target` it runs on the target.
"""

from __future__ import annotations

import os
from contextlib import suppress

from prospect.capture.kernel.procfs import read_file, read_if_there
from prospect.capture.loop.attached import Attached
from prospect.capture.machine.attached_tasks import family
from prospect.errors import CaptureError
from prospect.light import Closing
from prospect.records import NamedTuple

_MOST_NAMED = 3


class Whom(NamedTuple):
    """The processes that a session follows.

    Attributes:
        words: what they are called, as "process 4711 (nginx)".
        pids: the processes that were named, or whose threads were.
        members: these and all that descended from them when somebody looked; None if threads
            were named.
    """

    words: str
    pids: tuple[int, ...]
    members: tuple[int, ...] | None


class Chosen(Closing):
    """Processes or threads of this machine, until `close`; they run on."""

    def __init__(self, pids: tuple[int, ...], tids: tuple[int, ...]) -> None:
        """Find them; not yet what descends from them.

        Raises:
            CaptureError: one of them is not there, or is a kernel thread.
        """
        self._tids = {tid: _begin(tid) for tid in tids}
        for tid, begin in self._tids.items():
            if not begin:
                raise CaptureError(f"there is no thread {tid} (-t)")
        self._attached = Attached(pids, None)
        self._pids = pids or tuple(dict.fromkeys(map(_owner, tids)))
        kind = "thread" if tids else "process"
        named = [f"{number} ({_name(number)})" for number in (tids or pids)]
        more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
        plural = "" if len(named) == 1 else "s" if tids else "es"
        self._words = f"{kind}{plural} {', '.join(named[:_MOST_NAMED])}{more}"

    def whom(self) -> Whom:
        """Say who they are; call it once forks are recorded, which say who joins them."""
        return Whom(self._words, self._pids, None if self._tids else tuple(family(self._pids)))

    def have_ended(self) -> bool:
        """Say whether none of those that were named runs any more."""
        if self._tids:
            return all(_begin(tid) != begin for tid, begin in self._tids.items())
        return self._attached.reap() is not None

    def close(self) -> None:
        """Let go of them."""
        self._attached.close()


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
