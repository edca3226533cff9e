"""Which waits are idle, by their system calls, their threads and what they were in."""

from __future__ import annotations

import numpy as np
import pytest

from prospect.figures.report.waiting import is_idle, waits_for_condition

CALLS = ["wait4", "read", "epoll_wait", "poll", "futex", "clock_nanosleep", ""]


def idle(call, tid=1, *, others=(), on_condition=False):
    """Tell of one wait, beside `others`: (call, thread)."""
    calls = np.array([CALLS.index(call), *(CALLS.index(one) for one, _ in others)])
    tids = np.array([tid, *(one for _, one in others)], np.int32)
    condition = np.zeros(len(calls), np.bool_)
    condition[0] = on_condition
    return bool(is_idle(CALLS, calls, tids, condition)[0])


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("wait4", True),
        ("read", False),
        ("epoll_wait", True),
        ("poll", True),
        ("clock_nanosleep", True),
        ("", False),
    ],
)
def test_loops_and_sleeps_are_idle(call, expected):
    assert idle(call) is expected


def test_a_poll_beside_a_loop_is_for_an_answer():
    assert idle("poll", others=[("epoll_wait", 1)]) is False
    assert idle("poll", others=[("epoll_wait", 2)]) is True


def test_a_futex_is_idle_below_a_condition_only():
    assert idle("futex") is False
    assert idle("futex", on_condition=True) is True
    assert idle("read", on_condition=True) is False


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        (["__futex_abstimed_wait_common", "pthread_cond_wait@@GLIBC_2.3.2", "next_job"], True),
        (["__futex_abstimed_wait_common", "__new_sem_wait_slow64.constprop.0"], True),
        (["__GI___lll_lock_wait", "pthread_mutex_lock@@GLIBC_2.2.5"], False),
        (["__lll_lock_wait", "__pthread_mutex_cond_lock", "pthread_cond_timedwait"], False),
        (["__futex_abstimed_wait_common", "pthread_cond_timedwait", "take_gil"], False),
        (["__futex_abstimed_wait_common", "x->y [fn 1 of 2]", "PyEval_RestoreThread"], False),
        (["syscall", "std::__atomic_futex_unsigned_base"], False),
        ([], False),
    ],
)
def test_conditions_are_known_by_the_functions_that_wait(frames, expected):
    assert waits_for_condition(iter(frames)) is expected
