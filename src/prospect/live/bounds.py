"""How much a session keeps, in memory and on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.live.floods import FloodGate
from prospect.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from prospect.events.schema import Schema
    from prospect.live.drained import Gate


class Bounds(Record):
    """What a session keeps at most; as it stands, what suits `top`.

    Attributes:
        most_samples: how many the profile remembers, 0 for what suits so many CPUs.
        most_addresses: of how many the names stay in memory from one part to the next.
        most_symbols: how many symbols of images do.
        spool_bytes: how much `save` can write; with 0 no records are kept.
        gate: makes what leaves out records that no look could follow, or will ask about.
    """

    most_samples: int = 0
    most_addresses: int = 1 << 19
    most_symbols: int = 1 << 22
    spool_bytes: int = 1 << 29
    gate: Callable[[Schema], Gate] = FloodGate
