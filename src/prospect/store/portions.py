"""Whole hours of a store, removed or copied: segments partly in a span are taken whole.

The minutes of an hour share their names, so that none of them goes or is copied alone.
"""

from __future__ import annotations

import shutil
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING

from prospect.errors import StoreError
from prospect.records import NamedTuple
from prospect.store.removal import remove
from prospect.store.retention import ASKED_FOR, drop
from prospect.store.segments import DAY, KINDS, MINUTE, Segment, parts_of_day

if TYPE_CHECKING:
    from prospect.store.directory import StoreDirectory
    from prospect.store.specification import Specification

_US = 10**6


class Portion(NamedTuple):
    """Segments that contain a part of a store.

    Attributes:
        inside: all of whose windows are of the part.
        across: that have others, too.
    """

    inside: list[Segment]
    across: list[Segment]


def portion(store: StoreDirectory, chosen: Specification) -> Portion:
    """Find the segments that contain a part.

    Raises:
        StoreError: there are none.
    """
    sessions = chosen.texts.get("session", ("*",))
    every = store.segments()
    inside: list[Segment] = []
    across: list[Segment] = []
    for one in every:
        is_meant = any(fnmatchcase(one.session, each) for each in sessions)
        if not is_meant or not one.overlaps(chosen.since_us, chosen.until_us):
            continue
        is_inside = one.begin_s * _US >= chosen.since_us and one.end_s * _US <= chosen.until_us
        (inside if is_inside else across).append(one)
    if not inside and not across:
        raise StoreError(f"{store.path}: nothing matches {' '.join(chosen.words)}")
    # The minutes of an hour that are all inside, or none.
    left = {one.directory for one in set(every).difference(inside) if one.tier == MINUTE}
    shared = [one for one in inside if one.directory in left]
    return Portion([one for one in inside if one not in shared], across + shared)


def drop_portion(store: StoreDirectory, chosen: Specification) -> tuple[int, int]:
    """Remove a part of a store; the caller holds its lock.

    A day that reaches across goes too, where it can be made again of the hours that are left.

    Returns:
        How many windows were removed, and how many segments stay that lie partly in the part.

    Raises:
        StoreError: nothing matches.
        OSError: a file cannot be removed.
    """
    found, every = portion(store, chosen), store.segments()
    summaries = [one for one in every if one.tier == DAY and parts_of_day(one, every)]
    # First what has hits of what goes then.
    for one in summaries:
        if one in found.inside or one in found.across:
            remove(store, one)
    gone = [one for one in found.inside if one not in summaries]
    drop(store, [(one, ASKED_FOR) for one in sorted(gone, key=lambda one: one.first)])
    left = store.segments()
    removed = [one for one in gone if one not in left]
    stay = [one for one in found.across if one in left]
    return sum(one.last - one.first + 1 for one in removed), len(stay)


def copy_portion(store: StoreDirectory, target: StoreDirectory, chosen: Specification) -> int:
    """Copy the hours that contain a part of a store.

    Args:
        store: to read.
        target: an empty one, whose lock the caller holds.
        chosen: the part.

    Returns:
        How many segments were copied.

    Raises:
        StoreError: nothing matches, or the other store has something already.
        OSError: a file cannot be read or written.
    """
    if target.segments():
        raise StoreError(f"{target.path}: has windows already; give a new directory")
    found, every = portion(store, chosen), store.segments()
    directories = {one.directory for one in [*found.inside, *found.across] if one.tier == MINUTE}
    wanted = [
        one
        for one in every
        if one.directory in directories
        or one in found.inside
        # The hours of a day that reaches across are enough.
        or (one in found.across and not (one.tier == DAY and parts_of_day(one, every)))
    ]
    for one in sorted(wanted, key=lambda one: one.first):
        for kind in KINDS:
            path = one.path(kind)
            if store.has_ours(path):
                target.write(path, partial(_copy, store.root + path))
    return len(wanted)


def _copy(source: str, target: str) -> None:
    shutil.copyfile(source, target, follow_symlinks=False)
