"""Our recordings with callers: the chain of a program is known, and perf reads the same file."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections import Counter

import numpy as np
import pytest

from builders.recordings import PROSPECT, build_program
from prospect.analysis.pipeline import build_profile
from prospect.analysis.profile_request import ProfileRequest
from prospect.figures.stacks.stack_quality import stack_quality
from prospect.options import NamingOptions
from prospect.perfdata.reader import open_recording

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
]

CHAIN = ["leaf", "inner", "middle", "outer", "main"]
RIGHT_AT_LEAST = 0.99
ROUNDS = 1250


@pytest.fixture(scope="module")
def chain_of(tmp_path_factory, programs):
    """Return the recording of a program in a mode, made once for all tests that read it."""

    @functools.cache
    def recording(mode, program):
        directory = tmp_path_factory.mktemp("chains")
        return recorded(directory, mode, programs[program], 3, ROUNDS)

    return recording


def recorded(directory, mode, *command):
    file = directory / "perf.data"
    line = [*PROSPECT, "record", "--no-python", "-H", "2000", "--call-graph", mode]
    line += ["-o", file, *command]
    subprocess.run([str(word) for word in line], check=True, timeout=100, capture_output=True)
    return file


def profile_of(file, *, stacks=True, use_cache=True):
    options = NamingOptions(use_cache=use_cache, debuginfod_s=0), ProfileRequest(stacks=stacks)
    return build_profile(open_recording(str(file)), *options)


def stacks_of(profile, comm):
    """Return the names of each sample's frames, innermost first, of COMMAND's samples.

    Other processes of that name may run at the same time; there are no callers of these.
    """
    stacks, names = profile.stacks, profile.functions.name
    of_row = []
    for location, caller in zip(
        stacks.location_index.tolist(), stacks.caller_index.tolist(), strict=True
    ):
        frames = of_row[caller] if caller >= 0 else ()
        of_row.append((names[profile.locations.function_index[location]], *frames))
    comms = np.array(profile.comms)[profile.hits.comm_index]
    is_command = profile.processes.is_command[profile.hits.process_index]
    chosen = ((comms == comm) & is_command)[profile.samples.hit_index]
    return [list(of_row[row]) for row in profile.samples.stack_index[chosen].tolist()]


def share_right(stacks, depth=0):
    """Return how many of the stacks that begin in leaf lead to main as they must."""
    chains = ([*CHAIN], [CHAIN[0], *["descend"] * depth, *CHAIN[1:]])
    of_leaf = [stack for stack in stacks if stack[0] == "leaf"]
    assert len(of_leaf) > 100
    return sum(stack[: len(c)] == c for stack in of_leaf for c in chains[: 1 + (depth > 0)]) / len(
        of_leaf
    )


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    directory = tmp_path_factory.mktemp("bin")
    kept = ("-O2", "-fno-omit-frame-pointer", "-fno-shrink-wrap")
    return {
        "without": build_program(
            directory, "without", "-O2", "-fomit-frame-pointer", source="chain"
        ),
        "with": build_program(directory, "with", *kept, source="chain"),
    }


@pytest.mark.parallel
@pytest.mark.parametrize(
    ("mode", "program"),
    [
        ("fp", "with"),
        ("dwarf", "without"),
        pytest.param("dwarf", "with", marks=pytest.mark.nightly),
        ("auto", "without"),
        pytest.param("auto", "with", marks=pytest.mark.nightly),
    ],
)
def test_the_chain_of_a_program_is_right(chain_of, mode, program):
    file = chain_of(mode, program)
    profile = profile_of(file)
    assert share_right(stacks_of(profile, program), depth=3) >= RIGHT_AT_LEAST
    assert len(profile.samples) == profile.hits.count.sum()
    assert (profile.samples.stack_index >= 0).all()
    plain = profile_of(file, stacks=False)
    assert functions(plain, program) == functions(profile, program)
    if mode == "fp":
        assert profile.stack_copies is None
    else:
        quality = stack_quality(profile)
        assert quality.copy_bytes == 8192
        assert quality.samples == quality.without_copy + sum(quality.by_end.values())


def functions(profile, comm):
    """Return hits and periods by function and mode, of one program's samples."""
    hits = profile.hits
    function = profile.locations.function_index[hits.location_index]
    of_program = np.array(profile.comms)[hits.comm_index] == comm
    found = Counter()
    for row in np.flatnonzero(of_program).tolist():
        key = profile.functions.name[function[row]], int(hits.mode[row])
        found[*key, "samples"] += int(hits.count[row])
        found[*key, "period"] += int(hits.period[row])
    return found


# Alone: perf 6.1 does not survive a BPF program of another recording that came and went.
def test_perf_unwinds_our_file_to_the_same_chains(chain_of):
    if shutil.which("perf") is None:
        pytest.skip("needs perf")
    file = chain_of("dwarf", "without")
    line = ["perf", "script", "--no-inline", "--comm", "without", "-F", "ip,sym", "-i", str(file)]
    told = subprocess.run(line, check=True, timeout=100, capture_output=True, text=True).stdout
    theirs = [
        [frame.split()[1] for frame in sample.splitlines() if frame]
        for sample in told.split("\n\n")
        if sample.strip()
    ]
    ours = stacks_of(profile_of(file), "without")
    cut = [stack[: stack.index("main") + 1] for stack in ours if "main" in stack]
    perfs = [stack[: stack.index("main") + 1] for stack in theirs if "main" in stack]
    assert len(perfs) > 100
    common = Counter(map(tuple, cut)) & Counter(map(tuple, perfs))
    assert common.total() >= RIGHT_AT_LEAST * max(len(cut), len(perfs))


@pytest.mark.parallel
def test_kept_call_frame_rows_give_the_same_stacks(tmp_path, chain_of, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = chain_of("dwarf", "without")
    told = []
    for _ in range(2):
        options = NamingOptions(use_cache=True, debuginfod_s=0), ProfileRequest(stacks=True)
        told.append(stacks_of(build_profile(open_recording(str(file)), *options), "without"))
        assert list((tmp_path / "cache").rglob("*.frames"))
    assert told[0] == told[1] == stacks_of(profile_of(file, use_cache=False), "without")


@pytest.mark.parallel
def test_what_is_said_of_cut_stacks_mends_them(tmp_path, programs):
    depth = 60
    file = recorded(tmp_path, "dwarf,1024", programs["without"], depth, ROUNDS)
    profile = profile_of(file)
    quality = stack_quality(profile, "2")  # who else runs has stacks of any size
    assert quality.cut > 100
    assert quality.cut_frames[1] < depth
    assert quality.cut <= quality.cut_stacks <= quality.stacks
    short = [stack for stack in stacks_of(profile, "without") if "main" not in stack]
    of_leaf = [stack for stack in short if stack[0] == "leaf"]
    assert of_leaf
    assert {stack[-1] for stack in of_leaf} == {""}  # no function: the frame [cut]
    assert 1024 < quality.size_for_99 <= 65520
    program = str(programs["without"])
    assert any(place.object_path == program and place.reason == "cut" for place in quality.places)
    file = recorded(tmp_path, f"dwarf,{quality.size_for_99}", programs["without"], depth, ROUNDS)
    assert share_right(stacks_of(profile_of(file), "without"), depth) >= RIGHT_AT_LEAST


@pytest.mark.parallel
def test_frame_pointers_go_on_where_a_copy_ends(tmp_path, programs):
    depth = 60
    file = recorded(tmp_path, "auto,1024", programs["with"], depth, ROUNDS)
    profile = profile_of(file)
    quality = stack_quality(profile, "2")
    assert quality.cut > 100
    assert quality.continued > 100
    assert share_right(stacks_of(profile, "with"), depth) >= RIGHT_AT_LEAST


@pytest.mark.parallel
def test_a_branch_stack_is_refused_in_words_where_there_is_none(tmp_path):
    file = tmp_path / "perf.data"
    line = [*PROSPECT, "record", "--call-graph", "lbr", "-o", str(file), "true"]
    done = subprocess.run(line, check=False, timeout=60, capture_output=True, text=True)
    if done.returncode == 0:
        pytest.skip("this machine has one")
    assert "--call-graph auto" in done.stderr
    assert not file.exists()


@pytest.mark.parallel
def test_a_first_screen_unwinds_the_copies_of_the_shown_processes_only(chain_of):
    file = chain_of("dwarf", "without")
    profile = build_profile(
        open_recording(str(file)), NamingOptions(debuginfod_s=0), ProfileRequest(callees="3")
    )
    whole = profile_of(file)
    processes = whole.processes
    shown = processes.pid[processes.is_command | processes.is_descendant]
    assert set(profile.stack_copies.pid.tolist()) <= set(shown.tolist())
    assert 0 < len(profile.stack_copies.pid) <= len(whole.stack_copies.pid)
    assert stacks_of(profile, "without") == stacks_of(whole, "without")


def test_the_first_screen_has_callers_though_nobody_asks(tmp_path):
    program = build_program(tmp_path, "calltree", "-O2")

    def first_screen(*options):
        line = [*PROSPECT, "-H", "1000", *options, program, "150"]
        ran = subprocess.run(
            [str(word) for word in line], capture_output=True, check=True, cwd=tmp_path, timeout=100
        )
        return ran.stdout.decode().splitlines()[:24]

    lines = first_screen()
    begin = next(at for at, line in enumerate(lines) if line.startswith("With all it calls"))
    # Those that pass their time on to others: neither main nor the loops have a row.
    rows = lines[begin + 1 : lines.index("", begin)]
    assert {"recurse", "sorts", "qsort"} & {row.split()[0] for row in rows}
    without = first_screen("--call-graph", "none")
    assert any("Function" in line for line in without)
    assert not any(line.startswith("With all it calls") for line in without)
