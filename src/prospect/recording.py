"""`record`: run a command and write what the machine did meanwhile, as a perf.data file.

Comes in: a command, a rate, a file descriptor. Goes out: the file, and what the caller must know
at once. Joins `capture` and the writer of `perfdata`; what Prospect adds to the format is the
JSON document built here, described in docs/recording.md.

On the way to the command's start every import is paid by whoever waits: heavy ones are forbidden.
"""

from __future__ import annotations

import os
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from prospect.abi import constants as abi
from prospect.abi.recording import RecordingInfo
from prospect.capture.command import Command
from prospect.capture.cpu_events import EventSet
from prospect.capture.cpus import CpuWatch
from prospect.capture.drain_loop import DrainLoop
from prospect.capture.event_choice import (
    CLOCK_HARDWARE,
    SCOPE_SYSTEM,
    check_rate,
    choose_events,
    clock_periods_ns,
)
from prospect.capture.kernel_maps import KERNEL_NAME, KernelMaps, read_kernel_maps
from prospect.capture.machine import Machine, accounting, describe_machine
from prospect.capture.processes import Snapshot
from prospect.capture.procfs import read_file, read_setting
from prospect.capture.rings import ring_size_bytes
from prospect.capture.signals import SignalWatch
from prospect.capture.sink import RecordSink
from prospect.capture.synthesis import comm_record, fork_record
from prospect.errors import CaptureError, RecordingError, UsageError
from prospect.perfdata.writer import RecordingWriter
from prospect.version import __version__

if TYPE_CHECKING:
    from prospect.capture.event_choice import EventPlan

_SIGNALLED = 128
_SHOWN_PROCESSES = 3


class RecordOptions(NamedTuple):
    """What to record.

    Attributes:
        command: the words of the command.
        frequency_hz: samples a second and CPU, of all clocks together.
        flush_centiseconds: how often the rings are drained at least, in 1/100 s.
        clocks: how many clocks of different periods share the rate.
        command_line: the recorder's own argument vector, kept in the recording.
    """

    command: tuple[str | bytes, ...]
    frequency_hz: int = 200
    flush_centiseconds: int = 200
    clocks: int = 1
    command_line: tuple[str, ...] = ()


class RecordingResult(NamedTuple):
    """What became of the command and the recording.

    Attributes:
        exit_status: the command's, as a shell shows it; 128 + the signal that ended the interval
            where the command outlived it.
        interrupted_by: the signal that was to end the interval, 0 without.
        limits: sentences about what could not be recorded.
        counters: Prospect's counters of the run.
    """

    exit_status: int
    interrupted_by: int
    limits: tuple[str, ...]
    counters: dict[str, int]


class _Background(NamedTuple):
    """What is read while the command runs."""

    kernel: KernelMaps
    snapshot: Snapshot
    machine: Machine
    limits: tuple[str, ...]


def record(options: RecordOptions, output_fd: int) -> RecordingResult:
    """Run a command and record all that the kernel lets this user see.

    Args:
        options: what to record.
        output_fd: a regular file, opened for writing; the caller closes it.

    Raises:
        UsageError: an option that this kernel cannot follow, or no command.
        CommandError: the command cannot be started.
        CaptureError: no event can be opened; the message says what to do.
        RecordingError: the file cannot be written at all.
    """
    check_rate(options.frequency_hz, options.clocks)
    if options.flush_centiseconds < 1:
        raise UsageError("the buffers' flush interval must be at least 1/100 s (-M)")
    try:
        return _record(options, output_fd)
    except OSError as error:
        raise CaptureError(f"recording is not possible: {error.strerror or error}") from error


def _record(options: RecordOptions, output_fd: int) -> RecordingResult:
    with (
        closing(CpuWatch()) as watch,
        closing(SignalWatch()) as signals,
        closing(Command(options.command, signals)) as command,
        closing(_open_events(options, command.pid, watch.online)) as events,
    ):
        writer = RecordingWriter(output_fd, (events.description(),))
        sink = RecordSink(output_fd)
        loop = DrainLoop(events, command, signals, watch, sink)
        started_at = time.time()
        loop.start(options.flush_centiseconds)
        background = _describe_surroundings(loop, events.plan, command.pid)
        while not loop.done:
            loop.step(wait=True)
        result = _sum_up(events, loop, background, command, sink.bytes_written)
        extras = _describe_run(options, result, events, loop, background)
        extras |= _describe_command(options, command)
        extras["started_at"] = started_at
        info = _recording_info(options, events, background, extras)
        try:
            writer.finish(info, info.events)
        except RecordingError as error:
            # The file stays readable; what is missing is what describes the run.
            limit = f"{error}: the description of the run is missing."
            return result._replace(limits=(*result.limits, limit))
        return result


def _open_events(options: RecordOptions, pid: int, cpus: tuple[int, ...]) -> EventSet:
    """Open the best events on all CPUs; the timer where the hardware counter is not on each."""
    periods_ns = clock_periods_ns(options.frequency_hz, options.clocks)
    ring_bytes = ring_size_bytes(options.frequency_hz, len(cpus))
    plan = choose_events(options.frequency_hz, periods_ns, pid, cpus[0])
    events = EventSet(plan, pid, ring_bytes)
    try:
        events.open(cpus)
    except OSError as error:
        if plan.clock == CLOCK_HARDWARE:
            plan = choose_events(
                options.frequency_hz, periods_ns, pid, cpus[0], allow_hardware=False
            )
            events = EventSet(plan, pid, ring_bytes)
            events.open(cpus)
            return events
        raise CaptureError(f"perf_event_open() failed on a CPU: {error.strerror}") from error
    return events


def _describe_surroundings(loop: DrainLoop, plan: EventPlan, pid: int) -> _Background:
    """Record what stood before the command began, draining the rings between the portions."""
    limits: tuple[str, ...] = ()
    kernel = KernelMaps(b"", (), ())
    if not plan.attr.flags & abi.FLAG_EXCLUDE_KERNEL:
        kernel = read_kernel_maps()
        limits += kernel.limits
    loop.write(kernel.records)
    snapshot = Snapshot(command_pid=pid)
    if plan.scope == SCOPE_SYSTEM:
        for portion in snapshot.portions():
            loop.write(portion)
            if not loop.done:
                loop.step(wait=False)
    snapshot.processes[pid] = [os.getpid(), os.getpgrp(), os.getsid(0), 0]
    # Until its exec it runs the recorder's code, under the recorder's name.
    own_name = read_file("/proc/self/comm")[:-1]
    loop.write(fork_record(pid, os.getpid()) + comm_record(pid, pid, own_name))
    if snapshot.unreadable:
        limits += (_unreadable_maps(snapshot.unreadable),)
    loop.begin_rounds()
    return _Background(kernel, snapshot, describe_machine(), limits)


def _unreadable_maps(unreadable: dict[int, bytes]) -> str:
    named = [f"{pid} ({os.fsdecode(comm)})" for pid, comm in sorted(unreadable.items())]
    shown = ", ".join(named[:_SHOWN_PROCESSES])
    more = len(named) - _SHOWN_PROCESSES
    return (
        f"The kernel did not show the mappings of process {shown}"
        + (f" and {more} more" if more > 0 else "")
        + ": what of them was mapped before the start has no names. It takes root with"
        " CAP_SYS_PTRACE, which containers often lack."
    )


def _sum_up(
    events: EventSet,
    loop: DrainLoop,
    background: _Background,
    command: Command,
    bytes_written: int,
) -> RecordingResult:
    limits = (*events.plan.limits, *background.limits, *loop.limits)
    ended = command.reap()
    if ended is None:
        limits += (f"COMMAND (process {command.pid}) was still running at the end.",)
    return RecordingResult(
        exit_status=ended.exit_status if ended else _SIGNALLED + loop.interrupted_by,
        interrupted_by=loop.interrupted_by,
        limits=limits,
        counters={
            "buffers_read": loop.buffers_read,
            "buffer_flushes": loop.buffer_flushes,
            "wakeups": loop.wakeups,
            "bytes": bytes_written,
            "incomplete_maps": len(background.snapshot.unreadable),
        },
    )


def _describe_command(options: RecordOptions, command: Command) -> dict[str, Any]:
    ended = command.reap()
    usage: dict[str, float] = {}
    if ended:
        usage = {
            "user_s": ended.user_s,
            "system_s": ended.system_s,
            "max_rss_kib": ended.max_rss_kib,
        }
    return {
        "command": [os.fsdecode(word) for word in options.command],
        "command_pid": command.pid,
        "rusage": usage,
    }


def _describe_run(
    options: RecordOptions,
    result: RecordingResult,
    events: EventSet,
    loop: DrainLoop,
    background: _Background,
) -> dict[str, Any]:
    """Return the document of Prospect's own feature section."""
    plan = events.plan
    periods_ns = clock_periods_ns(options.frequency_hz, len(plan.periods))
    lost = events.read_lost()
    lost_by_cpu: dict[int, int] = {}
    cpu_of = events.cpu_of()
    for event_id, count in lost.items():
        lost_by_cpu[cpu_of[event_id]] = lost_by_cpu.get(cpu_of[event_id], 0) + count
    kernel_build_ids = [
        found.build_id.hex() for found in background.kernel.build_ids if found.name == KERNEL_NAME
    ]
    return {
        "version": 1,
        "prospect_version": __version__,
        "exit_status": result.exit_status,
        "interrupted_by": result.interrupted_by,
        "recorder_pids": [os.getpid()],
        "interval_ns": [loop.begin_ns, loop.end_ns],
        "scope": plan.scope,
        "clock": plan.clock,
        "frequency_hz": options.frequency_hz,
        "clocks": [
            {"period_ns": period_ns, "ids": ids}
            for period_ns, ids in zip(periods_ns, events.clock_ids(), strict=True)
        ],
        "limits": list(result.limits),
        "processes": background.snapshot.processes,
        "cpus": sorted(set(cpu_of.values())),
        "cpu_changes": loop.cpu_changes,
        "proc_stat": accounting(*loop.cpu_times),
        "recorder_rusage": _own_usage(),
        "lost": lost,
        "lost_by_cpu": lost_by_cpu,
        "counters": result.counters,
        "kernel_build_id": "".join(kernel_build_ids),
        "kptr_restrict": read_setting("/proc/sys/kernel/kptr_restrict"),
        "uname": background.machine.uname,
        "cpu_mhz": background.machine.cpu_mhz,
    }


def _recording_info(
    options: RecordOptions, events: EventSet, background: _Background, extras: dict[str, Any]
) -> RecordingInfo:
    """Return what the feature sections that all readers know are to say."""
    machine = background.machine
    begin_ns, end_ns = extras["interval_ns"]
    return RecordingInfo(
        events=(events.description(),),
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
    )


def _own_usage() -> dict[str, float]:
    import resource  # noqa: PLC0415 - after the command's end, not before its start

    used = resource.getrusage(resource.RUSAGE_SELF)
    return {"user_s": used.ru_utime, "system_s": used.ru_stime}
