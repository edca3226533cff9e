"""Answers of `prospect view` to requests, and the rules on who may ask. No socket is opened here.

Other users of the machine can reach the socket, and any web page can make a browser send requests
to it. So the token is part of every address, and only requests to this machine by its own name are
answered, and only if they come from no other page.
Source: RFC 9110, 7.2 (Host); Fetch Standard, 3.2 (Origin); Fetch Metadata Request Headers.
"""

from __future__ import annotations

import hmac
import re
import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from prospect.records import Record
from prospect.web.page_queries import QueryError, code_query, hits_query, part_query
from prospect.web.recording_answers import page

if TYPE_CHECKING:
    from email.message import Message

    from prospect.web.recording_answers import ServedRecording

_OWN_HOST = re.compile(r"(?:127\.0\.0\.1|localhost)(?::[0-9]{1,5})?", re.IGNORECASE)
HTML = "text/html; charset=utf-8"
_JSON = "application/json"
_BYTES = "application/octet-stream"
_MEDIA_TYPES = {"report": _JSON, "source": _JSON, "stacks": _BYTES}

# For every answer. The page contains its own policy; these can only be headers.
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Answer(Record):
    """A status, and a body if that is 200."""

    status: int
    media_type: str = "text/plain"
    body: bytes = b""


BAD_REQUEST = Answer(400)
FORBIDDEN = Answer(403)
NOT_FOUND = Answer(404)


class GuardedSite(ABC):
    """Answers to those who know a token."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    def answer(self, target: str, headers: Message) -> Answer:
        """Answer a GET request."""
        if not is_own_page(headers):
            return FORBIDDEN
        path, _, query = target.partition("?")
        token, slash, name = path.removeprefix("/").partition("/")
        # In constant time, so that the token cannot be guessed bit by bit.
        if not hmac.compare_digest(token.encode("utf-8", "replace"), self._token) or not slash:
            return NOT_FOUND
        try:
            return self.known(name, query)
        except (QueryError, IndexError):
            return BAD_REQUEST

    @abstractmethod
    def known(self, name: str, query: str) -> Answer:
        """Answer a request with the right token.

        Raises:
            QueryError: the query means nothing.
            IndexError: there is no such part.
        """


class Site(GuardedSite):
    """Answers for one recording.

    It works on one request of each kind at a time: each may use much memory. Code may take seconds,
    and selections do not wait for it.
    """

    def __init__(self, recording: ServedRecording, token: str) -> None:
        super().__init__(token)
        self._recording = recording
        self._page = page()
        self._part_turn, self._code_turn = threading.Lock(), threading.Lock()

    def known(self, name: str, query: str) -> Answer:
        """Answer a request with the right token; see `GuardedSite`."""
        kind, _, block = name.partition("/")
        if kind == "data" and block in self._recording.blocks:
            return Answer(200, _MEDIA_TYPES[block], self._recording.blocks[block])
        if name == "":
            return Answer(200, HTML, self._page)
        if name == "part":
            event, selection = part_query(query)
            with self._part_turn:
                return Answer(200, _BYTES, self._recording.part(event, selection))
        if name == "samples":
            wanted = hits_query(query)
            with self._part_turn:
                return Answer(200, _JSON, self._recording.hits(*wanted))
        if name == "code":
            event, frame = code_query(query)
            with self._code_turn:
                return Answer(200, _JSON, self._recording.code(event, frame))
        return NOT_FOUND


def is_own_page(headers: Message) -> bool:
    """Return whether a request is for this machine by its own name, and from no other page.

    A foreign name server may give out a name for 127.0.0.1: such a name is refused (DNS rebinding).
    The port may be any: ``ssh -L`` forwards other ports.
    """
    hosts = headers.get_all("Host", [])
    if len(hosts) != 1 or not _OWN_HOST.fullmatch(hosts[0]):
        return False
    if headers.get("Origin", f"http://{hosts[0]}") != f"http://{hosts[0]}":
        return False
    # A link or a typed address navigates; requests by a foreign page do not.
    is_navigation = headers.get("Sec-Fetch-Mode") == "navigate"
    return is_navigation or headers.get("Sec-Fetch-Site", "none") in ("same-origin", "none")
