"""What is written to a store is what is read from it, and what is damaged is left out and said."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import numpy as np
import pytest

from builders.hostile_names import with_hostile_names
from builders.stacks import stacks_profile
from builders.stored import (
    BEGIN_S,
    US,
    by_function,
    fill,
    lose_a_value,
    samples_file,
    window_at,
)
from prospect.columns.buffers import gather
from prospect.errors import StoreError
from prospect.figures.processes import idle_hits
from prospect.figures.stacks.stack_weights import stack_samples
from prospect.profile.complete import complete
from prospect.profile.group_names import service_of
from prospect.profile.naming import LABELS, NameSource
from prospect.records import replace
from prospect.store import file_schema
from prospect.store.contents import health_of
from prospect.store.directory import StoreDirectory
from prospect.store.engine import Engine
from prospect.store.part import Apart, read_part
from prospect.store.recorded import part_of_recording
from prospect.store.segments import COVERAGE, FUNCTIONS, SAMPLES, STACKS
from prospect.store.specification import parse_specifications

pytest.importorskip("duckdb")


def read(path, *words, stacks=False):
    with StoreDirectory(str(path)) as store:
        return read_part(store, parse_specifications(words), Apart(stacks))


def iso(minute):
    return datetime.fromtimestamp(BEGIN_S + 60 * minute, UTC).isoformat()


def test_hits_by_function_are_those_of_the_windows(tmp_path):
    fill(tmp_path / "s", [window_at(0), window_at(1), window_at(2)])
    whole = read(tmp_path / "s")
    assert by_function(whole) == by_function(stacks_profile(), times=3)
    assert whole.run.wall_seconds == 180
    assert whole.run.started_at == BEGIN_S
    assert whole.hits.period.sum() == 3 * stacks_profile().hits.period.sum()
    part = read(tmp_path / "s", f"since:{iso(1)}", f"until:{iso(2)}")
    assert by_function(part) == by_function(stacks_profile())
    assert part.run.wall_seconds == 60


def test_what_is_read_has_one_order_whatever_the_order_of_the_engine(tmp_path):
    fill(tmp_path / "s", [window_at(minute) for minute in range(3)])
    profile = read(tmp_path / "s", stacks=True)
    names = [profile.processes.name[row] for row in profile.hits.process_index]
    assert names == sorted(names)
    assert profile.functions.name == sorted(profile.functions.name)
    keys = list(
        zip(
            names,
            [profile.comms[row] for row in profile.hits.comm_index],
            profile.hits.event.tolist(),
            profile.hits.mode.tolist(),
            strict=True,
        )
    )
    assert len(set(keys)) > 2
    assert keys == sorted(keys)


def test_names_are_written_once_in_an_hour_and_read_from_any_window(tmp_path):
    segments = fill(tmp_path / "s", [window_at(0), window_at(1), window_at(58)])
    has_names = [(tmp_path / "s" / one.path(FUNCTIONS)).exists() for one in segments]
    assert has_names == [True, False, True]
    part = read(tmp_path / "s", f"since:{iso(1)}", f"until:{iso(2)}")
    assert by_function(part) == by_function(stacks_profile())


def test_stacks_are_those_of_the_windows(tmp_path):
    fill(tmp_path / "s", [window_at(0), window_at(1)])
    found = read(tmp_path / "s", stacks=True)
    assert (found.stacks.caller_index < np.arange(len(found.stacks))).all()

    def chains(profile, times):
        weighed = stack_samples(complete(profile), "4")
        stacks, whole = weighed.stacks, weighed.profile
        counted = {}
        for row, count in zip(weighed.stack_index.tolist(), weighed.count.tolist(), strict=True):
            chain, frame = [], row
            while frame >= 0:
                location = stacks.location_index[frame]
                chain.append(whole.functions.name[whole.locations.function_index[location]])
                frame = stacks.caller_index[frame]
            counted[tuple(chain)] = counted.get(tuple(chain), 0) + count * times
        return counted

    assert chains(found, 1) == chains(stacks_profile(), 2)


def test_hostile_names_are_kept_and_do_no_harm(tmp_path):
    profile = with_hostile_names(stacks_profile())
    fill(tmp_path / "s", [window_at(0, profile)])
    found = read(tmp_path / "s", stacks=True)
    assert found.hits.count.sum() == profile.hits.count.sum()
    assert len({*found.functions.name}) == len({*profile.functions.name})
    for name in found.processes.name + found.functions.name:
        name.encode("utf-8")


@pytest.mark.parametrize(
    ("words", "hits"),
    [
        (["comm:comm"], 21),
        (["comm:c*,x"], 21),
        (["image:work", "symbol:work"], 8),
        (["symbol:wor?,jitted"], 12),
        (["lib-image:*/libc.so*"], 1),
        (["event:cpu-clock"], 30),
        (["session:cur*"], 30),
    ],
)
def test_specifications_choose_hits(tmp_path, words, hits):
    fill(tmp_path / "s", [window_at(0)])
    assert read(tmp_path / "s", *words).hits.count.sum() == hits


@pytest.mark.parametrize("word", ["comm:comm", "symbol:work", "dependent:no", "event:cpu-clock"])
def test_a_part_knows_how_busy_the_machine_was(tmp_path, word):
    fill(tmp_path / "s", [window_at(0), window_at(1)])
    profile = complete(stacks_profile())
    busy = ~idle_hits(profile)
    assert 0 < busy.sum() < len(busy)
    expected = tuple(
        (2 * int(hits.count.sum()), 2 * int(hits.period.sum()))
        for event in range(len(profile.run.events))
        for hits in [gather(profile.hits, np.flatnonzero(busy & (profile.hits.event == event)))]
    )
    assert read(tmp_path / "s").run.busy == expected
    assert read(tmp_path / "s", word).run.busy == expected
    part = part_of_recording(stacks_profile(), parse_specifications([word]))
    assert part.run.busy == tuple((count // 2, period // 2) for count, period in expected)


def test_what_was_kept_apart_can_be_asked_for(tmp_path):
    fill(tmp_path / "apart", [window_at(0, separate=("process", "cpu"))])
    assert read(tmp_path / "apart", "tgid:77").hits.count.sum() == 21
    assert read(tmp_path / "apart", "cpu:0").hits.count.sum() == 15
    assert 77 in read(tmp_path / "apart").processes.pid
    fill(tmp_path / "together", [window_at(0)])
    assert set(read(tmp_path / "together").processes.pid.tolist()) == {-1, 0}
    for word, option in (("tgid:77", "process"), ("cpu:0", "cpu"), ("tid:1", "thread")):
        with pytest.raises(StoreError, match=f"--separate {option}"):
            read(tmp_path / "together", word)


def test_what_fits_nothing_says_what_there_is(tmp_path):
    fill(tmp_path / "s", [window_at(0)])
    with pytest.raises(StoreError, match="there is comm, a b;c"):
        read(tmp_path / "s", "comm:nginx")
    with pytest.raises(StoreError, match="session current"):
        read(tmp_path / "s", "session:other")
    with pytest.raises(StoreError, match=r"there is 2026-"):
        read(tmp_path / "s", f"since:{iso(100)}")
    StoreDirectory(str(tmp_path / "empty"), create=True).close()
    with pytest.raises(StoreError, match="nothing is in this store"):
        read(tmp_path / "empty")


@pytest.mark.parametrize("word", ["comm:'; DROP TABLE x; --", "symbol:' OR 1=1", "image:?)--"])
def test_a_pattern_is_never_part_of_a_query(tmp_path, word):
    fill(tmp_path / "s", [window_at(0)])
    with pytest.raises(StoreError, match="nothing matches"):
        read(tmp_path / "s", word)


def cut(file):
    os.truncate(file, file.stat().st_size // 2)


def scribble(file):
    content = bytearray(file.read_bytes())
    content[len(content) // 4 : len(content) // 2] = b"\xff" * (
        len(content) // 2 - len(content) // 4
    )
    file.write_bytes(content)


def empty(file):
    os.truncate(file, 0)


def replaced(file):
    file.write_bytes(b"PAR1" + b"\xff\xff\xff\x7f" * 8 + b"PAR1")


@pytest.mark.parametrize("harm", [cut, scribble, empty, replaced])
@pytest.mark.parametrize("kind", [SAMPLES, COVERAGE])
def test_a_damaged_segment_is_said_and_the_rest_counts(tmp_path, harm, kind):
    segments = fill(tmp_path / "s", [window_at(minute) for minute in range(5)])
    harm(tmp_path / "s" / segments[3].path(kind))
    found = read(tmp_path / "s")
    assert by_function(found) == by_function(stacks_profile(), times=4)
    assert found.run.wall_seconds == 240
    said = [limit for limit in found.run.limits if segments[3].path(SAMPLES) in limit]
    assert len(said) == 1
    assert "/proc/" not in said[0]
    # The hole that it leaves is said too.
    assert any("Nothing was measured from" in limit for limit in found.run.limits)


@pytest.mark.parametrize("harm", [cut, scribble, empty, replaced])
def test_damaged_names_leave_the_hits_and_other_names(tmp_path, harm):
    segments = fill(tmp_path / "s", [window_at(0), window_at(60)])
    for kind in (FUNCTIONS, STACKS):
        harm(tmp_path / "s" / segments[1].path(kind))
    found = read(tmp_path / "s", stacks=True)
    assert by_function(found) == by_function(stacks_profile(), times=2)


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        (SAMPLES, "start"),
        (SAMPLES, "comm"),
        (SAMPLES, "t"),
        (SAMPLES, "n"),
        (COVERAGE, "until"),
        (COVERAGE, "cpu"),
    ],
)
def test_a_segment_without_a_value_is_said_and_the_rest_counts(tmp_path, kind, column):
    segments = fill(tmp_path / "s", [window_at(minute) for minute in range(5)])
    lose_a_value(tmp_path / "s" / segments[3].path(kind), column)
    # Times are read where they are asked about.
    found = read(tmp_path / "s", f"since:{iso(0)}")
    assert by_function(found) == by_function(stacks_profile(), times=4)
    assert found.run.wall_seconds == 240
    said = [limit for limit in found.run.limits if segments[3].path(SAMPLES) in limit]
    assert len(said) == 1
    assert f"{column} has no value in 1 row" in said[0]


@pytest.mark.parametrize("column", ["aliases", "path"])
def test_names_without_a_value_leave_the_hits_and_other_names(tmp_path, column):
    segments = fill(tmp_path / "s", [window_at(0), window_at(60)])
    lose_a_value(tmp_path / "s" / segments[1].path(FUNCTIONS), column)
    found = read(tmp_path / "s", stacks=True)
    assert by_function(found) == by_function(stacks_profile(), times=2)


@pytest.mark.parametrize("column", ["aliases", "name", "path", "is_global", "address"])
def test_names_some_of_which_have_no_value_are_lost_and_the_hits_count(tmp_path, column):
    (segment,) = fill(tmp_path / "s", [window_at(0)])
    lose_a_value(tmp_path / "s" / segment.path(FUNCTIONS), column)
    found = read(tmp_path / "s", stacks=True)
    assert found.hits.count.sum() == 30
    assert set(found.objects.path) == {"[name lost: damaged segment]"}
    assert any(f"{segment.path(FUNCTIONS)} is left out" in one for one in found.run.limits)
    assert "lost its names" in found.objects.note[0]


def test_names_that_are_gone_leave_the_hits(tmp_path):
    segments = fill(tmp_path / "s", [window_at(0), window_at(1)])
    (tmp_path / "s" / segments[0].path(FUNCTIONS)).unlink()
    (tmp_path / "s" / segments[0].path(STACKS)).unlink()
    found = read(tmp_path / "s", stacks=True)
    assert found.hits.count.sum() == 60
    assert set(found.functions.name) == {""}
    assert "lost its names" in found.objects.note[0]


def test_a_segment_of_a_newer_version_is_said(tmp_path, monkeypatch):
    fill(tmp_path / "s", [window_at(0)])
    with monkeypatch.context() as newer:
        newer.setattr(file_schema, "VERSION", file_schema.VERSION + 1)
        fill(tmp_path / "s", [window_at(1)])
    found = read(tmp_path / "s")
    assert found.hits.count.sum() == 30
    assert any("update it" in limit for limit in found.run.limits)


def test_where_nothing_can_be_read_that_is_an_error(tmp_path):
    (segment,) = fill(tmp_path / "s", [window_at(0)])
    cut(samples_file(tmp_path / "s", segment))
    with pytest.raises(StoreError, match="no segment can be read"):
        read(tmp_path / "s")


def test_segments_of_another_rate_are_left_out_and_said(tmp_path):
    profile = stacks_profile()
    faster = replace(profile.run.events[0], frequency_hz=1000.0)
    other = replace(profile, run=replace(profile.run, events=(faster,)))
    fill(tmp_path / "s", [window_at(0, other), window_at(1)])
    found = read(tmp_path / "s")
    assert found.hits.count.sum() == 30
    assert any("another rate" in limit for limit in found.run.limits)


def test_services_tell_processes_apart(tmp_path):
    rows = stacks_profile().processes.name
    fill(tmp_path / "s", [window_at(0, services={rows.index("work"): "web.service"})])
    assert read(tmp_path / "s", "service:web*").hits.count.sum() == 21


@pytest.mark.parametrize("identity", ["3f2a" * 16, "3f2a*", "*", "container-3f2a3f2a3f2a"])
def test_containers_are_known_by_their_ids(tmp_path, identity):
    rows = stacks_profile().processes.name
    service = service_of(f"/docker/{'3f2a' * 16}")
    fill(tmp_path / "s", [window_at(0, services={rows.index("work"): service})])
    assert read(tmp_path / "s", f"container:{identity}").hits.count.sum() == 21
    with pytest.raises(StoreError, match="container: there is"):
        read(tmp_path / "s", "container:4444")


def test_without_duckdb_one_line_says_what_to_install(tmp_path, monkeypatch):
    with StoreDirectory(str(tmp_path / "s"), create=True) as store:
        monkeypatch.setattr("prospect.store.engine.find_spec", lambda _: None)
        with pytest.raises(StoreError, match=r"pip install 'prospect-profiler\[store\]'"):
            Engine(store)


def test_the_engine_sees_no_file_outside_of_its_store(tmp_path):
    (tmp_path / "secret").write_text("secret")
    with StoreDirectory(str(tmp_path / "s"), create=True) as store:
        engine = Engine(store)
        for query in (
            f"SELECT * FROM read_text('{tmp_path}/secret')",
            f"COPY (SELECT 1) TO '{tmp_path}/made'",
            f"ATTACH '{tmp_path}/made'",
            "INSTALL httpfs",
            "SET enable_external_access=true",
        ):
            with pytest.raises(Exception, match=r"Permission|disabled|locked|not allowed|Cannot"):
                engine.run(query)
        engine.close()
    assert not (tmp_path / "made").exists()


def test_times_are_kept_to_the_microsecond(tmp_path):
    fill(tmp_path / "s", [window_at(0)])
    with StoreDirectory(str(tmp_path / "s")) as store:
        engine = Engine(store)
        (path,) = [store.root + one.path(SAMPLES) for one in store.segments()]
        assert engine.rows("SELECT DISTINCT t FROM read_parquet(?)", [[path]]) == [(BEGIN_S * US,)]
        engine.close()


@pytest.mark.parametrize(
    ("words", "hits"),
    [
        (["exclude-symbol:jitted,vfs_*"], 20),
        (["symbol:work,jitted", "exclude-symbol:jit*"], 8),
        (["dependent:no"], 14),
        (["unit-mask:0"], 30),
    ],
)
def test_words_that_leave_out_leave_out_the_same_of_a_store(tmp_path, words, hits):
    fill(tmp_path / "s", [window_at(0)])
    assert read(tmp_path / "s", *words).hits.count.sum() == hits


def test_words_of_events_say_what_there_is(tmp_path):
    fill(tmp_path / "s", [window_at(0)])
    with pytest.raises(StoreError, match="nothing matches count:7; count: there is 3906250"):
        read(tmp_path / "s", "count:7")
    assert read(tmp_path / "s", "count:3906250").hits.count.sum() == 30
    with pytest.raises(StoreError, match="nothing matches unit-mask:3; unit-mask: there is 0"):
        read(tmp_path / "s", "unit-mask:3")


def test_what_has_no_name_says_why_and_is_not_called_lost(tmp_path):
    profile = stacks_profile()
    source = np.full(len(profile.functions), NameSource.NO_STRIPPED, np.uint8)
    profile = replace(profile, functions=replace(profile.functions, source=source))
    fill(tmp_path / "s", [window_at(0, profile)])
    with StoreDirectory(str(tmp_path / "s")) as store:
        health = health_of(store)
    assert health.nameless_hits == health.hits > 0
    assert {one.why for one in health.nameless} == {LABELS[NameSource.NO_STRIPPED]}
