"""Segments of a store: their names, and the choice of the segments to read.

A store numbers its windows in the order in which it gets them, whatever clocks do. A segment is the
files of consecutive windows. Its name has their time span, their session and their numbers.

    minute/date=2026-11-22/hour=14/20261122T140500-20261122T140600.current.845-845.samples.parquet
    hour/date=2026-11-22/20261122T140000-20261122T150000.current.840-899.samples.parquet
    day/date=2026-11-22/20261122T000000-20261123T000000.current.0-1439.samples.parquet

A coarser segment is made of finer ones. An hour replaces its minutes; after a crash both may exist.
A day is a summary by function and hour, and its hours stay. A reader takes the coarsest segments
that answer its question, and no window twice.
"""

from __future__ import annotations

import re
import time
from calendar import timegm
from typing import TYPE_CHECKING

from prospect.records import NamedTuple
from prospect.store.specification import ALWAYS

if TYPE_CHECKING:
    from collections.abc import Iterable

MINUTE, HOUR, DAY = "minute", "hour", "day"
TIERS = (MINUTE, HOUR, DAY)  # the finest first
# The files of a segment, in the order in which they are written: the last one makes it whole. Only
# days have totals (samples added up over stacks), sums (over stacks and hours) and named (by
# service and function name only).
COVERAGE, FUNCTIONS, STACKS, SAMPLES = "coverage", "functions", "stacks", "samples"
TOTALS, SUMS, NAMED = "totals", "sums", "named"
KINDS = (COVERAGE, FUNCTIONS, STACKS, TOTALS, SUMS, NAMED, SAMPLES)
# Later windows of an hour may refer to rows of these.
NAME_KINDS = (FUNCTIONS, STACKS)
SUFFIX = ".parquet"
CURRENT = "current"
# The directory of a host's store among those of many; its name is quoted as in a URL.
HOST_PREFIX = "host="

_SECOND = "%Y%m%dT%H%M%S"
_SESSION = r"[A-Za-z0-9_-]{1,32}"
_STEM = re.compile(rf"(\d{{8}}T\d{{6}})-(\d{{8}}T\d{{6}})\.({_SESSION})\.(\d{{1,15}})-(\d{{1,15}})")
_US = 10**6
HOUR_US = 3600 * _US


class Segment(NamedTuple):
    """A run of windows in files of one name.

    Attributes:
        tier: one of `TIERS`.
        begin_s, end_s: seconds since 1970; all windows are within.
        session: the name that a user gave to these windows.
        first, last: the numbers of its windows.
        place: the directory of its store among the stores of many hosts.
        digests: the digests of its files, as in `KINDS`, if names have them; "" for no file.
    """

    tier: str
    begin_s: int
    end_s: int
    session: str
    first: int
    last: int
    place: str = ""
    digests: tuple[str, ...] = ()

    @property
    def directory(self) -> str:
        """The directory of its files, below the store."""
        begin = time.gmtime(self.begin_s)
        hour = time.strftime("/hour=%H", begin) if self.tier == MINUTE else ""
        above = f"{self.place}/" if self.place else ""
        return f"{above}{self.tier}/date={time.strftime('%Y-%m-%d', begin)}{hour}"

    @property
    def stem(self) -> str:
        """The beginning of the names of its files."""
        begin, end = (time.strftime(_SECOND, time.gmtime(at)) for at in (self.begin_s, self.end_s))
        return f"{begin}-{end}.{self.session}.{self.first}-{self.last}"

    def path(self, kind: str) -> str:
        """Return the path of one of its files, below the store."""
        digest = self.digests[KINDS.index(kind)] if self.digests else ""
        return f"{self.directory}/{self.stem}.{kind}{digest and '.'}{digest}{SUFFIX}"

    def overlaps(self, since_us: int, until_us: int) -> bool:
        """Whether it overlaps a span, in microseconds since 1970."""
        return self.begin_s * _US < until_us and self.end_s * _US > since_us

    def answers(self, since_us: int, until_us: int) -> bool:
        """Whether sums by hour suffice to decide which hits are in a span."""
        begin_us = self.begin_s * _US // HOUR_US * HOUR_US
        return all(
            end_us % HOUR_US == 0 or not begin_us < end_us < self.end_s * _US
            for end_us in (since_us, until_us)
        )

    def is_within(self, since_us: int, until_us: int) -> bool:
        """Whether a span contains all of its hours."""
        begin_us = self.begin_s * _US // HOUR_US * HOUR_US
        return since_us <= begin_us and self.end_s * _US <= until_us


def segment_of(tier: str, name: str) -> Segment | None:
    """Return the segment whose file of samples has this name, None if there is none."""
    stem, _, rest = name.partition(f".{SAMPLES}{SUFFIX}")
    found = _STEM.fullmatch(stem) if not rest else None
    if not found or tier not in TIERS:
        return None
    try:
        begin_s, end_s = (timegm(time.strptime(found[place], _SECOND)) for place in (1, 2))
    except ValueError:
        return None
    first, last = int(found[4]), int(found[5])
    if end_s < begin_s or last < first:
        return None
    return Segment(tier, begin_s, end_s, found[3], first, last)


def is_session_name(text: str) -> bool:
    """Whether this is a valid name of a session."""
    return re.fullmatch(_SESSION, text) is not None


def coarsest(
    segments: Iterable[Segment],
    since_us: int = -ALWAYS,
    until_us: int = ALWAYS,
    *,
    fine: bool = False,
) -> list[Segment]:
    """Choose segments so that each window is read once.

    Args:
        since_us, until_us: the span of the question, in microseconds since 1970.
        fine: whether days, which are summaries, are read only if nothing else is left.

    Returns:
        The segments to read: of one store by number, of several stores by time.
    """
    places: dict[str, list[Segment]] = {}
    for one in segments:
        places.setdefault(one.place, []).append(one)
    chosen: list[Segment] = []
    for group in places.values():
        coarse, others = _coarsest_of_store(group)
        for one in coarse:
            is_enough = one.tier != DAY or (not fine and one.answers(since_us, until_us))
            chosen += [one] if is_enough else parts_of_day(one, others) or [one]
    if len(places) > 1:
        return sorted(chosen, key=lambda one: (one.begin_s, one.place))
    return sorted(chosen, key=lambda one: one.first)


def parts_of_day(day: Segment, segments: list[Segment]) -> list[Segment]:
    """Return the segments that have all windows of a day; none if some are missing."""
    inner = [one for one in segments if day.first <= one.first and one.last <= day.last]
    finer, _ = _coarsest_of_store(inner)
    is_whole = bool(finer) and (finer[0].first, finer[-1].last) == (day.first, day.last)
    return finer if is_whole else []


def _coarsest_of_store(segments: Iterable[Segment]) -> tuple[list[Segment], list[Segment]]:
    """Return the coarsest segments of each window, by number, and the other ones."""
    ranked = sorted(
        segments, key=lambda one: (-TIERS.index(one.tier), one.first, -one.last, one.begin_s)
    )
    chosen: list[Segment] = []
    left: list[Segment] = []
    for tier in reversed(TIERS):
        coarser = sorted(chosen, key=lambda one: one.first)
        latest, place = -1, 0
        for one in (each for each in ranked if each.tier == tier):
            while place < len(coarser) and coarser[place].last < one.first:
                place += 1
            is_in_coarser = place < len(coarser) and coarser[place].first <= one.last
            if is_in_coarser or one.first <= latest:
                left.append(one)
                continue
            chosen.append(one)
            latest = one.last
    return sorted(chosen, key=lambda one: one.first), left
