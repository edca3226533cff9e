"""Tracks: what is in force at a time, however far apart the times are."""

import numpy as np
import pytest

from prospect.spaces.task_timeline import build_track, collect_ids, with_ranks


def track_of(changes):
    """A track of (id, time) changes, and for each of its rows the number of its change."""
    ids = collect_ids(np.array([task for task, _ in changes], np.int32))
    rank = ids.find(np.array([task for task, _ in changes], np.int32)).tolist()
    return build_track(ids, rank, [time for _, time in changes])


@pytest.mark.parametrize("last", [100, 2**50, 2**62, 2**64 - 2])
@pytest.mark.parametrize("big", [5, 2**31 - 1])
def test_the_last_change_at_or_before_a_time_is_in_force(last, big):
    track, change = track_of([(3, 0), (3, 10), (big, 10), (3, 11), (big, last), (3, last)])
    asked = [(3, 0), (3, 9), (3, 10), (3, 11), (3, last - 1), (3, last), (3, last + 1)]
    asked += [(big, 10), (big, last - 1), (big, last), (big, 2**64 - 1)]
    ids = np.array([task for task, _ in asked], np.int32)
    times = np.array([time for _, time in asked], np.uint64)
    found = change.take(track.find(ids, times)).tolist()
    assert found == [0, 0, 1, 3, 3, 5, 5, 2, 2, 4, 4]


def test_a_time_before_the_first_change_counts_as_after_it():
    track, change = track_of([(3, 100), (3, 200)])
    row = track.find(np.array([3, 3], np.int32), np.array([0, 50], np.uint64))
    assert change.take(row).tolist() == [0, 0]


def test_ids_without_changes_get_the_first_row():
    track, _ = track_of([(3, 100), (9, 200)])
    ids = np.array([-1, 0, 5, 10, 2**31 - 1, -(2**31)], np.int32)
    assert track.find(ids, np.full(6, 500, np.uint64)).tolist() == [0] * 6


def test_runs_are_known_to_hold_only_until_the_next_change():
    track, change = track_of([(3, 10), (3, 20), (7, 15)])
    row, holds = track.find_runs(
        np.array([3, 3, 3, 7, 5], np.int32),
        np.array([10, 12, 20, 15, 15], np.uint64),
        np.array([19, 20, 99, 99, 99], np.uint64),
    )
    assert change.take(row).tolist() == [0, 0, 1, 2, -1]
    assert holds.tolist() == [True, False, True, True, True]


def test_ranks_can_be_shared():
    ids = collect_ids(np.array([5, 2, 9, 5], np.int32))
    assert ids.ids.tolist() == [-1, 2, 5, 9]
    shared = with_ranks(ids.ids, np.array([0, 1, 2, 1], np.int32))
    assert shared.find(np.array([2, 5, 9, 4, -1], np.int32)).tolist() == [1, 2, 1, 0, 0]
