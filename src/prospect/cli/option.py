"""What an option is: how it is written, what it sets, and who takes it."""

from __future__ import annotations

from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Option(NamedTuple):
    """An option. `check` turns its value's text into the field's; a flag has none and sets `value`.

    `is_counted` is a flag whose field says how often it was given; `is_repeated` an option whose
    field has all its values, one behind the other. `words` are values that a shell completes, where
    `metavar` does not list them.

    `commands` names the commands that take it; `help` is complete but for the default, which
    `Settings` knows.
    """

    keyword: str
    short: str
    longs: tuple[str, ...]
    metavar: str
    help: str
    commands: tuple[str, ...]
    check: Callable[[str], Any] | None = None
    value: Any = True
    is_counted: bool = False
    is_repeated: bool = False
    words: tuple[str, ...] = ()

    @property
    def spellings(self) -> tuple[str, ...]:
        """All names as they are typed, the short one first."""
        short = (f"-{self.short}",) if self.short else ()
        return (*short, *(f"--{name}" for name in self.longs))
