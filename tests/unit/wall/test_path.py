"""The critical path of timelines with a known answer."""

import numpy as np
import pytest

from builders.scheduler import Timeline
from prospect.wall import path as wall
from prospect.wall.path import critical_path
from prospect.wall.schedule_records import BY_INTERRUPT, NOT_RECORDED, Command

RAN, WAITED, BLOCKED, UNKNOWN = wall.RUNNING, wall.WAITING, wall.BLOCKED, wall.NOT_KNOWN
MAIN, CHILD, OTHER, THIRD = 10, 11, 50, 12


def path_of(timeline, start=0, end=1000, last=MAIN, **asked):
    found = critical_path(timeline.records(), Command(MAIN, start, end, last, **asked))
    assert found.start_ns[0] == start
    assert found.end_ns[-1] == end
    assert (found.start_ns[1:] == found.end_ns[:-1]).all()
    return found


def rows(timeline, **asked):
    found = path_of(timeline, **asked)
    columns = found.start_ns, found.end_ns, found.tid, found.kind
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_a_command_that_only_runs():
    assert rows(Timeline().ran(MAIN, 0, 1000)) == [(0, 1000, MAIN, RAN)]


def test_a_preempted_thread_waits_for_a_cpu():
    timeline = Timeline().ran(MAIN, 0, 300, preempted=True).ran(OTHER, 300, 700)
    timeline.ran(MAIN, 700, 1000)
    assert rows(timeline) == [
        (0, 300, MAIN, RAN),
        (300, 700, MAIN, WAITED),
        (700, 1000, MAIN, RAN),
    ]


def test_a_sleep_is_blocked_until_the_interrupt_and_waits_for_a_cpu_then():
    timeline = Timeline().ran(MAIN, 0, 200).woke(600, MAIN).ran(OTHER, 200, 650)
    timeline.ran(MAIN, 650, 1000)
    found = path_of(timeline)
    assert found.kind.tolist() == [RAN, BLOCKED, WAITED, RAN]
    assert found.end_ns.tolist() == [200, 600, 650, 1000]
    assert found.ended_by.tolist() == [NOT_RECORDED, BY_INTERRUPT, NOT_RECORDED, NOT_RECORDED]


def test_a_wait_without_a_wake_up_on_record_is_blocked_until_the_thread_runs():
    timeline = Timeline().ran(MAIN, 0, 200).ran(MAIN, 650, 1000)
    found = path_of(timeline)
    assert found.kind.tolist() == [RAN, BLOCKED, RAN]
    assert found.ended_by[1] == NOT_RECORDED


def test_a_wake_up_just_before_the_switch_is_recorded_ends_that_wait():
    timeline = Timeline(end_ns=10**6).ran(MAIN, 0, 500_000).woke(490_000, MAIN)
    timeline.ran(MAIN, 500_100, 10**6)
    found = path_of(timeline, end=10**6)
    assert found.kind.tolist() == [RAN, WAITED, RAN]


def test_only_the_first_wake_up_ends_a_wait():
    timeline = Timeline().ran(MAIN, 0, 200).woke(300, MAIN).woke(400, MAIN, OTHER)
    timeline.ran(OTHER, 350, 450, cpu=1).ran(MAIN, 500, 1000)
    assert rows(timeline)[1:3] == [(200, 300, MAIN, BLOCKED), (300, 500, MAIN, WAITED)]


def test_the_path_goes_on_with_the_thread_that_woke_and_back_through_its_birth():
    timeline = Timeline().ran(MAIN, 0, 200).born(150, CHILD, MAIN)
    timeline.ran(CHILD, 180, 700, cpu=1).woke(690, MAIN, CHILD).ran(MAIN, 720, 1000)
    assert rows(timeline) == [
        (0, 150, MAIN, RAN),
        (150, 180, CHILD, WAITED),
        (180, 690, CHILD, RAN),
        (690, 720, MAIN, WAITED),
        (720, 1000, MAIN, RAN),
    ]


def test_a_child_that_nobody_waited_for_is_not_on_the_path():
    timeline = Timeline().ran(MAIN, 0, 1000).born(150, CHILD, MAIN).ran(CHILD, 180, 900, cpu=1)
    assert rows(timeline) == [(0, 1000, MAIN, RAN)]


def test_a_program_that_is_not_the_commands_ends_the_wait_and_is_not_followed():
    timeline = Timeline().ran(MAIN, 0, 200).ran(OTHER, 100, 700, cpu=1).woke(600, MAIN, OTHER)
    timeline.ran(MAIN, 600, 1000)
    found = path_of(timeline)
    assert found.tid.tolist() == [MAIN, MAIN, MAIN]
    assert found.kind.tolist() == [RAN, BLOCKED, RAN]
    assert found.ended_by[1] == OTHER
    everybody = path_of(timeline, everybody=True)
    assert everybody.tid.tolist() == [OTHER, OTHER, MAIN]
    assert everybody.kind.tolist() == [BLOCKED, RAN, RAN]


def test_a_thread_that_dies_after_its_wake_up_of_the_last_one_is_followed():
    timeline = Timeline().ran(MAIN, 0, 200).born(100, CHILD, MAIN).ran(CHILD, 250, 1000)
    assert rows(timeline, last=CHILD) == [
        (0, 100, MAIN, RAN),
        (100, 250, CHILD, WAITED),
        (250, 1000, CHILD, RAN),
    ]


def test_grandchildren_belong_to_the_command():
    timeline = Timeline().ran(MAIN, 0, 100).born(50, CHILD, MAIN).ran(CHILD, 100, 200)
    timeline.born(150, THIRD, CHILD).ran(THIRD, 200, 900).woke(890, MAIN, THIRD)
    timeline.ran(MAIN, 900, 1000)
    assert rows(timeline) == [
        (0, 50, MAIN, RAN),
        (50, 100, CHILD, WAITED),
        (100, 150, CHILD, RAN),
        (150, 200, THIRD, WAITED),
        (200, 890, THIRD, RAN),
        (890, 900, MAIN, WAITED),
        (900, 1000, MAIN, RAN),
    ]


def test_a_number_that_was_given_again_is_another_thread():
    timeline = Timeline().ran(MAIN, 0, 300).born(100, CHILD, MAIN).ran(CHILD, 100, 150, cpu=1)
    # Somebody else's child gets the number of the first one, and is not the command's.
    timeline.born(400, CHILD, OTHER).ran(OTHER, 350, 500, cpu=1).ran(CHILD, 500, 700, cpu=1)
    timeline.woke(600, MAIN, CHILD).ran(MAIN, 600, 1000)
    found = path_of(timeline)
    assert found.tid.tolist() == [MAIN] * 3
    assert found.ended_by[1] == CHILD


def test_a_lost_record_of_a_switch_leaves_time_that_is_not_known():
    # It got the CPU twice: where it lost it is missing.
    twice = Timeline().ran(MAIN, 0, None).ran(MAIN, 400, 1000)
    assert rows(twice) == [(0, 400, MAIN, UNKNOWN), (400, 1000, MAIN, RAN)]
    never = Timeline().ran(MAIN, 0, 100).ran(MAIN, None, 300).ran(MAIN, 400, 1000)
    assert rows(never) == [
        (0, 100, MAIN, RAN),
        (100, 300, MAIN, UNKNOWN),
        (300, 400, MAIN, BLOCKED),
        (400, 1000, MAIN, RAN),
    ]


def test_a_wait_whose_end_may_have_been_lost_is_not_known():
    timeline = Timeline().ran(MAIN, 0, 200).ran(MAIN, 650, 1000)
    timeline.lost.append(400)
    assert rows(timeline)[1] == (200, 650, MAIN, UNKNOWN)
    timeline.woke(600, MAIN)
    assert rows(timeline)[1] == (200, 600, MAIN, BLOCKED)


def test_the_path_begins_and_ends_with_the_command():
    timeline = Timeline().ran(MAIN, 0, 200).ran(MAIN, 300, 1000)
    assert rows(timeline, start=250, end=600) == [(250, 300, MAIN, BLOCKED), (300, 600, MAIN, RAN)]


def test_a_thread_from_before_the_recording_ran_until_it_left_the_cpu():
    timeline = Timeline().ran(MAIN, None, 200).ran(MAIN, 300, 1000)
    assert rows(timeline)[0] == (0, 200, MAIN, RAN)


def test_a_command_that_never_ran_has_no_path():
    records = Timeline().ran(OTHER, 0, 200).records()
    assert critical_path(records, Command(MAIN, 0, 1000, MAIN)) is None


def test_who_had_the_cpu_adds_up_to_the_wait():
    timeline = Timeline().ran(MAIN, 0, 100, cpu=0, preempted=True)
    timeline.ran(OTHER, 90, 300, cpu=1).ran(THIRD, 350, 600, cpu=1).ran(CHILD, 100, 500, cpu=0)
    timeline.ran(MAIN, 600, 1000, cpu=1)
    found = path_of(timeline)
    had = found.takers
    assert list(zip(had.piece.tolist(), had.tid.tolist(), had.length_ns.tolist(), strict=True)) == [
        (1, OTHER, 200),
        (1, THIRD, 250),
        (1, 0, 50),
    ]


@pytest.mark.parametrize("rounds", [1, 500])
def test_two_threads_that_wake_each_other_are_followed_to_and_fro(rounds):
    end = 100 * rounds * 2
    timeline = Timeline(end_ns=end).born(50, CHILD, MAIN)
    for turn in range(rounds):
        at = 200 * turn
        timeline.ran(MAIN, at, at + 100).woke(at + 90, CHILD, MAIN)
        timeline.ran(CHILD, at + 100, at + 200).woke(at + 190, MAIN, CHILD)
    found = path_of(timeline, end=end, last=CHILD)
    seconds = np.bincount(found.kind, (found.end_ns - found.start_ns).astype(float), 4)
    # The child waits from its birth on; of each hundred later, ten are for the CPU of the other.
    assert seconds[UNKNOWN] == 0
    assert seconds[BLOCKED] == 0
    assert seconds[RAN] + seconds[WAITED] == end
    assert seconds[WAITED] == 50 + 10 * (2 * rounds - 2)
