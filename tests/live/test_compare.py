"""Two commands that prospect runs in turn itself: what differs is found, and nothing is left."""

from __future__ import annotations

import json
import subprocess

import pytest

from builders.recordings import PROSPECT, build_program

pytestmark = [pytest.mark.live, pytest.mark.parallel]
RUNS = "4"


def compare(*arguments, cwd):
    words = [str(word) for word in arguments]
    return subprocess.run(
        [*PROSPECT, "compare", *words],
        capture_output=True, text=True, timeout=200, check=False, cwd=cwd,
    )  # fmt: skip


@pytest.mark.nightly
def test_the_changed_function_is_found_without_a_recording_by_hand(tmp_path):
    old, new = (
        build_program(tmp_path / build, "changed", f"-DREPS={reps}")
        for build, reps in (("old", 30), ("new", 300))
    )
    words = (
        "-H1000",
        "--call-graph",
        "dwarf",
        "-n",
        RUNS,
        "--a",
        f"{old} times",
        "--b",
        f"{new} times",
    )
    fail_if = "--fail-if", "slower by 10%"
    ran = compare(*words, *fail_if, "--format", "json", "--save", "kept", cwd=tmp_path)
    assert ran.returncode == 3, ran
    document = json.loads(ran.stdout)
    assert document["functions"]["rows"][0]["name"] == "changed"
    assert [len(document[side]) for side in "ab"] == [int(RUNS)] * 2
    callers = {row["name"]: row for row in document["inclusive"]["rows"]}
    assert callers["main"]["significant"]
    assert callers["main"]["b"] == pytest.approx(document["total"]["rows"][0]["b"], rel=0.25)
    # Each run wrote a line of its own: as many as were asked for.
    assert len((tmp_path / "times").read_text().splitlines()) == 2 * int(RUNS)
    starts = sorted((one["started_at"], side) for side in "ab" for one in document[side])
    assert [side for _, side in starts] == [*"abbaabba"]
    assert len(list((tmp_path / "kept").iterdir())) == 2 * int(RUNS)


def test_what_a_command_writes_is_no_part_of_the_report(tmp_path):
    shown = "echo of the command"
    ran = compare("-n1", "--a", shown, "--b", "cat", "--show-output", "-V4", cwd=tmp_path)
    assert ran.returncode == 0, ran
    assert ran.stderr == "prospect: compare: run 1 of 1 of A and B\nof the command\n"
    assert ran.stdout.startswith("Difference: B - A")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("command", "status", "says"),
    [
        ("false", 1, "B, run 1 of 5 ended with status 1: 'false'"),
        pytest.param(
            "sh -c 'kill -9 $$'",
            1,
            "B, run 1 of 5 ended with status 137: 'sh'",
            marks=pytest.mark.nightly,
        ),
        ("./no-such-program", 127, "B, run 1 of 5: ./no-such-program: command not found"),
    ],
)
def test_a_side_that_fails_is_said_in_one_line(tmp_path, command, status, says):
    ran = compare("--a", "true", "--b", command, cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (status, "")
    began, said = ran.stderr.splitlines()
    assert began == "prospect: compare: run 1 of 5 of A and B"
    assert said.startswith(f"prospect: compare: {says}"), ran
    assert list(tmp_path.iterdir()) == []
