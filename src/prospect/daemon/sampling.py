"""A live session → its windows, with the services of its processes.

A process's control group shows its service. PERF_RECORD_CGROUP gives the group's path if samples
have its id. Otherwise the daemon looks up a process of this machine as its window ends; one that
has ended counts as part of its parent's service.

Source: cgroups(7), ``/proc/PID/cgroup``; malloc_trim(3).
"""

from __future__ import annotations

import ctypes
import os
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from prospect.daemon.daemon_limits import (
    LEAST_SLEEP_S,
    LOOK_S,
    LOOK_WITHOUT_COPIES_S,
    MOST_ADDRESSES,
    MOST_CGROUP_BYTES,
    MOST_KNOWN_SERVICES,
    MOST_RUNTIME_NAME_BYTES,
    MOST_SYMBOLS,
    MOST_WAITING_BYTES,
    MOST_WAITING_WITHOUT_COPIES_BYTES,
)
from prospect.files.untrusted_open import opener_pids, start_opener
from prospect.light import Closing, Descriptor
from prospect.live.record_limiters import Bounds, ShortLivesLimiter
from prospect.live.session import LiveSession
from prospect.live.source import KernelSource
from prospect.profile.group_names import service_of
from prospect.recording.opened_events import RecordOptions
from prospect.records import replace
from prospect.store.segments import COVERAGE
from prospect.store.windows import Span, lost_samples, window_of
from prospect.target.target_source import source_on

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from prospect.daemon.daemon_options import DaemonOptions
    from prospect.profile.group_names import ContainerFacts
    from prospect.profile.model import ProcessTable
    from prospect.store.windows import Window

    NameContainers = Callable[[list[str]], Mapping[str, ContainerFacts]]


class Services:
    """Finds and remembers the services of processes.

    Args:
        proc: the directory of this machine's processes; "" for another machine's processes.
        name_containers: returns the names of containers, from paths of control groups.
    """

    def __init__(
        self, proc: str = "/proc", name_containers: NameContainers = lambda _paths: {}
    ) -> None:
        self._proc, self._name_containers = proc, name_containers
        self._known: dict[tuple[int, int], str] = {}

    def of(self, processes: ProcessTable) -> dict[int, str]:
        """Return row → service, for the processes that have one."""
        found: dict[int, str] = {}
        pids, starts = processes.pid.tolist(), processes.start_ns.tolist()
        kernel = processes.is_kernel_thread.tolist()
        groups = processes.control_group
        containers = self._name_containers(list(set(groups or ())))
        for row, (pid, start) in enumerate(zip(pids, starts, strict=True)):
            if pid <= 0 or kernel[row]:
                continue
            key = (pid, start)
            if groups and (sampled := service_of(groups[row], containers)):
                self._known[key] = sampled
            elif key not in self._known:
                service = self._read(pid)
                if service is None:
                    continue
                self._known[key] = service
            found[row] = self._known[key]
        self._inherit(processes, found)
        for key in list(self._known)[: max(len(self._known) - MOST_KNOWN_SERVICES, 0)]:
            del self._known[key]
        return {row: service for row, service in found.items() if service}

    def _inherit(self, processes: ProcessTable, found: dict[int, str]) -> None:
        parents = processes.parent_index.tolist()
        parent_pids, pids = processes.parent_pid.tolist(), processes.pid.tolist()
        by_pid = {pids[row]: service for row, service in found.items()}
        for row, pid in enumerate(pids):
            if row in found or pid <= 0:
                continue
            parent, steps = row, 0
            while parent >= 0 and parent not in found and steps < len(parents):
                parent, steps = parents[parent], steps + 1
            service = found.get(parent) or by_pid.get(parent_pids[row])
            if service:
                found[row] = self._known[pid, int(processes.start_ns[row])] = service

    def _read(self, pid: int) -> str | None:
        if not self._proc:
            return None
        path = f"{self._proc}/{pid}/cgroup"
        try:
            with Descriptor(os.open(path, os.O_RDONLY | os.O_CLOEXEC)) as descriptor:
                text = os.read(descriptor, MOST_CGROUP_BYTES)
        except OSError:  # it has ended
            return None
        return service_of_groups(text.decode(errors="backslashreplace"), self._name_containers)


def service_of_groups(lines: str, name_containers: NameContainers = lambda _paths: {}) -> str:
    """Return the service in lines of ``/proc/PID/cgroup``, "" for none."""
    paths = [line.split(":", 2)[-1] for line in lines.splitlines()]
    containers = name_containers(paths)
    return next(filter(None, (service_of(path, containers) for path in paths)), "")


def give_back() -> None:
    """Return free pages of the heap to the kernel, if the C library is glibc.

    Decoding a window makes and drops columns of several megabytes, with small objects between them.
    The C library would keep the pages: 245 MB after five windows with copies of stacks, not 62.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


# `profile.run_info` adds up the counts of such sentences.
_PUT_OFF = "Limits of the daemon: files with samples and names that were put off: {}."
_US = 10**6
_NS_IN_US = 1000
_BOUNDS = Bounds(
    most_addresses=MOST_ADDRESSES,
    most_symbols=MOST_SYMBOLS,
    most_name_bytes=MOST_RUNTIME_NAME_BYTES,
    spool_bytes=0,
    gate=ShortLivesLimiter,
)


# With the programs loaded: the daemon has 100 MB when it begins another session.
_kernel_source = partial(KernelSource, with_programs=True)


class Sampling(Closing):
    """Samples the whole system until it is closed."""

    def __init__(self, options: DaemonOptions, is_late: Callable[[], bool] | None = None) -> None:
        """Begin.

        Args:
            is_late: returns whether it is too late to read names of further files.

        Raises:
            CaptureError: the whole system may not be sampled; says what to do.
        """
        self._options = options
        with suppress(OSError):
            start_opener()
        self._session = LiveSession(
            RecordOptions(
                frequency_hz=options.frequency_hz,
                clocks=options.clocks,
                call_graph=options.call_graph,
                command_line=options.command_line,
                use_cache=options.use_cache,
                python="auto" if options.reads_python else "never",
                kubelet=options.kubelet,
            ),
            bounds=_BOUNDS,
            source=source_on(options.target) if options.target else _kernel_source,
        )
        if is_late:
            self._session.read_no_files_if(is_late)
        self._services = Services("" if options.target else "/proc", self._session.name_containers)
        self._begin()
        self.follow(options, ())

    def follow(self, options: DaemonOptions, notes: tuple[str, ...]) -> None:
        """Use other settings from now on, but the same sampled events.

        Args:
            notes: sentences on missing parts of the windows.
        """
        self._options, self._notes = options, notes
        self._put_off = self._session.read_new_files(options.new_files)
        self._begin()

    def forget_names(self) -> None:
        """Free the memory of names that can be read again."""
        self._session.forget_names()
        give_back()

    def due_s(self) -> float:
        """Return the seconds until the end of the window.

        Windows end at multiples of their length by the clock, as it was when the window began. A
        window ends at once if the machine has slept, so that it has no evening and morning.
        """
        has_slept = abs(_slept_s() - self._slept_s) > LEAST_SLEEP_S
        return 0.0 if has_slept else self._due_s - time.monotonic()

    @property
    def look_again_s(self) -> float:
        """The seconds until the next look at `has_much`."""
        return LOOK_S if self._has_copies else LOOK_WITHOUT_COPIES_S

    @property
    def _has_copies(self) -> bool:
        return self._options.call_graph not in {"", "fp"}

    @property
    def has_much(self) -> bool:
        """Whether many records wait: copies of stacks, or names of Python functions."""
        most = MOST_WAITING_BYTES if self._has_copies else MOST_WAITING_WITHOUT_COPIES_BYTES
        return self._session.waiting_bytes > most

    def take_in(self) -> None:
        """Decode the waiting records.

        Raises:
            CaptureError: the system cannot be sampled any more.
        """
        self._session.advance()
        give_back()

    @property
    def child_pids(self) -> list[int]:
        """The other processes that sample, and the one that opens files."""
        return [*self._session.child_pids, *opener_pids()]

    def take(self) -> tuple[Window, int]:
        """End the window; return it, and the number of samples that the kernel could not deliver.

        Raises:
            CaptureError: the system cannot be sampled any more.
        """
        state = self._session.take()
        self._begin()
        facts = state.profile.run
        begin_us = round(facts.started_at * _US)
        # No window includes the time in which the machine slept.
        span = Span(begin_us, begin_us + max(facts.end_ns - facts.begin_ns, 0) // _NS_IN_US)
        window = window_of(
            state.profile,
            span,
            separate=self._options.separate,
            services=self._services.of(state.profile.processes),
            window_us=round(self._options.window_s * _US),
        )
        put_off = self._put_off + self._session.read_new_files(self._options.new_files)
        notes = (*self._notes, *([_PUT_OFF.format(put_off)] if put_off else []))
        self._put_off = 0
        if notes:
            run = {**window.head.run, "limits": (*window.head.run["limits"], *notes)}
            window = replace(window, head=replace(window.head, run=run))
        return window, lost_samples(window.tables[COVERAGE])

    def close(self) -> None:
        """End the session."""
        self._session.close()

    def _begin(self) -> None:
        length_s = self._options.window_s
        left_s = length_s - time.time() % length_s
        if left_s < length_s / 4:  # prefer a longer window to a short one
            left_s += length_s
        self._due_s = time.monotonic() + left_s
        self._slept_s = _slept_s()


def _slept_s() -> float:
    """Return how long the machine has slept since its start; see clock_gettime(2)."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()
