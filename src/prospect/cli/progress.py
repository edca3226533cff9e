"""A progress line on stderr, on a terminal only.

It appears after a second, shows the time and the current message, and disappears at the end. The
worker only sets the message (`Progress.announce`); a thread draws the line.
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
            except BaseException:  # Ctrl-C: `__exit__` will not run
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
        """Set the message, at almost no cost."""
        self._news = news

    def end(self) -> None:
        """Remove the line, for good."""
        if self._is_over is not None:
            self._is_over.set()
        # A thread that has not begun draws nothing from now on.
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
        # Import this only after the user has waited for a second.
        from prospect.render.escape import display_width, escaped, shortened

        columns = _columns()
        seconds = time.monotonic() - self._begin_s
        # Some terminals begin a new line after the last column.
        line = shortened(escaped(f"prospect: {seconds:.0f} s, {self._news}"), columns - 1)
        # The cursor returns to the begin of the line: other output replaces it.
        say_all(f"{_erase(self._shown_columns, columns)}{line}\r")
        self._shown_columns = display_width(line)


def _columns() -> int:
    """Return the current width of the terminal, or the usual one."""
    try:
        return os.get_terminal_size(_STDERR).columns or _USUAL_COLUMNS
    except OSError:
        return _USUAL_COLUMNS


def _erase(shown_columns: int, columns: int) -> str:
    """Return the escape that erases the line; a narrower terminal may have wrapped it."""
    return _ERASE_BELOW if shown_columns > columns else _ERASE_LINE


def _is_in_foreground() -> bool:
    """Return whether this job is in the foreground of the terminal."""
    try:
        return os.tcgetpgrp(_STDERR) == os.getpgrp()
    except OSError:
        return True  # a terminal that controls nobody
