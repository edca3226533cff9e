"""Where turns of threads begin and end, of waits that are known to be idle or not."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from builders.critical_paths import MAIN, OTHER, path_of, profile_of
from prospect.figures import find_turns as module
from prospect.figures.find_turns import NamedWaits, find_turns
from prospect.figures.report.idle_waits import CHILD, LOOP, POLL, WORK
from prospect.figures.stacks.frames import NamedForest
from prospect.profile.complete import complete
from prospect.profile.model import PATH_RAN, TURN_CUT, TURN_WHOLE, ThreadTimes, WaitTable
from prospect.records import replace

BEGIN, END = 1000, 9000


def found_of(monkeypatch, waits, lives):
    """The turns of waits (thread, begin, end, kind, is idle) in lives (thread, begin, end)."""
    tid, begin, end, kind, idle = (np.array(column) for column in zip(*waits, strict=True))
    count, zeros = len(waits), np.zeros(len(waits), np.int32)
    process = np.where(tid == MAIN, 0, 2).astype(np.int32)
    whole = profile_of(path_of([(PATH_RAN, MAIN, 1, -1)]))
    table = WaitTable(
        is_runnable=np.zeros(count, np.bool_),
        process_index=process,
        comm_index=zeros,
        location_index=zeros,
        mode=np.ones(count, np.uint8),
        entry_reason_index=zeros,
        tid=tid.astype(np.int32),
        cpu=zeros.astype(np.uint16),
        begin_ns=begin.astype(np.uint64),
        length_ns=(end - begin).astype(np.uint64),
    )
    of, born, died = (np.array(column) for column in zip(*sorted(lives), strict=True))
    nothing = np.zeros(len(lives), np.int64)
    threads = ThreadTimes(
        np.zeros(len(lives), np.int32),
        ["x"] * len(lives),
        of.astype(np.int32),
        born.astype(np.uint64),
        died.astype(np.uint64),
        *[nothing] * 9,
    )
    run = replace(whole.run, begin_ns=BEGIN, end_ns=END)
    profile = complete(replace(whole, run=run, threads=threads, waits=table))
    forest = NamedForest(np.array([-1]), np.array([0]), np.array([0]), np.array([0]))
    blocked = SimpleNamespace(
        idle=idle.astype(np.bool_),
        kind=kind.astype(np.int8),
        rows=np.arange(count),
        wait_rows=np.arange(count),
        first_wait=0,
        tid=tid.astype(np.int32),
        process_index=process,
        begin_ns=table.begin_ns,
        ns=end - begin,
        samples=SimpleNamespace(
            profile=SimpleNamespace(samples=SimpleNamespace(time_ns=table.begin_ns)),
            tid=tid.astype(np.int32),
            period=end - begin,
        ),
        user_stacks=SimpleNamespace(user_row=np.array([0]), is_cut=np.array([False])),
        stack_row=np.zeros(count, np.int64),
        own_forest=forest,
        forest=SimpleNamespace(labels=["uv_run"]),
        name=np.zeros(count, np.int64),
        names=["epoll_wait"],
    )
    monkeypatch.setattr(module, "blocked_waits", lambda *_, **__: blocked)
    monkeypatch.setattr(
        module,
        "turn_kinds",
        lambda *_: SimpleNamespace(of_turn=np.zeros(0, np.int32), names=[]),
    )
    return find_turns(profile)


def rows(found):
    columns = found.tid, found.begin_ns, found.end_ns, found.state
    return list(zip(*(column.tolist() for column in columns), strict=True))


WAITS = [
    (MAIN, 2000, 3000, LOOP, True),
    (MAIN, 3200, 3400, WORK, False),
    (MAIN, 3500, 5000, LOOP, True),
    (MAIN, 5100, 6000, LOOP, True),
]


def test_a_turn_is_between_two_idle_waits_of_a_thread(monkeypatch):
    found = found_of(monkeypatch, WAITS, [(MAIN, BEGIN, END)])
    assert rows(found) == [
        (MAIN, BEGIN, 2000, TURN_CUT),
        (MAIN, 3000, 3500, TURN_WHOLE),
        (MAIN, 5000, 5100, TURN_WHOLE),
        (MAIN, 6000, END, TURN_CUT),
    ]
    assert found.waits.tolist() == [0, 1, 0, 0]
    assert found.is_loop.all()


def test_what_a_thread_did_before_its_first_wait_or_until_it_ended_is_no_turn(monkeypatch):
    found = found_of(monkeypatch, WAITS, [(MAIN, 1500, 8000)])
    assert [row[1:3] for row in rows(found)] == [(3000, 3500), (5000, 5100)]


def test_turns_do_not_go_on_in_the_next_thread_of_a_number(monkeypatch):
    found = found_of(monkeypatch, WAITS, [(MAIN, 1500, 3450), (MAIN, 3460, 8000)])
    assert [row[1:3] for row in rows(found)] == [(5000, 5100)]


def test_the_end_of_a_child_is_within_a_turn(monkeypatch):
    waits = [WAITS[0], (MAIN, 3200, 3400, CHILD, True), *WAITS[2:]]
    found = found_of(monkeypatch, waits, [(MAIN, 1500, 8000)])
    assert [row[1:3] for row in rows(found)] == [(3000, 3500), (5000, 5100)]


def test_threads_of_another_kind_are_no_event_loops(monkeypatch):
    waits = [(OTHER, *row[1:3], POLL, True) for row in WAITS]
    found = found_of(monkeypatch, waits, [(OTHER, BEGIN, END)])
    assert found.process_index.tolist() == [2] * len(found)
    assert not found.is_loop.any()


def test_without_idle_waits_there_are_none(monkeypatch):
    waits = [(MAIN, 2000, 3000, POLL, False)]
    assert found_of(monkeypatch, waits, [(MAIN, BEGIN, END)]) is None


def test_what_a_thread_waits_for_meanwhile_or_next():
    table = SimpleNamespace(
        tid=np.array([MAIN, MAIN], np.int32),
        begin_ns=np.array([100, 300], np.uint64),
        length_ns=np.array([50, 50], np.uint64),
    )
    named = NamedWaits(np.arange(2), np.array([1, 0]), ["read", "poll"])
    times = np.array([90, 120, 150, 320, 400], np.uint64)
    at = named.at(SimpleNamespace(waits=table), np.full(5, MAIN, np.int32), times)
    assert at.tolist() == [1, 1, 0, 0, -1]
    other = named.at(SimpleNamespace(waits=table), np.full(1, OTHER, np.int32), times[:1])
    assert other.tolist() == [-1]
