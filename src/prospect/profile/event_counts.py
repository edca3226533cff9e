"""Counts of events: the results of `prospect stat`, and figures derived from them.

This module imports no numpy: `prospect stat` starts without it.
"""

from __future__ import annotations

from prospect.records import NamedTuple

NS_PER_S = 1_000_000_000


class CountedEvent(NamedTuple):
    """An event that was counted.

    Attributes:
        name: as it was typed, with ``:u`` appended if only user space could be counted.
        unit, scale: a count times `scale` is in `unit`; "" for plain counts.
        group: events of one number from 0 on were counted at the same times; -1 alone.
    """

    name: str
    unit: str = ""
    scale: float = 1.0
    group: int = -1


class Count(NamedTuple):
    """The counters of an event, summed over tasks and CPUs.

    Attributes:
        value: unscaled.
        enabled_ns: time for which the event was enabled.
        running_ns: time for which it had a hardware counter.
    """

    value: int
    enabled_ns: int
    running_ns: int

    @property
    def estimate(self) -> float | None:
        """The count scaled to the enabled time; None if its counter never ran.

        Tasks that never ran had nothing to count.
        """
        if not self.enabled_ns:
            return float(self.value)
        if not self.running_ns:
            return None
        return self.value * max(self.enabled_ns / self.running_ns, 1.0)

    @property
    def running_share(self) -> float:
        """The share of the enabled time that it had a counter, 0 to 1."""
        return min(self.running_ns / self.enabled_ns, 1.0) if self.enabled_ns else 1.0

    def since(self, earlier: Count) -> Count:
        """Return the count between two readings."""
        return Count(*(now - before for now, before in zip(self, earlier, strict=True)))


class CountInterval(NamedTuple):
    """A part of a run, in seconds since counting began, and its counts, one an event."""

    begin_s: float
    end_s: float
    counts: tuple[Count, ...]


class CountedRun(NamedTuple):
    """One run: its length, its counts, and the command's CPU time, None without a command.

    Attributes:
        elapsed_s: from the command's start to its end.
        counts: one an event.
        intervals: the parts of the run, if requested.
        user_s, system_s: CPU time of the command and its waited-for children.
        exit_status: as a shell shows it.
    """

    elapsed_s: float
    counts: tuple[Count, ...]
    intervals: tuple[CountInterval, ...] = ()
    user_s: float | None = None
    system_s: float | None = None
    exit_status: int = 0


class EventCounts(NamedTuple):
    """All counts.

    Attributes:
        target: as in ``make -j2`` or ``CPUs 0-3``.
        events: rows of the report.
        runs: at least one.
        limits: sentences about events that could not be counted.
        exit_status: of the first run that failed, else 0.
    """

    target: str
    events: tuple[CountedEvent, ...]
    runs: tuple[CountedRun, ...]
    limits: tuple[str, ...] = ()
    exit_status: int = 0


class DerivedFigure(NamedTuple):
    """A figure derived from counts, and its unit."""

    value: float
    unit: str


# An event → the events that it may be a share of, and the name of the share.
_SHARES = {
    "branch-misses": (("branches", "branch-instructions"), "of branches"),
    "cache-misses": (("cache-references",), "of cache references"),
    "stalled-cycles-frontend": (("cycles", "cpu-cycles"), "of cycles"),
    "stalled-cycles-backend": (("cycles", "cpu-cycles"), "of cycles"),
    "L1-dcache-load-misses": (("L1-dcache-loads",), "of L1-dcache loads"),
    "L1-icache-load-misses": (("L1-icache-loads",), "of L1-icache loads"),
    "LLC-load-misses": (("LLC-loads",), "of LLC loads"),
    "dTLB-load-misses": (("dTLB-loads",), "of dTLB loads"),
    "iTLB-load-misses": (("iTLB-loads",), "of iTLB loads"),
}


def derived_figures(
    events: tuple[CountedEvent, ...], estimates: tuple[float | None, ...], elapsed_s: float
) -> tuple[DerivedFigure | None, ...]:
    """Return the most informative figure of each event, None if there is none."""
    by_name: dict[str, float] = {}
    for event, estimate in zip(events, estimates, strict=True):
        if estimate is not None:
            by_name.setdefault(event.name, estimate)
    return tuple(
        None if estimate is None else _derived(event, estimate, by_name, elapsed_s)
        for event, estimate in zip(events, estimates, strict=True)
    )


def _derived(
    event: CountedEvent, estimate: float, by_name: dict[str, float], elapsed_s: float
) -> DerivedFigure | None:
    name, colon, modifiers = event.name.partition(":")
    suffix = colon + modifiers
    if name == "task-clock" and elapsed_s:
        return DerivedFigure(estimate / NS_PER_S / elapsed_s, "CPUs utilised")
    # The clock of a CPU runs on while it idles.
    ran_ns = by_name.get(f"task-clock{suffix}") or by_name.get("task-clock", 0.0)
    if name in ("cycles", "cpu-cycles") and ran_ns:
        return DerivedFigure(estimate / ran_ns, "GHz")
    if name == "instructions":
        cycles = by_name.get(f"cycles{suffix}") or by_name.get(f"cpu-cycles{suffix}")
        if cycles:
            return DerivedFigure(estimate / cycles, "instructions a cycle")
    wholes, called = _SHARES.get(name, ((), ""))
    whole = next((by_name[w + suffix] for w in wholes if by_name.get(w + suffix)), 0.0)
    if whole:
        return DerivedFigure(100.0 * estimate / whole, f"% {called}")
    seconds = ran_ns / NS_PER_S or elapsed_s
    if event.unit or not seconds:
        return None
    return DerivedFigure(estimate / seconds, "/s of CPU time" if ran_ns else "/s")
