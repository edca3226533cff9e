"""The system calls that threads are in as recording begins.

A wait that began before has no switch out of the CPU within the recording, so no sample shows it.

Defined by: proc(5), ``/proc/PID/task/TID/syscall``: a number, six arguments, the stack pointer and
the place; "running", and -1 for a thread that is blocked outside a call. Reading it takes
PTRACE_MODE_ATTACH.
"""

from __future__ import annotations

from prospect.capture.kernel.procfs import list_pids, names_in, read_if_there
from prospect.light import monotonic_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

_MOST_THREADS = 1 << 14
_COMPAT_LIMIT = 1 << 32
_WORDS = 9


def calls_before(pids: Iterable[int], proc: str = "/proc") -> dict[str, Any]:
    """Return `calls_before` of docs/recording.md.

    Args:
        pids: the processes of these threads; none for every process.
        proc: where /proc is.
    """
    calls: dict[int, list[int]] = {}
    for pid in list(pids) or list_pids(proc):
        for name in names_in(f"{proc}/{pid}/task"):
            if name.isdecimal() and len(calls) < _MOST_THREADS:
                call = _call(read_if_there(f"{proc}/{pid}/task/{name}/syscall"))
                if call:
                    calls[int(name)] = call
    return {"read_ns": monotonic_ns(), "calls": calls}


def _call(text: bytes) -> list[int]:
    """Return number and 1 for a 32-bit interface, by where the stack is; [] for no call."""
    words = text.split()
    if len(words) != _WORDS or not words[0].isdigit():
        return []
    return [int(words[0]), int(int(words[-2], 16) < _COMPAT_LIMIT)]
