"""The cost of a sample, measured once for each start of the system and kept; rates chosen by it.

Comes in: the events of a recording. Goes out: `SampleCost`, or the rate that a share of the
processors' time buys. Before the command starts only ``--overhead`` comes here.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from prospect.capture.cost.sample_cost import SampleCost, measure_sample_cost
from prospect.capture.events.call_graph import KERNEL_CALLERS
from prospect.capture.events.clock_bank import MOST_CLOCKS, clock_periods_ns, fastest_rate_hz
from prospect.capture.events.event_choice import choose_events
from prospect.capture.kernel.procfs import read_if_there
from prospect.errors import CaptureError, UsageError
from prospect.files.user_cache import cache_path, read_own

if TYPE_CHECKING:
    from prospect.capture.events.call_graph import CallGraph
    from prospect.capture.events.event_choice import EventPlan

COST_SUFFIX = ".sample-cost"
_LONGEST_LINE_BYTES = 4096
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_ANY_RATE_HZ = 200
# What a busy machine leaves less certain than this is measured again next time.
_KEPT_SPREAD = 0.25


def sample_cost(plan: EventPlan, *, use_cache: bool) -> SampleCost | None:
    """Return what a sample of these events costs, measured unless this boot's cost is known.

    Args:
        plan: what is sampled with, and so how much a sample takes.
        use_cache: whether the cost is looked up and kept in the user's cache directory.
    """
    directory = cache_path() if use_cache else ""
    name, key = f"{plan.clock}-{plan.scope}{COST_SUFFIX}", _key(plan)
    known = parse_cost(read_own(directory, name, _LONGEST_LINE_BYTES), key)
    if known:
        return known
    cost = measure_sample_cost(plan)
    if cost and directory and cost.spread_ns <= _KEPT_SPREAD * cost.user_ns:
        from prospect.symbols.cache_directory import CacheDirectory  # noqa: PLC0415 - once a boot

        kept = CacheDirectory.of_user()
        if kept:
            kept.put(name, [" ".join([*map(repr, cost), key]).encode()])
    return cost


def describe_cost(plan: EventPlan, *, use_cache: bool) -> dict[str, float]:
    """Return the cost as docs/recording.md describes it; empty where it cannot be known."""
    cost = sample_cost(plan, use_cache=use_cache)
    if cost is None:
        return {}
    return {
        "sample_cost_ns": cost.user_ns,
        "sample_cost_spread_ns": cost.spread_ns,
        "kernel_sample_cost_ns": cost.kernel_ns,
    }


def parse_cost(line: bytes, key: str) -> SampleCost | None:
    """Return the cost that was kept under a key, None if the line is of another or damaged."""
    *numbers, kept_key = line.decode(errors="replace").split(" ", 3)
    try:
        user_ns, spread_ns, kernel_ns = map(float, numbers)
    except ValueError:
        return None
    is_sane = 0 < user_ns < 1e9 and 0 <= spread_ns < 1e9 and 0 <= kernel_ns < 1e9
    return SampleCost(user_ns, spread_ns, kernel_ns) if is_sane and kept_key == key else None


def rate_for_overhead(
    percent: float,
    clocks: int,
    *,
    call_graph: CallGraph = KERNEL_CALLERS,
    use_cache: bool,
) -> int:
    """Return the highest rate whose samples take at most this share of each CPU, in Hz.

    Args:
        percent: the share.
        clocks: as in `recording.run.RecordOptions`.
        call_graph: which callers samples tell: copies of stacks make them dear.
        use_cache: as for `sample_cost`.

    Raises:
        UsageError: no rate is as cheap as that.
        CaptureError: what a sample costs cannot be measured here.
    """
    periods_ns = clock_periods_ns(_ANY_RATE_HZ, clocks or MOST_CLOCKS)
    plan = choose_events(
        _ANY_RATE_HZ,
        periods_ns,
        os.getpid(),
        min(os.sched_getaffinity(0)),
        allow_hardware=not clocks,
        call_graph=call_graph,
    )
    cost = sample_cost(plan, use_cache=use_cache)
    if cost is None:
        raise CaptureError(
            "what a sample costs cannot be measured here: choose a rate (-H), not --overhead"
        )
    # What is promised must hold for the dearer kind of sample.
    dearest_ns = max(cost.user_ns, cost.kernel_ns) + cost.spread_ns
    rate_hz = int(percent / 100 * 1e9 / dearest_ns)
    if rate_hz < 1:
        least = dearest_ns / 1e9 * 100
        raise UsageError(
            f"one sample a second takes {least:.2g}% here: give --overhead at least that"
        )
    return min(rate_hz, fastest_rate_hz(len(plan.periods)))


def _key(plan: EventPlan) -> str:
    """Name what the cost depends on: the running kernel, this boot, and what a sample holds."""
    attr = plan.attr
    boot = read_if_there(_BOOT_ID).decode(errors="replace").strip()
    kernel = os.uname()
    holds = f"{attr.sample_type:x} {attr.sample_stack_user:x} {attr.flags:x}"
    return f"{boot} {holds} {kernel.release} {kernel.version}"
