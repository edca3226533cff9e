"""Profiles in which every name that somebody else chose tries to break the page it stands on."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING

from prospect.records import replace

if TYPE_CHECKING:
    from prospect.profile.model import Profile
    from prospect.profile.run_info import RunInfo

HOSTILE = (
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "\u202egpj.exe\u2066",
    "first\nsecond\r\x1b[2J\x07",
    "x" * 10_000,
    "<b>bold</b>&amp;${alert(1)}",
)
"""Markup, quotes, characters that turn the text round, control characters, and sheer length."""


def with_hostile_names(profile: Profile) -> Profile:
    """Return the profile with other names, at each place that a recording fills."""
    names = cycle(HOSTILE)

    def renamed(old: list[str]) -> list[str]:
        return [f"{next(names)}{row}" for row, _ in enumerate(old)]

    run: RunInfo = replace(
        profile.run,
        command=HOSTILE,
        recorder_command_line=HOSTILE,
        hostname=HOSTILE[0],
        uname=HOSTILE[4],
        limits=HOSTILE,
    )
    functions = renamed(profile.functions.name)
    paths = [f"/{path}" for path in renamed(profile.objects.path)]
    return replace(
        profile,
        run=run,
        comms=renamed(profile.comms),
        processes=replace(profile.processes, name=renamed(profile.processes.name)),
        functions=replace(profile.functions, name=functions, linkage_name=functions),
        objects=replace(profile.objects, path=paths, note=renamed(profile.objects.note)),
        entry_reasons=replace(profile.entry_reasons, name=renamed(profile.entry_reasons.name)),
    )
