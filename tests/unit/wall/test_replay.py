"""How soon a command would end if some of its time on CPUs were shorter."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.scheduler import Timeline
from prospect.wall.schedule_records import Command
from prospect.wall.schedule_replay import Replay, ended_schedule, saved_by

MAIN, CHILD, OTHER = 10, 11, 50
NOBODY = np.empty(0, np.int32), np.empty(0, np.uint64)


def replayed(timeline, saved, *, end=1000, last=MAIN):
    """Return the gain; `saved` has by (thread, begin of a stretch) how much shorter it is."""
    of = ended_schedule(timeline.records(), Command(MAIN, 0, end, last), NOBODY)
    found = of.stretches
    tids = found.threads.tids.take(found.thread).tolist()
    keys = list(zip(tids, found.in_ns.tolist(), strict=True))
    assert set(saved) <= set(keys)
    return Replay(of).gain_ns(np.array([saved.get(key, 0.0) for key in keys], np.float64))


def test_a_command_alone_is_as_much_faster_as_its_time_is_shorter():
    assert replayed(Timeline().ran(MAIN, 0, 1000), {(MAIN, 0): 300}) == 300


def test_a_sleep_takes_as_long_as_it_did():
    timeline = Timeline().ran(MAIN, 0, 400).woke(600, MAIN).ran(MAIN, 600, 1000)
    assert replayed(timeline, {(MAIN, 0): 100, (MAIN, 600): 50}) == 150


def of_two(until):
    """A command waits from 300 on for a child, born at 100, that runs until `until`."""
    timeline = Timeline().born(100, CHILD, MAIN).ran(MAIN, 0, 300).ran(CHILD, 100, until, cpu=1)
    return timeline.woke(until, MAIN, CHILD).ran(MAIN, until, 1000)


def test_who_is_waited_for_ends_the_wait_sooner():
    assert replayed(of_two(700), {(CHILD, 100): 200}) == pytest.approx(200, abs=2)


def test_a_wait_is_not_shorter_than_nothing():
    # The command itself is busy until 300.
    assert replayed(of_two(700), {(CHILD, 100): 500}) == pytest.approx(400, abs=2)


def test_who_waits_is_not_faster_by_its_own_time_before_the_wait():
    # Of 300 the first third is before the birth, and that is as much sooner.
    assert replayed(of_two(700), {(MAIN, 0): 150}) == pytest.approx(50, abs=2)


def test_what_only_others_do_changes_nothing():
    timeline = of_two(700).ran(OTHER, 0, 900, cpu=2)
    assert replayed(timeline, {(OTHER, 0): 800}) == 0


def test_a_slower_function_makes_it_slower():
    assert replayed(of_two(700), {(CHILD, 100): -100}) == pytest.approx(-100, abs=2)


def test_savings_after_the_exit_are_none():
    timeline = Timeline().ran(MAIN, 0, 1000)
    assert replayed(timeline, {(MAIN, 0): 500}, end=500) == pytest.approx(250)


def test_a_command_that_never_had_a_cpu_has_no_schedule():
    assert (
        ended_schedule(Timeline().ran(OTHER, 0, 9).records(), Command(MAIN, 0, 9, MAIN), NOBODY)
        is None
    )


def saved(timeline, samples, weight):
    of = ended_schedule(timeline.records(), Command(MAIN, 0, 1000, MAIN), NOBODY)
    tid, time = zip(*samples, strict=True) if samples else ((), ())
    columns = np.array(tid, np.int32), np.array(time, np.uint64)
    found = saved_by(of, columns, np.array(weight, np.float64))
    tids = of.stretches.threads.tids.take(of.stretches.thread).tolist()
    return dict(
        zip(zip(tids, of.stretches.in_ns.tolist(), strict=True), found.tolist(), strict=True)
    )


def test_each_moment_of_a_thread_belongs_to_its_nearest_sample():
    timeline = Timeline().ran(MAIN, 0, 400).ran(MAIN, 600, 1000).ran(OTHER, 0, 900, cpu=1)
    # On its own axis of 800 the samples are at 100 and 500: the border is at 300.
    found = saved(timeline, [(MAIN, 100), (MAIN, 700), (OTHER, 450)], [1.0, 0.0, 1.0])
    assert found == {(MAIN, 0): 300, (MAIN, 600): 0, (OTHER, 0): 900}


def test_threads_without_a_sample_keep_their_time():
    timeline = Timeline().ran(MAIN, 0, 1000).ran(OTHER, 0, 900, cpu=1)
    assert saved(timeline, [(OTHER, 450), (77, 5)], [0.5, 1.0]) == {(MAIN, 0): 0, (OTHER, 0): 450}
    assert saved(timeline, [], []) == {(MAIN, 0): 0, (OTHER, 0): 0}


def test_a_thread_that_ended_has_no_cpu_any_more():
    timeline = Timeline().ran(MAIN, 0, 1000).ran(CHILD, 0, 420, cpu=1, preempted=True)
    timeline.ran(CHILD, 430, None, cpu=1).born(600, CHILD, MAIN).ran(CHILD, 600, 700, cpu=1)
    exits = np.array([CHILD, 77], np.int32), np.array([400, 5], np.uint64)
    of = ended_schedule(timeline.records(), Command(MAIN, 0, 1000, MAIN), exits)
    assert (of.stretches.out_ns - of.stretches.in_ns).tolist() == [1000, 400, 0, 100]


runs = st.tuples(st.integers(1, 4), st.integers(0, 40), st.integers(1, 20), st.booleans())


@given(
    st.lists(runs, min_size=1, max_size=25),
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 4), st.integers(0, 4)), max_size=20),
    st.floats(0.0, 1.0),
)
def test_nothing_saved_is_nothing_gained_and_no_more_is_gained_than_there_is(runs, wakes, part):
    timeline = Timeline(end_ns=60)
    for row, (tid, start, length, preempted) in enumerate(runs):
        timeline.ran(tid, start, start + length, row % 3, preempted=preempted)
    for one in wakes:
        timeline.woke(*one)
    of = ended_schedule(timeline.records(), Command(1, 0, 60, 1), NOBODY)
    if of is None:
        return
    found = of.stretches
    length = (found.out_ns - found.in_ns).astype(np.float64)
    assert Replay(of).gain_ns(np.zeros(len(found))) == 0
    gain = Replay(of).gain_ns(length * part)
    assert -1e-6 <= gain <= 60
