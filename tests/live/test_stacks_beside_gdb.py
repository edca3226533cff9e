"""Stacks of a program that stays where it is, as gdb sees them: neither ours nor perf's truth."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from builders.recordings import PROSPECT
from builders.unwinding import image_of
from prospect.analysis.pipeline import build_profile
from prospect.analysis.profile_request import ProfileRequest
from prospect.options import NamingOptions
from prospect.perfdata.reader import open_recording

pytestmark = [
    pytest.mark.live,
    pytest.mark.parallel,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(not shutil.which("gdb"), reason="needs gdb"),
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="reads x86-64 addresses"),
]

# Without debug files there are no inlined frames, and every frame shows its address.
GDB = ("gdb", "-nx", "-batch", "-iex", "set debug-file-directory /nonexistent")
GDB += ("-ex", "set backtrace past-main on", "-ex", "set backtrace past-entry on")

# Never returns from its innermost function, which calls nothing: the callers stay what they are.
SOURCE = """
#include <alloca.h>
#include <stdlib.h>
#include <string.h>
static volatile long spins;
static int compare(const void *a, const void *b) { for (;;) spins++; return a < b; }
static __attribute__((noinline)) int sort(int count) {
    int *values = alloca(count * sizeof *values);
    memset(values, 0, count * sizeof *values);
    qsort(values, count, sizeof *values, compare);
    return values[0];
}
static __attribute__((noinline)) int descend(int depth, int count) {
    return depth ? descend(depth - 1, count) + depth % 3 : sort(count);
}
int main(int count, char **words) { return descend(30 + count, 40 + !words); }
"""


@pytest.fixture
def spinner(tmp_path):
    source, program = tmp_path / "spinner.c", tmp_path / "spinner"
    source.write_text(SOURCE)
    flags = ["-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls"]
    subprocess.run(["gcc", *flags, "-o", program, source], check=True)
    process = subprocess.Popen([program])
    time.sleep(0.2)
    yield process
    process.kill()
    process.wait()


def callers_by_gdb(pid):
    """Return the callers' return addresses as their images state them, innermost first."""
    told = subprocess.run(
        [*GDB, "-p", str(pid), "-ex", "bt"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={name: value for name, value in os.environ.items() if name != "DEBUGINFOD_URLS"},
    ).stdout
    frames = re.findall(r"^#(\d+)\s+(?:0x([0-9a-f]+) in )?", told, re.MULTILINE)
    maps = [line.split(maxsplit=5) for line in Path(f"/proc/{pid}/maps").read_text().splitlines()]
    callers = []
    for number, address in frames:
        if number == "0":
            continue
        for line in maps:
            start, end = (int(word, 16) for word in line[0].split("-"))
            if start <= int(address, 16) < end:
                offset = int(address, 16) - start + int(line[2], 16)
                image = image_of(line[5].encode())
                callers.append(int(image.svma_of_offset(np.array([offset], np.uint64))[0]))
    return callers


# Every day callers are those of programs that are known.
@pytest.mark.nightly
def test_callers_are_those_that_gdb_sees(spinner, tmp_path):
    file = tmp_path / "perf.data"
    line = [*PROSPECT, "record", "--call-graph", "dwarf", "-H", "400", "-o", file, "sleep", "2"]
    subprocess.run([str(word) for word in line], check=True, timeout=60, capture_output=True)
    expected = callers_by_gdb(spinner.pid)
    assert len(expected) > 35
    options = NamingOptions(debuginfod_s=0), ProfileRequest(stacks=True)
    profile = build_profile(open_recording(str(file)), *options)
    stacks, locations = profile.stacks, profile.locations
    pid = profile.processes.pid.take(profile.hits.process_index.take(profile.samples.hit_index))
    rows = profile.samples.stack_index[pid == spinner.pid]
    of_user = rows[stacks.mode.take(rows) == 2]
    found = []
    for row in of_user.tolist():
        chain, caller = [], int(stacks.caller_index[row])
        while caller >= 0:
            # Ours lies in the call, gdb's behind it.
            chain.append(int(locations.address[stacks.location_index[caller]]) + 1)
            caller = int(stacks.caller_index[caller])
        found.append(chain == expected)
    assert len(found) > 20
    assert sum(found) >= 0.99 * len(found)
