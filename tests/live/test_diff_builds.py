"""Two builds of a program that times itself: the change is found, and is the true one."""

from __future__ import annotations

import json
import os
import subprocess

import numpy as np
import pytest

import prospect
from builders.command_line import run_here
from builders.recordings import build_program, record

pytestmark = [pytest.mark.live, pytest.mark.parallel]
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
RUNS = 4


@pytest.fixture(scope="module")
def sides(tmp_path_factory):
    """Record both builds in turn; return the recordings, and the runs' times by themselves."""
    directory = tmp_path_factory.mktemp("builds")
    programs = [
        build_program(directory / build, "changed", f"-DREPS={reps}", "-DSTEADY=34")
        for build, reps in (("old", 20), ("new", 200))
    ]
    files = [
        [directory / f"{program.parent.name}-{number}" for program in programs]
        for number in range(RUNS)
    ]
    for pair in files:
        for file, program in zip(pair, programs, strict=True):
            record(file, program, program.parent / "times", frequency_hz=1500)
    times = [np.loadtxt(program.parent / "times") for program in programs]
    return [[str(pair[side]) for pair in files] for side in (0, 1)], times


def diff(*arguments):
    ran = run_here("diff", *arguments)
    out, err = ran.stdout.decode(), ran.stderr.decode()
    return subprocess.CompletedProcess(ran.args, ran.returncode, out, err)


def test_the_changed_function_is_at_the_top_with_its_true_change(sides):
    (before, after), times = sides
    table = prospect.diff(before, after).table()
    assert table["name"][0] == "changed"
    assert table["significant"][0]
    true = {
        name: times[1][:, place].mean() - times[0][:, place].mean()
        for place, name in enumerate(("steady", "changed"))
    }
    for name, change in true.items():
        row = table["name"].tolist().index(name)
        # Twice the 95 % interval: what is out of that is a mistake, not chance.
        assert abs(table["change"][row] - change) < 2.0 * table["half_width"][row] + 0.01, name
    # The two builds differ in the build id, the directory and the process ids: one row each.
    assert table["name"].tolist().count("changed") == 1
    assert table["object"][0] == "changed"


def test_the_picture_has_a_colour_where_the_change_is(sides):
    (before, after), _ = sides
    stacks = prospect.diff(before, after, stacks=True).stacks
    frames = stacks.tree.frame_index
    marked = [
        stacks.name[frame] for frame in frames[stacks.significant] if frame < len(stacks.name)
    ]
    assert "changed" in marked
    assert "steady" not in marked


def test_the_exit_status_answers_a_build_server(sides):
    (before, after), _ = sides
    forth = [*before, "--against", *after]
    met = diff("--fail-if", "slower by 10% at 95%", *forth)
    assert met.returncode == 3, met
    assert met.stderr.startswith("prospect: slower by 10% at 95%: yes. The command and its")
    back = diff("--fail-if", "slower by 10% at 95%", *after, "--against", *before)
    assert (back.returncode, back.stderr) == (0, ""), back
    document = json.loads(diff("--format", "json", "--fail-if", "faster by 5%", *forth).stdout)
    assert document["condition"]["outcome"] == "not met"
    assert document["functions"]["rows"][0]["name"] == "changed"


def test_a_recording_differs_in_nothing_from_itself(sides):
    (before, _), _ = sides
    ran = diff("--fail-if", "different by 1%", before[0], before[0])
    assert ran.returncode == 0
    assert "is on both sides" in ran.stdout
    assert "\n*" not in ran.stdout


@AS_ROOT
def test_a_second_of_the_system_is_compared_by_the_second(tmp_path):
    for name, seconds in (("a", "0.3"), ("b", "0.6")):
        record(tmp_path / name, "sleep", seconds)
    ran = diff("-V4", tmp_path / "a", tmp_path / "b")
    assert ran.returncode == 0, ran
    assert "per second of wall time" in ran.stdout
    assert "By function" in ran.stdout
