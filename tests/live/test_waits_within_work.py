"""Waits for requests are idle; those for answers and locks are work, and last as long."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

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
    recorded = [*PROSPECT, "record", "--no-python", "--off-cpu", "-o", file, str(program)]
    ran = subprocess.run(recorded, check=True, timeout=60, capture_output=True, text=True)
    request_s, answer_s = (int(word) / 1e9 for word in ran.stdout.split())
    report = [*PROSPECT, "report", "--format", "json", file]
    found = subprocess.run(report, check=True, timeout=60, capture_output=True).stdout
    waiting = json.loads(found)["waiting"]
    (server,) = [one for one in waiting["threads"] if one["name"] == "server"]
    polls = {one["idle"]: one["seconds"] for one in waiting["blockers"] if one["name"] == "poll"}
    ready_s = server["runnable_s"] + server["stackless_s"] + SLACK_S
    for idle, took_s in ((True, request_s), (False, answer_s)):
        assert took_s - ready_s < polls[idle] < took_s + SLACK_S


SPIN = """
import threading, time
def spin():
    end = time.monotonic() + 0.6
    while time.monotonic() < end: pass
def work(): spin()
threads = [threading.Thread(target=work) for _ in range(3)]
for one in threads: one.start()
for one in threads: one.join()
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="reads Python on x86-64 only")
@pytest.mark.skipif(not Path("/sys/kernel/btf/vmlinux").exists(), reason="needs BTF")
@pytest.mark.skipif(sysconfig.get_config_var("Py_GIL_DISABLED"), reason="has no global lock")
def test_waits_for_the_global_lock_have_its_name_and_what_its_holder_did(tmp_path):
    file = str(tmp_path / "perf.data")
    recorded = [*PROSPECT, "record", "--off-cpu", "-o", file, sys.executable, "-c", SPIN]
    subprocess.run(recorded, check=True, timeout=60, capture_output=True)
    report = [*PROSPECT, "report", "--format", "json", file]
    found = subprocess.run(report, check=True, timeout=60, capture_output=True).stdout
    waiting = json.loads(found)["waiting"]
    lock = "Python's global lock"
    (waits,) = [one for one in waiting["blockers"] if one["name"] == lock]
    assert not waits["idle"]
    # Three threads that never leave the CPU by themselves: two wait at a time.
    spinning = [one for one in waiting["threads"] if one["cpu_s"] > 0.05]
    blocked_s = sum(one["blocked_s"] for one in spinning)
    assert waits["seconds"] > 0.5 * blocked_s
    first = waiting["holders"][0]
    assert (first["lock"], first["function"], first["caller"]) == (lock, "spin", "work")
    assert 0 < first["seconds"] <= waits["seconds"] * 1.5
