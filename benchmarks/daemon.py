"""What `prospect daemon` costs on a busy machine, beside `perf record -F 19 -a -g` in the same run.

    sudo python benchmarks/daemon.py [--box] [--minutes 5] [--rate 19] [--window 60]

A compiler, a database and short commands keep every processor busy meanwhile; with `--box`, what a
server has: PostgreSQL, nginx, a web service, a JVM, containers, a compiler; with `--storm`, a shell
for each processor that starts nothing but short commands. The daemon's first window pays for its
start and for symbol tables; figures of the steady state begin behind it. CPU time is the kernel's
count for the daemon and its children, beside it what the daemon itself says. Memory is theirs
without pages of files, looked at five times a second: the most of all of them at one moment.
The sample accounting is that of each window: how far the expected ticks are from those that were
recorded, lost, throttled, idle and missing. A window is late by the time from its end to its file.
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
from typing import NamedTuple

import box
from prospect.store.directory import StoreDirectory
from prospect.store.segments import MINUTE, Segment

ACCOUNTING = (
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


def private_bytes(pid: int) -> int:
    """Return a process's part of its memory without pages of files, 0 where it has ended."""
    with suppress(OSError, IndexError):
        rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        sizes = dict(row.split(":", 1) for row in rows[1:])
        return sum(1024 * int(sizes[one].split()[0]) for one in ("Pss_Anon", "Pss_Shmem"))
    return 0


def sizes_of(pid: int) -> list[str]:
    """Return the lines on a process's memory: of vfork()'s child, the same as of its parent."""
    with suppress(OSError):
        rows = Path(f"/proc/{pid}/status").read_text().splitlines()
        return [row for row in rows if row.startswith("Vm")]
    return []


def cpu_s(pid: int) -> float:
    """Return the CPU time of a process and of the children that it has waited for."""
    with suppress(OSError):
        # A name may be any bytes.
        words = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return sum(map(int, words[11:15])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def children_of(pid: int) -> list[int]:
    """Return the processes that one has started and that run."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += map(int, task.read_text().split())
    return found


def used_s(pid: int) -> float:
    """Return the CPU time of a daemon and its children until now, as the kernel counts it."""
    return cpu_s(pid) + sum(map(cpu_s, children_of(pid)))


class Watched(NamedTuple):
    """A minute of a daemon: its share of the machine, the most memory, load, and late windows."""

    percent: float
    most_mb: float
    load: float
    late_s: float


def watch(pid: int, store: str, seconds: float) -> list[Watched]:
    """Look at a daemon for a while, minute by minute, and print each."""
    found: list[Watched] = []
    known, end = set(windows_of(store)), time.monotonic() + seconds
    print("minute  % of machine  MB  load  windows late by at most, in s")
    while (begin := time.monotonic()) < end:
        before_s, most, load, late = used_s(pid), 0, [], [0.0]
        while time.monotonic() < min(begin + 60, end):
            # Until a new process executes its program, its memory is the daemon's.
            own = sizes_of(pid)
            others = [one for one in children_of(pid) if sizes_of(one) != own]
            most = max(most, sum(map(private_bytes, [pid, *others])))
            load.append(os.getloadavg()[0])
            new = set(windows_of(store)) - known
            known |= new
            late += [time.time() - one.end_s for one in new]
            time.sleep(0.2)
        machine_s = (time.monotonic() - begin) * (os.cpu_count() or 1)
        share = 100 * (used_s(pid) - before_s) / machine_s
        found.append(Watched(share, most / 1e6, max(load), max(late)))
        row = found[-1]
        print(
            f"{len(found):6}  {row.percent:12.2f} {row.most_mb:3.0f} {row.load:5.0f}"
            f" {row.late_s:6.1f}"
        )
    return found


def windows_of(store: str) -> list[Segment]:
    """Return the windows that have their files and are in no hour yet."""
    with StoreDirectory(store) as directory:
        return [one for one in directory.segments() if one.tier == MINUTE]


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


def show_accounting(store: str, minutes: float) -> None:
    """Print the sample accounting of all windows, and how far each is off."""
    windows = asked("sql", ACCOUNTING, "--store", store)
    columns = ("recorded", "lost", "throttled", "idle", "missing")
    off = [
        sum(int(one[name]) for name in columns) / max(int(one["expected"]), 1) - 1
        for one in windows
    ]
    inner = max(map(abs, off[1:-1] or off))
    sums = {name: sum(int(one[name]) for one in windows) for name in ("expected", *columns)}
    shown = ", ".join(f"{name} {value:,}" for name, value in sums.items())
    print(f"accounting of {len(windows)} windows: {shown}")
    whole = sum(sums[name] for name in columns) / sums["expected"] - 1
    print(f"  closes within {abs(whole):.2%} together, each within {inner:.2%};")
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
    parser.add_argument("--box", action="store_true", help="run what a server's box has")
    parser.add_argument("--perf", help="the perf to compare with (default: the one in PATH)")
    parser.add_argument("--storm", action="store_true", help="start short commands all the time")
    parser.add_argument("--keep", help="leave the store and perf's recording in this directory")
    return parser.parse_args()


def main() -> None:
    """Run both beside the load, and print what they took."""
    given = read_arguments()
    directory = given.keep or tempfile.mkdtemp(prefix="prospect-daemon-")
    os.chmod(directory, 0o755)  # noqa: PTH101 - the database's user has its files there
    store, file = f"{directory}/store", f"{directory}/perf.data"
    words = ["--window", str(given.window), "-H", str(given.rate)]
    words += ["--cpu-limit", given.cpu_limit, "--memory-limit", given.memory_limit]
    words += ["--call-graph", given.call_graph]
    perf = daemon = None
    programs = box.box() if given.box else box.small()
    if given.storm:
        programs += [box.Load("sh", ("sh", "-c", box.STORM))] * (os.cpu_count() or 1)
    loads = box.start(programs, directory, ("chrt", "--idle", "0") if given.give_way else ())
    try:
        daemon = subprocess.Popen([*PROSPECT, "daemon", "--store", store, *words])
        begun = status_of(store)
        if tool := given.perf or shutil.which("perf"):
            line = [tool, "record", "-q", "-F", str(given.rate), "-a", "-g", "-o", file]
            perf, perf_began = subprocess.Popen(line), time.monotonic()
        while status_of(store)["windows"] < 1:
            time.sleep(1)
        begin, first_s = status_of(store), used_s(daemon.pid)
        minutes = watch(daemon.pid, store, 60 * given.minutes)
        end, last_s = status_of(store), used_s(daemon.pid)
        whole_s = end_of(daemon, signal.SIGTERM)
        print(f"{given.minutes:g} min, {os.cpu_count()} CPUs, {given.rate} Hz, {words[-1]}")
        mean = sum(one.percent for one in minutes) / len(minutes)
        own_s = end["cpu_s"] - begin["cpu_s"]
        print(f"daemon: {last_s - first_s:.2f} CPU s, {mean:.3f} % of the machine;")
        print(f"  by its own count {own_s:.2f} CPU s; with its start and end {whole_s:.2f} CPU s,")
        print(f"  {first_s:.2f} until its first window was written")
        steps = "; ".join(end["goes_without"]) or "all that was asked for"
        print(f"  at the end windows have {steps}; peak {end['memory_peak_bytes'] >> 20} MiB")
        print(f"  memory {max(one.most_mb for one in minutes):.0f} MB at most, with its processes")
        print(f"  {end['samples']} samples, {end['lost']} lost, {end['windows']} windows written")
        if perf:
            show_perf(perf, time.monotonic() - perf_began, file)
        show_accounting(store, (time.time() - begun["began_s"]) / 60)
    finally:
        end_all(perf, daemon)
        box.end(loads)
        if not given.keep:
            shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
