"""Choose a recording's rate and periods, and open its events on every CPU.

Recordings of a command and live sessions use it. It is imported before the command starts, so it
imports nothing slow.
"""

from __future__ import annotations

import os

from prospect.abi.runtime_frames import V8
from prospect.capture.events.clock_bank import (
    MOST_CLOCKS,
    check_periods,
    check_rate,
    clock_periods_ns,
    total_rate_hz,
)
from prospect.capture.events.cpu_events import EventSet
from prospect.capture.events.event_choice import (
    CLOCK_HARDWARE,
    CLOCK_TIMER,
    RUNTIME_FRAMES,
    RUNTIME_FRAMES_BYTES,
    SCOPE_SYSTEM,
    SCOPE_TASK,
    choose_events,
    with_filtered_copies,
    with_python_frames,
)
from prospect.capture.events.recorded_callers import (
    CallGraph,
    default_callers,
    parse_call_graph,
    sample_bytes,
)
from prospect.capture.kernel.procfs import read_if_there
from prospect.capture.kernel.rings import ring_size_bytes
from prospect.errors import CaptureError, UsageError
from prospect.options import RecordingOptions
from prospect.records import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.capture.events.event_choice import EventPlan
    from prospect.recording.followed_switches import SwitchPrograms

# The description of the run takes a good part of this.
LEAST_MAX_BYTES = 1 << 20
# Machines on which frames are read from memory; eBPF reads them on x86-64 only.
_PYTHON_MACHINES = ("x86_64", "aarch64")
_KERNEL_TYPES = "/sys/kernel/btf/vmlinux"
# A ring has room for a second of samples; for so many with copies of stacks if CPUs are scarce.
_CROWDED_S = 4
# Linux 5.17 writes offsets of its structures into programs.
_OLDEST_FILTERING_LINUX = (5, 17)
_FILTERED_MACHINES = ("x86_64", "aarch64")
_FIRST_PID_NAMESPACE = 0xEFFFFFFC  # PROC_PID_INIT_INO, include/linux/proc_ns.h
_LOCKDOWN = "/sys/kernel/security/lockdown"
_TRACING_CAPABILITIES = 1 << 38 | 1 << 39  # CAP_PERFMON, CAP_BPF


class RecordOptions(RecordingOptions):
    """The events to record, and their processes.

    Attributes:
        command: the words of the command; none to record until the end of `pids` or `for_s`, or a
            signal.
        command_line: the recorder's argument vector, for the recording.
        tids: threads to follow, with those that they start, instead of `pids`; without a command.
        periods_ns: the timers' periods, instead of a rate; they may be equal.
        use_cache: whether to keep the cost of a sample for the next recording.
        default_callers: whether samples have callers in user space if `call_graph` is empty.
        wakers: whether `off_cpu` records the thread that ended each wait.
        in_parts: whether each part of the records is read as a recording of its own.
        images: whether to keep files with samples that may be gone later: "raw"; "packed" if the
            recording will be kept; "" to keep none.
        kubelet: the URL of a kubelet's pods, for names of containers in live sessions; "" for none.
    """

    command: tuple[str | bytes, ...] = ()
    command_line: tuple[str, ...] = ()
    tids: tuple[int, ...] = ()
    periods_ns: tuple[int, ...] = ()
    use_cache: bool = True
    default_callers: bool = False
    wakers: bool = True
    in_parts: bool = False
    images: str = ""
    kubelet: str = ""


def with_rate(options: RecordOptions) -> RecordOptions:
    """Return the options with the rate and the periods that follow from the others.

    Raises:
        UsageError: this kernel cannot follow them.
        CaptureError: the cost of a sample cannot be measured.
    """
    if options.periods_ns:
        check_periods(options.periods_ns)
        return replace(
            options, frequency_hz=total_rate_hz(options.periods_ns), clocks=len(options.periods_ns)
        )
    clocks = options.clocks or MOST_CLOCKS
    rate_hz = options.frequency_hz
    if options.overhead_percent is not None:
        if not 0 < options.overhead_percent <= 100:
            raise UsageError("an overhead is more than 0 and at most 100% of a CPU (--overhead)")
        check_rate(1, clocks)
        from prospect.recording.sampling_cost import rate_for_overhead  # noqa: PLC0415 - rarely asked for

        rate_hz = rate_for_overhead(
            options.overhead_percent,
            options.clocks,
            call_graph=parse_call_graph(options.call_graph),
            use_cache=options.use_cache,
        )
    check_rate(rate_hz, clocks)
    return replace(options, frequency_hz=rate_hz, periods_ns=clock_periods_ns(rate_hz, clocks))


def open_events(
    options: RecordOptions, pid: int, cpus: tuple[int, ...], switches: SwitchPrograms | None = None
) -> EventSet:
    """Open the best events on all CPUs; timers if not every CPU has the hardware counter.

    Args:
        pid: COMMAND, or a process of the tasks that this user may follow; EVERY_TASK to accept
            only the whole system.
        cpus: those online.
        switches: the programs of ``wall`` or ``off_cpu``, None for none.

    Raises:
        CaptureError: the kernel refuses; says what to do.
    """
    attaches = bool(options.pids or options.tids)
    pid = os.getpid() if attaches else pid

    def choose(*, allow_hardware: bool) -> EventPlan:
        plan = _plan_of_clocks(options, pid, cpus, allow_hardware=allow_hardware)
        plan = _with_chosen_events(options, plan, pid, cpus[0])
        plan = _with_chosen_processes(options, plan)
        if options.off_cpu:
            from prospect.capture.events.switches import with_switches  # noqa: PLC0415 - rarely asked for

            callers = parse_call_graph(options.call_graph)
            programs = switches.beside_stacks(plan) if switches is not None else ()
            plan = with_switches(plan, callers, cpus[0], programs, wakers=options.wakers)
        if switches is not None:
            plan = switches.planned(plan, cpus[0])
        return _with_python(options, plan)

    plan = choose(allow_hardware=not options.clocks and not options.events)
    bytes_a_second = _bytes_a_second(options, plan)
    if options.wall and switches is not None:
        bytes_a_second += switches.bytes_a_second
    if plan.with_callers.sample_stack_user and _is_crowded(len(cpus)):
        bytes_a_second *= _CROWDED_S
    ring_bytes = ring_size_bytes(bytes_a_second, len(cpus))
    tasks: tuple[int, ...] = (pid,)
    if attaches and plan.scope == SCOPE_TASK:
        from prospect.capture.machine.attached_tasks import attached_tasks, chosen_tasks  # noqa: PLC0415 - rarely asked for

        if options.tids:
            tasks = chosen_tasks(options.tids, plan.attr, cpus[0])
        else:
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


def _bytes_a_second(options: RecordOptions, plan: EventPlan) -> int:
    bytes_a_second = options.frequency_hz * sample_bytes(plan.with_callers)
    if options.events:
        from prospect.capture.events.event_opening import sampled_bytes_a_second  # noqa: PLC0415 - only with --event

        chosen = (event for event in plan.beside if event.name != RUNTIME_FRAMES)
        bytes_a_second += sampled_bytes_a_second(tuple(chosen))
    if options.off_cpu:
        from prospect.capture.events.switches import switch_bytes_a_second  # noqa: PLC0415 - rarely asked for

        bytes_a_second += sum(switch_bytes_a_second(event.attr) for event in plan.beside)
    if plan.beside[-1:] and plan.beside[-1].name == RUNTIME_FRAMES:
        bytes_a_second += options.frequency_hz * RUNTIME_FRAMES_BYTES
    return bytes_a_second


def _with_python(options: RecordOptions, plan: EventPlan) -> EventPlan:
    machine = os.uname().machine
    if options.python == "never" or machine not in _PYTHON_MACHINES:
        return plan
    plan = with_python_frames(plan)
    if _reads_by_ebpf(plan):
        return plan
    wakes = not (options.off_cpu or options.events) and bool(_read_from_memory(options))
    return plan._replace(reads_memory=True, wakes_at_samples=wakes)


def _reads_by_ebpf(plan: EventPlan) -> bool:
    return (
        plan.scope == SCOPE_SYSTEM
        and os.uname().machine == "x86_64"
        and os.access(_KERNEL_TYPES, os.R_OK)
        and _may_load_programs()
    )


def _read_from_memory(options: RecordOptions) -> set[int]:
    """Return the runtimes of COMMAND and the attached processes that are read from memory."""
    from prospect.capture.machine.runtime_processes import run_from_memory  # noqa: PLC0415 - not by root

    return run_from_memory(options.command, options.pids)


def _needs_copies(options: RecordOptions, plan: EventPlan) -> bool:
    """Return whether reading a runtime needs copies of stacks."""
    is_by_memory = options.python != "never" and not _reads_by_ebpf(plan)
    return is_by_memory and V8 in _read_from_memory(options)


def _with_chosen_processes(options: RecordOptions, plan: EventPlan) -> EventPlan:
    """Return the plan with stacks of the wanted processes only, if this kernel can choose them.

    If every process is wanted, programs are only useful for stacks of waits, whose pieces they
    record once. A part of a live session has no pieces of the part before.
    """
    is_of_all = options.of_all or not (options.command or options.pids)
    has_reason = not is_of_all or (options.off_cpu and not options.in_parts)
    has_timers = plan.scope == SCOPE_SYSTEM and plan.clock == CLOCK_TIMER
    # The program recognises a clock by its period.
    are_different = len(set(plan.periods)) == len(plan.periods)
    if options.events or not (has_reason and has_timers and are_different) or filter_obstacle():
        return plan
    plan = plan._replace(may_filter=True, of_every_process=is_of_all)
    if is_of_all:
        return plan
    return with_filtered_copies(plan) if plan.attr.sample_stack_user else plan


def filter_obstacle() -> str:
    """Return why stacks cannot be recorded of some processes only; "" if they can.

    This only checks conditions: the programs are loaded once COMMAND runs.
    """
    return next(_filter_obstacles(), "")


def _filter_obstacles() -> Iterator[str]:
    kernel = os.uname()
    if kernel.machine not in _FILTERED_MACHINES:
        yield f"the programs for it run on x86-64 and arm64, not {kernel.machine}"
    numbers = kernel.release.split(".", 2)[:2]
    if tuple(int(one) if one.isdigit() else 0 for one in numbers) < _OLDEST_FILTERING_LINUX:
        yield "it takes Linux {}.{}".format(*_OLDEST_FILTERING_LINUX)
    if not os.access(_KERNEL_TYPES, os.R_OK):
        yield f"this kernel has no {_KERNEL_TYPES} (CONFIG_DEBUG_INFO_BTF)"
    if os.stat("/proc/self/ns/pid").st_ino != _FIRST_PID_NAMESPACE:  # noqa: PTH116 - pathlib takes 5 ms
        yield "processes have other numbers in this container than the kernel's"
    if not _may_load_programs():
        yield "it needs root, or CAP_BPF and CAP_PERFMON, for eBPF"
    if b"[confidentiality]" in read_if_there(_LOCKDOWN):
        yield "the kernel is locked down (confidentiality): boot with lockdown=integrity"


def _is_crowded(cpus: int) -> bool:
    """Return whether more threads than CPUs are runnable: the recorder may wait for seconds."""
    fields = read_if_there("/proc/loadavg").split()
    running = fields[3].partition(b"/")[0] if len(fields) > 3 else b""
    return running.isdigit() and int(running) > cpus


def _plan_of_clocks(
    options: RecordOptions, pid: int, cpus: tuple[int, ...], *, allow_hardware: bool
) -> EventPlan:
    """Return the plan of the clocks, with the chosen or default callers."""

    def plan_with(call_graph: CallGraph) -> EventPlan:
        return choose_events(
            *(options.frequency_hz, options.periods_ns, pid, cpus[0]),
            allow_hardware=allow_hardware,
            call_graph=call_graph,
            attaches=bool(options.pids or options.tids),
            only_tasks=bool(options.tids),
        )

    plan = plan_with(parse_call_graph(options.call_graph))
    if options.call_graph or not (options.default_callers or _needs_copies(options, plan)):
        return plan
    is_system = plan.scope == SCOPE_SYSTEM
    callers, limit = default_callers(options.frequency_hz, len(cpus), is_system=is_system)
    plan = plan_with(callers)
    return plan._replace(limits=(*plan.limits, limit)) if limit else plan


def _may_load_programs() -> bool:
    """Return whether this process may load eBPF programs that read memory; capabilities(7)."""
    if os.geteuid() == 0:
        return True
    _, _, rest = read_if_there("/proc/self/status").partition(b"\nCapEff:\t")
    held = int(rest.split(b"\n", 1)[0] or b"0", 16)
    return held & _TRACING_CAPABILITIES == _TRACING_CAPABILITIES


def _with_chosen_events(options: RecordOptions, plan: EventPlan, pid: int, cpu: int) -> EventPlan:
    """Return the plan with the events of ``--event`` instead of clocks, if there are any."""
    if not options.events:
        return plan
    from prospect.capture.events.event_opening import with_sampled_events  # noqa: PLC0415 - rarely asked for
    from prospect.capture.events.event_parsing import parse_events  # noqa: PLC0415 - rarely asked for

    chosen = parse_events(",".join(options.events))
    return with_sampled_events(plan, chosen, options.frequency_hz, pid, cpu)


def tracing_data(options: RecordOptions, events: EventSet) -> bytes:
    """Return the formats of the tracepoints among the events, empty for none."""
    if not (options.events or options.off_cpu or options.wall):
        return b""
    from prospect.capture.events.tracepoints import recorded_tracepoints  # noqa: PLC0415 - rarely asked for
    from prospect.perfdata.tracing_data import encode_tracing_data  # noqa: PLC0415 - rarely asked for

    own = {event.name: event.format for event in events.plan.beside if event.format}
    files = recorded_tracepoints(events.descriptions(), own)
    return encode_tracing_data(*files) if files else b""
