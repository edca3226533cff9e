"""What the reader of Python functions left out is said once: by a session, a store, a daemon."""

from __future__ import annotations

import pytest

from builders.stacks import stacks_profile
from builders.stored import fill, window_at
from prospect.abi import runtime_frames as wire
from prospect.capture.runtimes.runtime_reader import RuntimeFrames
from prospect.daemon.status import Totals
from prospect.live.joined import join_runs
from prospect.profile.run_info import counted_notes, left_out_notes
from prospect.records import replace
from prospect.store.directory import StoreDirectory
from prospect.store.part import Apart, read_part
from prospect.store.specification import parse_specifications


def limits(frames, since=None, **counts):
    """Return what is said after these were counted."""
    names, pid = counts.pop("refused", 0), counts.pop("pid", 0)
    frames._state.count(**counts)
    if names:
        frames._state.refused(names, pid)
    return frames.limits_since(since or {})


@pytest.mark.parametrize("kind", ["missed", "held_up", "lost", "refused"])
def test_what_was_left_out_adds_up_over_parts(kind):
    frames = RuntimeFrames()
    assert limits(frames) == []
    (first,) = limits(frames, **{kind: 3})
    before = frames.counts
    assert limits(frames, before) == []
    more = {kind: 7} if kind == "refused" else {kind: 4}  # which is said as a total
    (second,) = limits(frames, before, **more)
    (whole,) = counted_notes([first, second])
    assert whole == first.replace(": 3", ": 7")
    assert left_out_notes(["another", whole]) == (whole,)


def test_the_process_is_that_of_the_part_with_most_names():
    frames = RuntimeFrames()
    notes = [*limits(frames, refused=5, pid=70), *limits(frames, refused=2, pid=80)]
    (whole,) = counted_notes(notes)
    assert "names left out: 7, most of them of process 70," in whole


def test_a_version_that_is_not_known_is_named_once():
    notes = []
    for pid in (70, 80):
        frames = RuntimeFrames()
        frames._state.unknown(wire.CPYTHON, 0x307, pid)
        notes += frames.limits
    frames._state.unknown(wire.CPYTHON, 0x310, 90)
    assert len(counted_notes([*notes, *frames.limits])) == 2
    assert counted_notes(notes) == (notes[0],)


def test_how_exact_readings_from_memory_are_is_said_once():
    notes = [f"Python functions were read from memory {n} ms after each sample" for n in (2, 3)]
    notes += [f"Python functions: samples without them, as said: {n} (at most)." for n in (4, 5)]
    assert counted_notes(notes) == (
        notes[0],
        "Python functions: samples without them, as said: 9 (at most).",
    )


def test_sessions_stores_and_daemons_say_it_once_with_the_sum(tmp_path):
    frames, windows, totals, runs = RuntimeFrames(), [], Totals(), []
    for minute in range(3):
        before = frames.counts
        profile = stacks_profile()
        run = replace(profile.run, limits=("always", *limits(frames, before, missed=minute + 1)))
        runs.append(run)
        windows.append(window_at(minute, replace(profile, run=run)))
        totals.add(windows[-1], 0)
    sums = [totals.left_out, join_runs(runs).limits]
    pytest.importorskip("duckdb")
    fill(tmp_path / "s", windows)
    with StoreDirectory(str(tmp_path / "s")) as store:
        sums.append(read_part(store, parse_specifications(()), Apart()).run.limits)
    for said in sums:
        (one,) = [note for note in said if note.startswith("Functions of runtimes: ")]
        assert one.endswith(": 6.")


@pytest.mark.parametrize(
    ("runtime", "version", "words"),
    [
        (wire.RUBY, 0x206, "Ruby 2.6 (process 7) was not read: Prospect reads 2.7 and later."),
        (wire.RUBY, 0x400, "Ruby 4.0 (process 7) was not read: this version of Prospect"),
        (wire.V8, 0x804, "V8 8.4 (process 7) was not read: this version of Prospect"),
        (wire.PHP, 0, "PHP (process 7) was not read: its code is not known."),
    ],
)
def test_a_runtime_that_is_not_read_is_named_once(runtime, version, words):
    frames = RuntimeFrames()
    frames._state.unknown(runtime, version, 7)
    (sentence,) = frames.limits_since({})
    assert sentence.startswith(words)
    assert counted_notes([sentence, sentence.replace("process 7", "process 7 and 1 more")]) == (
        sentence,
    )
