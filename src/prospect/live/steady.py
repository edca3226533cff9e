"""A live session that goes without callers where it could not keep up with them.

Comes in: what a session is to record. Goes out: its states. Where the kernel cannot deliver a good
part of the samples again and again, figures are of what was delivered, and less is asked for:
frame pointers in place of copies of stacks, then no callers. Figures begin anew then, as stacks of
two kinds are not one profile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.errors import ProspectError
from prospect.live.session import LiveSession
from prospect.records import replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from prospect.live.session import LiveState
    from prospect.recording.events import RecordOptions

_BY_POINTERS = "fp"
# So much is lost, so often in a row: names are read for the first time only once.
_MOST_LOST = 0.02
_TOO_OFTEN = 2


class SteadySession:
    """As `LiveSession`, but for what it does about losses."""

    def __init__(
        self, options: RecordOptions, begin: Callable[[RecordOptions], LiveSession] = LiveSession
    ) -> None:
        """Begin; raises as `LiveSession`."""
        self._options = options
        self._begin = begin
        self._session = begin(options)
        self._times_lost = 0
        self._news = ""

    def advance(self) -> LiveState:
        """Take in what was recorded since the last call; return all that is remembered.

        Raises:
            CaptureError: the rings cannot be read any more.
        """
        state = self._session.advance()
        self._times_lost = self._times_lost + 1 if state.lost_share > _MOST_LOST else 0
        if self._times_lost >= _TOO_OFTEN and self._options.call_graph:
            self._times_lost = 0
            if self._ask_for_less(state.lost_share):
                state = self._session.advance()
        limits = (*state.limits, self._news) if self._news else state.limits
        return replace(state, limits=limits, news=self._news)

    def save(self, path: str) -> str:
        """Write all that the spool keeps as a perf.data file; see `LiveSession`."""
        return self._session.save(path)

    def clear(self) -> None:
        """Forget what was seen."""
        self._session.clear()

    def close(self) -> None:
        """End the session, and leave nothing behind."""
        self._session.close()

    def _ask_for_less(self, lost_share: float) -> bool:
        """Go on with fewer callers; say whether that can be done."""
        before = self._options.call_graph
        less = "" if before == _BY_POINTERS else _BY_POINTERS
        options = replace(self._options, call_graph=less)
        try:
            session = self._begin(options)
        except ProspectError:
            return False  # as where those that it follows have ended
        self._session.close()
        self._session, self._options = session, options
        now = f"callers go by frame pointers (--call-graph {less})" if less else "without callers"
        self._news = (
            f"{lost_share:.0%} of the samples were lost with --call-graph {before}: from here on"
            f" {now}."
        )
        return True
