"""Time with what functions called, from counted calls alone: the call graph of gprof.

It needs every call counted by caller, and no stacks. A function's time is divided among its callers
by how often each called it; functions that call each other in a circle are treated as one. The
method assumes that all calls of a function take equally long. A recording with call stacks needs
no such assumption.

Sources: S. Graham, P. Kessler, M. McKusick, "gprof: a Call Graph Execution Profiler", SIGPLAN 1982;
R. Tarjan, "Depth-first search and linear graph algorithms", SIAM J. Comput. 1972.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.grouping import exact_sums
from prospect.errors import UsageError
from prospect.figures.modes import event_seconds
from prospect.profile.complete import complete
from prospect.records import Record, field

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.columns.array_types import F64, I64, Bools
    from prospect.profile.complete import CompleteProfile
    from prospect.profile.model import Profile
    from prospect.profile.optional_tables import CallCounts


def find_cycles(nodes: int, caller: I64, callee: I64) -> tuple[list[list[int]], list[list[int]]]:
    """Find the functions that call each other in circles.

    Returns:
        The cycles, in the order of the functions that enter them, which are their first; and all
        components of the graph, callees before callers.
    """
    callees: list[list[int]] = [[] for _ in range(nodes)]
    # In reverse, as in gprof, which puts each arc first: the numbers of cycles are the same.
    for arc in range(len(caller) - 1, -1, -1):
        callees[int(caller[arc])].append(int(callee[arc]))
    search = _Search(callees, [-1] * nodes, [0] * nodes, [False] * nodes)
    for root in range(nodes):
        if search.number[root] < 0:
            search.visit(root)
    cycles = sorted(component for component in search.order if len(component) > 1)
    return cycles, search.order


class _Search(Record, frozen=False):
    """Tarjan's depth-first search; `order` becomes the components, callees first."""

    callees: Sequence[Sequence[int]]
    number: list[int]
    low: list[int]
    is_open: list[bool]
    open_nodes: list[int] = field(default_factory=list)
    order: list[list[int]] = field(default_factory=list)
    seen: int = 0

    def visit(self, root: int) -> None:
        path = [(root, 0)]
        self._enter(root)
        while path:
            node, place = path.pop()
            if place < len(self.callees[node]):
                path.append((node, place + 1))
                below = self.callees[node][place]
                if self.number[below] < 0:
                    self._enter(below)
                    path.append((below, 0))
                elif self.is_open[below]:
                    self.low[node] = min(self.low[node], self.number[below])
                continue
            if path:
                above = path[-1][0]
                self.low[above] = min(self.low[above], self.low[node])
            if self.low[node] == self.number[node]:
                self._close(node)

    def _enter(self, node: int) -> None:
        self.number[node] = self.low[node] = self.seen
        self.seen += 1
        self.open_nodes.append(node)
        self.is_open[node] = True

    def _close(self, node: int) -> None:
        component: list[int] = []
        while not component or component[-1] != node:
            component.append(self.open_nodes.pop())
            self.is_open[component[-1]] = False
        self.order.append(component[::-1])


class CallShares(Record):
    """The call graph; a node is a function or, after all functions, a cycle of functions.

    Attributes:
        profile: completed.
        cycle: i64[n] the number of the cycle that a node is (in), 0 for none.
        functions: how many nodes are functions; they have the rows of the profile's functions.
        self_s, child_s: f64[n] time in it, and in its callees; for a cycle, callees outside it.
        calls: i64[n] from others; for a cycle, from outside it.
        self_calls: i64[n] from itself; for a cycle, among its members.
        caller, callee: i64[a] functions.
        arc_calls: i64[a].
        arc_self_s, arc_child_s: f64[a] time charged to the caller; for an arc into a cycle, of the
            cycle's time. 0 within a cycle.
        order: i64[k] the nodes that ran or were called, by descending time.
        total_s, ticks: time and hits of all.
    """

    profile: CompleteProfile
    labels: list[str]
    cycle: I64
    functions: int
    self_s: F64
    child_s: F64
    calls: I64
    self_calls: I64
    caller: I64
    callee: I64
    arc_calls: I64
    arc_self_s: F64
    arc_child_s: F64
    order: I64
    total_s: float
    ticks: int

    def is_inner(self, arc: int) -> bool:
        """Return whether an arc is from a function to itself, or within a cycle."""
        caller, callee = int(self.caller[arc]), int(self.callee[arc])
        return caller == callee or 0 < self.cycle[caller] == self.cycle[callee]

    def whole_calls(self, function: int) -> int:
        """Return the calls of a function or its cycle, of which arcs into it are a part."""
        return int(self.calls[self.head(function)])

    def head(self, function: int) -> int:
        """Return the node of a function: its cycle, or itself."""
        number = int(self.cycle[function])
        return self.functions + number - 1 if number else function

    def members(self, number: int) -> list[int]:
        """Return the functions of a cycle, most time first, then most calls."""
        found = np.flatnonzero(self.cycle[: self.functions] == number).tolist()
        times, calls = self.self_s + self.child_s, self.calls + self.self_calls
        return sorted(found, key=lambda node: (-times[node], -calls[node], node))

    def callers(self, function: int) -> list[int]:
        """Return the arcs into a function, the one with most time last."""
        return sorted(np.flatnonzero(self.callee == function).tolist(), key=self._weight)

    def callees(self, function: int) -> list[int]:
        """Return the arcs out of a function, the one with most time first."""
        arcs = np.flatnonzero(self.caller == function).tolist()
        return sorted(arcs, key=self._weight, reverse=True)

    def flat(self) -> list[int]:
        """Return the functions that ran or were called, by descending own time."""
        has_any = (self.self_s > 0) | (self.calls > 0)
        rows = [
            node for node in self.order[has_any.take(self.order)].tolist() if node < self.functions
        ]
        return sorted(rows, key=lambda row: (-self.self_s[row], -self.calls[row], self.labels[row]))

    def _weight(self, arc: int) -> tuple[int, float, int]:
        is_self = self.caller[arc] == self.callee[arc]
        kind = 0 if is_self else 1 if self.is_inner(arc) else 2
        return kind, float(self.arc_self_s[arc] + self.arc_child_s[arc]), int(self.arc_calls[arc])


def has_call_shares(profile: Profile) -> bool:
    """Return whether a profile has no more than sums of time, and every call by caller."""
    counts = profile.call_counts
    has_more = profile.stacks is not None or len(profile.samples) > 0
    return not has_more and counts is not None and counts.windows is None


def call_shares(profile: Profile) -> CallShares:
    """Divide the time of each function among its callers, by counted calls.

    Raises:
        UsageError: calls were not counted, or not all of them.
    """
    counts = profile.call_counts
    if counts is None or counts.windows is not None:
        raise UsageError("the calls of this recording were not all counted")
    profile = complete(profile)
    own_s = _own_seconds(profile)
    caller, callee, calls = _arcs(counts, len(profile.functions))
    is_self = caller == callee
    members, topological = find_cycles(len(own_s), caller, callee)
    cycle = np.zeros(len(own_s) + len(members), np.int64)
    head = np.arange(len(own_s))
    for number, rows in enumerate(members, start=1):
        cycle[rows] = cycle[len(own_s) + number - 1] = number
        head[rows] = len(own_s) + number - 1
    is_inner = head.take(caller) == head.take(callee)
    nodes = len(cycle)
    counted = exact_sums(callee, calls * ~is_self, nodes)
    counted += exact_sums(
        head.take(callee), calls * (~is_inner & (head.take(callee) >= len(own_s))), nodes
    )
    inner = exact_sums(callee, calls * is_self, nodes)
    inner += exact_sums(head.take(callee), calls * (is_inner & ~is_self), nodes)
    self_s = np.append(own_s, [own_s[rows].sum() for rows in members])
    graph = _Arcs(caller, callee, calls, head, is_inner)
    child_s, arc_self_s, arc_child_s = _propagate(graph, topological, self_s, counted)
    labels = [name or "[unknown]" for name in profile.functions.name]
    labels += [f"<cycle {number} as a whole>" for number in range(1, len(members) + 1)]
    return CallShares(
        profile=profile,
        labels=labels,
        cycle=cycle,
        functions=len(own_s),
        self_s=self_s,
        child_s=child_s,
        calls=counted,
        self_calls=inner,
        caller=caller,
        callee=callee,
        arc_calls=calls,
        arc_self_s=arc_self_s,
        arc_child_s=arc_child_s,
        order=_by_time(self_s + child_s, counted, inner, labels, len(own_s)),
        total_s=float(own_s.sum()),
        ticks=int(profile.hits.count.sum()),
    )


def _own_seconds(profile: CompleteProfile) -> F64:
    """Return f64[f]: the time of each function, of the first event."""
    hits = profile.hits
    is_first = hits.event == 0
    seconds = event_seconds(profile.run.events[0], hits.count, hits.period) * is_first
    function = profile.locations.function_index.take(hits.location_index)
    return np.bincount(function, seconds, len(profile.functions)).astype(np.float64)


def _arcs(counts: CallCounts, functions: int) -> tuple[I64, I64, I64]:
    """Return caller, callee and calls of each pair of functions, in the order of the counts."""
    callee = counts.functions.function_index.take(counts.counted_index).astype(np.int64)
    caller = counts.caller_index.astype(np.int64)
    known = np.flatnonzero((callee >= 0) & (caller >= 0))
    room = functions + 1
    pairs, first, arc = np.unique(
        caller.take(known) * room + callee.take(known), return_index=True, return_inverse=True
    )
    order = np.argsort(first, kind="stable")
    calls = exact_sums(arc.astype(np.int64), counts.calls.take(known), len(pairs)).take(order)
    return (pairs // room).take(order), (pairs % room).take(order), calls


class _Arcs(Record):
    """Arcs, the node of each function, and which arcs are within a cycle."""

    caller: I64
    callee: I64
    calls: I64
    head: I64
    is_inner: Bools


def _propagate(
    arcs: _Arcs, topological: list[list[int]], self_s: F64, counted: I64
) -> tuple[F64, F64, F64]:
    """Charge callers, from the functions that call nothing upwards.

    Returns:
        f64[n] the time of each node's callees, and of each arc f64[a] the callee's own part and the
        rest.
    """
    child_s = np.zeros(len(self_s))
    arc_self_s, arc_child_s = np.zeros(len(arcs.calls)), np.zeros(len(arcs.calls))
    outgoing: dict[int, list[int]] = {}
    for arc in np.flatnonzero(~arcs.is_inner & (arcs.calls > 0)).tolist()[::-1]:
        outgoing.setdefault(int(arcs.caller[arc]), []).append(arc)
    for component in topological:
        for function in component:
            for arc in outgoing.get(function, ()):
                callee = int(arcs.head[arcs.callee[arc]])
                part = float(arcs.calls[arc]) / float(counted[callee])
                arc_self_s[arc] = self_s[callee] * part
                arc_child_s[arc] = child_s[callee] * part
                child_s[function] += arc_self_s[arc] + arc_child_s[arc]
            head = int(arcs.head[function])
            if head != function:
                child_s[head] += child_s[function]
    return child_s, arc_self_s, arc_child_s


def _by_time(total_s: F64, calls: I64, self_calls: I64, labels: list[str], functions: int) -> I64:
    """Order the nodes with any figure; for equal times cycles come first, then most calls."""
    rows = np.flatnonzero((total_s > 0) | (calls > 0) | (self_calls > 0)).tolist()

    def key(node: int) -> tuple[float, bool, bool, int, str]:
        label = labels[node]
        return -total_s[node], node < functions, label.startswith("_"), -int(calls[node]), label

    return np.array(sorted(rows, key=key), np.int64)
