"""Remove the oldest segments of a store, and remove or copy hours that a user chooses.

The oldest segments go, by their age and by the size of the store. The store records removals with
their reasons: otherwise the span would look as if it was never measured.

The files of a window have the names of functions and stacks that earlier windows of the hour did
not have. So the files of names stay until the last window of the hour goes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING

from prospect.errors import StoreError, UsageError
from prospect.files.budget import size_in_bytes
from prospect.records import NamedTuple
from prospect.store.directory import DEPTHS, PART_SUFFIX
from prospect.store.segments import (
    DAY,
    KINDS,
    MINUTE,
    NAME_KINDS,
    SUFFIX,
    Segment,
    parts_of_day,
    segment_of,
)
from prospect.store.store_limits import LEAST_STORE_BYTES, MOST_REMOVED, MOST_REMOVED_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from prospect.store.directory import StoreDirectory
    from prospect.store.specification import Specification


DROPPED = "dropped.json"
BY_AGE, BY_SIZE, FULL_DISK, ASKED_FOR = "age", "size", "full disk", "asked for"
_AGE = re.compile(r"(\d{1,6})([hdw])")
_UNITS = {"h": 3600, "d": 86400, "w": 7 * 86400}


class Keep(NamedTuple):
    """How much a store keeps.

    Attributes:
        detail_s: the age of windows, in seconds.
        days_s: the age of summaries of days, in seconds.
        most_bytes: the size of all files.
    """

    detail_s: int = 7 * 86400
    days_s: int = 400 * 86400
    most_bytes: int = 2 << 30


class Dropped(NamedTuple):
    """Removed windows: begin and end, their number, and the reason."""

    begin_s: int
    end_s: int
    windows: int
    why: str


def parse_keep(text: str) -> Keep:
    """Parse how much to keep, as ``7d``, ``7d,2G`` or ``7d,400d,2G``.

    Raises:
        UsageError: it is invalid.
    """
    ages: list[int] = []
    found = Keep()
    for part in text.split(","):
        if age := _AGE.fullmatch(part):
            ages.append(int(age[1]) * _UNITS[age[2]])
            continue
        try:
            size = size_in_bytes(part)
        except ValueError:
            size = 0
        if size < LEAST_STORE_BYTES or not part[-1:].isalpha():
            raise UsageError("give an age and a size, as 7d,2G")
        found = found._replace(most_bytes=size)
    if len(ages) > 2 or 0 in ages:
        raise UsageError("give one age over 0, or two: of minutes and of days")
    if ages:
        found = found._replace(detail_s=ages[0], days_s=max(ages[0], found.days_s))
    if len(ages) == 2:
        found = found._replace(days_s=max(ages))
    return found


def expired(
    store: StoreDirectory, segments: Iterable[Segment], keep: Keep, now_s: float
) -> list[tuple[Segment, str]]:
    """Return the segments to remove, the oldest first, and why.

    Ages also count from the newest window, so that a clock set forward removes nothing.
    """
    ordered = sorted(segments, key=lambda one: one.first)
    if not ordered:
        return []
    now_s = min(now_s, max(one.end_s for one in ordered))
    found: list[tuple[Segment, str]] = []
    left: dict[Segment, int] = {}
    for one in ordered:
        limit = keep.days_s if one.tier == DAY else keep.detail_s
        if one.end_s < now_s - limit:
            found.append((one, BY_AGE))
        else:
            left[one] = store.size_bytes(one)
    while sum(left.values()) > keep.most_bytes and (oldest := next_to_go(left)):
        del left[oldest]
        found.append((oldest, BY_SIZE))
    return found


def next_to_go(sizes: Mapping[Segment, int]) -> Segment | None:
    """Return the segment to remove first to free space, None if only the newest is left.

    It is the oldest of windows or of summaries of days, of the kind that uses more space: so
    neither displaces all of the other.

    `sizes` are the bytes of each, in the order of their windows.
    """
    days = [one for one in sizes if one.tier == DAY]
    detail = [one for one in sizes if one.tier != DAY]
    of_days = sum(sizes[one] for one in days)
    is_days_turn = len(detail) < 2 or 2 * of_days > sum(sizes.values())
    return next(iter(days if days and is_days_turn else detail[:-1]), None)


def drop(
    store: StoreDirectory,
    segments: Iterable[tuple[Segment, str]],
    set_aside: Callable[[Segment], None] | None = None,
) -> int:
    """Remove segments, and record which windows are gone; return the number of removed segments.

    `segments` have the reason for each; `set_aside` is called with each segment before.
    """
    gone: list[tuple[Segment, str]] = []
    for one, why in segments:
        if set_aside:
            set_aside(one)
        try:
            remove(store, one, with_names=why == FULL_DISK)
        except OSError:
            break
        gone.append((one, why))
    try:
        left = store.segments() if gone else []
    except StoreError:
        left = []
    spans = [
        Dropped(one.begin_s, one.end_s, one.last - one.first + 1, why)
        for one, why in gone
        if not any(each.first <= one.first and one.last <= each.last for each in left)
    ]
    if spans:
        kept = _merged([*dropped(store), *spans])[-MOST_REMOVED:]
        with suppress(OSError):  # the disk may be full
            store.write_bytes(DROPPED, json.dumps([list(one) for one in kept]).encode())
    return len(gone)


def dropped(store: StoreDirectory) -> list[Dropped]:
    """Return the removals, the oldest first; none if their file is damaged."""
    try:
        rows = json.loads(store.read_bytes(DROPPED, MOST_REMOVED_BYTES))
        return [
            Dropped(int(begin), int(end), int(windows), str(why))
            for begin, end, windows, why in rows
        ]
    except (OSError, ValueError, TypeError, ArithmeticError, RecursionError):
        return []


def _merged(spans: list[Dropped]) -> list[Dropped]:
    found: list[Dropped] = []
    for one in spans:
        last = found[-1] if found else None
        if last and last.why == one.why and 0 <= one.begin_s - last.end_s <= 1:
            windows = last.windows + one.windows
            found[-1] = last._replace(end_s=one.end_s, windows=windows)
        else:
            found.append(one)
    return found


# Whole hours of a store are removed or copied: the minutes of an hour share their names.

_US = 10**6


def _segments_of_part(
    store: StoreDirectory, chosen: Specification
) -> tuple[list[Segment], list[Segment]]:
    """Return the segments whose windows are all in a part, and those that are partly in it.

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
    # The minutes of an hour are all inside, or all across.
    left = {one.directory for one in set(every).difference(inside) if one.tier == MINUTE}
    shared = [one for one in inside if one.directory in left]
    return [one for one in inside if one not in shared], across + shared


def drop_portion(store: StoreDirectory, chosen: Specification) -> tuple[int, int]:
    """Remove a part of a store; the caller holds its lock.

    A day that is partly in the part goes too, if its hours are there to make it again.

    Returns:
        The number of removed windows, and the number of segments partly in the part that stay.

    Raises:
        StoreError: nothing matches.
        OSError: a file cannot be removed.
    """
    inside, across = _segments_of_part(store, chosen)
    every = store.segments()
    summaries = [one for one in every if one.tier == DAY and parts_of_day(one, every)]
    # Summaries go first: they have the hits of the segments that go next.
    for one in summaries:
        if one in inside or one in across:
            remove(store, one)
    gone = [one for one in inside if one not in summaries]
    drop(store, [(one, ASKED_FOR) for one in sorted(gone, key=lambda one: one.first)])
    left = store.segments()
    removed = [one for one in gone if one not in left]
    stay = [one for one in across if one in left]
    return sum(one.last - one.first + 1 for one in removed), len(stay)


def copy_portion(store: StoreDirectory, target: StoreDirectory, chosen: Specification) -> int:
    """Copy the hours that contain a part of a store; return the number of copied segments.

    Args:
        target: an empty store; the caller holds its lock.

    Raises:
        StoreError: nothing matches, or the other store has something already.
        OSError: a file cannot be read or written.
    """
    if target.segments():
        raise StoreError(f"{target.path}: has windows already; give a new directory")
    inside, across = _segments_of_part(store, chosen)
    every = store.segments()
    directories = {one.directory for one in [*inside, *across] if one.tier == MINUTE}
    wanted = [
        one
        for one in every
        if one.directory in directories
        or one in inside
        # The hours of a day that is partly in the part are enough.
        or (one in across and not (one.tier == DAY and parts_of_day(one, every)))
    ]
    for one in sorted(wanted, key=lambda one: one.first):
        for kind in KINDS:
            path = one.path(kind)
            if store.has_ours(path):
                copy = partial(shutil.copyfile, store.root + path, follow_symlinks=False)
                target.write(path, copy)
    return len(wanted)


def remove(store: StoreDirectory, segment: Segment, *, with_names: bool = False) -> None:
    """Remove a segment's files; first the file that makes it whole.

    With `with_names` the names go even if others need them: a full disk needs the space.

    Raises:
        OSError: a file cannot be removed.
    """
    directory = segment.directory
    is_last = segment.tier != MINUTE or not _has_others(store, segment)
    stays = () if is_last or with_names else NAME_KINDS
    gone = [segment.path(kind) for kind in reversed(KINDS) if kind not in stays]
    if segment.tier == MINUTE and is_last:
        gone += left_names(store, [directory])
    for path in gone:
        with suppress(FileNotFoundError):
            os.unlink(path, dir_fd=store.descriptor)
    while directory:
        try:
            os.rmdir(directory, dir_fd=store.descriptor)
        except OSError:
            return  # not empty
        directory = os.path.dirname(directory)


def left_names(
    store: StoreDirectory, directories: Iterable[str], kinds: Sequence[str] = NAME_KINDS
) -> list[str]:
    """Return the files of names in directories, even of segments that were removed."""
    endings = tuple(f".{kind}{SUFFIX}" for kind in kinds)
    found = (name for directory in directories for name in store.names(directory, 0))
    return [name for name in found if name.endswith(endings)]


def clean(store: StoreDirectory) -> int:
    """Remove the unfinished files of a killed writer; return their number.

    The caller holds the store's lock.
    """
    segments = store.segments()
    whole = {(one.directory, one.stem) for one in segments}
    kept = set(left_names(store, {one.directory for one in segments if one.tier == MINUTE}))
    removed = 0
    for tier, depth in DEPTHS.items():
        for name in list(store.names(tier, depth)):
            directory, _, file = name.rpartition("/")
            stem = file.removesuffix(SUFFIX).rpartition(".")[0]
            is_whole = (directory, stem) in whole or name in kept
            if file.endswith(PART_SUFFIX) or not is_whole:
                with suppress(OSError):
                    os.unlink(name, dir_fd=store.descriptor)
                    removed += 1
    return removed


def _has_others(store: StoreDirectory, segment: Segment) -> bool:
    """Whether a segment's directory has other segments."""
    names = (name.rpartition("/")[2] for name in store.names(segment.directory, 0))
    found = {segment_of(segment.tier, name) for name in names} - {None}
    return bool(found - {segment._replace(place="", digests=())})
