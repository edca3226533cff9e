"""What `prospect top` takes of one CPU, beside `perf top`, while programs work.

    python benchmarks/live.py [SECONDS]

Needs root. Both sample all CPUs at 200 Hz with call chains, each on a terminal of its own of
120 x 40, in turns, while Python and gzip work on one CPU. The first 15 s, with start-up, do not
count. Processor time is the kernel's, of the process and all its threads; what the samples take
from the programs themselves is not in it.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from contextlib import suppress

WARM_S = 15.0
ROUNDS = 2
LOAD = "import json,zlib\nwhile True: zlib.compress(json.dumps(list(range(5000))).encode())"
WATCHED = {
    "prospect top": (sys.executable, "-m", "prospect", "top", "-H", "200"),
    "prospect top, page of callers": (sys.executable, "-m", "prospect", "top", "-H", "200"),
    "perf top": ("perf", "top", "-F", "200", "-e", "cpu-clock", "-g"),
    "perf top --stdio": ("perf", "top", "--stdio", "-F", "200", "-e", "cpu-clock", "-g"),
}
KEYS = {"prospect top, page of callers": b"\r"}


def cpu_seconds(pid: int) -> float:
    """Return the user and system time of a process so far."""
    with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - a line of text
        fields = file.read().rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def read_for(terminal: int, seconds: float) -> int:
    """Take what the program writes; return how many bytes that were."""
    until, taken = time.monotonic() + seconds, 0
    while (left := until - time.monotonic()) > 0:
        if select.select([terminal], [], [], left)[0]:
            try:
                taken += len(os.read(terminal, 1 << 16))
            except OSError:  # the program has ended
                break
    return taken


def watch(name: str, seconds: float) -> tuple[float, float]:
    """Run one of them; return percent of a CPU, and bytes a second to its terminal."""
    pid, terminal = pty.fork()
    if not pid:
        os.environ["TERM"] = "xterm-256color"
        os.execvp(WATCHED[name][0], WATCHED[name])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 40, 120, 0, 0))
    read_for(terminal, WARM_S / 2)
    os.write(terminal, KEYS.get(name, b""))
    read_for(terminal, WARM_S / 2)
    before, began = cpu_seconds(pid), time.monotonic()
    taken = read_for(terminal, seconds)
    used, passed = cpu_seconds(pid) - before, time.monotonic() - began
    os.write(terminal, b"q")
    read_for(terminal, 1.0)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    os.close(terminal)
    os.waitpid(pid, 0)
    return 100.0 * used / passed, taken / passed


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 30.0
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in WATCHED}
    with subprocess.Popen([sys.executable, "-c", LOAD]) as load:
        try:
            for _ in range(ROUNDS):
                for name, rounds in found.items():
                    rounds.append(watch(name, seconds))
        finally:
            load.kill()
    print(f"{'':<30} {'of a CPU':>20} {'to the terminal':>20}")
    for name, rounds in found.items():
        shares = ", ".join(f"{share:.2f}%" for share, _ in rounds)
        rates = ", ".join(f"{rate / 1000:.1f} kB/s" for _, rate in rounds)
        print(f"{name:<30} {shares:>20} {rates:>20}")


if __name__ == "__main__":
    main()
