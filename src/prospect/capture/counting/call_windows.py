"""When calls are counted: windows whose cost stays within a budget.

Comes in: what each window counted, what that cost, and how much CPU time the command used. Goes
out: whether counting goes on, which functions are given up, and how long to wait. Time is CPU time
of the command and its descendants without what probes took of it, so that a program which waits, or
which probes slow down, is not taken for one that calls less often.

Where the budget allows it the first window never ends, and counts are exact. Else windows are short
and lie apart by a random distance, so that no period of the program can be in step with them.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from prospect.records import Record, field

if TYPE_CHECKING:
    from collections.abc import Mapping

WINDOW_S = 0.01
# While counting is cheap its cost is looked at so often.
LONGEST_S = 0.1
# Of a window's CPU time, what probes may take at most: how much it is, is known to some percent
# only, and the program's own time is what is left over.
_MOST_SHARE = 0.5
_SHORTEST_PAUSE_S = 0.005
# In a long run windows lie farther apart, so that there are some hundreds an hour.
_MOST_WINDOWS_AT_ONCE = 256
_LEAST_CPU_NS = 1_000_000
# A budget of 100 % is bounded too, or a program of 0.1 s may run for minutes: beyond this cost,
# probes take half of the CPU time at most. A larger share could not be kept: when probes take 95 %,
# what they cost is not known well enough to distinguish that from 80 %.
GRANTED_NS = 5_000_000_000


class Windows(Record, frozen=False):
    """The windows of a run so far, and the rules for the next.

    Attributes:
        budget: share of the command's CPU time that probes may take; no more than half is
            kept to, and 1 counts every call until that has cost `GRANTED_NS`.
        random: draws the distances.
        own_ns: by window, the CPU time of the command less what probes took; 0 where unknown.
        gap_ns: by window, the same from its end to the next window.
        cost_ns: what all probes took so far.
        cpu_ns: CPU time of the command so far.
    """

    budget: float
    random: random.Random = field(default_factory=random.Random)
    own_ns: list[float] = field(default_factory=list)
    gap_ns: list[float] = field(default_factory=list)
    cost_ns: float = 0.0
    cpu_ns: int = 0

    def add_window(self, cpu_ns: int, cost_ns: float) -> None:
        """Add a window in which the command used `cpu_ns`, `cost_ns` of these for probes.

        Where probes took most of it, its own time is what nobody knows, and counts as 0.
        """
        is_known = cost_ns <= _MOST_SHARE * cpu_ns
        self.own_ns.append(cpu_ns - cost_ns if is_known else 0.0)
        self.gap_ns.append(0.0)
        self._spend(cpu_ns, cost_ns)

    def extend_window(self, cpu_ns: int, cost_ns: float) -> None:
        """Add to the last window what came until it was closed."""
        if self.own_ns[-1]:
            self.own_ns[-1] = max(self.own_ns[-1] + cpu_ns - cost_ns, 0.0)
        self._spend(cpu_ns, cost_ns)

    def add_gap(self, cpu_ns: int, cost_ns: float) -> None:
        """Add time behind the last window; probes cost until they are gone."""
        if self.gap_ns:
            self.gap_ns[-1] += max(cpu_ns - cost_ns, 0.0)
        self._spend(cpu_ns, cost_ns)

    @property
    def is_within_budget(self) -> bool:
        """Whether counting may go on now."""
        if self.budget >= 1 and self.cost_ns <= GRANTED_NS:
            return True
        return self.cost_ns <= self._share * self.cpu_ns

    @property
    def is_exact(self) -> bool:
        """Whether no call was missed so far."""
        return not any(self.gap_ns)

    def pause_s(self, elapsed_s: float) -> float:
        """Return how long to wait before it is worth to look again.

        Args:
            elapsed_s: since counting began.
        """
        owed_ns = self.cost_ns / self._share - self.cpu_ns
        pace = self.cpu_ns / max(elapsed_s, WINDOW_S)  # CPU time, in ns a second
        wait_s = owed_ns / pace if pace > 0 else LONGEST_S
        apart_s = max(wait_s, _SHORTEST_PAUSE_S, elapsed_s / _MOST_WINDOWS_AT_ONCE)
        return min(apart_s, 10.0) * self.random.uniform(0.5, 1.5)

    def too_hot(self, cpu_ns: int, cost_of: Mapping[int, float]) -> dict[int, float]:
        """Return the functions that a window shows to be called too often, with their shares.

        Args:
            cpu_ns: the window's CPU time.
            cost_of: by function, what its probes took of that.
        """
        found: dict[int, float] = {}
        if self.is_within_budget or cpu_ns < _LEAST_CPU_NS:
            return found
        total = sum(cost_of.values())
        for function, cost_ns in sorted(cost_of.items(), key=lambda item: -item[1]):
            if total <= _MOST_SHARE * cpu_ns:
                break
            found[function] = cost_ns / cpu_ns
            total -= cost_ns
        return found

    @property
    def _share(self) -> float:
        return min(self.budget, _MOST_SHARE)

    def _spend(self, cpu_ns: int, cost_ns: float) -> None:
        self.cpu_ns += cpu_ns
        self.cost_ns += cost_ns
