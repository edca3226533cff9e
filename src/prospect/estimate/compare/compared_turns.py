"""Two accounts of turns → which kinds of turns became faster or slower, and by what.

Each side's turns of a program and kind are those of all its recordings together. Means are
compared, with the interval of a difference of two independent means.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from prospect.estimate.compare.compared_wall import accounted
from prospect.estimate.turn_account import turn_account
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prospect.estimate.turn_account import KindOfTurns, TurnAccount
    from prospect.options import Detail
    from prospect.profile.model import Profile

_Z = 1.96


class TurnPartChange(NamedTuple):
    """A part of turns of both sides.

    Attributes:
        state, program, thread, what: as in `TurnRow`.
        a, b: seconds a turn on both sides, 0 without such a part.
        half_width_s: half of the 95 % interval of their difference, from samples; 0.0 for what is
            exact.
    """

    state: str
    program: str
    thread: str
    what: str
    a: float
    b: float
    half_width_s: float

    @property
    def change(self) -> float:
        """How much longer it was on the second side, in seconds a turn."""
        return self.b - self.a


class TurnChange(NamedTuple):
    """Turns of a program and kind on both sides.

    Attributes:
        program, kind: as in `KindOfTurns`.
        a_turns, b_turns: how many.
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
    parts: tuple[TurnPartChange, ...]

    @property
    def change(self) -> float:
        """How much longer a turn was on the second side, in seconds."""
        return self.b - self.a


def compared_turns(
    before: Sequence[Profile], after: Sequence[Profile], detail: Detail
) -> tuple[TurnChange, ...]:
    """Compare turns of the kinds that both sides have, those with most time first.

    Args:
        before: the recordings of one side.
        after: those of the other.
        detail: `-V`.
    """
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
    """The turns of one side: how many, the mean of their lengths, and its variance."""

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
    parts: dict[tuple[str, str, str, str], TurnPartChange] = {}
    for place, (kinds, mean) in enumerate(zip((a, b), means, strict=True)):
        for row in (row for kind in kinds for row in kind.rows):
            name = row.state, row.program, row.thread, row.what
            part = parts.get(name) or TurnPartChange(*name, 0.0, 0.0, 0.0)
            seconds = row.seconds / mean.turns
            half_s = row.half_width_s / mean.turns
            parts[name] = part._replace(
                a=part.a + (seconds if place == 0 else 0.0),
                b=part.b + (seconds if place == 1 else 0.0),
                half_width_s=math.hypot(part.half_width_s, half_s),
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
