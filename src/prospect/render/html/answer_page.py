"""A page of sentences and tables that answers a question about a store; it has no script.

Cells are text, links, or shares with their intervals. The page has the style of the time axis.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from prospect.records import NamedTuple
from prospect.render.escape import escaped
from prospect.render.html.timeline_page import link_to, page_of, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_WIDTH, _HEIGHT = 120, 12
_PERCENT = 100.0


class Interval(NamedTuple):
    """A share with the limits of its interval, 0 to 1; drawn to the scale of `full`."""

    share: float
    low: float
    high: float
    full: float


class Link(NamedTuple):
    """Text with an address, relative to the page's."""

    address: str
    text: str


Cell = str | Interval | Link


class HtmlColumn(NamedTuple):
    """A column of a table: its title, its cells, and whether they end at the right edge."""

    title: str
    cells: Sequence[Cell]
    right: bool = True


def answer_page(
    title: str,
    questions: Sequence[Link],
    parts: Sequence[str | Sequence[HtmlColumn]],
    remarks: Sequence[str],
) -> bytes:
    """Return a page.

    Args:
        questions: links to other questions; the answered one has no address.
        parts: sentences and the columns of tables, in order.
    """
    links = "".join(
        link_to(*one) if one.address else f"<b>{escape(one.text)}</b> " for one in questions
    )
    body = "".join(
        f"<p>{shown(one)}</p>" if isinstance(one, str) else "".join(_table(one)) for one in parts
    )
    notes = "".join(f'<p class="q">{shown(one)}</p>' for one in remarks)
    return page_of(f'<h1>{shown(title)}</h1><p class="do">{links}</p>{body}{notes}')


def _table(columns: Sequence[HtmlColumn]) -> Iterator[str]:
    classes = [' class="n"' if column.right else "" for column in columns]
    yield '<div class="wide"><table><thead><tr>'
    for column, one in zip(columns, classes, strict=True):
        yield f'<th scope="col"{one}>{escape(column.title)}</th>'
    yield "</tr></thead><tbody>"
    for row in zip(*(column.cells for column in columns), strict=True):
        cells = zip(row, classes, strict=True)
        yield f"<tr>{''.join(f'<td{one}>{_cell(cell)}</td>' for cell, one in cells)}</tr>"
    yield "</tbody></table></div>"


def _cell(cell: Cell) -> str:
    if isinstance(cell, Interval):
        return _bar(cell)
    if isinstance(cell, Link):
        return link_to(cell.address, escaped(cell.text))
    return shown(cell)


def _bar(cell: Interval) -> str:
    """Draw a share as a bar, and its interval as a line across the end of it."""
    at, low, high = (
        _WIDTH * min(max(one / cell.full, 0.0), 1.0) if cell.full > 0 else 0.0
        for one in (cell.share, cell.low, cell.high)
    )
    interval = f"{_PERCENT * cell.low:.1f} to {_PERCENT * cell.high:.1f} %"
    middle = _HEIGHT / 2
    return (
        f'<svg class="share" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{interval}">'
        f'<title>{interval}</title><rect class="bar" width="{at:.1f}" height="{_HEIGHT}"/>'
        f'<path class="error" d="M{low:.1f} {middle}H{high:.1f}M{low:.1f} 2V{_HEIGHT - 2}'
        f'M{high:.1f} 2V{_HEIGHT - 2}"/></svg>'
    )
