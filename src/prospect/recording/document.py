"""Make the document with which a recording describes itself, and the facts in perf's sections.

docs/recording.md describes the document; `perfdata` writes the sections from `RecordingInfo`.
"""

from __future__ import annotations

import os
import resource

from prospect.abi import constants as abi
from prospect.abi.recorded_facts import BuildId, RecordingInfo
from prospect.capture.kernel.procfs import read_setting
from prospect.capture.machine.kernel_maps import KERNEL_NAME
from prospect.capture.machine.surroundings import accounting
from prospect.records import NamedTuple
from prospect.version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from prospect.capture.events.cpu_events import EventSet
    from prospect.capture.machine.read_files import ReadFile
    from prospect.capture.machine.surroundings import Background
    from prospect.recording.opened_events import RecordOptions

CpuTimes = dict[str, list[int]]

_KNOWN_AT_END = (
    *("interval_ns", "cpu_changes", "proc_stat", "recorder_rusage", "lost", "lost_by_cpu"),
    "lost_runtime_frames",
    "processes",  # may be many, and records have them too
)


class Interval(NamedTuple):
    """The time in which events were on, and the kernel's accounting of it.

    Attributes:
        begin_ns, end_ns: in CLOCK_MONOTONIC.
        cpu_times: /proc/stat at both ends.
        cpu_changes: [time_ns, cpu, "online" or "offline"].
    """

    begin_ns: int
    end_ns: int
    cpu_times: tuple[CpuTimes, CpuTimes]
    cpu_changes: Sequence[tuple[int, int, str]]


def _clocks(events: EventSet) -> list[dict[str, Any]]:
    cpu_of = events.cpu_of()
    clocks: list[dict[str, Any]] = [
        {"period_ns": period_ns, "ids": ids, "cpus": [cpu_of[number] for number in ids]}
        for period_ns, ids in zip(events.plan.periods_ns, events.clock_ids(), strict=True)
    ]
    for clock, ids in zip(clocks, events.copy_ids(), strict=False):
        clock["copy_ids"] = ids
    return clocks


def describe_interval(
    options: RecordOptions,
    events: EventSet,
    interval: Interval,
    background: Background,
    lost: Mapping[int, int],
) -> dict[str, Any]:
    """Return the part of the document for any interval, with a command or not.

    Args:
        events: open or closed.
        lost: id → samples that the kernel could not deliver.
    """
    plan = events.plan
    lost_by_cpu: dict[int, int] = {}
    of_python = set(events.python_ids())
    lost_frames = sum(count for event_id, count in lost.items() if event_id in of_python)
    lost = {event_id: count for event_id, count in lost.items() if event_id not in of_python}
    cpu_of = events.cpu_of()
    used = resource.getrusage(resource.RUSAGE_SELF)
    for event_id, count in lost.items():
        lost_by_cpu[cpu_of[event_id]] = lost_by_cpu.get(cpu_of[event_id], 0) + count
    kernel_build_ids = [
        found.build_id.hex() for found in background.kernel.build_ids if found.name == KERNEL_NAME
    ]
    return {
        "version": 1,
        "prospect_version": __version__,
        "recorder_pids": [os.getpid()],
        "interval_ns": [interval.begin_ns, interval.end_ns],
        "scope": plan.scope,
        "clock": plan.clock,
        "frequency_hz": 0 if options.events else options.frequency_hz,
        "call_graph": options.call_graph,
        "wall_scope": options.wall if isinstance(options.wall, str) else "",
        "clocks": _clocks(events),
        "processes": background.snapshot.processes,
        "cpus": sorted(set(cpu_of.values())),
        "cpu_changes": interval.cpu_changes,
        "proc_stat": accounting(*interval.cpu_times),
        "recorder_rusage": {"user_s": used.ru_utime, "system_s": used.ru_stime},
        "lost": dict(lost),
        "lost_by_cpu": lost_by_cpu,
        "lost_runtime_frames": lost_frames,
        "kernel_build_id": "".join(kernel_build_ids),
        "kptr_restrict": read_setting("/proc/sys/kernel/kptr_restrict"),
        "uname": background.machine.uname,
        "cpu_mhz": background.machine.cpu_mhz,
        "counters_are_nmis": background.machine.counters_are_nmis,
    }


def early_document(
    options: RecordOptions, events: EventSet, background: Background, begin_ns: int
) -> dict[str, Any]:
    """Return the part of the document that is known early, for a recording without an end.

    Args:
        begin_ns: the time at which the events were enabled.
    """
    interval = Interval(begin_ns, begin_ns, ({}, {}), ())
    document = describe_interval(options, events, interval, background, {})
    for key in _KNOWN_AT_END:
        del document[key]
    return document | {
        "begin_ns": begin_ns,
        "command": [os.fsdecode(word) for word in options.command],
        "attached_pids": list(options.pids),
        "limits": [*events.plan.limits, *background.limits],
    }


def recording_info(
    options: RecordOptions,
    events: EventSet,
    background: Background,
    extras: dict[str, Any],
    tracing_data: bytes = b"",
) -> RecordingInfo:
    """Return the facts for the feature sections that all readers know.

    Args:
        extras: the document; with "started_at", in seconds since 1970.
        tracing_data: formats of tracepoints among the events.
    """
    machine = background.machine
    begin_ns, end_ns = extras.get("interval_ns", (0, 0))
    return RecordingInfo(
        events=events.descriptions(),
        hostname=machine.hostname,
        os_release=machine.os_release,
        arch=machine.arch,
        cpus_online=machine.cpus_online,
        cpus_available=machine.cpus_available,
        cpu_description=machine.cpu_description,
        cpuid=machine.cpuid,
        total_memory_kib=machine.total_memory_kib,
        command_line=options.command_line,
        perf_version=f"prospect-{__version__}",
        build_ids=background.kernel.build_ids,
        first_sample_ns=begin_ns,
        last_sample_ns=end_ns,
        recorded_at=extras["started_at"],
        extras=extras,
        tracing_data=tracing_data,
    )


def describe_files(rows: Iterable[ReadFile]) -> dict[str, list[Any]]:
    """Return `mapped_files` of docs/recording.md: the rows with a build id."""
    known = [row for row in rows if row.build_id]
    names = ("major", "minor", "inode", "since_ns", "until_ns")
    columns = {name: [getattr(row, name) for row in known] for name in names}
    return columns | {"build_id": [row.build_id.hex() for row in known]}


def build_ids_by_path(rows: Iterable[ReadFile]) -> tuple[BuildId, ...]:
    """Return the build ids of paths that mean one file, for HEADER_BUILD_ID, which needs paths."""
    known: dict[bytes, set[bytes]] = {}
    for row in rows:
        known.setdefault(row.path, set()).add(row.build_id)
    return tuple(
        BuildId(path, next(iter(build_ids)), -1, abi.PERF_RECORD_MISC_USER)
        for path, build_ids in known.items()
        if len(build_ids) == 1 and all(build_ids) and path.startswith(b"/")
    )
