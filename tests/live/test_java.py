"""Java programs, without a flag or an agent: methods, lines and stacks are those of the program."""

import shutil
import subprocess

import pytest

from builders.command_line import run_here
from builders.recordings import PROGRAMS, PROSPECT, record

pytestmark = [
    pytest.mark.live,
    pytest.mark.parallel,
    pytest.mark.skipif(not shutil.which("javac"), reason="needs a JDK (default-jdk-headless)"),
]
METHODS = ("loops", "recursion", "lambdas", "exceptions", "sorting")
STARTS = {"clone3", "__clone", "clone", "start_thread", "_start"}


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    directory = tmp_path_factory.mktemp("classes")
    command = ["javac", "-d", directory, PROGRAMS / "Methods.java"]
    subprocess.run(command, check=True, capture_output=True, timeout=170)
    return directory


def folded(file):
    shown = run_here("report", "-V2", "--format", "folded", "--inline", file)
    assert shown.returncode == 0, shown.stderr
    for line in shown.stdout.decode().splitlines():
        stack, _, count = line.rpartition(" ")
        yield [frame.partition("_[")[0] for frame in stack.split(";")], int(count)


@pytest.mark.nightly
def test_shares_are_those_of_the_program_and_stacks_have_their_outermost_function(
    classes, tmp_path
):
    file = tmp_path / "run.data"
    ran = record(file, "--call-graph", "auto", "-H", 500, "java", "-cp", classes, "Methods", 1.5)
    spent = {
        name: float(share)
        for name, share in (line.split() for line in ran.stdout.decode().splitlines())
    }
    sampled, rooted, total = dict.fromkeys(METHODS, 0), 0, 0
    for frames, count in folded(file):
        names = set(frames)
        found = [name for name in METHODS if f"Methods.{name}" in names]
        total += count * bool(found)
        rooted += count * (bool(found) and frames[1] in STARTS)
        for name in found:
            sampled[name] += count
    assert total > 300
    assert rooted >= 0.95 * total, (rooted, total)
    for name in METHODS:
        share = sampled[name] / sum(sampled.values())
        assert share == pytest.approx(spent[name], abs=0.06), name


@pytest.mark.parametrize(
    "flags",
    [["-Xint"], pytest.param(["-XX:TieredStopAtLevel=1"], marks=pytest.mark.nightly)],
    ids=["int", "c1"],
)
def test_a_program_that_was_started_before(classes, tmp_path, flags):
    command = ["java", *flags, "-cp", classes, "Methods", "60"]
    program = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert program.stdout.readline() == b"begun 0\n"
        file = tmp_path / "run.data"
        line = [*PROSPECT, "record", "--no-python", "--call-graph", "auto", "-H", "1000"]
        line += ["-p", str(program.pid), "--for", "1", "-o", str(file)]
        subprocess.run(line, check=True, capture_output=True, timeout=100)
    finally:
        program.kill()
        program.communicate()
    names = {name for frames, _ in folded(file) for name in frames}
    assert {f"Methods.{name}" for name in ("loops", "sorting", "run", "call")} <= names
