"""Which waits are idle: for work that has not come yet, and not within work.

Comes in: of each wait its system call, its thread, and the functions of the program that waited.
Goes out: whether it is idle. A rule of thumb, as nothing separates the two for sure: what a
thread's own loop waits with (docs/waiting.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

LOOPS = frozenset(
    (
        *("accept", "accept4", "epoll_wait", "epoll_pwait", "epoll_pwait2"),
        *("io_getevents", "io_pgetevents", "io_uring_enter"),
    )
)
# Of a thread with a loop of its own, these are for an answer; else they are the loop.
POLLS = frozenset(["poll", "ppoll", "select", "pselect6", "_newselect"])
SLEEPS = frozenset(["nanosleep", "clock_nanosleep", "pause", "rt_sigtimedwait", "rt_sigsuspend"])
# A child's end: what it did meanwhile is the child's own time.
CHILDREN = frozenset(["wait4", "waitid"])
LOCKS = "futex"
# glibc waits for condition variables and semaphores, and for the end of threads, in the first; for
# a mutex elsewhere. CPython's global lock is made of a condition variable.
_CONDITIONS = ("__futex_abstimed_wait", "cond_wait", "cond_timedwait", "cond_clockwait", "sem_wait")
_MUTEXES = (
    *("mutex_lock", "mutex_cond_lock", "lll_lock_wait", "rwlock"),
    *("take_gil", "PyEval_RestoreThread", "PyEval_AcquireThread"),
)


def is_idle(
    calls: Sequence[str],
    call: NDArray[np.int64],
    tid: NDArray[np.int32],
    on_condition: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Return which waits are idle, bool[n].

    Args:
        calls: names of system calls, "" for what is none.
        call: i64[n] row of `calls`.
        tid: i32[n] the thread.
        on_condition: bool[n] whether it waits for a condition, see `waits_for_condition`.
    """

    def among(names: Iterable[str]) -> NDArray[np.bool_]:
        return np.array([one in names for one in calls], np.bool_).take(call)

    has_loop = np.isin(tid, tid[among(LOOPS)])
    idle = among(LOOPS | SLEEPS | CHILDREN) | (among(POLLS) & ~has_loop)
    found: NDArray[np.bool_] = idle | (among((LOCKS,)) & on_condition)
    return found


def waits_for_condition(frames: Iterable[str]) -> bool:
    """Guess from a program's functions whether a futex is a condition variable or a semaphore."""
    frames = list(frames)
    return any(name in frame for frame in frames for name in _CONDITIONS) and not any(
        name in frame for frame in frames for name in _MUTEXES
    )
