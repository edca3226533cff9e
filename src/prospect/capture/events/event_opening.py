"""Opens a `ChosenEvent`, and explains refusals of the kernel.

Events of ``--event`` replace the clocks in a plan whose scope and attributes this kernel accepts.
Before them comes an event that never samples and carries the records of mappings and tasks, as in
`perf record`.

Defined by: perf_event_open(2); PERF_COUNT_SW_DUMMY in ``include/uapi/linux/perf_event.h``.
"""

from __future__ import annotations

import ctypes
import errno
import os

from prospect.abi import constants as abi
from prospect.capture.events.event_choice import (
    CLOCK_LIMITS,
    EVERY_TASK,
    PARANOID,
    PRECISE_IP,
    SCOPE_SYSTEM,
    SIDE_BAND_FLAGS,
)
from prospect.capture.events.recorded_callers import sample_bytes
from prospect.capture.kernel import perf_syscalls
from prospect.capture.kernel.procfs import read_setting
from prospect.errors import CaptureError
from prospect.light import Descriptor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from prospect.capture.events.event_choice import ChosenEvent, EventPlan

# Errors of the kernel for an event that this machine, or this kind of target, does not have.
_NOT_HERE = (errno.ENOENT, errno.EOPNOTSUPP, errno.ENODEV, errno.EINVAL, errno.ENXIO)
NO_CORE_COUNTERS = "the kernel has no hardware counters here, as in most virtual machines"
_OF_CORES = (abi.PERF_TYPE_HARDWARE, abi.PERF_TYPE_HW_CACHE, abi.PERF_TYPE_RAW)
LEADER = "dummy"
# Events rare enough to be recorded each time, unless the user gives a period or a rate.
_OCCASIONAL = (abi.PERF_TYPE_SOFTWARE, abi.PERF_TYPE_TRACEPOINT)
_CLOCKS = (abi.PERF_COUNT_SW_CPU_CLOCK, abi.PERF_COUNT_SW_TASK_CLOCK)
# A program that touches new memory has page faults at this rate; system calls may be as frequent.
_MOST_SAMPLES_HZ = 100_000
# Nanoseconds of a clock, cycles of a CPU: the fastest counters.
_MOST_COUNTS_HZ = 4_000_000_000


def open_chosen(event: ChosenEvent, pid: int, cpu: int, group_fd: int = -1) -> int:
    """Open an event, with its file and its filter.

    Raises:
        OSError: the kernel refuses it.
        CaptureError: the kernel refuses its filter.
        UsageError: the file of a probe is gone.
    """
    if not event.path:
        fd = perf_syscalls.perf_event_open(event.attr.pack(), pid, cpu, group_fd)
    else:
        from prospect.capture.events.probe_places import open_program  # noqa: PLC0415 - probes only

        with Descriptor(open_program(os.fsdecode(event.path))) as program:
            # By its descriptor: replacing the file now does not move the probe.
            path = ctypes.create_string_buffer(b"/proc/self/fd/%d" % program)
            attr = event.attr._replace(config1=ctypes.addressof(path))
            fd = perf_syscalls.perf_event_open(attr.pack(), pid, cpu, group_fd)
    if event.filter:
        try:
            perf_syscalls.set_filter(fd, event.filter)
        except OSError as error:
            os.close(fd)
            raise CaptureError(
                f"{event.name}: the kernel does not understand the filter '{event.filter}';"
                f" prospect list --fields {event.name} shows its fields"
            ) from error
    return fd


def refusal_message(event: ChosenEvent, error: OSError, *, follows_tasks: bool) -> str:
    """Return why an event cannot be opened, and what to do."""
    name = event.name
    if perf_syscalls.is_filtered(error.errno):
        return f"{name}: {perf_syscalls.FILTERED}"
    if perf_syscalls.is_refusal(error):
        if event.path or event.attr.type == abi.PERF_TYPE_TRACEPOINT:
            return f"{name}: not allowed to this user: run as root, or give CAP_PERFMON"
        level = read_setting(PARANOID)
        who, wanted = ("as root or its owner", 1) if follows_tasks else ("as root", 0)
        return (
            f"{name}: not allowed to this user: run {who}, give CAP_PERFMON, or run: sysctl"
            f" kernel.perf_event_paranoid={wanted} (it is {level})"
        )
    if event.cpus and follows_tasks:
        return f"{name} counts for whole CPUs, not for a process: use prospect stat -V4 or --cpu"
    if error.errno in _NOT_HERE and event.attr.type in _OF_CORES and not _has_core_counters():
        return f"{name}: this machine does not have it: {NO_CORE_COUNTERS}"
    reasons = {
        errno.EMFILE: "too many open files: raise the limit with `ulimit -n`",
        errno.ESRCH: "the process has ended",
        **dict.fromkeys(
            _NOT_HERE, "this machine does not have it; prospect list --check shows what it has"
        ),
    }
    unknown = f"perf_event_open() failed: {error.strerror}"
    return f"{name}: {reasons.get(error.errno or 0, unknown)}"


def _has_core_counters() -> bool:
    from prospect.capture.events.pmus import has_core_counters  # noqa: PLC0415 - only on the way to an error

    return has_core_counters()


def with_sampled_events(
    plan: EventPlan, chosen: tuple[ChosenEvent, ...], frequency_hz: int, pid: int, cpu: int
) -> EventPlan:
    """Return a plan that samples `chosen` instead of the clocks.

    Args:
        plan: the clocks.
        chosen: in the order of the report. Those without a period or rate are sampled at the
            common rate, or each time if they are neither clocks nor counters.
        frequency_hz: the common rate.
        pid: the command.
        cpu: an online CPU, on which they are tried.

    Raises:
        CaptureError: one of them cannot be sampled; says why.
    """
    leader = plan.attr._replace(
        type=abi.PERF_TYPE_SOFTWARE,
        config=abi.PERF_COUNT_SW_DUMMY,
        sample_type=plan.attr.sample_type & ~abi.PERF_SAMPLE_BRANCH_STACK | abi.PERF_SAMPLE_PERIOD,
        flags=plan.attr.flags & ~(abi.FLAG_FREQ | PRECISE_IP),
        branch_sample_type=0,
    )
    events = tuple(_sampled(plan, event, frequency_hz) for event in chosen)
    target = EVERY_TASK if plan.scope == SCOPE_SYSTEM else pid
    for event in events:
        _try(event, target, cpu)
    return plan._replace(
        attr=leader,
        periods=(1,),
        clock=LEADER,
        limits=tuple(limit for limit in plan.limits if limit not in CLOCK_LIMITS),
        beside=events,
    )


def sampled_bytes_a_second(events: tuple[ChosenEvent, ...]) -> int:
    """Return the most bytes a second that the samples of these events may take on one CPU.

    Events with a frequency have a known rate. Others come as often as programs cause them, once in
    each `sample_period`.
    """
    total_bytes = 0
    for event in events:
        attr = event.attr
        counts_hz = _MOST_SAMPLES_HZ if _is_occasional(event) else _MOST_COUNTS_HZ
        highest_hz = attr.frequency_hz or counts_hz // attr.sample_period
        total_bytes += min(highest_hz, _MOST_SAMPLES_HZ) * sample_bytes(attr)
    return total_bytes


def _is_occasional(event: ChosenEvent) -> bool:
    """Return whether each occurrence is recorded unless the user gives a period or a rate."""
    own = event.attr
    is_clock = own.type == abi.PERF_TYPE_SOFTWARE and own.config in _CLOCKS
    return bool(event.path) or (own.type in _OCCASIONAL and not is_clock)


def _sampled(plan: EventPlan, event: ChosenEvent, frequency_hz: int) -> ChosenEvent:
    """Return an event whose samples have the same fields as the plan's."""
    own, clock = event.attr, plan.attr
    period, flags = own.sample_period, own.flags
    if not period:
        each_time = _is_occasional(event)
        period = 1 if each_time else frequency_hz
        flags |= 0 if each_time else abi.FLAG_FREQ
    # A probe cannot be inherited, see `event_counters`.
    dropped = SIDE_BAND_FLAGS | abi.FLAG_FREQ | PRECISE_IP
    dropped |= abi.FLAG_INHERIT if event.path else 0
    # PMUs have raw data, which event sources decode (docs/plugins.md).
    has_data = own.type > abi.PERF_TYPE_BREAKPOINT and not event.path
    is_raw = has_data or own.type == abi.PERF_TYPE_TRACEPOINT
    raw = abi.PERF_SAMPLE_RAW if is_raw else 0
    attr = clock._replace(
        type=own.type,
        config=own.config,
        config1=own.config1,
        config2=own.config2,
        config3=own.config3,
        sample_period=period,
        sample_type=clock.sample_type | abi.PERF_SAMPLE_PERIOD | raw,
        flags=clock.flags & ~dropped | flags,
    )
    return event._replace(attr=attr)


def _try(event: ChosenEvent, pid: int, cpu: int) -> None:
    """Open an event, and close it.

    Raises:
        CaptureError: the kernel refuses it; says why.
    """
    try:
        os.close(open_chosen(event, pid, cpu))
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.EOPNOTSUPP) and _counts(event, pid, cpu):
            raise CaptureError(
                f"{event.name} can be counted, but not sampled: use prospect stat"
            ) from error
        raise CaptureError(refusal_message(event, error, follows_tasks=pid >= 0)) from error


def _counts(event: ChosenEvent, pid: int, cpu: int) -> bool:
    """Return whether an event that cannot be sampled can be counted."""
    attr = event.attr._replace(
        sample_period=0, sample_type=0, flags=event.attr.flags & ~abi.FLAG_FREQ
    )
    try:
        os.close(open_chosen(event._replace(attr=attr), pid, cpu))
    except OSError:
        return False
    return True
