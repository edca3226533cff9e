"""Tables that answer questions about a store as a page: no script, one question an address.

Comes in: sentences, and tables whose cells are text, links, or shares with their intervals. Goes
out: an HTML document that looks like the time axis.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from prospect.records import NamedTuple, Record
from prospect.render.escape import escaped
from prospect.render.html.timeline import link_to, page_of, shown

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
    """Text that leads to an address, relative to the page's."""

    address: str
    text: str


class AnswerTable(Record):
    """A table.

    Attributes:
        heads: of its columns; those of figures end in a tab.
        rows: cells of each row.
    """

    heads: Sequence[str]
    rows: Sequence[Sequence[str | Interval | Link]]


class AnswerPage(Record):
    """A page.

    Attributes:
        title: what is asked.
        ways: to other questions; the one that is answered has no address.
        parts: sentences and tables, in order.
        remarks: sentences.
    """

    title: str
    ways: Sequence[Link]
    parts: Sequence[str | AnswerTable]
    remarks: Sequence[str]

    def document(self) -> bytes:
        """Return the page."""
        ways = "".join(
            link_to(*one) if one.address else f"<b>{escape(one.text)}</b> " for one in self.ways
        )
        parts = "".join(
            f"<p>{shown(one)}</p>" if isinstance(one, str) else "".join(_table(one))
            for one in self.parts
        )
        remarks = "".join(f'<p class="q">{shown(one)}</p>' for one in self.remarks)
        return page_of(f'<h1>{shown(self.title)}</h1><p class="do">{ways}</p>{parts}{remarks}')


def _table(table: AnswerTable) -> Iterator[str]:
    classes = [' class="n"' if head.endswith("\t") else "" for head in table.heads]
    yield '<div class="wide"><table><thead><tr>'
    for head, one in zip(table.heads, classes, strict=True):
        yield f'<th scope="col"{one}>{escape(head.rstrip())}</th>'
    yield "</tr></thead><tbody>"
    for row in table.rows:
        cells = zip(row, classes, strict=True)
        yield f"<tr>{''.join(f'<td{one}>{_cell(cell)}</td>' for cell, one in cells)}</tr>"
    yield "</tbody></table></div>"


def _cell(cell: str | Interval | Link) -> str:
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
    said = f"{_PERCENT * cell.low:.1f} to {_PERCENT * cell.high:.1f} %"
    middle = _HEIGHT / 2
    return (
        f'<svg class="share" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{said}">'
        f'<title>{said}</title><rect class="bar" width="{at:.1f}" height="{_HEIGHT}"/>'
        f'<path class="error" d="M{low:.1f} {middle}H{high:.1f}M{low:.1f} 2V{_HEIGHT - 2}'
        f'M{high:.1f} 2V{_HEIGHT - 2}"/></svg>'
    )
