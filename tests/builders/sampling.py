"""Sampled programs whose true times are known: schedules, clocks that look at them, profiles.

A program is a schedule: what each CPU runs, from when. Many runs are simulated at once, as so many
CPUs of one profile, each with clocks of its own phases.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from builders.profile_builder import ProfileBuilder, run_info
from prospect.profile.model import ClockTable, HitTable, LocationTable, Profile, SampleTable
from prospect.profile.run_info import EventInfo
from prospect.records import asdict

if TYPE_CHECKING:
    from collections.abc import Callable

BEGIN_NS = 5_000_000_000
NOTHING = -1


@dataclass(frozen=True)
class Schedule:
    """What CPUs run: `what` i64[c, e], NOTHING for none, from `start_s` f64[c, e] on.

    Ascending; each until the next, the last until `length_s`. What runs at 0 is the last that
    starts at 0 or before. `rows` is how many rows there are, those that never run included.
    """

    start_s: np.ndarray
    what: np.ndarray
    length_s: float
    rows: int

    def true_seconds(self) -> np.ndarray:
        """Return how long each row really ran, f64[rows]."""
        start = np.clip(self.start_s, 0.0, self.length_s)
        end = np.concatenate([start[:, 1:], np.full((len(start), 1), self.length_s)], axis=1)
        runs = self.what >= 0
        return np.bincount(self.what[runs], (end - start)[runs], self.rows)

    def at(self, cpu: np.ndarray, time_s: np.ndarray) -> np.ndarray:
        """Return what `cpu` i64[n] runs at `time_s` f64[n], i64[n]."""
        # One long line of time, on which no CPU overlaps the next.
        span = 3.0 * self.length_s + 1.0
        start = np.clip(self.start_s, -self.length_s, 2.0 * self.length_s)
        line = (start + span * np.arange(len(start))[:, None]).ravel()
        place = np.searchsorted(line, time_s + span * cpu, side="right") - 1
        return self.what.ravel()[place]


def ticks(
    random: np.random.Generator, cpus: int, length_s: float, periods_ns: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return cpu, clock and time in s of every tick; each clock of each CPU at a random phase."""
    cpu, clock, time_s = [], [], []
    for number, period_ns in enumerate(periods_ns):
        period_s = period_ns * 1e-9
        phase = random.random((cpus, 1)) * period_s
        all_s = phase + period_s * np.arange(int(length_s / period_s) + 1)
        which, _ = keep = np.nonzero(all_s < length_s)
        cpu.append(which)
        clock.append(np.full(len(which), number))
        time_s.append(all_s[keep])
    return np.concatenate(cpu), np.concatenate(clock), np.concatenate(time_s)


def sampled_profile(
    random: np.random.Generator,
    schedule: Schedule,
    periods_ns: tuple[int, ...],
    *,
    delivered: Callable[[np.ndarray], np.ndarray] | None = None,
    lateness_s: float = 3e-6,
) -> Profile:
    """Return what a recording of the schedule would show: row r of the schedule is row r of hits.

    Args:
        random: phases of the clocks, and how late samples are.
        schedule: what runs.
        periods_ns: of the clocks.
        delivered: which ticks give a sample, by what runs then; all of them if not given.
        lateness_s: how late samples are on average.
    """
    cpus = len(schedule.what)
    cpu, clock, time_s = ticks(random, cpus, schedule.length_s, periods_ns)
    what = schedule.at(cpu, time_s)
    keep = what >= 0
    if delivered:
        keep &= delivered(what)
    cpu, clock, what = cpu[keep], clock[keep], what[keep]
    late_s = random.exponential(lateness_s, len(cpu))
    time_ns = BEGIN_NS + np.round((time_s[keep] + late_s) * 1e9).astype(np.uint64)
    order = np.lexsort((time_ns, cpu)) if cpus > 2 else np.argsort(time_ns)
    rows = schedule.rows
    zeros = np.zeros(rows, np.int32)
    hits = HitTable(
        process_index=zeros,
        comm_index=zeros,
        location_index=zeros,
        mode=np.full(rows, 2, np.uint8),
        event=zeros.astype(np.uint16),
        entry_reason_index=zeros,
        count=np.bincount(what, minlength=rows),
        period=np.bincount(what, np.array(periods_ns)[clock], rows).astype(np.int64),
    )
    clocks = len(periods_ns)
    event = EventInfo(
        "cpu-clock", 1e-9 / clocks, 0.0, sum(1e9 / p for p in periods_ns), clocks=clocks
    )
    end_ns = BEGIN_NS + round(schedule.length_s * 1e9)
    build = ProfileBuilder(
        run_info(
            events=(event,),
            begin_ns=BEGIN_NS,
            end_ns=end_ns,
            wall_seconds=schedule.length_s,
            cpus=cpus,
        )
    )
    build.function("work", build.object("/bin/program"), 0x1000)
    build.process("program", 100, is_command=True)
    empty = build.build()
    return Profile(
        **{
            **asdict(empty),
            "hits": hits,
            "locations": LocationTable(np.zeros(1, np.int32), np.full(1, 0x1000, np.uint64)),
            "samples": SampleTable(
                hit_index=what[order].astype(np.int32),
                time_ns=time_ns[order],
                cpu=cpu[order].astype(np.uint16),
                clock=clock[order].astype(np.uint8),
            ),
            "clocks": clock_table(cpus, periods_ns, BEGIN_NS, end_ns),
        }
    )


def clock_table(cpus: int, periods_ns: tuple[int, ...], begin_ns: int, end_ns: int) -> ClockTable:
    clocks = len(periods_ns)
    rows = cpus * clocks
    return ClockTable(
        event=np.zeros(rows, np.uint16),
        clock=np.tile(np.arange(clocks, dtype=np.uint8), cpus),
        cpu=np.repeat(np.arange(cpus, dtype=np.int32), clocks),
        period_ns=np.tile(np.array(periods_ns, np.float64), cpus),
        begin_ns=np.full(rows, begin_ns, np.uint64),
        end_ns=np.full(rows, end_ns, np.uint64),
        lost=np.zeros(rows, np.int64),
    )
