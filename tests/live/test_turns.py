"""Turns of a server that knows by its own clocks what they consist of."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from builders.recordings import PROSPECT, build_program
from prospect.analysis.pipeline import build_profile
from prospect.analysis.profile_request import ProfileRequest
from prospect.estimate.finished_report import Report
from prospect.estimate.wall_account import HOST
from prospect.options import NamingOptions
from prospect.perfdata.reader import open_recording

pytestmark = [
    pytest.mark.live,
    pytest.mark.parallel,
    pytest.mark.skipif(os.geteuid() != 0, reason="wake-ups are recorded by root"),
]

REQUESTS = 100
LEAST_TURN_S = 0.002 + 2 * (0.003 + 0.005) + 0.001


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What the program says of itself, and the account of its server's turns."""
    file = tmp_path_factory.mktemp("turns") / "perf.data"
    program = build_program(tmp_path_factory.mktemp("bin"), "turns")
    line = [*PROSPECT, "record", "--off-cpu", "-H", "1000", "-o", str(file)]
    line += [str(program), str(REQUESTS)]
    ran = subprocess.run(line, check=False, timeout=60, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    naming = NamingOptions(debuginfod_s=0)
    wanted = ProfileRequest(waits=True, turns=True)
    profile = build_profile(open_recording(str(file)), naming, wanted)
    with Report(profile, "3") as report:
        kinds = report.turns.kinds
    servers = [kind for kind in kinds if kind.kind == "handle"]
    assert servers, [kind.kind for kind in kinds]
    return json.loads(ran.stdout), servers[0]


def seconds(kind, **wanted):
    rows = [r for r in kind.rows if all(getattr(r, name) == one for name, one in wanted.items())]
    return sum(row.seconds for row in rows) / kind.turns


def ran(kind, **whose):
    """Return the time on a CPU by a thread's own clock, which counts what the host took of it."""
    return seconds(kind, state="running", **whose) + seconds(kind, what=HOST, **whose)


def test_turns_add_up_and_are_as_long_as_their_parts(found):
    truth, kind = found
    assert sum(row.seconds for row in kind.rows) == pytest.approx(kind.seconds, rel=1e-3)
    # On a busy machine the next request is there before the server waits for it.
    assert REQUESTS / 2 <= kind.turns <= REQUESTS
    least_s = min(truth["turns"] / REQUESTS, LEAST_TURN_S)
    assert 0.97 * least_s <= kind.median.value <= kind.longest_s


def test_own_time_is_what_the_server_ran(found):
    truth, kind = found
    ran_s = (truth["parse"] + truth["render"]) / REQUESTS
    assert 0.97 * ran_s <= ran(kind, thread="own thread") <= 1.15 * ran_s


def test_the_databases_time_is_in_the_turns_that_wait_for_it(found):
    truth, kind = found
    ran_s, slept_s = truth["lookup"] / REQUESTS, truth["slept"] / REQUESTS
    database = {"thread": "other process", "during": "poll"}
    assert 0.97 * ran_s <= ran(kind, **database) <= 1.15 * ran_s
    blocked_s = seconds(kind, state="blocked", what="sleep", **database)
    # The database's clock goes on while it waits for a CPU after its sleep.
    assert 2 * 0.005 <= blocked_s <= 1.03 * slept_s
