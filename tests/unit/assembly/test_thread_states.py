"""Marks of threads become lives without gaps, whatever is missing of the marks."""

from __future__ import annotations

import numpy as np
import pytest

from prospect.assembly.threads.thread_states import (
    BLOCKED,
    CPU,
    MARK_BEGIN,
    MARK_EXIT,
    MARK_FORK,
    MARK_IN,
    MARK_OUT,
    MARK_OUT_READY,
    MARK_SAMPLE,
    MARK_WAKE,
    RUNNABLE,
    UNKNOWN,
    Marks,
    thread_states,
)

BEGIN, END = 100, 1000


def found(*rows):
    """Follow (tid, time, kind[, sample]) marks; pids are tids."""
    rows = [(*row, -1)[:4] for row in rows]
    tid, time, kind, sample = (list(column) for column in zip(*rows, strict=True))
    marks = Marks(
        tid=np.array(tid, np.int32),
        pid=np.array(tid, np.int32),
        time_ns=np.array(time, np.uint64),
        kind=np.array(kind, np.uint8),
        sample=np.array(sample, np.int32),
    )
    return thread_states([marks], BEGIN, END)


def intervals(result):
    columns = (result.tid[result.life], result.state, result.start_ns, result.length_ns)
    return list(zip(*(c.tolist() for c in (*columns, result.sample)), strict=True))


def test_a_thread_runs_waits_is_woken_and_preempted():
    result = found(
        (7, 200, MARK_FORK),
        (7, 210, MARK_IN),
        (7, 250, MARK_SAMPLE, 3),
        (7, 251, MARK_OUT),
        (7, 400, MARK_WAKE),
        (7, 420, MARK_IN),
        (7, 480, MARK_SAMPLE, 5),
        (7, 500, MARK_OUT_READY),
        (7, 600, MARK_IN),
        (7, 700, MARK_EXIT),
        (7, 710, MARK_SAMPLE, 6),
        (7, 711, MARK_OUT),
    )
    assert intervals(result) == [
        (7, RUNNABLE, 200, 10, -1),
        (7, CPU, 210, 41, -1),
        (7, BLOCKED, 251, 149, 3),
        (7, RUNNABLE, 400, 20, 3),
        (7, CPU, 420, 80, -1),
        (7, RUNNABLE, 500, 100, 5),
        (7, CPU, 600, 100, -1),
    ]
    assert (result.begin_ns.tolist(), result.end_ns.tolist()) == ([200], [700])


@pytest.mark.parametrize(
    ("first", "state"),
    [
        (MARK_OUT, CPU),
        (MARK_OUT_READY, CPU),
        (MARK_EXIT, CPU),
        (MARK_IN, BLOCKED),
        (MARK_WAKE, BLOCKED),
    ],
)
def test_who_was_there_before_is_known_by_what_comes_next(first, state):
    assert intervals(found((7, 300, first)))[0] == (7, state, BEGIN, 200, -1)


def test_who_is_never_told_of_waited_all_the_time():
    assert intervals(found((7, BEGIN, MARK_BEGIN), (7, BEGIN, MARK_BEGIN))) == [
        (7, BLOCKED, BEGIN, END - BEGIN, -1)
    ]


def test_a_snapshot_that_saw_a_thread_born_later_says_nothing():
    result = found((7, BEGIN, MARK_BEGIN), (7, 400, MARK_FORK), (7, 500, MARK_IN))
    assert result.begin_ns.tolist() == [400]


def test_a_wait_lasts_to_the_end_of_the_recording():
    result = found((7, 300, MARK_SAMPLE, 2), (7, 300, MARK_OUT))
    assert intervals(result)[-1] == (7, BLOCKED, 300, END - 300, 2)


def test_time_between_contradicting_records_is_unknown():
    result = found((7, 200, MARK_IN), (7, 300, MARK_IN), (7, 400, MARK_OUT), (7, 500, MARK_OUT))
    assert [row[1:4] for row in intervals(result)] == [
        (BLOCKED, BEGIN, 100),
        (UNKNOWN, 200, 100),
        (CPU, 300, 100),
        (UNKNOWN, 400, 100),
        (BLOCKED, 500, 500),
    ]


def test_a_wake_up_counts_once_and_only_of_a_thread_that_waits():
    result = found(
        (7, 200, MARK_IN),
        (7, 220, MARK_WAKE),
        (7, 300, MARK_OUT),
        (7, 310, MARK_WAKE),
        (7, 320, MARK_WAKE),
        (7, 400, MARK_IN),
    )
    assert [row[1:4] for row in intervals(result)][1:4] == [
        (CPU, 200, 100),
        (BLOCKED, 300, 10),
        (RUNNABLE, 310, 90),
    ]


def test_a_number_that_is_given_again_is_another_thread():
    result = found(
        (7, 200, MARK_FORK),
        (7, 300, MARK_EXIT),
        (7, 301, MARK_OUT),
        (7, 500, MARK_FORK),
        (7, 600, MARK_IN),
        (7, 700, MARK_FORK),  # the record of the death before it is missing
    )
    assert list(zip(result.begin_ns.tolist(), result.end_ns.tolist(), strict=True)) == [
        (200, 300),
        (500, 700),
        (700, END),
    ]


def test_a_sample_of_another_switch_is_not_taken_for_this_one():
    result = found(
        (7, 200, MARK_SAMPLE, 1),
        (7, 210, MARK_IN),  # the record of the switch that the sample was of is missing
        (7, 300, MARK_OUT),
        (8, 300, MARK_SAMPLE, 2),
        (9, 300, MARK_OUT),
    )
    assert all(row[4] == -1 for row in intervals(result))


def test_no_marks_are_no_lives():
    dtypes = (np.int32, np.int32, np.uint64, np.uint8, np.int32)
    empty = thread_states([Marks(*(np.empty(0, dtype) for dtype in dtypes))], BEGIN, END)
    assert (len(empty.tid), len(empty.life)) == (0, 0)


def test_any_marks_make_lives_without_gaps():
    draw = np.random.default_rng(20260101)
    for _ in range(200):
        count = int(draw.integers(1, 60))
        columns = (
            draw.integers(1, 5, count),
            draw.integers(BEGIN, END + 1, count),
            draw.integers(MARK_BEGIN, MARK_EXIT + 1, count),
        )
        result = found(*zip(*(column.tolist() for column in columns), strict=True))
        assert (result.length_ns >= 0).all()
        assert (result.state <= UNKNOWN).all()
        for life in range(len(result.tid)):
            of_life = result.life == life
            begin, length = result.start_ns[of_life], result.length_ns[of_life].view(np.uint64)
            assert int(length.sum()) == int(result.end_ns[life] - result.begin_ns[life])
            assert (begin[:1] == result.begin_ns[life]).all()
            assert (begin[1:] == (begin + length)[:-1]).all()
