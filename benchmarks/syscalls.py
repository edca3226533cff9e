"""What counting system calls costs, beside the tools that count or trace them too.

    python benchmarks/syscalls.py

Prints, for one thread and for as many as there are CPUs, how long a getppid() takes alone and under
each tool: the best of some runs, and its ratio to the cost of `prospect record --count-syscalls`.
Needs root and a C compiler; perf and strace are left out where they are missing.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

RUNS = 5
OURS = "prospect record --count-syscalls"

# Every thread, on a CPU of its own, says what a call took.
LOAD_SOURCE = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static long calls;
static void *work(void *cpu) {
    cpu_set_t own;
    struct timespec a, b;
    CPU_ZERO(&own);
    CPU_SET((long)cpu, &own);
    sched_setaffinity(0, sizeof own, &own);
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (long i = 0; i < calls; i++) syscall(SYS_getppid);
    clock_gettime(CLOCK_MONOTONIC, &b);
    printf("%.1f ns\n", ((b.tv_sec - a.tv_sec) * 1e9 + b.tv_nsec - a.tv_nsec) / calls);
    return 0;
}
int main(int argc, char **argv) {
    pthread_t thread[1024];
    long threads = atol(argv[1]);
    calls = atol(argv[2]);
    for (long i = 0; i < threads; i++) pthread_create(&thread[i], 0, work, (void *)i);
    for (long i = 0; i < threads; i++) pthread_join(thread[i], 0);
}
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        load = Path(directory) / "load"
        source = Path(directory) / "load.c"
        source.write_text(LOAD_SOURCE)
        subprocess.run(["cc", "-O2", "-pthread", "-o", load, source], check=True)
        for threads in sorted({1, os.cpu_count() or 1}):
            compare(load, threads)


def compare(load: Path, threads: int) -> None:
    print(f"{threads} thread{'s' if threads > 1 else ''}, ns a call, and more than alone:")
    alone = best_ns((), load, threads, 300_000)
    print(f"  {'alone':36} {alone:8.0f}")
    costs: dict[str, float] = {}
    for name, (tool, calls) in tools(load.parent).items():
        found = best_ns(tool, load, threads, calls)
        costs[name] = found - alone
        ratio = costs[name] / costs[OURS]
        print(f"  {name:36} {found:8.0f} {costs[name]:+8.0f}  {ratio:6.2f} x ours")


def tools(directory: Path) -> dict[str, tuple[tuple[str, ...], int]]:
    """Return name → (the words before the load, calls to make), ours first."""
    nowhere = ("-o", os.devnull)
    prospect = (sys.executable, "-m", "prospect", "record", "--count-syscalls", "-o")
    found: dict[str, tuple[tuple[str, ...], int]] = {
        OURS: ((*prospect, str(directory / "calls.data")), 300_000)
    }
    if shutil.which("perf"):
        found["perf stat -e raw_syscalls:sys_enter"] = (
            ("perf", "stat", *nowhere, "-e", "raw_syscalls:sys_enter"),
            300_000,
        )
        found["perf trace -s"] = (("perf", "trace", "-s", *nowhere), 50_000)
    if shutil.which("strace"):
        found["strace -f -c"] = (("strace", "-f", "-c", *nowhere), 10_000)
    return found


def best_ns(tool: tuple[str, ...], load: Path, threads: int, calls: int) -> float:
    """Return the best run's slowest thread."""
    results = []
    for _ in range(RUNS):
        line = [*tool, str(load), str(threads), str(calls)]
        ran = subprocess.run(line, capture_output=True, text=True, check=False)
        told = [float(text) for text in re.findall(r"([\d.]+) ns", ran.stdout)]
        if len(told) == threads:
            results.append(max(told))
    return min(results, default=float("nan"))


if __name__ == "__main__":
    main()
