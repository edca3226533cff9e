"""Real loads: every figure adds up to the one above it, and to the kernel's own books."""

from __future__ import annotations

import math
import shlex
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import prospect
from builders.examples import nightly
from builders.recordings import build_program, hits_by, profile_of, record
from builders.sums import check_sums
from prospect.perfdata.reader import open_recording

pytestmark = pytest.mark.live

PYTHON = "def hot(n):\n s = 0\n for i in range(n): s += i % 7\n return s\nhot(3_000_000)"
SCRIPT = (
    "function hot(n){let s=0;for(let i=0;i<n;i++)s+=i%7;return s};for(let k=0;k<150;k++)hot(1e6)"
)
ROWS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c WHERE x<400000)"
LOADS = {
    "python": (sys.executable, "-c", PYTHON),
    "node": ("node", "--perf-basic-prof", "-e", SCRIPT),
    "sqlite3": ("sqlite3", ":memory:", f"{ROWS} SELECT sum(x*x) FROM c ORDER BY 1"),
    "dd": ("dd", "if=/dev/zero", "of=/dev/null", "bs=64k", "count=100000", "status=none"),
    "gcc": ("gcc", "-O2", "-x", "c", "-c", "-o", "/dev/null", "-"),
    "idle": ("sleep", "0.5"),
    "nothing": ("true",),
}
# They take long, and show with their own functions what the others show.
LONG = ("node", "dd", "gcc")
C_SOURCE = b"".join(b"int f%d(int a){return a*%d+a/%d;}\n" % (n, n, n) for n in range(1, 1000))


# Where a load spends its time: a part of the object's name, and of the function's.
PLACES = {
    "python": ("python", "_PyEval_EvalFrameDefault"),
    "sqlite3": ("libsqlite3", "sqlite3VdbeExec"),
    "gcc": ("cc1", ""),
    "node": ("/tmp/perf-", "hot"),
    "dd": ("[kernel", ""),
}


@pytest.fixture(scope="module", params=[one for one in LOADS if one not in LONG] + nightly(*LONG))
def load(request, tmp_path_factory):
    """Record each of the loads once; give its name and the profile."""
    directory = tmp_path_factory.mktemp("loads")
    words = LOADS[request.param]
    if not shutil.which(words[0]):
        pytest.skip(f"{words[0]} is not there")
    record(directory / "r", *words, frequency_hz=1000, input=C_SOURCE, cwd=directory)
    yield request.param, prospect.open(directory / "r")
    with open_recording(str(directory / "r")) as recording:
        Path(f"/tmp/perf-{recording.info.extras['command_pid']}.map").unlink(missing_ok=True)


@pytest.mark.parallel
def test_every_sum_is_the_figure_above_it(load):
    _, profile = load
    check_sums(profile)


def check_that_few_have_no_object(objects):
    assert objects.get("[unknown]", 0) <= max(3, 0.005 * sum(objects.values())), objects


@pytest.mark.parallel
def test_hits_of_a_load_without_an_object_are_few(load):
    _, profile = load
    table = profile.hits_table(detail="4")
    is_its = profile.processes.is_descendant[profile.hits.process_index]
    objects = {}
    for row in np.flatnonzero(is_its & (profile.hits.process_index >= 0)).tolist():
        name = table["object"][row]
        objects[name] = objects.get(name, 0) + int(table["samples"][row])
    check_that_few_have_no_object(objects)


# Alone: other tests run code that is nobody's on purpose.
@pytest.mark.parametrize("left_out", [LONG, *nightly(())], ids=["some", "all"])
def test_hits_of_the_system_without_an_object_are_few(tmp_path, left_out):
    maps = set(Path("/tmp").glob("perf-*.map"))
    loads = [words for name, words in LOADS.items() if name not in left_out]
    script = "; ".join(shlex.join(words) for words in loads if shutil.which(words[0]))
    record(tmp_path / "r", "sh", "-c", script, frequency_hz=1000, input=C_SOURCE, cwd=tmp_path)
    profile = prospect.open(tmp_path / "r")
    for path in set(Path("/tmp").glob("perf-*.map")) - maps:
        path.unlink()
    check_that_few_have_no_object(hits_by(profile, "object"))


@pytest.mark.parallel
def test_what_a_load_is_known_to_do_is_among_its_functions(load):
    name, profile = load
    if name not in PLACES:  # the two that do next to nothing
        return
    place, function = PLACES[name]
    of_command = profile.processes.is_descendant[profile.hits.process_index]
    table = profile.hits_table(detail="4")
    found = {}
    for row in np.flatnonzero(of_command & (profile.hits.process_index >= 0)):
        key = table["object"][row], table["function"][row]
        found[key] = found.get(key, 0) + int(table["samples"][row])
    there = {key: hits for key, hits in found.items() if place in key[0] and function in key[1]}
    assert sum(there.values()) > 0.1 * sum(found.values()), found


def test_a_programs_time_is_what_the_kernel_booked(tmp_path):
    system = build_program(tmp_path, "system")
    profile = profile_of(tmp_path / "r", system, 400, frequency_hz=1000)
    for mode, time in (("user", "command_user_s"), ("kernel", "command_system_s")):
        booked = profile.run.accounting[time]
        sampled = hits_by(profile, "mode", process="system")[mode] / 1000
        assert booked > 0.2
        assert abs(sampled - booked) < 4 * math.sqrt(sampled / 1000) + 0.05 * booked, mode
