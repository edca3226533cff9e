"""Stripped Go programs: functions, lines and stacks are those of the program before."""

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.builders.recordings import PROGRAMS, PROSPECT, record

from builders.examples import nightly
from prospect.elf.go_table import read_go_table
from prospect.elf.image import ElfImage
from prospect.lines import debug_info
from prospect.lines.conversion import convert
from prospect.lines.finder import go_frames
from prospect.lines.symcache import SymCache
from prospect.symbols.images.image_symbols import read_symbol_table

pytestmark = [
    pytest.mark.live,
    pytest.mark.parallel,
    pytest.mark.skipif(not shutil.which("go"), reason="builds a Go program"),
]
WORK = ("sumAll", "descend", "garbage")
# Where goroutines and the runtime's own stacks begin.
OUTERMOST = {"runtime.goexit", "runtime.mstart", "runtime.mcall", "runtime.rt0_go"}


def build(directory: Path, *flags: str) -> Path:
    program = directory / "goroutines"
    command = ["go", "build", *flags, "-o", program, PROGRAMS / "goroutines.go"]
    offline = {"GO111MODULE": "off", "GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOFLAGS": ""}
    subprocess.run(
        command, check=True, capture_output=True, timeout=170, env={**os.environ, **offline}
    )
    return program


@pytest.fixture(scope="module")
def programs(tmp_path_factory) -> dict[str, Path]:
    """Build the program with symbols, without, and position-independent without."""
    strip = ("-ldflags", "-s -w")
    return {
        "whole": build(tmp_path_factory.mktemp("whole")),
        "stripped": build(tmp_path_factory.mktemp("stripped"), *strip),
        "moved": build(tmp_path_factory.mktemp("moved"), *strip, "-buildmode=pie"),
    }


def parsed(path: Path) -> ElfImage:
    return ElfImage.parse(path.read_bytes())


def plain(name: bytes) -> bytes:
    """Return a name without what only one of the two tables states."""
    name = name.removesuffix(b".abi0")
    head, bracket, _ = name.partition(b"[")
    return head if bracket else name


def test_functions_are_those_of_the_symbol_table(programs):
    whole, stripped = (read_symbol_table(parsed(programs[kind])) for kind in ("whole", "stripped"))
    known = dict(zip(whole.start.tolist(), whole.names(range(len(whole))), strict=True))
    found = dict(zip(stripped.start.tolist(), stripped.names(range(len(stripped))), strict=True))
    # Bounds of text, such as runtime.etext, are no functions.
    missing = {known[start] for start in known.keys() - found.keys()}
    assert len(missing) <= 2
    differing = [start for start in known if plain(known[start]) != plain(found.get(start, b""))]
    assert len(differing) <= 5
    assert len(found) > 1000


def frames_of(names, files, frames, row):
    rows = slice(frames.start[row], frames.start[row + 1])
    return [
        (plain(names[name]), files[file], line)
        for name, file, line in zip(
            frames.name_index[rows].tolist(),
            frames.file_index[rows].tolist(),
            frames.line[rows].tolist(),
            strict=True,
        )
    ]


def test_lines_and_inlined_functions_are_those_of_the_debug_information(programs):
    whole, stripped = parsed(programs["whole"]), parsed(programs["stripped"])
    table = read_go_table(stripped)
    chance = np.random.default_rng(1)
    row = chance.integers(0, len(table), 5000)
    distance = (chance.random(len(row)) * (table.end - table.start).take(row)).astype(np.uint64)
    svma = np.unique(table.start.take(row) + distance)
    found = go_frames(table, svma)
    known = SymCache.parse(convert(whole.data)).lookup(
        svma - np.uint64(debug_info.load_address(whole))
    )
    compared = differing = inlined = 0
    for place in range(len(svma)):
        expected = frames_of(known.names, known.files, known, place)
        if expected and all(file for _, file, _ in expected):
            compared += 1
            inlined += len(expected) > 1
            differing += frames_of(found.names, found.files, found, place) != expected
    assert compared > 3000
    assert inlined > 100
    assert differing <= 0.01 * compared


@pytest.mark.parametrize("kind", ["stripped", *nightly("moved")])
def test_shares_are_those_of_the_program_and_stacks_have_their_outermost_function(
    programs, kind, tmp_path
):
    file = tmp_path / "run.data"
    ran = record(file, "--call-graph", "auto", programs[kind], 1.0)
    spent = {
        name: int(ns)
        for name, ns in (line.split() for line in ran.stdout.decode().splitlines())
        if name in WORK
    }
    command = [*PROSPECT, "report", "-V2", "--format", "folded", str(file)]
    folded = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    sampled, rooted, total = dict.fromkeys(WORK, 0), 0, 0
    for line in folded.splitlines():
        stack, _, count = line.rpartition(" ")
        frames = stack.split(";")
        if frames[0] != "goroutines":
            continue
        total += int(count)
        rooted += int(count) * (frames[1] in OUTERMOST)
        for name in WORK:
            sampled[name] += int(count) * any(f".{name}" in frame for frame in frames)
    assert rooted >= 0.97 * total
    assert total > 500
    for name in WORK:
        share = sampled[name] / sum(sampled.values())
        assert share == pytest.approx(spent[name] / sum(spent.values()), abs=0.04), name
