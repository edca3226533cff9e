"""A profile and the objects behind it → the same profile with source lines and instructions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.assembly.code.code import describe_code
from prospect.assembly.code.lines import describe_lines
from prospect.assembly.code.recorded_objects import recorded_objects
from prospect.records import replace

if TYPE_CHECKING:
    from prospect.assembly.code.code import CodeChoice
    from prospect.assembly.code.recorded_objects import RecordedObjects
    from prospect.profile.model import Profile

__all__ = ["add_source", "recorded_objects"]


def add_source(
    profile: Profile, recorded: RecordedObjects, *, lines: bool, code: CodeChoice | None
) -> Profile:
    """Return the profile with what was asked for.

    Args:
        profile: named, without source.
        recorded: the objects behind its object rows.
        lines: whether the source lines of all locations are wanted.
        code: whose instructions are wanted, None for nobody's.
    """
    if lines:
        profile = replace(profile, lines=describe_lines(profile, recorded))
    if code:
        profile = replace(profile, code=describe_code(profile, recorded, code))
    return profile
