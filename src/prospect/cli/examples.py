"""``prospect examples``: command lines for common questions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.cli.help import examples
from prospect.cli.terminal import show

if TYPE_CHECKING:
    from prospect.options import Settings


def run(_settings: Settings, _words: list[str], _command_line: tuple[str, ...]) -> int:
    """Show them."""
    show(examples())
    return 0
