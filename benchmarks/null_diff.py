"""The null test of `prospect diff`: the same program twice, many times; how often is that a change?

    python benchmarks/null_diff.py [--pairs 201] [--rate 1000] [--timers]

Runs three real programs in turn: a C program with loops, a sort and page faults, a Python script,
and a compilation. Prints, for one recording a side and for three and five, how many comparisons
mark any row at all as changed (with no true change that is to be at most the rate of false
discoveries), how many of their 95 % intervals of the total leave out no change, and how much runs
differed. With `--timers` the kernel's timers sample even where there is a hardware counter. Needs
root and a C compiler.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import prospect

SEED = 1
REPLICATES = (1, 3, 5)
FDR = 0.05

LOOPS_C = r"""
#include <stdlib.h>
#include <string.h>
static volatile unsigned long sink;
__attribute__((noinline)) static void mix(void) {
    unsigned long x = 88172645463325252UL;
    for (long i = 0; i < 10000000; i++) { x ^= x << 13; x ^= x >> 7; x ^= x << 17; }
    sink += x;
}
__attribute__((noinline)) static void stride(void) {
    static unsigned char bytes[1 << 20];
    unsigned long sum = 0;
    for (int turn = 0; turn < 300; turn++)
        for (int i = 0; i < 1 << 20; i += 8) sum += bytes[i] * (unsigned)(i + turn);
    sink += sum;
}
static int less(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    return x < y ? -1 : x > y;
}
__attribute__((noinline)) static void sort(int count) {
    int *numbers = malloc(count * sizeof *numbers);
    unsigned seed = 1;
    for (int i = 0; i < count; i++) {
        seed = seed * 1103515245 + 12345;
        numbers[i] = seed >> 8;
    }
    qsort(numbers, count, sizeof *numbers, less);
    sink += numbers[count / 2];
    free(numbers);
}
__attribute__((noinline)) static void touch(void) {
    for (int turn = 0; turn < 20; turn++) {
        char *memory = malloc(4 << 20);
        memset(memory, turn, 4 << 20);
        sink += memory[turn];
        free(memory);
    }
}
int main(void) {
    for (int turn = 0; turn < 5; turn++) { mix(); stride(); sort(150000); touch(); }
    return 0;
}
"""
SCRIPT_PY = r"""
import hashlib, json, re
table = {str(i): [j * 1.5 for j in range(20)] for i in range(2000)}
for _ in range(3):
    text = json.dumps(table)
    back = json.loads(text)
    digest = hashlib.sha256(text.encode() * 5).hexdigest()
    found = len(re.findall(r"\d+\.5", text))
    keys = sorted(back, key=lambda key: -int(key))
    total = sum(i * i for i in range(300000))
"""


class Outcome(NamedTuple):
    """What one comparison said: rows marked, whether its total's interval leaves 0 out, the rest.

    `common` and `row` are the standard deviations between runs that it found, or assumed.
    """

    marked: int
    tested: int
    misses: bool
    common: float
    row: float


def programs(directory: Path) -> dict[str, list[str]]:
    """Build what is run; return command lines by name."""
    (directory / "loops.c").write_text(LOOPS_C)
    (directory / "script.py").write_text(SCRIPT_PY)
    subprocess.run(["gcc", "-O1", "-g", "-o", "loops", "loops.c"], cwd=directory, check=True)
    functions = "".join(
        f"double f{i}(double *a, int n) {{ double s = 0; for (int i = 0; i < n; i++) {{"
        f" if (a[i] > {i}) s += a[i] * {i}; else s -= a[i] / ({i} + i);"
        f" for (int j = 0; j < i; j++) s *= 1 + a[j] / ({i} + j); }} return s; }}\n"
        for i in range(60)
    )
    (directory / "many.c").write_text(functions)
    return {
        "C program": ["./loops"],
        "Python script": [sys.executable, "script.py"],
        "gcc": ["gcc", "-O2", "-c", "many.c", "-o", "many.o"],
    }


def record(command: list[str], directory: Path, number: int, options: list[str]) -> Path:
    """Record one run."""
    path = directory / f"{number}.data"
    subprocess.run(
        [sys.executable, "-m", "prospect", "record", *options, "-o", path, *command],
        cwd=directory,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return path


def compared(before: list[prospect.Profile], after: list[prospect.Profile]) -> Outcome:
    """Compare two sides of the same program."""
    difference = prospect.diff(before, after, fdr=FDR)
    tables = (difference.processes, difference.objects, difference.functions)
    total = difference.total
    return Outcome(
        marked=sum(int(table.significant.sum()) for table in tables),
        tested=difference.tested,
        misses=bool(abs(total.change[0]) > total.half_width[0]),
        common=max(difference.variation.common),
        row=difference.variation.row,
    )


def comparisons(
    profiles: list[prospect.Profile], replicates: int, order: random.Random
) -> list[Outcome]:
    """Compare disjoint groups of recordings, each in one comparison only."""
    shuffled = order.sample(profiles, len(profiles)) if replicates > 1 else profiles
    size = 2 * replicates
    return [
        compared(shuffled[i : i + replicates], shuffled[i + replicates : i + size])
        for i in range(0, len(shuffled) - size + 1, size)
    ]


def main() -> int:
    """Run the test and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=201)
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--timers", action="store_true")
    arguments = parser.parse_args()
    options = [f"-H{arguments.rate}", *(["--clocks", "4"] if arguments.timers else [])]
    order = random.Random(SEED)
    with tempfile.TemporaryDirectory(prefix="null-diff") as name:
        directory = Path(name)
        commands = programs(directory)
        profiles: dict[str, list[prospect.Profile]] = {program: [] for program in commands}
        for number in range(2 * arguments.pairs):
            program = list(commands)[number // 2 % len(commands)]
            path = record(commands[program], directory, number, options)
            profiles[program].append(prospect.open(path))
            path.unlink()
    print(f"Linux {os.uname().release}, {os.cpu_count()} CPUs, load {os.getloadavg()[1]:.1f}")
    print(
        "a side  program         comparisons  with a mark  rows marked  total missed  runs differ"
    )
    for replicates in REPLICATES:
        sums = [0, 0, 0, 0]
        for program, recorded in profiles.items():
            found = comparisons(recorded, replicates, order)
            counts = [
                len(found),
                sum(outcome.marked > 0 for outcome in found),
                sum(outcome.marked for outcome in found),
                sum(outcome.misses for outcome in found),
            ]
            sums = [whole + part for whole, part in zip(sums, counts, strict=True)]
            common = statistics.median([outcome.common for outcome in found] or [0.0])
            print(
                f"{replicates:6}  {program:14}  {counts[0]:11}  {counts[1]:11}  {counts[2]:11}  "
                f"{counts[3]:12}  {common:10.1%}"
            )
        allowed = FDR * sums[0]
        print(
            f"{replicates:6}  all             {sums[0]:11}  {sums[1]:11}  {sums[2]:11}  "
            f"{sums[3]:12}  (at the stated rate {allowed:.0f} with a mark, {allowed:.0f} missed)"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
