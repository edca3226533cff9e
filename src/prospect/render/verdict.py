"""The answer to `--fail-if` in one line, and how a relative change is written.

Comes in: a Verdict. Goes out: text for the report and for standard error.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from prospect.render.encoding import significant
from prospect.render.escape import escaped

if TYPE_CHECKING:
    from prospect.estimate.compare.verdict import Verdict


def percent_change(share: float) -> str:
    """Return a change as a percentage with its sign, with fewer digits from 100 % on."""
    percent = significant(share * 100.0)
    return f"{percent:+.1f}%" if abs(percent) < 100 else f"{percent:+.0f}%"


def verdict_line(verdict: Verdict) -> str:
    """Return what became of a condition, with the figures that decided it."""
    condition = verdict.condition
    answer = {"met": "yes", "not met": "no", "undecided": "cannot tell"}[verdict.outcome]
    return escaped(f"{condition.text}: {answer}. {_reason(verdict)}")


def _reason(verdict: Verdict) -> str:
    about = verdict.about[0].upper() + verdict.about[1:]
    if not math.isfinite(verdict.relative):
        return f"{about} took no time in A."
    low, high = verdict.relative_low, verdict.relative_high
    claim = ""
    if low > -1.0 and math.isfinite(high):
        claim = f"between {_more(low)} and {_more(high)}, each bound"
    elif low > -1.0:
        claim = f"at least {_more(low)},"
    elif math.isfinite(high):
        claim = f"at most {_more(high)},"
    if claim:
        claim = f" ({claim} with {verdict.condition.confidence * 100:g}% confidence)"
    advice = ""
    if verdict.outcome == "undecided":
        number = verdict.recordings_needed
        advice = (
            f" If that is the true change, about {number} recordings a side would tell."
            if number
            else " That is too near to the limit, or too uncertain, for any sensible number of "
            "recordings to tell."
        )
    return f"{about} took {_more(verdict.relative)} time in B{claim}.{advice}"


def _more(share: float) -> str:
    return f"{percent_change(abs(share))[1:]} {'less' if share < 0 else 'more'}"
