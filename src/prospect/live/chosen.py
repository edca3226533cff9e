"""The processes or threads that a user chose: their ids and names, and whether they still run.

This module imports only the standard library: `prospect top --target` runs it on the target.
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
        words: their description, as "process 4711 (nginx)".
        pids: the chosen processes, or those of the chosen threads.
        members: these and their descendants at the time of the look; None for threads.
    """

    words: str
    pids: tuple[int, ...]
    members: tuple[int, ...] | None


class Chosen(Closing):
    """Processes or threads of this machine, until `close`; they run on."""

    def __init__(self, pids: tuple[int, ...], tids: tuple[int, ...]) -> None:
        """Find them, without their descendants.

        Raises:
            CaptureError: one of them does not exist, or is a kernel thread.
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
        """Return them with their descendants; call it once forks are recorded."""
        return Whom(self._words, self._pids, None if self._tids else tuple(family(self._pids)))

    def have_ended(self) -> bool:
        """Return whether all chosen ones have ended."""
        if self._tids:
            return all(_begin(tid) != begin for tid, begin in self._tids.items())
        return self._attached.reap() is not None

    def close(self) -> None:
        """Close their descriptors."""
        self._attached.close()


def _begin(tid: int) -> bytes:
    """Return a thread's start time, which a reused number does not have; empty for no thread."""
    with suppress(OSError, IndexError):
        # starttime, the 20th field after the name in parentheses; see proc(5).
        return read_file(f"/proc/{tid}/stat").rpartition(b")")[2].split()[19]
    return b""


def _owner(tid: int) -> int:
    for line in read_if_there(f"/proc/{tid}/status").splitlines():
        if line.startswith(b"Tgid:"):
            return int(line.split()[1])
    raise CaptureError(f"thread {tid} has just ended (-t)")


def _name(number: int) -> str:
    return os.fsdecode(read_if_there(f"/proc/{number}/comm").rstrip(b"\n")) or "?"
