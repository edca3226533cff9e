"""Output cells of a notebook: a profile, a comparison or counts as HTML.

A cell is readable wherever notebooks are shown. It has no script, link, class, id or style sheet,
so it does not interfere with other cells. Tags, attributes and colours are those that JupyterLab
keeps in untrusted notebooks. A site that drops all styling shows tables, and flame graphs as nested
lists: trees of calls with the share of each. Figures are those of the text report.
Source: JupyterLab, packages/apputils/src/sanitizer.ts.
"""

from __future__ import annotations

import colorsys
import html
from typing import TYPE_CHECKING

from prospect.announcing import pluralize
from prospect.estimate.breakdown import Bound, rows_by_keys
from prospect.estimate.finished_report import Report
from prospect.figures.remarks import run_notes, run_warnings
from prospect.figures.report.counters import run_counters
from prospect.figures.stacks.stack_weights import stack_samples, with_waits
from prospect.render.comparison_words import compared_line, unit_of, verdict_line
from prospect.render.escape import display_width, escaped, shortened
from prospect.render.flame_boxes import flame_graph
from prospect.render.name_parts import short_name
from prospect.render.text.counts import count_columns, counts_title, time_lines
from prospect.render.text.first_screen import in_short_plain
from prospect.render.text.style import Figures, percent_column, percent_digits
from prospect.render.text.text_diff import change_columns, total_columns
from prospect.render.text.text_table import Column

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prospect.estimate.breakdown import Breakdown
    from prospect.estimate.compare.comparison import Comparison
    from prospect.options import Detail
    from prospect.profile.event_counts import EventCounts
    from prospect.profile.model import Profile
    from prospect.render.flame_boxes import Box, FlameGraph

_ROWS = 15
_DETAIL: Detail = "3"
_NAME_WIDTH = 56
_LONGEST_HINT = 240
_FIGURE_SPACE = "\N{FIGURE SPACE}"
_LEFT = "text-align:left;white-space:nowrap"
_RIGHT = "text-align:right;white-space:nowrap"
_BAR = "rgba(240,140,60,0.35)"
_CLEAR = "rgba(0,0,0,0)"


def profile_cell(profile: Profile) -> str:
    """Return a profile: its hottest functions, its flame graph, and its notes."""
    with Report(profile, _DETAIL, 0.0, 0.0) as report:
        hottest = hottest_functions(report)
        graph = flame_graph(
            stack_samples(with_waits(profile), report.detail), inlined=profile.lines is not None
        )
        notes = run_notes(report.profile, [hottest.event], asked=_DETAIL, shown=report.detail)
        if profile.stacks is None and len(profile.hits):
            notes += ("Callers are not shown: they come with stacks=True of open and record.",)
        return _cell(
            f"<pre>{'<br>'.join(map(_text, in_short_plain(report, '')[1]))}</pre>",
            _warnings(run_warnings(report.profile, run_counters(report.profile))),
            _functions(hottest),
            icicle(graph),
            _notes(notes),
        )


def comparison_cell(comparison: Comparison) -> str:
    """Return a comparison: the total, and the functions that changed most."""
    unit, functions = unit_of(comparison), comparison.functions
    shown = functions.shown(_ROWS)
    condition = ""
    if comparison.verdict is not None:
        condition = f"<p>{_text(verdict_line(comparison.verdict))}</p>"
    return _cell(
        f"<p><b>Difference: B - A</b><br>{_text(compared_line(comparison))}</p>",
        _warnings(comparison.warnings),
        condition,
        _table(total_columns(comparison, unit)),
        _table(change_columns(functions, unit, "Function", slice(0, shown))),
        _left_out(len(functions) - shown),
        _notes(comparison.notes),
    )


def counts_cell(found: EventCounts) -> str:
    """Return counts of events."""
    times = "<br>".join(map(_text, time_lines(found)))
    return _cell(
        f"<p><b>{_text(counts_title(found))}</b></p>",
        _table(count_columns(found)),
        f"<p>{times}</p>",
        _notes(found.limits),
    )


def _cell(*parts: str) -> str:
    return f'<div style="max-width:1100px">{"".join(parts)}</div>'


def hottest_functions(report: Report) -> Breakdown:
    """Return the first rows by function, mode and object, of the first event with rows."""
    for event in report.events:
        found = rows_by_keys(event, ("function", "mode", "object"), Bound(_ROWS), idle=False)
        if len(found):
            break
    return found


def _functions(rows: Breakdown) -> str:
    if not len(rows):
        return ""
    figures = Figures(rows.total_hits, rows.total_s, has_time=rows.has_time)
    seconds, halves = figures.time_columns(rows.seconds.tolist(), rows.half_width_s)
    functions, modes, paths = (list(map(escaped, names)) for names in rows.names)
    columns = [
        Column("Pcnt", percent_column(rows.share.tolist(), percent_digits(rows.total_hits))),
        Column("Samples", [str(hits) for hits in rows.hits.tolist()]),
        seconds._replace(when=rows.has_time),
        halves,
        Column("Mode", modes, right=False),
        Column("Function", functions, right=False),
        Column("Filename", paths, right=False),
    ]
    return _table(columns, rows.share.tolist()) + _left_out(rows.left_out)


def _table(every: Sequence[Column], shares: Sequence[float] = ()) -> str:
    """Return a table; its first column has bars of `shares`, if given."""
    columns = [column for column in every if column.when]
    bars = _bars(shares) if shares else [""] * len(columns[0].cells)
    head = "".join(
        f'<th style="{_RIGHT if column.right else _LEFT}">{_text(column.title)}</th>'
        for column in columns
    )
    body = "".join(
        "<tr>"
        + "".join(
            _cell_of(text, column, bar if place == 0 else "")
            for place, (text, column) in enumerate(zip(row, columns, strict=True))
        )
        + "</tr>"
        for bar, row in zip(bars, zip(*(one.cells for one in columns), strict=True), strict=True)
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div style="overflow:auto">{table}</div>'


def _cell_of(text: str, column: Column, bar: str) -> str:
    hint = ""
    if not column.right and display_width(text) > _NAME_WIDTH:
        hint = f' title="{_text(shortened(text, _LONGEST_HINT))}"'
        text = short_name(text, _NAME_WIDTH)
    elif column.right:
        text = text.replace(" ", _FIGURE_SPACE)
    style = _RIGHT if column.right else _LEFT
    return f'<td style="{style}{bar}"{hint}>{_text(text)}</td>'


def _bars(shares: Sequence[float]) -> list[str]:
    """Return the style of a bar for each share; the largest fills its cell."""
    ends = (f"{100 * share / (max(shares) or 1.0):.1f}%" for share in shares)
    return [
        f";background-image:linear-gradient(to right, {_BAR} {end}, {_CLEAR} {end})" for end in ends
    ]


def _left_out(rows: int) -> str:
    return f"<p>… and {pluralize(rows, 'more function')}</p>" if rows > 0 else ""


def _warnings(sentences: Iterable[str]) -> str:
    return "".join(f"<p><b>Warning:</b> {_text(escaped(one))}</p>" for one in sentences)


def _notes(sentences: Sequence[str]) -> str:
    if not sentences:
        return ""
    items = "".join(f"<li>{_text(escaped(one))}</li>" for one in sentences)
    return (
        f"<details><summary>{pluralize(len(sentences), 'note')}</summary><ul>{items}</ul></details>"
    )


def _text(text: str) -> str:
    return html.escape(text)


_LEAST_SHARE = 0.004
_MOST_BYTES = 100_000
_MOST_LEVELS = 40
_LONGEST_NAME = 200
_LONGEST_SHOWN = 80
# Narrower frames have no room for a name, which is kept for readers without styles.
_NARROW = 0.025

_OUTER = (
    "overflow:hidden;font-family:monospace;font-size:11px;line-height:16px;white-space:nowrap;"
    "color:#000000;margin:4px 0"
)
_LIST = "list-style-type:none;margin:0;padding:0"
_FRAME = "height:16px;overflow:hidden;text-overflow:ellipsis;border-right:1px solid #ffffff"


def icicle(graph: FlameGraph) -> str:
    """Return the flame graph, outermost callers on top; "" if there is no sample."""
    least = _LEAST_SHARE
    boxes = graph.boxes(least)
    if not boxes:
        return ""
    lists = _lists(boxes)
    while len(lists) > _MOST_BYTES:
        least *= 2
        boxes = graph.boxes(least)
        lists = _lists(boxes)
    left_out = f"frames of less than {100 * least:g} %"
    if max(box.level for box in boxes) >= _MOST_LEVELS:
        left_out += f" and below {_MOST_LEVELS} callers"
    events = graph.profile.run.events
    names = escaped(" + ".join(events[row].name for row in graph.events))
    names = html.escape(shortened(names, _LONGEST_SHOWN))
    return (
        f"<details open><summary>Flame graph of {names}, callers above what they call</summary>"
        f'<div style="{_OUTER}">{lists}</div>'
        f"<p>Not shown: {left_out}.</p></details>"
    )


def _lists(boxes: list[Box]) -> str:
    """Return boxes as nested lists, each inside its caller's."""
    parts: list[str] = []
    callers: list[Box] = []
    # Callers begin where their first callee does, and are of a lower level.
    for box in sorted(boxes, key=lambda box: (box.left, box.level)):
        if box.level >= _MOST_LEVELS:
            continue
        if len(callers) > box.level:
            parts.append("</li>" + "</ul></li>" * (len(callers) - box.level - 1))
            del callers[box.level :]
        else:
            parts.append(f'<ul style="{_LIST}">')
        width = 100.0 * box.share / (callers[-1].share if callers else 1.0)
        parts.append(f'<li style="float:left;width:{width:.3f}%;{_LIST}">{_frame(box)}')
        callers.append(box)
    parts.append("</li></ul>" * len(callers))
    return "".join(parts)


def _frame(box: Box) -> str:
    hue, saturation, lightness = box.colour
    red, green, blue = (
        round(255 * part)
        for part in colorsys.hls_to_rgb(hue / 360, lightness / 100, saturation / 100)
    )
    name = escaped(box.label) + box.mark
    hint = html.escape(f"{shortened(name, _LONGEST_NAME)} ({box.figure})")
    shown = html.escape(f"{short_name(name, _LONGEST_SHOWN)} {100 * box.share:.1f}%")
    style = f"{_FRAME};background-color:#{red:02x}{green:02x}{blue:02x}"
    style += ";font-size:0" if box.share < _NARROW else ";padding:0 3px"
    return f'<div title="{hint}" style="{style}">{shown}</div>'
