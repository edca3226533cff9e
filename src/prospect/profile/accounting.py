"""Sampled time beside the kernel's own accounting of the same interval.

Comes in: a completed Profile whose `RunInfo.accounting` holds /proc/stat's and getrusage(2)'s
seconds, and its hits. Goes out: rows of two figures that ought to agree.
Source: proc(5) "/proc/stat", getrusage(2) RUSAGE_CHILDREN.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.profile.kernel import PART_PROCESS_ZERO, kernel_part
from prospect.profile.portions import PORTION_KERNEL, PORTION_USER
from prospect.profile.processes import chosen_by_detail

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prospect.profile.model import EventInfo, Profile
    from prospect.profile.processes import ProcessTotals

_STAT = "/proc/stat"
_RUSAGE = "getrusage"


@dataclass(frozen=True)
class AccountedTime:
    """One kind of time: what sampling says and what the kernel says.

    Attributes:
        name: what kind of time.
        sampled_s: from samples; None where samples cannot tell.
        accounted_s: from the kernel.
        source: which of the kernel's books.
    """

    name: str
    sampled_s: float | None
    accounted_s: float
    source: str


def accounted_times(
    profile: Profile, totals: ProcessTotals, event: EventInfo
) -> tuple[AccountedTime, ...]:
    """Set sampled seconds of an event beside accounted ones, as far as the recording holds any."""
    accounting = profile.run.accounting
    rows: list[AccountedTime] = []
    if profile.run.system_wide:
        rows += _machine_times(profile, totals)
    family = totals.seconds[chosen_by_detail(profile.processes, "3")].sum(axis=0)
    for name, key, portion in (
        ("COMMAND and descendants, user", "command_user_s", PORTION_USER),
        ("COMMAND and descendants, system", "command_system_s", PORTION_KERNEL),
    ):
        seconds = _seconds(accounting, key)
        if seconds is not None:
            is_seen = portion == PORTION_USER or not event.excludes_kernel
            sampled_s = float(family[portion]) if is_seen else None
            rows.append(AccountedTime(name, sampled_s, seconds, _RUSAGE))
    return tuple(rows)


def _machine_times(profile: Profile, totals: ProcessTotals) -> list[AccountedTime]:
    is_zero = kernel_part(profile.processes) == PART_PROCESS_ZERO
    kernel = totals.seconds[:, PORTION_KERNEL]
    sampled = {
        "user": float(totals.seconds[:, PORTION_USER].sum()),
        "system": float(np.sum(kernel[~is_zero])),
        "process zero": float(np.sum(kernel[is_zero])),
    }
    rows = []
    for name, sampled_name, keys in (
        ("User (with nice)", "user", ("user_s", "nice_s")),
        ("System (with interrupts)", "system", ("system_s", "irq_s", "softirq_s")),
        ("Idle (process zero)", "process zero", ("idle_s", "iowait_s")),
        ("Stolen by the host", "", ("steal_s",)),
    ):
        found = [_seconds(profile.run.accounting, key) for key in keys]
        known = [seconds for seconds in found if seconds is not None]
        if known:
            rows.append(AccountedTime(name, sampled.get(sampled_name), sum(known), _STAT))
    return rows


def _seconds(accounting: Mapping[str, Any], key: str) -> float | None:
    value = accounting.get(key)
    if isinstance(value, (int, float)) and math.isfinite(value):
        return float(value)
    return None
