"""An event that somebody asked for: what to open, and how reports call it."""

from __future__ import annotations

from prospect.abi import constants as abi
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from prospect.abi.attr import EventAttr

ALONE = -1


class ChosenEvent(NamedTuple):
    """An event that was asked for.

    Attributes:
        name: as reports show it.
        attr: what to open: its kind, who is excluded; `sample_period` is 0 unless a period, or
            with FLAG_FREQ a rate, was asked for.
        group: events of one number from 0 on count at the same times; `ALONE` without.
        filter: of a tracepoint's records, "" for all.
        path: of the file that a probe stands in.
        cpus: the kernel's list of CPUs that count for all, empty where each counts for itself.
        unit, scale: what a count stands for: count times scale, in units.
    """

    name: str
    attr: EventAttr
    group: int = ALONE
    filter: str = ""
    path: bytes = b""
    cpus: bytes = b""
    unit: str = ""
    scale: float = 1.0

    @property
    def has_modifiers(self) -> bool:
        """Whether somebody is excluded already."""
        return bool(self.attr.flags & (abi.FLAG_EXCLUDE_USER | abi.FLAG_EXCLUDE_KERNEL))
