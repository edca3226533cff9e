"""What profiling itself cost: the recorder's own time, and what sampling took from the others.

Comes in: a completed Profile. Goes out: seconds, and their shares of all CPUs' time.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from prospect.figures.portions import event_seconds
from prospect.profile.model import MODE_KERNEL
from prospect.records import Record

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from prospect.profile.complete import ProfileByRoutine


_NS = 1e-9


class Cost(Record):
    """Something that cost time: seconds, and the share of all CPUs' time, None where unknown."""

    seconds: float
    share: float | None


class OwnCost(Record):
    """What the recorder cost; None where the recording does not say.

    Attributes:
        recorder_hits: samples that hit the recorder.
        recorder: the time that they stand for.
        recorder_accounted_s: its processor time by getrusage(2), start and end included.
        sampling: the time that taking all samples took: no more than all CPUs had.
        sampling_spread_s: half the width of its 95 % interval, which lies within the CPUs' time.
        sample_cost_ns: of one sample as measured, the mean of those taken.
        counted_calls: the time that counting system calls took.
    """

    recorder_hits: int | None
    recorder: Cost | None
    recorder_accounted_s: float | None
    sampling: Cost | None
    sampling_spread_s: float
    sample_cost_ns: float
    counted_calls: Cost | None


def own_cost(profile: ProfileByRoutine) -> OwnCost:
    """Add up what a completed profile knows of its own cost."""
    is_recorder = profile.processes.is_recorder
    by_recorder = is_recorder.take(profile.hits.process_index)
    hits = int(profile.hits.count[by_recorder].sum()) if is_recorder.any() else None
    user_ns = _known(profile, "sample_cost_ns")
    kernel_ns = _known(profile, "kernel_sample_cost_ns") or user_ns
    spread_ns = _known(profile, "sample_cost_spread_ns")
    count = profile.hits.count
    in_kernel = int(count[profile.hits.mode == MODE_KERNEL].sum())
    elsewhere = int(count.sum()) - in_kernel
    measured_s = (elsewhere * user_ns + in_kernel * kernel_ns) * _NS
    cpu_s = _cpu_s(profile)
    # A sample at high rates finds warm caches, and costs less than one that was measured alone.
    sampling_s = measured_s if cpu_s is None else min(measured_s, cpu_s)
    calls = profile.syscalls
    accounted = [_known(profile, f"recorder_{part}_s") for part in ("user", "system")]
    return OwnCost(
        recorder_hits=hits,
        recorder=None if hits is None else _cost(profile, _seconds(profile, by_recorder)),
        recorder_accounted_s=sum(accounted) if any(accounted) else None,
        sampling=_cost(profile, sampling_s) if user_ns else None,
        sampling_spread_s=_spread_s(profile, sampling_s, spread_ns / user_ns) if user_ns else 0.0,
        sample_cost_ns=measured_s / _NS / max(int(count.sum()), 1),
        counted_calls=(
            _cost(profile, float(calls.calls.sum()) * calls.cost_ns * _NS) if calls else None
        ),
    )


def _spread_s(profile: ProfileByRoutine, sampling_s: float, relative: float) -> float:
    """Return how far the cost of sampling may be off: it is neither below 0 nor above all time.

    Args:
        profile: of which all CPUs' time is known or not.
        sampling_s: the cost.
        relative: how far a sample in user space may be off, taken to be the same in the kernel.
    """
    spread_s = sampling_s * relative
    most_s = profile.run.wall_seconds * profile.run.cpus
    if not (math.isfinite(most_s) and most_s > 0):
        return spread_s
    return min(spread_s, max(sampling_s, most_s - sampling_s))


def _known(profile: ProfileByRoutine, key: str) -> float:
    value = profile.run.accounting.get(key)
    if isinstance(value, (int, float)) and math.isfinite(value) and value > 0:
        return float(value)
    return 0.0


def _seconds(profile: ProfileByRoutine, chosen: NDArray[np.bool_]) -> float:
    hits = profile.hits
    total = 0.0
    for index, event in enumerate(profile.run.events):
        rows = chosen & (hits.event == index)
        total += float(event_seconds(event, hits.count[rows], hits.period[rows]).sum())
    return total


def _cpu_s(profile: ProfileByRoutine) -> float | None:
    """Return the time of all CPUs, None where not all of it was sampled."""
    cpu_s = profile.run.wall_seconds * profile.run.cpus
    has_time = math.isfinite(cpu_s) and cpu_s > 0 and profile.run.system_wide
    return cpu_s if has_time else None


def _cost(profile: ProfileByRoutine, seconds: float) -> Cost:
    cpu_s = _cpu_s(profile)
    return Cost(seconds, None if cpu_s is None else seconds / cpu_s)
