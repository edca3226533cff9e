"""The counters of "Statistics of Run": what the recorder counted, and what the profile amounts to.

Comes in: a completed Profile. Goes out: one dict of numbers by name; docs/schema.md lists them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.profile.kernel import (
    PART_KERNEL_THREADS,
    PART_PROCESS_ZERO,
    PART_USER_PROCESSES,
    kernel_part,
)
from prospect.profile.model import KIND_MODULE
from prospect.profile.portions import (
    PORTION_INTERRUPT,
    PORTION_OTHER,
    PORTION_USER,
    hit_portions,
    is_kernel_portion,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.profile.model import Profile


def run_counters(profile: Profile) -> dict[str, float]:
    """Count what Statistics of Run shows, over all events.

    Counters of the recorder are passed on; those that the profile itself gives replace them, so
    that `user_hits` + `system_hits` + `unknown_hits` = `samples` holds whatever was recorded.
    """
    counters: dict[str, float] = dict(profile.run.statistics)
    if len(profile.losses.lost):
        counters["lost"] = int(profile.losses.lost.sum())
        counters["throttled"] = int(profile.losses.throttled.sum())
    counters |= _hit_counters(profile)
    counters |= _kernel_counters(profile)
    counters["processes"] = len(profile.processes)
    counters["kernel_threads"] = int(profile.processes.is_kernel_thread.sum())
    if counters.get("buffers_read"):
        counters["hits_per_buffer"] = counters["samples"] / counters["buffers_read"]
    return counters


def _hit_counters(profile: Profile) -> dict[str, int]:
    hits = profile.hits
    portion = hit_portions(profile)
    counters = {"samples": int(hits.count.sum())}
    for name, chosen in (
        ("system_hits", is_kernel_portion(portion)),
        ("user_hits", portion == PORTION_USER),
        ("unknown_hits", portion == PORTION_OTHER),
    ):
        counters[name] = int(hits.count[chosen].sum())
    by_interrupt = portion == PORTION_INTERRUPT
    if by_interrupt.any():
        counters["interrupt_hits"] = int(hits.count[by_interrupt].sum())
    if profile.processes.is_recorder.any():
        by_recorder = profile.processes.is_recorder.take(hits.process_index)
        counters["recorder_hits"] = int(hits.count[by_recorder].sum())
    return counters


def _kernel_counters(profile: Profile) -> dict[str, int]:
    hits = profile.hits
    is_kernel = is_kernel_portion(hit_portions(profile))
    location = hits.location_index[is_kernel]
    count = hits.count[is_kernel]
    part = kernel_part(profile.processes).take(hits.process_index[is_kernel])
    kind = profile.objects.kind.take(
        profile.functions.object_index.take(profile.locations.function_index.take(location))
    )
    counters = {
        "kernel_module_hits": int(count[kind == KIND_MODULE].sum()),
        "kernel_hits": int(count.sum()),
        "kernel_unique": _distinct(location, len(profile.locations)),
    }
    for name, wanted in (
        ("kernel_thread", PART_KERNEL_THREADS),
        ("process_0", PART_PROCESS_ZERO),
        ("user_kernel", PART_USER_PROCESSES),
    ):
        chosen = part == wanted
        counters[f"{name}_hits"] = int(count[chosen].sum())
        counters[f"{name}_unique"] = _distinct(location[chosen], len(profile.locations))
    return counters


def _distinct(rows: NDArray[Any], row_count: int) -> int:
    present = np.zeros(row_count, np.bool_)
    present[rows] = True
    return int(np.count_nonzero(present))
