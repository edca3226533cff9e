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
