"""What to record → the events of every CPU, open.

Comes in: `RecordOptions`. Goes out: an `EventSet`, and the options with the rate and periods that
they amount to. For `recording`, which follows a command, and for live sessions, which follow none.

On the way to the command's start every import is paid by whoever waits: heavy ones are forbidden.
"""

from __future__ import annotations

import os

from prospect.capture.events.call_graph import parse_call_graph, sample_bytes
from prospect.capture.events.clock_bank import (
    MOST_CLOCKS,
    check_periods,
    check_rate,
    clock_periods_ns,
    total_rate_hz,
)
from prospect.capture.events.cpu_events import EventSet
from prospect.capture.events.event_choice import CLOCK_HARDWARE, SCOPE_TASK, choose_events
from prospect.capture.kernel.rings import ring_size_bytes
from prospect.errors import CaptureError, UsageError
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from prospect.capture.events.event_choice import EventPlan

# What stood before COMMAND takes a good part of this.
LEAST_MAX_BYTES = 1 << 20


class RecordOptions(NamedTuple):
    """What to record.

    Attributes:
        command: the words of the command; none to record as long as `pids` or `for_s` say, or
            until a signal.
        pids: processes that run already, for which the report is to be, instead of the command.
        for_s: how long, without a command; None until `pids` have ended.
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
            counts every call until that has cost 5 s.
        max_bytes: at how many bytes of records it ends; None for a share of the free space.
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
    max_bytes: int | None = None
    pids: tuple[int, ...] = ()
    for_s: float | None = None


def with_rate(options: RecordOptions) -> RecordOptions:
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
        from prospect.recording.sampling_cost import rate_for_overhead  # noqa: PLC0415 - seldom asked for

        rate_hz = rate_for_overhead(
            options.overhead_percent,
            options.clocks,
            call_graph=parse_call_graph(options.call_graph),
            use_cache=options.use_cache,
        )
    check_rate(rate_hz, clocks)
    return options._replace(frequency_hz=rate_hz, periods_ns=clock_periods_ns(rate_hz, clocks))


def open_events(options: RecordOptions, pid: int, cpus: tuple[int, ...]) -> EventSet:
    """Open the best events on all CPUs; the timer where the hardware counter is not on each.

    Args:
        options: what to record.
        pid: COMMAND, or who stands for those whom this user may follow; EVERY_TASK where only the
            whole system will do.
        cpus: those on line.

    Raises:
        CaptureError: that cannot be; says what to do.
    """
    pid = os.getpid() if options.pids else pid
    rate_hz, periods_ns = options.frequency_hz, options.periods_ns
    call_graph = parse_call_graph(options.call_graph)

    def choose(*, allow_hardware: bool) -> EventPlan:
        plan = choose_events(
            *(rate_hz, periods_ns, pid, cpus[0]),
            allow_hardware=allow_hardware,
            call_graph=call_graph,
            attaches=bool(options.pids),
        )
        plan = _with_chosen_events(options, plan, pid, cpus[0])
        if not options.off_cpu:
            return plan
        from prospect.capture.events.switches import with_switches  # noqa: PLC0415 - seldom asked for

        return with_switches(plan, call_graph)

    plan = choose(allow_hardware=not options.clocks and not options.events)
    bytes_a_second = rate_hz * sample_bytes(plan.attr)
    if plan.beside:
        from prospect.capture.events.switches import switch_bytes_a_second  # noqa: PLC0415 - likewise

        bytes_a_second += sum(switch_bytes_a_second(event.attr) for event in plan.beside)
    ring_bytes = ring_size_bytes(bytes_a_second, len(cpus))
    tasks: tuple[int, ...] = (pid,)
    if options.pids and plan.scope == SCOPE_TASK:
        from prospect.capture.machine.attached_tasks import attached_tasks  # noqa: PLC0415 - likewise

        tasks = attached_tasks(options.pids, plan.attr, cpus[0])
    events = EventSet(plan, tasks, ring_bytes)
    try:
        events.open(cpus)
    except OSError as error:
        if plan.clock == CLOCK_HARDWARE:
            plan = choose(allow_hardware=False)
            events = EventSet(plan, tasks, ring_bytes)
            events.open(cpus)
            return events
        raise CaptureError(f"perf_event_open() failed on a CPU: {error.strerror}") from error
    return events


def _with_chosen_events(options: RecordOptions, plan: EventPlan, pid: int, cpu: int) -> EventPlan:
    """Return the plan with the events that were asked for instead of clocks, if any were."""
    if not options.events:
        return plan
    from prospect.capture.events.event_parsing import parse_events  # noqa: PLC0415 - seldom asked for
    from prospect.capture.events.sampled_events import with_sampled_events  # noqa: PLC0415 - likewise

    chosen = parse_events(",".join(options.events))
    return with_sampled_events(plan, chosen, options.frequency_hz, pid, cpu)


def tracing_data(options: RecordOptions, events: EventSet) -> bytes:
    """Return the formats of the tracepoints among the events, empty without any."""
    if not options.events:
        return b""
    from prospect.capture.events.tracepoints import recorded_tracepoints  # noqa: PLC0415 - as above
    from prospect.perfdata.tracing_data import encode_tracing_data  # noqa: PLC0415 - as above

    files = recorded_tracepoints(events.descriptions())
    return encode_tracing_data(*files) if files else b""
