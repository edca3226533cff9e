"""What a store keeps how long: the oldest segments go, by their age and by the bytes of all.

Removals and their reasons are written down: otherwise the span would look as if it was never
measured.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from prospect.errors import StoreError, UsageError
from prospect.files.budget import size_in_bytes
from prospect.records import NamedTuple
from prospect.store.removal import remove
from prospect.store.segments import DAY, Segment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from prospect.store.directory import StoreDirectory

DROPPED = "dropped.json"
BY_AGE, BY_SIZE, FULL_DISK, ASKED_FOR = "age", "size", "full disk", "asked for"
_AGE = re.compile(r"(\d{1,6})([hdw])")
_UNITS = {"h": 3600, "d": 86400, "w": 7 * 86400}
_LEAST_BYTES = 1 << 20
_MOST_BYTES = 1 << 18
_MOST_DROPPED = 1000


class Keep(NamedTuple):
    """How much is kept.

    Attributes:
        detail_s: how long windows are told apart, in seconds.
        days_s: how long days are kept, of which only hours are told apart.
        most_bytes: of all files together.
    """

    detail_s: int = 7 * 86400
    days_s: int = 400 * 86400
    most_bytes: int = 2 << 30


class Dropped(NamedTuple):
    """Windows that were removed: from when to when, how many, and why."""

    begin_s: int
    end_s: int
    windows: int
    why: str


def parse_keep(text: str) -> Keep:
    """Read what is to be kept, as ``7d``, ``7d,2G`` or ``7d,400d,2G``.

    Raises:
        UsageError: it has no meaning.
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
        if size < _LEAST_BYTES or not part[-1:].isalpha():
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

    Age counts from the newest window too: a clock that is set forward costs no segments.
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
    """Return the segment that makes room first, None if only the newest is left.

    Remove the oldest of windows or of summaries of days, of the kind that uses more space: so
    neither costs all of the other.

    Args:
        sizes: the bytes of each, in the order of their windows.
    """
    days = [one for one in sizes if one.tier == DAY]
    detail = [one for one in sizes if one.tier != DAY]
    of_days = sum(sizes[one] for one in days)
    is_days_turn = len(detail) < 2 or 2 * of_days > sum(sizes.values())
    candidates = days if days and is_days_turn else detail[:-1]
    return candidates[0] if candidates else None


def drop(
    store: StoreDirectory,
    segments: Iterable[tuple[Segment, str]],
    set_aside: Callable[[Segment], None] | None = None,
) -> int:
    """Remove segments, and write down which windows are gone by that; return how many could be.

    Args:
        store: that they are of.
        segments: with why each goes.
        set_aside: called with each before.
    """
    gone: list[Segment] = []
    reasons: list[str] = []
    for one, why in segments:
        if set_aside:
            set_aside(one)
        try:
            remove(store, one, with_names=why == FULL_DISK)
        except OSError:
            break
        gone.append(one)
        reasons.append(why)
    spans = _without_a_trace(store, gone, reasons)
    if spans:
        kept = _merged([*dropped(store), *spans])[-_MOST_DROPPED:]
        with suppress(OSError):  # on a full disk there may be no room even for that
            store.write_bytes(DROPPED, json.dumps([list(one) for one in kept]).encode())
    return len(gone)


def _without_a_trace(
    store: StoreDirectory, gone: list[Segment], reasons: list[str]
) -> list[Dropped]:
    """Return the windows of removed segments that no other segment has."""
    try:
        left = store.segments() if gone else []
    except StoreError:
        left = []
    return [
        Dropped(one.begin_s, one.end_s, one.last - one.first + 1, why)
        for one, why in zip(gone, reasons, strict=True)
        if not any(each.first <= one.first and one.last <= each.last for each in left)
    ]


def dropped(store: StoreDirectory) -> list[Dropped]:
    """Return what was removed, in the order in which it was; nothing of a damaged file."""
    try:
        rows = json.loads(store.read_bytes(DROPPED, _MOST_BYTES))
        return [_dropped(each) for each in rows]
    except (OSError, ValueError, TypeError, ArithmeticError, RecursionError):
        return []


def _dropped(row: Any) -> Dropped:
    begin, end, windows, why = row
    return Dropped(int(begin), int(end), int(windows), str(why))


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
