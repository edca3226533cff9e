"""A wait for a lock that its own timer ends is a wait for the thread that had the lock."""

import pytest

from builders.scheduler import Timeline
from prospect.wall.path import BLOCKED, RUNNING, WAITING, critical_path
from prospect.wall.schedule_records import BY_INTERRUPT, Command

PROCESS, OTHER_PROCESS = 10, 40
MAIN, HOLDER, OTHER = 10, 11, 40
US = 1000
MS = 1000 * US
END = 20 * MS


def turn(timeline, *, blocks=5_020 * US, until=10 * MS, holder_begins=3 * US, pid=PROCESS):
    """Let the main thread wait for 5 ms while another one runs, and then run itself."""
    timeline.within(PROCESS, MAIN).within(pid, HOLDER)
    timeline.born(US, HOLDER, MAIN).ran(HOLDER, US, 2 * US, cpu=1)
    timeline.woke(holder_begins, HOLDER, OTHER).ran(HOLDER, holder_begins, blocks, cpu=1)
    timeline.ran(MAIN, 0, 10 * US).woke(5 * MS, MAIN, BY_INTERRUPT)
    return timeline.ran(MAIN, 5_010 * US, until)


def path_of(timeline, end=10 * MS):
    found = critical_path(timeline.records(), Command(MAIN, 0, end, MAIN))
    assert (found.start_ns[1:] == found.end_ns[:-1]).all()
    columns = found.start_ns, found.end_ns, found.tid, found.kind
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_the_path_goes_on_with_the_holder_that_lets_go_after_the_timer():
    assert path_of(turn(Timeline(end_ns=END))) == [
        (0, US, MAIN, RUNNING),
        (US, 2 * US, HOLDER, RUNNING),
        (2 * US, 3 * US, HOLDER, BLOCKED),
        (3 * US, 5 * MS, HOLDER, RUNNING),
        (5 * MS, 5_010 * US, MAIN, WAITING),
        (5_010 * US, 10 * MS, MAIN, RUNNING),
    ]


def test_a_turn_each_is_a_path_without_blocked_time():
    timeline = Timeline(end_ns=END + MS).within(PROCESS, MAIN, HOLDER).born(US, HOLDER, MAIN)
    timeline.ran(HOLDER, 2 * US, 12 * US, cpu=1)
    begin = 0
    for number in range(4):
        tid, waits = (MAIN, HOLDER) if number % 2 == 0 else (HOLDER, MAIN)
        timer = 5 * MS * (number + 1)
        timeline.ran(tid, begin, timer + 30 * US, cpu=number % 2).woke(timer, waits, BY_INTERRUPT)
        begin = timer + 15 * US
    timeline.ran(MAIN, begin, END + MS)
    found = path_of(timeline, END + MS)
    assert {kind for _, _, _, kind in found} == {RUNNING, WAITING}
    ran = [
        sum(end - start for start, end, tid, kind in found if tid == one and kind == RUNNING)
        for one in (MAIN, HOLDER)
    ]
    assert ran == pytest.approx([11 * MS, 10 * MS], abs=100 * US)


def test_time_outs_before_the_holder_lets_go_are_one_wait():
    timeline = Timeline(end_ns=END).within(PROCESS, MAIN, HOLDER).born(US, HOLDER, MAIN)
    timeline.ran(HOLDER, 2 * US, 15_030 * US, cpu=1).ran(MAIN, 0, 10 * US)
    for at in (5 * MS, 10 * MS):
        timeline.woke(at, MAIN, BY_INTERRUPT).ran(MAIN, at + 10 * US, at + 20 * US)
    timeline.woke(15 * MS, MAIN, BY_INTERRUPT).ran(MAIN, 15_010 * US, END)
    assert [row[2:] for row in path_of(timeline, END)][2:] == [
        (HOLDER, RUNNING),
        (MAIN, WAITING),
        (MAIN, RUNNING),
    ]


def test_a_holder_that_was_preempted_held_the_lock_meanwhile():
    timeline = Timeline(end_ns=END).within(PROCESS, MAIN, HOLDER).born(US, HOLDER, MAIN)
    timeline.ran(HOLDER, 2 * US, 2 * MS, cpu=1, preempted=True).ran(OTHER, 2 * MS, 3 * MS, cpu=1)
    timeline.ran(HOLDER, 3 * MS, 5_020 * US, cpu=1).ran(MAIN, 0, 10 * US)
    timeline.woke(5 * MS, MAIN, BY_INTERRUPT).ran(MAIN, 5_010 * US, 10 * MS)
    assert [row[2:] for row in path_of(timeline)][2:] == [
        (HOLDER, RUNNING),
        (HOLDER, WAITING),
        (HOLDER, RUNNING),
        (MAIN, WAITING),
        (MAIN, RUNNING),
    ]


def test_both_may_lose_their_cpus_in_between():
    timeline = Timeline(end_ns=END).within(PROCESS, MAIN, HOLDER).born(US, HOLDER, MAIN)
    timeline.ran(HOLDER, 2 * US, 4 * MS, cpu=1, preempted=True).ran(MAIN, 0, 10 * US)
    timeline.woke(5 * MS, MAIN, BY_INTERRUPT).ran(MAIN, 5_010 * US, 5_020 * US, preempted=True)
    timeline.ran(HOLDER, 8 * MS, 8_020 * US, cpu=1).ran(MAIN, 10 * MS, 15 * MS)
    assert path_of(timeline, 15 * MS)[2:] == [
        (2 * US, 4 * MS, HOLDER, RUNNING),
        (4 * MS, 5_010 * US, MAIN, WAITING),
        (5_010 * US, 5_020 * US, MAIN, RUNNING),
        (5_020 * US, 10 * MS, MAIN, WAITING),
        (10 * MS, 15 * MS, MAIN, RUNNING),
    ]


@pytest.mark.parametrize(
    "differs",
    [
        {"blocks": 5_900 * US},  # it goes on for long
        {"blocks": 4_990 * US},  # it had let go before
        {"until": 5_015 * US},  # the waiter sleeps again
        {"holder_begins": 300 * US},  # it had not run when the wait began
        {"pid": OTHER_PROCESS},
    ],
)
def test_other_waits_that_time_out_are_blocked(differs):
    timeline = turn(Timeline(end_ns=END), **differs)
    if "until" in differs:
        timeline.woke(9 * MS, MAIN, BY_INTERRUPT).ran(MAIN, 9 * MS, 10 * MS)
    found = path_of(timeline)
    assert {row[2] for row in found} == {MAIN}
    assert (10 * US, 5 * MS, MAIN, BLOCKED) in found


def test_a_short_sleep_is_no_wait_for_a_lock():
    timeline = Timeline(end_ns=END).within(PROCESS, MAIN, HOLDER).born(US, HOLDER, MAIN)
    timeline.ran(HOLDER, 2 * US, 320 * US, cpu=1).ran(MAIN, 0, 10 * US)
    timeline.woke(300 * US, MAIN, BY_INTERRUPT).ran(MAIN, 310 * US, MS)
    assert {row[2] for row in path_of(timeline, MS)} == {MAIN}
