"""Real loads: every figure adds up to the one above it, and to the kernel's own books."""

from __future__ import annotations

import json
import math
import shutil
import sys

import numpy as np
import pytest

import prospect
from builders.recordings import build_program, hits_by, profile_of, record
from builders.sums import check_sums

pytestmark = pytest.mark.live

PYTHON = "def hot(n):\n s = 0\n for i in range(n): s += i % 7\n return s\nhot(3_000_000)"
SCRIPT = "function hot(n){let s=0;for(let i=0;i<n;i++)s+=i%7;return s};for(let k=0;k<300;k++)hot(1e6)"
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
C_SOURCE = b"".join(b"int f%d(int a){return a*%d+a/%d;}\n" % (n, n, n) for n in range(1, 3000))


@pytest.fixture(scope="module", params=LOADS)
def load(request, tmp_path_factory):
    """Record each of the loads once; give its name and the file."""
    directory = tmp_path_factory.mktemp("loads")
    words = LOADS[request.param]
    if not shutil.which(words[0]):
        pytest.skip(f"{words[0]} is not there")
    if request.param == "node":
        words = (words[0], f"--perf-basic-prof-path={directory}", *words[1:])
    record(directory / "r", *words, frequency_hz=1000, input=C_SOURCE, cwd=directory)
    return request.param, directory / "r"


def test_every_sum_is_the_figure_above_it(load):
    _, file = load
    profile = prospect.open(file, use_cache=False)
    check_sums(profile)


def test_hits_without_an_object_are_few(load):
    _, file = load
    objects = hits_by(prospect.open(file, use_cache=False), "object")
    assert objects.get("[unknown]", 0) <= max(3, 0.005 * sum(objects.values())), objects


def test_the_loads_own_routines_lead(load):
    name, file = load
    expected = {
        "python": ("libpython", "PyEval_EvalFrameDefault"),
        "sqlite3": ("libsqlite3", "sqlite3VdbeExec"),
        "dd": ("[kernel", ""),
        "gcc": ("cc1", ""),
    }
    if name not in expected:
        pytest.skip("nothing is known of its routines")
    profile = prospect.open(file, use_cache=False)
    command = profile.processes.is_descendant[profile.hits.process_index]
    table = profile.hits_table()
    counts = {}
    for row in np.flatnonzero(command & (profile.hits.process_index >= 0)):
        key = table["object"][row], table["function"][row]
        counts[key] = counts.get(key, 0) + table["hits"][row]
    print(sorted(counts.items(), key=lambda item: -item[1])[:5])
