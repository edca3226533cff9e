"""The threads of running processes, and of their descendants, whose events are opened one by one.

Inheritance follows the threads that they start later. As with `perf record -p`, a thread that
starts between the look at /proc and the opening is missed: a second look would count twice the
threads that an opened thread started meanwhile.

Defined by: proc(5); perf_event_open(2) for the threads that a user may follow.
"""

from __future__ import annotations

import os

from prospect.capture.kernel import perf_syscalls
from prospect.capture.kernel.procfs import list_pids, read_file
from prospect.capture.machine.process_snapshot import parse_stat
from prospect.errors import CaptureError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from prospect.abi.attr import EventAttr


def attached_tasks(pids: tuple[int, ...], attr: EventAttr, cpu: int) -> tuple[int, ...]:
    """Return the threads to follow.

    Args:
        pids: the processes; none of the recorder's own is followed, also below one of them.
        attr: an event that this user may have of their own processes.
        cpu: an on-line CPU for the tries.

    Raises:
        CaptureError: one of the processes is not this user's, or has ended.
    """
    tasks: list[int] = []
    for pid in family(pids):
        threads = threads_of(pid)
        try:
            followed = _may_follow(threads, attr, cpu)
        except OSError as error:
            if not perf_syscalls.is_refusal(error):
                raise
            if pid in pids:
                raise CaptureError(
                    f"process {pid} is not yours to profile: run as its owner, as root, or with"
                    " CAP_PERFMON (-p)"
                ) from error
            continue
        if followed:
            tasks += threads
        elif pid in pids:
            raise CaptureError(f"process {pid} has just ended (-p)")
    return tuple(tasks)


def chosen_tasks(tids: tuple[int, ...], attr: EventAttr, cpu: int) -> tuple[int, ...]:
    """Return the threads, all of which this user may follow; arguments as of `attached_tasks`.

    Raises:
        CaptureError: one of them is not this user's, or has ended.
    """
    for tid in tids:
        try:
            is_there = _may_follow([tid], attr, cpu)
        except OSError as error:
            if not perf_syscalls.is_refusal(error):
                raise
            raise CaptureError(
                f"thread {tid} is not yours to profile: run as its owner, as root, or with"
                " CAP_PERFMON (-t)"
            ) from error
        if not is_there:
            raise CaptureError(f"thread {tid} has just ended (-t)")
    return tids


def family(pids: tuple[int, ...], proc: str = "/proc") -> list[int]:
    """Return these processes and all that descend from them, without the caller and its own."""
    children: dict[int, list[int]] = {}
    for pid in list_pids(proc):
        try:
            parent = parse_stat(read_file(f"{proc}/{pid}/stat")).ppid
        except (OSError, ValueError):
            continue  # it has ended
        children.setdefault(parent, []).append(pid)
    found: dict[int, None] = {}
    waiting = list(reversed(pids))
    while waiting:
        pid = waiting.pop()
        if pid not in found and pid != os.getpid():
            found[pid] = None
            waiting += children.get(pid, ())
    return list(found)


def descendants(pids: tuple[int, ...]) -> list[int]:
    """Return these processes and all that descend from them, as `family` does, but sooner.

    It reads the processes' own lists of children, if the kernel has them (CONFIG_PROC_CHILDREN).
    """
    found: dict[int, None] = {}
    waiting = list(pids)
    while waiting:
        pid = waiting.pop()
        if pid in found or pid == os.getpid():
            continue
        found[pid] = None
        for thread in threads_of(pid):
            try:
                children = read_file(f"/proc/{pid}/task/{thread}/children")
            except OSError:
                if os.path.exists(f"/proc/{pid}/task/{thread}"):
                    return family(pids)
                continue  # it has ended
            waiting += map(int, children.split())
    return list(found)


def threads_of(pid: int) -> list[int]:
    """Return the threads of a process that runs, none of one that has ended."""
    try:
        return sorted(int(name) for name in os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return []


def _may_follow(threads: list[int], attr: EventAttr, cpu: int) -> bool:
    """Say whether one of a process's threads is still there to follow."""
    for thread in threads:
        try:
            os.close(perf_syscalls.perf_event_open(attr.pack(), thread, cpu))
        except ProcessLookupError:
            continue
        return True
    return False
