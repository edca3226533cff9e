"""What is known and shown: it asks the session for figures and computes the page that is seen.

Its methods take long and run in threads: `look` may run at the same time as `advance` and sees the
figures before it; else one runs after the other.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from prospect.tui.figures import live_figures
from prospect.tui.instruction_page import CodeMemory
from prospect.tui.pictures import Picture, take_picture

if TYPE_CHECKING:
    from prospect.live.session import LiveState
    from prospect.tui.figures import LiveFigures
    from prospect.tui.pictures import Stand


# New figures every so often, less often where they would cost more than this part of a CPU.
_PAUSE_S = 2.0
_FIRST_PAUSE_S = 1.0
_FIRST_S = 8.0
_LONGEST_PAUSE_S = 30.0
_BUDGET = 0.012


class Watch:
    """Figures, the page that was made of them, and what that cost.

    Attributes:
        is_frozen: new figures are taken in and not shown.
        picture: the last page, None before the first.
        pause_s: how long the pause before the next figures is.
    """

    def __init__(self, source: LiveSource, *, use_cache: bool = True) -> None:
        self.is_frozen = False
        self.picture: Picture | None = None
        self._source = source
        self._code = CodeMemory(use_cache)
        self._latest: LiveFigures | None = None
        self._shown: LiveFigures | None = None
        # One item an effort: a list takes them from several threads.
        self._spent_s: list[float] = []
        self.pause_s = _FIRST_PAUSE_S
        self._news = ""

    def advance(self) -> str:
        """Take in what was recorded; return what a person should know now, "" for nothing.

        Raises:
            ProspectError: nothing can be recorded any more.
        """
        begin_s = time.thread_time()
        state = self._source.advance()
        self._latest = live_figures(state)
        self.spend(time.thread_time() - begin_s)
        news, self._news = state.news if state.news != self._news else "", state.news
        return news

    def look(self, stand: Stand) -> Picture:
        """Compute the page that `stand` sees; `advance` was called before."""
        begin_s = time.thread_time()
        if not self.is_frozen or self._shown is None:
            self._shown = self._latest
        if self._shown is None:
            raise ValueError("nothing was taken in yet")
        self.picture = take_picture(self._shown, stand, self._code)
        self.spend(time.thread_time() - begin_s)
        return self.picture

    def save(self, path: str) -> str:
        """Write all that is kept; see `LiveSource`."""
        return self._source.save(path)

    def clear(self) -> str:
        """Forget all, also what is frozen."""
        self._source.clear()
        self.is_frozen = False
        self.picture = self._shown = None
        self.advance()
        return "Cleared: figures start from now."

    def spend(self, seconds: float) -> None:
        """Add what drawing took."""
        self._spent_s.append(seconds)

    def next_pause_s(self) -> float:
        """Return how long to wait for new figures, after what the last ones cost."""
        spent, self._spent_s = self._spent_s, []
        is_first = self._latest is not None and self._latest.span_s < _FIRST_S
        least = _FIRST_PAUSE_S if is_first else _PAUSE_S
        # Reading code for the first time costs once: the pause grows slowly.
        longest = min(2.0 * self.pause_s, _LONGEST_PAUSE_S)
        self.pause_s = max(least, min(sum(spent) / _BUDGET, longest))
        return self.pause_s


class LiveSource(Protocol):
    """The session, asked for one thing at a time, but not always from the same thread."""

    def advance(self) -> LiveState:
        """Take in what was recorded since the last call, and return everything.

        Raises:
            ProspectError: nothing can be recorded any more.
        """
        ...

    def save(self, path: str) -> str:
        """Write all that is kept as a recording, and return a sentence that says so.

        Raises:
            ProspectError: it cannot be written.
        """
        ...

    def clear(self) -> None:
        """Forget what was seen and start again."""
        ...
