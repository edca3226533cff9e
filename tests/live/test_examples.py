"""The programs of examples/: the commands of their README find the planted problem."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from builders.command_line import run

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
ROOT = os.geteuid() == 0
pytestmark = [pytest.mark.live, pytest.mark.parallel]


@pytest.fixture
def built(tmp_path):
    def built(name):
        program = tmp_path / name
        source = EXAMPLES / f"{name}.c"
        subprocess.run(["gcc", "-O2", "-g", "-pthread", "-o", program, source], check=True)
        return program

    return built


def profiled(*words):
    done = run(*(str(word) for word in words))
    assert done.returncode == 0, done.stderr
    return done.stdout


def section(report, title):
    """Return the lines below the first such title, to the next blank line."""
    found = re.search(rf"^{re.escape(title)}.*\n(?:-+\n)?((?:.+\n)+)", report, re.MULTILINE)
    assert found, report
    return found[1].splitlines()


def wall_line(report):
    return report[report.index("\nWall:") : report.index("\nMissing:")]


@pytest.mark.nightly
def test_the_caller_of_a_library_is_the_first_function_with_all_it_calls(built):
    # `price` does little more than call `settings`: either may be the first.
    for program, functions in (
        ([sys.executable, EXAMPLES / "config.py"], {"settings", "price"}),
        ([built("join")], {"join"}),
    ):
        report = profiled("--call-graph", "auto", *program)
        first = section(report, "With all it calls")[0]
        assert first.split()[0] in functions


@pytest.mark.skipif(not ROOT, reason="counting system calls needs root")
def test_a_system_call_for_each_byte_is_counted(built, tmp_path):
    numbers = tmp_path / "numbers.txt"
    numbers.write_text("1234\n" * 20000)
    report = profiled("--count-syscalls", built("bytes"), numbers)
    rows = section(report, "System Calls, the Command and Its Descendants")
    (calls,) = [int(row.split()[-4]) for row in rows if row.endswith(" read")]
    assert 100000 <= calls <= 100100


@pytest.mark.skipif(not ROOT, reason="switches of the system need root")
def test_the_holder_of_a_lock_is_named(built):
    report = profiled("--off-cpu", built("lock"))
    assert re.search(r"\bchecksum \d", wall_line(report))
    first = section(report, "Locks, by What Their Holders Did")[1]
    assert re.fullmatch(r"[\d.]+ +a mutex +format_line\S* +checksum", first)


@pytest.mark.nightly
@pytest.mark.skipif(not ROOT, reason="switches of the system need root")
def test_only_the_longest_stage_is_on_the_way():
    report = profiled("--off-cpu", sys.executable, EXAMPLES / "stages.py")
    wall = wall_line(report)
    assert re.search(r"\blong \d", wall)
    assert re.search(r"\blink \d", wall)
    assert not re.search(r"\b(short|brief) \d", wall)
