"""What threads did that had a lock: by who ended each wait, its samples and its own waits."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from prospect.figures.report.idle_waits import GLOBAL_LOCK, MUTEX
from prospect.figures.report.waiting import (
    LockHolder,
    LockWaits,
    ThreadMoments,
    lock_holders,
    own_functions,
)
from prospect.figures.stacks.frames import NamedForest

NAMES = {GLOBAL_LOCK: "the lock", MUTEX: "a mutex"}
MS = 1_000_000
# Rows of stacks: main, main > get, main > get > expensive, main > get > libc's memcpy.
FRAMES = np.array([0, 1, 2, 3])
CALLERS = np.array([-1, 0, 1, 1])
LABELS = ["main", "get", "expensive", "memcpy"]
FUNCTIONS = (np.array([0, 1, 2, 1]), np.array([-1, 0, 1, 0]))


def held(waits, moments):
    """Return the holders of waits (lock, tid, holder, begin, end) and (tid, begin, end, row, s)."""
    lock, tid, holder, begin, end = (np.array(column) for column in zip(*waits, strict=True))
    who, since, until, row, worth = (np.array(column) for column in zip(*moments, strict=True))
    return lock_holders(
        LockWaits(lock.astype(np.int8), tid, holder, begin * MS, end * MS),
        ThreadMoments(who, since * MS, until * MS, row, worth.astype(float)),
        NAMES,
        FUNCTIONS,
        LABELS,
    )


def test_samples_of_who_ended_a_wait_count_while_others_waited():
    samples = [(2, at, at, 2, 0.005) for at in (5, 10, 15, 50)]
    (one,) = held([(MUTEX, 1, 2, 0, 20), (MUTEX, 3, 2, 8, 20)], samples)
    # One waited at 5, two at 10 and at 15, nobody at 50.
    assert one == LockHolder("a mutex", "expensive", "get", pytest.approx(5 * 0.005))


def test_waits_of_the_holder_count_for_as_long_as_others_waited():
    (one,) = held([(MUTEX, 1, 2, 10, 40)], [(2, 0, 30, 1, np.nan), (4, 0, 30, 1, np.nan)])
    assert one == LockHolder("a mutex", "get", "main", pytest.approx(0.020))


def test_a_thread_has_a_lock_only_once_it_got_it():
    waits = [(MUTEX, 1, 2, 0, 40), (MUTEX, 2, 3, 0, 30)]
    (one,) = held(waits, [(2, 0, 40, 2, np.nan)])
    assert one.seconds == pytest.approx(0.010)


def test_a_time_out_is_charged_to_who_ends_the_wait_after_it():
    waits = [(GLOBAL_LOCK, 1, 0, 0, 5), (GLOBAL_LOCK, 1, 0, 5, 10), (GLOBAL_LOCK, 1, 2, 10, 12)]
    (one,) = held(waits, [(2, 0, 100, 2, np.nan)])
    assert one == LockHolder("the lock", "expensive", "get", pytest.approx(0.012))
    assert held([(GLOBAL_LOCK, 1, 0, 0, 5)], [(2, 0, 100, 2, np.nan)]) == ()


def test_a_function_of_the_c_library_is_not_what_a_lock_was_wanted_for():
    forest = NamedForest(CALLERS, FRAMES, np.array([0, 1, 2, 2]), np.arange(4))
    paths = ["/usr/bin/work", "/usr/lib/x86_64-linux-gnu/libc.so.6"]
    profile = SimpleNamespace(objects=SimpleNamespace(path=paths))
    frames = SimpleNamespace(object_index=np.array([0, 0, 0, 1]))
    frame, caller = own_functions(profile, frames, forest, np.arange(4))
    assert (frame.tolist(), caller.tolist()) == (FUNCTIONS[0].tolist(), FUNCTIONS[1].tolist())
    frame, _ = own_functions(profile, frames, forest, np.array([-1, 1, 2, 3]))
    assert frame[0] == -1
