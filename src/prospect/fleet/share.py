"""Which hosts send an hour, where only a share of them does."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from prospect.store.segments import DAY

if TYPE_CHECKING:
    from prospect.store.segments import Segment

_HOUR_S = 3600
_WHOLE = 1 << 64


def is_chosen(segment: Segment, host: str, share: float) -> bool:
    """Whether a host sends a segment: as a hash of host and hour says, the same for everybody.

    Args:
        segment: of the host.
        host: its name.
        share: of hosts that send an hour, up to 1.
    """
    if share >= 1:
        return True
    if segment.tier == DAY:  # of many hours
        return False
    words = f"{host}\0{segment.begin_s // _HOUR_S}".encode("utf-8", "surrogateescape")
    return int.from_bytes(blake2b(words, digest_size=8).digest(), "little") < share * _WHOLE
