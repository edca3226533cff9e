"""Recordings by Debian's `perf`, which has faults of its own."""

from __future__ import annotations

import subprocess


def reads_itself(path: object) -> bool:
    """Whether perf reads a recording that it made.

    perf 6.1 cannot where a BPF program came or went meanwhile, as another test's may: the kernel
    says that the record of it is larger than it is. `perf report --stats` prints nothing then and
    ends well; its script does not.
    """
    done = subprocess.run(
        ["perf", "script", "-D", "-i", str(path)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
        timeout=120,
    )
    return not done.returncode


def events_shown(path: object) -> set[str]:
    """The events that perf shows of a recording: those that it lists, and those of samples."""
    lines: list[str] = []
    for words in (["evlist"], ["script", "-F", "event"]):
        line = ["perf", *words, "-i", str(path)]
        ran = subprocess.run(line, capture_output=True, text=True, check=True, timeout=120)
        lines += ran.stdout.splitlines()
    names = (line.strip().rstrip(":") for line in lines if not line.startswith("#"))
    return {name for name in names if name}
