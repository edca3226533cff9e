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

from prospect.capture.command import Command
from prospect.capture.cpus import CpuWatch
from prospect.capture.drain_loop import DrainLoop
from prospect.capture.jit_files import JitFiles
from prospect.capture.signals import SignalWatch
from prospect.capture.sink import RecordSink
from prospect.capture.surroundings import describe_surroundings
from prospect.errors import CaptureError, RecordingError, UsageError
from prospect.exact_counters import CountChoice, exact_counters
from prospect.perfdata.writer import RecordingWriter
from prospect.recording_document import Interval, describe_interval, recording_info
from prospect.recording_events import open_events, tracing_data, with_rate

if TYPE_CHECKING:
    from prospect.abi.recording import RecordingInfo
    from prospect.capture.cpu_events import EventSet
    from prospect.capture.event_choice import EventPlan
    from prospect.capture.surroundings import Background
    from prospect.recording_events import RecordOptions

_SIGNALLED = 128


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


def record(options: RecordOptions, output_fd: int) -> RecordingResult:
    """Run a command and record all that the kernel lets this user see.

    Args:
        options: what to record.
        output_fd: a regular file, opened for writing; the caller closes it.

    Raises:
        UsageError: an option that this kernel or this machine cannot follow, or no command.
        CommandError: the command cannot be started.
        CaptureError: no event can be opened; the message says what to do.
        RecordingError: the file cannot be written at all.
    """
    if options.flush_centiseconds < 1:
        raise UsageError("the buffers' flush interval must be at least 1/100 s (-M)")
    options = with_rate(options)
    try:
        return _record(options, output_fd)
    except OSError as error:
        raise CaptureError(f"recording is not possible: {error.strerror or error}") from error


def _record(options: RecordOptions, output_fd: int) -> RecordingResult:
    with (
        closing(CpuWatch()) as watch,
        closing(SignalWatch()) as signals,
        closing(Command(options.command, signals)) as command,
        closing(open_events(options, command.pid, watch.online)) as events,
        closing(JitFiles()) as jit_files,
        exact_counters(_count_choice(options), options.command, command.pid) as counters,
    ):
        writer = RecordingWriter(output_fd, events.descriptions())
        sink = RecordSink(output_fd)
        loop = DrainLoop(events, command, signals, watch, sink)
        started_at = time.time()
        for counter in counters.values():
            counter.start()
        loop.start(options.flush_centiseconds)
        background = describe_surroundings(loop, events.plan, command.pid)
        loop.wake_at_files(jit_files.fd)
        while not loop.done:
            loop.step(wait=True)
            jit_files.look()
        jit_copies = jit_files.collect()
        counted = {key: counter.finish() for key, counter in counters.items()}
        result = _sum_up(events, loop, background, command, sink.bytes_written)
        result = result._replace(limits=(*result.limits, *jit_files.limits))
        for found in counted.values():
            result = result._replace(limits=(*result.limits, *found.limits))
        extras = _describe_run(options, result, events, loop, background)
        extras |= {key: found.document for key, found in counted.items()}
        extras |= _describe_command(options, command)
        extras["started_at"] = started_at
        if jit_copies:
            extras["jit_files"] = jit_copies
        events.close()  # their rings may be all the memory that this user may lock
        extras |= _describe_cost(options, events.plan)
        return _finish(writer, _info(options, events, background, extras), result)


def _finish(
    writer: RecordingWriter, info: RecordingInfo, result: RecordingResult
) -> RecordingResult:
    """Write what describes the run, on a full disk without what may be big in it."""
    try:
        writer.finish(info, info.events)
    except RecordingError as error:
        if "jit_files" not in info.extras:
            # The file stays readable; what is missing is what describes the run.
            limit = f"{error}: the description of the run is missing."
            return result._replace(limits=(*result.limits, limit))
        result = result._replace(
            limits=(*result.limits, f"{error}: files with names of JIT code were not copied.")
        )
        extras = {key: value for key, value in info.extras.items() if key != "jit_files"}
        extras["limits"] = list(result.limits)
        return _finish(writer, info._replace(extras=extras), result)
    return result


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
    from prospect.sampling_cost import describe_cost  # noqa: PLC0415 - after the command's end

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
        "limits": list(result.limits),
        "counters": result.counters,
    }


def _info(
    options: RecordOptions, events: EventSet, background: Background, extras: dict[str, Any]
) -> RecordingInfo:
    formats = tracing_data(options, events)
    return recording_info(options, events, background, extras, formats)
