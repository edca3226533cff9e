"""Functions of Node on the running kernel: a program whose split over them is known."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from builders.command_line import running
from builders.examples import nightly
from builders.recordings import PROGRAMS, PROSPECT, build_program
from builders.waiting import cpu_seconds, wait_for
from prospect.abi import runtime_frames as wire
from prospect.abi import v8
from prospect.analysis.pipeline import build_profile
from prospect.analysis.profile_request import ProfileRequest
from prospect.events.decode import decode
from prospect.options import NamingOptions
from prospect.perfdata.reader import open_recording
from prospect.profile.model import KIND_JAVASCRIPT

NODE = shutil.which("node") or ""
PROGRAM = PROGRAMS / "node_split.js"
FUNCTIONS = (
    *("recursion", "closures", "sorting", "generating", "raising", "inlining", "serializing"),
    "awaiting",
)
# At 2,000 Hz: four standard deviations of a share of 2,000 samples. What runs between two parts of
# an async function has no caller.
SECONDS, SLACK = 1, 0.045
# CPU time of a process that runs already.
RUNS_S = 0.5


def is_known():
    """Whether a Node is installed whose V8 is known."""
    if not NODE:
        return False
    line = [NODE, "-p", "process.versions.v8"]
    ran = subprocess.run(line, capture_output=True, text=True, timeout=60, check=True)
    major, minor = map(int, ran.stdout.split(".")[:2])
    return v8.builtins_place(major << 8 | minor) != (0, 0)


pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="reads frames on x86-64 only"),
    pytest.mark.skipif(not Path("/sys/kernel/btf/vmlinux").exists(), reason="needs BTF"),
    pytest.mark.skipif(not is_known(), reason="needs Node with a V8 that is known"),
]


def chains(file):
    """The JavaScript functions of each sample, with their lines, the outermost first."""
    wanted = ProfileRequest(stacks=True, lines=True)
    profile = build_profile(open_recording(str(file)), NamingOptions(), wanted)
    function = profile.locations.function_index
    names = np.array(profile.functions.name, object)[function]
    kind = profile.objects.kind[profile.functions.object_index[function]]
    lines = profile.lines
    line = np.append(lines.line, 0)[np.maximum(lines.frame_start[1:], 1) - 1]
    line = np.where(np.diff(lines.frame_start) > 0, line, 0)
    found = []
    for row in profile.samples.stack_index.tolist():
        chain, at = [], row
        while at >= 0:
            place = profile.stacks.location_index[at]
            if kind[place] == KIND_JAVASCRIPT:
                chain.append((names[place], int(line[place])))
            at = profile.stacks.caller_index[at]
        found += [chain[::-1]] * bool(chain)
    return found


def line_of(text):
    return PROGRAM.read_text().splitlines().index(text) + 1


@pytest.mark.parallel
@pytest.mark.parametrize("options", [(), ("--jitless",)], ids=["compiled", "interpreted"])
def test_each_function_has_its_share(options, tmp_path):
    file = tmp_path / "perf.data"
    recorder = [*PROSPECT, "record", "-H", "2000", "-o", str(file)]
    ran = subprocess.run(
        [*recorder, NODE, *options, str(PROGRAM), str(SECONDS)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    told = json.loads(ran.stdout.splitlines()[-1])
    found = chains(file)
    inside = [[name for name, _ in chain if name in FUNCTIONS] for chain in found]
    inside = [names[0] for names in inside if names]
    assert len(inside) >= 0.8 * len(found)
    for function in FUNCTIONS:
        share = inside.count(function) / len(inside)
        assert share == pytest.approx(told[function] / sum(told.values()), abs=SLACK), function
    lines = {
        ("inlining", "leaf"): line_of("    sum += leaf(i);"),
        ("generating", "counted"): line_of("  for (const i of counted(200000)) sum += i;"),
        ("raising", "raised"): line_of("      raised(i);"),
    }
    met = Counter()
    for chain in found:
        for (caller, line), (callee, _) in itertools.pairwise(chain):
            if (caller, callee) in lines and line:
                met[caller, callee, line == lines[caller, callee]] += 1
    assert met["inlining", "leaf", True]
    for caller, callee in lines:
        right, wrong = (met[caller, callee, one] for one in (True, False))
        assert wrong <= 0.05 * right + 1, (caller, callee)
    with open_recording(str(file)) as recording:
        stacks = decode(recording.blocks(), recording.info.events, []).runtimes
    images = [number for number, one in stacks.images.items() if one.runtime == wire.V8]
    has_frames = np.isin(stacks.image, images) & (np.diff(stacks.start) > 0)
    assert np.mean(stacks.status[has_frames] == wire.WALKED) >= 0.99


@pytest.mark.parallel
def test_a_process_that_runs_already(tmp_path):
    file = tmp_path / "perf.data"
    with running([NODE, str(PROGRAM), "30"], stdout=subprocess.DEVNULL) as program:
        # It has begun to run its functions by then.
        wait_for(lambda: cpu_seconds(program.pid) >= RUNS_S)
        recorder = [*PROSPECT, "record", "-H", "1000", "-p", str(program.pid), "--for", "2"]
        subprocess.run([*recorder, "-o", file], capture_output=True, timeout=120, check=True)
    names = {name for chain in chains(file) for name, _ in chain}
    assert "spin" in names
    assert names & {*FUNCTIONS}


@pytest.mark.parallel
@pytest.mark.parametrize("mode", ["long", *nightly("round", "typed"), "new"])
def test_frames_that_are_none_cost_their_process_nothing_but_names(mode, tmp_path):
    program = build_program(tmp_path, "node", "-mno-red-zone", "-rdynamic", source="false_node")
    file = tmp_path / "perf.data"
    recorder = [*PROSPECT, "record", "-H", "1000", "-o", file]
    subprocess.run([*recorder, program, mode, "0.4"], check=True, capture_output=True, timeout=120)
    with open_recording(str(file)) as recording:
        limits = recording.info.extras["limits"]
        stacks = decode(recording.blocks(), recording.info.events, []).runtimes
    images = [number for number, one in stacks.images.items() if one.runtime == wire.V8]
    is_mine = np.isin(stacks.image, images)
    status = stacks.status[is_mine]
    assert len(status) > 100
    assert (np.diff(stacks.start) <= wire.MOST_FRAMES).all()
    expected = wire.FAULT if mode == "round" else wire.TRUNCATED
    assert (status == expected).mean() > 0.9
    assert all(len(text.name[1]) <= wire.MOST_NAME_BYTES for text in stacks.texts.values())
    assert any("names left out" in one for one in limits) == (mode == "new")
