"""A line on stderr about what takes long, on a terminal only."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from prospect.cli.terminal import say_all, takes_escapes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PATIENCE_S = 1.0


@contextmanager
def progress(message: str) -> Iterator[Callable[[str], None]]:
    """Show `message` while the block runs, from its first second on; then take it away.

    Yields:
        A function that puts another message in its place.
    """
    if not takes_escapes(2):
        yield lambda _: None
        return
    shown = threading.Event()

    def show() -> None:
        shown.set()
        say_all(f"prospect: {message}\r")

    def tell(news: str) -> None:
        nonlocal message
        is_news, message = news != message, news
        if is_news and shown.is_set():
            say_all(f"\x1b[Kprospect: {news}\r")

    timer = threading.Timer(_PATIENCE_S, show)
    timer.daemon = True
    timer.start()
    try:
        yield tell
    finally:
        timer.cancel()
        timer.join()
        if shown.is_set():
            say_all("\r\x1b[K")
