"""Stacks of real programs: against what their source says, frame pointers, and perf."""

import re
import shutil
import subprocess
from collections import Counter
from itertools import groupby, pairwise

import numpy as np
import pytest

from builders.recordings import PROGRAMS
from builders.unwinding import name_sites, read_recording
from prospect.perfdata.file_header import read_file_header
from prospect.perfdata.leaked_bits import clear_build_id_bits
from prospect.unwind import interface
from prospect.unwind.unwinder import unwind

pytestmark = [
    pytest.mark.live,
    pytest.mark.parallel,
    pytest.mark.skipif(not shutil.which("perf"), reason="needs perf"),
    pytest.mark.skipif(not shutil.which("g++"), reason="needs g++"),
]

# Innermost first, below `main`. A name stands for any number of frames in libraries: "*".
SHAPES = [
    ["burn", *["recurse"] * 21],
    ["burn", "compare", "*", "sorts"],
    ["burn", "varies"],
    ["burn", "realigns"],
    *(["burn", *["throws"] * depth, "catches"] for depth in range(1, 12)),
    *(["burn", *["jumps"] * depth, "lands"] for depth in range(1, 12)),
    ["burn"],  # by a tail call from `tail`
]


def record(directory, name, *flags):
    program = directory / name
    source = PROGRAMS / "stacks.cc"
    subprocess.run(["g++", "-O2", "-g", "-fno-ipa-icf", *flags, source, "-o", program], check=True)
    data = directory / f"{name}.data"
    # Not at 2000 Hz, which is in step with the timer of the program's signals.
    command = [
        *("perf", "record", "-q", "-B", "-e", "cpu-clock:u", "-F", "1990"),
        *("--call-graph", "dwarf,16384", "-o", data, program, "900"),
    ]
    # perf 6.1 aborts now and then as it writes build ids, hence -B, and without, too.
    for _ in range(4):
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            break
    else:
        pytest.skip("perf cannot record here")
    # Where a recorder beside it asks for build ids, perf gets bits that it aborts at afterwards.
    with data.open("r+b") as file:
        header = read_file_header(memoryview(file.read(4096)), "<")
        clear_build_id_bits(file.fileno(), header.data.offset)
    return data, str(program).encode()


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return record(tmp_path_factory.mktemp("plain"), "plain")


@pytest.fixture(scope="module")
def framed(tmp_path_factory):
    # Only without optimisation does every function keep one, leaves too.
    return record(tmp_path_factory.mktemp("framed"), "framed", "-O0")


def chains_of(unwound, names):
    start, sites, _ = unwound.chains()
    for low, high in pairwise(start.tolist()):
        yield [names[site] or "*" for site in sites[low:high].tolist()]


def test_chains_are_those_of_the_source(plain):
    data, program = plain
    given, finder, *_ = read_recording(data)
    unwound = unwind(given, finder)
    names = name_sites(unwound.sites, finder, program)
    chains = list(chains_of(unwound, names))
    assert len(chains) > 500
    whole = np.count_nonzero(unwound.end == interface.END_COMPLETE)
    assert whole > 0.99 * len(chains)
    told = Counter()
    for chain in chains:
        if chain[:1] != ["burn"] or "main" not in chain:
            continue
        below = chain[: chain.index("main")]
        if "handler" in below:
            # A signal on top of anything: what was interrupted stands behind the trampoline.
            at = below.index("handler")
            told["handler", below[:at] == ["burn"] and below[at + 1] == "*"] += 1
            continue
        folded = [name for name, run in groupby(below) for _ in (range(1) if name == "*" else run)]
        told[below[-1], folded in SHAPES] += 1
    wrong = {key: count for key, count in told.items() if not key[1]}
    assert sum(wrong.values()) <= 0.01 * sum(told.values()), wrong
    assert {"recurse", "sorts", "varies", "realigns", "catches", "lands", "handler"} <= {
        name for name, good in told if good
    }
    assert any(below[0] == "*" and "clocks" in below for below in chains)  # the vdso


@pytest.mark.nightly  # test_call_graphs has a chain by frame pointers each time
def test_frame_pointers_agree(framed):
    data, program = framed
    given, finder, *_ = read_recording(data)
    by_cfi = unwind(given, finder)
    by_pointer = unwind(given, finder, mode=interface.MODE_FRAME_POINTER)
    names = [name_sites(each.sites, finder, program) for each in (by_cfi, by_pointer)]
    compared = agreed = 0
    pairs = zip(chains_of(by_cfi, names[0]), chains_of(by_pointer, names[1]), strict=True)
    by_cfi, by_pointer = by_cfi.chains(), by_pointer.chains()
    for row, (cfi, pointer) in enumerate(pairs):
        # In libraries, which keep no frame pointer, and in a function's first instructions the
        # latter are no truth.
        if "main" not in cfi or "*" in cfi[: cfi.index("main")] or cfi[0] != "burn":
            continue
        compared += 1
        count = cfi.index("main") + 1
        first, second = by_cfi.start[row], by_pointer.start[row]
        is_same = (
            by_cfi.address[first : first + count] == by_pointer.address[second : second + count]
        )
        agreed += len(is_same) == count and bool(np.all(is_same)) and pointer[:count] == cfi[:count]
    assert compared > 200
    assert agreed >= 0.99 * compared


def test_perf_script_agrees(plain):
    data, _ = plain
    given, finder, sample, events, _ = read_recording(data)
    unwound = unwind(given, finder)
    told = subprocess.run(
        ["perf", "script", "-i", data, "-F", "ip,sym", "--no-inline", "--max-stack", "1024"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    theirs = [
        tuple(int(word, 16) for word in re.findall(r"^\s*([0-9a-f]+) ", block, re.MULTILINE))
        for block in told.split("\n\n")
        if block.strip()
    ]
    assert len(theirs) == len(unwound)
    agreed = whole = 0
    start, site, _ = unwound.chains()
    # perf prints in the order of time; samples of several CPUs are recorded in another.
    in_time = np.argsort(events.samples.time_ns.take(sample), kind="stable").tolist()
    for row, chain in zip(in_time, theirs, strict=True):
        if not chain or unwound.end[row] != interface.END_COMPLETE:
            continue
        whole += 1
        # perf shows addresses as the image states them, and of a call the one before the return.
        sites = site[start[row] : start[row + 1]]
        agreed += tuple(unwound.sites.svma.take(sites).tolist()) == chain
    assert whole > 500
    assert agreed >= 0.99 * whole
