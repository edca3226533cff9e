"""How long a command would take after changes: what `prospect whatif` shows."""

from __future__ import annotations

from prospect.records import NamedTuple, Record


class Change(NamedTuple):
    """A function, a pattern or a part of a name, and what its time is multiplied by."""

    name: str
    factor: float


class Outcome(Record):
    """How long the command would take after some changes.

    Attributes:
        cpu_s: how long the functions had a CPU.
        saved_s: how much less they would.
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

    `has_callees` says whether a function's time is with all that it calls.
    """

    seconds: float
    outcomes: tuple[Outcome, ...]
    has_callees: bool
