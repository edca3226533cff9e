"""Sampled time beside the kernel's own accounting of the same interval.

Comes in: a completed Profile whose `RunInfo.accounting` holds /proc/stat's and getrusage(2)'s
seconds, and its hits. Goes out: rows of two figures that ought to agree.

Kernels differ in what they book as interrupts. Most measure them (CONFIG_IRQ_TIME_ACCOUNTING):
their time is in /proc/stat's irq and softirq columns, and in no process's time. The others ask at
each tick what was interrupted, which is never an interrupt: irq stays 0, softirqs are in the
processes' time, and what arrives at an idle processor is in neither.
Source: proc(5) "/proc/stat", getrusage(2) RUSAGE_CHILDREN; ``kernel/sched/cputime.c``
irqtime_account_irq(), irqtime_account_process_tick(), account_process_tick() (Linux 6.18).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from prospect.figures.portions import (
    KERNEL_PORTIONS,
    PORTION_INTERRUPT,
    PORTION_KERNEL,
    PORTION_USER,
    is_ksoftirqd,
)
from prospect.figures.processes import chosen_by_detail
from prospect.figures.report.kernel import PART_PROCESS_ZERO, kernel_part
from prospect.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from prospect.figures.processes import ProcessTotals
    from prospect.profile.complete import ProfileByRoutine
    from prospect.profile.run_info import EventInfo

_STAT = "/proc/stat"
_RUSAGE = "getrusage"


class AccountedTime(Record):
    """One kind of time: what sampling says and what the kernel says.

    Attributes:
        name: what kind of time.
        sampled_s: from samples; None where samples cannot show it.
        accounted_s: from the kernel.
        source: which file or call the kernel's accounting is from.
    """

    name: str
    sampled_s: float | None
    accounted_s: float
    source: str


def accounted_times(
    profile: ProfileByRoutine, totals: ProcessTotals, event: EventInfo
) -> tuple[AccountedTime, ...]:
    """Set sampled seconds of an event beside accounted ones, as far as the recording holds any."""
    accounting = profile.run.accounting
    # The tick never finds an interrupt at work: any time of theirs was measured.
    is_apart = bool((_seconds(accounting, "irq_s") or 0) > 0) and bool(
        totals.hits[:, PORTION_INTERRUPT].any()
    )
    rows: list[AccountedTime] = []
    if profile.run.system_wide:
        rows += _machine_times(profile, totals, is_apart=is_apart)
    family = totals.seconds[chosen_by_detail(profile.processes, "3")].sum(axis=0)
    system = [PORTION_KERNEL] if is_apart else [*KERNEL_PORTIONS]
    for name, key, portions in (
        ("COMMAND and descendants, user", "command_user_s", [PORTION_USER]),
        ("COMMAND and descendants, system", "command_system_s", system),
    ):
        seconds = _seconds(accounting, key)
        if seconds is not None:
            is_seen = portions == [PORTION_USER] or not event.excludes_kernel
            sampled_s = float(family[portions].sum()) if is_seen else None
            rows.append(AccountedTime(name, sampled_s, seconds, _RUSAGE))
    return tuple(rows)


def _machine_times(
    profile: ProfileByRoutine, totals: ProcessTotals, *, is_apart: bool
) -> list[AccountedTime]:
    """Return the rows of the whole machine.

    Args:
        profile: holds the accounting.
        totals: sampled time by process.
        is_apart: whether both samples and the kernel count interrupts separately.
    """
    is_zero = kernel_part(profile.processes) == PART_PROCESS_ZERO
    user_s = float(totals.seconds[:, PORTION_USER].sum())
    idle_s = float(totals.seconds[is_zero, PORTION_KERNEL].sum())
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
    profile: ProfileByRoutine,
    seconds: NDArray[np.float64],
    is_zero: NDArray[np.bool_],
    *,
    is_apart: bool,
) -> Iterator[tuple[str, float, tuple[str, ...]]]:
    """Yield name, sampled time and accounted time of the rows that interrupts may be in."""
    kernel, interrupt = seconds[:, PORTION_KERNEL], seconds[:, PORTION_INTERRUPT]
    if is_apart:
        # What ksoftirqd does is booked as a softirq.
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
