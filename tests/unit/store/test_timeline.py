"""A store over time, in steps: what was measured, what was lost, and who was busy."""

from __future__ import annotations

import pytest

from builders.stacks import stacks_profile
from builders.stored import BEGIN_S, US, fill, window_at
from prospect.errors import StoreError
from prospect.store.directory import StoreDirectory
from prospect.store.specification import parse_specifications
from prospect.store.timeline import timeline
from prospect.store.windows import Span, window_of

pytest.importorskip("duckdb")


def timeline_of(path, *words, most=240):
    with StoreDirectory(str(path)) as store:
        return timeline(store, parse_specifications(words), most)


def test_each_window_is_a_step_where_there_is_room(tmp_path):
    fill(tmp_path / "s", [window_at(minute) for minute in (0, 1, 5)])
    found = timeline_of(tmp_path / "s")
    assert found.step_s == 60
    assert [step.begin_s - BEGIN_S for step in found.steps] == [0, 60, 300]
    assert (found.begin_s, found.end_s) == (BEGIN_S, BEGIN_S + 360)
    idle = stacks_profile().processes.pid.tolist().index(0)
    hits = stacks_profile().hits
    busy = int(hits.count[hits.process_index != idle].sum())
    assert {step.hits for step in found.steps} == {busy}


def test_a_window_that_came_late_is_as_long_as_it_is(tmp_path):
    late = Span((BEGIN_S + 60) * US, (BEGIN_S + 600) * US)
    windows = [window_at(0), window_of(stacks_profile(), late), window_at(10), window_at(12)]
    fill(tmp_path / "s", windows)
    found = timeline_of(tmp_path / "s")
    spans = [(step.begin_s - BEGIN_S, step.end_s - BEGIN_S) for step in found.steps]
    assert spans == [(0, 60), (60, 600), (600, 660), (720, 780)]


def test_a_long_span_has_no_more_steps_than_there_is_room_for(tmp_path):
    fill(tmp_path / "s", [window_at(minute) for minute in (0, 1, 60, 6000)])
    found = timeline_of(tmp_path / "s", most=20)
    assert (found.end_s - found.begin_s) // found.step_s <= 21
    whole = timeline_of(tmp_path / "s")
    assert sum(step.hits for step in found.steps) == sum(step.hits for step in whole.steps)


def test_words_choose_whose_hits(tmp_path):
    fill(tmp_path / "s", [window_at(0)])
    assert [step.hits for step in timeline_of(tmp_path / "s", "comm:comm").steps] == [21]
    # Measured, and without a hit, is not the same as not measured.
    assert [step.hits for step in timeline_of(tmp_path / "s", "comm:nginx").steps] == [0]
    with pytest.raises(StoreError, match="--separate cpu"):
        timeline_of(tmp_path / "s", "cpu:1")
