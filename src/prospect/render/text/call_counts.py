"""The section Calls Counted: how often functions were called, by whom, and what a call took."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from prospect.announcing import pluralize
from prospect.render.escape import escaped
from prospect.render.text.numbers import microseconds, percent
from prospect.render.text.style import NO_NAME
from prospect.render.text.text_table import columns_of, table_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.estimate.call_figures import CallFigures
    from prospect.profile.complete import CompleteProfile
    from prospect.render.text.style import Page, Style

_MOST_FUNCTIONS = 40
_MOST_CALLERS = 5
_MOST_OF_IT = 0.5
_UNKNOWN = "?"


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
    """Say how calls were counted, and what that cost."""
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
        for cells in (_function(figures, row), *_callers(figures, row, profile))
    ]
    numbers = ("Calls", "±", "Pcnt", "Self usec", "Total usec")
    yield from table_lines(columns_of(rows, numbers, ("Filename", style.words.function_title)))


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


def _callers(figures: CallFigures, row: int, profile: CompleteProfile) -> Iterator[tuple[str, ...]]:
    """Yield the callers; if calls were estimated, those of callers are the same shares of them."""
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
