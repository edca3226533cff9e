"""Where wall time goes, of programs that know it, compared with what `prospect --wall` says.

    python benchmarks/wall.py [--runs N] [--off-cpu] [--alone] [--perf PERF] [MODE ...]

Prints for each part of a program's critical path its own time, by the clock of its thread, and the
account's; by how much the account misses the program's wall time, and its rows their sum; and of
functions the estimate without switches, `Wall s`. With --alone the programs have real-time
priority, so that other work does not take their CPUs. Without it, a program of two threads may wait
for the CPU that its other thread has: then what that one runs is not on the path ("own"). The mode
"turns" is a server whose turns are accounted, always with --off-cpu: milliseconds a turn. With
PERF, a perf from 6.15 on, it also prints what `perf report --latency` says of functions, on a
recording of its own. Needs root and a C compiler.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAMS = Path(__file__).parents[1] / "tests/live/programs"
PROSPECT = [sys.executable, "-m", "prospect"]
MODES = (
    *("pipeline", "build", "lock", "pipe", "unix", "tcp", "sleep", "dsync", "tree", "chain"),
    *("quota", "gil", "turns"),
)
QUOTA = ("50000", "100000")  # microseconds of CPU time, and of the period
RATE_HZ = "1000"
REQUESTS = 200
# What the account calls these waits.
REASONS = {"clock_nanosleep": ("clock_nanosleep", "sleep"), "write": ("write", "disk")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("modes", nargs="*", default=MODES, metavar="MODE")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--off-cpu", action="store_true", help="record with --off-cpu instead")
    parser.add_argument("--alone", action="store_true", help="with real-time priority")
    parser.add_argument("--perf", help="a perf that has report --latency")
    options = parser.parse_args()
    print(f"load {Path('/proc/loadavg').read_text().split()[0]}")
    with tempfile.TemporaryDirectory(dir=".") as directory, limited_group() as group:
        here = Path(directory)
        program = here / "wall"
        source = PROGRAMS / "wall.c"
        subprocess.run(["cc", "-O1", "-pthread", "-o", program, source], check=True)
        print(
            f"{'program':9} {'part':28} {'known':>8} {'account':>8} {'±':>7} {'off':>7}  estimate"
        )
        for mode in options.modes:
            if mode == "quota" and group is None:
                print("quota: CPU limits cannot be set here")
                continue
            for _ in range(options.runs):
                if mode == "turns":
                    compare_turns(here, alone=options.alone)
                    continue
                words = words_of(mode, program, here, group)
                recorder = "--off-cpu" if options.off_cpu else "--wall"
                # A limit of CPU time does not hold with real-time priority.
                if options.alone and mode != "quota":
                    words = [which("chrt") or "chrt", "-f", "1", *words]
                compare(mode, recorder, words, here, options.perf)


def words_of(mode: str, program: Path, here: Path, group: Path | None) -> list[str]:
    """Return the command of a mode."""
    if mode == "gil":
        return [sys.executable, str(PROGRAMS / "wall_gil.py")]
    if mode == "quota":
        join = 'echo $$ > "$0/cgroup.procs"; exec "$1" spin'
        return ["sh", "-c", join, str(group), str(program)]
    return [str(program), mode, str(here)]


@contextmanager
def limited_group() -> Iterator[Path | None]:
    """Make a control group that may use half of a CPU; None if that is not possible."""
    version_1 = Path("/sys/fs/cgroup/cpu")
    group = (version_1 if version_1.is_dir() else version_1.parent) / "prospect-wall"
    quota, period = QUOTA
    try:
        group.mkdir(exist_ok=True)
        if version_1.is_dir():
            (group / "cpu.cfs_period_us").write_text(period)
            (group / "cpu.cfs_quota_us").write_text(quota)
        else:
            (group / "cpu.max").write_text(f"{quota} {period}")
    except OSError:
        yield None
        return
    try:
        yield group
    finally:
        with suppress(OSError):
            group.rmdir()


def compare(mode: str, recorder: str, words: list[str], here: Path, perf: str | None) -> None:
    """Record a program once and print its parts."""
    file = here / "perf.data"
    ran = subprocess.run(
        [*PROSPECT, "record", recorder, "-H", RATE_HZ, "-o", str(file), *words],
        check=False,
        capture_output=True,
        text=True,
    )
    if ran.returncode:
        raise SystemExit(f"{mode}: {ran.stderr}")
    truth = json.loads(ran.stdout.splitlines()[-1])
    account = document("report", "--format", "json", str(file)).get("wall")
    sums, bars = added_up(account["rows"]) if account else ({}, {})
    rows = document("report", "--sort", "function", "-m", "0", "--format", "json", str(file))
    estimates = {one["function"]: one["wall_s"] for one in rows["events"][0]["rows"]}
    latency = of_perf(perf, words, here) if perf else {}
    for state, part in (("running", "ran"), ("blocked", "blocked")):
        for name, known in truth[part].items():
            called = REASONS.get(name, (name,)) if state == "blocked" else (name,)
            found = sum(sums.get((state, one), 0.0) for one in called)
            line = f"{mode:9} {state + ' ' + name:28} {known:8.3f} {found:8.3f}"
            line += f" {bars.get((state, name), 0.0):7.3f} {100 * (found / known - 1):+6.1f}%"
            if part == "ran" and estimates.get(name) is not None:
                line += f"  Wall s {estimates[name]:.3f}"
            if name in latency:
                line += f", perf {latency[name]:.1f} % latency"
            print(line)
    print_whole(mode, truth.get("wall_s"), account, sums)


def compare_turns(here: Path, *, alone: bool) -> None:
    """Record a server that knows what its turns consist of, and print their parts."""
    program, file = here / "turns", here / "perf.data"
    subprocess.run(["cc", "-O1", "-o", program, PROGRAMS / "turns.c"], check=True)
    words = [*([which("chrt") or "chrt", "-f", "1"] if alone else []), str(program), str(REQUESTS)]
    ran = subprocess.run(
        [*PROSPECT, "record", "--off-cpu", "-H", RATE_HZ, "-o", str(file), *words],
        check=True,
        capture_output=True,
        text=True,
    )
    truth = json.loads(ran.stdout.splitlines()[-1])
    kinds = document("report", "--format", "json", str(file))["turns"]["kinds"]
    kind = next(one for one in kinds if one["kind"] == "handle")
    for thread, part, known_s in (
        ("own thread", "running", truth["parse"] + truth["render"]),
        ("other process", "running", truth["lookup"]),
        ("other process", "blocked", truth["slept"]),
    ):
        rows = [row for row in kind["rows"] if (row["thread"], row["state"]) == (thread, part)]
        found = sum(row["seconds"] for row in rows) / kind["turns"]
        known = known_s / REQUESTS
        name = f"{part}, {thread}"
        off = 100 * (found / known - 1)
        print(f"{'turns':9} {name:28} {known * 1e3:8.3f} {found * 1e3:8.3f} {'':7} {off:+6.1f}%")
    sums = sum(row["seconds"] for row in kind["rows"])
    print(
        f"{'turns':9} {kind['turns']} of {REQUESTS}, median {kind['median']['value'] * 1e3:.3f} ms,"
        f" rows miss their sum by {100 * abs(sums / kind['seconds'] - 1):.6f} %"
    )


def print_whole(
    mode: str,
    wall_s: float | None,
    account: dict[str, Any] | None,
    sums: dict[tuple[str, str], float],
) -> None:
    """Print how well the account adds up, and the rest of it."""
    line = f"{mode:9} {'wall time':28}" + (f" {wall_s:8.3f}" if wall_s else " " * 9)
    if not account:
        print(f"{line}  no account")
        return
    seconds = account["seconds"]
    line += f" {seconds:8.3f} {'':7}" + (
        f" {100 * (seconds / wall_s - 1):+6.1f}%" if wall_s else ""
    )
    missed = 1e9 * (sum(one["seconds"] for one in account["rows"]) - seconds)
    line += f"  rows miss their sum by {missed:.0f} ns"
    for (state, _), of_state in sums.items():
        if state not in ("running", "blocked"):
            line += f"; {state} {of_state:.3f}"
    own = sum(one["seconds"] for one in account["takers"] if one["is_own"])
    print(f"{line}; own {own:.3f}")


def document(*words: str) -> dict[str, Any]:
    """Return what a report prints as JSON."""
    ran = subprocess.run([*PROSPECT, *words], check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def added_up(
    rows: list[dict[str, Any]],
) -> tuple[dict[tuple[str, str], float], dict[tuple[str, str], float]]:
    """Return the seconds of an account by state and what, and their ±."""
    sums: dict[tuple[str, str], float] = {}
    squares: dict[tuple[str, str], float] = {}
    for one in rows:
        key = one["state"], one["what"] or ""
        sums[key] = sums.get(key, 0.0) + one["seconds"]
        squares[key] = squares.get(key, 0.0) + one["half_width_s"] ** 2
    return sums, {key: square**0.5 for key, square in squares.items()}


def of_perf(perf: str, words: list[str], here: Path) -> dict[str, float]:
    """Return the shares of wall time, in percent, that perf finds on its own recording."""
    file = str(here / "latency.data")
    record = [perf, "record", "--latency", "-e", "cpu-clock", "-F", "199", "-o", file, *words]
    if subprocess.run(record, check=False, capture_output=True).returncode:
        return {}  # a perf of another root may not find the program
    report = [perf, "report", "--latency", "--stdio", "--sort", "sym", "-i", file]
    ran = subprocess.run(report, check=True, capture_output=True, text=True)
    found = re.findall(r"^ +([\d.]+)% +[\d.]+% +\[.\] (\S+)", ran.stdout, re.MULTILINE)
    return {name: float(percent) for percent, name in found}


if __name__ == "__main__":
    main()
