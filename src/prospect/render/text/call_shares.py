"""The text of `prospect calls` where calls were counted and stacks are not known: gprof's tables.

Comes in: `CallShares`. Goes out: UTF-8 lines; docs/formats.md describes them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from prospect.announcing import counted
from prospect.records import Record
from prospect.render.escape import escaped
from prospect.render.renderer import encoded, write_pieces
from prospect.render.text.columns import columns_of, table_lines
from prospect.render.text.style import Style

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from prospect.figures.calls.call_shares import CallShares

_RULE = "-" * 20
_MICROSECONDS = 1e6


class TextCallShares(Record):
    """Who called whom how often, for people.

    Attributes:
        flat, graph: which tables are wanted.
        most: rows of the flat profile.
        share: nodes with a smaller part of the time have no block in the graph.
        colour: mark titles for a terminal.
    """

    flat: bool = True
    graph: bool = True
    most: int = 20
    share: float = 0.0
    colour: bool = False

    def render(self, shares: CallShares, out: BinaryIO) -> None:
        """Write the tables to `out`, which stays open.

        Raises:
            RenderError: `out` cannot be written.
        """
        write_pieces(encoded(self._lines(shares)), out)

    def _lines(self, shares: CallShares) -> Iterator[str]:
        style = Style(self.colour)
        run = shares.profile.run
        for limit in run.limits:
            yield style.warning(f"Note: {escaped(limit)}")
        digits = _digits(run.events[0].frequency_hz)
        yield (
            f"Event: {escaped(run.events[0].name)}, {counted(shares.ticks, 'hit')}"
            f" = {shares.total_s:.{digits}f} seconds; calls as counted"
        )
        yield ""
        if self.flat:
            yield from style.section("Flat Profile (time of each routine itself)")
            yield from self._flat(shares, digits)
            yield ""
        if self.graph:
            yield from style.section("Call Graph (callers above each routine, callees below)")
            yield from self._graph(shares, digits)
            if self.share > 0:
                yield style.cut(f"- Routines of less than {self.share * 100:g}% have no block")
            yield ""

    def _flat(self, shares: CallShares, digits: int) -> Iterator[str]:
        rows = shares.flat()
        cells: list[tuple[str, ...]] = []
        above = 0.0
        for row in rows[: self.most]:
            own, calls = float(shares.self_s[row]), int(shares.calls[row])
            above += own
            each = ("", "", "")
            if calls:
                total = own + float(shares.child_s[row])
                each = (
                    str(calls),
                    f"{own / calls * _MICROSECONDS:.2f}",
                    f"{total / calls * _MICROSECONDS:.2f}",
                )
            name = escaped(shares.labels[row])
            times = (f"{above:.{digits}f}", f"{own:.{digits}f}")
            cells.append((_percent(own, shares), *times, *each, name))
        titles = ("Pcnt", "Cumulative", "Self", "Calls", "Self us/call", "Total us/call")
        yield from table_lines(columns_of(cells, titles, ("Routine name",)))
        if len(rows) > self.most:
            yield f"- {counted(len(rows) - self.most, 'more routine')}: see them with --rows"

    def _graph(self, shares: CallShares, digits: int) -> Iterator[str]:
        number = {node: place for place, node in enumerate(shares.order.tolist(), start=1)}
        cells: list[tuple[str, ...]] = []
        for node in shares.order.tolist():
            own, below = float(shares.self_s[node]), float(shares.child_s[node])
            if own + below < self.share * shares.total_s:
                continue
            inner = int(shares.self_calls[node])
            calls = f"{shares.calls[node]}" + (f"+{inner}" if inner else "")
            block = _Block(shares, number, digits)
            if node < shares.routines:
                cells += block.arcs(shares.callers(node), shares.caller.tolist())
                if not shares.callers(node):
                    cells.append(("",) * 5 + ("    <spontaneous>",))
            cells.append(
                (
                    f"[{number[node]}]",
                    _percent(own + below, shares),
                    f"{own:.{digits}f}",
                    f"{below:.{digits}f}",
                    calls if shares.calls[node] or inner else "",
                    block.name(node),
                )
            )
            if node < shares.routines:
                cells += block.arcs(shares.callees(node), shares.callee.tolist())
            else:
                cells += block.members(int(shares.cycle[node]))
            cells.append(("",) * 5 + (_RULE,))
        titles = ("Index", "Pcnt", "Self", "Children", "Calls")
        yield from table_lines(columns_of(cells, titles, ("Routine name",)))


class _Block(Record):
    """Rows of the graph around one node.

    Attributes:
        shares: the graph.
        number: the index of each node.
        digits: of seconds.
    """

    shares: CallShares
    number: dict[int, int]
    digits: int

    def name(self, node: int) -> str:
        """Return a node's label with its cycle and index."""
        cycle = int(self.shares.cycle[node]) if node < self.shares.routines else 0
        inside = f" <cycle {cycle}>" if cycle else ""
        index = f" [{self.number[node]}]" if node in self.number else ""
        return f"{escaped(self.shares.labels[node])}{inside}{index}"

    def arcs(self, arcs: list[int], ends: list[int]) -> Iterator[tuple[str, ...]]:
        """Yield a row for each arc; `ends` has the routine that each is shown by."""
        shares = self.shares
        for arc in arcs:
            name = f"    {self.name(ends[arc])}"
            calls = str(shares.arc_calls[arc])
            if shares.is_inner(arc):
                yield "", "", "", "", calls, name
                continue
            times = (shares.arc_self_s[arc], shares.arc_child_s[arc])
            whole = shares.whole_calls(int(shares.callee[arc]))
            yield "", "", *(f"{time:.{self.digits}f}" for time in times), f"{calls}/{whole}", name

    def members(self, cycle: int) -> Iterator[tuple[str, ...]]:
        """Yield a row for each routine of a cycle."""
        shares = self.shares
        for node in shares.members(cycle):
            times = (shares.self_s[node], shares.child_s[node])
            inner = int(shares.self_calls[node])
            calls = f"{shares.calls[node]}" + (f"+{inner}" if inner else "")
            yield (
                "",
                "",
                *(f"{time:.{self.digits}f}" for time in times),
                calls,
                f"    {self.name(node)}",
            )


def _percent(seconds: float, shares: CallShares) -> str:
    return f"{100 * seconds / shares.total_s if shares.total_s > 0 else 0.0:.1f}%"


def _digits(rate_hz: float) -> int:
    """Return how many decimals of a second a tick has."""
    return min(max(math.ceil(math.log10(max(rate_hz, 1.0))), 2), 6)
