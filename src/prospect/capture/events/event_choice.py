"""Finds the best sampling event by trying: hardware or timer, system-wide or not.

The `EventPlan` has a sentence for everything that this kernel refuses or lacks.

Defined by: perf_event_open(2); ``kernel/events/core.c`` (Linux 6.18), perf_copy_attr() and
perf_event_open() for the errno of each refusal.
"""

from __future__ import annotations

import errno
import os

from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr
from prospect.capture.events.clock_bank import LEAST_BANK_HZ, clock_periods_ns
from prospect.capture.events.recorded_callers import KERNEL_CALLERS, CallGraph, with_callers
from prospect.capture.kernel import perf_syscalls
from prospect.capture.kernel.procfs import read_setting
from prospect.errors import CaptureError
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    _Scope = tuple[str, int, int, tuple[str, ...]]

ALONE = -1
SCOPE_SYSTEM = "system"
SCOPE_TASK = "task"
EVERY_TASK = -1
CLOCK_TIMER = "cpu-clock"
CLOCK_HARDWARE = "cycles"
# As `abi.runtime_frames.EVENT_NAME`, which is not loaded before COMMAND's start.
RUNTIME_FRAMES = "runtime-frames"
# The usual size of a sample's record of them, with 24 frames.
RUNTIME_FRAMES_BYTES = 448

_CLOCK_MONOTONIC = 1
PARANOID = "/proc/sys/kernel/perf_event_paranoid"
PRECISE_IP_SHIFT = 15
MOST_PRECISE = 3
PRECISE_IP = MOST_PRECISE << PRECISE_IP_SHIFT
_NS_PER_S = 1_000_000_000
_REDRAW_NS = 100_000_000
_SAMPLES_A_REDRAW = 100

# A timer's samples have no period: readers use the attribute's (see EventPlan.recorded_attr).
SAMPLE_TYPE = (
    abi.PERF_SAMPLE_IDENTIFIER
    | abi.PERF_SAMPLE_IP
    | abi.PERF_SAMPLE_TID
    | abi.PERF_SAMPLE_TIME
    | abi.PERF_SAMPLE_CPU
    | abi.PERF_SAMPLE_CGROUP
)
_KERNEL_TEXT_FLAGS = abi.FLAG_KSYMBOL | abi.FLAG_BPF_EVENT | abi.FLAG_TEXT_POKE
SIDE_BAND_FLAGS = (
    abi.FLAG_MMAP
    | abi.FLAG_MMAP_DATA
    | abi.FLAG_MMAP2
    | abi.FLAG_COMM
    | abi.FLAG_COMM_EXEC
    | abi.FLAG_TASK
    | abi.FLAG_CGROUP
    | _KERNEL_TEXT_FLAGS
)
_CLOCK_FLAGS = (
    abi.FLAG_DISABLED
    | abi.FLAG_WATERMARK
    | abi.FLAG_SAMPLE_ID_ALL
    | abi.FLAG_EXCLUDE_GUEST
    | abi.FLAG_USE_CLOCKID
)
_TASK_FLAGS = abi.FLAG_INHERIT | abi.FLAG_ENABLE_ON_EXEC
_USER_ONLY_FLAGS = abi.FLAG_EXCLUDE_KERNEL | abi.FLAG_EXCLUDE_HV


_ONE_CLOCK_LIMIT = (
    f"One clock sampled (--clocks 1, or under -H {LEAST_BANK_HZ}): a program that runs in step with"
    " it goes unnoticed, and error bars assume independent samples."
)
_TASK_CLOCK_LIMIT = (
    "Error bars assume independent samples: the clock of a process stops whenever the process does,"
    " so there is only one."
)

# Sentences that hold for clocks, not for other sampled events.
CLOCK_LIMITS = (_ONE_CLOCK_LIMIT, _TASK_CLOCK_LIMIT)

_OF_COMMAND = "Only COMMAND and its descendants"
_OF_ATTACHED = "Only the processes of -p and their descendants"

_WHOLE_SYSTEM_ONLY = (
    "recording the whole system takes root, CAP_PERFMON, or sysctl kernel.perf_event_paranoid=0:"
    " without, give COMMAND, or -p PID of your own processes"
)

_NO_BRANCH_STACK = (
    "no hardware counter here has a branch stack that follows calls (--call-graph lbr): use"
    " --call-graph auto"
)


class ChosenEvent(NamedTuple):
    """An event that a user or an option requires.

    Attributes:
        name: as in reports.
        attr: its kind and the excluded modes; `sample_period` is 0 unless the user gives a period,
            or with FLAG_FREQ a rate.
        group: events of the same group, numbered from 0, count at the same times; or `ALONE`.
        filter: of a tracepoint's records, "" for all.
        path: of the file that a probe is in.
        cpus: the kernel's list of CPUs that count for all, empty if each counts for itself.
        unit, scale: the value of a count is count times scale, in units.
        recorded: attributes by which a recording describes it, if other than those that open it.
        format: of the tracepoint whose layout its samples follow, if a BPF program writes them.
        is_filtered: whether a program chooses its samples; it then starts with the program.
        is_recorded: whether the recording has samples of it, and so describes it.
        is_of_waits: whether a program writes samples of switches by it.
    """

    name: str
    attr: EventAttr
    group: int = ALONE
    filter: str = ""
    path: bytes = b""
    cpus: bytes = b""
    unit: str = ""
    scale: float = 1.0
    recorded: EventAttr | None = None
    format: bytes = b""
    is_filtered: bool = False
    is_recorded: bool = True
    is_of_waits: bool = False

    @property
    def has_modifiers(self) -> bool:
        """Whether it excludes user space or the kernel."""
        return bool(self.attr.flags & (abi.FLAG_EXCLUDE_USER | abi.FLAG_EXCLUDE_KERNEL))


class EventPlan(NamedTuple):
    """The events of every CPU.

    Attributes:
        attr: the first clock's attributes; `clock_attr` gives those of the others.
        periods: each clock's `sample_period`: ns, or Hz if `attr.flags` has FLAG_FREQ.
        limits: a sentence for each thing that is missing.
        beside: further events of every CPU, which use the clocks' rings.
        reads_memory: whether the recorder reads Python frames from memory, without eBPF.
        wakes_at_samples: whether the recorder wakes at each sample, to read these.
        copies: attributes of the events that write a clock's samples of followed processes with
            copies of stacks; samples of other processes then have none (`following`). None if the
            clock writes all samples.
        may_filter: whether programs can run at events, if there is a reason.
        of_every_process: whether these follow every process, not chosen ones.
    """

    attr: EventAttr
    periods: tuple[int, ...]
    scope: str
    clock: str
    limits: tuple[str, ...]
    beside: tuple[ChosenEvent, ...] = ()
    reads_memory: bool = False
    wakes_at_samples: bool = False
    copies: EventAttr | None = None
    may_filter: bool = False
    of_every_process: bool = False

    def clock_attr(self, clock: int, watermark_bytes: int) -> EventAttr:
        """Return one clock's attributes; only the first clock reports mappings and tasks."""
        flags = self.attr.flags if clock == 0 else self.attr.flags & ~SIDE_BAND_FLAGS
        return self.attr._replace(
            sample_period=self.periods[clock], flags=flags, wakeup=watermark_bytes
        )

    def recorded_attr(self, watermark_bytes: int) -> EventAttr:
        """Return the attributes that represent the whole bank in a perf.data file.

        Their period is that of all clocks together, so that a reader that adds up the period of
        each sample gets the CPU time once, not once for each clock.

        Source: evsel__parse_sample() in ``tools/perf/util/evsel.c``, Linux 6.18.
        """
        attr = self.clock_attr(0, watermark_bytes)
        if attr.frequency_hz:
            return attr
        return attr._replace(sample_period=round(1 / sum(1 / period for period in self.periods)))

    def recorded_copies(self, watermark_bytes: int) -> EventAttr | None:
        """Return the attributes of the events with copies in a file: those of a clock."""
        clock = self.recorded_attr(watermark_bytes)
        return self.copies and _as_clock(clock, self.copies)

    def sampling_attr(self, period: int, watermark_bytes: int) -> EventAttr:
        """Return attributes that take the same samples with a fixed period, and nothing else.

        The samples have copies if those of the plan have.
        """
        attr = self.with_callers
        extra = SIDE_BAND_FLAGS | _TASK_FLAGS | abi.FLAG_FREQ
        return attr._replace(
            sample_period=period, flags=attr.flags & ~extra, wakeup=watermark_bytes
        )

    @property
    def with_callers(self) -> EventAttr:
        """The first clock's attributes, with copies of stacks if any samples have them."""
        return self.attr if self.copies is None else _as_clock(self.attr, self.copies)

    @property
    def filters(self) -> bool:
        """Whether a program chooses samples by process."""
        return self.copies is not None or any(event.is_filtered for event in self.beside)

    @property
    def copies_of_waits(self) -> int:
        """The bytes of a stack that the program copies that writes samples of switches, or 0."""
        of_waits = (event.attr.sample_stack_user for event in self.beside if event.is_of_waits)
        return max(of_waits, default=0)

    @property
    def periods_ns(self) -> tuple[int, ...]:
        """Each clock's period in the kernel; the mean one of a counter with a rate."""
        if self.attr.frequency_hz:
            return (round(_NS_PER_S / self.attr.frequency_hz),)
        return self.periods

    @property
    def redraw_interval_ns(self) -> int:
        """The interval in which to redraw a counter's rate; 0 for timers, which keep theirs."""
        if self.clock != CLOCK_HARDWARE:
            return 0
        # A redraw discards the count towards the next sample: half a sample on average.
        return max(_REDRAW_NS, _SAMPLES_A_REDRAW * _NS_PER_S // self.periods[0])

    @property
    def has_chains(self) -> bool:
        """Whether samples in the kernel have the kernel's call chain."""
        return bool(self.attr.sample_type & abi.PERF_SAMPLE_CALLCHAIN)


def _as_clock(clock: EventAttr, copies: EventAttr) -> EventAttr:
    """Return a clock's attributes with callers as in `copies`."""
    chains = abi.FLAG_EXCLUDE_CALLCHAIN_USER | abi.FLAG_EXCLUDE_CALLCHAIN_KERNEL
    return clock._replace(
        sample_type=copies.sample_type,
        flags=clock.flags & ~chains | copies.flags & chains,
        sample_regs_user=copies.sample_regs_user,
        sample_stack_user=copies.sample_stack_user,
        sample_max_stack=copies.sample_max_stack,
    )


def with_filtered_copies(plan: EventPlan) -> EventPlan:
    """Return a plan that copies stacks of followed processes only, from one that copies all.

    Every clock then has an event of the kind BPF_OUTPUT on each CPU, by which a program writes the
    clock's samples of these processes.
    """
    attr = plan.attr
    copies = attr._replace(
        config=abi.PERF_COUNT_SW_BPF_OUTPUT, sample_period=1, flags=attr.flags & ~SIDE_BAND_FLAGS
    )
    # The clock still records mappings of data, by which perf looks up call-frame information.
    plain = with_callers(attr._replace(sample_type=SAMPLE_TYPE & attr.sample_type), KERNEL_CALLERS)
    return plan._replace(attr=plain, copies=copies)


def choose_events(  # noqa: PLR0913 - what is wanted, whose, and what was refused before
    frequency_hz: int,
    periods_ns: tuple[int, ...],
    pid: int,
    cpu: int,
    *,
    allow_hardware: bool = True,
    call_graph: CallGraph = KERNEL_CALLERS,
    attaches: bool = False,
    only_tasks: bool = False,
) -> EventPlan:
    """Return the best events that this kernel gives this user.

    Args:
        frequency_hz: the total rate of a CPU.
        periods_ns: the bank's periods if the whole system may be watched. A task has one clock,
            which stops at each switch, so that a bank would not keep its periods.
        pid: the command, followed alone if the whole system may not be watched; EVERY_TASK to
            accept only the whole system.
        cpu: an online CPU, on which events are tried.
        allow_hardware: False after a hardware counter failed on another CPU.
        call_graph: the wanted callers in addition to the kernel's.
        attaches: whether the followed processes run already: no exec starts their events.
        only_tasks: whether events of the whole system are of no use, because threads were chosen.

    Raises:
        CaptureError: no event can be opened at all, or none with these callers; says what to do.
    """
    refusal: OSError | None = None
    for scope, extra_flags, dropped_flags, limits in _wanted_scopes(
        pid, attaches=attaches, only_tasks=only_tasks
    ):
        is_system = scope == SCOPE_SYSTEM
        periods = periods_ns if is_system else clock_periods_ns(frequency_hz, 1)
        flags = _CLOCK_FLAGS | (SIDE_BAND_FLAGS & ~abi.FLAG_MMAP_DATA) | extra_flags
        target = EVERY_TASK if is_system else pid
        attr = _timer_attr(flags & ~dropped_flags, periods[0])
        try:
            wanted = with_callers(attr, KERNEL_CALLERS if call_graph.needs_hardware else call_graph)
            attr, missing = _fitted(wanted, target, cpu)
        except OSError as error:
            refusal = error
            if perf_syscalls.is_refusal(error):
                continue
            break
        known = (*limits, *missing)
        if not is_system:
            known += (_TASK_CLOCK_LIMIT,)
        if call_graph.needs_hardware:
            attr = with_callers(attr, call_graph)
        if allow_hardware or call_graph.needs_hardware:
            hardware = _hardware_attr(attr, frequency_hz, target, cpu)
            if hardware is not None:
                return EventPlan(hardware, (frequency_hz,), scope, CLOCK_HARDWARE, known)
        if call_graph.needs_hardware:
            raise CaptureError(_NO_BRANCH_STACK)
        if is_system and len(periods) == 1:
            known += (_ONE_CLOCK_LIMIT,)
        return EventPlan(attr, periods, scope, CLOCK_TIMER, known)
    raise CaptureError(_refusal_message(refusal, pid))


def _fitted(attr: EventAttr, pid: int, cpu: int) -> tuple[EventAttr, tuple[str, ...]]:
    """Return the attributes that this kernel accepts, and a sentence for each loss.

    Raises:
        OSError: it refuses the event itself.
    """
    try:
        os.close(perf_syscalls.perf_event_open(attr.pack(), pid, cpu))
    except OSError:
        from prospect.capture.events.older_kernels import fit_to_kernel  # noqa: PLC0415 - not on recent kernels

        return fit_to_kernel(attr, pid, cpu)
    return attr, ()


def _timer_attr(flags: int, period_ns: int) -> EventAttr:
    return EventAttr(
        sample_period=period_ns,
        sample_type=SAMPLE_TYPE,
        read_format=(
            abi.PERF_FORMAT_ID | abi.PERF_FORMAT_TOTAL_TIME_ENABLED | abi.PERF_FORMAT_LOST
        ),
        flags=flags,
        clockid=_CLOCK_MONOTONIC,
    )


def _wanted_scopes(pid: int, *, attaches: bool, only_tasks: bool) -> tuple[_Scope, ...]:
    """Return the scopes to try for these arguments of `choose_events`."""
    scopes = _scopes()
    if pid == EVERY_TASK:
        return scopes[:1]
    if not attaches:
        return scopes
    return tuple(
        (
            *(scope, more & ~abi.FLAG_ENABLE_ON_EXEC, less),
            limits[1:]
            if only_tasks
            else tuple(limit.replace(_OF_COMMAND, _OF_ATTACHED) for limit in limits),
        )
        for scope, more, less, limits in scopes[only_tasks:]
    )


def _scopes() -> tuple[_Scope, ...]:
    """Return (scope, added flags, dropped flags, limits), the widest scope first."""
    level = read_setting(PARANOID)
    alone = (
        f"{_OF_COMMAND} were sampled, not the system: that needs root,"
        f" CAP_PERFMON, or sysctl kernel.perf_event_paranoid=0 (it is {level})."
    )
    user_only = (
        "No kernel time was sampled: that needs root, CAP_PERFMON, or sysctl"
        f" kernel.perf_event_paranoid=1 (it is {level})."
    )
    return (
        (SCOPE_SYSTEM, 0, 0, ()),
        (SCOPE_TASK, _TASK_FLAGS, 0, (alone,)),
        (SCOPE_TASK, _TASK_FLAGS | _USER_ONLY_FLAGS, _KERNEL_TEXT_FLAGS, (alone, user_only)),
    )


def _hardware_attr(attr: EventAttr, frequency_hz: int, pid: int, cpu: int) -> EventAttr | None:
    """Return attributes of the cycle counter at the finest precision that opens, None for none."""
    for precise_ip in range(MOST_PRECISE, -1, -1):
        hardware = attr._replace(
            type=abi.PERF_TYPE_HARDWARE,
            config=abi.PERF_COUNT_HW_CPU_CYCLES,
            sample_period=frequency_hz,
            sample_type=attr.sample_type | abi.PERF_SAMPLE_PERIOD,
            flags=attr.flags | abi.FLAG_FREQ | precise_ip << PRECISE_IP_SHIFT,
        )
        try:
            os.close(perf_syscalls.perf_event_open(hardware.pack(), pid, cpu))
        except OSError as error:
            if error.errno == errno.ENOENT:
                return None
        else:
            return hardware
    return None


def _refusal_message(error: OSError | None, pid: int) -> str:
    code = error.errno if error else 0
    if perf_syscalls.is_filtered(code):
        return perf_syscalls.FILTERED
    if code == errno.ENOSYS:
        return "this kernel has no perf events: it needs CONFIG_PERF_EVENTS"
    if code in (errno.EACCES, errno.EPERM) and pid == EVERY_TASK:
        return _WHOLE_SYSTEM_ONLY
    if code in (errno.EACCES, errno.EPERM):
        level = read_setting(PARANOID)
        if level is not None and level > 2:
            return (
                f"kernel.perf_event_paranoid is {level}: no profiling without privilege; run as"
                " root, give CAP_PERFMON, or run: sysctl kernel.perf_event_paranoid=2"
            )
        return "the kernel refuses perf_event_open() to this user: run as root, or give CAP_PERFMON"
    reason = error.strerror if error else "unknown"
    return f"perf_event_open() failed: {reason}; `prospect doctor` says what works here"


def with_python_frames(plan: EventPlan) -> EventPlan:
    """Return a plan with an event for the Python frames of each sample, after all others.

    `abi.runtime_frames` describes the frames. `capture.runtimes` has the programs that write them.
    """
    clock = plan.attr
    kept = (
        abi.PERF_SAMPLE_IDENTIFIER
        | abi.PERF_SAMPLE_TID
        | abi.PERF_SAMPLE_TIME
        | abi.PERF_SAMPLE_CPU
    )
    attr = EventAttr(
        config=abi.PERF_COUNT_SW_BPF_OUTPUT,
        sample_period=1,
        sample_type=clock.sample_type & kept | abi.PERF_SAMPLE_RAW,
        read_format=clock.read_format,
        flags=clock.flags & (_CLOCK_FLAGS | _USER_ONLY_FLAGS),
        clockid=clock.clockid,
    )
    return plan._replace(beside=(*plan.beside, ChosenEvent(RUNTIME_FRAMES, attr)))
