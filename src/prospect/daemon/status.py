"""What a daemon says of itself: what it sampled and wrote, and what that cost."""

from __future__ import annotations

import os
import resource
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.profile.notes import left_out_notes
from prospect.store.names import SOURCES_WITH_NAMES
from prospect.store.segments import FUNCTIONS, SAMPLES
from prospect.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prospect.daemon.options import DaemonOptions
    from prospect.daemon.writing import StoreWriting
    from prospect.store.directory import StoreDirectory
    from prospect.store.windows import Window

_PAGE_BYTES = resource.getpagesize()
_TICKS = os.sysconf("SC_CLK_TCK")
# Of /proc/PID/stat behind the name: utime and stime.
_UTIME, _STIME = 11, 12


class Totals:
    """Sums over the windows of a daemon.

    Attributes:
        began_s: when the daemon did, in seconds since 1970.
        samples, lost: of all windows.
        left_out: notes on what the windows so far leave out.
        without_names: objects that the last window has hits in, and no names of.
    """

    def __init__(self) -> None:
        self.began_s = time.time()
        self.samples = self.lost = self.without_names = 0
        self.left_out: tuple[str, ...] = ()

    def add(self, window: Window, lost: int) -> None:
        """Count a window, and how many of its samples the kernel could not deliver."""
        self.samples += int(np.sum(window.tables[SAMPLES]["n"]))
        self.lost += lost
        self.left_out = left_out_notes((*self.left_out, *window.head.run["limits"]))
        self.without_names = _objects_without_names(window)


def figures_of(
    store: StoreDirectory,
    options: DaemonOptions,
    writing: StoreWriting,
    totals: Totals,
    sampling_pids: Iterable[int] | None,
) -> dict[str, Any]:
    """Return what a daemon knows of itself without looking into its store.

    Args:
        store: of the daemon.
        options: likewise.
        writing: likewise.
        totals: likewise.
        sampling_pids: processes that sample, None while there is no sampling.
    """
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    ended_s = sum(one.ru_utime + one.ru_stime for one in used)
    return {
        "schema": "prospect-daemon/1",
        "version": __version__,
        "pid": os.getpid(),
        "store": store.path,
        "sampling": sampling_pids is not None,
        "session": writing.session,
        "began_s": totals.began_s,
        "frequency_hz": options.frequency_hz,
        "call_graph": options.call_graph or "none",
        "window_s": options.window_s,
        "separate": list(options.separate),
        "samples": totals.samples,
        "lost": totals.lost,
        "windows": writing.windows,
        "windows_lost": writing.failed,
        "dropped_for_room": writing.dropped,
        "newest_s": writing.newest_s,
        "newest_age_s": max(time.time() - writing.newest_s, 0.0) if writing.newest_s else None,
        "objects_without_names": totals.without_names,
        "left_out": list(totals.left_out),
        "complaint": writing.complaint,
        "cpu_s": ended_s + sum(map(_cpu_s, sampling_pids or ())),
        "memory_bytes": _resident_bytes(),
        # Of whichever of its processes had most, as one that writes a window.
        "child_memory_bytes": used[1].ru_maxrss * 1024,
    }


def _objects_without_names(window: Window) -> int:
    functions = window.tables[FUNCTIONS]
    is_nameless = ~np.isin(functions["source"], SOURCES_WITH_NAMES)
    is_hit = np.isin(functions["function"], window.tables[SAMPLES]["function"])
    rows = np.flatnonzero(is_nameless & is_hit)
    return len(np.unique(np.asarray(functions["object"]).take(rows)))


def _resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * _PAGE_BYTES


def _cpu_s(pid: int) -> float:
    with suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/stat", "rb") as file:
        words = file.read().rpartition(b")")[2].split()
        return (int(words[_UTIME]) + int(words[_STIME])) / _TICKS
    return 0.0
