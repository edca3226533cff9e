"""The limits on a daemon's resources, and the steps that it takes to stay below them.

After each window the daemon compares its CPU time and memory, with those of its processes, with the
limits. Shortly before one, it takes the next of `STEPS` that helps, in their order. After a time
well below both, which grows, it takes the last step back. Every window has notes on its steps, so
that reports and `control status` count them.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

from prospect.daemon.daemon_limits import (
    AVERAGED_S,
    CALM_S,
    DIFFICULT_S,
    LIMIT_SHARE,
    LONGEST_CALM_S,
    MEASURED_S,
    MOST_NEW_FILES,
    ROOM_SHARE,
)
from prospect.records import NamedTuple, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.daemon.daemon_options import DaemonOptions

COPIES, NEW_NAMES, TWICE, FIVE_TIMES, PYTHON, CALLERS, TEN_TIMES = range(7)
# The effects of the steps, for people. Callers by frame pointers take only 3 % of the daemon's CPU
# time, so it drops them last.
STEPS = {
    COPIES: "callers by frame pointers only",
    NEW_NAMES: "names of few new files",
    TWICE: "twice the usual length",
    FIVE_TIMES: "five times the usual length",
    PYTHON: "no Python functions",
    CALLERS: "no callers in user space",
    TEN_TIMES: "ten times the usual length",
}
_LENGTHS = {TWICE: 2, FIVE_TIMES: 5, TEN_TIMES: 10}
_PERCENT = 100.0


class Used(NamedTuple):
    """A daemon's cost from its start to a moment.

    Attributes:
        at_s: the moment, in CLOCK_MONOTONIC.
        cpu_s: CPU time of the daemon and its processes.
        peak_bytes: the most memory of the daemon and its processes since the last one.
    """

    at_s: float
    cpu_s: float
    peak_bytes: int


class Ceiling:
    """The limits of a daemon, and the steps that it has taken.

    Attributes:
        steps: those that are in effect, in the order in which the daemon took them.
        cpu_percent: of the machine, over the last windows; 0 as long as it is unknown.
        peak_bytes: of the last window.
        since_s: the time of the last change of steps, in seconds since 1970; 0 for never.
    """

    def __init__(self, options: DaemonOptions, cpus: int) -> None:
        """Begin without steps."""
        self._cpus = cpus
        self.steps: list[int] = []
        self.cpu_percent, self.peak_bytes, self.since_s = 0.0, 0, 0.0
        self._history: deque[Used] = deque()
        self._calm_s, self._calm_since_s = CALM_S, float("inf")
        self._taken_back_s = float("-inf")
        self.follow(options)

    def follow(self, options: DaemonOptions) -> None:
        """Use other settings from now on."""
        self._options = options
        self.steps = [one for one in self.steps if one in self._possible()]
        self._history.clear()

    def note(self, used: Used) -> bool:
        """Note the cost until the end of a window; return whether steps have changed."""
        self.peak_bytes = used.peak_bytes
        if not self._history:
            # The first one is the start, or has the cost of the step.
            self._history.append(used)
            return False
        self._history.append(used)
        while len(self._history) > 2 and self._history[1].at_s <= used.at_s - AVERAGED_S:
            self._history.popleft()
        first = self._history[0]
        length_s = max(used.at_s - first.at_s, 1e-3)
        self.cpu_percent = _PERCENT * (used.cpu_s - first.cpu_s) / length_s / self._cpus
        # At first the daemon reads the names of all running programs, which no step makes cheaper.
        cpu = self.cpu_percent / self._options.cpu_limit_percent if length_s >= MEASURED_S else 0.0
        load = max(cpu, used.peak_bytes / self._options.memory_limit_bytes)
        if load > LIMIT_SHARE:
            self._calm_since_s = float("inf")
            # Longer windows take less CPU time, but not less memory.
            useless = set() if cpu > LIMIT_SHARE else set(_LENGTHS)
            return self._take(2 if load > 2.0 else 1, useless, used.at_s)
        if load < ROOM_SHARE and self.steps:
            self._calm_since_s = min(self._calm_since_s, used.at_s)
            if used.at_s - self._calm_since_s >= self._calm_s:
                self.steps.pop()
                self._taken_back_s, self._calm_since_s = used.at_s, float("inf")
                return self._changed()
        return False

    @property
    def options(self) -> DaemonOptions:
        """The settings with the changes of the steps."""
        steps, options = set(self.steps), self._options
        if COPIES in steps:
            options = replace(options, call_graph="fp")
        if CALLERS in steps:
            options = replace(options, call_graph="")
        if PYTHON in steps:
            options = replace(options, reads_python=False)
        longer = max((_LENGTHS.get(one, 1) for one in steps), default=1)
        return replace(
            options,
            window_s=options.window_s * longer,
            new_files=MOST_NEW_FILES if NEW_NAMES in steps else 0,
        )

    @property
    def asked(self) -> DaemonOptions:
        """The settings without the changes of the steps."""
        return self._options

    @property
    def words(self) -> str:
        """The steps, for people."""
        return "; ".join(STEPS[one] for one in self.steps)

    def notes(self) -> tuple[str, ...]:
        """Return a sentence for each step, for a window, with the count 1."""
        return step_notes(self.steps)

    def _possible(self) -> list[int]:
        options = self._options
        missing = set() if options.call_graph == "auto" else {COPIES}
        missing |= set() if options.call_graph else {CALLERS}
        return [one for one in STEPS if one not in missing]

    def _take(self, count: int, useless: set[int], now_s: float) -> bool:
        if now_s - self._taken_back_s < DIFFICULT_S:
            # The last step was taken back too early.
            self._calm_s = min(2 * self._calm_s, LONGEST_CALM_S)
        left = [one for one in self._possible() if one not in {*self.steps, *useless}]
        self.steps += left[:count]
        return self._changed() if left else False

    def _changed(self) -> bool:
        self._history.clear()
        self.since_s = time.time()
        return True


def step_notes(steps: Sequence[int]) -> tuple[str, ...]:
    """Return the sentence of a window for each step; `profile.run_info` adds up the counts."""
    return tuple(f"Limits of the daemon: windows with {STEPS[one]}: 1." for one in steps)
