"""--count-calls: counts calls of chosen functions by probes at their entries, within a budget.

docs/call-counts.md describes the result under `calls`. A thread of the recorder opens and closes
windows; only the kernel's probes run in the counted processes.

If the budget allows it, the first window never ends, and counts are exact. Otherwise windows are
short and at random distances, so that no period of the program is aliased with them. `Windows`
plans them from the calls of each window, their cost, and the CPU time of the command and its
descendants without the probes' time. So a program that waits, or that probes slow down, does not
look like one that calls less often.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import defaultdict
from enum import Enum
from typing import TYPE_CHECKING, Any

from prospect.abi import constants as perf
from prospect.abi.attr import EventAttr
from prospect.capture.capture_limits import MOST_WINDOW_ROWS
from prospect.capture.counting.call_probes import CallProbes, ProbeCost, kind_of
from prospect.capture.counting.entry_hook import entry_hook
from prospect.capture.counting.syscall_counts import Counted, refusal
from prospect.capture.kernel import perf_syscalls
from prospect.errors import CaptureError, PluginError
from prospect.light import monotonic_ns
from prospect.records import Record, field

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prospect.capture.counting.call_probes import Function

WINDOW_S = 0.01
# The interval between looks at the cost while counting is cheap.
LONGEST_S = 0.1
# The largest share of a window's CPU time for probes. The share has an error of some percent, and
# the program's own time is the rest.
_MOST_SHARE = 0.5
_NEEDED = "6.6 or later, built with CONFIG_BPF_SYSCALL and CONFIG_UPROBE_EVENTS"
_SHORTEST_PAUSE_S = 0.005
# In a long run windows are farther apart: a few hundred an hour.
_MOST_WINDOWS_AT_ONCE = 256
_LEAST_CPU_NS = 1_000_000
# A budget of 100 % is bounded too, or a program of 0.1 s might run for minutes: beyond this cost,
# probes take at most half of the CPU time. A larger share could not be kept, because the cost is
# not known exactly enough to distinguish 95 % from 80 %.
GRANTED_NS = 5_000_000_000


class Windows(Record, frozen=False):
    """The windows of a run so far, and the rules for the next.

    Attributes:
        budget: share of the command's CPU time that probes may take, bounded by `_MOST_SHARE`;
            1 counts every call until that has cost `GRANTED_NS`.
        random: draws the distances.
        own_ns: by window, the CPU time of the command without the probes' time; 0 if unknown.
        gap_ns: by window, the same from its end to the next window.
        cost_ns: CPU time of all probes so far.
        cpu_ns: CPU time of the command so far, with the probes.
    """

    budget: float
    random: random.Random = field(default_factory=random.Random)
    own_ns: list[float] = field(default_factory=list)
    gap_ns: list[float] = field(default_factory=list)
    cost_ns: float = 0.0
    cpu_ns: int = 0

    def add_window(self, cpu_ns: int, cost_ns: float) -> None:
        """Add a window in which the command used `cpu_ns`, `cost_ns` of these for probes.

        If probes took most of it, the command's own time is unknown, and counts as 0.
        """
        is_known = cost_ns <= _MOST_SHARE * cpu_ns
        self.own_ns.append(cpu_ns - cost_ns if is_known else 0.0)
        self.gap_ns.append(0.0)
        self._spend(cpu_ns, cost_ns)

    def extend_window(self, cpu_ns: int, cost_ns: float) -> None:
        """Add the time until the last window was closed to it."""
        if self.own_ns[-1]:
            self.own_ns[-1] = max(self.own_ns[-1] + cpu_ns - cost_ns, 0.0)
        self._spend(cpu_ns, cost_ns)

    def add_gap(self, cpu_ns: int, cost_ns: float) -> None:
        """Add time after the last window; probes cost time until they are removed."""
        if self.gap_ns:
            self.gap_ns[-1] += max(cpu_ns - cost_ns, 0.0)
        self._spend(cpu_ns, cost_ns)

    @property
    def is_within_budget(self) -> bool:
        """Whether counting may continue now."""
        if self.budget >= 1 and self.cost_ns <= GRANTED_NS:
            return True
        return self.cost_ns <= self._share * self.cpu_ns

    @property
    def is_exact(self) -> bool:
        """Whether no call was missed so far."""
        return not any(self.gap_ns)

    def pause_s(self, elapsed_s: float) -> float:
        """Return the wait until the next look; `elapsed_s` is the time since counting began."""
        owed_ns = self.cost_ns / self._share - self.cpu_ns
        pace = self.cpu_ns / max(elapsed_s, WINDOW_S)  # CPU time, in ns a second
        wait_s = owed_ns / pace if pace > 0 else LONGEST_S
        apart_s = max(wait_s, _SHORTEST_PAUSE_S, elapsed_s / _MOST_WINDOWS_AT_ONCE)
        return min(apart_s, 10.0) * self.random.uniform(0.5, 1.5)

    def too_hot(self, cpu_ns: int, cost_of: Mapping[int, float]) -> dict[int, float]:
        """Return the functions that were called too often in a window, with their shares.

        Args:
            cpu_ns: the window's CPU time.
            cost_of: the part of it that each function's probes took.
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


_LARGEST_I64 = (1 << 63) - 1
_SHOWN_LEFT_OUT = 5
# From this budget on, a command may take twice its CPU time, which is worth a warning.
_EXPENSIVE_BUDGET = 0.5


class _Part(Enum):
    """The kind of a stretch of time: a window, the end of the last one, the gap after it."""

    WINDOW = 0
    TAIL = 1
    GAP = 2


def require_known_machine() -> None:
    """Refuse to count calls on a machine whose probes are unknown, before looking up functions.

    Raises:
        CaptureError: this is not an x86-64.
    """
    if os.uname().machine != "x86_64":
        raise CaptureError(f"--count-calls works on x86_64, not on {os.uname().machine}")


class CallCounter:
    """The kernel's counters of calls: `open`, `start`, `finish`, `close`."""

    def __init__(self, functions: Sequence[Function], budget: float) -> None:
        self._functions = functions
        self._probes = CallProbes(functions)
        self._windows = Windows(budget)
        self._kinds = [kind_of(function.code) for function in functions]
        self._costs: dict[str, ProbeCost] = {}
        self._left_out: dict[int, str] = {}
        self._by_window: list[tuple[int, int, int, int]] = []
        self._clock_fd = -1
        self._cpu_ns = self._place_ns = 0
        self._interval_ns = (0, 0)
        self._done = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure = ""
        self._hook_failure = ""

    def open(self, pid: int) -> None:
        """Load the program and measure the cost of probes, without counting anything yet.

        Raises:
            CaptureError: the kernel refuses; the message says what to do.
        """
        try:
            self._probes.open()
            self._clock_fd = _open_clock(pid)
            self._costs = {kind: self._probes.measure_cost(kind) for kind in sorted({*self._kinds})}
            for number in self._probes.find_impossible():
                self._left_out[number] = "the kernel cannot probe its first instruction"
            self._probes.take()  # discards the measured calls
        except OSError as error:
            raise refusal(error, "--count-calls", _NEEDED) from error
        if len(self._left_out) == len(self._functions):
            raise CaptureError("--count-calls: the kernel can probe none of these functions")

    @property
    def warning(self) -> str:
        """A sentence on the cost of the budget to COMMAND; "" for a small one. After `open`."""
        budget = self._windows.budget
        if budget < _EXPENSIVE_BUDGET:
            return ""
        costs = sorted(cost.cost_ns / 1e3 for cost in self._costs.values())
        bound = "up to twice its CPU time"
        if budget >= 1:
            bound += f", and {GRANTED_NS / 1e9:g} s more"
        return (
            f"--count-budget {budget * 100:g}%: a call of a counted function takes"
            f" {_span(costs[0], costs[-1])} us longer; COMMAND may take {bound}. Functions whose"
            " probes would cost more are left out."
        )

    def add_hook(self, name: str, pid: int) -> None:
        """Run a hook in COMMAND at the counted functions; leave out one that fails.

        Raises:
            UsageError: there is no hook with this name.
        """
        try:
            names = [os.fsdecode(function.name) for function in self._functions]
            self._probes.hook = entry_hook(name, names, pid)
        except PluginError as error:
            self._hook_failure = f"{error}; it is left out."

    def start(self) -> None:
        """Begin to count.

        Raises:
            CaptureError: the kernel refuses.
        """
        try:
            self._place()
            self._probes.open_gate()
        except OSError as error:
            raise refusal(error, "--count-calls", _NEEDED) from error
        self._cpu_ns = self._read_clock()
        self._interval_ns = (monotonic_ns(), 0)
        self._thread = threading.Thread(target=self._run, name="calls", daemon=True)
        self._thread.start()

    def finish(self) -> Counted:
        """Stop counting; return the counts."""
        self._end_thread()
        self._interval_ns = (self._interval_ns[0], monotonic_ns())
        try:
            document = self._document()
        except OSError as error:
            return Counted({}, (f"The counts of calls cannot be read: {error.strerror}.",))
        return Counted(document, self._limits())

    def close(self) -> None:
        """Close all descriptors; the kernel then removes everything."""
        self._end_thread()
        self._probes.close()
        if self._probes.hook:
            self._probes.hook.close()
        if self._clock_fd >= 0:
            os.close(self._clock_fd)
            self._clock_fd = -1

    def _end_thread(self) -> None:
        self._done.set()
        if self._thread:
            self._thread.join()
            self._thread = None

    def _counted(self) -> list[int]:
        return [row for row in range(len(self._functions)) if row not in self._left_out]

    def _place(self) -> None:
        begin_ns = monotonic_ns()
        self._probes.place(self._counted())
        self._place_ns = max(self._place_ns, monotonic_ns() - begin_ns)

    def _read_clock(self) -> int:
        return int.from_bytes(os.read(self._clock_fd, 8), "little")

    def _run(self) -> None:
        """Open and close windows until the end; runs in a thread."""
        try:
            self._run_windows()
            self._look(_Part.WINDOW if self._probes.are_placed else _Part.GAP)
            self._probes.close_gate()
        except OSError as error:
            self._failure = f"Counting calls ended early: {error.strerror}."

    def _run_windows(self) -> None:
        began = time.monotonic()
        window_s = WINDOW_S
        while not self._done.wait(window_s):
            self._look(_Part.WINDOW)
            if self._windows.is_within_budget:
                window_s = min(2 * window_s, LONGEST_S)
                continue
            window_s = WINDOW_S
            self._probes.close_gate()
            self._look(_Part.TAIL)
            self._probes.remove()
            if not self._wait_for_budget(began) or not self._counted():
                return
            self._place()
            self._look(_Part.GAP)
            self._probes.open_gate()

    def _wait_for_budget(self, began: float) -> bool:
        """Wait until another window may open; return False at the end."""
        self._look(_Part.GAP)
        while not self._done.wait(self._windows.pause_s(time.monotonic() - began)):
            self._look(_Part.GAP)
            if self._windows.is_within_budget:
                return len(self._by_window) < MOST_WINDOW_ROWS
        return False

    def _look(self, part: _Part) -> None:
        """Add the calls and CPU time since the last look to the windows."""
        cpu_ns = self._read_clock()
        used_ns, self._cpu_ns = cpu_ns - self._cpu_ns, cpu_ns
        cost_of: dict[int, float] = defaultdict(float)
        counted: dict[tuple[int, int], int] = defaultdict(int)
        for row in self._probes.take():
            cost_of[row.function] += row.calls * self._costs[self._kinds[row.function]].cost_ns
            if row.is_open:
                counted[row.function, row.pid] += row.calls
        total_ns = sum(cost_of.values())
        window = len(self._windows.own_ns) - (part is not _Part.WINDOW)
        self._by_window += [(window, *key, calls) for key, calls in counted.items()]
        if part is _Part.GAP:
            self._windows.add_gap(used_ns, total_ns)
        elif part is _Part.TAIL:
            self._windows.extend_window(used_ns, total_ns)
        else:
            self._windows.add_window(used_ns, total_ns)
            for number, share in self._windows.too_hot(used_ns, cost_of).items():
                self._left_out[number] = f"probes took {min(share, 1):.0%} of the time at its calls"

    def _document(self) -> dict[str, Any]:
        windows, kinds = self._windows, sorted(self._costs)
        is_exact = windows.is_exact and not self._failure
        rows = [
            (row.function, row.pid, min(row.caller, _LARGEST_I64), row.calls, row.first_ns)
            for row in self._probes.rows()
            if row.is_open
        ]
        return self._hook_lines() | {
            "interval_ns": list(self._interval_ns),
            "budget": windows.budget,
            "is_exact": is_exact,
            "dropped": self._probes.dropped(),
            "place_ns": self._place_ns,
            "cost_ns": round(windows.cost_ns),
            "cpu_ns": windows.cpu_ns,
            "kinds": {
                "name": kinds,
                "cost_ns": [self._costs[kind].cost_ns for kind in kinds],
                "spread_ns": [self._costs[kind].spread_ns for kind in kinds],
            },
            "functions": {
                "name": [os.fsdecode(function.name) for function in self._functions],
                "object": [function.object_path for function in self._functions],
                "address": [function.address for function in self._functions],
                "kind": [kinds.index(kind) for kind in self._kinds],
                "left_out": [self._left_out.get(row, "") for row in range(len(self._functions))],
            },
            "counts": _columns(("function", "pid", "caller", "calls", "first_ns"), rows),
            "windows": {
                "own_ns": [] if is_exact else [round(own) for own in windows.own_ns],
                "gap_ns": [] if is_exact else [round(gap) for gap in windows.gap_ns],
            },
            "by_window": _columns(
                ("window", "function", "pid", "calls"), [] if is_exact else self._by_window
            ),
        }

    def _hook_lines(self) -> dict[str, Any]:
        hook = self._probes.hook
        if hook:
            try:
                return {"hook": {"name": hook.name, "lines": hook.lines()}}
            except PluginError as error:
                self._hook_failure = f"{error}; its result is not known."
        return {}

    def _limits(self) -> tuple[str, ...]:
        found = [*filter(None, (self._failure, self._hook_failure))]
        left_out = sorted(self._left_out.items())
        for number, reason in left_out[:_SHOWN_LEFT_OUT]:
            name = os.fsdecode(self._functions[number].name)
            found.append(f"--count-calls: {name} is left out: {reason}.")
        if len(left_out) > _SHOWN_LEFT_OUT:
            more = len(left_out) - _SHOWN_LEFT_OUT
            found.append(f"--count-calls: {more} more functions are left out.")
        return tuple(found)


def _span(least: float, most: float) -> str:
    return f"{least:.2g}" if least == most else f"{least:.2g} to {most:.2g}"


def _columns(names: Sequence[str], rows: Sequence[tuple[int, ...]]) -> dict[str, list[int]]:
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}


def _open_clock(pid: int) -> int:
    """Open a counter of the CPU time of a process and its descendants."""
    attr = EventAttr(
        type=perf.PERF_TYPE_SOFTWARE, config=perf.PERF_COUNT_SW_TASK_CLOCK, flags=perf.FLAG_INHERIT
    )
    return perf_syscalls.perf_event_open(attr.pack(), pid, -1)
