"""Hours and days: what they keep of minutes, when they are made, which are read."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime

import pytest

from builders.examples import nightly
from builders.killed import is_killed_at
from builders.stacks import stacks_profile
from builders.stored import BEGIN_S, by_function, fill, samples_file, window_at
from prospect.cli.main import main
from prospect.errors import StoreError
from prospect.store import segment_reading
from prospect.store.compaction import Made, compact, due
from prospect.store.contents import contents_of, health_of
from prospect.store.directory import StoreDirectory
from prospect.store.engine import Engine
from prospect.store.part import Apart, read_part
from prospect.store.retention import clean
from prospect.store.segments import DAY, HOUR, MINUTE, Segment
from prospect.store.specification import parse_specifications

pytest.importorskip("duckdb")
# Windows at 14:05, 14:06, 14:59, 15:00 and 15:30 of one day, 00:05 of the next.
MINUTES = (0, 1, 54, 55, 85, 600)
TOMORROW_S = BEGIN_S + 60 * 625  # 00:30
MOST_STEPS = 200


def merge(path, now_s=TOMORROW_S):
    with StoreDirectory(str(path)) as store:
        store.lock()
        clean(store)
        engine = Engine(store)
        try:
            return compact(store, engine, now_s)
        finally:
            engine.close()


def read(path, *words, **wanted):
    with StoreDirectory(str(path)) as store:
        return read_part(store, parse_specifications(words), Apart(**wanted))


def iso(minute):
    return datetime.fromtimestamp(BEGIN_S + 60 * minute, UTC).isoformat()


def tiers(path):
    with StoreDirectory(str(path)) as store:
        return [one.tier for one in sorted(store.segments(), key=lambda one: (one.first, one.tier))]


@pytest.fixture(name="filled", scope="module")
def _filled(tmp_path_factory):
    path = tmp_path_factory.mktemp("filled") / "s"
    fill(path, [window_at(minute, separate=("cpu",)) for minute in MINUTES])
    return path


@pytest.fixture
def store(filled, tmp_path):
    shutil.copytree(filled, tmp_path / "s")
    return tmp_path / "s"


@pytest.fixture(name="all_merged", scope="module")
def _all_merged(filled, tmp_path_factory):
    path = tmp_path_factory.mktemp("merged") / "s"
    shutil.copytree(filled, path)
    merge(path)
    return path


@pytest.fixture
def merged(all_merged, tmp_path):
    shutil.copytree(all_merged, tmp_path / "merged")
    return tmp_path / "merged"


def test_hours_and_days_that_are_over_are_made(store):
    assert merge(store) == Made(hours=2, days=1)
    assert tiers(store) == [DAY, HOUR, HOUR, MINUTE]
    assert merge(store) == Made(0, 0)
    assert by_function(read(store)) == by_function(stacks_profile(), 6)


@pytest.mark.parametrize("stacks", [*nightly(False), True])
def test_a_day_has_the_hits_and_stacks_of_its_minutes(filled, merged, stacks):
    spans = [(), (f"until:{iso(55)}",), (f"since:{iso(1)}", f"until:{iso(85)}"), ("comm:*",)]
    for words in spans:
        before, after = (read(path, *words, stacks=stacks) for path in (filled, merged))
        assert by_function(after) == by_function(before)
        assert after.run.wall_seconds == before.run.wall_seconds
        if stacks:
            assert after.hits.stack_index is not None
            assert len(after.stacks) > 0


@pytest.mark.parametrize("words", [(), ("comm:*",), (f"since:{iso(-5)}", f"until:{iso(660)}")])
def test_a_day_that_was_made_without_sums_over_hours_says_the_same(merged, words):
    (sums,) = merged.glob("day/*/*.sums.parquet")
    found = read(merged, *words)
    sums.unlink()
    assert by_function(read(merged, *words)) == by_function(found)


def test_sums_over_hours_are_read_only_where_all_of_them_are_asked_for(merged):
    shutil.rmtree(merged / "hour")
    for words in ((f"since:{iso(-5)}",), (f"since:{iso(-65)}",), (f"until:{iso(55)}",)):
        (sums,) = merged.glob("day/*/*.sums.parquet")
        found = by_function(read(merged, *words))
        sums.rename(merged / "away")
        assert by_function(read(merged, *words)) == found
        (merged / "away").rename(sums)


def test_a_span_that_begins_in_a_days_first_hour_before_its_first_window_has_that_hour(merged):
    found = read(merged, f"since:{iso(-2)}", f"until:{iso(55)}")
    assert by_function(found) == by_function(stacks_profile(), 3)


def test_a_damaged_file_of_sums_leaves_the_hours_to_answer(merged):
    (sums,) = merged.glob("day/*/*.sums.parquet")
    sums.write_bytes(b"PAR1")
    assert by_function(read(merged)) == by_function(stacks_profile(), 6)


def test_what_a_summary_does_not_say_is_read_from_its_hours(merged):
    assert 0 < read(merged, "cpu:0").hits.count.sum() <= read(merged).hits.count.sum()
    shutil.rmtree(merged / "hour")
    found = read(merged, f"since:{iso(1)}", f"until:{iso(2)}")
    assert by_function(found) == by_function(stacks_profile(), 3)  # all of 14:00 to 15:00
    assert any("whole hours" in each for each in found.run.limits)
    assert found.run.wall_seconds == 180
    with pytest.raises(StoreError, match="keep this separate"):
        read(merged, "cpu:0", f"until:{iso(500)}")


def test_what_is_in_it_is_listed_alike(filled, merged):
    lists = []
    for path in (filled, merged):
        with StoreDirectory(str(path)) as opened:
            found = contents_of(opened, parse_specifications([]))
            lists.append([(day.windows, day.measured_s, day.samples) for day in found.days])
            assert health_of(opened).damaged == []
    assert lists[0] == lists[1]


def test_what_is_damaged_stays_and_no_window_of_others_goes(store):
    with StoreDirectory(str(store)) as opened:
        damaged = sorted(opened.segments(), key=lambda one: one.first)[1]
    samples_file(store, damaged).write_bytes(b"PAR1")
    assert merge(store) == Made(hours=3, days=2)
    assert tiers(store) == [DAY, HOUR, MINUTE, DAY, HOUR, HOUR, MINUTE]
    assert by_function(read(store)) == by_function(stacks_profile(), 5)
    with StoreDirectory(str(store)) as opened:
        assert len(health_of(opened).damaged) == 1


# Each step takes most of a second.
@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.nightly), 9])
def test_a_writer_that_is_killed_while_it_merges_counts_nothing_twice(tmp_path, monkeypatch, every):
    monkeypatch.setattr(os, "fsync", lambda _: None)  # the machine goes on
    fill(tmp_path / "two", [window_at(minute) for minute in (0, 55)])
    for step in range(0, MOST_STEPS, every):
        path = tmp_path / f"at-{step}"
        shutil.copytree(tmp_path / "two", path)
        was_killed = is_killed_at(step, ("rename", "unlink"), lambda path=path: merge(path))
        assert by_function(read(path)) == by_function(stacks_profile(), 2)
        merge(path)
        assert tiers(path) == [DAY, HOUR, HOUR]
        assert by_function(read(path, addresses=True)) == by_function(stacks_profile(), 2)
        assert not list(path.rglob("*.part"))
        shutil.rmtree(path)
        if not was_killed:
            break
    assert step > 15


def segment(tier, first, last, at_s=BEGIN_S, session="current"):
    begin_s = at_s + 60 * first
    return Segment(tier, begin_s, at_s + 60 * (last + 1), session, first, last)


def test_sessions_other_hours_and_what_is_merged_are_apart():
    minutes = [segment(MINUTE, each, each) for each in range(4)]
    minutes[1] = minutes[1]._replace(session="other")
    assert due(minutes, HOUR, BEGIN_S + 600) == []
    assert due(minutes, HOUR, TOMORROW_S) == [[minutes[0]], [minutes[1]], minutes[2:]]
    minutes = [segment(MINUTE, each, each) for each in range(6)]
    done = segment(HOUR, 2, 3)
    assert due([*minutes, done], HOUR, TOMORROW_S) == [minutes[:2], minutes[4:]]
    # A clock that is set back: the same hour twice.
    back = [segment(MINUTE, 60, 60), segment(MINUTE, 61, 61, BEGIN_S - 3600)]
    assert due([*minutes, *back], HOUR, TOMORROW_S) == [minutes, back[:1], back[1:]]


def test_a_day_reaches_across_no_minutes_that_are_left():
    hours = [segment(HOUR, first, first + 59, BEGIN_S // 86400 * 86400) for first in (0, 60, 180)]
    left = segment(MINUTE, 130, 130)
    assert due([*hours, left], DAY, TOMORROW_S) == [hours[:2], hours[2:]]


def test_a_command_merges_what_is_over_by_the_clock(store, capfd):
    assert main(["store", "compact", "--store", str(store)]) == 0
    assert capfd.readouterr().out == "made: 3 hours, 2 days\n"
    with StoreDirectory(str(store)) as writer:
        writer.lock()
        assert main(["store", "compact", "--store", str(store)]) != 0
    assert "another process writes to this store" in capfd.readouterr().err
    assert main(["store", "compact", "all", "--store", str(store)]) != 0
    assert "drop the specifications" in capfd.readouterr().err


def test_who_reads_while_minutes_become_an_hour_reads_that(store, monkeypatch):
    real, calls = segment_reading.heads_of_segments, []

    def merged_meanwhile(*arguments):
        calls.append(1)
        if len(calls) == 1:
            merge(store)
        return real(*arguments)

    monkeypatch.setattr(segment_reading, "heads_of_segments", merged_meanwhile)
    assert by_function(read(store)) == by_function(stacks_profile(), 6)
    assert not any("left out" in each for each in read(store).run.limits)
