"""What the screen asks of the session whose figures it shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from prospect.live.session import LiveState


class LiveSource(Protocol):
    """What the screen asks; never two things at once, but not always from the same thread."""

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
        """Forget what was seen and start anew."""
        ...
