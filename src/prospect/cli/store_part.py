"""A store, or a part of one or of a recording, as a command line names it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from prospect.cli.options import unexpected
from prospect.errors import UsageError
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from prospect.api.profile import Profile
    from prospect.cli.commands import Command
    from prospect.options import Settings

_OF_ROOT = "/var/lib/prospect"


def usual_store(target: str = "") -> str:
    """Return the store of this user: root's, or below what XDG calls the state of programs.

    Args:
        target: another machine, whose store lies beside this one's, below a directory for all.
    """
    if target:
        name = "".join(c if c.isalnum() or c in "@._-" else "_" for c in target)
        return os.path.join(f"{usual_store()}-targets", name.strip(".") or "_")
    if os.geteuid() == 0:
        return _OF_ROOT
    state = os.environ.get("XDG_STATE_HOME", "")
    if not state.startswith("/"):
        state = os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(state, "prospect")


class StorePart(NamedTuple):
    """A store, specifications of a part of it, and what engine reads it."""

    path: str
    words: list[str]
    engine: str = "local"

    def read(self, *, stacks: bool = False, addresses: bool = False, apart: str = "") -> Profile:
        """Read the part; arguments as those of `read_store`.

        Raises:
            ProspectError: nothing fits, or the store cannot be read.
        """
        from prospect.api.store import read_store

        return read_store(
            self.path,
            self.words,
            stacks=stacks,
            addresses=addresses,
            apart=apart,
            engine=self.engine,
        )


class RecordingPart(NamedTuple):
    """A recording, and specifications of a part of it."""

    path: str
    words: list[str]

    def of(self, profile: Profile, apart: str = "") -> Profile:
        """Choose the part; keep apart what columns are of.

        Raises:
            UsageError: nothing fits, or the recording does not say what a word asks for.
        """
        from prospect.api.store import part_of

        return part_of(profile, self.words, apart)


def divided(command: Command, words: list[str]) -> tuple[str, list[str]]:
    """Return the recording that words begin with, "" for none, and the specifications behind it.

    Raises:
        UsageError: a word is neither.
    """
    if len(words) < 2 and not (words and ":" in words[0]):
        return (words[0] if words else ""), []
    from prospect.store.specification import KNOWN

    def is_specification(word: str) -> bool:
        name, colon, _ = word.partition(":")
        return bool(colon) and name in KNOWN and not os.path.lexists(word)

    first = "" if is_specification(words[0]) else words[0]
    others = words[bool(first) :]
    for word in others:
        if not is_specification(word):
            raise UsageError(unexpected(command, word))
    return first, others


def specified(settings: Settings) -> list[str]:
    """Return the specifications that options stand for, as opreport has them."""
    found = []
    if settings.event_names:
        found.append(f"event:{','.join(settings.event_names)}")
    if settings.include_symbols:
        found.append(f"symbol:{','.join(settings.include_symbols)}")
    if settings.exclude_symbols:
        found.append(f"exclude-symbol:{','.join(settings.exclude_symbols)}")
    if settings.exclude_dependent:
        found.append("dependent:no")
    return found


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
                else "no code: make a recording"
            )
            raise UsageError(f"{option}: a store keeps {why}")
