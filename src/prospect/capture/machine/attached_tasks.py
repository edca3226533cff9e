"""The threads of running processes and of their descendants, for each of which events are opened.

The events inherit to threads that start later. As with `perf record -p`, a thread that starts
between the look at /proc and the opening is missed: a second look would count the threads that an
opened thread started meanwhile twice.

Defined by: proc(5); perf_event_open(2) for the threads that a user may follow.
"""

from __future__ import annotations

import os

from prospect.capture.kernel import perf_syscalls
from prospect.capture.kernel.procfs import list_pids, names_in, read_file
from prospect.capture.machine.process_snapshot import parse_stat
from prospect.errors import CaptureError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from prospect.abi.attr import EventAttr


def attached_tasks(pids: tuple[int, ...], attr: EventAttr, cpu: int) -> tuple[int, ...]:
    """Return the threads to follow.

    Args:
        pids: the processes; the recorder and its descendants are left out.
        attr: an event that an ordinary user may open for their own processes.
        cpu: an online CPU, on which that is tried.

    Raises:
        CaptureError: one of the processes is not this user's, or has ended.
    """
    tasks: list[int] = []
    for pid in family(pids):
        threads = threads_of(pid)
        try:
            _check_may_follow(f"process {pid}", "-p", threads, attr, cpu)
        except CaptureError:
            if pid in pids:
                raise
        else:
            tasks += threads
    return tuple(tasks)


def chosen_tasks(tids: tuple[int, ...], attr: EventAttr, cpu: int) -> tuple[int, ...]:
    """Return the threads, all of which this user may follow; arguments as of `attached_tasks`.

    Raises:
        CaptureError: one of them is not this user's, or has ended.
    """
    for tid in tids:
        _check_may_follow(f"thread {tid}", "-t", [tid], attr, cpu)
    return tids


def family(pids: tuple[int, ...], proc: str = "/proc") -> list[int]:
    """Return these processes and their descendants, without the caller and its descendants."""
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
    """Return these processes and their descendants, as `family` does, but faster.

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
    """Return the threads of a process, none if it has ended."""
    return sorted(map(int, names_in(f"/proc/{pid}/task")))


def _check_may_follow(
    name: str, option: str, threads: list[int], attr: EventAttr, cpu: int
) -> None:
    """Check that this user may follow one of some threads.

    Raises:
        CaptureError: they may not, or all of the threads have ended.
    """
    for thread in threads:
        try:
            os.close(perf_syscalls.perf_event_open(attr.pack(), thread, cpu))
        except ProcessLookupError:
            continue
        except OSError as error:
            if not perf_syscalls.is_refusal(error):
                raise
            raise CaptureError(
                f"{name} is not yours to profile: run as its owner, as root, or with"
                f" CAP_PERFMON ({option})"
            ) from error
        return
    raise CaptureError(f"{name} has just ended ({option})")
