"""Processor time to unwind stack copies, beside perf: python benchmarks/unwind.py [FILE].

Without FILE, `perf record --call-graph dwarf` records g++ on a few templates. What a frame costs is
told with call-frame rows at hand, and what working these rows out costs is told of each image.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from builders import unwinding
from prospect.elf.frame_rows import read_frame_rows
from prospect.unwind import model
from prospect.unwind.unwinder import unwind

_REPEATS = 5
_COMPILATIONS = 4
_SOURCE = """
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


def record(directory: Path) -> Path:
    data, source = directory / "perf.data", directory / "source.cc"
    source.write_text(_SOURCE)
    times = " ".join(map(str, range(_COMPILATIONS)))
    loop = f"for i in {times}; do g++ -O2 -c {source} -o {source}.o; done"
    # perf 6.1 aborts now and then as it writes build ids.
    options = ["-q", "-B", "-F", "8000", "-e", "cpu-clock:u", "--call-graph", "dwarf,8192"]
    subprocess.run(["perf", "record", *options, "-o", data, "sh", "-c", loop], check=True)
    return data


def seconds_of_perf(data: Path) -> float:
    """Return the processor seconds of a report that unwinds, without inlined functions."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = ["perf", "report", "-i", data, "--children", "--no-inline", "-g", "none", "--stdio"]
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(data: Path) -> None:
    given, finder, *_ = unwinding.read_recording(data)
    begin = time.process_time()
    unwound = unwind(given, finder)
    first = time.process_time() - begin
    spent = []
    for _ in range(_REPEATS):
        begin = time.process_time()
        unwind(given, finder)
        spent.append(time.process_time() - begin)
    frames, median = len(unwound.address), statistics.median(spent)
    print(f"{len(given)} samples, {frames} frames, at {len(unwound.sites)} places")
    print(f"unwinding, rows at hand  {median:7.3f} s  {median / frames * 1e9:5.0f} ns a frame")
    print(f"unwinding, the first     {first:7.3f} s")
    counts = np.bincount(unwound.end, minlength=len(model.END_NAMES)).tolist()
    print(", ".join(f"{n} {name}" for name, n in zip(model.END_NAMES, counts, strict=True) if n))
    for path in sorted({finder.paths[row] for row in unwound.sites.object.tolist() if row >= 0}):
        image = unwinding.image_of(path)
        begin = time.process_time()
        rows = read_frame_rows(image)
        spent_s = time.process_time() - begin
        if rows is not None:
            print(f"rows of an image         {spent_s:7.3f} s  {len(rows):7d}  {path.decode()}")
    perf = seconds_of_perf(data)
    print(f"perf report --no-inline  {perf:7.3f} s, all in all")


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        measure(Path(sys.argv[1]) if len(sys.argv) > 1 else record(Path(directory)))


if __name__ == "__main__":
    main()
