"""Who called whom, beside perf, on one recording with copies of stacks; and what a frame costs.

    python benchmarks/unwind.py [--recording FILE] [--pairs N] [--inlined]

Without a recording, `perf record --call-graph dwarf` makes one of six C++ compilations, of about
200,000 samples and 1.7 GB. `prospect calls` and `perf report --children --no-inline` run in turn,
each as a whole process: processor seconds, ratios pair by pair. `--inlined` runs perf once more as
it does by default, with inlined functions, which takes minutes. Then the stages of unwinding: a
frame with call-frame rows at hand, and working these rows out, of each image.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from report import version

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from builders import unwinding
from prospect.elf.frame_rows import read_frame_rows
from prospect.unwind import interface
from prospect.unwind.unwinder import unwind

REPEATS = 5
PERF = ["report", "--children", "-g", "none", "--stdio", "-i"]
OURS = [sys.executable, "-m", "prospect", "calls", "-V4"]
SOURCE = """
#include <functional>
#include <iostream>
#include <map>
#include <regex>
int main(int count, char **words) {
    std::map<std::string, std::function<int(int)>> calls;
    std::regex pattern("a+b");
    calls[words[0]] = [&](int x) { return x + std::regex_match(words[0], pattern); };
    std::cout << calls[words[0]](count);
}
"""
# Two compilers at a time, as many as the recorder can follow at this rate.
LOAD = """
compile() { for turn in 1 2 3; do g++ -O2 -c "$1/source.cc" -o "$1/$2.o"; done; }
compile "$1" a & compile "$1" b & wait
"""


class Cost(NamedTuple):
    """What a process took."""

    cpu_s: float
    wall_s: float
    peak_mb: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--recording", type=Path)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--inlined", action="store_true")
    parser.add_argument("--perf", nargs="+", default=["perf"], help="programs to compare with")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        recording = arguments.recording or record(Path(directory))
        compare(str(recording), arguments.pairs, arguments.perf, inlined=arguments.inlined)
        measure(recording)


def record(directory: Path) -> Path:
    data, source = directory / "perf.data", directory / "source.cc"
    source.write_text(SOURCE)
    # perf 6.1 aborts now and then as it writes build ids.
    options = ["-q", "-B", "-F", "8000", "-e", "cpu-clock:u", "--call-graph", "dwarf,8192"]
    load = ["sh", "-c", LOAD, "load", directory]
    subprocess.run(["perf", "record", *options, "-o", data, *load], check=True)
    return data


def compare(recording: str, pairs: int, perfs: list[str], *, inlined: bool) -> None:
    """Run both programs in turn, and print medians and the spread of the ratios."""
    programs = {
        **{
            f"{version(perf)} --no-inline": [perf, *PERF, recording, "--no-inline"]
            for perf in perfs
        },
        "prospect calls, nothing cached": [*OURS, "--no-cache", recording],
        "prospect calls, rows and symbols cached": [*OURS, recording],
    }
    run([*OURS, recording])  # warms the page cache and our own
    costs: dict[str, list[Cost]] = {name: [] for name in programs}
    for _ in range(pairs):
        for name, command in programs.items():
            costs[name].append(run(command))
    for perf in perfs if inlined else ():
        costs[version(perf)] = [run([perf, *PERF, recording])]
    *_, theirs, _, ours = list(costs.values())[: len(programs)]
    print(f"{'':40s} {'CPU s':>8s} {'wall s':>8s} {'peak MB':>8s}  CPU time by ours, cached")
    for name, found in costs.items():
        ratios = [cost.cpu_s / own.cpu_s for cost, own in zip(found, ours, strict=False)]
        cpu_s, wall_s, peak_mb = (statistics.median(each) for each in zip(*found, strict=True))
        spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        print(f"{name:40s} {cpu_s:8.2f} {wall_s:8.2f} {peak_mb:8.0f}  {spread}")
    least = min(perf.cpu_s / own.cpu_s for perf, own in zip(theirs, ours, strict=True))
    print(
        f"ours, cached, is at most 1/{least:.1f} of {version(perfs[-1])} without inlined functions"
    )


def run(command: list[str]) -> Cost:
    """Run a program to its end and return what it took."""
    begin = time.monotonic()
    with Path(os.devnull).open("w") as nothing:
        process = subprocess.Popen(command, stdout=nothing, stderr=nothing)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    wall_s = time.monotonic() - begin
    return Cost(usage.ru_utime + usage.ru_stime, wall_s, usage.ru_maxrss / 1024)


def measure(data: Path) -> None:
    """Print what the stages of unwinding cost."""
    given, finder, *_ = unwinding.read_recording(data)
    begin = time.process_time()
    unwound = unwind(given, finder)
    first = time.process_time() - begin
    spent = []
    for _ in range(REPEATS):
        begin = time.process_time()
        unwind(given, finder)
        spent.append(time.process_time() - begin)
    frames, median = int(unwound.frames().sum()), statistics.median(spent)
    print(f"\n{len(given)} samples, {frames} frames, at {len(unwound.sites)} places")
    print(f"unwinding, rows at hand  {median:7.3f} s  {median / frames * 1e9:5.0f} ns a frame")
    print(f"unwinding, the first     {first:7.3f} s")
    counts = np.bincount(unwound.end, minlength=len(interface.END_NAMES)).tolist()
    print(
        ", ".join(f"{n} {name}" for name, n in zip(interface.END_NAMES, counts, strict=True) if n)
    )
    for path in sorted({finder.paths[row] for row in unwound.sites.object.tolist() if row >= 0}):
        image = unwinding.image_of(path)
        begin = time.process_time()
        rows = read_frame_rows(image)
        spent_s = time.process_time() - begin
        if rows is not None:
            print(f"rows of an image         {spent_s:7.3f} s  {len(rows):7d}  {path.decode()}")


if __name__ == "__main__":
    main()
