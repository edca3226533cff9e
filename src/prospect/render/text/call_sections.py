"""The text of `prospect calls`, as docs/calls.md describes it: totals, trees, the graph of calls.

`calls_text` shows sampled stacks. `call_shares_text` shows calls counted without stacks, in
gprof's tables, which docs/formats.md describes. Calls Counted is a section of the report: the calls
of each function, its callers, and the time of a call.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np

from prospect.announcing import pluralize
from prospect.estimate.call_figures import CallNumbers, call_numbers
from prospect.figures.calls.calls_view import TOTALS
from prospect.figures.processes import asked_for
from prospect.figures.stacks.stack_quality import stack_quality
from prospect.records import Record
from prospect.render.escape import escaped
from prospect.render.name_parts import short_name, short_names
from prospect.render.renderer import encoded
from prospect.render.text.function_table import callees_columns
from prospect.render.text.quality_sections import stack_quality_lines
from prospect.render.text.style import (
    NO_NAME,
    Figures,
    Style,
    Words,
    microseconds,
    percent,
    percent_column,
    percent_digits,
)
from prospect.render.text.text_table import Column, columns_of, table_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.columns.array_types import F64, I64
    from prospect.estimate.call_figures import CallFigures
    from prospect.estimate.errors.call_estimates import CallEstimates
    from prospect.figures.calls.call_graph import Arcs
    from prospect.figures.calls.call_shares import CallShares
    from prospect.figures.calls.call_tree import CallTree
    from prospect.figures.calls.calls_view import CallsChoice, CallsView, EventCalls
    from prospect.profile.complete import CompleteProfile
    from prospect.render.text.style import Page


_NAME_WIDTH = 72
_RULE = "-" * 20
_MICROSECONDS = 1e6

_MOST_FUNCTIONS = 40
_MOST_CALLERS = 5
_MOST_OF_IT = 0.5
_UNKNOWN = "?"


def calls_text(
    view: CallsView, estimates: tuple[CallEstimates, ...], *, colour: bool = False
) -> Iterator[bytes]:
    """Return callers and callees by sampled stacks, for people."""
    style = Style(colour)
    quality = stack_quality(view.profile, view.detail)
    return encoded(
        itertools.chain(calls_lines(view, estimates, style), stack_quality_lines(quality, style))
    )


def calls_lines(
    view: CallsView, estimates: tuple[CallEstimates, ...], style: Style
) -> Iterator[str]:
    """Yield the lines without their ends."""
    yield from style.warnings(view.warnings)
    if not view.events:
        yield f"- {escaped(view.nothing)}"
    for event, known in zip(view.events, estimates, strict=True):
        yield from _event_lines(view, event, known, style)


def _event_lines(
    view: CallsView, event: EventCalls, estimates: CallEstimates, style: Style
) -> Iterator[str]:
    graph = event.graph
    figures = Figures(graph.hits, graph.seconds, has_time=event.has_time)
    seconds = f" = {figures.seconds(graph.seconds)} seconds" if event.has_time else ""
    term, sample = style.words.term, escaped(event.event.samples_word)
    unit = "microsecond" if event.event.is_waiting else term(sample)
    yield (
        f"Event: {escaped(event.event.name)}, {pluralize(graph.hits, unit)}{seconds}"
        f" of {asked_for(view.profile.run, view.detail)}"
    )
    if event.without_callers:
        share = percent(event.without_callers / graph.hits, percent_digits(graph.hits))
        remedy = f" {event.remedy}" if event.remedy else ""
        yield f"Note: {pluralize(event.without_callers, unit)} ({share}) without a caller.{remedy}"
    yield ""
    numbers = call_numbers(view)
    if event.callers is not None and view.choice.callers_of:  # what was asked for comes first
        yield from _callers(view, event, estimates, figures, style)
    if TOTALS in view.choice.sections:
        if rows := estimates.with_callees:
            yield from style.section("Functions that Spend Most, beyond the Trivial")
            yield from table_lines(
                *callees_columns(rows, figures, _samples_title(event, style.words))
            )
            yield ""
        yield from style.section(term("Functions by Total Time (with all that they call)"))
        yield from _totals(event, estimates, figures, numbers, style.words)
        yield ""
    if event.callees is not None:
        yield from style.section(term("Callees, from the Outermost Function on (top-down)"))
        yield from _tree(event.callees, estimates.callees_s, figures, graph.hits, style.words)
        yield from _left_out(view, style)
    if event.callers is not None and not view.choice.callers_of:
        yield from _callers(view, event, estimates, figures, style)
    if event.arcs is not None:
        yield from style.section(term("Call Graph (callers above each function, callees below)"))
        yield from _graph(event, event.arcs, figures, numbers, style.words)
        yield ""


def _callers(
    view: CallsView, event: EventCalls, estimates: CallEstimates, figures: Figures, style: Style
) -> Iterator[str]:
    if event.callers is None:
        return
    of = view.choice.callers_of
    title = (
        f"Callers of {escaped(of)}" if of else style.words.term("Callers of Each Function Sampled")
    )
    yield from style.section(f"{title}, from the Inside out (bottom-up)")
    if not len(event.callers):
        yield f"- No sample has '{escaped(of)}' on its stack; --inline finds inlined ones."
        yield ""
        return
    yield from _tree(event.callers, estimates.callers_s, figures, event.graph.hits, style.words)
    yield from _left_out(view, style)


def _left_out(view: CallsView, style: Style) -> Iterator[str]:
    yield ""
    yield style.cut(f"- Rows of less than {view.choice.share * 100:g}% are left out")
    yield ""


def _totals(
    event: EventCalls,
    estimates: CallEstimates,
    figures: Figures,
    numbers: CallNumbers | None,
    words: Words,
) -> Iterator[str]:
    graph, totals, rows = event.graph, event.totals, event.hottest
    digits = percent_digits(graph.hits)
    whole = max(graph.hits, 1)
    total_hits, self_hits = totals.total_hits.take(rows), totals.self_hits.take(rows)
    total_s, total_bars = figures.timed_columns(
        totals.total_s.take(rows).tolist(), estimates.total_s
    )
    self_s, self_bars = figures.timed_columns(totals.self_s.take(rows).tolist(), estimates.self_s)
    functions = graph.frames.function_index.take(rows).tolist()
    of_function = numbers.of_function if numbers else {}
    paths = [graph.object_path(row) for row in rows.tolist()]
    names = [escaped(graph.labels[row]) for row in rows.tolist()]
    yield from table_lines(
        Column("Total", total_s),
        Column("±", total_bars),
        Column("Pcnt", percent_column(total_hits / whole, digits)),
        Column("Self", self_s),
        Column("±", self_bars),
        Column("Pcnt", percent_column(self_hits / whole, digits)),
        Column(_samples_title(event, words), [str(count) for count in total_hits.tolist()]),
        Column("Calls", [_calls(of_function.get(one)) for one in functions], when=bool(numbers)),
        Column("Filename", [escaped(path.rpartition("/")[2]) for path in paths], right=False),
        Column(words.function_title, short_names(names, _NAME_WIDTH, paths), right=False),
    )
    more = int(np.count_nonzero(totals.total_hits)) - len(rows)
    if more > 0:
        yield f"- {pluralize(more, words.term('more function'))}: see them with --rows"


def _samples_title(event: EventCalls, words: Words) -> str:
    return "Usec" if event.event.is_waiting else words.term(escaped(event.event.samples_title))


def _calls(number: float | None) -> str:
    return "" if number is None else f"{number:.0f}"


def _tree(
    tree: CallTree, half_widths: F64, figures: Figures, hits: int, words: Words
) -> Iterator[str]:
    seconds, bars = figures.timed_columns(tree.total_s.tolist(), half_widths)
    yield from table_lines(
        Column("Secs", seconds),
        Column("±", bars),
        Column("Pcnt", percent_column(tree.hits / max(hits, 1), percent_digits(hits))),
        Column("Ended", figures.seconds_column(tree.ended_s)),
        Column(words.function_title, _indented(tree), right=False),
    )


def _indented(tree: CallTree) -> list[str]:
    """Return the functions of a tree indented by depth, with lines between siblings."""
    parents: list[int] = tree.parent.tolist()
    is_youngest = np.ones(len(parents), np.bool_)
    youngest: dict[int, int] = {}
    for row, parent in enumerate(parents):
        if parent in youngest:
            is_youngest[youngest[parent]] = False
        youngest[parent] = row
    lines: list[str] = []
    below: list[str] = []
    for row, parent in enumerate(parents):
        before = below[parent] if parent >= 0 else ""
        lines.append(before + short_name(escaped(tree.labels[int(tree.frame[row])]), _NAME_WIDTH))
        below.append(before + ("| " if parent >= 0 and not is_youngest[row] else "  "))
    return lines


def _graph(
    event: EventCalls, arcs: Arcs, figures: Figures, numbers: CallNumbers | None, words: Words
) -> Iterator[str]:
    """Yield a block for each function as gprof does: its callers, itself, its callees."""
    cells: list[tuple[str, ...]] = []
    graph, totals = event.graph, event.totals
    number = {frame: place for place, frame in enumerate(event.blocks.tolist(), start=1)}
    digits = percent_digits(graph.hits)
    called = numbers or CallNumbers({}, {})
    function: list[int] = graph.frames.function_index.tolist()

    def rows_of(chosen: I64, frames: I64) -> Iterator[tuple[str, ...]]:
        for arc in chosen.tolist():
            self_s, total_s = float(arcs.self_s[arc]), float(arcs.total_s[arc])
            times = (figures.seconds(self_s), figures.seconds(total_s - self_s))
            pair = function[arcs.caller[arc]], function[arcs.callee[arc]]
            calls = _calls(called.of_arc.get(pair))
            yield ("", "", *times, str(arcs.hits[arc]), calls, f"    {name(frames[arc])}")

    def name(frame: int) -> str:
        index = f" [{number[frame]}]" if frame in number else ""
        return short_name(escaped(graph.labels[frame]), _NAME_WIDTH) + index

    for frame in event.blocks.tolist():
        callers = np.flatnonzero((arcs.callee == frame) & (arcs.caller != frame))
        callees = np.flatnonzero((arcs.caller == frame) & (arcs.callee != frame))
        # The largest are next to the function itself.
        callers = callers[arcs.by_time(callers)[::-1]]
        callees = callees[arcs.by_time(callees)]
        cells += rows_of(callers, arcs.caller)
        self_s, total_s = float(totals.self_s[frame]), float(totals.total_s[frame])
        cells.append(
            (
                f"[{number[frame]}]",
                percent(totals.total_hits[frame] / max(graph.hits, 1), digits),
                figures.seconds(self_s),
                figures.seconds(total_s - self_s),
                str(totals.total_hits[frame]),
                _calls(called.of_function.get(function[frame])),
                name(frame),
            )
        )
        cells += rows_of(callees, arcs.callee)
        cells.append(("",) * 6 + (_RULE,))
    titles = ("Index", "Pcnt", "Self", "Children", _samples_title(event, words), "Calls")
    *columns, calls, names = columns_of(cells, titles, (words.function_title,))
    yield from table_lines(*columns, calls._replace(when=numbers is not None), names)


def call_shares_text(
    shares: CallShares, choice: CallsChoice, *, colour: bool = False
) -> Iterator[bytes]:
    """Return the tables of counted calls that are chosen, for people."""
    return encoded(_shares_lines(shares, choice, Style(colour)))


def _shares_lines(shares: CallShares, choice: CallsChoice, style: Style) -> Iterator[str]:
    run = shares.profile.run
    for limit in run.limits:
        yield style.warning(f"Note: {escaped(limit)}")
    digits = _digits(run.events[0].frequency_hz)
    yield (
        f"Event: {escaped(run.events[0].name)}, {pluralize(shares.ticks, 'sample')}"
        f" = {shares.total_s:.{digits}f} seconds; calls as counted"
    )
    yield ""
    if TOTALS in choice.sections:
        yield from style.section("Flat Profile (time of each function itself)")
        yield from _shares_flat(shares, digits, choice.most)
        yield ""
    if choice.sections != (TOTALS,):
        yield from style.section("Call Graph (callers above each function, callees below)")
        yield from _shares_graph(shares, digits, choice.share)
        if choice.share > 0:
            yield style.cut(f"- Functions of less than {choice.share * 100:g}% have no block")
        yield ""


def _shares_flat(shares: CallShares, digits: int, most: int) -> Iterator[str]:
    rows = shares.flat()
    cells: list[tuple[str, ...]] = []
    above = 0.0
    for row in rows[:most]:
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
    yield from table_lines(*columns_of(cells, titles, ("Function",)))
    if len(rows) > most:
        yield f"- {pluralize(len(rows) - most, 'more function')}: see them with --rows"


def _shares_graph(shares: CallShares, digits: int, least_share: float) -> Iterator[str]:
    number = {node: place for place, node in enumerate(shares.order.tolist(), start=1)}
    cells: list[tuple[str, ...]] = []
    for node in shares.order.tolist():
        own, below = float(shares.self_s[node]), float(shares.child_s[node])
        if own + below < least_share * shares.total_s:
            continue
        inner = int(shares.self_calls[node])
        calls = f"{shares.calls[node]}" + (f"+{inner}" if inner else "")
        block = _Block(shares, number, digits)
        if node < shares.functions:
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
        if node < shares.functions:
            cells += block.arcs(shares.callees(node), shares.callee.tolist())
        else:
            cells += block.members(int(shares.cycle[node]))
        cells.append(("",) * 5 + (_RULE,))
    titles = ("Index", "Pcnt", "Self", "Children", "Calls")
    yield from table_lines(*columns_of(cells, titles, ("Function",)))


class _Block(Record):
    """Rows of the graph around one node.

    Attributes:
        number: the index of each node.
        digits: of seconds.
    """

    shares: CallShares
    number: dict[int, int]
    digits: int

    def name(self, node: int) -> str:
        """Return a node's label with its cycle and index."""
        cycle = int(self.shares.cycle[node]) if node < self.shares.functions else 0
        inside = f" <cycle {cycle}>" if cycle else ""
        index = f" [{self.number[node]}]" if node in self.number else ""
        return f"{escaped(self.shares.labels[node])}{inside}{index}"

    def arcs(self, arcs: list[int], ends: list[int]) -> Iterator[tuple[str, ...]]:
        """Yield a row for each arc; `ends` has the function that each is shown by."""
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
        """Yield a row for each function of a cycle."""
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


def call_count_lines(page: Page) -> Iterator[str]:
    """Yield the section; nothing if calls were not counted."""
    report, style = page.report, page.style
    figures = page.event.call_counts if report.detail != "k" else None
    if figures is None:
        return
    counts = figures.counts
    term = style.words.term
    yield from style.section(term("Calls Counted (callers below each function)"))
    yield from map(style.warning, _warnings(figures, style))
    yield _how(figures)
    yield ""
    if len(figures):
        yield from _table(figures, report.profile, style)
    left = len(figures) - _MOST_FUNCTIONS
    if left > 0:
        yield style.cut(f"- {pluralize(left, term('more function'))} with fewer calls")
    if figures.uncalled:
        yield f"- {pluralize(figures.uncalled, term('more function'))} without a call"
    yield ""
    if counts.hook:
        name, *lines = counts.hook
        yield f"Entry hook {escaped(name)}, at each call that was counted:"
        yield from (f"  {escaped(line)}" for line in lines)
        yield ""


def _how(figures: CallFigures) -> str:
    """Return how calls were counted, and the cost of that."""
    counts = figures.counts
    cost = f"Probes took {counts.cost_s:.6f} seconds, {_share(counts.cost_share)} CPU time"
    if counts.windows is None and not counts.cost_s:
        return "Every call was counted."
    if counts.windows is None:
        return f"Every call was counted. {cost}."
    own_s, gap_s = float(counts.windows.own_s.sum()), float(counts.windows.gap_s.sum())
    share = own_s / (own_s + gap_s) if own_s + gap_s > 0 else 0.0
    is_known = bool(np.isfinite(figures.calls).any())
    rest = "are estimated for the rest" if is_known else "cannot be estimated for the rest"
    return (
        f"Calls were counted in {pluralize(len(counts.windows), 'window')}, {percent(share, 2)} of"
        f" the command's own time, and {rest}. {cost} (budget {counts.budget * 100:g}%)."
    )


def _share(share: float) -> str:
    return "nearly all of the command's" if share >= 1 else f"{percent(share, 2)} of the command's"


def _warnings(figures: CallFigures, style: Style) -> Iterator[str]:
    counts, function = figures.counts, style.words.term("function")
    if counts.cost_share > _MOST_OF_IT:
        yield (
            "Warning: probes took most of the command's CPU time: its times are not those of a run"
            " without them."
        )
    index = figures.counted_index[np.isnan(figures.calls)].tolist()
    unknown = sum(not counts.functions.left_out[row] for row in index)
    if unknown:
        yield (
            f"Warning: the calls of {pluralize(unknown, function)} (?) are not known: each was"
            " counted for too short a time."
        )
    if counts.dropped:
        yield f"Warning: {pluralize(counts.dropped, 'call')} found no room and are not counted."
    for name, why in zip(counts.functions.name, counts.functions.left_out, strict=True):
        if why:
            yield f"Warning: {escaped(name)} is left out: {escaped(why)}."


def _table(figures: CallFigures, profile: CompleteProfile, style: Style) -> Iterator[str]:
    rows = [
        cells
        for row in range(min(len(figures), _MOST_FUNCTIONS))
        for cells in (_function(figures, row), *_counted_callers(figures, row, profile))
    ]
    numbers = ("Calls", "±", "Pcnt", "Self usec", "Total usec")
    yield from table_lines(*columns_of(rows, numbers, ("Filename", style.words.function_title)))


def _function(figures: CallFigures, row: int) -> tuple[str, ...]:
    functions = figures.counts.functions
    index = int(figures.counted_index[row])
    calls, half = float(figures.calls[row]), float(figures.half_width[row])
    return (
        _UNKNOWN if math.isnan(calls) else f"{calls:.0f}",
        _UNKNOWN if math.isnan(half) else f"{half:.0f}",
        "",
        microseconds(float(figures.self_s[row]) / calls),
        microseconds(float(figures.total_s[row]) / calls),
        escaped(functions.object_path[index].rpartition("/")[2]),
        escaped(functions.name[index]),
    )


def _counted_callers(
    figures: CallFigures, row: int, profile: CompleteProfile
) -> Iterator[tuple[str, ...]]:
    """Yield the callers; estimated calls are divided as the counted ones are."""
    if math.isnan(float(figures.calls[row])):
        return
    callers, calls = figures.callers[row]
    whole = max(int(figures.counted[row]), 1)
    scale = float(figures.calls[row]) / whole
    functions, objects = profile.functions, profile.objects
    shown = zip(callers[:_MOST_CALLERS].tolist(), calls[:_MOST_CALLERS].tolist(), strict=True)
    for caller, number in shown:
        path = objects.path[int(functions.object_index[caller])]
        name = functions.name[caller] or NO_NAME
        yield (
            *(f"{number * scale:.0f}", "", percent(number / whole, 2), "", ""),
            escaped(path.rpartition("/")[2]),
            f"  <- {escaped(name)}",
        )
    rest = int(calls[_MOST_CALLERS:].sum())
    if rest:
        others = pluralize(len(callers) - _MOST_CALLERS, "more caller")
        yield (f"{rest * scale:.0f}", "", percent(rest / whole, 2), "", "", "", f"  <- {others}")
