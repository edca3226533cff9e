"""`prospect --target` beside `ssh HOST perf record -a -o -`: bytes, cost there, names, the start.

Usage: PROSPECT_SSH='ssh -F FILE' python benchmarks/target.py HOST [--repeat 5] [--seconds 5]

HOST is a machine that ssh reaches without a question, with perf, and root there; the time to
COMMAND's start needs it to be this machine, over loopback. Bytes are those that ssh says it
received. What runs there meanwhile counts what it gets done in a second of its processor time.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import prospect

PROSPECT = (sys.executable, "-m", "prospect")
CLOCK = "import time; print(time.monotonic_ns())"
WORK = (
    "import time\n"
    "def work():\n"
    "    return sum(i * i for i in range(20000))\n"
    "done, end = 0, time.process_time() + {}\n"
    "while time.process_time() < end:\n"
    "    work(); done += 1\n"
    "print(done)\n"
)
RATE_HZ = 997


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("host")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        until_start(arguments.host, arguments.repeat, Path(directory))
        beside_perf(arguments.host, arguments.repeat, arguments.seconds, Path(directory))


def until_start(host: str, repeat: int, directory: Path) -> None:
    """Print how long COMMAND is waited for, beside what ssh alone takes."""
    command = ("python3", "-IS", "-c", CLOCK)
    waited: dict[str, list[float]] = {"ssh": [], "prospect": []}
    for _ in range(repeat):
        waited["ssh"].append(started((*ssh(), host, shlex.join(command))))
        ours = (*PROSPECT, "record", "--target", host, "-o", str(directory / "started"), *command)
        waited["prospect"].append(started(ours))
    alone, ours = (min(waited[name]) for name in ("ssh", "prospect"))
    print(f"until COMMAND's start: ssh alone {alone:.3f} s, --target {ours:.3f} s")


def started(words: tuple[str, ...]) -> float:
    """Return the seconds until a command there says what the clock is."""
    begin_ns = time.monotonic_ns()
    said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return (int(said.split()[-1]) - begin_ns) / 1e9


def beside_perf(host: str, repeat: int, seconds: float, directory: Path) -> None:
    """Print bytes a sample, the work that is done meanwhile, and hits without a name."""
    log, file = directory / "log", directory / "recording"
    work = ("python3", "-c", WORK.format(seconds))
    perf = ["perf", "record", "-q", "-a", "-e", "cpu-clock", "-F", str(RATE_HZ), "-o", "-"]
    ours = ("record", "--target", host, "-H", str(RATE_HZ), "--no-python", "-o", str(file), *work)
    of_perf = shlex.join((*perf, "--", "sh", "-c", 'exec "$@" >&2', "sh", *work))
    most: dict[str, int] = {}
    for _ in range(repeat):
        done = subprocess.run((*ssh(), host, shlex.join(work)), check=True, capture_output=True)
        most["alone"] = max(most.get("alone", 0), int(done.stdout))
        environment = os.environ | {"PROSPECT_SSH": shlex.join((*ssh(), "-v", "-E", str(log)))}
        run = subprocess.run((*PROSPECT, *ours), check=True, capture_output=True, env=environment)
        most["prospect"] = max(most.get("prospect", 0), int(run.stdout))
        profile = prospect.open(file)
        say("prospect", received(log), len(profile.samples), nameless(profile))
        for name, packs in (("perf", ()), ("ssh -C", ("-C",))):
            words = (*ssh(), *packs, "-v", "-E", str(log), host, of_perf)
            with file.open("wb") as out:
                run = subprocess.run(words, check=True, stdout=out, stderr=subprocess.PIPE)
            most[name] = max(most.get(name, 0), int(run.stderr.split()[-1]))
            say(name, received(log), *in_perf(file))
    for name in ("prospect", "perf", "ssh -C"):
        print(f"{name:8}  work done beside it: {most[name] / most['alone']:.1%} of that alone")


def say(name: str, size: int, samples: int, without: float) -> None:
    print(f"{name:8}  {size / samples:6.1f} bytes a sample of {samples}, {without:.1%} unnamed")


def received(log: Path) -> int:
    """Return the bytes that ssh received, by what it said; forget what it said."""
    found = re.findall(r"Transferred: sent \d+, received (\d+)", log.read_text())
    log.unlink()
    return sum(map(int, found))


def nameless(profile: prospect.Profile) -> float:
    table = profile.hits_table(detail="4")
    named = [bool(name) for name in table["function"].tolist()]
    hits = table["samples"].tolist()
    return 1 - sum(n for n, is_named in zip(hits, named, strict=True) if is_named) / sum(hits)


def in_perf(file: Path) -> tuple[int, float]:
    """Return the samples of perf's recording, and the share that perf shows as addresses."""
    words = ("perf", "script", "-F", "sym,ip", "-i", str(file))
    lines = subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()
    return len(lines), sum(line.endswith("[unknown]") for line in lines) / len(lines)


def ssh() -> tuple[str, ...]:
    return tuple(shlex.split(os.environ.get("PROSPECT_SSH", "ssh")))


if __name__ == "__main__":
    main()
