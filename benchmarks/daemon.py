"""What `prospect daemon` costs on a busy machine, beside `perf record -F 19 -a -g` in the same run.

    sudo python benchmarks/daemon.py [--minutes 5] [--rate 19] [--window 60] [--cpu-limit 0.5%]

A compiler, a database and short commands keep every processor busy meanwhile; with `--storm`, a
shell for each processor starts nothing but short commands beside them. The daemon's first window
pays for its start and for symbol tables; figures of the steady state begin behind it. The share is
of all processors; memory is what was resident, looked at five times a second, of the daemon and,
apart from it, of its largest other process. The books are those of each window: how far what was
expected is from what was recorded, lost, throttled, idle and missing.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

COMPILE = (
    "printf '#include <regex>\\n#include <map>\\n#include <iostream>\\n"
    'int main(){std::regex r("a+b");std::map<int,std::string> m;std::cout<<m.size();}\' > t.cc;'
    " while :; do g++ -O1 -c t.cc -o t.o; ls -l >/dev/null; done"
)
STORM = "while :; do /bin/true; /bin/true; /bin/true; (:); done"
DATABASE = """
import os, sqlite3
db = sqlite3.connect("load.db")
db.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)")
while True:
    db.executemany("INSERT INTO t(b) VALUES (?)", ((os.urandom(20).hex(),) for _ in range(2000)))
    db.execute("SELECT substr(b, 1, 2) AS k, count(*) FROM t GROUP BY k ORDER BY 2").fetchall()
    db.execute("DELETE FROM t WHERE a < (SELECT max(a) - 50000 FROM t)")
    db.commit()
"""
BOOKS = (
    "SELECT epoch(began) AS began, sum(expected) AS expected, sum(recorded) AS recorded,"
    " sum(lost) AS lost, sum(throttled) AS throttled, sum(idle) AS idle, sum(missing) AS missing"
    " FROM coverage WHERE cpu >= 0 GROUP BY began ORDER BY began"
)
PROSPECT = (sys.executable, "-m", "prospect")


def asked(*words: str) -> list[dict] | dict:
    """Return what a command of Prospect answers as JSON."""
    ran = subprocess.run(
        [*PROSPECT, *words, "--format", "json"], capture_output=True, text=True, check=True
    )
    return json.loads(ran.stdout)


def status_of(store: str) -> dict:
    """Return what the daemon says; waits until it does."""
    while True:
        with suppress(subprocess.CalledProcessError):
            return asked("control", "status", "--store", store)
        time.sleep(0.2)


def resident_mb(pid: int) -> float:
    """Return what is resident of a process, 0 where it has ended."""
    with suppress(OSError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 1e6
    return 0.0


def children_of(pid: int) -> list[int]:
    """Return the processes that one has started and that run."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # A name may be any bytes.
            if int(stat.read_bytes().rpartition(b")")[2].split()[1]) == pid:
                found.append(int(stat.parent.name))
    return found


def watch(pid: int, seconds: float) -> tuple[float, float]:
    """Look at a daemon for a while; return the most MB of it, and of another process of it."""
    most, most_child = 0.0, 0.0
    before: set[int] = set()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        most = max(most, resident_mb(pid))
        # Until a new process executes its program, its memory is the daemon's.
        children = set(children_of(pid))
        most_child = max([most_child, *map(resident_mb, children & before)])
        before = children
        time.sleep(0.2)
    return most, most_child


def end_of(process: subprocess.Popen, number: int) -> float:
    """End a process; return the CPU seconds of it and its children."""
    process.send_signal(number)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


def end_all(*processes: subprocess.Popen | None) -> None:
    """End those that still run, as after a failure."""
    for one in processes:
        if one and one.poll() is None:
            one.terminate()
            one.wait()


def start_load(directory: str, first: tuple[str, ...], *, storm: bool) -> list[subprocess.Popen]:
    """Keep every CPU busy, half of them with a compiler, half with a database."""
    loads = []
    for number in range(os.cpu_count() or 1):
        place = Path(directory, f"load{number}")
        place.mkdir()
        words = ["sh", "-c", COMPILE] if number % 2 == 0 else [sys.executable, "-c", DATABASE]
        loads += [
            subprocess.Popen(
                [*first, *line], cwd=place, start_new_session=True, stdout=subprocess.DEVNULL
            )
            for line in (words, *([["sh", "-c", STORM]] if storm else ()))
        ]
    return loads


def size_mb(path: str) -> float:
    """Return the bytes of all files below a path, in MB."""
    if Path(path).is_file():
        return Path(path).stat().st_size / 1e6
    return sum(one.stat().st_size for one in Path(path).rglob("*") if one.is_file()) / 1e6


def show_perf(perf: subprocess.Popen, ran_s: float, file: str) -> None:
    """End perf; print what it took."""
    perf_s = end_of(perf, signal.SIGINT)
    share = perf_s / ran_s / (os.cpu_count() or 1)
    print(f"perf record: {perf_s:.2f} CPU s, {share:.3%} of the machine, no names yet;")
    print(f"  {size_mb(file):.2f} MB")


def show_books(store: str, minutes: float) -> None:
    """Print the books of all windows, and how far each is out."""
    windows = asked("sql", BOOKS, "--store", store)
    columns = ("recorded", "lost", "throttled", "idle", "missing")
    off = [
        sum(int(one[name]) for name in columns) / max(int(one["expected"]), 1) - 1
        for one in windows
    ]
    inner = max(map(abs, off[1:-1] or off))
    sums = {name: sum(int(one[name]) for one in windows) for name in ("expected", *columns)}
    shown = ", ".join(f"{name} {value:,}" for name, value in sums.items())
    print(f"books of {len(windows)} windows: {shown}")
    whole = sum(sums[name] for name in columns) / sums["expected"] - 1
    print(f"they balance within {abs(whole):.2%} together, each within {inner:.2%};")
    print(f"  the first {off[0]:+.2%} and the last {off[-1]:+.2%}, which are shorter")
    stored = size_mb(store)
    print(f"store: {stored:.2f} MB, {stored / minutes * 60 * 24:.0f} MB a day at this pace")


def read_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=5.0, help="how long, behind the start")
    parser.add_argument("--rate", type=int, default=19, help="samples a second and CPU")
    parser.add_argument("--window", type=int, default=60, help="seconds a window")
    parser.add_argument("--call-graph", default="fp", help="how the daemon finds callers")
    parser.add_argument("--cpu-limit", default="0.5%", help="of the daemon, in percent")
    parser.add_argument("--memory-limit", default="200M", help="of the daemon")
    parser.add_argument("--give-way", action="store_true", help="let all other programs go first")
    parser.add_argument("--storm", action="store_true", help="start short commands all the time")
    parser.add_argument("--keep", help="leave the store and perf's recording in this directory")
    return parser.parse_args()


def main() -> None:
    """Run both beside the load, and print what they took."""
    given = read_arguments()
    directory = given.keep or tempfile.mkdtemp(prefix="prospect-daemon-")
    store, file = f"{directory}/store", f"{directory}/perf.data"
    words = ["--window", str(given.window), "-H", str(given.rate)]
    words += ["--cpu-limit", given.cpu_limit, "--memory-limit", given.memory_limit]
    words += ["--call-graph", given.call_graph]
    perf = daemon = None
    first = ("chrt", "--idle", "0") if given.give_way else ()
    loads = start_load(directory, first, storm=given.storm)
    try:
        daemon = subprocess.Popen([*PROSPECT, "daemon", "--store", store, *words])
        begun = status_of(store)
        if shutil.which("perf"):
            line = ["perf", "record", "-q", "-F", str(given.rate), "-a", "-g", "-o", file]
            perf, perf_began = subprocess.Popen(line), time.monotonic()
        while status_of(store)["windows"] < 1:
            time.sleep(1)
        began, begin = time.monotonic(), status_of(store)
        most, most_child = watch(daemon.pid, 60 * given.minutes)
        end, took_s = status_of(store), time.monotonic() - began
        whole_s = end_of(daemon, signal.SIGTERM)
        machine_s = took_s * (os.cpu_count() or 1)
        print(f"{given.minutes:g} min, {os.cpu_count()} CPUs, {given.rate} Hz, {words[-1]}")
        steady_s = end["cpu_s"] - begin["cpu_s"]
        print(f"daemon: {steady_s:.2f} CPU s, {steady_s / machine_s:.3%} of the machine")
        print(
            f"  with its start and end {whole_s:.2f} CPU s; the first window {begin['cpu_s']:.2f}"
        )
        steps = "; ".join(end["goes_without"]) or "all that was asked for"
        print(f"  at the end windows have {steps}; peak {end['memory_peak_bytes'] >> 20} MiB")
        print(f"  memory {most:.0f} MB at most, its largest other process {most_child:.0f} MB")
        print(f"  {end['samples']} samples, {end['lost']} lost, {end['windows']} windows written")
        if perf:
            show_perf(perf, time.monotonic() - perf_began, file)
        show_books(store, (time.time() - begun["began_s"]) / 60)
    finally:
        end_all(perf, daemon)
        for load in loads:
            with suppress(ProcessLookupError):
                os.killpg(load.pid, signal.SIGKILL)
            load.wait()
        if not given.keep:
            shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
