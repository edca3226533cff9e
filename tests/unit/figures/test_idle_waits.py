"""Which waits are idle, by their system calls, and by where in its thread's stacks each one is."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from prospect.figures.report import idle_waits as rule
from prospect.figures.report.idle_waits import (
    CHILD,
    CONDITION,
    GLOBAL_LOCK,
    MUTEX,
    READ,
    SCHEDULER,
    WORK,
    ThreadStacks,
    ThreadWaits,
    from_outermost_python,
    is_idle_call,
    is_python_frame,
    user_stacks,
    wait_kinds,
)
from prospect.figures.stacks.frames import NamedForest
from prospect.profile.model import CUT_OBJECT, KIND_ELF, KIND_KERNEL, KIND_PYTHON

KINDS = {"k": KIND_KERNEL, "py": KIND_PYTHON}


class Stacks:
    """Stacks by name, outermost first: "k:" is of the kernel, "py:" a Python function."""

    def __init__(self, stacks):
        names, rows, self.leaf = {}, {}, []
        for stack in stacks:
            row = -1
            for name in stack.split():
                frame = names.setdefault(name, len(names))
                row = rows.setdefault((row, frame), len(rows))
            self.leaf.append(row)
        callers = [caller for caller, _ in rows]
        depth = []
        for caller in callers:
            depth.append(0 if caller < 0 else depth[caller] + 1)
        self.labels = [name.removeprefix("k:").removeprefix("py:") for name in names]
        kinds = [KINDS.get(name.partition(":")[0], KIND_ELF) for name in names]
        paths = [CUT_OBJECT if name == CUT_OBJECT else "" for name in names]
        self.profile = SimpleNamespace(objects=SimpleNamespace(kind=np.array(kinds), path=paths))
        self.frames = SimpleNamespace(object_index=np.arange(len(names)))
        whole = NamedForest(
            np.array(callers), np.array([f for _, f in rows]), np.array(depth), np.arange(len(rows))
        )
        self.forest = from_outermost_python(whole, is_python_frame(self.profile, self.frames))
        self.row = self.forest.row_of_stack.take(self.leaf)
        self.facts = user_stacks(self.profile, self.frames, self.labels, self.forest)


def kinds(waits):
    """Return the kind of each (call, stack)."""
    stacks = Stacks([stack for _, stack in waits])
    calls = [call for call, _ in waits]
    return wait_kinds(calls, np.arange(len(calls)), stacks.row, stacks.facts).tolist()


def idle(waits, work=(), tids=None):
    """Return which waits are idle of (call, stack), a thread's, which worked in other stacks."""
    work = [stack for stack, count in work for _ in range(count)]
    stacks = Stacks([*(stack for _, stack in waits), *work])
    names = sorted({call for call, _ in waits})
    entry_reason = np.array([names.index(call) for call, _ in waits])
    row = stacks.row[: len(waits)]
    tid = np.array(tids or [7] * len(waits), np.int32)
    found = ThreadWaits(
        wait_kinds(names, entry_reason, row, stacks.facts),
        entry_reason,
        tid,
        row,
        np.full(len(waits), 10**6),
    )
    others = ThreadStacks(np.full(len(work), 7, np.int32), stacks.row[len(waits) :])
    return rule.idle_waits(found, stacks.facts, stacks.forest, others).tolist()


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("wait4", True),
        ("read", False),
        ("epoll_wait", True),
        ("poll", True),
        ("clock_nanosleep", True),
        ("futex", False),
        ("", False),
    ],
)
def test_loops_and_sleeps_are_idle(call, expected):
    assert is_idle_call(call, has_loop=False) is expected
    assert idle([(call, "k:wait")]) == [expected]
    assert idle([(call, "main k:wait")]) == [expected]


@pytest.mark.parametrize("stack", ["k:wait", "main loop poll k:wait"])
def test_a_poll_next_to_an_event_loop_is_for_an_answer(stack):
    waits = [("poll", stack), ("epoll_wait", "main loop epoll_wait k:wait")]
    assert idle(waits) == [False, True]
    assert idle(waits, tids=[7, 8]) == [True, True]
    assert is_idle_call("poll", has_loop=True) is False


@pytest.mark.parametrize(
    ("stack", "kind"),
    [
        ("job next_job pthread_cond_wait@@GLIBC_2.3.2 __futex_abstimed_wait_common", CONDITION),
        ("__new_sem_wait_slow64.constprop.0 __futex_abstimed_wait_common", CONDITION),
        ("std::sys::sync::condvar::futex::Condvar::wait syscall", CONDITION),
        ("pthread_mutex_lock@@GLIBC_2.2.5 __GI___lll_lock_wait", MUTEX),
        ("pthread_cond_timedwait __pthread_mutex_cond_lock __lll_lock_wait", MUTEX),
        ("work std::sys::sync::mutex::futex::Mutex::lock_contended syscall", MUTEX),
        ("ObjectMonitor::enter os::park pthread_cond_wait", MUTEX),
        ("runtime.lock2 runtime.futexsleep", MUTEX),
        ("take_gil pthread_cond_timedwait __futex_abstimed_wait_common", GLOBAL_LOCK),
        ("PyEval_RestoreThread x->y pthread_cond_timedwait", GLOBAL_LOCK),
        ("py:crunch pthread_cond_timedwait __futex_abstimed_wait_common", GLOBAL_LOCK),
        ("py:wait libpq pthread_cond_clockwait", GLOBAL_LOCK),
        ("py:run a b c d pthread_cond_timedwait", CONDITION),
        ("py:get __new_sem_wait_slow64", CONDITION),
        ("main std::thread::join __pthread_clockjoin_ex __futex_abstimed_wait_common", CHILD),
        ("py:Thread.join sem_wait __futex_abstimed_wait_common", CHILD),
        ("runtime.mcall runtime.findRunnable runtime.stopm runtime.futexsleep", SCHEDULER),
        ("std::__atomic_futex_unsigned_base syscall", WORK),
        ("k:futex_wait", WORK),
    ],
)
def test_locks_and_conditions_are_known_by_the_functions_that_wait(stack, kind):
    assert kinds([("futex", f"{stack} k:do_futex")]) == [kind]
    assert kinds([("mmap", stack)]) == [WORK]


def test_a_read_of_a_pipe_is_another_than_that_of_a_file():
    found = kinds([("read", "main k:anon_pipe_read"), ("read", "main k:filemap_read")])
    assert found == [READ, WORK]


SELECT = ("pselect6", "<module> run accept_loop wait select k:wait")
QUERY = ("poll", "<module> run accept_loop handle respond view execute query wait poll k:wait")
HANDLER = [
    ("<module> run accept_loop handle respond view render", 6),
    ("<module> run accept_loop handle respond view execute make", 4),
    ("<module> run accept_loop handle parse", 4),
]


def test_a_wait_deeper_than_the_idle_place_is_within_work():
    assert idle([SELECT, QUERY]) == [True, False]
    assert idle([SELECT, QUERY], HANDLER) == [True, False]


def test_a_server_that_never_waits_for_a_request_waits_within_work():
    deep = "<module> run accept_loop handle respond view execute a b c d e f poll k:wait"
    assert idle([("poll", deep)], HANDLER) == [False]
    # Without any other stacks nothing is known but the call.
    assert idle([("poll", deep)]) == [True]


def test_a_lock_taken_by_a_task_is_work_and_its_queue_idle():
    queue = ("futex", "start worker get sem_wait k:wait")
    lock = ("futex", "start worker run task sem_wait k:wait")
    work = [("start worker run task spin", 30), ("start worker get pop", 2)]
    assert idle([queue, lock], work) == [True, False]


def test_a_queue_is_idle_though_the_way_to_it_costs_something():
    queue = ("futex", "start worker get pop acquire sem_wait k:wait")
    assert idle([queue], [("start worker run", 10), ("start worker get pop", 5)]) == [True]


def test_an_event_loop_has_one_idle_place():
    loop = ("epoll_wait", "main run_forever run_once select epoll_wait k:wait")
    callback = "main run_forever run_once run callback connect"
    waits = [loop, ("poll", f"{callback} poll k:wait"), ("futex", f"{callback} sem_wait k:wait")]
    waits += [("clock_nanosleep", f"{callback} sleep nap clock_nanosleep k:wait")]
    waits += [("epoll_wait", f"{callback} wait_latch epoll_wait k:wait")]
    assert idle(waits, [(f"{callback} send", 30)]) == [True, False, False, False, False]


def test_threads_of_an_event_loop_that_park_elsewhere_are_idle():
    driver = ("epoll_wait", "start worker park park_driver epoll_wait k:wait")
    parked = ("futex", "start worker park park_condvar Condvar::wait syscall k:wait")
    assert idle([driver, parked]) == [True, True]


def test_a_worker_that_reads_its_tasks_is_idle_between_them():
    task = ("read", "<module> worker get recv read k:anon_pipe_read")
    query = ("poll", "<module> worker run task execute query wait poll k:wait")
    work = [("<module> worker run task spin", 20)]
    assert idle([task, query], work) == [True, False]
    # A filter in a pipeline waits for its input within work.
    assert idle([("read", "main read_line read k:anon_pipe_read")], work) == [False]


def test_schedulers_of_runtimes_and_the_end_of_threads_are_idle():
    waits = [
        ("futex", "main a b c d e f runtime.mcall runtime.stopm futex k:wait"),
        ("futex", "main a b c d e f g std::thread::join pthread_clockjoin k:wait"),
        ("poll", "main poll k:wait"),
    ]
    assert idle(waits) == [True, True, True]


def test_what_called_python_does_not_make_a_stack_deeper():
    queue = ("futex", "clone3 start_thread py:run py:worker py:get sem_wait k:wait")
    query = ("poll", "py:run py:worker py:task py:execute py:query libpq poll k:wait")
    assert idle([queue, query]) == [True, False]
    stacks = Stacks([queue[1], query[1]])
    first, second = (stacks.facts.depth[row] for row in stacks.row)
    assert (first, second) == (4, 7)


def test_a_cut_stack_is_what_the_same_call_of_its_thread_mostly_is():
    cut = [("poll", "[cut] eval libpq poll k:wait"), ("pselect6", "[cut] eval select k:wait")]
    assert idle([SELECT, QUERY, *cut]) == [True, False, False, True]
    assert idle(cut) == [True, True]


def test_a_lock_is_never_idle():
    waits = [("futex", "main pthread_mutex_lock k:wait"), ("futex", "py:f take_gil k:wait")]
    assert idle(waits) == [False, False]


def test_a_place_that_a_thread_rarely_waits_in_is_not_its_idle_place():
    usual = [("pselect6", "main serve select")] * 100
    assert idle([*usual, ("poll", "main poll")]) == [True] * 101
    work = [("main serve handle view", 50)]
    rare = idle(
        [*usual, ("poll", "main poll"), *[("poll", "main serve handle ask poll")] * 100], work
    )
    assert rare[:100] == [True] * 100
    assert rare[101:] == [False] * 100


def test_a_single_wait_in_accept_is_no_event_loop():
    select, accept = ("pselect6", "main run select"), ("accept4", "main run accept accept4")
    found = idle([*[select] * 100, accept, *[("poll", "main run accept a b c d e poll")] * 100])
    assert found == [True] * 101 + [False] * 100
