"""Which event samples here: hardware or timer, system-wide or not, with what kernel offers.

Comes in: the clocks asked for, and what perf_event_open() says to each try. Goes out: an
`EventPlan`, with a sentence for everything that this kernel or this user cannot have.

Defined by: perf_event_open(2); ``kernel/events/core.c`` (Linux 6.18), perf_copy_attr() and
perf_event_open() for what is refused with which errno.
"""

from __future__ import annotations

import errno
import os
from typing import NamedTuple

from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr
from prospect.capture import syscalls
from prospect.capture.procfs import read_setting
from prospect.errors import CaptureError, UsageError

SCOPE_SYSTEM = "system"
SCOPE_TASK = "task"
CLOCK_TIMER = "cpu-clock"
CLOCK_HARDWARE = "cycles"

_CLOCK_MONOTONIC = 1
_EVERY_TASK = -1
_PARANOID = "/proc/sys/kernel/perf_event_paranoid"
_MAX_SAMPLE_RATE = "/proc/sys/kernel/perf_event_max_sample_rate"
# perf_swevent_start_hrtimer() stretches shorter periods to this, silently.
_SHORTEST_PERIOD_NS = 10_000
_PRECISE_IP_SHIFT = 15
_MOST_PRECISE = 3

# Relative rates of a bank: primes, so that the periods have no common measure.
_BANK_WEIGHTS = (241, 251, 257, 263)

SAMPLE_TYPE = (
    abi.PERF_SAMPLE_IDENTIFIER
    | abi.PERF_SAMPLE_IP
    | abi.PERF_SAMPLE_TID
    | abi.PERF_SAMPLE_TIME
    | abi.PERF_SAMPLE_CPU
    | abi.PERF_SAMPLE_PERIOD
)
_KERNEL_TEXT_FLAGS = abi.FLAG_KSYMBOL | abi.FLAG_BPF_EVENT | abi.FLAG_TEXT_POKE
_SIDE_BAND_FLAGS = (
    abi.FLAG_MMAP
    | abi.FLAG_MMAP2
    | abi.FLAG_BUILD_ID
    | abi.FLAG_COMM
    | abi.FLAG_COMM_EXEC
    | abi.FLAG_TASK
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


class _Step(NamedTuple):
    """Something that an older kernel lacks: what to leave out, and what that costs."""

    flags: int
    read_format: int
    limit: str


# Newest first: the version is the first that accepts it.
_STEPS = (
    _Step(
        0,
        abi.PERF_FORMAT_LOST,
        "This kernel does not count lost samples per event (Linux 6.0 does): losses at the very"
        " end of the run may be missing from the books.",
    ),
    _Step(
        abi.FLAG_BUILD_ID,
        0,
        "This kernel does not record build ids (Linux 5.12 does): a program that is replaced"
        " before the report is made may get wrong names.",
    ),
    _Step(abi.FLAG_TEXT_POKE, 0, ""),
    _Step(
        abi.FLAG_KSYMBOL | abi.FLAG_BPF_EVENT,
        0,
        "This kernel does not announce BPF programs (Linux 5.1 does): samples in those that came"
        " or went during the run may have no name.",
    ),
)


class EventPlan(NamedTuple):
    """The events of every CPU.

    Attributes:
        attr: the first clock's attributes; those of the others differ by `clock_attr`.
        periods: each clock's `sample_period`: ns, or Hz where `attr.flags` has FLAG_FREQ.
        limits: a sentence for each thing that is missing.
    """

    attr: EventAttr
    periods: tuple[int, ...]
    scope: str
    clock: str
    limits: tuple[str, ...]

    def clock_attr(self, clock: int, watermark_bytes: int) -> EventAttr:
        """Return one clock's attributes; only the first clock reports mappings and tasks."""
        flags = self.attr.flags if clock == 0 else self.attr.flags & ~_SIDE_BAND_FLAGS
        return self.attr._replace(
            sample_period=self.periods[clock], flags=flags, wakeup=watermark_bytes
        )


def clock_periods_ns(frequency_hz: int, clocks: int) -> tuple[int, ...]:
    """Split a total rate over a bank of clocks whose periods have no common measure."""
    if clocks == 1:
        return (round(1e9 / frequency_hz),)
    weights = _BANK_WEIGHTS[:clocks]
    return tuple(round(1e9 * sum(weights) / (weight * frequency_hz)) for weight in weights)


def check_rate(frequency_hz: int, clocks: int) -> None:
    """Refuse a rate that this kernel would refuse or quietly lower.

    Raises:
        UsageError: with the rate that would work, or the setting to change.
    """
    if frequency_hz < 1:
        raise UsageError(f"the sampling rate must be at least 1 Hz, not {frequency_hz} (-H)")
    if not 1 <= clocks <= len(_BANK_WEIGHTS):
        raise UsageError(f"a bank has 1 to {len(_BANK_WEIGHTS)} clocks, not {clocks}")
    limit_hz = read_setting(_MAX_SAMPLE_RATE)
    if limit_hz is not None and frequency_hz > limit_hz:
        raise UsageError(
            f"{frequency_hz} Hz is above this kernel's limit of {limit_hz} samples a second:"
            f" lower -H, or run: sysctl kernel.perf_event_max_sample_rate={frequency_hz}"
        )
    if min(clock_periods_ns(frequency_hz, clocks)) < _SHORTEST_PERIOD_NS:
        fastest_hz = 10**9 // _SHORTEST_PERIOD_NS
        raise UsageError(
            f"{frequency_hz} Hz is above what the kernel's timer can do: lower -H to {fastest_hz}"
        )


def choose_events(
    frequency_hz: int,
    periods_ns: tuple[int, ...],
    pid: int,
    cpu: int,
    *,
    allow_hardware: bool = True,
) -> EventPlan:
    """Find the best events that this kernel gives this user.

    Args:
        frequency_hz: the total rate of a CPU.
        periods_ns: the bank's periods.
        pid: the command, followed alone where the whole system may not be watched.
        cpu: an on-line CPU for the tries.
        allow_hardware: False after a hardware counter failed on another CPU.

    Raises:
        CaptureError: no event can be opened at all; says what to do.
    """
    refusal: OSError | None = None
    for scope, extra_flags, dropped_flags, limits in _scopes():
        flags = (_CLOCK_FLAGS | _SIDE_BAND_FLAGS | extra_flags) & ~dropped_flags
        attr = EventAttr(
            sample_period=periods_ns[0],
            sample_type=SAMPLE_TYPE,
            read_format=abi.PERF_FORMAT_ID | abi.PERF_FORMAT_LOST,
            flags=flags,
            clockid=_CLOCK_MONOTONIC,
        )
        target = _EVERY_TASK if scope == SCOPE_SYSTEM else pid
        try:
            attr, missing = _fit_to_kernel(attr, target, cpu)
        except OSError as error:
            refusal = error
            if syscalls.is_refusal(error):
                continue
            break
        known = (*limits, *missing)
        if allow_hardware:
            hardware = _hardware_attr(attr, frequency_hz, target, cpu)
            if hardware is not None:
                return EventPlan(hardware, (frequency_hz,), scope, CLOCK_HARDWARE, known)
        return EventPlan(attr, periods_ns, scope, CLOCK_TIMER, known)
    raise CaptureError(_refusal_message(refusal))


def _scopes() -> tuple[tuple[str, int, int, tuple[str, ...]], ...]:
    """Return scope, flags more, flags less and limits, from the widest view to the narrowest."""
    level = read_setting(_PARANOID)
    alone = (
        "Only COMMAND and what it started were sampled, not the system: that needs root,"
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


def _fit_to_kernel(attr: EventAttr, pid: int, cpu: int) -> tuple[EventAttr, tuple[str, ...]]:
    """Drop what an older kernel refuses until it opens; return the attributes and what was lost."""
    limits: list[str] = []
    for step in _STEPS:
        try:
            os.close(syscalls.perf_event_open(attr.pack(), pid, cpu))
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
        else:
            return attr, tuple(limits)
        if not (attr.flags & step.flags or attr.read_format & step.read_format):
            continue
        attr = attr._replace(
            flags=attr.flags & ~step.flags, read_format=attr.read_format & ~step.read_format
        )
        if step.limit:
            limits.append(step.limit)
    os.close(syscalls.perf_event_open(attr.pack(), pid, cpu))
    return attr, tuple(limits)


def _hardware_attr(attr: EventAttr, frequency_hz: int, pid: int, cpu: int) -> EventAttr | None:
    """Return attributes of the cycle counter at the finest precision that opens, None without."""
    for precise_ip in range(_MOST_PRECISE, -1, -1):
        hardware = attr._replace(
            type=abi.PERF_TYPE_HARDWARE,
            config=abi.PERF_COUNT_HW_CPU_CYCLES,
            sample_period=frequency_hz,
            flags=attr.flags | abi.FLAG_FREQ | precise_ip << _PRECISE_IP_SHIFT,
        )
        try:
            os.close(syscalls.perf_event_open(hardware.pack(), pid, cpu))
        except OSError as error:
            if error.errno == errno.ENOENT:
                return None
        else:
            return hardware
    return None


def _refusal_message(error: OSError | None) -> str:
    code = error.errno if error else 0
    if code == errno.ENOSYS:
        return "this kernel has no perf events: it needs CONFIG_PERF_EVENTS"
    if code in (errno.EACCES, errno.EPERM):
        level = read_setting(_PARANOID)
        if level is not None and level > 2:
            return (
                f"kernel.perf_event_paranoid is {level}: no profiling without privilege; run as"
                " root, give CAP_PERFMON, or run: sysctl kernel.perf_event_paranoid=2"
            )
        return (
            "the kernel refuses perf_event_open() to this user: in a container allow it in the"
            " seccomp profile (--cap-add PERFMON with a profile that permits it); else run as root"
        )
    reason = error.strerror if error else "unknown"
    return f"perf_event_open() failed: {reason}; `prospect doctor` says what works here"
