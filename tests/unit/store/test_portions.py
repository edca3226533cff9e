"""Parts of stores that are removed or copied."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime

import pytest

from builders.stacks import stacks_profile
from builders.stored import BEGIN_S, by_function, fill, window_at
from prospect.api.store_part import read_store
from prospect.cli.main import main
from prospect.store.compaction import compact
from prospect.store.directory import StoreDirectory
from prospect.store.engine import Engine
from prospect.store.retention import dropped
from prospect.store.segments import DAY

pytest.importorskip("duckdb")


def at(clock):
    return datetime.fromtimestamp(BEGIN_S, UTC).strftime(f"%Y-%m-%dT{clock}+00:00")


@pytest.fixture(name="filled", scope="module")
def _filled(tmp_path_factory):
    """14:05, 14:59, 15:00 in hours and a day; 00:05 and 00:06 of the next day in minutes."""
    path = tmp_path_factory.mktemp("filled") / "s"
    fill(path, [window_at(minute) for minute in (0, 54, 55, 600, 601)])
    with StoreDirectory(str(path)) as store:
        compact(store, Engine(store), BEGIN_S + 60 * 605)
    return path


@pytest.fixture(name="store")
def _store(filled, tmp_path):
    shutil.copytree(filled, tmp_path / "s")
    return tmp_path / "s"


def said(capfd, *words):
    status = main(["store", *words])
    out, err = capfd.readouterr()
    return (out or err).strip() if status == 0 else f"{status}: {err.strip()}"


def windows_in(path):
    counted = by_function(read_store(str(path))).total() / by_function(stacks_profile()).total()
    assert counted == int(counted)
    return int(counted)


def test_whole_hours_are_removed_and_the_day_is_made_again(store, capfd):
    until = f"until:{at('15:00')}"
    assert said(capfd, "drop", until, "--store", str(store)) == "removed: 2 windows"
    assert windows_in(store) == 3
    assert not (store / "day").exists()
    with StoreDirectory(str(store)) as opened:
        assert sum(one.windows for one in dropped(opened)) == 2
        compact(opened, Engine(opened), BEGIN_S + 60 * 605)
        assert [one.tier for one in opened.segments()].count(DAY) == 1
    assert windows_in(store) == 3


def test_what_reaches_beyond_a_part_stays_and_is_said(store, capfd):
    words = [f"since:{at('14:30')}", f"until:{at('15:30')}"]
    answer = said(capfd, "drop", *words, "--store", str(store))
    assert (
        answer == "removed: 1 window; kept, because their hours have other windows too: 1 segment"
    )
    assert windows_in(store) == 4
    # The minutes of an hour share their names.
    answer = said(
        capfd, "drop", f"since:{at('23:00')}", "until:2026-11-23T00:06+00:00", "--store", str(store)
    )
    assert answer.startswith("removed: 0 windows")
    assert windows_in(store) == 4


def test_a_copy_is_a_store_of_its_own(store, tmp_path, capfd):
    copy = tmp_path / "copy"
    words = [f"since:{at('15:00')}", "--store", str(store)]
    assert (
        said(capfd, "export", str(copy), *words) == f"copied to {copy}: 3 segments, of whole hours"
    )
    assert windows_in(copy) == 3
    assert said(capfd, "check", "--store", str(copy)).startswith("3 segments, whole")
    assert by_function(read_store(str(copy), [f"until:{at('16:00')}"])) == by_function(
        stacks_profile()
    )
    assert "has windows already" in said(capfd, "export", str(copy), *words)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["drop"], "until:-30d"),
        (["drop", "comm:x"], "whole hours"),
        (["drop", "session:other"], "nothing matches"),
        (["export"], "DIRECTORY"),
        (["export", "since:-1d"], "DIRECTORY"),
    ],
)
def test_what_has_no_meaning_is_said(store, capfd, words, complaint):
    assert complaint in said(capfd, *words, "--store", str(store))
    assert windows_in(store) == 5
