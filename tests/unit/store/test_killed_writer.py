"""A process that is killed while it writes a window, at each step in turn."""

from __future__ import annotations

import os
import shutil
import time

import pytest

from builders.killed import is_killed_at, left_in
from builders.stacks import stacks_profile
from builders.stored import Writer, by_function, window_at
from prospect.store.directory import StoreDirectory
from prospect.store.engine import Engine
from prospect.store.part import read_part
from prospect.store.retention import clean
from prospect.store.specification import parse_specifications

pytest.importorskip("duckdb")
STEPS = ("mkdir", "open", "fsync", "fchmod", "rename", "run")
MOST_STEPS = 300


def hits_of(store):
    return by_function(read_part(store, parse_specifications([])))


def add(path, minute):
    with StoreDirectory(str(path), create=True) as store:
        store.lock()
        clean(store)
        engine = Engine(store)
        Writer(store, engine).add(window_at(minute))
        engine.close()


def goes_on(path, minute):
    """Check what a killed writer left, then add a window; return how many windows it left."""
    with StoreDirectory(str(path)) as store:
        there = len(store.segments())
        assert hits_of(store) == by_function(stacks_profile(), times=there)
    # The next one goes on behind it, whatever lies there.
    add(path, minute)
    with StoreDirectory(str(path)) as store:
        assert hits_of(store) == by_function(stacks_profile(), times=there + 1)
        numbers = [one.first for one in store.segments()]
        assert len(set(numbers)) == len(numbers) == there + 1
    assert not list(path.rglob("*.part"))
    return there


@pytest.mark.parametrize("minute", [1, 60])  # of the same directory, and of a new one
def test_it_loses_one_window_at_most_and_counts_none_twice(tmp_path, minute, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: None)  # the machine goes on
    add(tmp_path / "one", 0)
    seen, checked = set(), set()
    for step in range(MOST_STEPS):
        path = tmp_path / f"at-{step}"
        shutil.copytree(tmp_path / "one", path, symlinks=True)
        was_killed = is_killed_at(step, STEPS, lambda path=path: add(path, minute))
        if (left := left_in(path)) not in checked:
            checked.add(left)
            seen.add(goes_on(path, minute + 1))
        shutil.rmtree(path)
        if not was_killed:
            break
    assert not was_killed
    assert step > 20
    assert seen == {1, 2}


def test_the_night_in_which_clocks_are_set_back_is_read_once(tmp_path, monkeypatch):
    """02:00 to 03:00 comes twice on 2026-10-25 in Berlin: windows lie by UTC."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        night_s = 1_792_882_800  # 2026-10-25 01:00 CEST; 00:00 UTC is 02:00 CEST
        begin = (night_s - 1_795_356_300) // 60
        with StoreDirectory(str(tmp_path / "s"), create=True) as store:
            store.lock()
            engine = Engine(store)
            writer = Writer(store, engine)
            for quarter in range(16):  # four hours of the clock on the wall are five
                writer.add(window_at(begin + 15 * quarter))
            engine.close()
            assert hits_of(store) == by_function(stacks_profile(), times=16)
            words = ["since:2026-10-25T01:00", "until:2026-10-25T04:00"]
            found = by_function(read_part(store, parse_specifications(words)))
            # From 01:00 to 04:00 there are four hours, of which each window counts once.
            assert found == by_function(stacks_profile(), times=16)
    finally:
        monkeypatch.undo()
        time.tzset()
