"""Thousands of short lives: every hit is in a process that has a name, and in an object."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from builders.recordings import build_program, hits_by, profile_of

pytestmark = [pytest.mark.live, pytest.mark.parallel]

LEAST_NAMED = 0.995


def named_share(profile, which):
    """Return the share of the hits of `which` (bool[h]) with a process name and an object."""
    table = profile.hits_table(detail="4")
    nowhere = table["object"] == "[unknown]"
    starts = np.array([name[:1] for name in table["process"].tolist()])
    nobody = np.isin(starts, (":", "?", "")) | (table["process"] == "unknown")
    hits = table["samples"]
    assert hits[which].sum() > 0
    return hits[which & ~nowhere & ~nobody].sum() / hits[which].sum()


@pytest.mark.parametrize("many", [pytest.param(10_000, marks=pytest.mark.nightly), 1000])
def test_of_thousands_of_forks_nearly_every_hit_has_a_process_and_an_object(tmp_path, many):
    forks = build_program(tmp_path, "forks")
    profile = profile_of(tmp_path / "r", forks, many, 1, frequency_hz=1000)
    table = profile.hits_table(detail="4")
    everything = np.ones(len(table["samples"]), np.bool_)
    share = named_share(profile, everything)
    sys.stdout.write(f"samples with a process name and an object: {100 * share:.3f}%\n")
    assert share >= LEAST_NAMED
    assert profile.losses.lost.sum() == 0
    # A millisecond of each child's at 1000 Hz, and what forking it takes.
    assert 0.9 * many < sum(hits_by(profile, "mode", process="forks").values()) < 2 * many
    children = hits_by(profile, "function", process="forks", mode="user")
    assert children["child_spins"] > 0.9 * sum(children.values())


def test_children_that_only_fork_run_their_parents_program(tmp_path):
    forks = build_program(tmp_path, "forks")
    profile = profile_of(tmp_path / "r", forks, 250, 2)
    processes = profile.processes
    children = processes.is_descendant & ~processes.is_command
    assert children.sum() == 250
    assert {processes.name[row] for row in np.flatnonzero(children)} == {"forks"}
    user = hits_by(profile, "object", process="forks", mode="user")
    assert user[str(forks)] > 0.9 * sum(user.values())
    assert "[unknown]" not in user


def test_children_that_exec_behind_vfork_have_the_new_programs_name(tmp_path):
    forks, burner = build_program(tmp_path, "forks"), build_program(tmp_path, "burner")
    profile = profile_of(tmp_path / "r", forks, 150, 2, burner, frequency_hz=4000)
    table = profile.hits_table(detail="4")
    of_command = np.isin(table["process"], ("forks", "burner"))
    assert named_share(profile, of_command) >= LEAST_NAMED
    spun = hits_by(profile, "process", "object", function="static_spins")
    # A program of the same name may run beside this, from another test's directory.
    spun = {who: hits for who, hits in spun.items() if who[1].startswith(str(tmp_path))}
    assert set(spun) == {("burner", str(burner))}
    # 150 children, 1 ms each in the static function.
    assert 0.6 * 600 < sum(spun.values()) < 1.15 * 600
    processes = profile.processes
    born = [processes.name[row] for row in np.flatnonzero(processes.is_descendant)]
    assert born.count("burner") == 150
