"""Pages that answer questions about all hosts, as ``prospect fleet`` does; no socket is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.fleet.answers import PAGE, QUESTIONS, clock
from prospect.fleet.asking import Wanted
from prospect.records import NamedTuple
from prospect.render.html.answer_page import HtmlColumn, Link, answer_page
from prospect.store.hosts import asked

if TYPE_CHECKING:
    from prospect.fleet.answers import AnswerTable
    from prospect.render.html.answer_page import Cell
    from prospect.render.html.timeline_page import Span
    from prospect.store.directory import StoreDirectory
    from prospect.store.specification import Specification
    from prospect.store.tables import EngineMaker

ROOM = "fleet/"
_ROWS = 50


class FleetQuestion(NamedTuple):
    """A question.

    Attributes:
        name: one of `QUESTIONS`.
        span: in seconds since 1970, None for all of the store.
        build: of "deploys": the build to compare with the time before it, "" for a list of builds.
    """

    name: str
    span: Span | None = None
    build: str = ""


def links_to(span: Span | None, room: str = ROOM) -> list[Link]:
    """Return links to all questions about a span, from the time axis."""
    query = f"?span={span[0]}_{span[1]}" if span else ""
    return [Link(f"{room}{name}{query}", form.title) for name, form in QUESTIONS.items()]


def fleet_page(
    store: StoreDirectory,
    chosen: Specification,
    make_engine: EngineMaker,
    question: FleetQuestion,
    title: str,
) -> bytes:
    """Answer a question.

    Raises:
        StoreError: nothing matches, or nothing can be read.
    """
    form, span = QUESTIONS[question.name], question.span
    wanted = Wanted(_ROWS, build=question.build)
    answer = asked(store, lambda store: form.ask(store, chosen, make_engine, wanted))
    links = [
        one._replace(address="") if one.text == form.title and not question.build else one
        for one in links_to(span, "")
    ]
    back = Link(f"../?span={span[0]}_{span[1]}" if span else "../?", "Over time")
    of_time = ""
    if span:
        since, until = (clock(at * 10**6) for at in span)
        of_time = f", {since} to {until}"
    parts = [
        part if isinstance(part, str) else _columns(part, span) for part in form.parts(answer, PAGE)
    ]
    page_title = f"{form.title}: {title}{of_time}"
    return answer_page(page_title, [*links, back], parts, answer.remarks)


def _columns(table: AnswerTable, span: Span | None) -> list[HtmlColumn]:
    """Return a table's columns; their links keep the span."""
    query = f"&span={span[0]}_{span[1]}" if span else ""

    def within_span(cell: Cell) -> Cell:
        return Link(cell.address + query, cell.text) if isinstance(cell, Link) else cell

    rows = table.rows[: table.most]
    return [
        HtmlColumn(one.title, [within_span(one.cell(row)) for row in rows], right=one.right)
        for one in table.columns_on(PAGE)
    ]
