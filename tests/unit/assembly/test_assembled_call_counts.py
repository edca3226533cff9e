"""Counted calls find their process and their caller; whatever else stands there does no harm."""

from __future__ import annotations

import copy
from functools import partial

import numpy as np
import pytest

from builders import perfdata as build
from builders.sources import CLOCK, CLOCK_ID, BuiltSource
from prospect.abi.recorded_facts import RecordingInfo
from prospect.analysis.pipeline import build_profile
from prospect.options import NamingOptions
from prospect.profile.complete import complete

RECORDS = build.RecordBuilder()
PROGRAM = 0x400000
HUGE = 10**400
TAIL = {"id": CLOCK_ID, "cpu": 1}
sample = partial(RECORDS.sample, period=10_000_000, **TAIL)

DOCUMENT = {
    "is_exact": False,
    "budget": 0.05,
    "dropped": 3,
    "cost_ns": 2000,
    "cpu_ns": 50_000,
    "kinds": {"name": ["nop", "other"], "cost_ns": [100.0, 4000.0], "spread_ns": [1.0, 80.0]},
    "functions": {
        "name": ["_Z4leafi", "never"],
        "object": ["/none/first", "/none/first"],
        "address": [0x2000, 0x3000],
        "kind": [1, 0],
        "left_out": ["", "too hot"],
    },
    "counts": {
        "function": [0, 0, 0],
        "pid": [11, 11, 99],
        "caller": [PROGRAM + 9, PROGRAM + 9, 5],
        "calls": [40, 2, 1],
        "first_ns": [125, 145, 130],
    },
    "windows": {"own_ns": [1000, 0], "gap_ns": [9000, 500]},
    "by_window": {"window": [0, 1], "function": [0, 0], "pid": [11, 98], "calls": [30, 12]},
}


def counts_of(document):
    """Return the calls of a recording in which pid 11 executes two programs, one after another."""
    records = [
        RECORDS.comm(10, 10, "shell"),
        RECORDS.fork(11, 10, time=100, **TAIL),
        RECORDS.comm(11, 11, "first", is_exec=True, time=120, **TAIL),
        RECORDS.mmap2(11, 11, PROGRAM, 0x1000, "/none/first", pgoff=0x2000, time=121, **TAIL),
        sample(ip=PROGRAM + 8, pid=11, tid=11, time=130),
        RECORDS.comm(11, 11, "second", is_exec=True, time=140, **TAIL),
        RECORDS.mmap2(11, 11, PROGRAM, 0x1000, "/none/second", time=141, **TAIL),
        sample(ip=PROGRAM + 8, pid=11, tid=11, time=150),
    ]
    info = RecordingInfo(events=(CLOCK,), hostname="elsewhere", extras={"calls": document})
    source = BuiltSource(records, info)
    profile = build_profile(source, NamingOptions(use_cache=False))
    complete(profile)
    return profile.call_counts, profile


def test_calls_find_their_process_and_caller_by_time():
    counts, profile = counts_of(DOCUMENT)
    names = [*profile.processes.name, "none"]
    assert [names[row] for row in counts.process_index.tolist()] == ["first", "second", "none"]
    objects = profile.functions.object_index.take(counts.caller_index[:2])
    assert [profile.objects.path[row] for row in objects] == ["/none/first", "/none/second"]
    assert counts.calls.tolist() == [40, 2, 1]
    assert counts.functions.name == ["leaf(int)", "never"]
    assert counts.functions.probe_ns.tolist() == [4000.0, 100.0]
    assert counts.functions.left_out == ["", "too hot"]
    assert (counts.dropped, counts.cost_share) == (3, 0.04)


def test_windows_belong_to_the_process_that_called_first():
    counts, profile = counts_of(DOCUMENT)
    windows = counts.windows
    assert windows.own_s.tolist() == pytest.approx([1e-6, 0.0])
    assert windows.gap_s.tolist() == pytest.approx([9e-6, 5e-7])
    assert profile.processes.name[windows.process_index[0]] == "first"
    assert windows.process_index[1] == -1


def test_an_exact_recording_has_no_windows():
    assert counts_of({**DOCUMENT, "is_exact": True})[0].windows is None


def test_nothing_counted_is_no_table():
    assert counts_of(None)[0] is None
    empty = {name: [] for name in DOCUMENT["counts"]}
    counts, _ = counts_of({**DOCUMENT, "counts": empty})
    assert len(counts) == 0


PATHS = [
    ("functions", "name"),
    ("functions", "object"),
    ("functions", "address"),
    ("functions", "kind"),
    ("functions", "left_out"),
    ("kinds", "cost_ns"),
    ("kinds", "spread_ns"),
    ("counts", "function"),
    ("counts", "pid"),
    ("counts", "caller"),
    ("counts", "calls"),
    ("counts", "first_ns"),
    ("windows", "own_ns"),
    ("windows", "gap_ns"),
    ("by_window", "window"),
    ("by_window", "function"),
    ("by_window", "pid"),
    ("by_window", "calls"),
]


@pytest.mark.parametrize("path", PATHS, ids="-".join)
@pytest.mark.parametrize(
    "value",
    [
        None,
        5,
        "x",
        {},
        [],
        [None],
        [-1],
        [HUGE] * 3,
        [2**62] * 3,
        [1.5] * 3,
        ["\ud800", "b"],
        [7, 7],
    ],
    ids=str,
)
def test_whatever_stands_there_is_a_table_or_none(path, value):
    document = copy.deepcopy(DOCUMENT)
    part, key = path
    document[part][key] = value
    counts, profile = counts_of(document)
    if counts is None:
        return
    assert (counts.counted_index < len(counts.functions)).all()
    assert (counts.process_index < len(profile.processes)).all()
    assert (counts.caller_index < len(profile.functions)).all()
    if counts.windows is not None:
        assert (counts.windows.window_index < len(counts.windows)).all()
        assert (counts.windows.counted_index < len(counts.functions)).all()
        assert np.isfinite(counts.windows.own_s).all()


@pytest.mark.parametrize("value", [None, 5, "x", [], {}, HUGE, float("nan")], ids=str)
@pytest.mark.parametrize("key", sorted(DOCUMENT))
def test_a_part_that_is_another_thing_does_no_harm(key, value):
    counts_of({**DOCUMENT, key: value})
