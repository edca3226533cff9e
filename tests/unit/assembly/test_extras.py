"""Whatever stands in Prospect's own section, a profile and its reports come of it."""

from __future__ import annotations

import io
import json

import pytest

from builders import perfdata as build
from builders.sources import CLOCK, CLOCK_ID, BuiltSource
from prospect.abi.recorded_facts import RecordingInfo
from prospect.analysis.pipeline import build_profile
from prospect.assembly.extras import by_number, counts_of, number_of, texts_of
from prospect.options import NamingOptions
from prospect.render.registry import make_renderer

KEYS = (
    *("command", "command_pid", "exit_status", "recorder_pids", "started_at", "interval_ns"),
    *("scope", "frequency_hz", "limits", "processes", "cpus", "proc_stat", "rusage"),
    *("recorder_rusage", "lost_by_cpu", "counters", "uname", "cpu_mhz", "syscalls"),
)
HUGE = 10**400
NOT_A_NUMBER = float("nan")
NESTED = json.loads("[" * 300 + "]" * 300)
VALUES = (
    *(None, True, -1, 0.5, 1 << 31, 1 << 63, HUGE, 5e-324, 1e308, NOT_A_NUMBER, float("inf")),
    *("x", "\ud800", [], [None], [HUGE], [1 << 40], [100, HUGE], [NOT_A_NUMBER], NESTED, {}),
    *({"²": 1}, {"9" * 5000: 1}, {"9" * 19: 1}, {"1": 1 << 70}, {"1": NESTED}),
    *({"10": [1 << 40] * 4}, {"10": [None] * 4}, {"10": [NOT_A_NUMBER] * 4}),
    {"hz": 5e-324, "start": {"cpu": [0]}, "end": {"cpu": [HUGE]}},
    {"hz": 100, "start": {"cpu": 1}, "end": []},
)
RECORDS = build.RecordBuilder()
SAMPLE = RECORDS.sample(ip=16, pid=10, tid=10, time=5, period=10_000_000, id=CLOCK_ID)


def check(extras):
    info = RecordingInfo(events=(CLOCK,), extras=extras)
    profile = build_profile(BuiltSource([SAMPLE], info), NamingOptions(use_cache=False))
    assert profile.hits.count.tolist() == [1]
    for name in ("text", "json", "csv"):
        make_renderer(name, detail="4").render(profile, io.BytesIO())


@pytest.mark.parametrize("first", range(len(VALUES)))
def test_no_value_of_any_key_does_harm(first):
    """Each key has each value once, next to others of other keys."""
    check({key: VALUES[(first + row) % len(VALUES)] for row, key in enumerate(KEYS)})


@pytest.mark.nightly
@pytest.mark.parametrize("key", KEYS)
def test_no_value_of_a_key_alone_does_harm(key):
    for value in VALUES:
        check({"command": ["c"], key: value})


def test_what_is_no_finite_number_counts_as_none():
    assert [number_of(value) for value in (HUGE, NOT_A_NUMBER, "1", None)] == [0.0] * 4
    assert number_of(1 << 40) == float(1 << 40)


def test_lists_are_taken_whole_or_not_at_all():
    assert counts_of([1, 2]) == (1, 2)
    assert counts_of([1, -2]) == counts_of([1, 1 << 63]) == counts_of(["1"]) == ()
    assert texts_of(["a", 1, "b"]) == ("a", "b")


def test_only_keys_that_pids_can_be_are_numbers():
    assert by_number({"12": "a", "x": 1, "²": 1, "-1": 1, str(1 << 31): 1}) == {12: "a"}
