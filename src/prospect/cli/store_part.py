"""A part of a store, as a command line names it, in place of a recording."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.errors import UsageError
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from prospect.api.profile import Profile
    from prospect.cli.settings import Settings


class StorePart(NamedTuple):
    """A store, and specifications of a part of it."""

    path: str
    words: list[str]

    def read(self, *, stacks: bool) -> Profile:
        """Read the part.

        Raises:
            ProspectError: nothing fits, or the store cannot be read.
        """
        from prospect.api.store import read_store

        return read_store(self.path, self.words, stacks=stacks)


def refuse(settings: Settings, **options: str) -> None:
    """Refuse options that need what no store keeps: times within a window, code.

    Args:
        settings: of the command line.
        options: how each is spelled, by the field that it sets.

    Raises:
        UsageError: one is given.
    """
    for name, option in options.items():
        if getattr(settings, name):
            why = (
                "sums by window, as since:14:05 until:14:06"
                if name == "between"
                else "no code, record what is to be looked into"
            )
            raise UsageError(f"{option}: a store keeps {why}")
