"""The times that each CPU was on line, in which all clocks of a bank ran there.

Comes in: the clocks of a Profile. Goes out: `BankStretches`, or None where they are no bank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.profile.model import NO_CPU
from prospect.records import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.profile.model import ClockTable


class BankStretches(Record):
    """Times that a CPU was on line, by CPU and time.

    Attributes:
        begin_ns, end_ns: i64[s].
        period_ns: f64[K] of the bank's clocks.
        place: i64[c] of each row of the clocks its stretch times K plus its clock, -1 for rows of
            other events.
    """

    begin_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    period_ns: NDArray[np.float64]
    place: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.begin_ns)

    @property
    def length_ns(self) -> NDArray[np.float64]:
        """How long each is, f64[s]."""
        return (self.end_ns - self.begin_ns).astype(np.float64)


def bank_stretches(table: ClockTable, event_index: int, clocks: int) -> BankStretches | None:
    """Group the clocks' rows by CPU and time; None where a stretch lacks one of the clocks."""
    rows = np.flatnonzero(table.event == event_index)
    cpu, clock = table.cpu[rows].astype(np.int64), table.clock[rows].astype(np.int64)
    begin, end = table.begin_ns[rows].astype(np.int64), table.end_ns[rows].astype(np.int64)
    period = table.period_ns[rows]
    sound = (clock < clocks) & (period >= 1.0) & (cpu >= 0) & (cpu < NO_CPU)
    sound &= (begin >= 0) & (begin < end)
    if not len(rows) or len(rows) % clocks or not sound.all():
        return None
    # The n-th row of each clock of a CPU is of the CPU's n-th stretch.
    order = np.lexsort((begin, clock, cpu))
    turn = _turn_within(cpu.take(order) * clocks + clock.take(order))
    order = order[np.lexsort((clock.take(order), turn, cpu.take(order)))]
    by_clock = clock.take(order).reshape(-1, clocks)
    by_cpu = cpu.take(order).reshape(-1, clocks)
    periods = period.take(order).reshape(-1, clocks)
    if (
        (by_clock != np.arange(clocks)).any()
        or (by_cpu != by_cpu[:, :1]).any()
        or not np.allclose(periods, periods[0], rtol=1e-6)
    ):
        return None
    place = np.full(len(table.event), -1)
    place[rows[order]] = np.arange(len(order))
    return BankStretches(
        begin_ns=begin.take(order).reshape(-1, clocks).min(axis=1),
        end_ns=end.take(order).reshape(-1, clocks).max(axis=1),
        period_ns=periods[0],
        place=place,
    )


def _turn_within(sorted_keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return 0, 1, 2 … within each run of equal keys."""
    is_first = np.append(True, sorted_keys[1:] != sorted_keys[:-1])
    row = np.arange(len(sorted_keys))
    return row - np.maximum.accumulate(np.where(is_first, row, 0))
