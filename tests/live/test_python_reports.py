"""A recording with Python functions, reported on by an ordinary user, without the source files."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from builders.another_user import (
    NOBODY,
    WHO,
    prospect_of_another_user,
    python_of_another_user,
)
from builders.perf_tool import events_shown
from builders.recordings import PROSPECT
from prospect.abi import constants as abi
from prospect.abi import runtime_frames as wire
from prospect.perfdata.reader import open_recording

pytestmark = [
    pytest.mark.live,
    pytest.mark.parallel,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="reads Python on x86-64 only"),
    pytest.mark.skipif(not Path("/sys/kernel/btf/vmlinux").exists(), reason="needs BTF"),
]
PROGRAM = """
import sys, time
def waiting():
    time.sleep(0.02)
def working(n):
    total = 0
    for i in range(n):
        total += i * i
    return total
def sorting():
    return sorted(range(20000), key=lambda one: -one)
while time.process_time() < float(sys.argv[1]):
    working(100000)
    sorting()
    waiting()
"""
HOME = "home"  # of the one who asks: names that one report found are kept for the next
# One process writes a recording in each of some formats into a directory.
IN_FORMATS = """
import sys
from prospect.cli.main import main
_, recording, directory, *formats = sys.argv
for name in formats:
    assert main(["report", recording, "-V2", "--format", name, "-f", f"{directory}/{name}"]) == 0
"""


@pytest.fixture(scope="module")
def recording():
    """Where everybody may read it; its program is gone."""
    directory = Path(tempfile.mkdtemp(dir="/var/tmp"))
    directory.chmod(0o755)
    program, file = directory / "work.py", directory / "perf.data"
    program.write_text(PROGRAM)
    line = [*PROSPECT, "record", "--off-cpu", "-H", "500", "-o", str(file), sys.executable]
    subprocess.run([*line, str(program), "0.5"], check=True, capture_output=True, timeout=60)
    program.unlink()
    (directory / HOME).mkdir()
    os.chown(directory / HOME, NOBODY, NOBODY)
    file.chmod(0o644)
    yield file
    shutil.rmtree(directory)


def run(command, recording, *words):
    """What a command says to a user who may do nothing."""
    return as_nobody(recording, *prospect_of_another_user(), command, recording, *words)


def as_nobody(recording, *words):
    home = str(recording.parent / HOME)
    environment = os.environ | {
        "HOME": home,
        "XDG_CACHE_HOME": home,
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    ran = subprocess.run(
        [*map(str, words)],
        capture_output=True, check=True, timeout=100, cwd="/", env=environment, **WHO,
    )  # fmt: skip
    return ran.stdout


def in_formats(recording, *names):
    """Return what reports of each format are for such a user."""
    home = recording.parent / HOME
    as_nobody(recording, python_of_another_user(), "-c", IN_FORMATS, recording, home, *names)
    return {name: (home / name).read_bytes() for name in names}


def test_functions_are_named_with_their_files(recording):
    text = run("report", recording, "-V2", "-m", "0").decode()
    rows = [line.split() for line in text.splitlines() if line.endswith("/work.py")]
    found = {row[-4]: row for row in rows}
    assert {"working", "sorting"} <= found.keys()


def test_lines_have_their_hits(recording):
    text = run("report", recording, "-V2", "--lines").decode()
    lines = {int(one) for one in re.findall(r"work\.py:(\d+)", text)}
    source = PROGRAM.splitlines()
    assert {source.index("        total += i * i") + 1} <= lines


def test_a_wait_has_its_python_callers(recording):
    stacks = run("report", recording, "--format", "folded", "-V2").decode().splitlines()
    waits = [line for line in stacks if ";waiting;" in line and "sleep" in line]
    assert waits
    assert all(";<module>;waiting;" in line for line in waits)


@pytest.mark.nightly
def test_each_format_says_that_frames_are_of_python(recording):
    others = ("svg", "callgrind", "csv", "json")
    made = in_formats(recording, "speedscope", "firefox", "pprof", "otlp", *others)
    speedscope = json.loads(made["speedscope"])
    frames = {one["name"]: one.get("file", "") for one in speedscope["shared"]["frames"]}
    assert frames["working"].endswith("/work.py")

    firefox = made["firefox"]
    firefox = json.loads(gzip.decompress(firefox) if firefox[:2] == b"\x1f\x8b" else firefox)
    assert "Python" in {one["name"] for one in firefox["meta"]["categories"]}
    assert "working" in json.dumps(firefox)

    pprof = gzip.decompress(made["pprof"])
    assert b"working" in pprof
    assert b"/work.py" in pprof

    assert b"cpython" in made["otlp"]
    assert b"/work.py" in made["otlp"]

    for name in others:
        assert b"working" in made[name], name


def test_a_comparison_has_a_row_for_a_function(recording):
    text = run("diff", recording, recording, "-V2").decode()
    assert re.search(r"^.*\bworking\b", text, re.MULTILINE)


def test_perf_shows_the_same_samples(recording):
    if shutil.which("perf") is None:
        pytest.skip("perf is not installed")
    shown = events_shown(recording)
    assert "cpu-clock" in shown
    assert "runtime-frames" not in shown


def test_perf_7_finds_no_record_too_short_for_its_type(recording):
    sizes = []
    with open_recording(str(recording)) as opened:
        for block in opened.blocks():
            at = 0
            while at < len(block.data):
                type_, _, size = struct.unpack_from("<IHH", block.data, at)
                sizes += [size] if type_ == abi.PERF_RECORD_HIDDEN_SAMPLE else []
                at += size
    assert sizes
    assert min(sizes) >= wire.LEAST_RECORD_BYTES
