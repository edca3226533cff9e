"""The recorder beside `perf record -a`, on the same load, in turn, in one run.

    python benchmarks/recorder.py [--quick] [--timers] [--no-python]

Prints, for each rate, the medians of both and the ratio of each pair (median, least to most):
processor seconds of the recorder alone, slow-down of the load, samples lost, from the recorder's
start to the command's first instruction, from the command's end to the recorder's. With --timers
both sample by timers, also where there is a hardware counter; with --no-python nothing is read of
Python functions, as where no Python runs.
Needs root, `perf` and a C compiler.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from prospect.events.decode import decode
from prospect.perfdata.reader import open_recording

RATES_HZ = (1000, 4000, 20000)
PAIRS = 5
QUICK_PAIRS = 5
LOAD_SECONDS = 10.0
QUICK_LOAD_SECONDS = 2.0

# Every CPU runs a fixed number of steps; says when it began and ended and what it used.
LOAD_SOURCE = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
static unsigned long steps;
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}
static void *work(void *unused) {
    volatile unsigned long x = 88172645463325252ul;
    for (unsigned long i = 0; i < steps; i++) { x ^= x << 13; x ^= x >> 7; x ^= x << 17; }
    return unused;
}
int main(int argc, char **argv) {
    double begin = now();
    int threads = atoi(argv[1]);
    steps = strtoul(argv[2], 0, 10);
    pthread_t thread[1024];
    for (int i = 0; i < threads; i++) pthread_create(&thread[i], 0, work, 0);
    for (int i = 0; i < threads; i++) pthread_join(thread[i], 0);
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    double cpu = used.ru_utime.tv_sec + used.ru_stime.tv_sec
        + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
    FILE *out = fopen(argv[3], "w");
    fprintf(out, "%.9f %.9f %.9f\n", begin, cpu, now());
    fclose(out);
    return argc - argc;
}
"""


class RecorderFailedError(Exception):
    """A recorder did not end well; perf 6.1 aborts now and then over unusual build ids."""


class Run(NamedTuple):
    """What one run cost; times in seconds."""

    recorder_cpu: float
    load_time: float
    start_to_exec: float
    end_to_finish: float
    samples: int
    lost: int


class Load(NamedTuple):
    """The compiled load and its arguments."""

    program: Path
    threads: int
    steps: int
    notes: Path

    def command(self) -> list[str]:
        """Return its command line."""
        return [str(self.program), str(self.threads), str(self.steps), str(self.notes)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer and shorter runs")
    parser.add_argument("--rates", type=int, nargs="+", default=RATES_HZ, metavar="HZ")
    parser.add_argument("--timers", action="store_true", help="no hardware counter")
    parser.add_argument("--no-python", action="store_true", help="without Python functions")
    parser.add_argument("--perf", nargs="+", default=["perf"], help="programs to compare with")
    options = parser.parse_args()
    pairs = QUICK_PAIRS if options.quick else PAIRS
    seconds = QUICK_LOAD_SECONDS if options.quick else LOAD_SECONDS
    with tempfile.TemporaryDirectory(prefix="recorder-benchmark-") as name:
        directory = Path(name)
        load = build_load(directory, seconds)
        alone = [run([], load).load_time for _ in range(3)]
        print(f"{load.threads} busy threads, {pairs} pairs; the load alone takes", end=" ")
        print(f"{statistics.median(alone):.3f} s ({min(alone):.3f} to {max(alone):.3f})")
        for perf, rate in itertools.product(options.perf, options.rates):
            print(f"\n{rate} Hz, beside ", end="", flush=True)
            subprocess.run([perf, "--version"], check=True)
            compare(lines(directory, rate, perf, options), load, pairs, alone)


def build_load(directory: Path, seconds: float) -> Load:
    """Compile the load and find how many steps keep it busy for `seconds`."""
    source, program = directory / "load.c", directory / "load"
    source.write_text(LOAD_SOURCE)
    subprocess.run(["cc", "-O2", "-pthread", "-o", program, source], check=True)
    threads = len(os.sched_getaffinity(0))
    trial = Load(program, threads, 100_000_000, directory / "notes")
    steps = int(trial.steps * seconds / run([], trial).load_time)
    return trial._replace(steps=steps)


def lines(
    directory: Path, rate: int, program: str, options: argparse.Namespace
) -> tuple[list[str], list[str]]:
    """Return the command lines of both recorders, each ending with its file."""
    prospect = shutil.which("prospect", path=str(Path(sys.executable).parent)) or "prospect"
    ours_file, perf_file = str(directory / "ours.data"), str(directory / "perf.data")
    ours, perf = [prospect, "record", "-H", str(rate)], [program, "record", "-q", "-a"]
    if options.no_python:
        ours = [*ours, "--no-python"]
    if options.timers:
        ours, perf = [*ours, "--clocks", "4"], [*perf, "-e", "cpu-clock"]
    return [*ours, "-o", ours_file], [*perf, "-F", str(rate), "-o", perf_file]


def compare(
    recorders: tuple[list[str], list[str]], load: Load, pairs: int, alone: list[float]
) -> None:
    """Run both recorders alternately and print what they cost."""
    ours_line, perf_line = recorders
    typical = statistics.median(alone)
    ours, perf = [], []
    while len(ours) < pairs:
        try:
            pair = run(ours_line, load), run(perf_line, load)
        except RecorderFailedError as error:
            print(f"a pair is repeated: {error}")
            continue
        ours.append(pair[0])
        perf.append(pair[1])
    print(f"{'':28}{'prospect':>10}{'perf':>10}{'ratio':>8}   least to most")
    row("recorder's CPU seconds", ours, perf, "recorder_cpu")
    row("start to exec, s", ours, perf, "start_to_exec")
    row("command's end to finish, s", ours, perf, "end_to_finish")
    row("samples", ours, perf, "samples")
    row("load's time, s", ours, perf, "load_time")
    for name, runs in (("prospect", ours), ("perf", perf)):
        slower = [100 * (r.load_time / typical - 1) for r in runs]
        lost = [r.lost for r in runs]
        print(f"{name}: load slowed by {statistics.median(slower):.1f} %", end=" ")
        print(f"({min(slower):.1f} to {max(slower):.1f}), samples lost {lost}")


def row(title: str, ours: list[Run], perf: list[Run], field: str) -> None:
    """Print medians and the ratios of the pairs."""
    a = [float(getattr(r, field)) for r in ours]
    b = [float(getattr(r, field)) for r in perf]
    ratios = [x / y for x, y in zip(a, b, strict=True) if y]
    digits = 0 if field == "samples" else 4
    print(
        f"{title:28}{statistics.median(a):10.{digits}f}{statistics.median(b):10.{digits}f}", end=""
    )
    print(f"{statistics.median(ratios):8.3f}   {min(ratios):.3f} to {max(ratios):.3f}")


def run(recorder: list[str], load: Load) -> Run:
    """Run the load, under a recorder (whose last word is its file) or alone; read what it noted."""
    line = [*recorder, *(["--"] if recorder else []), *load.command()]
    begin = time.monotonic()
    # Both recorders have remarks on stderr; the status says whether they worked.
    quiet = [(os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)]
    pid = os.posix_spawnp(line[0], line, os.environ, file_actions=quiet)
    _, status, used = os.wait4(pid, 0)
    end = time.monotonic()
    if status:
        raise RecorderFailedError(f"{line[0]} ended with {os.waitstatus_to_exitcode(status)}")
    load_begin, load_cpu, load_end = map(float, load.notes.read_text().split())
    samples, lost = count(Path(recorder[-1])) if recorder else (0, 0)
    return Run(
        recorder_cpu=used.ru_utime + used.ru_stime - load_cpu,
        load_time=load_end - load_begin,
        start_to_exec=load_begin - begin,
        end_to_finish=end - load_end,
        samples=samples,
        lost=lost,
    )


def count(recording: Path) -> tuple[int, int]:
    """Return samples and lost samples of a recording."""
    with open_recording(str(recording)) as opened:
        events = decode(opened.blocks(), opened.info.events, [])
        counted = sum(opened.info.extras.get("lost", {}).values())
    return len(events.samples), max(counted, int(events.losses.count.sum()))


if __name__ == "__main__":
    main()
