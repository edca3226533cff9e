"""Sampled time compared with the kernel's own accounting of the same interval; cost of profiling.

`RunInfo.accounting` holds /proc/stat's and getrusage(2)'s seconds; the two times of a row ought to
agree. Kernels account interrupts differently. Most measure them (CONFIG_IRQ_TIME_ACCOUNTING): their
time is in /proc/stat's irq and softirq columns, and in no process's time. The others look at each
tick at the interrupted context, which is never an interrupt: irq stays 0, softirqs are in the
processes' time, and interrupts of an idle CPU are in neither.
Source: proc(5) "/proc/stat", getrusage(2) RUSAGE_CHILDREN; ``kernel/sched/cputime.c``
irqtime_account_irq(), irqtime_account_process_tick(), account_process_tick() (Linux 6.18).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from prospect.figures.modes import (
    KERNEL_MODES,
    MODE_INTERRUPT,
    MODE_KERNEL,
    MODE_USER,
    event_seconds,
    is_ksoftirqd,
)
from prospect.figures.processes import chosen_by_detail
from prospect.figures.report.function_profiles import PART_PROCESS_ZERO, kernel_part
from prospect.profile.model import CPUMODE_KERNEL
from prospect.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prospect.columns.array_types import F64, Bools
    from prospect.figures.processes import ProcessTotals
    from prospect.profile.complete import ProfileByFunction
    from prospect.profile.run_info import EventInfo

_STAT = "/proc/stat"
_RUSAGE = "getrusage"


class AccountedTime(Record):
    """One kind of time, from samples and from the kernel.

    Attributes:
        sampled_s: None if samples cannot show it.
        accounted_s: from the kernel.
        source: the file or system call of the kernel's accounting.
    """

    name: str
    sampled_s: float | None
    accounted_s: float
    source: str


def accounted_times(
    profile: ProfileByFunction, totals: ProcessTotals, event: EventInfo
) -> tuple[AccountedTime, ...]:
    """Pair sampled seconds of an event with accounted ones, if the recording has any."""
    accounting = profile.run.accounting
    # The tick never runs within an interrupt, so any time of interrupts was measured.
    is_apart = bool((_seconds(accounting, "irq_s") or 0) > 0) and bool(
        totals.hits[:, MODE_INTERRUPT].any()
    )
    rows: list[AccountedTime] = []
    if profile.run.system_wide:
        rows += _machine_times(profile, totals, is_apart=is_apart)
    family = totals.seconds[chosen_by_detail(profile.processes, "3")].sum(axis=0)
    system = [MODE_KERNEL] if is_apart else [*KERNEL_MODES]
    for name, key, modes in (
        ("COMMAND and descendants, user", "command_user_s", [MODE_USER]),
        ("COMMAND and descendants, system", "command_system_s", system),
    ):
        seconds = _seconds(accounting, key)
        if seconds is not None:
            is_seen = modes == [MODE_USER] or not event.excludes_kernel
            sampled_s = float(family[modes].sum()) if is_seen else None
            rows.append(AccountedTime(name, sampled_s, seconds, _RUSAGE))
    return tuple(rows)


def _machine_times(
    profile: ProfileByFunction, totals: ProcessTotals, *, is_apart: bool
) -> list[AccountedTime]:
    """Return the rows of the whole machine.

    If `is_apart`, both samples and the kernel count interrupts separately.
    """
    is_zero = kernel_part(profile.processes) == PART_PROCESS_ZERO
    user_s = float(totals.seconds[:, MODE_USER].sum())
    idle_s = float(totals.seconds[is_zero, MODE_KERNEL].sum())
    rows = []
    for name, sampled_s, keys in (
        ("User (with nice)", user_s, ("user_s", "nice_s")),
        *_system_times(profile, totals.seconds, is_zero, is_apart=is_apart),
        ("Idle (process zero)", idle_s, ("idle_s", "iowait_s")),
        ("Stolen by the host", None, ("steal_s",)),
    ):
        found = [_seconds(profile.run.accounting, key) for key in keys]
        known = [seconds for seconds in found if seconds is not None]
        if known:
            rows.append(AccountedTime(name, sampled_s, sum(known), _STAT))
    return rows


def _system_times(
    profile: ProfileByFunction, seconds: F64, is_zero: Bools, *, is_apart: bool
) -> Iterator[tuple[str, float, tuple[str, ...]]]:
    """Yield name, sampled time and accounted time of the rows that interrupts may be in."""
    kernel, interrupt = seconds[:, MODE_KERNEL], seconds[:, MODE_INTERRUPT]
    if is_apart:
        # The kernel accounts ksoftirqd's work as softirqs.
        is_softirq = is_ksoftirqd(profile.processes)
        system_s = float(kernel[~is_zero & ~is_softirq].sum())
        yield "System", system_s, ("system_s",)
        interrupt_s = float(interrupt.sum() + kernel[is_softirq].sum())
        yield "Interrupts", interrupt_s, ("irq_s", "softirq_s")
    else:
        system_s = float((kernel + interrupt)[~is_zero].sum())
        yield "System (with interrupts)", system_s, ("system_s", "irq_s", "softirq_s")


def _seconds(accounting: Mapping[str, Any], key: str) -> float | None:
    value = accounting.get(key)
    if isinstance(value, (int, float)) and math.isfinite(value):
        return float(value)
    return None


_NS = 1e-9


class Cost(Record):
    """A cost in seconds, and as a share of all CPUs' time, None if unknown."""

    seconds: float
    share: float | None


class OwnCost(Record):
    """The cost of the recorder; None if unknown.

    Attributes:
        recorder: the time of its hits.
        recorder_accounted_s: its CPU time by getrusage(2), start and end included.
        sampling: the time of taking all samples, at most that of all CPUs.
        sampling_spread_s: half the width of its 95 % interval, which is within the CPUs' time.
        sample_cost_ns: of one sample as measured, the mean of those taken.
        counted_calls: the time of counting system calls.
    """

    recorder_hits: int | None
    recorder: Cost | None
    recorder_accounted_s: float | None
    sampling: Cost | None
    sampling_spread_s: float
    sample_cost_ns: float
    counted_calls: Cost | None


def own_cost(profile: ProfileByFunction) -> OwnCost:
    """Add up the known costs of a completed profile."""
    is_recorder = profile.processes.is_recorder
    by_recorder = is_recorder.take(profile.hits.process_index)
    hits = int(profile.hits.count[by_recorder].sum()) if is_recorder.any() else None
    user_ns = _known(profile, "sample_cost_ns")
    kernel_ns = _known(profile, "kernel_sample_cost_ns") or user_ns
    spread_ns = _known(profile, "sample_cost_spread_ns")
    count = profile.hits.count
    in_kernel = int(count[profile.hits.mode == CPUMODE_KERNEL].sum())
    elsewhere = int(count.sum()) - in_kernel
    measured_s = (elsewhere * user_ns + in_kernel * kernel_ns) * _NS
    cpu_s = _cpu_s(profile)
    # At high rates caches are warm, and a sample costs less than one that was measured alone.
    sampling_s = measured_s if cpu_s is None else min(measured_s, cpu_s)
    calls = profile.syscalls
    accounted = [_known(profile, f"recorder_{part}_s") for part in ("user", "system")]
    return OwnCost(
        recorder_hits=hits,
        recorder=None if hits is None else _cost(profile, _hits_s(profile, by_recorder)),
        recorder_accounted_s=sum(accounted) if any(accounted) else None,
        sampling=_cost(profile, sampling_s) if user_ns else None,
        sampling_spread_s=_spread_s(profile, sampling_s, spread_ns / user_ns) if user_ns else 0.0,
        sample_cost_ns=measured_s / _NS / max(int(count.sum()), 1),
        counted_calls=(
            _cost(profile, float(calls.calls.sum()) * calls.cost_ns * _NS) if calls else None
        ),
    )


def _spread_s(profile: ProfileByFunction, sampling_s: float, relative: float) -> float:
    """Return the error of the cost of sampling; cost ± error is within 0 and all CPUs' time.

    `relative` is the relative error of a sample in user space; the kernel's is assumed to be equal.
    """
    spread_s = sampling_s * relative
    most_s = profile.run.wall_seconds * profile.run.cpus
    if not (math.isfinite(most_s) and most_s > 0):
        return spread_s
    return min(spread_s, max(sampling_s, most_s - sampling_s))


def _known(profile: ProfileByFunction, key: str) -> float:
    return max(_seconds(profile.run.accounting, key) or 0.0, 0.0)


def _hits_s(profile: ProfileByFunction, chosen: Bools) -> float:
    hits = profile.hits
    total = 0.0
    for index, event in enumerate(profile.run.events):
        rows = chosen & (hits.event == index)
        total += float(event_seconds(event, hits.count[rows], hits.period[rows]).sum())
    return total


def _cpu_s(profile: ProfileByFunction) -> float | None:
    """Return the time of all CPUs, None if not all of it was sampled."""
    cpu_s = profile.run.wall_seconds * profile.run.cpus
    has_time = math.isfinite(cpu_s) and cpu_s > 0 and profile.run.system_wide
    return cpu_s if has_time else None


def _cost(profile: ProfileByFunction, seconds: float) -> Cost:
    cpu_s = _cpu_s(profile)
    return Cost(seconds, None if cpu_s is None else seconds / cpu_s)
