"""What a comparison is of, in words, and the unit of its times: the same in each format for people.

Comes in: a Comparison. Goes out: text that is safe for a terminal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.records import NamedTuple
from prospect.render.escape import escaped

if TYPE_CHECKING:
    from prospect.estimate.compare.comparison import Comparison

_UNITS = (("s", 1.0), ("ms", 1e3), ("us", 1e6), ("ns", 1e9))


class Unit(NamedTuple):
    """What times are shown in: its name, and how many of it a second has."""

    name: str
    per_second: float


def unit_of(comparison: Comparison) -> Unit:
    """Return the coarsest unit in which the total is 1 or more."""
    seconds = float(comparison.total.mean.max(initial=0.0))
    return Unit(*next((unit for unit in _UNITS if seconds * unit[1] >= 1.0), _UNITS[-1]))


def compared_line(comparison: Comparison) -> str:
    """Return what is compared, and in which unit."""
    name = unit_of(comparison).name
    return f"Compared: CPU time of {_scope(comparison)}, in {name} {per(comparison)}"


def _scope(comparison: Comparison) -> str:
    scope = comparison.options.scope
    words = {
        "2": "the command",
        "3": "the command and its descendants",
        "4": "every process but Prospect and idle CPUs",
        "k": "the kernel but idle CPUs",
    }
    return f"{words[scope]} (-V {scope})"


def per(comparison: Comparison) -> str:
    """Return what times are per."""
    words = {"run": "per run", "second": "per second of wall time"}
    return words.get(comparison.work.kind) or f"for each of the {escaped(comparison.work.unit)}"
