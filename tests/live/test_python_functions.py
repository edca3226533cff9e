"""--python on the running kernel: programs whose split over Python functions is known."""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import prospect
from builders.another_user import prospect_of_another_user
from builders.command_line import running
from builders.examples import nightly
from builders.perf_tool import events_shown
from builders.pythons import Python, every_python, python_of
from builders.recordings import PROGRAMS, PROSPECT
from builders.silent_mount import silent_mount
from builders.tracer import tracing
from builders.waiting import cpu_seconds, wait_for
from prospect.abi import runtime_frames as wire
from prospect.analysis.pipeline import build_profile
from prospect.analysis.profile_request import ProfileRequest
from prospect.daemon.daemon_options import DaemonOptions
from prospect.daemon.sampling import Sampling
from prospect.estimate.accounting.sample_accounting import sample_accounting
from prospect.events.decode import decode
from prospect.live.record_limiters import Bounds
from prospect.live.session import LiveSession
from prospect.options import NamingOptions
from prospect.perfdata.reader import open_recording
from prospect.profile.complete import complete
from prospect.profile.model import KIND_PYTHON
from prospect.recording.opened_events import RecordOptions
from prospect.store import file_schema

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="reads Python on x86-64 only"),
    pytest.mark.skipif(not Path("/sys/kernel/btf/vmlinux").exists(), reason="needs BTF"),
]
PROGRAM = PROGRAMS / "python_split.py"
FUNCTIONS = ("recursion", "in_c", "sorting", "generating", "raising", "awaiting")
# At 2,000 Hz, with half as long in a thread: four standard deviations of a share of 2,000 samples.
SECONDS = 0.7
# Where it is enough that each function is met; a round of all of them takes 0.16 s.
MET_SECONDS = 0.25
SLACK = 0.045


def record(file, python, *options, seconds=SECONDS):
    line = [*PROSPECT, "record", "-H", "2000", *options, "-o", str(file)]
    command = [*line, *python.line(PROGRAM, str(seconds))]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return json.loads(ran.stdout.splitlines()[-1])


def chains(file, *, lines=False):
    """Of each sample of COMMAND the functions from the outermost on, and whether each is Python's.

    With the line that each is at, or 0 without `lines`.
    """
    wanted = ProfileRequest(stacks=True, lines=lines)
    profile = build_profile(open_recording(str(file)), NamingOptions(), wanted)
    function = profile.locations.function_index
    names = np.array(profile.functions.name, object)[function]
    is_python = profile.objects.kind[profile.functions.object_index[function]] == KIND_PYTHON
    line = np.zeros(len(function), np.int64)
    if lines:
        found = profile.lines
        line = np.append(found.line, 0)[np.maximum(found.frame_start[1:], 1) - 1]
    command = np.flatnonzero(profile.processes.is_command)
    is_command = np.isin(profile.hits.process_index, command)[profile.samples.hit_index]
    found = []
    for row in profile.samples.stack_index[is_command].tolist():
        chain, at = [], row
        while at >= 0:
            location = profile.stacks.location_index[at]
            chain.append((names[location], bool(is_python[location]), int(line[location])))
            at = profile.stacks.caller_index[at]
        found.append(chain[::-1])
    return found


def check(found, told, begun_share=0.9):
    """Compare shares, roots and callers' lines with what is known.

    `begun_share` is how much of the samples the interpreter's start leaves at least, but for those
    of its imports.
    """
    # Imports have a `main` too: that of site.
    ours = [chain for chain in found if ("_find_and_load", True) not in {one[:2] for one in chain}]
    begun = [chain for chain in ours if any(name == "main" for name, _, _ in chain)]
    python = [[one for one in chain if one[1]] for chain in begun]
    rooted = [
        chain
        for chain in python
        if chain[0][0] in {"<module>", "_bootstrap"} or chain[0][0].endswith("._bootstrap")
    ]
    assert len(rooted) >= 0.995 * len(python)
    assert len(begun) >= begun_share * len(ours)
    total = sum(told.values())
    spun = [[name for name, _, _ in chain] for chain in begun]
    inside = [names[names.index("spin") + 1 :] for names in spun if "spin" in names]
    for function in FUNCTIONS:
        share = sum(names[:1] == [function] for names in inside) / len(inside)
        assert share == pytest.approx(told[function] / total, abs=SLACK), function
    source = PROGRAM.read_text().splitlines()
    for chain in python:
        for (caller, _, line), (callee, _, _) in itertools.pairwise(chain):
            if caller == "recursion":
                assert line in {
                    source.index(one) + 1 for one in source if "recursion(n - 1)" in one
                }
            if caller == "spin" and callee in FUNCTIONS:
                assert source[line - 1].strip() == "function()"


@pytest.mark.parallel
@pytest.mark.parametrize("python", every_python(), ids=str)
def test_each_function_has_its_share(python, tmp_path):
    told = record(tmp_path / "perf.data", python)
    # A build for debugging starts slowly.
    begun_share = 0.7 if python.path.endswith("d") else 0.9
    check(chains(tmp_path / "perf.data", lines=True), told, begun_share)


@pytest.mark.parallel
def test_python_that_another_program_starts_is_met(tmp_path):
    file = tmp_path / "perf.data"
    line = ["sh", "-c", 'sleep 0.3; exec "$@"', "sh", sys.executable, str(PROGRAM)]
    line.append(str(MET_SECONDS))
    recorder = [*PROSPECT, "record", "-H", "2000", "-o", str(file)]
    subprocess.run([*recorder, *line], capture_output=True, timeout=120, check=True)
    functions = {name for chain in chains(file) for name, is_python, _ in chain if is_python}
    assert functions >= set(FUNCTIONS)


@pytest.mark.parallel
def test_python_stands_between_native_frames(tmp_path):
    file = tmp_path / "perf.data"
    options = ("--call-graph", "dwarf,16384", "-H", "1400")
    told = record(file, Python(sys.executable), *options, seconds=1)
    found = chains(file, lines=True)
    check(found, told)
    # Below the outermost Python function are those of C that started it.
    began = [chain for chain in found if any(name == "main" for name, _, _ in chain)]
    assert sum(not chain[0][1] for chain in began) > 0.9 * len(began)


LOOP = """
import time
def inner(n):
    for i in range(n): i * i
def outer():
    inner(10000)
time.sleep(0.3)
while time.process_time() < 0.4:
    outer()
"""


def hot_functions(*options):
    program = [sys.executable, str(PROGRAM), str(MET_SECONDS)]
    line = [*PROSPECT, *options, "--format", "folded", *program]
    ran = subprocess.run(line, capture_output=True, text=True, timeout=120, check=True)
    return {
        frame for line in ran.stdout.splitlines() for frame in line.rpartition(" ")[0].split(";")
    }


@pytest.mark.parallel
def test_functions_are_read_unless_said_otherwise():
    assert "recursion" in hot_functions()
    assert "recursion" not in hot_functions("--no-python")


@pytest.mark.parallel
def test_the_interpreters_own_functions_are_called_by_python():
    assert {"_PyEval_EvalFrameDefault", "recursion"} <= hot_functions("--native")


def python_functions(profile, pid):
    """Hits of each Python function in a process."""
    process = np.flatnonzero(profile.processes.pid == pid)
    function = profile.locations.function_index[profile.hits.location_index]
    owner = profile.functions.object_index[function]
    is_mine = np.isin(profile.hits.process_index, process)
    is_mine &= profile.objects.kind[owner] == KIND_PYTHON
    hits = {}
    for row, count in zip(
        function[is_mine].tolist(), profile.hits.count[is_mine].tolist(), strict=True
    ):
        name = profile.functions.name[row]
        hits[name] = hits.get(name, 0) + count
    return hits


@pytest.mark.parallel
@pytest.mark.parametrize("follows", [*nightly(False), True], ids=["everything", "one process"])
def test_a_session_and_what_it_saves_show_the_same_functions(follows, tmp_path):
    line = [sys.executable, str(PROGRAM), "30"]
    with running(line, stdout=subprocess.DEVNULL) as program:
        pids = (program.pid,) if follows else ()
        options = RecordOptions(frequency_hz=1000, call_graph="fp", pids=pids)
        session = LiveSession(options, bounds=Bounds(spool_bytes=1 << 20))
        try:
            begun_s = cpu_seconds(program.pid)
            # The last part has a round of all functions in both threads, 0.32 s, and more.
            for used_s in (0.2, 0.4, 1.0):
                wait_for(lambda used_s=used_s: cpu_seconds(program.pid) > begun_s + used_s)
                state = session.advance()
            session.save(str(tmp_path / "saved"))
        finally:
            session.close()
    # Of other processes names may have been left out.
    assert not [one for one in state.limits if one.startswith("Python functions were not read")]
    shown = python_functions(state.profile, program.pid)
    saved = python_functions(prospect.open(tmp_path / "saved"), program.pid)
    assert {"recursion", "inner", "fail", "Callback.key"} <= shown.keys() & saved.keys()
    # The small spool holds the end of what is shown, of a program that does now this, now that.
    shares = [hits["recursion"] / sum(hits.values()) for hits in (shown, saved)]
    assert shares[0] == pytest.approx(shares[1], abs=0.3)
    assert saved.get("[not read]", 0) <= 0.01 * sum(saved.values())
    if shutil.which("perf"):
        assert events_shown(tmp_path / "saved") == {"cpu-clock"}


@pytest.mark.parallel
@pytest.mark.skipif(shutil.which("capsh") is None, reason="needs capsh")
def test_two_capabilities_do_in_place_of_root(tmp_path):
    tmp_path.chmod(0o777)
    file = tmp_path / "perf.data"
    words = [*prospect_of_another_user(), "record", "-o", str(file), "/usr/bin/python3", "-c", LOOP]
    capabilities = "cap_bpf,cap_perfmon"
    line = ["capsh", "--keep=1", "--user=nobody", f"--inh={capabilities}"]
    line += [f"--addamb={capabilities}", "--", "-c", f"cd /; {shlex.join(words)}"]
    for directory in tmp_path.parents[:3]:
        if directory.name.startswith(("pytest", "popen")):
            directory.chmod(0o755)
    environment = os.environ | {"HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run(line, check=True, capture_output=True, timeout=60, env=environment)
    assert {"inner", "outer"} <= {name for chain in chains(file) for name, _, _ in chain}


def functions_of_window(sampling, program):
    """End a window in which a program has used some CPU time; return functions and their files."""
    begun_s = cpu_seconds(program.pid)
    wait_for(lambda: cpu_seconds(program.pid) > begun_s + 0.25)
    functions = sampling.take()[0].tables[file_schema.FUNCTIONS]
    return set(zip(functions["name"], functions["path"], strict=True))


@pytest.mark.parallel
def test_a_window_of_the_daemon_has_them():
    line = [sys.executable, str(PROGRAM), "30"]
    with (
        running(line, stdout=subprocess.DEVNULL) as program,
        Sampling(DaemonOptions(frequency_hz=400)) as sampling,
    ):
        wanted = ("recursion", str(PROGRAM))  # programs of other tests have one, too
        wait_for(lambda: wanted in functions_of_window(sampling, program))
        # Its name was sent for an earlier window.
        assert wanted in functions_of_window(sampling, program)


MAPS = """
import mmap, os, sys, time
mapped = mmap.mmap(os.open(sys.argv[1], os.O_RDONLY), 4096, mmap.MAP_PRIVATE, mmap.PROT_EXEC)
print(flush=True)
time.sleep(30)
"""


def test_a_python_whose_file_system_does_not_answer_is_left_out_and_named(tmp_path):
    """Others are read, and the window says that there was one which is not."""
    (tmp_path / "m").mkdir()
    maps = [sys.executable, "-c", MAPS, str(tmp_path / "m" / "python3.11")]
    line = [sys.executable, str(PROGRAM), "30"]
    with (
        silent_mount(tmp_path / "m", takes=True, has_file=True),
        Sampling(DaemonOptions(frequency_hz=400)) as sampling,
        running(line, stdout=subprocess.DEVNULL) as program,
        subprocess.Popen(maps, stdout=subprocess.PIPE) as mapper,
    ):
        try:
            assert mapper.stdout.readline() == b"\n"
            wait_for(lambda: cpu_seconds(program.pid) > 0.5)
            window, _ = sampling.take()
        finally:
            mapper.kill()
    assert "recursion" in window.tables[file_schema.FUNCTIONS]["name"]
    said = [limit for limit in window.head.run["limits"] if "Functions of runtimes: " in limit]
    assert len(said) == 1
    assert "could not be read" in said[0]


def test_perf_reads_such_a_recording(tmp_path):
    file = tmp_path / "perf.data"
    record(file, Python(sys.executable), seconds=0.3)
    perf = shutil.which("perf")
    if perf is None:
        pytest.skip("perf is not installed")
    line = [perf, "script", "-i", str(file), "-F", "event,pid"]
    ran = subprocess.run(line, capture_output=True, text=True, check=True, timeout=60)
    events = {words.split()[1] for words in ran.stdout.splitlines() if words.split()}
    assert events == {"cpu-clock:"}
    listed = subprocess.run([perf, "evlist", "-i", str(file)], capture_output=True, check=True)
    assert listed.stdout.split() == [b"cpu-clock"]
    shown = subprocess.run(
        [perf, "report", "--stdio", "-g", "none", "-i", str(file)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "WARNING" not in shown.stderr.upper()
    assert re.findall("^# Samples: .* of event '(.*)'", shown.stdout, re.MULTILINE) == ["cpu-clock"]
    with open_recording(str(file)) as recording:
        assert [one.name for one in recording.info.events] == ["cpu-clock", wire.EVENT_NAME]
        found = decode(recording.blocks(), recording.info.events)
    assert len(found.runtimes.sample) > 0
    assert found.damage == ()


def false_python(directory):
    program = directory / "python3.11"
    source = PROGRAMS / "false_python.c"
    line = ["gcc", "-O1", "-rdynamic", "-o", str(program), str(source), "-pthread"]
    subprocess.run(line, check=True, timeout=60)
    return program


def test_a_process_that_makes_up_names_sends_a_bounded_number_of_bytes(tmp_path):
    """Others' samples and functions are there, and the report says what was left out."""
    file = tmp_path / "perf.data"
    with running([str(false_python(tmp_path)), "flood", "30"]):
        record(file, Python(sys.executable), "-a", "-H", "500", seconds=0.6)
    python = decode_recording(file)[0].runtimes
    sizes = dict.fromkeys(python.images, 0)
    for key, text in python.texts.items():
        sizes[key.image] += len(text.lines or b"")
    # 2 MB at once, and 122 KB in each second; without bounds many times as much.
    assert 1 << 20 < max(sizes.values()) < 5 << 20
    functions = {name for chain in chains(file) for name, is_python, _ in chain if is_python}
    assert functions >= set(FUNCTIONS)
    with open_recording(str(file)) as recording:
        limits = recording.info.extras["limits"]
    words = "Functions of runtimes: names left out: ", ", most of them of process "
    assert any(all(word in one for word in words) for one in limits)


@pytest.mark.parallel
def test_a_version_that_is_not_known_is_named(tmp_path):
    """Not as something that root would see: the tests are root's."""
    python = python_of("3.7")
    record(tmp_path / "perf.data", Python(str(python)), seconds=0.3)
    with open_recording(str(tmp_path / "perf.data")) as recording:
        limits = recording.info.extras["limits"]
    assert [one for one in limits if one.startswith("CPython 3.7 (process ")]
    assert [one for one in limits if one.endswith("was not read: Prospect reads 3.8 and later.")]


@pytest.mark.parallel
@pytest.mark.parametrize("mode", ["loop", "kernel", *nightly("garbage", "long")])
def test_frames_that_are_none_cost_their_process_nothing_but_names(mode, tmp_path):
    program = false_python(tmp_path)
    file = tmp_path / "perf.data"
    line = [*PROSPECT, "record", "-H", "2000", "-o", str(file), str(program), mode, "0.5"]
    subprocess.run(line, check=True, capture_output=True, timeout=60)
    events, command_pid = decode_recording(file)
    python = events.runtimes
    status = python.status[python.task & np.uint64(0xFFFFFFFF) == command_pid]
    assert len(status) > 400
    assert (np.diff(python.start) <= wire.MOST_FRAMES).all()
    expected = {"loop": wire.TRUNCATED, "long": wire.TRUNCATED}.get(mode, wire.FAULT)
    assert (status == expected).mean() > 0.95
    assert all(len(text.lines or b"") <= wire.MOST_LINES_BYTES for text in python.texts.values())
    found = chains(file)
    assert len(found) > 400
    assert ("abc" in {name for chain in found for name, _, _ in chain}) == (mode == "loop")


def decode_recording(file):
    with open_recording(str(file)) as recording:
        events = decode(recording.blocks(), recording.info.events, [])
        return events, recording.info.extras["command_pid"]


def test_beside_tracers_that_cost_little_they_are_read(tmp_path):
    file = tmp_path / "perf.data"
    with tracing(turns=1):
        record(file, Python(sys.executable), seconds=MET_SECONDS)
    with open_recording(str(file)) as recording:
        assert not [one for one in recording.info.extras["limits"] if "Python" in one]
    assert decode_recording(file)[0].runtimes is not None


# Its system calls are most of what it does.
CALLING = """
import os, sys, time
def call():
    for _ in range(1000):
        os.getppid()
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    call()
"""


@pytest.mark.parametrize("option", ["", *nightly("--python")])
def test_where_another_tracer_begins_to_cost_samples(option, tmp_path):
    """The walker is detached, unless it is to stay; samples that were dropped are lost."""
    file, program = tmp_path / "perf.data", tmp_path / "calling.py"
    program.write_text(CALLING)
    options = [option] if option else []
    line = [*PROSPECT, "record", "-H", "500", *options, "-o", str(file), sys.executable]
    with running([*line, str(program), "3"], stderr=subprocess.DEVNULL) as recorder:
        time.sleep(1)
        with tracing(turns=300):
            recorder.wait(60)
    profile = build_profile(open_recording(str(file)), NamingOptions(), ProfileRequest())
    is_said = [one for one in profile.run.limits if "were read until another tracer" in one]
    command = np.flatnonzero(profile.processes.is_command)
    hits = profile.hits.count[np.isin(profile.hits.process_index, command)].sum()
    accounting = sample_accounting(complete(profile))
    lost = int(accounting.by_clock.lost.sum())
    assert profile.run.dropped_share > 0.02
    if option:
        assert not is_said
        assert lost > 0.5 * hits
    else:
        assert is_said
        assert lost < 0.5 * hits
    share = np.abs(accounting.by_clock.closure).sum() / accounting.by_clock.expected.sum()
    assert share < 0.02


def test_beside_a_tracer_that_costs_much_they_are_not_read_at_all(tmp_path):
    file, program = tmp_path / "perf.data", tmp_path / "calling.py"
    program.write_text(CALLING)
    busy = [sys.executable, str(program), "20"]
    line = [*PROSPECT, "record", "-o", str(file), sys.executable, str(program), "0.5"]
    with tracing(turns=300), running(busy):
        subprocess.run(line, check=True, capture_output=True, timeout=60)
    with open_recording(str(file)) as recording:
        limits = " ".join(recording.info.extras["limits"])
    assert "Python functions were not read: another tracer's programs" in limits
    assert decode_recording(file)[0].runtimes is None
