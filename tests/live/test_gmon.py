"""Programs of -pg: our tables beside gprof's, row by row, and gprof on what we write."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

import prospect
from builders.command_line import run_here
from builders.examples import nightly
from builders.gmon import gmon_out, histogram
from builders.recordings import PROSPECT, hits_by

pytestmark = [pytest.mark.live, pytest.mark.parallel]

PROGRAMS = Path(__file__).parent / "programs"
ROUNDING_S = 0.0101  # both print hundredths
OWN_LINE = re.compile(
    r"\s*\[\d+\]\s+([\d.]+)%?\s+([\d.]+)\s+([\d.]+)\s+(?:(\d+)(?:\+(\d+))?\s+)?(\S.*?) \[\d+\]$"
)
# What -pg itself calls: gprof leaves it out with its time, we show it where a tick fell there.
COUNTING = ("__mcount_internal", "_mcount", "mcount")
ARC_LINE = re.compile(r"\s+(?:([\d.]+)\s+([\d.]+)\s+)?(\d+)(?:[/+](\d+))?\s+(\S.*?)(?: \[\d+\])?$")
FLAT_LINE = re.compile(r"\s*[\d.]+%?\s+[\d.]+\s+([\d.]+)(?:\s+(\d+)\s+[\d.]+\s+[\d.]+)?\s+(\S.*)$")


def run(*words, cwd=None):
    line = [str(word) for word in words]
    return subprocess.run(
        line, check=True, cwd=cwd, timeout=60, capture_output=True, text=True
    ).stdout


@pytest.fixture(scope="module", params=["counted.cc", *nightly("counted.c", "counted.c static")])
def profiled(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("gmon")
    source, *static = request.param.split()
    compiler = "g++" if source.endswith("cc") else "gcc"
    flags = ["-pg", "-O1", "-fno-optimize-sibling-calls", *(["-static"] if static else [])]
    run(compiler, *flags, "-o", directory / "a.out", PROGRAMS / source)
    run(directory / "a.out", cwd=directory)
    return directory


def number(text):
    return None if text is None else float(text)


def graph_blocks(lines):
    """Return by function what it took, and the rows above and below it, without indexes."""
    blocks = {}
    own, above, below = None, [], []
    for line in lines:
        if re.search(r"-{20}$", line):
            blocks[own[-1]] = (own, sorted(above, key=str), sorted(below, key=str))
            own, above, below = None, [], []
        elif found := OWN_LINE.match(line):
            own = (*map(number, found.groups()[:5]), found[6])
        elif found := ARC_LINE.match(line):
            (above if own is None else below).append((*map(number, found.groups()[:4]), found[5]))
    return blocks


def same_rows(ours, theirs):
    """Compare rows of times, calls and a name at their end."""
    assert Counter((*row[2:4], row[-1]) for row in ours) == Counter(
        (*row[2:4], row[-1]) for row in theirs
    )
    times = {(row[2:4], row[-1]): row[:2] for row in theirs}
    for row in ours:
        expected = times[row[2:4], row[-1]]
        assert [value is None for value in row[:2]] == [value is None for value in expected]
        for own, other in zip(row[:2], expected, strict=True):
            assert own is None or own == pytest.approx(other, abs=ROUNDING_S)


def test_every_row_of_the_call_graph_is_gprofs(profiled):
    gprof = run("gprof", "-b", "-q", "a.out", "gmon.out", cwd=profiled)
    body = gprof[gprof.index("index % time") : gprof.index("Index by function name")]
    theirs = graph_blocks(body.splitlines()[1:])
    ours_text = run(*PROSPECT, "calls", "--show", "graph", "--share", "0", profiled / "gmon.out")
    ours = graph_blocks(ours_text[ours_text.index("Index") :].splitlines()[1:])
    whole_s = sum(own[1] for name, (own, _, _) in ours.items() if "as a whole" not in name)
    counting_s = sum(ours.pop(name)[0][1] for name in COUNTING if name in ours)
    assert set(ours) == set(theirs)
    assert any("as a whole" in name for name in theirs)
    for name, (own, above, below) in ours.items():
        their_own, their_above, their_below = theirs[name]
        assert own[3:] == their_own[3:]
        assert own[1:3] == pytest.approx(their_own[1:3], abs=ROUNDING_S)
        assert own[0] == pytest.approx(their_own[0] * (1 - counting_s / whole_s), abs=0.3)
        same_rows(above, their_above)
        same_rows(below, their_below)


def test_every_row_of_the_flat_profile_is_gprofs(profiled):
    def rows(text):
        lines = text[re.search("name|Function$", text, re.MULTILINE).start() :].splitlines()
        found = [FLAT_LINE.match(line) for line in lines if line.strip()]
        return {row[3].strip(): (float(row[1]), row[2]) for row in found if row}

    theirs = rows(run("gprof", "-b", "-p", "a.out", "gmon.out", cwd=profiled))
    ours = rows(
        run(*PROSPECT, "calls", "--show", "totals", "--rows", "100000", profiled / "gmon.out")
    )
    assert len(theirs) > 3
    for name in COUNTING:
        ours.pop(name, None)
    assert {name: calls for name, (_, calls) in ours.items()} == {
        name: calls for name, (_, calls) in theirs.items()
    }
    for name, (seconds, _) in ours.items():
        assert seconds == pytest.approx(theirs[name][0], abs=ROUNDING_S)


LOCALS = """
.text
.globl main, churn
.type main, @function
main: .fill 64, 1, 0x90
.type churn, @function
churn: .fill 64, 1, 0x90
.type churn.part.0, @function
churn.part.0: .fill 64, 1, 0x90
.type helper, @function
helper: .fill 64, 1, 0x90
"""


def test_gprof_charges_local_functions_with_dots_to_the_one_before(tmp_path):
    """docs/formats.md says so of what we export; other local functions keep their time."""
    (tmp_path / "a.s").write_text(LOCALS)
    run("gcc", "-o", "a.out", "a.s", cwd=tmp_path)
    symbols = {
        row.split()[2]: int(row.split()[0], 16)
        for row in run("nm", tmp_path / "a.out").splitlines()
        if " t " in row.lower()
    }
    low, ticks = symbols["main"] & ~0xF, {"main": 1, "churn": 2, "churn.part.0": 4, "helper": 8}
    bins = [0] * 160
    for name, count in ticks.items():
        bins[(symbols[name] - low) // 2 + 4] = 100 * count
    (tmp_path / "gmon.out").write_bytes(gmon_out(histogram(low, low + 2 * len(bins), bins)))
    expected = {"main": 1.0, "churn": 6.0, "helper": 8.0}
    for text in (
        run("gprof", "-b", "-p", "a.out", "gmon.out", cwd=tmp_path),
        run(*PROSPECT, "calls", "--show", "totals", tmp_path / "gmon.out"),
    ):
        found = {
            row.split()[-1]: float(row.split()[2])
            for row in text.splitlines()
            if row.split()[-1:] and row.split()[-1] in ticks
        }
        assert found == expected


def test_the_report_has_every_tick_and_the_calls(profiled):
    report = json.loads(run(*PROSPECT, "report", "--format", "json", profiled / "gmon.out"))
    hits = hits_by(prospect.open(profiled / "gmon.out"), "function")
    counting_s = sum(hits.get(name, 0) for name in COUNTING) / 100
    info = run("gprof", "-b", "-p", "a.out", "gmon.out", cwd=profiled)
    last = float(re.findall(r"^\s*[\d.]+\s+([\d.]+)\s", info, re.MULTILINE)[-1])
    assert report["run"]["wall_seconds"] == pytest.approx(last + counting_s, rel=0.02, abs=0.011)


def test_what_gprof_sums_up_in_another_form_reads_the_same(profiled):
    run("gprof", "-s", "a.out", "gmon.out", "gmon.out", cwd=profiled)
    once = json.loads(run(*PROSPECT, "calls", "--format", "json", profiled / "gmon.out"))
    program = ("--program", profiled / "a.out")
    twice = json.loads(run(*PROSPECT, "calls", "--format", "json", *program, profiled / "gmon.sum"))
    assert twice["samples"] == 2 * once["samples"]
    calls = {(arc["caller"], arc["callee"]): arc["calls"] for arc in once["arcs"]}
    assert {(arc["caller"], arc["callee"]): arc["calls"] for arc in twice["arcs"]} == {
        arc: 2 * number for arc, number in calls.items()
    }


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_gprof_shows_our_flat_profile_of_a_recording(tmp_path):
    program = tmp_path / "counted"
    run("gcc", "-O1", "-fno-optimize-sibling-calls", "-o", program, PROGRAMS / "counted.c")
    recording = tmp_path / "perf.data"
    run(*PROSPECT, "record", "--no-python", "-H", "2000", "-o", recording, program, "350")
    run_here("report", "--format", "gmon", "-f", tmp_path / "gmon.out", recording)
    text = run("gprof", "-b", "-p", program, tmp_path / "gmon.out")
    theirs = {
        found[3].strip(): float(found[1])
        for line in text[text.index("name") :].splitlines()
        if (found := FLAT_LINE.match(line))
    }
    totals = ["calls", "--show", "totals", "--rows", "9999", "--format", "json"]
    report = json.loads(run_here(*totals, recording).stdout)
    ours = {
        row["name"]: row["self_s"]
        for row in report["events"][0]["functions"]
        if row["object"] == str(program) and row["self_s"] > 0
    }
    assert sum(ours.values()) > 0.1
    assert set(theirs) == set(ours)
    for name, seconds in ours.items():
        assert theirs[name] == pytest.approx(seconds, abs=ROUNDING_S)
