"""Which segments are due to be merged into coarser ones.

The minutes of an hour that is over become one segment, and are removed. Of the hours of a day that
is over a summary is made, which stands beside them until they are too old.
"""

from __future__ import annotations

import time
from itertools import groupby
from typing import TYPE_CHECKING

from prospect.records import NamedTuple
from prospect.store.merging import merge_alike
from prospect.store.removal import remove
from prospect.store.segments import DAY, HOUR, MINUTE, Segment

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prospect.store.directory import StoreDirectory
    from prospect.store.engine import Engine

_LENGTH_S = {HOUR: 3600, DAY: 86400}
_FINER = {HOUR: MINUTE, DAY: HOUR}


class Made(NamedTuple):
    """How many segments of each tier were made."""

    hours: int
    days: int


def due(segments: Iterable[Segment], tier: str, now_s: float) -> list[list[Segment]]:
    """Return which segments are each to become one of a tier, the oldest first.

    Args:
        segments: of a store.
        tier: `HOUR` or `DAY`.
        now_s: in seconds since 1970; an hour or day is due once it is over.
    """
    every = sorted(segments, key=lambda one: one.first)
    inner = set(_within(every, tier))
    length_s = _LENGTH_S[tier]
    runs: list[tuple[tuple[object, ...], Segment]] = []
    breaks = 0
    for one in every:
        if one.tier == _FINER[tier] and one not in inner:
            runs.append(((breaks, one.begin_s // length_s, one.session), one))
        elif one.tier in {tier, MINUTE}:
            breaks += 1  # its windows are in no new segment, which may not reach across them
    found = []
    for _, group in groupby(runs, lambda run: run[0]):
        parts = [one for _, one in group]
        if (parts[0].begin_s // length_s + 1) * length_s <= now_s:
            found.append(parts)
    return found


def _within(ordered: Iterable[Segment], tier: str) -> list[Segment]:
    """Return the finer segments whose windows a segment of a tier has too."""
    every = list(ordered)
    coarse = [one for one in every if one.tier == tier]
    place, found = 0, []
    for one in every:
        if one.tier != _FINER[tier]:
            continue
        while place < len(coarse) and coarse[place].last < one.first:
            place += 1
        if place < len(coarse) and coarse[place].first <= one.first:
            found.append(one)
    return found


def compact(
    store: StoreDirectory, engine: Engine, now_s: float | None = None, most: int = 1 << 30
) -> Made:
    """Merge what is due; the caller holds the store's lock.

    Args:
        store: to change.
        engine: that writes to it.
        now_s: as in `due`; None for this moment.
        most: after how many segments to end.

    Raises:
        EngineError: a segment cannot be made.
        OSError: likewise, or what it was made of cannot be removed.
    """
    now_s = time.time() if now_s is None else now_s
    # What is damaged is not to be merged with the rest, and removed.
    store.reads_all = engine.reads_all = True
    # What a writer that was killed had yet to remove.
    for one in _within(sorted(store.segments(), key=lambda one: one.first), HOUR):
        remove(store, one)
    made = {HOUR: 0, DAY: 0}
    for tier in made:
        for parts in due(store.segments(), tier, now_s):
            if sum(made.values()) >= most:
                break
            for merged in merge_alike(store, engine, parts, tier):
                made[tier] += 1
                if tier == HOUR:
                    # Their names stay as long as others of the hour have hits by them.
                    for one in merged:
                        remove(store, one)
    return Made(made[HOUR], made[DAY])
