"""Sampled time compared with the kernel's accounting: the difference, and whether it is too large.

There are three causes of differences. Sampling: at most the error of as many independent samples,
which several clocks only improve. The kernel's figures: /proc/stat is in hundredths of a second or
so, and most kernels detect user and system time at the scheduler's tick, which is sampling too; if
the sum over all kinds of time is less or more than the time that the CPUs had, the figures are
wrong by as much. And time without samples: ticks that were lost, throttled or missing, and CPUs
that were online again before they had clocks.
Source: account_process_tick() and cputime_adjust() in ``kernel/sched/cputime.c``,
get_idle_time() in ``fs/proc/stat.c`` (Linux 6.18).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from prospect.records import Record, replace

if TYPE_CHECKING:
    from prospect.estimate.accounting.sample_accounting import SampleAccounting
    from prospect.figures.report.accounting import AccountedTime
    from prospect.figures.report.report_view import EventView
    from prospect.profile.complete import CompleteProfile, ProfileByFunction

_HALF_WIDTH = 1.96  # of a 95 % interval, in standard deviations
# The slowest tick of kernels; also USER_HZ, the unit of /proc/stat.
_TICK_HZ = 100.0
_STAT = "/proc/stat"
_ACCOUNTED = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
_IDLE = "Idle"
_FAMILY = "COMMAND and descendants, together"


class Agreement(Record):
    """One kind of time, sampled and accounted.

    Attributes:
        name, source: as in `AccountedTime`.
        sampled_s: from samples; for idle time, with the ticks that an idle CPU slept through.
        accounted_s: from the kernel.
        difference_s: sampled less accounted; None if samples cannot show it.
        half_width_s: explained by sampling and the accounting, at 95 %; None if the kernel's own
            split is no measurement.
        unsampled_s: by how much more `sampled_s` may be too small, for lack of samples.
        unbooked_s: the CPUs' time less all of /proc/stat's times.
    """

    name: str
    source: str
    sampled_s: float | None
    accounted_s: float
    difference_s: float | None
    half_width_s: float | None
    unsampled_s: float
    unbooked_s: float = 0.0

    @property
    def agrees(self) -> bool | None:
        """Whether the difference is explained; None if unknown."""
        if self.difference_s is None or self.half_width_s is None:
            return None
        least = -self.half_width_s - self.unsampled_s + min(self.unbooked_s, 0.0)
        return least <= self.difference_s <= self.half_width_s + max(self.unbooked_s, 0.0)

    @property
    def is_of_accounting(self) -> bool:
        """Whether only the error of /proc/stat's sum explains the difference."""
        return bool(self.agrees) and replace(self, unbooked_s=0.0).agrees is False


def agreements(
    profile: CompleteProfile, event: EventView, accounting: SampleAccounting | None
) -> tuple[Agreement, ...]:
    """Compare an event's times with the accounting, if the recording has any.

    The split of a command's time into user and system gets no verdict: the kernel accounts all time
    of a process that lived between two ticks as user time. The sum of both is measured.
    """
    idle_s, unwatched_s, unsampled_s = 0.0, 0.0, 0.0
    if accounting and len(profile.run.events) == 1:
        idle_s, unwatched_s = float(accounting.idle_s.sum()), accounting.unwatched_s
        unsampled_s = accounting.unsampled_s + unwatched_s
    family = [row for row in event.accounted if row.source != _STAT]
    rows = [
        _machine_row(profile, event, row, (idle_s, unwatched_s, unsampled_s))
        for row in event.accounted
        if row.source == _STAT
    ]
    rows += [_without_verdict(row) for row in family]
    if len(family) > 1 and all(row.sampled_s is not None for row in family):
        sampled_s = sum(row.sampled_s or 0.0 for row in family)
        accounted_s = sum(row.accounted_s for row in family)
        half_width_s = _sampling_error_s(profile, event, sampled_s) + 1 / _TICK_HZ
        difference_s = sampled_s - accounted_s
        rows.append(
            Agreement(
                _FAMILY,
                family[0].source,
                sampled_s,
                accounted_s,
                difference_s,
                half_width_s,
                unsampled_s,
            )
        )
    return tuple(rows)


def _machine_row(
    profile: CompleteProfile,
    event: EventView,
    row: AccountedTime,
    seconds: tuple[float, float, float],
) -> Agreement:
    idle_s, unwatched_s, unsampled_s = seconds
    if row.sampled_s is None:
        return _without_verdict(row)
    is_idle = row.name.startswith(_IDLE)
    sampled_s = row.sampled_s + (idle_s if is_idle else 0.0)
    granularity_s = max(profile.run.cpus, 1) / _TICK_HZ
    errors = [_sampling_error_s(profile, event, sampled_s), granularity_s]
    if not is_idle:
        errors.append(_spread_s(profile, row.accounted_s, 1 / _TICK_HZ))
    return Agreement(
        name=row.name,
        source=row.source,
        sampled_s=sampled_s,
        accounted_s=row.accounted_s,
        difference_s=sampled_s - row.accounted_s,
        half_width_s=math.hypot(*errors),
        unsampled_s=unwatched_s if is_idle else unsampled_s,
        unbooked_s=_unbooked_s(profile, unwatched_s, granularity_s),
    )


def _unbooked_s(profile: CompleteProfile, unwatched_s: float, granularity_s: float) -> float:
    """Return by how much /proc/stat falls short of the CPUs' time; 0.0 within its granularity."""
    accounting = [profile.run.accounting.get(f"{kind}_s") for kind in _ACCOUNTED]
    if not all(isinstance(seconds, (int, float)) for seconds in accounting):
        return 0.0
    booked_s = sum(float(seconds) for seconds in accounting if seconds is not None)
    lacking_s = profile.run.wall_seconds * profile.run.cpus - unwatched_s - booked_s
    return lacking_s if math.isfinite(lacking_s) and abs(lacking_s) > 2 * granularity_s else 0.0


def _without_verdict(row: AccountedTime) -> Agreement:
    difference_s = None if row.sampled_s is None else row.sampled_s - row.accounted_s
    return Agreement(row.name, row.source, row.sampled_s, row.accounted_s, difference_s, None, 0.0)


def _sampling_error_s(profile: CompleteProfile, event: EventView, seconds: float) -> float:
    hits, all_s = int(event.hits.sum()), float(event.seconds.sum())
    return _spread_s(profile, seconds, all_s / hits) if hits else 0.0


def _spread_s(profile: ProfileByFunction, seconds: float, sample_s: float) -> float:
    """Return the error of a time from independent samples worth `sample_s` each."""
    machine_s = max(profile.run.wall_seconds * max(profile.run.cpus, 1), abs(seconds))
    if not (math.isfinite(machine_s) and machine_s > 0 and seconds > 0):
        return 0.0
    return _HALF_WIDTH * float(np.sqrt(seconds * (1 - seconds / machine_s) * sample_s))
