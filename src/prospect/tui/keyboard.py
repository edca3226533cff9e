"""What is typed, or pasted, into a terminal: bytes of anybody's choice.

The library's own loop ends, and the screen with it, at bytes that are no UTF-8, such as those of a
key of another encoding; and at the end of the screen it lets a person wait a fifth of a second.
"""

from __future__ import annotations

import codecs
import os
import select
from typing import TYPE_CHECKING, Any

from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver

if TYPE_CHECKING:
    from textual.app import App

_LARGEST_READ = 1 << 12
# How often the parser looks whether an escape key was typed alone.
_TICK_S = 0.05


class Keyboard(LinuxDriver):
    """A terminal whose input may be anything, and which is let go of at once."""

    def __init__(self, app: App[Any], **options: Any) -> None:
        """Take over the terminal of `app`; options as the library gives them."""
        super().__init__(app, **options)
        self._end_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def run_input_thread(self) -> None:
        """Read what is typed until the input is disabled; forget what is no text."""
        parser = XTermParser(self._debug)
        decode = codecs.getincrementaldecoder("utf-8")("ignore").decode
        sources = (self.fileno, self._end_fd)
        while not self.exit_event.is_set():
            typed = b""
            if self.fileno in select.select(sources, (), (), _TICK_S)[0]:
                try:
                    typed = os.read(self.fileno, _LARGEST_READ)
                except OSError:
                    return  # the terminal is gone
                if not typed:
                    return
            # To the parser an empty text is the end of all.
            text = decode(typed)
            for message in (*(parser.feed(text) if text else ()), *parser.tick()):
                self.process_message(message)

    def disable_input(self) -> None:
        """End the reading, without waiting for the next key."""
        os.eventfd_write(self._end_fd, 1)
        super().disable_input()
        os.eventfd_read(self._end_fd)
