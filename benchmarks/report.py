"""Time and memory of ``prospect report`` against ``perf report`` on one recording, and agreement.

    python benchmarks/report.py [--recording FILE | --samples N] [--seconds N] [--pairs N]
        [--perf PERF ...]

Without a recording, `perf record -a -F 20000` makes one of a mixed load (a C++ compiler, Python and
SQLite in turn): about 40,000 samples a second on two CPUs, so that 60 seconds give two million. The
two programs then run in turn, `--pairs` times, each as a whole process; figures are processor
seconds, wall seconds and peak memory of the process, ratios of processor seconds pair by pair. Our
commands are the text report of every process, nothing cached (``--no-cache``) and symbol tables
cached; the other formats of it; and the comparison of the recording with itself, two reports' work.
`--samples` makes up a recording of so many instead. With several versions of perf, ratios are those
to the last one, whose rows are compared too.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import scale

LOAD = """
end=$((SECONDS+$1)); cd "$2"
cat > t.cc <<'C'
#include <algorithm>
#include <map>
#include <regex>
#include <string>
#include <vector>
int main(){std::map<std::string,std::vector<int>> m;m["a"].push_back(1);
std::regex r("a+b");return std::regex_match("aab",r)+m.size();}
C
(while [ $SECONDS -lt $end ]; do g++ -O2 -c t.cc -o t.o; done) &
(while [ $SECONDS -lt $end ]; do
  python3 -c 'import json
d={str(i):[i]*5 for i in range(30000)}
for _ in range(6): json.loads(json.dumps(d))'
  sqlite3 :memory: 'with recursive c(x) as (select 1 union all select x+1 from c
    where x<300000) select sum(x*x) from c' >/dev/null
done) &
wait
"""
PERF = ["report", "--stdio", "--no-children", "-s", "comm,dso,symbol", "-i"]
TOP_ROWS = 50


class Cost(NamedTuple):
    """What a run took: processor seconds, wall seconds, and KiB of memory at its peak."""

    cpu: float
    wall: float
    memory: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--recording", type=Path)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--perf", nargs="+", default=["perf"], help="programs to compare with")
    parser.add_argument("--samples", type=int, help="make up a recording of so many, as scale.py")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        recording = arguments.recording
        if recording is None:
            recording = Path(scratch) / "perf.data"
            if arguments.samples:
                scale.write_samples(recording, arguments.samples)
            else:
                record(recording, arguments.seconds, scratch)
        compare_cost(recording, arguments.pairs, arguments.perf)
        compare_rows(recording, arguments.perf[-1])


def record(recording: Path, seconds: int, scratch: str) -> None:
    load = ["bash", "-c", LOAD, "load", str(seconds), scratch]
    command = ["perf", "record", "-q", "-a", "-F", "20000", "-o", str(recording), "--", *load]
    subprocess.run(command, check=True)


def compare_cost(recording: Path, pairs: int, perfs: list[str]) -> None:
    """Run perf and our commands in turn and print medians and the spread of the ratios."""
    versions = {version(perf): [perf, *PERF, str(recording)] for perf in perfs}
    base = list(versions)[-1]
    prospect = [sys.executable, "-m", "prospect"]
    report = [*prospect, "report", "-V4"]
    commands = {
        **versions,
        "text, nothing cached": [*report, "--no-cache", str(recording)],
        "text, symbols cached": [*report, str(recording)],
        **{
            f"{form}, symbols cached": [*report, "--format", form, str(recording)]
            for form in ("csv", "json", "html")
        },
        "diff with itself": [*prospect, "diff", str(recording), str(recording)],
    }
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for command in commands.values():
        run(command)  # warms the page cache and our symbol cache
    for _ in range(pairs):
        for name, command in commands.items():
            costs[name].append(run(command))
    print(f"{recording.stat().st_size / 1e6:.0f} MB, {pairs} pairs; median (min-max)")
    print(f"{'':26} {'CPU s':>7} {'ratio':>20} {'wall s':>7} {'peak MB':>8} {'ratio':>6}")
    perf_memory = statistics.median(cost.memory for cost in costs[base])
    for name, runs in costs.items():
        memory = statistics.median(cost.memory for cost in runs)
        wall = statistics.median(cost.wall for cost in runs)
        ratios = [own.cpu / perf.cpu for own, perf in zip(runs, costs[base], strict=True)]
        spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
        print(
            f"{name:26} {statistics.median(cost.cpu for cost in runs):7.2f} {spread:>20} "
            f"{wall:7.2f} {memory / 1024:8.0f} {memory / perf_memory:6.2f}"
        )


def version(perf: str) -> str:
    """Return how a perf calls itself: its name and version."""
    told = subprocess.run([perf, "--version"], check=True, capture_output=True, text=True).stdout
    return told.strip().replace(" version", "")


def run(command: list[str]) -> Cost:
    """Return what a command takes that must succeed."""
    null = os.open(os.devnull, os.O_WRONLY)
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    actions = [(os.POSIX_SPAWN_DUP2, null, 1), (os.POSIX_SPAWN_DUP2, null, 2)]
    begin = time.monotonic()
    pid = os.posix_spawnp(command[0], command, environment, file_actions=actions)
    _, status, usage = os.wait4(pid, 0)
    wall = time.monotonic() - begin
    os.close(null)
    if status:
        sys.exit(f"{' '.join(command)}: status {os.waitstatus_to_exitcode(status)}")
    return Cost(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss)


def compare_rows(recording: Path, program: str) -> None:
    """Print how many of perf's top rows ours agree with, and every difference with its cause."""
    perf = perf_rows(recording, program)
    ours, bracketed = our_rows(recording)
    top = perf.most_common(TOP_ROWS)
    different = [(key, count) for key, count in top if ours.get(key) != count]
    print(
        f"\ntop {TOP_ROWS} rows (comm, object, symbol): {len(top) - len(different)} equal in count"
    )
    same = sum(min(count, ours.get(key, 0)) for key, count in perf.items())
    total = sum(perf.values())
    print(f"{same} of {total} samples ({same / total:.2%}) in rows of the same name")
    for (comm, dso, symbol), count in different:
        own = ours.get((comm, dso, symbol), 0)
        print(f"  {count:8} {own:8}  {comm} {dso} {symbol}: {cause(dso, symbol, own, bracketed)}")


def cause(dso: str, symbol: str, own: int, bracketed: set[str]) -> str:
    if symbol.startswith("0x"):
        if dso in bracketed:
            return "perf has no name and shows each address; ours is in a bracket"
        return "no name in either; perf shows each address, ours one row an object"
    if not own:
        return "named otherwise by us"
    return "counts differ"


def perf_rows(recording: Path, program: str) -> Counter[tuple[str, str, str]]:
    command = [
        program,
        *PERF,
        str(recording),
        "-F",
        "sample,comm,dso,sym",
        "-t",
        "\t",
        "--demangle",
    ]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows: Counter[tuple[str, str, str]] = Counter()
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("\t")]
        if len(cells) >= 4 and cells[0].isdigit():
            symbol = cells[3].partition("] ")[2] or cells[3]
            rows[cells[1], cells[2], plain(symbol)] += int(cells[0])
    return rows


def our_rows(recording: Path) -> tuple[Counter[tuple[str, str, str]], set[str]]:
    import prospect  # noqa: PLC0415 - perf runs first, without our memory beside it

    table = prospect.open(recording).hits_table(detail="4")
    rows: Counter[tuple[str, str, str]] = Counter()
    bracketed = set()
    columns = ("thread", "object", "function", "samples")
    for comm, path, function, hits in zip(*(table[c].tolist() for c in columns), strict=True):
        dso = path.rpartition("/")[2] if not path.startswith("[") else path
        rows[comm, dso, plain(function) or "[no name]"] += hits
        if "->" in function:
            bracketed.add(dso)
    return rows, bracketed


def plain(symbol: str) -> str:
    """Return a C++ name without its parameters: perf leaves them out, we do not."""
    head, parenthesis, _ = symbol.partition("(")
    return head if parenthesis and head else symbol


if __name__ == "__main__":
    main()
