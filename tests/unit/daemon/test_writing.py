"""Windows get into the store by a child, and what does not is counted and said."""

from __future__ import annotations

import os
import select
import signal
import time

import numpy as np
import pytest

from builders.stacks import stacks_profile
from builders.stored import BEGIN_S, by_function, window_at
from prospect.daemon import store_children, window_writing
from prospect.daemon.window_writing import StoreWriting
from prospect.errors import StoreError
from prospect.store.directory import StoreDirectory
from prospect.store.part import Apart, read_part
from prospect.store.retention import FULL_DISK, Keep, dropped
from prospect.store.segments import DAY, FUNCTIONS, HOUR, MINUTE
from prospect.store.specification import parse_specifications
from prospect.store.writing import packed, segment_for, unpacked

pytest.importorskip("duckdb")


@pytest.fixture
def store(tmp_path):
    with StoreDirectory(str(tmp_path / "s"), create=True) as made:
        made.lock()
        yield made


@pytest.fixture(autouse=True)
def _no_writer_is_left(monkeypatch):
    """End the processes that wait for another window."""
    begun, begin = [], StoreWriting.__init__
    monkeypatch.setattr(
        StoreWriting, "__init__", lambda self, *words: begun.append(self) or begin(self, *words)
    )
    yield
    for one in begun:
        one.close()


def write(writing, window):
    writing.add(window)
    while writing.answer_fd >= 0:
        select.select([writing.answer_fd], [], [], 60)
        writing.finish()


def test_a_window_is_handed_over_whole():
    window = window_at(0)
    segment = segment_for(window.span, "current", 7)
    found_segment, head, tables = unpacked(packed(segment, window.head, window.tables))
    assert found_segment == segment
    assert head.events == window.head.events
    for kind, columns in window.tables.items():
        for name, column in columns.items():
            assert np.array_equal(tables[kind][name], column), (kind, name)


def test_windows_are_read_as_they_were(store):
    said = []
    writing = StoreWriting(store, Keep(), said.append)
    for minute in range(3):
        write(writing, window_at(minute))
    found = read_part(store, parse_specifications([]))
    assert by_function(found) == by_function(stacks_profile(), times=3)
    assert (writing.windows, writing.failed, writing.complaint, said) == (3, 0, "", [])
    # The next daemon goes on behind it, in another session.
    again = StoreWriting(store, Keep(), said.append)
    again.session = "later"
    write(again, window_at(3))
    assert sorted((one.session, one.first) for one in store.segments()) == [
        ("current", 0),
        ("current", 1),
        ("current", 2),
        ("later", 3),
    ]
    assert again.forget() == 1
    assert len(store.segments()) == 3


def test_one_process_writes_window_after_window(store):
    writing = StoreWriting(store, Keep(), lambda _: None)
    write(writing, window_at(0))
    assert writing.pids == []  # what is over is merged without it
    write(writing, window_at(1))
    pids = writing.pids
    write(writing, window_at(2))
    assert writing.pids == pids
    # Somebody kills it: the next window has another one.
    os.kill(pids[0], signal.SIGKILL)
    os.waitid(os.P_PID, pids[0], os.WEXITED | os.WNOWAIT)
    write(writing, window_at(3))
    assert (writing.windows, writing.failed) == (4, 0)
    assert len({*writing.pids, *pids}) == 2
    found = read_part(store, parse_specifications([]))
    assert by_function(found) == by_function(stacks_profile(), times=4)


def test_a_window_that_is_there_is_written_however_its_writer_ended(store, monkeypatch):
    """It may be killed between its last step and its end."""
    said = []
    writing = StoreWriting(store, Keep(), said.append)
    monkeypatch.setattr(store_children.Encoder, "answer", killed(store_children.Encoder.answer))
    write(writing, window_at(0))
    assert (writing.windows, writing.failed, said) == (1, 0, [])
    assert len(store.segments()) == 1


def killed(answer):
    """Say that a child was killed, when it has written."""

    def end(child):
        assert answer(child) == (0, "")
        return -signal.SIGKILL, ""

    return end


def test_hours_and_days_are_made_as_they_end(store):
    said = []
    writing = StoreWriting(store, Keep(), said.append)
    # 14:05, 14:06, 15:00, then 00:05 of the next day: first its hours, then the day.
    for minute in (0, 1, 55, 600, 601, 602):
        write(writing, window_at(minute))
    tiers = [one.tier for one in sorted(store.segments(), key=lambda one: one.first)]
    assert sorted(tiers) == sorted([DAY, HOUR, HOUR, MINUTE, MINUTE, MINUTE])
    found = read_part(store, parse_specifications([]))
    assert by_function(found) == by_function(stacks_profile(), times=6)
    assert said == []


def test_a_store_that_was_moved_away_is_said(store, tmp_path):
    writing = StoreWriting(store, Keep(), lambda _: None)
    (tmp_path / "s").rename(tmp_path / "moved")
    with pytest.raises(StoreError, match="removed or replaced"):
        writing.add(window_at(0))
    (tmp_path / "s").symlink_to("moved")
    with pytest.raises(StoreError, match="removed or replaced"):
        writing.add(window_at(0))


def test_a_child_that_fails_costs_its_window_and_no_other(store, monkeypatch):
    said = []
    writing = StoreWriting(store, Keep(), said.append)
    write(writing, window_at(0))
    with monkeypatch.context() as broken:
        broken.setattr(store_children, "_PROGRAM", "prospect.daemon.no_such_module")
        write(writing, window_at(1))
        write(writing, window_at(2))
    assert (writing.windows, writing.failed) == (1, 2)
    assert len([line for line in said if "a window is lost" in line]) == 1
    write(writing, window_at(3))
    assert said[-1] == "windows are written again"
    found = read_part(store, parse_specifications([]))
    assert by_function(found) == by_function(stacks_profile(), times=2)
    assert any("Nothing was measured" in limit for limit in found.run.limits)


def fill_the_disk(monkeypatch, times):
    """Let the next children end as on a full disk, when all is written."""
    real, full = store_children.Encoder.outcome, [times]

    def outcome(encoder):
        found = real(encoder)
        if full[0]:
            full[0] -= 1
            return store_children.Outcome("No space left on device", is_full=True)
        return found

    monkeypatch.setattr(store_children.Encoder, "outcome", outcome)


def test_on_a_full_disk_the_oldest_make_room(store, monkeypatch):
    said = []
    writing = StoreWriting(store, Keep(), said.append)
    for minute in range(3):
        write(writing, window_at(minute))
    fill_the_disk(monkeypatch, 2)
    write(writing, window_at(3))
    assert [one.first for one in sorted(store.segments(), key=lambda one: one.first)] == [2, 3]
    assert writing.dropped == 2
    assert [(one.windows, one.why) for one in dropped(store)] == [(2, FULL_DISK)]
    assert len([line for line in said if "disk is full" in line]) == 1


def test_the_window_that_others_made_room_for_has_the_names_that_they_had_brought(
    store, monkeypatch
):
    writing = StoreWriting(store, Keep(), lambda _: None)
    for minute in range(3):
        write(writing, window_at(minute))
    fill_the_disk(monkeypatch, 2)
    for minute in range(3, 6):
        write(writing, window_at(minute))
    segments = sorted(store.segments(), key=lambda one: one.first)
    assert [one.first for one in segments] == [2, 3, 4, 5]
    assert [store.has_ours(one.path(FUNCTIONS)) for one in segments] == [False, True, False, False]
    found = read_part(store, parse_specifications([]), Apart(stacks=True))
    assert by_function(found) == by_function(stacks_profile(), times=4)
    assert (found.hits.stack_index >= 0).all()


def test_what_makes_room_elsewhere_costs_a_window_no_names(store, monkeypatch):
    writing = StoreWriting(store, Keep(), lambda _: None)
    # One of 14:05, which becomes an hour, two of 15:00.
    for minute in (0, 55, 56):
        write(writing, window_at(minute))
    fill_the_disk(monkeypatch, 1)
    write(writing, window_at(57))
    segments = sorted(store.segments(), key=lambda one: one.first)
    assert [one.first for one in segments] == [1, 2, 3]
    names = [store.has_ours(one.path(FUNCTIONS)) for one in segments]
    assert (names[0], names[-1]) == (True, False)
    found = read_part(store, parse_specifications([]))
    assert by_function(found) == by_function(stacks_profile(), times=3)


def test_windows_that_wait_for_the_writer_become_one_segment(store):
    writing = StoreWriting(store, Keep(), lambda _: None)
    writing.add(window_at(0))
    # 14:06 to 14:08; of another session; then of another hour, for which the first is merged.
    for minute in (1, 2, 3):
        writing.add(window_at(minute))
    writing.session = "later"
    writing.add(window_at(4))
    writing.add(window_at(55))
    while writing.answer_fd >= 0:
        select.select([writing.answer_fd], [], [], 60)
        writing.finish()
    segments = sorted(store.segments(), key=lambda one: one.first)
    spans = [(one.session, one.first, one.last) for one in segments]
    assert spans == [("current", 0, 3), ("later", 4, 4), ("later", 5, 5)]
    assert (writing.windows, writing.merged, writing.failed) == (6, 2, 0)
    whole = read_part(store, parse_specifications([]))
    assert by_function(whole) == by_function(stacks_profile(), times=6)
    middle = [f"{word}:{time_of(minute)}" for word, minute in (("since", 2), ("until", 3))]
    found = read_part(store, parse_specifications(middle), Apart(stacks=True))
    assert by_function(found) == by_function(stacks_profile())
    assert found.run.wall_seconds == 60


def time_of(minute):
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(BEGIN_S + 60 * minute))


def test_a_window_that_ends_while_an_hour_is_made_is_written(store):
    writing = StoreWriting(store, Keep(), lambda _: None)
    writing.add(window_at(0))
    while writing._merger is None:
        select.select([writing.answer_fd], [], [], 60)
        writing.finish()
    write(writing, window_at(1))
    assert (writing.windows, len(store.segments())) == (2, 2)


def test_in_a_hurry_an_hour_is_left_to_the_next_daemon(store):
    writing = StoreWriting(store, Keep(), lambda _: None)
    writing.add(window_at(0))
    while writing._merger is None:
        select.select([writing.answer_fd], [], [], 60)
        writing.finish()
    writing.add(window_at(55))  # of the next hour
    writing.hurry()
    assert writing._merger is None
    while writing.answer_fd >= 0:
        select.select([writing.answer_fd], [], [], 60)
        writing.finish()
    assert (writing.windows, writing.failed, len(store.segments())) == (2, 0, 2)


def test_no_more_windows_wait_than_there_is_room_for(store, monkeypatch):
    writing = StoreWriting(store, Keep(), lambda _: None)
    writing.add(window_at(0))
    assert writing.has_room
    monkeypatch.setattr(window_writing, "MOST_QUEUED", 1)
    writing.add(window_at(1))
    assert not writing.has_room
    monkeypatch.setattr(window_writing, "MOST_QUEUED", 8)
    monkeypatch.setattr(window_writing, "MOST_QUEUED_BYTES", 1)
    assert not writing.has_room
    writing.give_up()


def test_what_is_given_up_counts_as_lost(store):
    said = []
    writing = StoreWriting(store, Keep(), said.append)
    for minute in range(3):
        writing.add(window_at(minute))
    writing.give_up()
    assert (writing.answer_fd, writing.failed) == (-1, 3)
    assert said == ["3 windows lost: the store took too long to write"]
    writing.give_up()
    assert writing.failed == 3
