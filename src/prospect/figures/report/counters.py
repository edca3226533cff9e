"""The counters of "Statistics of Run": the recorder's counters, and those of the profile.

docs/schema.md lists them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.columns.grouping import group_sums
from prospect.figures.modes import MODE_INTERRUPT, MODE_OTHER, MODE_USER, hit_modes, is_kernel_mode
from prospect.figures.report.function_profiles import (
    PART_KERNEL_THREADS,
    PART_PROCESS_ZERO,
    PART_USER_PROCESSES,
    kernel_part,
)
from prospect.profile.model import KIND_MODULE, sampled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.profile.complete import CompleteProfile
    from prospect.profile.model import Profile


def run_counters(profile: CompleteProfile) -> dict[str, float]:
    """Return the counters of Statistics of Run, over all events.

    Counters of the profile itself replace those of the recorder, so that `user_hits` +
    `system_hits` + `unknown_hits` = `samples` holds for any recording.
    """
    counters: dict[str, float] = dict(profile.run.statistics)
    if len(profile.losses.lost):
        # Lost records of events that report switches are not samples.
        switches = min(int(counters.get("lost_switches", 0)), int(profile.losses.lost.sum()))
        records = int(profile.losses.lost.sum()) - switches
        counters["lost"] = min(lost_samples(sampled(profile).profile, records), records)
        if records > counters["lost"]:
            counters["lost_beside"] = records - counters["lost"]
        if switches:
            counters["lost_switches"] = switches
        counters["throttled"] = int(profile.losses.throttled.sum())
    counters |= _hit_counters(profile)
    counters |= _kernel_counters(profile)
    counters["processes"] = len(profile.processes)
    counters["kernel_threads"] = int(profile.processes.is_kernel_thread.sum())
    if counters.get("buffers_read"):
        counters["samples_per_buffer"] = counters["samples"] / counters["buffers_read"]
    return counters


def sample_traces(profile: CompleteProfile) -> dict[str, float | None]:
    """Return the counters of OProfile's kernel module of 2002, which `--classic` also shows.

    It counted samples of one process and address in its own table, and sent (process, address,
    count). Today the kernel sends each sample by itself: these are the figures of such a table.
    None is for counters that do not exist: perf events do not report that a kernel module was
    loaded.
    """
    hits = profile.hits
    _, (count,) = group_sums(
        (hits.process_index.astype(np.int64), hits.location_index.astype(np.int64)),
        (hits.count.astype(np.int64),),
    )
    counters: dict[str, float | None] = {"drop_modules": None, "sample_traces": len(count)}
    if len(count):
        counters["samples_per_trace"] = float(count.sum()) / len(count)
        counters["low_transport_samples"] = int(count.min())
        counters["high_transport_samples"] = int(count.max())
    return counters


def lost_samples(profile: Profile, records: int) -> int:
    """Return how many of the lost records were samples.

    The event of a CPU's first clock reports mappings and tasks as well, and the kernel counts all
    its losses together (PERF_FORMAT_LOST). The other clocks lose samples only. All share one
    buffer, so a sample of the first clock was lost as often as one of the others. If there are no
    others, all missing samples may have been lost.

    `records` is how many records were lost, and the result if their kinds are unknown.
    """
    clocks = profile.clocks
    ticks = np.maximum(clocks.end_ns, clocks.begin_ns) - clocks.begin_ns
    due = ticks.astype(np.float64) / np.maximum(clocks.period_ns, 1.0)
    lost = np.maximum(clocks.lost, 0).astype(np.float64)
    is_first = clocks.clock == 0
    if not lost.any():
        return records
    if (due[~is_first] > 0).any():
        _, cpu = np.unique(clocks.cpu, return_inverse=True)
        of_others = np.bincount(cpu, np.where(is_first, 0.0, lost))
        share = of_others / np.maximum(np.bincount(cpu, np.where(is_first, 0.0, due)), 1.0)
        samples = np.where(is_first, np.minimum(lost, due * share.take(cpu)), lost)
        return round(float(samples.sum()))
    return round(min(float(lost.sum()), max(float(due.sum()) - len(profile.samples), 0.0)))


def _hit_counters(profile: CompleteProfile) -> dict[str, int]:
    hits = profile.hits
    mode = hit_modes(profile)
    counters = {"samples": int(hits.count.sum())}
    for name, chosen in (
        ("system_samples", is_kernel_mode(mode)),
        ("user_samples", mode == MODE_USER),
        ("unknown_samples", mode == MODE_OTHER),
    ):
        counters[name] = int(hits.count[chosen].sum())
    by_interrupt = mode == MODE_INTERRUPT
    if by_interrupt.any():
        counters["interrupt_samples"] = int(hits.count[by_interrupt].sum())
    if profile.processes.is_recorder.any():
        by_recorder = profile.processes.is_recorder.take(hits.process_index)
        counters["recorder_samples"] = int(hits.count[by_recorder].sum())
    return counters


def _kernel_counters(profile: CompleteProfile) -> dict[str, int]:
    hits = profile.hits
    is_kernel = is_kernel_mode(hit_modes(profile))
    location = hits.location_index[is_kernel]
    count = hits.count[is_kernel]
    part = kernel_part(profile.processes).take(hits.process_index[is_kernel])
    kind = profile.objects.kind.take(
        profile.functions.object_index.take(profile.locations.function_index.take(location))
    )
    counters = {
        "kernel_module_samples": int(count[kind == KIND_MODULE].sum()),
        "kernel_samples": int(count.sum()),
        "kernel_unique": _distinct(location, len(profile.locations)),
    }
    for name, wanted in (
        ("kernel_thread", PART_KERNEL_THREADS),
        ("process_0", PART_PROCESS_ZERO),
        ("user_kernel", PART_USER_PROCESSES),
    ):
        chosen = part == wanted
        counters[f"{name}_samples"] = int(count[chosen].sum())
        counters[f"{name}_unique"] = _distinct(location[chosen], len(profile.locations))
    return counters


def _distinct(rows: NDArray[Any], row_count: int) -> int:
    present = np.zeros(row_count, np.bool_)
    present[rows] = True
    return int(np.count_nonzero(present))
