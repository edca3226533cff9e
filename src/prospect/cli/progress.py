"""A line on stderr about what takes long, on a terminal only.

It appears after a second, says for how long and what is being done, and leaves nothing behind. The
one that works only leaves a word (`Progress.announce`); its own thread draws it.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Self

from prospect.cli.terminal import say_all, takes_escapes

if TYPE_CHECKING:
    import threading
    from types import TracebackType

_STDERR = 2
_PATIENCE_S = 1.0
_REDRAW_S = 0.25
_USUAL_COLUMNS = 80
_ERASE_LINE, _ERASE_BELOW = "\r\x1b[K", "\r\x1b[J"


class Progress:
    """Shows the last announcement, while its block runs."""

    def __init__(self, news: str) -> None:
        self._news = news
        self._begin_s = time.monotonic()
        self._shown_columns = 0
        self._is_over: threading.Event | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        if takes_escapes(_STDERR):
            import threading

            self._is_over = threading.Event()
            self._thread = threading.Thread(target=self._draw, args=(self._is_over,), daemon=True)
            try:
                self._thread.start()
            except BaseException:  # Ctrl-C meanwhile: no block runs whose end would end it
                self.end()
                raise
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.end()

    def announce(self, news: str) -> None:
        """Show this from now on; it costs next to nothing."""
        self._news = news

    def end(self) -> None:
        """Take the line away, for good."""
        if self._is_over is not None:
            self._is_over.set()
        # One that has not begun yet draws nothing from now on.
        if self._thread is not None and self._thread.is_alive():
            self._thread.join()
        self._thread = None

    def _draw(self, is_over: threading.Event) -> None:
        wait_s = _PATIENCE_S
        try:
            while not is_over.wait(wait_s):
                wait_s = _REDRAW_S
                if _is_in_foreground():
                    self._show()
        finally:
            if self._shown_columns:
                say_all(_erase(self._shown_columns, _columns()))

    def _show(self) -> None:
        # Loaded once somebody has waited for a second.
        from prospect.render.escape import display_width, escaped, shortened

        columns = _columns()
        seconds = time.monotonic() - self._begin_s
        # The last column stays free: where it is written to, some terminals begin a new line.
        line = shortened(escaped(f"prospect: {seconds:.0f} s, {self._news}"), columns - 1)
        # The cursor goes back to where the line begins: what others write takes its place.
        say_all(f"{_erase(self._shown_columns, columns)}{line}\r")
        self._shown_columns = display_width(line)


def _columns() -> int:
    """Return how wide the terminal is now; one that does not know counts as usual."""
    try:
        return os.get_terminal_size(_STDERR).columns or _USUAL_COLUMNS
    except OSError:
        return _USUAL_COLUMNS


def _erase(shown_columns: int, columns: int) -> str:
    """Return what erases the line; one that a narrower terminal has wrapped takes several."""
    return _ERASE_BELOW if shown_columns > columns else _ERASE_LINE


def _is_in_foreground() -> bool:
    """Say whether the terminal is this job's, which one in the background is not to draw on."""
    try:
        return os.tcgetpgrp(_STDERR) == os.getpgrp()
    except OSError:
        return True  # a terminal that controls nobody
