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
from typing import TYPE_CHECKING, Any

from prospect.abi import constants as abi
from prospect.announcing import silent
from prospect.capture.kernel.cpus import CpuWatch
from prospect.capture.loop.command import Command
from prospect.capture.loop.drain_loop import DrainLoop
from prospect.capture.loop.signals import SignalWatch
from prospect.capture.machine.jit_files import JitFiles
from prospect.capture.machine.mapped_files import MappedFiles, build_ids_by_path, describe_files
from prospect.capture.machine.surroundings import describe_surroundings
from prospect.capture.sink import RecordSink, default_bound_bytes
from prospect.errors import CaptureError, RecordingError, UsageError
from prospect.perfdata.writer import RecordingWriter
from prospect.recording.document import (
    Interval,
    describe_interval,
    early_document,
    early_size_bytes,
    recording_info,
)
from prospect.recording.events import LEAST_MAX_BYTES, open_events, tracing_data, with_rate
from prospect.recording.exact_counters import CountChoice, exact_counters
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from prospect.abi.recording import BuildId, RecordingInfo
    from prospect.announcing import Announce
    from prospect.capture.events.cpu_events import EventSet
    from prospect.capture.events.event_choice import EventPlan
    from prospect.capture.machine.surroundings import Background
    from prospect.recording.events import RecordOptions

_SIGNALLED = 128


# What may be big in the description of a run, the most useful last, and what is said without it.
_BIG_KEYS = {
    "jit_files": "files with names of JIT code were not copied",
    "mapped_files": "build ids of mapped files were not kept",
}


class RecordingResult(NamedTuple):
    """What became of the command and the recording.

    Attributes:
        exit_status: the command's, as a shell shows it; 128 + the signal that ended the interval
            where the command outlived it.
        cut: why the file does not hold all of it, in a sentence that is one of `limits` too; ""
            where it does.
        interrupted_by: the signal that was to end the interval, 0 without.
        limits: sentences about what could not be recorded.
        counters: Prospect's counters of the run.
    """

    exit_status: int
    interrupted_by: int
    limits: tuple[str, ...]
    counters: dict[str, int]
    cut: str = ""

    @property
    def is_cut(self) -> bool:
        """Whether what the file holds is no whole profile."""
        return bool(self.cut)

    @property
    def status(self) -> int:
        """What Prospect returns: the command's status, 1 in place of 0 where the file is cut."""
        return self.exit_status or int(self.is_cut)


def record(options: RecordOptions, output_fd: int, warn: Announce = silent) -> RecordingResult:
    """Run a command and record all that the kernel lets this user see.

    Args:
        options: what to record.
        output_fd: a regular file, opened for writing; the caller closes it.
        warn: is told what the recording may cost COMMAND, before COMMAND runs.

    Raises:
        UsageError: an option that this kernel or this machine cannot follow, or no command.
        CommandError: the command cannot be started.
        CaptureError: no event can be opened; the message says what to do.
        RecordingError: the file cannot be written at all.
    """
    if options.flush_centiseconds < 1:
        raise UsageError("the buffers' flush interval must be at least 1/100 s (-M)")
    if options.max_bytes is not None and options.max_bytes < LEAST_MAX_BYTES:
        raise UsageError("a recording may be bounded to no less than 1 MiB (--max-size)")
    options = with_rate(options)
    try:
        return _record(options, output_fd, warn)
    except OSError as error:
        raise CaptureError(f"recording is not possible: {error.strerror or error}") from error


def _record(options: RecordOptions, output_fd: int, warn: Announce) -> RecordingResult:
    with (
        closing(CpuWatch()) as watch,
        closing(SignalWatch()) as signals,
        closing(Command(options.command, signals)) as command,
        closing(open_events(options, command.pid, watch.online)) as events,
        closing(JitFiles()) as jit_files,
        closing(MappedFiles(events.plan.scope, command.pid, watch.online)) as mapped_files,
        exact_counters(_count_choice(options), options.command, command.pid, warn) as counters,
    ):
        writer = RecordingWriter(
            output_fd, events.descriptions(), early_bytes=early_size_bytes(options, events)
        )
        sink = RecordSink(output_fd, options.max_bytes or default_bound_bytes(output_fd))
        loop = DrainLoop(events, command, signals, watch, sink)
        started_at = time.time()
        for counter in counters.values():
            counter.start()
        mapped_files.wait()
        loop.start(options.flush_centiseconds)
        jit_files.start()
        background = describe_surroundings(loop, events.plan, command.pid)
        mapped_files.look_at(background.snapshot.files)
        recorder_pids = [os.getpid(), *jit_files.pids, *filter(None, [mapped_files.reader.pid])]
        early = early_document(options, events, background, loop.begin_ns)
        early |= {"command_pid": command.pid, "started_at": started_at}
        early["recorder_pids"] = recorder_pids
        early_info = recording_info(options, events, background, early)
        writer.describe(early_info, early_info.events)
        while not loop.done:
            loop.step(wait=True)
            jit_files.look()
        read_files = mapped_files.finish()
        jit_copies = jit_files.collect()
        jit_files.close()
        counted = {key: counter.finish() for key, counter in counters.items()}
        result = _sum_up(events, loop, background, command, sink.bytes_written)
        result = result._replace(limits=(*result.limits, *jit_files.limits, *mapped_files.limits))
        for found in counted.values():
            result = result._replace(limits=(*result.limits, *found.limits))
        extras = _describe_run(options, result, events, loop, background)
        extras |= {key: found.document for key, found in counted.items()}
        extras |= _describe_command(options, command)
        extras["started_at"] = started_at
        extras["recorder_pids"] = recorder_pids + jit_files.pids[1:]
        extras["mapped_files"] = describe_files(read_files)
        for child in (mapped_files.reader, jit_files):
            for name, used_s in zip(("user_s", "system_s"), child.used_s, strict=True):
                extras["recorder_rusage"][name] += used_s
        if jit_copies:
            extras["jit_files"] = jit_copies
        events.close()  # their rings may be all the memory that this user may lock
        extras |= _describe_cost(options, events.plan)
        info = _info(options, events, background, extras)
        info = info._replace(build_ids=(*info.build_ids, *build_ids_by_path(read_files)))
        if mapped_files.has_leaked_bits:
            from prospect.perfdata.leaked_bits import clear_build_id_bits  # noqa: PLC0415 - seldom

            clear_build_id_bits(output_fd, writer.data_offset)
        return _finish(writer, info, result)


def _finish(
    writer: RecordingWriter, info: RecordingInfo, result: RecordingResult
) -> RecordingResult:
    """Write what describes the run, on a full disk without what may be big in it."""
    try:
        writer.finish(info, info.events)
    except RecordingError as error:
        big = next((key for key in _BIG_KEYS if key in info.extras), "")
        if not big:
            # The file stays readable; what is missing is what describes the run.
            limit = f"{error}: the description of the run is missing."
            return result._replace(limits=(*result.limits, limit), cut=limit)
        result = result._replace(limits=(*result.limits, f"{error}: {_BIG_KEYS[big]}."))
        extras = {key: value for key, value in info.extras.items() if key != big}
        extras["limits"] = list(result.limits)
        # Without the build ids of mapped files, which are as many in their own section.
        build_ids = tuple(one for one in info.build_ids if big != "mapped_files" or _is_system(one))
        return _finish(writer, info._replace(extras=extras, build_ids=build_ids), result)
    return result


def _is_system(entry: BuildId) -> bool:
    return not entry.name.startswith(b"/") or entry.cpumode == abi.PERF_RECORD_MISC_KERNEL


def _count_choice(options: RecordOptions) -> CountChoice:
    return CountChoice(options.count_syscalls, options.count_calls, options.count_budget_percent)


def _sum_up(
    events: EventSet,
    loop: DrainLoop,
    background: Background,
    command: Command,
    bytes_written: int,
) -> RecordingResult:
    limits = (*events.plan.limits, *background.limits, *loop.limits, *loop.drain.limits)
    ended = command.reap()
    if ended is None:
        limits += (f"COMMAND (process {command.pid}) was still running at the end.",)
    return RecordingResult(
        exit_status=ended.exit_status if ended else _SIGNALLED + loop.interrupted_by,
        interrupted_by=loop.interrupted_by,
        limits=limits,
        cut=loop.cut,
        counters={
            "buffers_read": loop.drain.buffers_read,
            "buffer_flushes": loop.drain.buffer_flushes,
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


def _describe_cost(options: RecordOptions, plan: EventPlan) -> dict[str, float]:
    if options.events:
        return {}  # each costs something else, and what is not known
    from prospect.recording.sampling_cost import describe_cost  # noqa: PLC0415 - after the command's end

    return describe_cost(plan, use_cache=options.use_cache)


def _describe_run(
    options: RecordOptions,
    result: RecordingResult,
    events: EventSet,
    loop: DrainLoop,
    background: Background,
) -> dict[str, Any]:
    interval = Interval(loop.begin_ns, loop.end_ns, loop.cpu_times, loop.drain.cpu_changes)
    return describe_interval(options, events, interval, background, events.read_lost()) | {
        "exit_status": result.exit_status,
        "interrupted_by": result.interrupted_by,
        "is_cut": result.is_cut,
        "limits": list(result.limits),
        "counters": result.counters,
    }


def _info(
    options: RecordOptions, events: EventSet, background: Background, extras: dict[str, Any]
) -> RecordingInfo:
    formats = tracing_data(options, events)
    return recording_info(options, events, background, extras, formats)
