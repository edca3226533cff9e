"""Two accounts of wall time or of turns → the parts that made them longer or shorter.

Wall time: each side is the mean of its recordings. Rows are those of all programs together: a
change of a wait for the disk is one row, whichever program waited.

Turns: each side's turns of a program and kind are those of all its recordings together. Means are
compared, with the interval of a difference of two independent means.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from prospect.estimate.turn_account import turn_account
from prospect.estimate.wall_account import wall_account
from prospect.figures.modes import event_has_time
from prospect.figures.selection import by_function
from prospect.profile.complete import complete
from prospect.records import NamedTuple, Record, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prospect.estimate.turn_account import KindOfTurns, TurnAccount
    from prospect.estimate.wall_account import WallAccount
    from prospect.options import Detail
    from prospect.profile.complete import CompleteProfile, ProfileByFunction
    from prospect.profile.model import Profile


_Z = 1.96


class PartChange(NamedTuple):
    """A part of turns, or of the wall time of a command, on both sides.

    Attributes:
        state, program, what: as in `TurnRow`, or in `WallRow` of all programs together.
        thread: as in `TurnRow`; "" for wall time.
        ended_by: as in `WallRow`; "" for turns.
        a, b: seconds on both sides, for turns seconds a turn; 0 without such a part.
        half_width_s: half of the 95 % interval of their difference, from samples; 0.0 for exact
            times.
    """

    state: str
    program: str
    what: str
    thread: str = ""
    ended_by: str = ""
    a: float = 0.0
    b: float = 0.0
    half_width_s: float = 0.0

    @property
    def change(self) -> float:
        """How much longer it was on the second side, in seconds."""
        return self.b - self.a

    def plus(self, place: int, seconds: float, half_width_s: float) -> PartChange:
        """Return it with more time on side 0 or 1."""
        return self._replace(
            a=self.a + (seconds if place == 0 else 0.0),
            b=self.b + (seconds if place == 1 else 0.0),
            half_width_s=math.hypot(self.half_width_s, half_width_s),
        )


class TurnChange(NamedTuple):
    """Turns of a program and kind on both sides.

    Attributes:
        a, b: mean seconds of a turn.
        half_width_s: half of the 95 % interval of their difference, if turns are independent.
        parts: the largest changes first; they add up to the change of the mean.
    """

    program: str
    kind: str
    a_turns: int
    b_turns: int
    a: float
    b: float
    half_width_s: float
    parts: tuple[PartChange, ...]

    @property
    def change(self) -> float:
        """How much longer a turn was on the second side, in seconds."""
        return self.b - self.a


def compared_turns(
    before: Sequence[Profile], after: Sequence[Profile], detail: Detail
) -> tuple[TurnChange, ...]:
    """Compare turns of the kinds that both sides have, those with most time first."""
    sides = [
        [turn_account(*accounted(profile), detail) for profile in side] for side in (before, after)
    ]
    kinds = [_by_kind(one for one in side if one is not None) for side in sides]
    both = [key for key in kinds[0] if key in kinds[1]]
    found = [_change(key, kinds[0][key], kinds[1][key]) for key in both]
    return tuple(sorted(found, key=lambda one: -(one.a * one.a_turns + one.b * one.b_turns)))


def _by_kind(accounts: Iterable[TurnAccount]) -> dict[tuple[str, str], list[KindOfTurns]]:
    found: dict[tuple[str, str], list[KindOfTurns]] = {}
    for account in accounts:
        for kind in account.kinds:
            found.setdefault((kind.program, kind.kind), []).append(kind)
    return found


class _Mean(NamedTuple):
    """The turns of one side: their number, the mean of their lengths, and its variance."""

    turns: int
    seconds: float
    variance: float


def _mean(kinds: list[KindOfTurns]) -> _Mean:
    turns = sum(kind.turns for kind in kinds)
    mean_s = sum(kind.seconds for kind in kinds) / turns
    squares = sum(
        kind.turns * (kind.deviation_s**2 + (kind.mean_s - mean_s) ** 2) for kind in kinds
    )
    return _Mean(turns, mean_s, squares / max(turns - 1, 1) / turns)


def _change(key: tuple[str, str], a: list[KindOfTurns], b: list[KindOfTurns]) -> TurnChange:
    means = _mean(a), _mean(b)
    parts: dict[PartChange, PartChange] = {}
    for place, (kinds, mean) in enumerate(zip((a, b), means, strict=True)):
        for row in (row for kind in kinds for row in kind.rows):
            part = PartChange(row.state, row.program, row.what, thread=row.thread)
            parts[part] = parts.get(part, part).plus(
                place, row.seconds / mean.turns, row.half_width_s / mean.turns
            )
    return TurnChange(
        *key,
        a_turns=means[0].turns,
        b_turns=means[1].turns,
        a=means[0].seconds,
        b=means[1].seconds,
        half_width_s=_Z * math.sqrt(means[0].variance + means[1].variance),
        parts=tuple(sorted(parts.values(), key=lambda one: -abs(one.change))),
    )


class ComparedWall(Record):
    """The wall time of both sides.

    Attributes:
        a, b: seconds from start to exit.
        rows: the largest changes first; they add up to the change of the wall time.
    """

    a: float
    b: float
    rows: tuple[PartChange, ...]


def compared_wall(before: Sequence[Profile], after: Sequence[Profile]) -> ComparedWall | None:
    """Compare the accounts; None if a recording has none."""
    sides = [[account_of(profile) for profile in side] for side in (before, after)]
    known = [[account for account in side if account is not None] for side in sides]
    if [len(side) for side in known] != [len(side) for side in sides]:
        return None
    rows: dict[PartChange, PartChange] = {}
    for place, side in enumerate(known):
        for account in side:
            for row in account.of_all_programs:
                part = PartChange(row.state, row.program, row.what, ended_by=row.ended_by)
                rows[part] = rows.get(part, part).plus(
                    place, row.seconds / len(side), row.half_width_s / len(side)
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
    """Return the arguments of accounts: a profile, its functions, and its timed event."""
    whole = complete(profile)
    event = next((at for at, one in enumerate(whole.run.events) if event_has_time(one)), 0)
    return whole, by_function(replace(whole, waits=None)), event
