"""Waiting for what another process does, without a guess of how long that takes."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Found = TypeVar("Found")


def wait_for(condition: Callable[[], Found]) -> Found:
    """Return what the condition gives once that is true; fail after 60 seconds."""
    deadline = time.monotonic() + 60
    while not (found := condition()):
        assert time.monotonic() < deadline, condition
        time.sleep(0.01)
    return found


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used: on a busy machine a second is any part of it."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def wait_until_it_watches(pid: int) -> None:
    """Wait until a process has opened perf events: from then on it takes signals."""
    wait_for(lambda: _has_events(pid))


def _has_events(pid: int) -> bool:
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        try:
            if str(fd.readlink()) == "anon_inode:[perf_event]":
                return True
        except FileNotFoundError:  # closed meanwhile
            continue
    return False
