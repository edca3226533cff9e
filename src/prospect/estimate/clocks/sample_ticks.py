"""Which tick each sample was taken for, and how late it came.

Comes in: the times of samples by stretch, and the phases of their grids. Goes out: a column of
ticks and one of how late the samples were. These are the only columns as long as the samples that
are made: what lies in between is made part by part, in a processor's cache, and made again where it
is needed again. That is faster than memory that was not touched before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.estimate.clocks.phases import earliest_ns
from prospect.records import NamedTuple, Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from prospect.estimate.clocks.phases import Phases
    from prospect.estimate.clocks.stretches import Stretches

    Rows = NDArray[np.int64]
    Numbers = NDArray[np.float64]

_ROWS_AT_ONCE = 1 << 15


class Members(Record):
    """The samples of stretches, one stretch behind the other; `len` is how many samples.

    Attributes:
        start: i64[s + 1] where each stretch begins.
    """

    start: Rows

    def __len__(self) -> int:
        return int(self.start[-1])

    def stretch_of(self, rows: Rows) -> Rows:
        """Return the stretch of each of some samples, i64[r]."""
        return np.searchsorted(self.start, rows, "right") - 1

    def of_part(self, part: slice) -> Rows:
        """Return the stretch of each sample of a part, i64[rows], or [1] where all have the same.

        Either way it stands beside columns of the part's length.
        """
        first, last = self.stretch_of(np.array([part.start, part.stop - 1])).tolist()
        stretches = np.arange(first, last + 1)
        if first == last:
            return stretches
        edges = np.clip(self.start[first : last + 2], part.start, part.stop)
        return stretches.repeat(np.diff(edges))

    def filled(self) -> Rows:
        """Return the stretches that have samples."""
        return np.flatnonzero(np.diff(self.start))

    def counted(self, chosen: NDArray[np.bool_]) -> Rows:
        """Return how many samples of each stretch are chosen, i64[s].

        Args:
            chosen: bool[m].
        """
        counts, filled = np.zeros(len(self.start) - 1, np.int64), self.filled()
        first = self.start.take(filled)
        counts[filled] = np.add.reduceat(chosen.view(np.uint8), first, dtype=np.int64)
        return counts

    def parts(self) -> Iterator[slice]:
        """Cut the samples into parts whose columns and temporaries stay in a processor's cache."""
        for first in range(0, len(self), _ROWS_AT_ONCE):
            yield slice(first, min(first + _ROWS_AT_ONCE, len(self)))


class Jumps(Record):
    """The ticks that samples were taken for; tick 0 is due at the phase. All are whole numbers.

    Attributes:
        row: i64[j] ascending: samples of another tick than the one after that of the sample before,
            the first of each stretch among them.
        tick: f64[j] theirs.
        before: f64[j] that of the sample before; nothing where the sample is the first.
        last: f64[s] that of each stretch's last sample; 0 where it has none.
    """

    row: Rows
    tick: Numbers
    before: Numbers
    last: Numbers


class _Since(NamedTuple):
    """Of a part's samples: time since their stretch began, in whole periods, and what is left.

    `stretch` is as of `Members.of_part`, `period_ns` stands beside it.
    """

    stretch: Rows
    period_ns: Numbers
    since_ns: Numbers
    whole: Numbers
    residue_ns: Numbers


class Periods(Record):
    """When samples came, counted in the periods of their timers.

    Attributes:
        stretches: when timers ran.
        members: the samples of each.
        time_ns: u64[m] when they came.
    """

    stretches: Stretches
    members: Members
    time_ns: NDArray[np.uint64]

    def since_begin(self, part: slice) -> _Since:
        """Divide the time since the stretch's begin by the period."""
        stretch = self.members.of_part(part)
        period_ns = self.stretches.period_ns.take(stretch)
        begin_ns = self.stretches.begin_ns.take(stretch).astype(np.uint64)
        since_ns = (self.time_ns[part] - begin_ns).astype(np.float64)
        whole = np.floor(since_ns / period_ns)
        return _Since(stretch, period_ns, since_ns, whole, since_ns - whole * period_ns)

    def residues_ns(self, part: slice) -> Numbers:
        """Return a part's time since the stretch's begin, modulo the period, f64[rows]."""
        return self.since_begin(part).residue_ns


def ticks_of_samples(periods: Periods, phases: Phases) -> tuple[Jumps, Numbers]:
    """Find the tick that each sample was taken for, and how late it came.

    Args:
        periods: the samples; their times are used up.
        phases: of the grids around them.

    Returns:
        the ticks, and f64[m] how many ns later each sample came, in the memory of the times.
    """
    members, period_ns = periods.members, periods.stretches.period_ns
    earliest = earliest_ns(period_ns)
    tick, late_ns = np.empty(len(members)), periods.time_ns.view(np.float64)
    again = [np.empty(0, np.int64)]
    for part in members.parts():
        stretch, period, since_ns, whole, residue_ns = periods.since_begin(part)
        phase_ns = phases.at(np.arange(part.start, part.stop), stretch)
        residue_ns -= phase_ns
        residue_ns += earliest.take(stretch)
        residue_ns /= period
        whole += np.floor(residue_ns, out=residue_ns)
        tick[part] = whole
        since_ns -= phase_ns
        since_ns -= whole * period
        late_ns[part] = since_ns
        # Beside the part before, but for the first.
        first = max(part.start - 1, 0)
        with_before = tick[first : part.stop]
        again.append(np.flatnonzero(with_before[1:] <= with_before[:-1]) + first + 1)
    _give_own_ticks(tick, late_ns, np.concatenate(again), members, period_ns)
    return _jumps(tick, members), late_ns


def _give_own_ticks(
    tick: Numbers, late_ns: Numbers, again: Rows, members: Members, period_ns: Numbers
) -> None:
    """Give two samples that fell to one tick a tick each: a timer expires once a period.

    The second one was early, as phases are estimates, if it seems later than half a period. Else
    the first one was later than it seems, if the tick before is free.

    Args:
        tick: f64[m] of all samples; changed.
        late_ns: f64[m] how late each came after its tick; changed with it.
        again: i64[r] samples that are not of a later tick than the sample before.
        members: the samples of each stretch.
        period_ns: f64[s].
    """
    stretch = members.stretch_of(again)
    first = members.start.take(stretch)
    again, stretch, first = (column[again != first] for column in (again, stretch, first))
    period = period_ns.take(stretch)
    is_early = late_ns.take(again) > period / 2
    early = again[is_early]
    tick[early] += 1
    late_ns[early] -= period[is_early]
    late, first, period = again[~is_early] - 1, first[~is_early], period[~is_early]
    before = np.where(late == first, -1.0, tick.take(late - 1))
    is_free = tick.take(late) - before > 1
    tick[late[is_free]] -= 1
    late_ns[late[is_free]] += period[is_free]


def _jumps(tick: Numbers, members: Members) -> Jumps:
    is_jump = np.zeros(len(tick), np.bool_)
    for part in members.parts():
        first = max(part.start - 1, 0)
        own = tick[first : part.stop]
        np.not_equal(own[1:] - own[:-1], 1.0, out=is_jump[first + 1 : part.stop])
    filled = members.filled()
    is_jump[members.start.take(filled)] = True
    row, last = np.flatnonzero(is_jump), np.zeros(len(members.start) - 1)
    last[filled] = tick.take(members.start.take(filled + 1) - 1)
    return Jumps(row=row, tick=tick.take(row), before=tick.take(row - 1), last=last)
