"""What the formats say of waiting, of a recording whose times are known."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from builders.json_schema import schema_errors
from builders.pages import report_of
from builders.sources import CLOCK
from builders.switches import SWITCH, switched_profile
from prospect.figures.report.waiting import LockHolder
from prospect.profile.run_info import Throttled
from prospect.records import replace
from prospect.render.text.first_screen import listed_with

SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "report.schema.json").read_text())


@pytest.fixture(scope="module")
def profile():
    return switched_profile(CLOCK, SWITCH, stacks=True)


def rendered(profile, name, **options):
    return report_of(profile, name, detail="4", **options).decode()


def test_the_text_report_adds_up_each_thread(profile):
    lines = rendered(profile, "text").splitlines()
    title = lines.index("Waiting: What Each Thread Did All its Life")
    rows = [line.split() for line in lines[title + 3 : title + 6]]
    first, second, total = rows
    assert first[:5] == ["prog", "5", "5", "0.000100", "0.000058"]
    assert first[7:] == ["0.000021", "0.000021", "0.000020", "1", "1"]
    assert second[:8] == ["prog", "5", "6", "0.000027", "0.000020", "-", "-", "0.000007"]
    assert second[8:] == ["0.000000", "0.000000", "0", "0"]
    assert total[0] == "Total"
    assert "On CPU, runnable and blocked add up to 100.00% of 0.000127 Sec of life." in lines


def test_json_has_the_same_and_keeps_to_its_schema(profile):
    document = json.loads(rendered(profile, "json"))
    assert schema_errors(document, SCHEMA, SCHEMA) == []
    waiting = document["waiting"]
    assert [thread["tid"] for thread in waiting["threads"]] == [5, 6]
    for thread in waiting["threads"]:
        parts = ("cpu_s", "runnable_s", "blocked_s", "unknown_s")
        assert sum(thread[part] for part in parts) == pytest.approx(thread["life_s"])
    assert [blocker["seconds"] for blocker in waiting["blockers"]] == [pytest.approx(2e-5)]


@pytest.mark.parametrize(("read_ns", "is_named"), [(1_000, True), (3_000_000_000, False)])
def test_a_wait_from_before_is_named_by_the_call_that_was_read(profile, read_ns, is_named):
    begin_ns = profile.run.begin_ns
    calls = {5: "read", 6: "clock_nanosleep", 7: "poll"}
    run = replace(profile.run, calls_before=(begin_ns + read_ns, calls))
    threads = profile.threads
    long_ns = np.where(threads.tid == 6, 2_000_000_000, 0)
    threads = replace(
        threads,
        begin_ns=np.full(len(threads), begin_ns, np.uint64),
        since_before_ns=long_ns,
        blocked_ns=threads.blocked_ns + long_ns,
        stackless_ns=threads.stackless_ns + long_ns,
    )
    found = replace(profile, run=run, threads=threads)
    text = rendered(found, "text")
    assert ("idle: clock_nanosleep 2.000 s" in text) is is_named
    assert ("reason unknown 2.000 s" in text) is not is_named
    blockers = json.loads(rendered(found, "json"))["waiting"]["blockers"]
    sleeps = [one for one in blockers if one["name"] == "clock_nanosleep"]
    assert [(one["waits"], one["longest_s"]) for one in sleeps] == [(1, 2.0)] * is_named


def test_waits_from_before_are_added_to_those_of_the_same_call(profile):
    (known,) = json.loads(rendered(profile, "json"))["waiting"]["blockers"]
    begin_ns, threads = profile.run.begin_ns, profile.threads
    run = replace(profile.run, calls_before=(begin_ns, {6: known["name"]}))
    longer = replace(
        threads,
        begin_ns=np.full(len(threads), begin_ns, np.uint64),
        since_before_ns=np.where(threads.tid == 6, 10**9, 0),
    )
    found = replace(profile, run=run, threads=longer)
    blockers = json.loads(rendered(found, "json"))["waiting"]["blockers"]
    same = [one for one in blockers if one["name"] == known["name"]]
    assert sum(one["waits"] for one in same) == known["waits"] + 1
    assert sum(one["seconds"] for one in same) == pytest.approx(known["seconds"] + 1.0)


def test_what_a_cpu_limit_stopped_is_not_blamed_on_other_processes(profile):
    limits = (
        Throttled("/of others", 9, 9, 9.0, (77,)),
        Throttled("/parent", 50, 1, 0.000001, (5,)),
        Throttled(f"/{'long/' * 20}box", 45, 41, 0.00001, (5, 6)),
    )
    limited = replace(profile, run=replace(profile.run, throttled=limits))
    text = rendered(limited, "text").splitlines()
    (line,) = [line for line in text if line.startswith("Throttled:")]
    assert line.startswith("Throttled: 0.00 s by a CPU limit, 41 of 45 periods (cgroup ...")
    assert line.endswith("long/box +1)")
    assert len(line) <= 79
    (whole,) = [one for one in text if one.startswith("Of ") and "a CPU limit stopped" in one]
    assert "for about 0.000011 Sec: no other process had the CPU instead." in whole
    document = json.loads(rendered(limited, "json"))
    assert schema_errors(document, SCHEMA, SCHEMA) == []
    assert [one["throttled"] for one in document["throttled"]] == [41, 1]
    assert "Throttled:" not in rendered(profile, "text")


def test_the_line_of_waits_splits_off_what_was_throttled(profile):
    run = replace(profile.run, throttled=(Throttled("/box", 45, 41, 2.94, (5,)),))
    threads = profile.threads
    longer = replace(threads, runnable_ns=threads.runnable_ns + 2_000_000_000)
    text = rendered(replace(profile, run=run, threads=longer), "text")
    assert "for a CPU (about 2.94 s throttled) 4.000 s" in text
    assert "Throttled: 2.94 s by a CPU limit, 41 of 45 periods (cgroup /box)" in text


def test_folded_stacks_and_the_flame_graph_are_of_wall_time(profile):
    values = [int(line.rpartition(" ")[2]) for line in rendered(profile, "folded").splitlines()]
    # The clock's sample is worth 10 ms, the waits 20 and 21 us.
    assert sum(values) == 10_000 + 20 + 21
    assert "cpu-clock + blocked + runnable" in rendered(profile, "svg")


def test_times_are_said_where_waits_are_no_samples():
    profile = switched_profile(CLOCK, SWITCH)
    assert "Waiting" in rendered(profile, "text")
    document = json.loads(rendered(profile, "json"))
    assert document["waiting"]["blockers"] is None
    assert schema_errors(document, SCHEMA, SCHEMA) == []


def test_the_first_screen_names_the_longest_waits_that_of_a_cpu_among_them(profile):
    threads = profile.threads
    long = np.array([3_000_000_000] + [0] * (len(threads) - 1), np.int64)
    (line,) = _waits(replace(profile, threads=replace(threads, runnable_ns=long)))
    assert line == "Waits:  for a CPU 3.000 s"
    assert _waits(profile) == ["Waits:  none"]  # 20 us are none to speak of


def test_waits_are_on_the_first_screen_without_a_sample_too(profile):
    hits = replace(profile.hits, count=np.zeros_like(profile.hits.count))
    lines = rendered(replace(profile, hits=hits), "text", recording="run.data").splitlines()
    first = lines[: lines.index("-" * 79)]
    assert [line for line in first if line.startswith("Waits:")] == ["Waits:  none"]
    assert "Next:   prospect calls run.data" in first


def test_waits_by_stacks_that_are_not_known_are_said(profile):
    unknown = np.array([2_000_000_000] + [0] * (len(profile.threads) - 1), np.int64)
    threads = replace(profile.threads, stackless_ns=unknown)
    assert _waits(replace(profile, threads=threads)) == ["Waits:  reason unknown 2.000 s"]


def _waits(profile):
    return [line for line in rendered(profile, "text").splitlines() if line.startswith("Waits:")]


def test_the_holder_of_a_lock_is_on_the_first_screen_if_it_fits():
    waits = [("for a CPU", "for a CPU 1.000 s"), ("a mutex", "a mutex 0.500 s")]
    more = {"a mutex": " (held in work)"}
    found = listed_with("Waits:  ", waits, more)
    assert found == "Waits:  for a CPU 1.000 s, a mutex 0.500 s (held in work)"
    wide = {"a mutex": f" (held in {40 * 'w'})"}
    assert listed_with("Waits:  ", waits, wide) == "Waits:  for a CPU 1.000 s, a mutex 0.500 s"
    assert listed_with("Waits:  ", waits, {}) == "Waits:  for a CPU 1.000 s, a mutex 0.500 s"


def test_what_holders_of_locks_did_is_a_section_and_in_json(profile, monkeypatch):
    holder = LockHolder("a mutex", "work(int)", "get(int)", 0.25)
    holders = "prospect.figures.report.waiting.BlockedWaits.holders"
    monkeypatch.setattr(holders, lambda *_: (holder,))
    lines = rendered(profile, "text").splitlines()
    title = lines.index("Locks, by What Their Holders Did while Others Waited")
    assert lines[title + 2].split() == ["Secs", "What", "Called", "by", "Function"]
    assert lines[title + 3].split() == ["0.250000", "a", "mutex", "get(int)", "work(int)"]
    document = json.loads(rendered(profile, "json"))
    assert schema_errors(document, SCHEMA, SCHEMA) == []
    (row,) = document["waiting"]["holders"]
    assert row == {
        "lock": "a mutex",
        "function": "work(int)",
        "caller": "get(int)",
        "seconds": 0.25,
    }
