"""Python functions of an ordinary user's programs: read from their memory, without eBPF."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from builders.another_user import WHO, prospect_of_another_user, python_of_another_user
from builders.command_line import run_here, running
from builders.examples import nightly
from builders.pythons import every_python
from builders.recordings import PROGRAMS
from builders.waiting import cpu_seconds, wait_for
from prospect.analysis.pipeline import build_profile
from prospect.analysis.profile_request import ProfileRequest
from prospect.capture.events import event_choice
from prospect.live.record_limiters import Bounds
from prospect.live.session import LiveSession
from prospect.options import NamingOptions
from prospect.perfdata.reader import open_recording
from prospect.profile.model import KIND_JAVASCRIPT, KIND_PYTHON
from prospect.recording.opened_events import RecordOptions

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(
        os.uname().machine not in {"x86_64", "aarch64"}, reason="reads CPython on x86-64 and arm64"
    ),
]
PROGRAM = PROGRAMS / "python_batches.py"
FUNCTIONS = ("recursion", "looping", "in_c")
# With half as long in a thread, at the default rate: four standard deviations of 200 samples.
SECONDS = "0.65"
# What an ordinary user gets, whoever runs the tests: events of COMMAND alone, and no eBPF.
CODE = """
from prospect.capture.events import event_choice
scopes = event_choice._scopes
event_choice._scopes = lambda: scopes()[1:]
from prospect.__main__ import main
main()
"""
WITHOUT_EBPF = (sys.executable, "-c", CODE)
# The thread may be preempted at any place between a sample and its reading, on a busy machine.
SLACK = 0.15


def chains(file, kind=KIND_PYTHON):
    """Of each sample of COMMAND the names of its functions of a kind, the innermost first."""
    profile = build_profile(open_recording(str(file)), NamingOptions(), ProfileRequest(stacks=True))
    function = profile.locations.function_index
    names = np.array(profile.functions.name, object)[function]
    is_kind = profile.objects.kind[profile.functions.object_index[function]] == kind
    command = np.flatnonzero(profile.processes.is_command)
    is_command = np.isin(profile.hits.process_index, command)[profile.samples.hit_index]
    found = []
    for row in profile.samples.stack_index[is_command].tolist():
        chain, at = [], row
        while at >= 0:
            location = profile.stacks.location_index[at]
            if is_kind[location]:
                chain.append(names[location])
            at = profile.stacks.caller_index[at]
        found.append(chain)
    return found, profile.run.limits


def named(chain):
    """Return the one of the three functions that a chain is in, "" if it is in none."""
    return next((one for one in FUNCTIONS for name in chain if name.split(".")[0] == one), "")


def check(file, told, least_rooted):
    """Compare the recording with what the program says of itself."""
    found, limits = chains(file)
    assert len(found) > 100
    python = [chain for chain in found if chain]
    assert len(python) >= 0.9 * len(found)
    # Of the threads' loops: one of the three functions, or what calls it.
    working = [chain for chain in python if named(chain) or "spin" in chain]
    rooted = [
        chain for chain in working if chain[-1] == "<module>" or chain[-1].endswith("bootstrap")
    ]
    assert len(rooted) >= least_rooted * len(working)
    # Those that are not cut so far inside have the whole way out.
    begun = sum("spin" in chain for chain in working)
    assert sum("spin" in chain for chain in rooted) >= 0.99 * begun
    inside = [name for name in map(named, python) if name]
    total = sum(told.values())
    for name in FUNCTIONS:
        assert inside.count(name) / len(inside) == pytest.approx(told[name] / total, abs=SLACK)
    assert any(limit.startswith("Python functions were read from memory") for limit in limits)


@pytest.mark.parametrize("python", every_python(), ids=str)
def test_each_function_has_its_share(python, tmp_path):
    file = tmp_path / "perf.data"
    # Alone, and at the default rate: the share of a CPU that reading may take is enough for it, not
    # for 500 Hz on every machine.
    line = [*WITHOUT_EBPF, "record", "-o", str(file), *python.line(PROGRAM, SECONDS)]
    ran = subprocess.run(line, capture_output=True, text=True, timeout=120, check=True)
    # Up to CPython 3.10 a thread that leaves a frame while it is read cuts the chain there.
    is_cut = any(f"python3.{minor}" in python.path for minor in (8, 9, 10))
    check(file, json.loads(ran.stdout.splitlines()[-1]), 0.5 if is_cut else 0.93)


# Alone: a reader that waits for a CPU reads later functions than those of the samples.
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="reads them on x86-64 only")
@pytest.mark.parametrize(
    ("command", "script"),
    [
        ("ruby", "split.rb"),
        pytest.param("ruby", "c_functions.rb", marks=pytest.mark.nightly),
        ("php", "split.php"),
    ],
)
def test_ruby_and_php_have_their_shares(command, script, tmp_path):
    if not shutil.which(command):
        pytest.skip(f"no {command} is installed")
    file = tmp_path / "perf.data"
    line = [*WITHOUT_EBPF, "record", "-H", "200", "-o", str(file), command]
    # On a slow machine the readers' share of a CPU is enough for a quarter of the samples.
    line += [str(PROGRAMS / script), "5"]
    ran = subprocess.run(line, capture_output=True, text=True, timeout=120, check=True)
    told = json.loads(ran.stdout)
    language = {"ruby": "Ruby", "php": "PHP"}[command]
    assert f"{language} functions were read from memory" in ran.stderr
    report = run_here("report", "-V2", "--format", "folded", file)
    counts = dict.fromkeys(told, 0)
    for row in report.stdout.decode().splitlines():
        stack, _, count = row.rpartition(" ")
        names = (one.split(" (")[0].removeprefix("block in ") for one in stack.split(";"))
        if name := next((one for one in names if one in counts), ""):
            counts[name] += int(count)
    total = sum(counts.values())
    assert total > 200
    for name, share in told.items():
        assert counts[name] / total == pytest.approx(share, abs=SLACK), name


def recorded_node(file, options, words, seconds="1.3", **keywords):
    """Record Node's program; return its own account, and the note on samples without functions."""
    line = [*WITHOUT_EBPF, "record", *options, "-o", str(file), *words]
    line += [str(PROGRAMS / "node_split.js"), seconds]
    ran = subprocess.run(line, capture_output=True, text=True, timeout=120, check=True, **keywords)
    return json.loads(ran.stdout.splitlines()[-1]), ran.stderr


needs_node = pytest.mark.skipif(
    os.uname().machine != "x86_64" or not shutil.which("node"), reason="needs Node on x86-64"
)


@pytest.mark.parallel
@needs_node
@pytest.mark.parametrize("options", [(), *nightly(("--jitless",))], ids=["compiled", "interpreted"])
def test_node_has_its_shares(options, tmp_path):
    file = tmp_path / "perf.data"
    told, said = recorded_node(file, ("-H", "500"), ("node", *options))
    # Registers and the inner part of the stack are the sample's.
    assert "less exact" not in said
    found, roots = node_chains(file)
    inside = [next((name for name in chain if name in told), "") for chain in found]
    inside = [name for name in inside if name]
    assert len(inside) > 300
    assert len(inside) >= 0.8 * len(found)
    assert sum(root in {"(anonymous)", "(module)"} for root in roots) >= 0.95 * len(roots)
    total = sum(told.values())
    for name, of_it in told.items():
        # Four standard deviations of a share of 600 samples.
        assert inside.count(name) / len(inside) == pytest.approx(of_it / total, abs=0.08), name


@pytest.mark.parallel
@needs_node
def test_without_copies_of_stacks_node_has_no_functions(tmp_path):
    file = tmp_path / "perf.data"
    _, said = recorded_node(file, ("--call-graph", "fp"), ("node",), "0.5")
    assert "JavaScript functions: samples without them" in said
    assert node_chains(file)[0] == []


def node_chains(file):
    """The JavaScript functions of samples that have some, and the outermost one of each.

    That of Node's start, and of a tick, is anonymous.
    """
    found = [chain[::-1] for chain in chains(file, KIND_JAVASCRIPT)[0] if chain]
    return found, [chain[0] for chain in found]


needs_another_user = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def place():
    """A directory that another user may write to; those of pytest may be closed at any time."""
    with tempfile.TemporaryDirectory(prefix="prospect-", dir="/var/tmp") as directory:
        Path(directory).chmod(0o777)
        yield Path(directory)


@pytest.mark.parallel
@needs_another_user
@pytest.mark.parametrize("words", [*nightly(()), ("sh", "-c", 'sleep 0.2; exec "$@"', "sh")])
def test_another_user_sees_the_functions_of_a_program(words, place):
    program = place / "program.py"
    program.write_bytes(PROGRAM.read_bytes())
    recorder = [*prospect_of_another_user(), "record", "-o", "perf.data"]
    line = [*recorder, *words, python_of_another_user(), str(program), SECONDS]
    environment = os.environ | {"HOME": str(place)}
    ran = subprocess.run(
        line,
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
        cwd=place,
        env=environment,
        **WHO,
    )
    assert ran.returncode == 0, ran.stderr
    assert "less exact" in ran.stderr
    found, _ = chains(place / "perf.data")
    assert set(FUNCTIONS) <= set(itertools.chain.from_iterable(found))


@pytest.mark.parallel
@needs_another_user
@pytest.mark.parametrize(
    ("source", "function"),
    [("python_batches.py", "recursion"), pytest.param("node_split.js", "leaf", marks=needs_node)],
)
def test_another_user_attaches_to_a_program(source, function, place):
    program = place / source
    program.write_bytes((PROGRAMS / source).read_bytes())
    environment = os.environ | {"HOME": str(place)}
    interpreter = "node" if source.endswith(".js") else python_of_another_user()
    line = [interpreter, str(program), "30"]
    with running(line, stdout=subprocess.DEVNULL, env=environment, **WHO) as started:
        wait_for(lambda: cpu_seconds(started.pid) >= 0.4)
        recorder = [*prospect_of_another_user(), "record", "-p", str(started.pid), "--for", "0.7"]
        ran = subprocess.run(
            [*recorder, "-o", "perf.data"],
            capture_output=True,
            check=True,
            timeout=60,
            cwd=place,
            env=environment,
            **WHO,
        )
    assert (b"less exact" in ran.stderr) == source.endswith(".py")
    profile = build_profile(
        open_recording(str(place / "perf.data")), NamingOptions(), ProfileRequest()
    )
    assert function in profile.functions.name


@pytest.mark.parallel
@pytest.mark.parametrize(
    ("interpreter", "source", "functions"),
    [
        (sys.executable, "python_batches.py", {"recursion", "looping"}),
        pytest.param("node", "node_split.js", {"recursion", "leaf"}, marks=needs_node),
    ],
    ids=["python", "node"],
)
def test_a_session_shows_them_too(interpreter, source, functions, monkeypatch):
    scopes = event_choice._scopes
    monkeypatch.setattr(event_choice, "_scopes", lambda: scopes()[1:])
    line = [interpreter, str(PROGRAMS / source), "60"]
    with running(line, stdout=subprocess.DEVNULL) as program:
        options = RecordOptions(frequency_hz=500, pids=(program.pid,))
        with closing(LiveSession(options, bounds=Bounds(spool_bytes=1 << 20))) as session:
            until = time.monotonic() + 60
            names: set[str] = set()
            while not names >= functions and time.monotonic() < until:
                time.sleep(0.3)
                state = session.advance()
                names = set(state.profile.functions.name)
    assert names >= functions
    is_python = source.endswith(".py")
    assert any("less exact" in limit for limit in state.limits) == is_python
