"""The queries of a page's addresses, read as bounded numbers and selections.

Anyone who has the token can write them. `assets/parts.js` writes those of the page.
"""

from __future__ import annotations

import re
from urllib.parse import parse_qsl

from prospect.fleet.answers import QUESTIONS
from prospect.records import NamedTuple, replace
from prospect.render.html.cells import SCOPES, Selection
from prospect.render.html.timeline_page import Choice
from prospect.web.fleet_pages import FleetQuestion
from prospect.web.web_limits import (
    LATEST_S,
    LONGEST_SEARCH,
    MOST_DIGITS,
    MOST_FIELDS,
    MOST_PATH_FRAMES,
)

_BUILD = re.compile(r"[0-9a-f]{0,128}")


class QueryError(ValueError):
    """A query that the page does not write."""


class HitsQuery(NamedTuple):
    """The event and function, as numbers of the page, and the part of the event."""

    event: int
    frame: int
    selection: Selection


class CodeQuery(NamedTuple):
    """The event and function, as numbers of the page."""

    event: int
    frame: int


def part_query(query: str) -> tuple[int, Selection]:
    """Return the number of an event on the page, and the selected part of it.

    Raises:
        QueryError: it says something else.
    """
    fields = _fields(query)
    path = fields.pop("path", "")
    search = fields.pop("search", "")
    frames = tuple(map(_number, path.split("."))) if path else ()
    if len(frames) > MOST_PATH_FRAMES or len(search) > LONGEST_SEARCH:
        raise QueryError
    selection, numbers = _selection(fields, {"event", "by_time"})
    is_by_time = bool(numbers.get("by_time", 0))
    selection = replace(selection, is_by_time=is_by_time, path=frames, search=search)
    return numbers.get("event", 0), selection


def choice_query(query: str) -> Choice:
    """Return the choices on the time axis of a store.

    Raises:
        QueryError: it says something else.
    """
    fields = _fields(query)
    spans = {
        name: span_of(fields.pop(name)) for name in ("view", "span", "other") if name in fields
    }
    begin = _number(fields.pop("begin")) if "begin" in fields else None
    if fields:
        raise QueryError
    return Choice(begin=begin, **spans)


def fleet_query(name: str, query: str) -> FleetQuestion:
    """Return a question about all hosts.

    Raises:
        QueryError: it says something else.
    """
    fields = _fields(query)
    span = span_of(fields.pop("span")) if "span" in fields else None
    build = fields.pop("build", "") if name == "deploys" else ""
    if name not in QUESTIONS or fields or not _BUILD.fullmatch(build):
        raise QueryError
    return FleetQuestion(name, span, build)


def span_of(text: str) -> tuple[int, int]:
    """Return a span, in seconds since 1970.

    Raises:
        QueryError: it is none.
    """
    first, _, last = text.partition("_")
    span = _number(first), _number(last)
    if not span[0] < span[1] < LATEST_S:
        raise QueryError
    return span


def hits_query(query: str) -> HitsQuery:
    """Return a function and the part of an event whose samples in it are counted.

    Raises:
        QueryError: it says something else.
    """
    selection, numbers = _selection(_fields(query), {"event", "frame"})
    if not {"event", "frame"} <= numbers.keys():
        raise QueryError
    return HitsQuery(numbers["event"], numbers["frame"], selection)


def _selection(fields: dict[str, str], others: set[str]) -> tuple[Selection, dict[str, int]]:
    """Return a selection, and the other numbers of its query."""
    scope = fields.pop("scope", "all")
    numbers = {name: _number(text) for name, text in fields.items()}
    known = {"begin_ns", "end_ns", "process", "cpu", "thread", *others}
    if scope not in SCOPES or set(numbers) - known:
        raise QueryError
    selection = Selection(
        begin_ns=numbers.get("begin_ns", 0),
        end_ns=numbers.get("end_ns"),
        scope=scope,
        process=numbers.get("process", -1),
        cpu=numbers.get("cpu"),
        thread=numbers.get("thread"),
    )
    return selection, numbers


def code_query(query: str) -> CodeQuery:
    """Return the function whose code is shown.

    Raises:
        QueryError: it says something else.
    """
    fields = _fields(query)
    if set(fields) != {"event", "frame"}:
        raise QueryError
    return CodeQuery(_number(fields["event"]), _number(fields["frame"]))


def _fields(query: str) -> dict[str, str]:
    try:
        return dict(parse_qsl(query, keep_blank_values=True, max_num_fields=MOST_FIELDS))
    except ValueError as error:
        raise QueryError from error


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS):
        raise QueryError
    return int(text)
