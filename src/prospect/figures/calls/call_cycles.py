"""Routines that call each other in circles, and an order in which callees stand before callers.

Comes in: arcs between routines. Goes out: the circles, and all components of the graph.
Source: R. Tarjan, "Depth-first search and linear graph algorithms", SIAM J. Comput. 1972.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.records import Record, field

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray


def find_cycles(
    nodes: int, caller: NDArray[np.int64], callee: NDArray[np.int64]
) -> tuple[list[list[int]], list[list[int]]]:
    """Find the routines that call each other in circles.

    Returns:
        The cycles, in the order of the routines by which they are entered, which stand first in
        them; and all components of the graph, callees before callers.
    """
    callees: list[list[int]] = [[] for _ in range(nodes)]
    # As gprof, which puts each arc before those that it knows: its numbers of cycles are ours.
    for arc in range(len(caller) - 1, -1, -1):
        callees[int(caller[arc])].append(int(callee[arc]))
    search = _Search(callees, [-1] * nodes, [0] * nodes, [False] * nodes)
    for root in range(nodes):
        if search.number[root] < 0:
            search.visit(root)
    cycles = sorted(component for component in search.order if len(component) > 1)
    return cycles, search.order


class _Search(Record, frozen=False):
    """Tarjan's depth-first search; `order` gets the components, those that are called first."""

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
