"""The verdict on a condition, `--fail-if`: met, not met or undecided.

It is met if we are as sure as the condition asks that the change is more than the limit, not met if
we are as sure that it is less.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal

from prospect.estimate.compare.changes import one_sided, ratio_bounds
from prospect.records import Record

if TYPE_CHECKING:
    from prospect.estimate.compare.option_texts import Condition
    from prospect.estimate.compare.variation import Spread

Outcome = Literal["met", "not met", "undecided"]
# Beyond this, the change is so near to the limit that nobody would make the recordings.
_MOST_RECORDINGS = 100


class Verdict(Record):
    """The answer to a condition.

    Attributes:
        about: what was judged, in words.
        before, after: mean time of A and of B, in the unit compared.
        relative: the change as a part of A's time; NaN if A has none.
        relative_low, relative_high: bounds that it is above, or below, with the condition's
            confidence each; infinite if there is none.
        recordings_needed: of an undecided one, how many recordings a side would likely decide it
            if the change is as measured; 0 if that is too many to ask for.
    """

    condition: Condition
    outcome: Outcome
    about: str
    before: float
    after: float
    relative: float
    relative_low: float
    relative_high: float
    recordings_needed: int


def judge(
    condition: Condition, about: str, mean: tuple[float, float], spread: Spread, recordings: int
) -> Verdict:
    """Judge a condition.

    `mean` is the time of A and of B, in the row that `about` names, and `recordings` the number of
    the side that has more.
    """
    is_two_sided = condition.direction == "different"
    sure = (1.0 + condition.confidence) / 2.0 if is_two_sided else condition.confidence
    more, less, needed = [], [], []
    for direction, factor in (("slower", 1.0 + condition.limit), ("faster", 1.0 - condition.limit)):
        if condition.direction in (direction, "different"):
            sign = 1.0 if direction == "slower" else -1.0
            margin, error, quantile = one_sided(mean, spread, factor, sure)
            more.append(sign * margin - quantile * error)
            less.append(sign * margin + quantile * error)
            needed.append(_recordings(abs(margin), error, sure, recordings))
    if max(more) > 0:
        outcome: Outcome = "met"
    else:
        outcome = "not met" if max(less) < 0 else "undecided"
    before, after = mean
    low, high = ratio_bounds(mean, spread, sure)
    return Verdict(
        condition=condition,
        outcome=outcome,
        about=about,
        before=before,
        after=after,
        relative=after / before - 1.0 if before > 0 else math.nan,
        relative_low=low - 1.0,
        relative_high=high - 1.0,
        recordings_needed=max(needed) if all(needed) and outcome == "undecided" else 0,
    )


def _recordings(margin: float, error: float, sure: float, recordings: int) -> int:
    """Return how many recordings a side make `margin` clear if it is true, 0 for too many."""
    if margin <= 0:
        return 0
    needed = recordings * (NormalDist().inv_cdf(sure) * error / margin) ** 2
    return max(math.ceil(needed), recordings + 1, 3) if needed <= _MOST_RECORDINGS else 0
