"""Any records of the scheduler: the pieces of the path touch and add up to the wall time."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from builders.scheduler import Timeline
from prospect.wall.path import RUNNING, WAITING, critical_path
from prospect.wall.schedule_records import Command

END = 60
times = st.integers(0, END + 5)
tids = st.integers(0, 4)
cpus = st.sampled_from((-1, 0, 1, 1 << 30))
switches = st.tuples(tids, st.one_of(st.none(), times), times, cpus, st.booleans())
wakes = st.tuples(times, tids, tids)
births = st.tuples(times, st.integers(-3, 4), st.integers(-3, 4))


def timeline_of(runs, wakings, born, lost):
    timeline = Timeline(begin_ns=2, end_ns=END)
    for tid, start, end, cpu, preempted in runs:
        timeline.ran(tid, start, end, cpu, preempted=preempted)
    for one in wakings:
        timeline.woke(*one)
    for one in born:
        timeline.born(*one)
    timeline.lost.extend(lost)
    return timeline


@given(
    st.lists(switches, min_size=1, max_size=25),
    st.lists(wakes, max_size=20),
    st.lists(births, max_size=5),
    st.lists(times, max_size=3),
    st.tuples(st.integers(2, END), st.booleans()),
)
def test_the_account_closes_whatever_is_missing(runs, wakings, born, lost, asked):
    timeline = timeline_of(runs, wakings, born, lost)
    end, everybody = asked
    asked = Command(1, 2, end, 1, everybody)
    found = critical_path(timeline.records(), asked)
    if found is None:
        return
    assert found.start_ns[0] == 2
    assert found.end_ns[-1] == end
    assert (found.start_ns < found.end_ns).all()
    assert (found.start_ns[1:] == found.end_ns[:-1]).all()
    had = np.zeros(len(found), np.int64)
    np.add.at(had, found.takers.piece, found.takers.length_ns)
    length = (found.end_ns - found.start_ns).view(np.int64)
    assert (had == np.where(found.kind == WAITING, length, 0)).all()
    assert (found.takers.length_ns > 0).all()


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9), st.booleans()), min_size=1))
def test_one_thread_alone_runs_as_long_as_its_switches_say(turns):
    timeline, at, ran = Timeline(end_ns=2000), 0, 0
    for length, pause, preempted in turns:
        timeline.ran(1, at, at + length, preempted=preempted)
        at, ran, last = at + length + pause, ran + length, at + length
    found = critical_path(timeline.records(), Command(1, 0, last, 1))
    is_running = found.kind == RUNNING
    assert int((found.end_ns - found.start_ns)[is_running].sum()) == ran
