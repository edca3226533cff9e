"""The few styles of the screen: the terminal's own 16 colours, so that it fits light and dark."""

from __future__ import annotations

from rich.style import Style

from prospect.tui.rows import HOT, INTERRUPT, KERNEL, USER

PLAIN = Style()
BOLD = Style(bold=True)
FAINT = Style(dim=True)
TITLE = Style(bold=True, underline=True)
CHOSEN = Style(reverse=True)
CURSOR = Style(reverse=True, bold=True)
HISTORY = Style(color="cyan")
WARNING = Style(color="red", bold=True)
KEY = Style(bold=True)

OF_PAINT = {
    "": PLAIN,
    USER: PLAIN,
    KERNEL: Style(color="magenta"),
    INTERRUPT: Style(color="red"),
    HOT: BOLD,
}
