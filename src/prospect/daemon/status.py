"""A daemon's status: samples, windows and their cost."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import time
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.capture.kernel.procfs import stat_fields
from prospect.daemon.ceiling import STEPS, Used
from prospect.daemon.daemon_limits import MOST_STATUS_BYTES, PEAK_LOOK_S
from prospect.profile.run_info import left_out_notes
from prospect.store.names import SOURCES_WITH_NAMES
from prospect.store.segments import FUNCTIONS, SAMPLES
from prospect.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from prospect.daemon.ceiling import Ceiling
    from prospect.daemon.window_writing import StoreWriting
    from prospect.store.directory import StoreDirectory
    from prospect.store.windows import Window

# The file of the store that has the last status.
STATUS = "status"
SCHEMA = "prospect-daemon/1"
_OWN = re.compile(rb"^Rss(?:Anon|Shmem):\s*(\d+) kB", re.MULTILINE)
_PRIVATE = re.compile(rb"^Private_Dirty:\s*(\d+) kB", re.MULTILINE)
_PAGE_BYTES = resource.getpagesize()
_TICKS = os.sysconf("SC_CLK_TCK")


class Totals:
    """Sums over the windows of a daemon.

    Attributes:
        began_s: the start of the daemon, in seconds since 1970.
        left_out: notes on missing parts of the windows so far.
        without_names: objects in the last window with hits but without names.
    """

    def __init__(self) -> None:
        self.began_s = time.time()
        self.samples = self.lost = self.without_names = 0
        self.left_out: tuple[str, ...] = ()

    def add(self, window: Window, lost: int) -> None:
        """Count a window, and the number of samples that the kernel could not deliver."""
        self.samples += int(np.sum(window.tables[SAMPLES]["n"]))
        self.lost += lost
        self.left_out = left_out_notes((*self.left_out, *window.head.run["limits"]))
        self.without_names = _objects_without_names(window)


def figures_of(
    store: StoreDirectory,
    writing: StoreWriting,
    totals: Totals,
    ceiling: Ceiling,
    sampling_pids: Iterable[int] | None,
) -> dict[str, Any]:
    """Return the part of a daemon's status that needs no look into its store.

    Args:
        sampling_pids: processes that sample, None while there is no sampling.
    """
    options = ceiling.asked
    return {
        "schema": SCHEMA,
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
        "windows_merged": writing.merged,
        "dropped_for_room": writing.dropped,
        "newest_s": writing.newest_s,
        "newest_age_s": max(time.time() - writing.newest_s, 0.0) if writing.newest_s else None,
        "objects_without_names": totals.without_names,
        "left_out": list(totals.left_out),
        "complaint": writing.complaint,
        "cpu_s": _used_s(sampling_pids or (), writing),
        "cpu_percent": ceiling.cpu_percent,
        "cpu_limit_percent": options.cpu_limit_percent,
        "memory_peak_bytes": ceiling.peak_bytes,
        "memory_limit_bytes": options.memory_limit_bytes,
        "steps": len(ceiling.steps),
        "goes_without": [STEPS[one] for one in ceiling.steps],
        "goes_without_since_s": ceiling.since_s,
        "memory_bytes": resident_bytes(),
        "child_memory_bytes": writing.child_bytes,
    }


class PeakMemory:
    """The peak memory of this process without pages of files, while windows are made.

    The kernel's peak (VmHWM) includes pages of files, such as those of a large program whose
    symbols are read, which the kernel takes back when other programs need memory.

    Source: proc_pid_status(5).
    """

    def __init__(self) -> None:
        self._most_bytes = 0

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Measure it during the block, in another thread."""
        done = Event()
        thread = Thread(target=self._look, args=(done,), name="peak-memory")
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def taken(self) -> int:
        """Return the peak since the last call, in bytes."""
        most_bytes, self._most_bytes = max(self._most_bytes, _own_bytes()), 0
        return most_bytes

    def _look(self, done: Event) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # for the other thread
        while not done.wait(PEAK_LOOK_S):
            self._most_bytes = max(self._most_bytes, _own_bytes())


def used_now(sampling_pids: Iterable[int], writing: StoreWriting, peak: PeakMemory) -> Used:
    """Return the cost of the daemon so far.

    Source: proc_pid_smaps(5).

    Args:
        sampling_pids: other processes that sample; pages that they share with this one count once.
        writing: its process had its peak while this one had no more memory than now.
        peak: of this process since the last call.
    """
    sampling_pids = list(sampling_pids)
    peak_bytes = peak.taken() + sum(map(_private_bytes, writing.pids))
    peak_bytes = max(peak_bytes, _own_bytes() + writing.child_bytes)
    peak_bytes += sum(map(_private_bytes, sampling_pids))
    return Used(time.monotonic(), _used_s(sampling_pids, writing), peak_bytes)


def _used_s(sampling_pids: Iterable[int], writing: StoreWriting) -> float:
    """Return the CPU seconds of this process, of its ended children and of these processes."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    ended_s = sum(one.ru_utime + one.ru_stime for one in used)
    return ended_s + sum(map(_cpu_s, (*sampling_pids, *writing.pids)))


def keep_status(store: StoreDirectory, figures: Mapping[str, Any]) -> None:
    """Keep the daemon's status in its store, for clients that it cannot answer."""
    text = json.dumps({**figures, "at_s": time.time()})
    with suppress(OSError):  # a full disk, which writing windows reports
        store.write_bytes(STATUS, text.encode(), sync=False)


def note_alive(store: StoreDirectory) -> None:
    """Set the time of the kept status to now: the daemon is alive."""
    with suppress(OSError):
        os.utime(STATUS, dir_fd=store.descriptor, follow_symlinks=False)


def kept_status(store: StoreDirectory) -> dict[str, Any] | None:
    """Return the status that a daemon kept last, None for none.

    Its "alive_s" is the last time when the daemon was alive, in seconds since 1970.
    """
    try:
        status = json.loads(store.read_bytes(STATUS, MOST_STATUS_BYTES))
        alive_s = os.stat(STATUS, dir_fd=store.descriptor, follow_symlinks=False).st_mtime
    except (OSError, ValueError, RecursionError):
        return None
    is_ours = isinstance(status, dict) and status.get("schema") == SCHEMA
    return {**status, "alive_s": alive_s} if is_ours else None


def _objects_without_names(window: Window) -> int:
    functions = window.tables[FUNCTIONS]
    is_nameless = ~np.isin(functions["source"], SOURCES_WITH_NAMES)
    is_hit = np.isin(functions["function"], window.tables[SAMPLES]["function"])
    rows = np.flatnonzero(is_nameless & is_hit)
    return len(np.unique(np.asarray(functions["object"]).take(rows)))


def resident_bytes() -> int:
    """Return the memory of this process now, in bytes."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * _PAGE_BYTES


def _own_bytes() -> int:
    """Return the memory of this process now, without pages of files."""
    with open("/proc/self/status", "rb", buffering=0) as file:
        return 1024 * sum(map(int, _OWN.findall(file.read())))


def _private_bytes(pid: int) -> int:
    with suppress(OSError), open(f"/proc/{pid}/smaps_rollup", "rb") as file:
        found = _PRIVATE.search(file.read())
        return 1024 * int(found[1]) if found else 0
    return 0


def _cpu_s(pid: int) -> float:
    return sum(map(int, stat_fields(f"/proc/{pid}")[11:13])) / _TICKS  # utime and stime
