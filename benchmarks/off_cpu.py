"""What recording every switch of the scheduler costs, beside perf's ways to do that.

    python benchmarks/off_cpu.py

Two processes pass a byte to and fro on one CPU. Prints how much more of their processor time a
switch takes under each tool than alone, from the best of some runs, and the size of the recording.
"others" is what `--wall` costs the switches of processes that it does not follow. Needs root and a
C compiler; perf is left out where it is missing.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUNS = 5
ROUNDS = 50_000

# The program says how much processor time its rounds took, so that other work matters little.
LOAD_SOURCE = r"""
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
static double spent(int who) {
    struct rusage usage;
    getrusage(who, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e9
        + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e3;
}
int main(int argc, char **argv) {
    int rounds = atoi(argv[1]), there[2], back[2];
    char byte = 0;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    sched_setaffinity(0, sizeof one, &one);
    if (pipe(there) || pipe(back)) return 1;
    if (!fork()) {
        for (int i = 0; i < rounds; i++)
            if (read(there[0], &byte, 1) != 1 || write(back[1], &byte, 1) != 1) _exit(1);
        _exit(0);
    }
    for (int i = 0; i < rounds; i++)
        if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1) return 1;
    wait(NULL);
    fprintf(stderr, "took %.0f ns\n", spent(RUSAGE_SELF) + spent(RUSAGE_CHILDREN));
}
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        load, recording = Path(directory) / "load", Path(directory) / "recording"
        source = load.with_suffix(".c")
        source.write_text(LOAD_SOURCE)
        subprocess.run(["cc", "-O2", "-o", load, source], check=True)
        alone = best_ns([], load)
        print(f"{'alone':44} {alone / ROUNDS / 2000:7.2f} us a switch")
        for name, tool in tools(recording):
            cost = (best_ns(tool, load) - alone) / ROUNDS / 2000
            size = recording.stat().st_size / ROUNDS / 2
            print(f"{name:44} {cost:+7.2f} us, {size:6.0f} bytes a switch")
        aside = [sys.executable, "-m", "prospect", "record", "-o", str(recording), "--wall"]
        with subprocess.Popen([*aside, "sleep", "600"], stderr=subprocess.DEVNULL) as other:
            time.sleep(2)
            cost = (best_ns([], load) - alone) / ROUNDS / 2000
            other.terminate()
        print(f"{'prospect --wall, others':44} {cost:+7.2f} us")


def tools(recording: Path) -> list[tuple[str, list[str]]]:
    """Return name and words of each tool that there is."""
    record = [sys.executable, "-m", "prospect", "record", "-o", str(recording)]
    ours = [*record, "--off-cpu"]
    found = [
        ("prospect", record),
        ("prospect --wall", [*record, "--wall"]),
        ("prospect --off-cpu", ours),
        *(
            (f"prospect --off-cpu --call-graph {mode}", [*ours, "--call-graph", mode])
            for mode in ("fp", "auto")
        ),
    ]
    perf = shutil.which("perf")
    if perf:
        switches = ["-a", "-e", "context-switches", "-c", "1", "--switch-events", "-g"]
        found += [
            (
                "perf record -e context-switches -g",
                [perf, "record", "-o", str(recording), *switches],
            ),
            ("perf sched record", [perf, "sched", "record", "-o", str(recording)]),
        ]
    return found


def best_ns(tool: list[str], load: Path) -> float:
    taken = []
    for _ in range(RUNS):
        line = [*tool, *(["--"] if tool and "perf" in tool[0] else []), str(load), str(ROUNDS)]
        ran = subprocess.run(line, check=False, capture_output=True, text=True)
        told = re.search(r"took (\d+) ns", ran.stderr)
        if told is None:
            raise SystemExit(f"{line}: the load said nothing: {ran.stderr}")
        taken.append(float(told[1]))
    return min(taken)


if __name__ == "__main__":
    main()
