"""Measure the cost of a sample, once for each boot, and choose rates by it.

On a busy machine the result may be uncertain. Such a result is kept for a while too, because a
measurement may take longer than the rest of a recording.

Before the command starts, only ``--overhead`` needs this.
"""

from __future__ import annotations

import os
import time

from prospect.capture.events.clock_bank import MOST_CLOCKS, clock_periods_ns, fastest_rate_hz
from prospect.capture.events.event_choice import choose_events
from prospect.capture.events.recorded_callers import KERNEL_CALLERS
from prospect.capture.events.sample_cost import SampleCost, measure_sample_cost
from prospect.capture.kernel.procfs import read_if_there
from prospect.errors import CaptureError, UsageError
from prospect.files.user_cache import cache_path, read_own
from prospect.recording.recording_limits import LONGEST_COST_LINE_BYTES
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from prospect.capture.events.event_choice import EventPlan
    from prospect.capture.events.recorded_callers import CallGraph

COST_SUFFIX = ".sample-cost"
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_ANY_RATE_HZ = 200
# The largest relative ± of a certain measurement, and the time after which others are repeated.
_CERTAIN_SPREAD = 0.25
_TRIED_S = 600.0


class KeptCost(NamedTuple):
    """The result of the last measurement of this boot, None if uncertain, and its time.

    Attributes:
        measured_s: in CLOCK_BOOTTIME.
    """

    cost: SampleCost | None
    measured_s: float

    def is_enough(self, now_s: float) -> bool:
        """Return whether no new measurement is needed."""
        cost = self.cost
        if cost and cost.spread_ns <= _CERTAIN_SPREAD * cost.user_ns:
            return True
        return 0 <= now_s - self.measured_s < _TRIED_S


def sample_cost(plan: EventPlan, *, use_cache: bool) -> SampleCost | None:
    """Return the cost of a sample of these events, measured unless this boot's cost is known.

    Args:
        plan: the events, which determine the content of a sample.
        use_cache: whether to look up and keep the cost in the user's cache directory.
    """
    directory = cache_path() if use_cache else ""
    name, key = _name(plan), _key()
    now_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    kept = parse_cost(read_own(directory, name, LONGEST_COST_LINE_BYTES), key)
    if kept and kept.is_enough(now_s):
        return kept.cost
    cost = measure_sample_cost(plan)
    if directory:
        from prospect.symbols.cache_directory import CacheDirectory  # noqa: PLC0415 - once a boot

        cache = CacheDirectory.of_user()
        if cache:
            numbers = map(repr, (*(cost or (0.0, 0.0, 0.0)), now_s))
            cache.put(name, [" ".join([*numbers, key]).encode()])
    return cost


def describe_cost(plan: EventPlan, *, use_cache: bool) -> dict[str, float]:
    """Return the cost as docs/recording.md describes it; empty if it is unknown."""
    cost = sample_cost(plan, use_cache=use_cache)
    if cost is None:
        return {}
    return {
        "sample_cost_ns": cost.user_ns,
        "sample_cost_spread_ns": cost.spread_ns,
        "kernel_sample_cost_ns": cost.kernel_ns,
    }


def parse_cost(line: bytes, key: str) -> KeptCost | None:
    """Parse a kept line; return None if it has another key or is damaged."""
    *numbers, kept_key = line.decode(errors="replace").split(" ", 4)
    try:
        user_ns, spread_ns, kernel_ns, measured_s = map(float, numbers)
    except ValueError:
        return None
    is_sane = 0 <= user_ns < 1e9 and 0 <= spread_ns < 1e9 and 0 <= kernel_ns < 1e9
    if not is_sane or kept_key != key:
        return None
    if not user_ns:
        return KeptCost(None, measured_s)
    return KeptCost(SampleCost(user_ns, spread_ns, kernel_ns), measured_s)


def rate_for_overhead(
    percent: float, clocks: int, *, call_graph: CallGraph = KERNEL_CALLERS, use_cache: bool
) -> int:
    """Return the highest rate whose samples take at most this share of each CPU, in Hz.

    Args:
        percent: the share.
        clocks: as in `RecordOptions`.
        call_graph: the callers in samples; copies of stacks are expensive.
        use_cache: as for `sample_cost`.

    Raises:
        UsageError: even 1 Hz takes more.
        CaptureError: the cost of a sample cannot be measured here.
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
            "the cost of a sample cannot be measured here: choose a rate (-H), not --overhead"
        )
    # The bound must hold for the more expensive kind of sample.
    dearest_ns = max(cost.user_ns, cost.kernel_ns) + cost.spread_ns
    rate_hz = int(percent / 100 * 1e9 / dearest_ns)
    if rate_hz < 1:
        least = dearest_ns / 1e9 * 100
        raise UsageError(
            f"one sample a second takes {least:.2g}% here: give --overhead at least that"
        )
    return min(rate_hz, fastest_rate_hz(len(plan.periods)))


def _name(plan: EventPlan) -> str:
    """Return the name of the cached file for samples with this content."""
    attr = plan.attr
    holds = f"{attr.sample_type:x}-{attr.sample_stack_user:x}-{attr.flags:x}"
    return f"{plan.clock}-{plan.scope}-{holds}{COST_SUFFIX}"


def _key() -> str:
    """Return the running kernel and this boot, on which the cost depends too."""
    boot = read_if_there(_BOOT_ID).decode(errors="replace").strip()
    kernel = os.uname()
    return f"{boot} {kernel.release} {kernel.version}"
