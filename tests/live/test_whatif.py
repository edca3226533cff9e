"""`prospect whatif` on the running kernel: a command whose functions are known to hold it up."""

from __future__ import annotations

import json
import os

import pytest

from builders.command_line import run, run_here
from builders.recordings import build_program

pytestmark = [
    pytest.mark.live,
    pytest.mark.parallel,
    pytest.mark.skipif(os.geteuid() != 0, reason="programs that follow threads need root"),
]

OWN_S, WAITED_S, ASIDE_S = 0.3, 0.4, 0.2
# The rest of the threads' time is that of reading the clock, and of the kernel's on the way.
PART = 0.15
ALL = 0.02


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    directory = tmp_path_factory.mktemp("whatif")
    program = build_program(directory / "bin", "faster", "-pthread", "-fno-omit-frame-pointer")
    file = directory / "perf.data"
    seconds = [str(one) for one in (OWN_S, WAITED_S, ASIDE_S)]
    options = ("--no-python", "--wall", "--call-graph", "fp", "-H999")
    done = run("record", *options, "-o", str(file), str(program), *seconds)
    assert done.returncode == 0, done.stderr
    return file


@pytest.fixture(scope="module")
def outcome(recording):
    def outcome(*changes):
        done = run_here("whatif", "--format", "json", recording, *changes)
        assert done.returncode == 0, done.stderr
        (found,) = json.loads(done.stdout)["outcomes"]
        return found

    return outcome


@pytest.mark.parametrize(
    ("change", "gain_s"),
    [("spin_own=0.5", OWN_S / 2), ("spin_waited=0", WAITED_S), ("spin_waited=2", -WAITED_S)],
)
def test_what_holds_the_command_up_makes_it_faster(outcome, change, gain_s):
    found = outcome(change)
    assert found["saved_s"] == pytest.approx(gain_s, rel=PART)
    assert found["gain_s"] == pytest.approx(found["saved_s"], rel=ALL)
    assert found["half_width_s"] <= abs(gain_s) * PART


def test_changes_are_made_together(outcome):
    found = outcome("spin_own=0", "spin_waited=0")
    assert found["saved_s"] == pytest.approx(OWN_S + WAITED_S, rel=PART)
    assert found["gain_s"] == pytest.approx(found["saved_s"], rel=ALL)


def test_what_nobody_waits_for_makes_nothing_faster(outcome):
    found = outcome("spin_aside=0")
    assert found["saved_s"] == pytest.approx(ASIDE_S, rel=PART)
    assert found["gain_s"] == pytest.approx(0, abs=ASIDE_S * ALL)


def test_without_a_change_the_hottest_functions_are_tried(recording):
    done = run_here("whatif", recording)
    lines = done.stdout.decode().splitlines()
    names = [line.split()[0] for line in lines if line.startswith("spin_")]
    assert names[:2] == ["spin_waited", "spin_own"], lines
    assert max(map(len, lines)) <= 80


def test_a_name_without_samples_and_a_recording_without_switches_say_so(recording, tmp_path):
    done = run_here("whatif", recording, "nothing_like_it=0.5")
    assert (done.returncode, b"'nothing_like_it'" in done.stderr) == (2, True)
    plain = tmp_path / "plain.data"
    assert run("record", "-o", str(plain), "true").returncode == 0
    done = run_here("whatif", plain)
    assert (done.returncode, b"--wall" in done.stderr) == (2, True)
