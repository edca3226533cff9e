"""Parse profile specifications: words such as ``since:02:10`` or ``comm:nginx,php*``.

Words and syntax are OProfile's: a list of values or shell patterns, of which one has to match.
Samples have to match all specifications.

Source: OProfile, ``doc/oprofile.xml``, "Profile specifications".
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING

from prospect.dimensions import WORDS
from prospect.errors import UsageError
from prospect.profile.group_names import container_patterns
from prospect.records import NamedTuple
from prospect.spelling import suggestion

if TYPE_CHECKING:
    from collections.abc import Sequence


SINCE, UNTIL = "since", "until"
KNOWN = (SINCE, UNTIL, *WORDS)
ALWAYS = 2**62
_AGO = re.compile(r"-(\d{1,9})([smhd])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_HEXADECIMAL = re.compile("0x[0-9a-fA-F]{1,8}")
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?")
_US = 10**6
_MOST_NUMBER = 2**31 - 1
_MOST_COUNT = 2**63 - 1
_MOST_DIGITS = len(str(_MOST_COUNT))


class Specification(NamedTuple):
    """The part of a store or recording that a user selects.

    Attributes:
        since_us, until_us: in microseconds since 1970; selects the windows that begin within.
        texts: by word, patterns of which one has to match.
        numbers: by word, numbers of which one has to match.
        words: as the user wrote them.
    """

    since_us: int = -ALWAYS
    until_us: int = ALWAYS
    texts: dict[str, tuple[str, ...]] = {}  # noqa: RUF012 - never changed
    numbers: dict[str, tuple[int, ...]] = {}  # noqa: RUF012 - never changed
    words: tuple[str, ...] = ()


def _hint(word: str) -> str:
    """Return what to give instead of an invalid word."""
    name, colon, _ = word.partition(":")
    if not colon and "/" in word:
        return f"a store is given as --store {word}"
    known = ", ".join(f"{each}:" for each in KNOWN)
    return f"there are {known}{suggestion(name, KNOWN)}"


def _resolve(name: str, value: str) -> str:
    """Return the word that a name such as `thread` means for a value."""
    if name not in WORDS or not WORDS[name].read:
        return name
    of_numbers, of_names = WORDS[name].read
    return of_numbers if value.replace(",", "").isdecimal() else of_names


def parse_specifications(words: Sequence[str], now: datetime | None = None) -> Specification:
    """Parse specifications.

    `now` has a time zone; None is this moment.

    Raises:
        UsageError: one is invalid, or is given twice.
    """
    now = now or datetime.now().astimezone()
    times = {SINCE: -ALWAYS, UNTIL: ALWAYS}
    texts: dict[str, tuple[str, ...]] = {}
    numbers: dict[str, tuple[int, ...]] = {}
    given: set[str] = set()
    for word in words:
        name, colon, value = word.partition(":")
        name = _resolve(name, value)
        if not colon or name not in KNOWN:
            raise UsageError(f"{word}: not a specification; {_hint(word)}")
        if name in given:
            raise UsageError(f"{word}: {name}: is given twice; give a list, as {name}:A,B")
        if not value.strip(","):
            raise UsageError(f"{word}: give a value")
        given.add(name)
        if name in times:
            times[name] = moment_us(value, now)
        elif not WORDS[name].is_number:
            texts[name] = tuple(filter(None, value.split(",")))
            if name == "container":
                texts[name] = tuple(chain.from_iterable(map(container_patterns, texts[name])))
            if name == "dependent" and value != "no":
                raise UsageError(f"{word}: give no, to see programs without libraries and kernel")
        else:
            numbers[name] = _numbers(name, value)
    if times[SINCE] >= times[UNTIL]:
        raise UsageError(
            "until: is not after since:; a time of day is the last one that was, so give the date"
            " too, as since:2026-11-22T23:50"
        )
    return Specification(times[SINCE], times[UNTIL], texts, numbers, tuple(words))


def moment_us(text: str, now: datetime) -> int:
    """Parse a time: ``14:05`` (the latest one in the past), ``-15m``, or an ISO date and time.

    Returns:
        Microseconds since 1970. Without an offset such as +01:00 it is in this machine's time zone.
        A time that the end of summer time repeats is the first one.

    Raises:
        UsageError: it is no time.
    """
    if found := _AGO.fullmatch(text):
        try:
            then = now - timedelta(seconds=int(found[1]) * _UNITS[found[2]])
        except OverflowError:
            raise UsageError(f"{text}: too long ago") from None
        return _microseconds(then)
    try:
        if found := _CLOCK.fullmatch(text):
            hour, minute, second = (int(part or 0) for part in found.groups())
            today = now.astimezone().replace(tzinfo=None)
            then = today.replace(hour=hour, minute=minute, second=second, microsecond=0)
            if then.astimezone() > now:
                then -= timedelta(days=1)
            return _microseconds(then.astimezone())
        return _microseconds(datetime.fromisoformat(text).astimezone())
    except (ValueError, OverflowError, OSError):
        raise UsageError(
            f"{text}: not a time; give one as 14:05, -15m, or 2026-11-22T14:05"
        ) from None


def _microseconds(moment: datetime) -> int:
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return since // timedelta(microseconds=1)


def _numbers(name: str, value: str) -> tuple[int, ...]:
    found: list[int] = []
    most = _MOST_COUNT if name == "count" else _MOST_NUMBER
    for part in value.split(","):
        first, dash, last = part.partition("-")
        ends = (first, last if dash else first)
        if name == "unit-mask" and _HEXADECIMAL.fullmatch(part):
            ends = (str(int(part, 16)),) * 2
        if not all(
            end.isascii() and end.isdigit() and len(end) <= _MOST_DIGITS and int(end) <= most
            for end in ends
        ):
            raise UsageError(f"{name}:{value}: give numbers, as {name}:3 or {name}:0,4-7")
        low, high = int(ends[0]), int(ends[1])
        if high - low > 100_000:
            raise UsageError(f"{name}:{value}: too many")
        found += range(low, high + 1)
    return tuple(found)
