"""What is typed, or pasted, into a terminal: bytes of anybody's choice."""

from __future__ import annotations

from contextlib import suppress

from textual.drivers.linux_driver import LinuxDriver


class Keyboard(LinuxDriver):
    """A terminal whose input may be anything.

    The library's thread ends, and the screen with it, at bytes that are no UTF-8, such as those of
    a key of another encoding.
    """

    def run_input_thread(self) -> None:
        """Read what is typed; forget what is no text."""
        while not self.exit_event.is_set():
            with suppress(UnicodeDecodeError):
                super().run_input_thread()
