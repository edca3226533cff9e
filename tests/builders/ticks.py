"""Recordings by timers, tick by tick: what each tick came to is written down first.

A timer ticks at begin + phase + k periods, k from 1 on; a sample comes a microsecond or two later.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from builders.profile_builder import ProfileBuilder, clock_event, run_info
from prospect.profile.model import (
    CPUMODE_KERNEL,
    CPUMODE_USER,
    STOP_FULL,
    STOP_THROTTLED,
    ClockStopTable,
    ClockTable,
    SampleTable,
)
from prospect.records import replace

USER, KERNEL, IDLE, ASLEEP, HELD, FULL, THROTTLED = (
    "user",
    "kernel",
    "idle",
    "asleep",  # the CPU slept through: no sample, and the timer comes back on time
    "held",  # interrupts masked, or the CPU stolen: no sample, and the next one comes late
    "full",  # a sample that the buffer had no room for
    "throttled",  # the kernel had stopped the timer
)
HIT_ROWS = (USER, KERNEL, IDLE)
START_NS = 1_000_000_000_000
PHASE_NS = 40_000
RESTART_NS = 5_000


@dataclass
class Ticking:
    """Clocks and their samples, as they are added.

    Attributes:
        told: by (cpu, clock) how many ticks came to what.
    """

    random: np.random.Generator
    clocks: list[tuple[int, int, int, float, int, int, int]] = field(default_factory=list)
    stops: list[tuple[int, int, int, int]] = field(default_factory=list)
    samples: list[tuple[int, int, int, int]] = field(default_factory=list)
    told: dict[tuple[int, int], dict[str, int]] = field(default_factory=dict)

    def clock(
        self,
        fates: list[tuple[str, int]],
        *,
        cpu: int = 0,
        clock: int = 0,
        period_ns: int = 4_000_000,
        begin_ns: int = START_NS,
        phase_ns: int = PHASE_NS,
        other_losses: int = 0,
    ) -> int:
        """Add a clock that ran through `fates`, (what, how many ticks); return when it stopped."""
        told = self.told.setdefault((cpu, clock), dict.fromkeys((*HIT_ROWS, *_WITHOUT), 0))
        row = len(self.clocks)
        due_ns, lost, is_held, was_full = begin_ns + phase_ns, other_losses, False, False
        for what, count in fates:
            told[what] += count
            if what == THROTTLED:
                stopped_ns = due_ns + 3_000
                restarted_ns = due_ns + count * period_ns
                self.stops.append((STOP_THROTTLED, row, stopped_ns, restarted_ns))
                due_ns = restarted_ns + RESTART_NS
                continue
            if what in HIT_ROWS:
                times = due_ns + period_ns * np.arange(1, count + 1)
                late = 400 + self.random.exponential(800.0, count).astype(np.int64)
                if is_held:
                    late[0] = period_ns * self.random.uniform(0.3, 0.9)
                taken = (times + late).tolist()
                self.samples += [(at, cpu, clock, HIT_ROWS.index(what)) for at in taken]
                if was_full:
                    self.stops.append((STOP_FULL, row, taken[0], taken[0]))
            lost += count if what == FULL else 0
            is_held, was_full = what == HELD, what == FULL
            due_ns += count * period_ns
        end_ns = due_ns + period_ns // 2
        self.clocks.append((0, clock, cpu, float(period_ns), begin_ns, end_ns, lost))
        return end_ns

    def idle_books(self) -> dict[int, dict[str, float]]:
        """Return what /proc/stat says of a machine that was idle as its clocks were told."""
        idle_s: dict[int, float] = {}
        for _, clock, cpu, period_ns, *_ in self.clocks:
            told = self.told[cpu, clock]
            idle_s[cpu] = max(idle_s.get(cpu, 0.0), (told[IDLE] + told[ASLEEP]) * period_ns * 1e-9)
        return {cpu: {"idle_s": seconds, "iowait_s": 0.0} for cpu, seconds in idle_s.items()}

    def profile(self, **facts: Any) -> Any:
        """Return the profile; its hits are one row for user, kernel and idle each."""
        build = ProfileBuilder(run_info(events=(clock_event(250.0),), **facts))
        program, idle = build.process("work", 7, is_command=True), build.process("swapper", 0)
        kernel, image = build.object("[kernel.kallsyms]", kind=1), build.object("/bin/work")
        counts = np.bincount([row for *_, row in self.samples], minlength=len(HIT_ROWS)).tolist()
        build.hit(program, build.function("main", image, 0x1000), counts[0])
        build.hit(program, build.function("copy", kernel, 0x2000), counts[1], CPUMODE_KERNEL)
        build.hit(idle, build.function("halt", kernel, 0x3000), counts[2], CPUMODE_KERNEL)
        assert build.hits[0][2] == CPUMODE_USER
        # A ring's records are in the order of their times, rings stand one after the other.
        samples = sorted(self.samples, key=lambda sample: (sample[1], sample[0]))
        return replace(
            build.build(),
            samples=SampleTable(
                hit_index=_column(samples, 3, np.int32),
                time_ns=_column(samples, 0, np.uint64),
                cpu=_column(samples, 1, np.uint16),
                clock=_column(samples, 2, np.uint8),
            ),
            clocks=clock_table(self.clocks),
            clock_stops=ClockStopTable(
                kind=_column(self.stops, 0, np.uint8),
                clock_index=_column(self.stops, 1, np.int32),
                begin_ns=_column(self.stops, 2, np.uint64),
                end_ns=_column(self.stops, 3, np.uint64),
            ),
        )


_WITHOUT = (ASLEEP, HELD, FULL, THROTTLED)


def clock_table(rows: list[tuple[Any, ...]]) -> ClockTable:
    """Return a table of (event, clock, cpu, period_ns, begin_ns, end_ns, lost)."""
    dtypes = (np.uint16, np.uint8, np.int32, np.float64, np.uint64, np.uint64, np.int64)
    return ClockTable(*(_column(rows, position, dtype) for position, dtype in enumerate(dtypes)))


def _column(rows: list[tuple[Any, ...]], position: int, dtype: Any) -> Any:
    return np.array([row[position] for row in rows], dtype)
