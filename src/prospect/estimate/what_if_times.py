"""How long a command would take after changes: what `prospect whatif` shows."""

from __future__ import annotations

from prospect.records import NamedTuple, Record


class Change(NamedTuple):
    """A function, a pattern or a part of a name, and the factor of its time."""

    name: str
    factor: float


class Outcome(Record):
    """The time of the command after some changes.

    Attributes:
        cpu_s: CPU time of the functions.
        saved_s: how much less they would take.
        gain_s: how much sooner the command would end, at most; negative if later.
        half_width_s: half of the 95 % interval of `gain_s`.
    """

    changes: tuple[Change, ...]
    cpu_s: float
    saved_s: float
    gain_s: float
    half_width_s: float


class WhatIf(Record):
    """The answer: `seconds` that the command took, and the outcomes, the best one first.

    `has_callees` is whether a function's time includes its callees.
    """

    seconds: float
    outcomes: tuple[Outcome, ...]
    has_callees: bool
