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

from prospect.abi.recording import RecordingInfo
from prospect.capture.call_graph import parse_call_graph, sample_bytes
from prospect.capture.clock_bank import (
    MOST_CLOCKS,
    check_periods,
    check_rate,
    clock_periods_ns,
    total_rate_hz,
)
from prospect.capture.command import Command
from prospect.capture.cpu_events import EventSet
from prospect.capture.cpus import CpuWatch
from prospect.capture.drain_loop import DrainLoop
from prospect.capture.event_choice import CLOCK_HARDWARE, choose_events
from prospect.capture.jit_files import JitFiles
from prospect.capture.kernel_maps import KERNEL_NAME
from prospect.capture.machine import accounting
from prospect.capture.procfs import read_setting
from prospect.capture.rings import ring_size_bytes
from prospect.capture.signals import SignalWatch
from prospect.capture.sink import RecordSink
from prospect.capture.surroundings import describe_surroundings
from prospect.capture.switches import switch_bytes_a_second, with_switches
from prospect.errors import CaptureError, RecordingError, UsageError
from prospect.exact_counters import CountChoice, exact_counters
from prospect.perfdata.writer import RecordingWriter
from prospect.version import __version__

if TYPE_CHECKING:
    from prospect.capture.event_choice import EventPlan
    from prospect.capture.surroundings import Background

_SIGNALLED = 128


class RecordOptions(NamedTuple):
    """What to record.

    Attributes:
        command: the words of the command.
        frequency_hz: samples a second and CPU, of all clocks together.
        flush_centiseconds: how often the rings are drained at least, in 1/100 s.
        clocks: how many timers of different periods share the rate; 0 for a hardware counter where
            there is one, else as many as a bank has.
        periods_ns: the timers' periods themselves, instead of a rate; they may be the same.
        overhead_percent: instead of a rate, the most that sampling may take of each CPU.
        command_line: the recorder's own argument vector, kept in the recording.
        count_syscalls: whether the kernel is to count every system call as well.
        use_cache: whether the cost of a sample is kept for the next recording.
        call_graph: which callers in user space samples tell, as behind ``--call-graph``.
        off_cpu: whether the scheduler's switches are recorded as well.
        count_calls: whose calls are counted, as behind ``--count-calls``; "" for nobody's.
        count_budget_percent: how much of the command's CPU time counting calls may take; 100
            counts every call.
    """

    command: tuple[str | bytes, ...]
    frequency_hz: int = 200
    flush_centiseconds: int = 200
    clocks: int = MOST_CLOCKS
    command_line: tuple[str, ...] = ()
    count_syscalls: bool = False
    periods_ns: tuple[int, ...] = ()
    overhead_percent: float | None = None
    use_cache: bool = True
    call_graph: str = ""
    off_cpu: bool = False
    count_calls: str = ""
    count_budget_percent: float = 5.0
    events: tuple[str, ...] = ()


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
    options = _with_rate(options)
    try:
        return _record(options, output_fd)
    except OSError as error:
        raise CaptureError(f"recording is not possible: {error.strerror or error}") from error


def _with_rate(options: RecordOptions) -> RecordOptions:
    """Return the options with the rate and the periods that the others amount to.

    Raises:
        UsageError: this kernel cannot follow them.
        CaptureError: what a sample costs cannot be measured.
    """
    if options.periods_ns:
        check_periods(options.periods_ns)
        return options._replace(
            frequency_hz=total_rate_hz(options.periods_ns), clocks=len(options.periods_ns)
        )
    clocks = options.clocks or MOST_CLOCKS
    rate_hz = options.frequency_hz
    if options.overhead_percent is not None:
        if not 0 < options.overhead_percent <= 100:
            raise UsageError("an overhead is more than 0 and at most 100% of a CPU (--overhead)")
        check_rate(1, clocks)
        from prospect.sampling_cost import rate_for_overhead  # noqa: PLC0415 - seldom asked for

        rate_hz = rate_for_overhead(
            options.overhead_percent,
            options.clocks,
            call_graph=parse_call_graph(options.call_graph),
            use_cache=options.use_cache,
        )
    check_rate(rate_hz, clocks)
    return options._replace(frequency_hz=rate_hz, periods_ns=clock_periods_ns(rate_hz, clocks))


def _record(options: RecordOptions, output_fd: int) -> RecordingResult:
    with (
        closing(CpuWatch()) as watch,
        closing(SignalWatch()) as signals,
        closing(Command(options.command, signals)) as command,
        closing(_open_events(options, command.pid, watch.online)) as events,
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
        return _finish(writer, _recording_info(options, events, background, extras), result)


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


def _open_events(options: RecordOptions, pid: int, cpus: tuple[int, ...]) -> EventSet:
    """Open the best events on all CPUs; the timer where the hardware counter is not on each."""
    rate_hz, periods_ns = options.frequency_hz, options.periods_ns
    call_graph = parse_call_graph(options.call_graph)

    def choose(*, allow_hardware: bool) -> EventPlan:
        plan = choose_events(
            *(rate_hz, periods_ns, pid, cpus[0]),
            allow_hardware=allow_hardware,
            call_graph=call_graph,
        )
        plan = _with_chosen_events(options, plan, pid, cpus[0])
        return with_switches(plan, call_graph) if options.off_cpu else plan

    plan = choose(allow_hardware=not options.clocks and not options.events)
    bytes_a_second = rate_hz * sample_bytes(plan.attr)
    bytes_a_second += sum(switch_bytes_a_second(event.attr) for event in plan.beside)
    ring_bytes = ring_size_bytes(bytes_a_second, len(cpus))
    events = EventSet(plan, pid, ring_bytes)
    try:
        events.open(cpus)
    except OSError as error:
        if plan.clock == CLOCK_HARDWARE:
            plan = choose(allow_hardware=False)
            events = EventSet(plan, pid, ring_bytes)
            events.open(cpus)
            return events
        raise CaptureError(f"perf_event_open() failed on a CPU: {error.strerror}") from error
    return events


def _with_chosen_events(options: RecordOptions, plan: EventPlan, pid: int, cpu: int) -> EventPlan:
    """Return the plan with the events that were asked for instead of clocks, if any were."""
    if not options.events:
        return plan
    from prospect.capture.event_parsing import parse_events  # noqa: PLC0415 - seldom asked for
    from prospect.capture.sampled_events import with_sampled_events  # noqa: PLC0415 - likewise

    chosen = parse_events(",".join(options.events))
    return with_sampled_events(plan, chosen, options.frequency_hz, pid, cpu)


def _tracing_data(options: RecordOptions, events: EventSet) -> bytes:
    """Return the formats of the tracepoints among the events, empty without any."""
    if not options.events:
        return b""
    from prospect.capture.tracepoints import recorded_tracepoints  # noqa: PLC0415 - as above
    from prospect.perfdata.tracing_data import encode_tracing_data  # noqa: PLC0415 - as above

    files = recorded_tracepoints(events.descriptions())
    return encode_tracing_data(*files) if files else b""


def _sum_up(
    events: EventSet,
    loop: DrainLoop,
    background: Background,
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
    """Return the document of Prospect's own feature section."""
    plan = events.plan
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
        "frequency_hz": 0 if options.events else options.frequency_hz,
        "call_graph": options.call_graph,
        "clocks": [
            {
                "period_ns": period_ns,
                "ids": ids,
                "cpus": [cpu_of[number] for number in ids],
            }
            for period_ns, ids in zip(plan.periods_ns, events.clock_ids(), strict=True)
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
    options: RecordOptions, events: EventSet, background: Background, extras: dict[str, Any]
) -> RecordingInfo:
    """Return what the feature sections that all readers know are to say."""
    machine = background.machine
    begin_ns, end_ns = extras["interval_ns"]
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
        tracing_data=_tracing_data(options, events),
    )


def _own_usage() -> dict[str, float]:
    import resource  # noqa: PLC0415 - after the command's end, not before its start

    used = resource.getrusage(resource.RUSAGE_SELF)
    return {"user_s": used.ru_utime, "system_s": used.ru_stime}
