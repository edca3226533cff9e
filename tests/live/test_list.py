"""`prospect list`: what is listed can be asked for, and --check says what the kernel says."""

from __future__ import annotations

import json
import subprocess

import pytest

from builders.json_schema import document_errors
from builders.recordings import PROSPECT

pytestmark = [pytest.mark.live, pytest.mark.parallel]


def listed(*words):
    line = [*PROSPECT, "list", "--format", "json", *words]
    ran = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
    assert not ran.stderr
    found = json.loads(ran.stdout)
    assert document_errors(found) == []
    return found["events"]


def test_software_events_can_be_counted_and_sampled_here():
    events = {event["name"]: event for event in listed("--check", "software")}
    assert events["page-faults"]["other_names"] == ["faults"]
    for name in ("cpu-clock", "page-faults", "context-switches"):
        assert events[name]["check"] == {
            "can_count": True,
            "can_sample": True,
            "user_only": False,
            "why_not": "",
        }


@pytest.mark.parametrize("name", ["cpu-clock", "software", "instructions", "LLC-*"])
def test_the_status_says_whether_it_can_be_counted(name):
    checked = {event["name"]: event["check"]["can_count"] for event in listed("--check", name)}
    can_count = checked.get(name, any(checked.values()))
    for words in (["--check"], []):
        ran = subprocess.run([*PROSPECT, "list", *words, name], capture_output=True, check=False)
        assert ran.returncode == int(bool(words) and not can_count)


def test_what_is_not_here_has_a_reason():
    for event in listed("--check", "hardware"):
        check = event["check"]
        assert bool(check["why_not"]) == (not (check["can_count"] and check["can_sample"]))


def test_tracepoints_tell_their_fields():
    (event,) = listed("--fields", "sched:sched_switch")
    assert {"declaration": "pid_t prev_pid", "size": 4} in event["fields"]


def test_units_tell_their_parameters():
    kinds = {event["kind"] for event in listed()}
    assert {"software", "hardware", "cache", "tracepoint"} <= kinds
    for event in listed():
        if event["kind"] == "unit":
            assert event["parameters"]


def test_the_table_has_a_line_an_event():
    line = [*PROSPECT, "list", "sched:*"]
    ran = subprocess.run(line, capture_output=True, text=True, timeout=60, check=True)
    heading, *rows = ran.stdout.splitlines()
    assert heading.split()[:2] == ["Event", "Kind"]
    assert all(row.startswith("sched:") and "tracepoint" in row for row in rows)
    assert len(rows) == len(listed("sched:*"))
