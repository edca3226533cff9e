"""A comparison in words: its scope, units, relative changes, and the answer to --fail-if.

All formats for people use the same words, which are safe for a terminal.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from prospect.records import NamedTuple
from prospect.render.encoding import significant
from prospect.render.escape import escaped

if TYPE_CHECKING:
    from prospect.estimate.compare.changes import Verdict
    from prospect.estimate.compare.comparison import Comparison

_UNITS = (("s", 1.0), ("ms", 1e3), ("us", 1e6), ("ns", 1e9))


class Unit(NamedTuple):
    """The unit of times: its name, and how many of it a second has."""

    name: str
    per_second: float


def unit_of(comparison: Comparison) -> Unit:
    """Return the coarsest unit in which the total is 1 or more."""
    seconds = float(comparison.total.mean.max(initial=0.0))
    return Unit(*next((unit for unit in _UNITS if seconds * unit[1] >= 1.0), _UNITS[-1]))


def compared_line(comparison: Comparison) -> str:
    """Return what is compared, and in which unit."""
    name, scope = unit_of(comparison).name, comparison.options.scope
    words = {
        "2": "the command",
        "3": "the command and its descendants",
        "4": "every process but Prospect and idle CPUs",
        "k": "the kernel but idle CPUs",
    }
    return f"Compared: CPU time of {words[scope]} (-V {scope}), in {name} {per(comparison)}"


def per(comparison: Comparison) -> str:
    """Return the unit of work that times are divided by."""
    words = {"run": "per run", "second": "per second of wall time"}
    return words.get(comparison.work.kind) or f"for each of the {escaped(comparison.work.unit)}"


def percent_change(share: float) -> str:
    """Return a change as a percentage with its sign, with fewer digits from 100 % on."""
    percent = significant(share * 100.0)
    return f"{percent:+.1f}%" if abs(percent) < 100 else f"{percent:+.0f}%"


def verdict_line(verdict: Verdict) -> str:
    """Return whether a condition was met, with the figures that decided it."""
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
