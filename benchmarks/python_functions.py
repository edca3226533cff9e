"""Python functions beside py-spy: how far shares are from what a program knows, and their cost.

    python benchmarks/python_functions.py [--py-spy PATH] [--runs N] [--rate HZ] [--batch N]

A program runs functions of six kinds in two threads, a fixed number of times, and adds up the
processor time of each: recursion, calls of C, callbacks from C, generators, exceptions, coroutines.
Prints for each tool how far its shares are from these, how many lie within 1.96 standard errors,
and what it takes: of the program's own processor time, of the time that passed, and of its own.
Needs root; py-spy is left out where it is missing. "prospect, user" is what an ordinary user gets,
whose Python functions are read from memory; it needs an environment that others can read. A program
that asks for its time often is preempted where it does: with `--batch` it asks less often.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

FUNCTIONS = ("recursion", "in_c", "sorting", "generating", "raising", "awaiting")
SPLIT = Path(__file__).parents[1] / "tests/live/programs/python_split.py"
PROGRAM = """
import json, runpy, sys, threading, time
split = runpy.run_path(sys.argv[1], run_name="split")
batch = int(sys.argv[3])
told = dict.fromkeys(sys.argv[4:], 0.0)
def work(function):
    begin = time.thread_time()
    for _ in range(batch):
        function()
    told[function.__name__] += time.thread_time() - begin
def main(rounds):
    for _ in range(rounds // batch):
        for name in told:
            work(split[name])
begin = time.monotonic()
other = threading.Thread(target=main, args=(int(sys.argv[2]) // 2,))
other.start()
main(int(sys.argv[2]))
other.join()
print(json.dumps([told, time.process_time(), time.monotonic() - begin]))
"""
ROUNDS = 1200
PROSPECT = [sys.executable, "-m", "prospect"]
AS_USER = ["setpriv", "--reuid=65534", "--clear-groups", "env", "HOME=/nonexistent"]
IN_STACK = re.compile(r";work(?: \([^;]*\))?;(\w+)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--py-spy", default=shutil.which("py-spy") or "")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--rate", type=int, default=200)
    parser.add_argument("--batch", type=int, default=1)
    options = parser.parse_args()
    tools = ["alone", "prospect", "prospect, user"]
    tools += ["py-spy", "py-spy --gil", "py-spy --native"] if options.py_spy else []
    found: dict[str, list[tuple[float, ...]]] = {tool: [] for tool in tools}
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o777)
        for _ in range(options.runs):
            for tool in tools:
                found[tool].append(_run(tool, options, Path(directory) / "out"))
    print(f"{options.runs} runs at {options.rate} samples a second; shares in percentage points\n")
    print(f"{'':16}  Hits  Mean off  Most off  Within  Program's CPU s  Took s  Tool's CPU s")
    for tool, runs in found.items():
        hits, mean, most, within, cpu_s, took_s, own_s = zip(*runs, strict=True)
        accuracy = f"{'':32}"
        if hits[0]:
            accuracy = f"{statistics.median(hits):6.0f}  {statistics.mean(mean):8.2f}"
            accuracy += f"  {max(most):8.2f}  {statistics.mean(within):6.0%}"
        print(
            f"{tool:16}{accuracy}  {min(cpu_s):15.2f}  {min(took_s):6.2f}"
            f"  {statistics.median(own_s):12.2f}"
        )


def _run(tool: str, options: argparse.Namespace, out: Path) -> tuple[float, ...]:
    """Return hits, mean and largest difference of shares, how many are within; CPU and time."""
    line = [sys.executable, "-c", PROGRAM, str(SPLIT), str(ROUNDS), str(options.batch), *FUNCTIONS]
    out.unlink(missing_ok=True)
    record = [*PROSPECT, "record", "-H", str(options.rate), "-o", str(out)]
    before = {"alone": [], "prospect": record, "prospect, user": [*AS_USER, *record]}.get(tool)
    if before is None:
        before = [options.py_spy, "record", *tool.split()[1:], "-r", str(options.rate), "-f", "raw"]
        before += ["-o", str(out), "--"]
    begin = resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = subprocess.run([*before, *line], capture_output=True, text=True, check=True)
    end = resource.getrusage(resource.RUSAGE_CHILDREN)
    printed = next(one for one in ran.stdout.splitlines() if one.startswith("[{"))
    told, cpu_s, took_s = json.loads(printed)
    own_s = end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime - cpu_s
    counted = dict.fromkeys(FUNCTIONS, 0)
    for stack, hits in _stacks(tool, out):
        match = IN_STACK.search(stack)
        if match and match[1] in counted:
            counted[match[1]] += hits
    total, whole = sum(counted.values()), sum(told.values())
    if not total:
        return 0, 0.0, 0.0, 0.0, cpu_s, took_s, own_s
    off = [counted[name] / total - told[name] / whole for name in FUNCTIONS]
    error = [math.sqrt(told[name] / whole * (1 - told[name] / whole) / total) for name in FUNCTIONS]
    within = [abs(one) <= 1.96 * each for one, each in zip(off, error, strict=True)]
    points = [100 * abs(one) for one in off]
    return (
        total,
        statistics.mean(points),
        max(points),
        statistics.mean(within),
        cpu_s,
        took_s,
        own_s,
    )


def _stacks(tool: str, out: Path) -> list[tuple[str, int]]:
    """Return the stacks of a run, the outermost function first, and their hits."""
    if tool == "alone":
        return []
    text = "" if tool.startswith("prospect") else out.read_text()
    if not text:
        line = [*PROSPECT, "report", str(out), "-V2", "--format", "folded"]
        text = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    rows = (line.rpartition(" ") for line in text.splitlines())
    return [(stack, int(hits)) for stack, _, hits in rows]


if __name__ == "__main__":
    main()
