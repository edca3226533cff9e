"""The pieces of turns of timelines with a known answer."""

import numpy as np
import pytest

from builders.scheduler import Timeline
from prospect.wall import path as wall
from prospect.wall import turns as module
from prospect.wall.schedule_records import BY_INTERRUPT, NOT_RECORDED
from prospect.wall.turns import Turns, turn_pieces

RAN, WAITED, BLOCKED, UNKNOWN = wall.RUNNING, wall.WAITING, wall.BLOCKED, wall.NOT_KNOWN
SERVER, CLIENT, DATABASE, OTHER = 10, 20, 30, 40
APART = 100_000  # ns between requests: more than a thread takes to leave its CPU


def found_of(timeline, *turns):
    """The pieces of turns (thread, begin, end), each of which add up to its length."""
    tid, start, end = zip(*turns, strict=True)
    wanted = Turns(np.array(tid, np.int32), np.array(start, np.uint64), np.array(end, np.uint64))
    found = turn_pieces(timeline.records(), wanted)
    length = (found.pieces.end_ns - found.pieces.start_ns).astype(np.int64)
    sums = np.bincount(found.turn, length, len(turns))
    lengths = np.array(end) - np.array(start)
    assert sums.tolist() == np.where(found.is_followed, lengths, 0).tolist()
    return found


def rows(timeline, *turns):
    found = found_of(timeline, *turns)
    pieces = found.pieces
    columns = found.turn, pieces.start_ns, pieces.end_ns, pieces.tid, pieces.kind
    return list(zip(*(column.tolist() for column in columns), strict=True))


def request(at=0, timeline=None):
    """A request of 100: the client wakes the server, which asks the database twice."""
    timeline = timeline or Timeline(end_ns=10_000)
    timeline.ran(CLIENT, at, at + 110, cpu=1).woke(at + 100, SERVER, CLIENT)
    timeline.ran(SERVER, at + 105, at + 120).woke(at + 118, DATABASE, SERVER)
    timeline.ran(DATABASE, at + 121, at + 140, cpu=1).woke(at + 155, DATABASE)
    timeline.ran(DATABASE, at + 160, at + 171, cpu=1).woke(at + 170, SERVER, DATABASE)
    timeline.ran(SERVER, at + 172, at + 200)
    return timeline


TURN = [
    (100, 105, SERVER, WAITED),
    (105, 118, SERVER, RAN),
    (118, 121, DATABASE, WAITED),
    (121, 140, DATABASE, RAN),
    (140, 155, DATABASE, BLOCKED),
    (155, 160, DATABASE, WAITED),
    (160, 170, DATABASE, RAN),
    (170, 172, SERVER, WAITED),
    (172, 200, SERVER, RAN),
]


def test_a_turn_goes_on_with_who_answers_and_ends_at_its_begin():
    assert rows(request(), (SERVER, 100, 200)) == [(0, *piece) for piece in TURN]


def test_how_often_a_thread_waited_within_its_turn():
    assert found_of(request(), (SERVER, 100, 200)).gaps.tolist() == [1]


def test_turns_are_followed_together_as_one_by_one(monkeypatch):
    count = 50
    begins = range(0, APART * count, APART)
    timeline = Timeline(end_ns=APART * count)
    for at in begins:
        request(at, timeline)
    turns = [(SERVER, at + 100, at + 200) for at in begins]
    together = rows(timeline, *turns)
    assert together == [
        (turn, start + APART * turn, end + APART * turn, tid, kind)
        for turn in range(count)
        for start, end, tid, kind in TURN
    ]
    monkeypatch.setattr(module, "_FEW_TURNS", count)
    assert rows(timeline, *turns) == together
    monkeypatch.setattr(module, "BLOCK", 7)
    assert rows(timeline, *turns) == together


def test_turns_of_several_threads_may_go_through_one_holder():
    timeline = Timeline().ran(OTHER, 0, 500, cpu=1)
    timeline.ran(SERVER, 100, 200).ran(DATABASE, 200, 300)
    timeline.woke(400, SERVER, OTHER).woke(450, DATABASE, OTHER)
    timeline.ran(SERVER, 400, 440).ran(DATABASE, 450, 600)
    assert rows(timeline, (SERVER, 100, 440), (DATABASE, 200, 600)) == [
        (0, 100, 400, OTHER, RAN),
        (0, 400, 440, SERVER, RAN),
        (1, 200, 450, OTHER, RAN),
        (1, 450, 600, DATABASE, RAN),
    ]


def test_a_wait_that_an_interrupt_ends_is_blocked():
    timeline = Timeline().ran(SERVER, 100, 200).woke(300, SERVER).ran(SERVER, 310, 400)
    found = found_of(timeline, (SERVER, 100, 400))
    assert found.pieces.kind.tolist() == [RAN, BLOCKED, WAITED, RAN]
    assert found.pieces.ended_by[1] == BY_INTERRUPT


def test_time_before_all_records_of_a_thread_is_not_known():
    timeline = Timeline().ran(SERVER, 700, 900).born(600, SERVER, OTHER)
    assert rows(timeline, (SERVER, 400, 900)) == [
        (0, 400, 600, SERVER, UNKNOWN),
        (0, 600, 700, SERVER, WAITED),
        (0, 700, 900, SERVER, RAN),
    ]


def test_a_thread_that_never_had_a_cpu_is_not_followed():
    found = found_of(request(), (SERVER, 100, 200), (77, 100, 200))
    assert found.is_followed.tolist() == [True, False]


@pytest.mark.parametrize("few", [0, 24])
def test_turns_beyond_the_bound_are_not_followed(monkeypatch, few):
    monkeypatch.setattr(module, "MOST_TURN_STEPS", 5)
    monkeypatch.setattr(module, "_FEW_TURNS", few)
    begins = range(0, 9 * APART, APART)
    timeline = Timeline(end_ns=9 * APART)
    turns = [(SERVER, at + 100, at + 200) for at in begins]
    for at in begins:
        request(at, timeline)
    found = found_of(timeline, *turns)
    assert np.count_nonzero(found.is_followed) <= 1


def test_a_wait_without_a_wake_up_on_record_is_blocked_until_the_thread_runs():
    timeline = Timeline().ran(SERVER, 100, 200).ran(SERVER, 300, 400)
    found = found_of(timeline, (SERVER, 100, 400))
    assert found.pieces.kind.tolist() == [RAN, BLOCKED, RAN]
    assert found.pieces.ended_by.tolist() == [NOT_RECORDED] * 3
