"""CPython with -X perf and -X perf_jit: the whole chain of Python functions, as the program ran."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from builders.examples import nightly
from builders.pythons import installed
from builders.recordings import PROSPECT, record

pytestmark = [
    pytest.mark.live,
    pytest.mark.parallel,
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="needs the unwinder's machine"),
]
PROGRAM = """
import os
def leaf(n):
    total = 0
    for number in range(n):
        total += number * number
    return total
def often(n): return leaf(n)
def seldom(n): return leaf(n)
def top():
    print(os.getpid())
    for _ in range(300):
        often(20_000)
        seldom(5_000)
top()
"""
CHAIN = "py::<module>", "py::top", "py::often", "py::leaf"


def newer_python(option: str) -> str:
    """Return a Python that has an option, of PATH or of pyenv; "" where there is none."""
    versions = ("3.13", "3.14") if option == "perf_jit" else ("3.12", "3.13", "3.14")
    on_path = (shutil.which(f"python{version}") for version in versions)
    built = (str(one) for version in versions for one in installed(f"python{version}"))
    for python in (*filter(None, on_path), *built):
        builds_them = "import sysconfig; print(sysconfig.get_config_var('PY_HAVE_PERF_TRAMPOLINE'))"
        ran = subprocess.run([python, "-c", builds_them], capture_output=True, check=False)
        if ran.stdout == b"1\n":
            return python
    return ""


@pytest.mark.parametrize("option", ["perf", *nightly("perf_jit")])
def test_every_python_function_of_a_stack_is_in_its_place(option, tmp_path):
    python = newer_python(option)
    if not python:
        pytest.skip(f"no Python here has -X {option}")
    program, recording = tmp_path / "work.py", tmp_path / "run.data"
    program.write_text(PROGRAM)
    words = "--call-graph", "dwarf", python, "-X", option, program
    pid = int(record(recording, *words, frequency_hz=500).stdout)
    ran = subprocess.run(
        [*PROSPECT, "report", "--format", "folded", recording],
        capture_output=True, text=True, timeout=100, check=True,
    )  # fmt: skip
    for written in (f"/tmp/perf-{pid}.map", f"/tmp/jit-{pid}.dump"):
        Path(written).unlink(missing_ok=True)
    hits = {"often": 0, "seldom": 0}
    in_leaf = 0
    for line in ran.stdout.splitlines():
        stack, _, count = line.rpartition(" ")
        functions = [one.split(":/")[0] for one in stack.split(";") if one.startswith("py::")]
        if functions[-1:] == ["py::leaf"]:
            in_leaf += int(count)
            for caller in hits:
                if functions == [*CHAIN[:2], f"py::{caller}", CHAIN[3]] and "_start;" in stack:
                    hits[caller] += int(count)
    assert in_leaf > 50
    # All but samples within the few instructions of a trampoline itself.
    assert sum(hits.values()) > 0.95 * in_leaf
    # It turns its loop four times as often for one as for the other.
    assert hits["often"] / sum(hits.values()) == pytest.approx(0.8, abs=0.15)
