"""A store in a browser: the time axis, the page of a span, the comparison of two spans.

A span's page is that of a recording, below its own address. No socket is opened here.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from io import BytesIO
from typing import TYPE_CHECKING

from prospect.analysis.profile_request import Callbacks
from prospect.api.differences import diff_by
from prospect.api.store_part import read_store
from prospect.errors import ProspectError
from prospect.estimate.compare.comparison import CompareOptions
from prospect.fleet.opening import engine_of, opened
from prospect.records import Record, replace
from prospect.render.diff_registry import diff_writer
from prospect.render.html.timeline_page import Bar, Choice, TimelinePage, error_page
from prospect.store.hosts import HostsDirectory
from prospect.store.specification import SINCE, UNTIL, parse_specifications
from prospect.store.timeline import timeline
from prospect.web.fleet_pages import fleet_page, links_to
from prospect.web.page_queries import QueryError, choice_query, fleet_query, span_of
from prospect.web.recording_answers import CodeFinder, serve_profile
from prospect.web.site import HTML, NOT_FOUND, Answer, GuardedSite, Site
from prospect.web.web_limits import MOST_PARTS

if TYPE_CHECKING:
    from prospect.api.recorded_profile import Profile
    from prospect.assembly.code.code import CodeChoice
    from prospect.options import NamingOptions
    from prospect.render.html import HtmlRenderer
    from prospect.render.html.timeline_page import Span
    from prospect.web.fleet_pages import FleetQuestion

_MOST_BARS = 240


class ShownStore(Record):
    """A store that is served, with options.

    Attributes:
        words: specifications of all that is shown.
        renderer: options of the page.
        naming: options of names in comparisons.
        code: for `CodeFinder`, although a store has no code.
        engine: answers queries; `fleet.opening.engine_of` reads it.
    """

    path: str
    words: list[str]
    renderer: HtmlRenderer
    naming: NamingOptions
    code: CodeChoice
    engine: str = "local"


class StoreSite(GuardedSite):
    """Answers for a store, one request at a time: each may use much memory."""

    def __init__(self, shown: ShownStore, token: str) -> None:
        super().__init__(token)
        self._shown, self._token_text = shown, token
        self._title = " ".join((shown.path, *shown.words))
        self._turn = threading.Lock()
        self._parts: dict[Span, Site] = {}
        self.timeline_page(Choice())  # an unreadable store is reported at the start

    def known(self, name: str, query: str) -> Answer:
        """Answer a request with the right token; see `GuardedSite`."""
        kind, _, rest = name.partition("/")
        try:
            if name == "":
                return Answer(200, HTML, self.timeline_page(choice_query(query)))
            if kind == "part":
                span, slash, inner = rest.partition("/")
                return self._part(span_of(span)).known(inner, query) if slash else NOT_FOUND
            if kind == "fleet":
                return Answer(200, HTML, self._fleet_page(fleet_query(rest, query)))
            if kind == "diff":
                before, _, after = rest.rstrip("/").partition("/")
                return Answer(200, HTML, self._difference(span_of(before), span_of(after)))
        except ProspectError as error:
            return Answer(200, HTML, error_page(str(error)))
        return NOT_FOUND

    def timeline_page(self, choice: Choice) -> bytes:
        """Return the page of the time axis.

        Raises:
            ProspectError: nothing matches, or the store cannot be read.
        """
        words = self._words_of(choice.view) if choice.view else self._shown.words
        chosen = parse_specifications(words)
        make_engine = engine_of(self._shown.engine)
        with self._turn, opened(self._shown.path) as store:
            found = timeline(store, chosen, _MOST_BARS, make_engine)
            has_hosts = isinstance(store, HostsDirectory)
        bars = []
        for one in found.steps:
            ticks = max(one.expected, 1)
            bars.append(Bar(one.begin_s, one.end_s, one.hits / ticks, one.lost / ticks))
        return TimelinePage(
            title=self._title,
            begin_s=found.begin_s,
            end_s=found.end_s,
            step_s=found.step_s,
            bars=bars,
            remarks=found.remarks,
            choice=choice,
            questions=links_to(choice.span or choice.view) if has_hosts else (),
        ).document()

    def _fleet_page(self, question: FleetQuestion) -> bytes:
        span = question.span
        chosen = parse_specifications(self._words_of(span) if span else self._shown.words)
        hosts = chosen.texts.get("host", ())
        with self._turn, opened(self._shown.path, hosts) as store:
            return fleet_page(store, chosen, engine_of(self._shown.engine), question, self._title)

    def _part(self, span: Span) -> Site:
        with self._turn:
            site = self._parts.pop(span, None)
            if site is None:
                renderer = replace(self._shown.renderer, recording="")
                finder = CodeFinder(None, self._shown.code)
                site = Site(serve_profile(self._read(span), renderer, finder), self._token_text)
            self._parts[span] = site
            while len(self._parts) > MOST_PARTS:
                del self._parts[next(iter(self._parts))]
        return site

    def _difference(self, before: Span, after: Span) -> bytes:
        options = CompareOptions(scope=self._shown.renderer.detail, stacks=True, inclusive=True)
        out = BytesIO()
        with self._turn:
            sides = self._read(before), self._read(after)
            found = diff_by(*sides, options, self._shown.naming, Callbacks())
            diff_writer("html")(found, out)
        return out.getvalue()

    def _read(self, span: Span) -> Profile:
        engine = self._shown.engine
        return read_store(self._shown.path, self._words_of(span), stacks=True, engine=engine)

    def _words_of(self, span: Span) -> list[str]:
        """Return the specifications for a span."""
        try:
            since, until = (datetime.fromtimestamp(at, UTC).astimezone().isoformat() for at in span)
        except (ValueError, OverflowError, OSError):
            raise QueryError from None
        others = [
            word for word in self._shown.words if word.partition(":")[0] not in (SINCE, UNTIL)
        ]
        return [*others, f"{SINCE}:{since}", f"{UNTIL}:{until}"]
