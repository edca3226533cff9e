"""Two accounts of wall time → what made a command faster or slower.

Each side is the mean of its recordings. Rows are those of all programs together: a change of a wait
for the disk is one row, whichever program waited.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from prospect.estimate.wall_account import wall_account
from prospect.figures.modes import event_has_time
from prospect.figures.smaller_profiles import by_function
from prospect.profile.complete import complete
from prospect.records import NamedTuple, Record, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.estimate.wall_account import WallAccount, WallRow
    from prospect.profile.complete import CompleteProfile, ProfileByFunction
    from prospect.profile.model import Profile


class WallChange(NamedTuple):
    """A row of both accounts.

    Attributes:
        state, program, what, ended_by: as in `WallRow` of all programs together.
        a, b: seconds on both sides, 0 without such a row.
        half_width_s: half of the 95 % interval of their difference, 0.0 for what is exact.
    """

    state: str
    program: str
    what: str
    ended_by: str
    a: float
    b: float
    half_width_s: float

    @property
    def change(self) -> float:
        """How much longer it took on the second side, in seconds."""
        return self.b - self.a


class ComparedWall(Record):
    """The wall time of both sides.

    Attributes:
        a, b: seconds from start to exit.
        rows: the largest changes first; they add up to the change of the wall time.
    """

    a: float
    b: float
    rows: tuple[WallChange, ...]


def compared_wall(before: Sequence[Profile], after: Sequence[Profile]) -> ComparedWall | None:
    """Compare the accounts; None if a recording has none."""
    sides = [[account_of(profile) for profile in side] for side in (before, after)]
    known = [[account for account in side if account is not None] for side in sides]
    if [len(side) for side in known] != [len(side) for side in sides]:
        return None
    rows: dict[tuple[str, str, str, str], WallChange] = {}
    for place, side in enumerate(known):
        for account in side:
            for row in account.of_all_programs:
                key = row.state, row.program, row.what, row.ended_by
                rows[key] = _added(
                    rows.get(key) or WallChange(*key, 0.0, 0.0, 0.0), row, place, len(side)
                )
    a, b = (sum(account.seconds for account in side) / len(side) for side in known)
    changes = sorted(rows.values(), key=lambda row: -abs(row.change))
    return ComparedWall(a, b, tuple(changes))


def account_of(profile: Profile) -> WallAccount | None:
    """Return the account of a profile; None without a critical path or samples with time."""
    if profile.wall is None:
        return None
    return wall_account(*accounted(profile))


def accounted(profile: Profile) -> tuple[CompleteProfile, ProfileByFunction, int]:
    """Return what accounts are made of: a profile, its functions, and its event that has time."""
    whole = complete(profile)
    event = next((at for at, one in enumerate(whole.run.events) if event_has_time(one)), 0)
    return whole, by_function(replace(whole, waits=None)), event


def _added(change: WallChange, row: WallRow, place: int, recordings: int) -> WallChange:
    seconds, half_s = row.seconds / recordings, row.half_width_s / recordings
    return change._replace(
        a=change.a + (seconds if place == 0 else 0.0),
        b=change.b + (seconds if place == 1 else 0.0),
        half_width_s=math.hypot(change.half_width_s, half_s),
    )
