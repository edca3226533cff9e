"""A server's waits for requests are idle; those for an answer are work, and last as long."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from builders.recordings import PROSPECT, build_program

pytestmark = [
    pytest.mark.live,
    pytest.mark.parallel,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
]

SLACK_S = 0.002  # 40 times the way into poll() and out


def test_waits_for_answers_are_work_and_those_for_requests_are_idle(tmp_path):
    program = build_program(tmp_path, "answers", "-pthread")
    file = str(tmp_path / "perf.data")
    recorded = [*PROSPECT, "record", "--off-cpu", "-o", file, str(program)]
    ran = subprocess.run(recorded, check=True, timeout=60, capture_output=True, text=True)
    request_s, answer_s = (int(word) / 1e9 for word in ran.stdout.split())
    report = [*PROSPECT, "report", "--no-cache", "--format", "json", file]
    found = subprocess.run(report, check=True, timeout=60, capture_output=True).stdout
    waiting = json.loads(found)["waiting"]
    (server,) = [one for one in waiting["threads"] if one["name"] == "server"]
    polls = {one["idle"]: one["seconds"] for one in waiting["blockers"] if one["name"] == "poll"}
    ready_s = server["runnable_s"] + server["stackless_s"] + SLACK_S
    for idle, took_s in ((True, request_s), (False, answer_s)):
        assert took_s - ready_s < polls[idle] < took_s + SLACK_S
    text = subprocess.run(
        [*PROSPECT, "report", "--no-cache", file], check=True, timeout=60, capture_output=True
    ).stdout.decode()
    (line,) = [line for line in text.splitlines() if line.startswith("Waits:")]
    assert "poll" in line.partition("; idle:")[0]
