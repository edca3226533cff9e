"""What a daemon reports of itself: samples, windows and their cost, as figures and as metrics.

The metrics are a file for node_exporter's textfile collector, which reads each ``*.prom`` of a
directory. Source: the text format 0.0.4 of Prometheus, "Exposition formats".
"""

from __future__ import annotations

import errno
import json
import os
import re
import resource
import stat
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.daemon.ceiling import STEPS, Used
from prospect.daemon.daemon_limits import MOST_NAME, MOST_STATUS_BYTES
from prospect.errors import StoreError
from prospect.files.rights import is_trusted
from prospect.profile.run_notes import left_out_notes
from prospect.store.names import SOURCES_WITH_NAMES
from prospect.store.segments import FUNCTIONS, SAMPLES
from prospect.symbols.cache_directory import new_file, part_name
from prospect.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from prospect.daemon.ceiling import Ceiling
    from prospect.daemon.window_writing import StoreWriting
    from prospect.store.directory import StoreDirectory
    from prospect.store.windows import Window

# The file of the store that has the last status.
STATUS = "status"
SCHEMA = "prospect-daemon/1"
_PEAK = re.compile(rb"^VmHWM:\s*(\d+) kB", re.MULTILINE)
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
    writing: StoreWriting,
    totals: Totals,
    ceiling: Ceiling,
    sampling_pids: Iterable[int] | None,
) -> dict[str, Any]:
    """Return what a daemon knows of itself without looking into its store.

    Args:
        store: of the daemon.
        writing: likewise.
        totals: likewise.
        ceiling: likewise.
        sampling_pids: processes that sample, None while there is no sampling.
    """
    options = ceiling.asked
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
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
        "cpu_s": _ended_s() + sum(map(_cpu_s, sampling_pids or ())),
        "cpu_percent": ceiling.cpu_percent,
        "cpu_limit_percent": options.cpu_limit_percent,
        "memory_peak_bytes": ceiling.peak_bytes,
        "memory_limit_bytes": options.memory_limit_bytes,
        "steps": len(ceiling.steps),
        "goes_without": [STEPS[one] for one in ceiling.steps],
        "goes_without_since_s": ceiling.since_s,
        "memory_bytes": _resident_bytes(),
        # Of whichever of its processes had most, as one that writes a window.
        "child_memory_bytes": children.ru_maxrss * 1024,
    }


def used_now(sampling_pids: Iterable[int]) -> Used:
    """Return what the daemon took so far; its peak of memory is that since the last call.

    Source: proc_pid_clear_refs(5), proc_pid_status(5).

    Args:
        sampling_pids: processes that sample next to this one.
    """
    with open("/proc/self/status", "rb") as file:
        found = _PEAK.search(file.read())
    with suppress(OSError), open("/proc/self/clear_refs", "wb") as file:
        file.write(b"5")
    peak_bytes = 1024 * int(found[1]) if found else _resident_bytes()
    return Used(time.monotonic(), _ended_s() + sum(map(_cpu_s, sampling_pids)), peak_bytes)


def _ended_s() -> float:
    """Return the CPU seconds of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def keep_status(store: StoreDirectory, figures: Mapping[str, Any]) -> None:
    """Keep what the daemon knows of itself in its store, for when it does not answer."""
    text = json.dumps({**figures, "at_s": time.time()})
    with suppress(OSError):  # a full disk, which windows tell of
        store.write_bytes(STATUS, text.encode(), sync=False)


def note_alive(store: StoreDirectory) -> None:
    """Note by the time of the kept status that the daemon would answer now."""
    with suppress(OSError):
        os.utime(STATUS, dir_fd=store.descriptor, follow_symlinks=False)


def kept_status(store: StoreDirectory) -> dict[str, Any] | None:
    """Return the status that a daemon kept last, None for none.

    Its "alive_s" is when the daemon would have answered last, in seconds since 1970.
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


def _resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * _PAGE_BYTES


def _cpu_s(pid: int) -> float:
    with suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/stat", "rb") as file:
        words = file.read().rpartition(b")")[2].split()
        return (int(words[_UTIME]) + int(words[_STIME])) / _TICKS
    return 0.0


_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READABLE = 0o644  # node_exporter is another user
_COUNTER, _GAUGE = "counter", "gauge"
# The metric, its type, the figure of the status, and what it is.
_METRICS = (
    ("sampling", _GAUGE, "sampling", "Whether the system is being sampled."),
    ("samples_total", _COUNTER, "samples", "Samples taken."),
    ("lost_samples_total", _COUNTER, "lost", "Samples that the kernel could not deliver."),
    ("windows_total", _COUNTER, "windows", "Windows written to the store."),
    ("lost_windows_total", _COUNTER, "windows_lost", "Windows that could not be written."),
    (
        "dropped_segments_total",
        _COUNTER,
        "dropped_for_room",
        "Old segments removed because the disk was full.",
    ),
    (
        "newest_window_timestamp_seconds",
        _GAUGE,
        "newest_s",
        "When the newest window in the store ended, since 1970; 0 for none.",
    ),
    (
        "objects_without_names",
        _GAUGE,
        "objects_without_names",
        "Objects hit in the last window whose functions have no names.",
    ),
    (
        "cpu_seconds_total",
        _COUNTER,
        "cpu_s",
        "CPU time of the daemon and its processes.",
    ),
    ("memory_bytes", _GAUGE, "memory_bytes", "Memory of the daemon."),
    (
        "goes_without",
        _GAUGE,
        "steps",
        "Steps that the daemon has taken to stay within its limits.",
    ),
    (
        "start_time_seconds",
        _GAUGE,
        "began_s",
        "When the daemon started, since 1970.",
    ),
)
# Of a daemon that sends what is finished.
_SHIPPING = (
    ("ship_sent_bytes_total", _COUNTER, "ship_sent_bytes", "Bytes sent to the target."),
    ("ship_waiting_bytes", _GAUGE, "ship_waiting_bytes", "Bytes of finished hours that wait."),
    (
        "ship_waiting_seconds",
        _GAUGE,
        "ship_waiting_s",
        "Age of the oldest finished window that waits; 0 for none.",
    ),
    (
        "ship_lost_windows_total",
        _COUNTER,
        "ship_lost_windows",
        "Windows removed before they could be sent.",
    ),
)
_PUSHING = (
    ("pushed_windows_total", _COUNTER, "otlp_windows", "Windows that the collector has taken."),
    ("push_waiting_windows", _GAUGE, "otlp_waiting", "Windows that wait for the collector."),
    (
        "push_lost_windows_total",
        _COUNTER,
        "otlp_lost",
        "Windows that the collector did not take in time.",
    ),
)
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def metrics_text(figures: Mapping[str, Any]) -> str:
    """Return figures of a daemon's status as metrics, all with the store's path as a label."""
    store = _label(str(figures["store"]))
    info = f'store="{store}",version="{_label(figures["version"])}"'
    info += f',session="{_label(figures["session"])}"'
    lines = [
        "# HELP prospect_info The daemon.",
        f"# TYPE prospect_info {_GAUGE}",
        f"prospect_info{{{info}}} 1",
    ]
    shipping = _SHIPPING if figures.get("ship") else ()
    pushing = _PUSHING if figures.get("otlp") else ()
    for name, kind, key, help_ in (*_METRICS, *shipping, *pushing):
        lines += [
            f"# HELP prospect_{name} {help_}",
            f"# TYPE prospect_{name} {kind}",
            f'prospect_{name}{{store="{store}"}} {_value(figures[key])}',
        ]
    return "\n".join(lines) + "\n"


def write_metrics(path: str, text: str) -> None:
    """Replace a file: write it under a name that cannot be guessed, then rename it.

    Readers never see half of it, and other users with write access to the directory cannot prevent
    it. The directory may not be a link. A regular file is replaced, and so is anything that an
    untrusted user put there; a link, pipe or device of root or of this user is not.

    Raises:
        StoreError: it cannot be written.
    """
    folder, name = os.path.split(path)
    try:
        directory = os.open(folder or ".", _DIRECTORY)
        try:
            _check_replaceable(directory, name)
            with new_file(directory, name, f".{name[:MOST_NAME]}.{part_name()}") as descriptor:
                with os.fdopen(descriptor, "wb", closefd=False) as file:
                    file.write(text.encode(errors="backslashreplace"))
                os.fchmod(descriptor, _READABLE)
        finally:
            os.close(directory)
    except OSError as error:
        raise StoreError(f"{path}: the metrics cannot be written: {error.strerror}") from None


def _check_replaceable(directory: int, name: str) -> None:
    if not name:
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    with suppress(FileNotFoundError):
        there = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if not stat.S_ISREG(there.st_mode) and is_trusted(there.st_uid):
            raise OSError(errno.EINVAL, "it is not a regular file")


def _label(text: str) -> str:
    return text.translate(_ESCAPES)


def _value(figure: float) -> str:
    return str(int(figure)) if figure == int(figure) else f"{figure:.6f}"
