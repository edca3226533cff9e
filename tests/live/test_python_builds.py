"""Python functions where threads are found in the lists of interpreters, as from 3.13 on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from builders.examples import nightly
from builders.pythons import installed, python_of
from builders.recordings import PROSPECT
from prospect.abi import runtime_frames as wire
from prospect.analysis.pipeline import build_profile
from prospect.analysis.profile_request import ProfileRequest
from prospect.events.decode import decode
from prospect.options import NamingOptions
from prospect.perfdata.reader import open_recording

pytestmark = [
    pytest.mark.live,
    pytest.mark.parallel,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="reads Python on x86-64 only"),
    pytest.mark.skipif(not Path("/sys/kernel/btf/vmlinux").exists(), reason="needs BTF"),
]
SUBINTERPRETERS = """
import _interpreters
IDLE = [_interpreters.create() for _ in range(3)]
INNER = '''
import time
def inside(end):
    while time.process_time() < end:
        sum(range(1000))
inside(time.process_time() + 0.4)
'''
def calls():
    _interpreters.exec(_interpreters.create(), INNER)
def outside(end):
    while time.process_time() < end:
        sum(range(1000))
import time
calls()
outside(time.process_time() + 0.4)
"""
# The thread has 1,400 samples at 2,000 Hz.
THREADS = """
import threading, time
time.sleep(0.3)  # by its end the reader of frames is there
stop = threading.Event()
def work():
    while time.thread_time() < 0.7:
        sum(range(1000))
first = threading.Thread(target=work)
first.start()
for _ in range(300):
    threading.Thread(target=stop.wait, daemon=True).start()
first.join()
"""


@pytest.fixture(scope="module")
def python():
    found = [path for minor in range(13, 17) for path in installed(f"python3.{minor}")]
    if not found:
        pytest.skip("no CPython 3.13 or later is installed")
    return str(found[0])


def record(file, python, text):
    line = [*PROSPECT, "record", "-H", "2000", "-o", str(file), python, "-c", text]
    subprocess.run(line, capture_output=True, check=True, timeout=120)


def functions(file):
    """How many samples of COMMAND each function has, itself or as a caller."""
    profile = build_profile(open_recording(str(file)), NamingOptions(), ProfileRequest(stacks=True))
    names = np.array(profile.functions.name, object)[profile.locations.function_index]
    command = np.flatnonzero(profile.processes.is_command)
    is_command = np.isin(profile.hits.process_index, command)[profile.samples.hit_index]
    found = {}
    rows, counts = np.unique(profile.samples.stack_index[is_command], return_counts=True)
    for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
        met, at = set(), row
        while at >= 0:
            met.add(names[profile.stacks.location_index[at]])
            at = profile.stacks.caller_index[at]
        for name in met:
            found[name] = found.get(name, 0) + count
    return found


BY_NUMBER = """
from prospect.capture.python import interpreters
interpreters._GLIBC = b"another C library"
from prospect.__main__ import main
main()
"""


# Laid out like 3.8, as far as this goes.
BETWEEN = nightly(9, 10)


@pytest.mark.parametrize("minor", [8, *BETWEEN, *nightly(11, 12)])
def test_threads_of_older_versions_are_found_by_number_too(minor, tmp_path):
    """As with musl, or glibc that is linked statically."""
    python, file = python_of(f"3.{minor}"), tmp_path / "perf.data"
    line = [sys.executable, "-c", BY_NUMBER, "record", "-H", "2000", "-o", str(file)]
    subprocess.run([*line, python, "-c", THREADS], capture_output=True, check=True, timeout=120)
    assert functions(file)["work"] > 900


@pytest.mark.parametrize("minor", [*nightly(8), *BETWEEN, 11, *nightly(12, 13, 14), 15])
def test_functions_of_a_subinterpreter_are_its_own(minor, tmp_path):
    text = SUBINTERPRETERS
    if minor < 13:
        text = text.replace("_interpreters.exec", "_interpreters.run_string")
        text = text.replace("import _inter", "import _xxsubinterpreters as _inter")
    record(tmp_path / "perf.data", str(python_of(f"3.{minor}")), text)
    found = functions(tmp_path / "perf.data")
    # As long as each other; and interpreters that do nothing hide nothing.
    assert found["inside"] > 350
    assert found["outside"] > 350
    assert found.get("calls", 0) < 0.5 * found["inside"]


def test_a_thread_behind_many_is_found_within_some_samples(python, tmp_path):
    file = tmp_path / "perf.data"
    record(file, python, THREADS)
    with open_recording(str(file)) as recording:
        records = decode(recording.blocks(), recording.info.events, []).runtimes
        command_pid = recording.info.extras["command_pid"]
    status = records.status[records.task & np.uint64(0xFFFFFFFF) == command_pid]
    assert len(status) > 900
    assert (status == wire.WALKED).mean() > 0.95
    assert functions(file)["work"] > 900
