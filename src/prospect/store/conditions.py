"""What a specification asks of samples: as a test of names, and as the condition of a query.

A part of a recording and a part of a store are chosen by the same conditions. All that comes from a
person is a parameter of a query; its text has only our names. A pattern becomes a regular
expression that RE2 (DuckDB, ClickHouse) and Java (Spark) read alike, and what is no pattern is
compared as it is, so that engines leave out what cannot have it.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from prospect.dimensions import EVENTS, FUNCTIONS, OF_WORD, WORDS
from prospect.errors import UsageError
from prospect.profile.model import KIND_BPF, KIND_KERNEL, KIND_MODULE, KIND_VDSO
from prospect.records import NamedTuple
from prospect.store.specification import event_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prospect.dimensions import Dimension, Word
    from prospect.profile.run_info import EventInfo
    from prospect.store.specification import Specification

    Sql = tuple[str, list[Any]]

_MAGIC = "*?["
_NOTHING = r"[^\x00-\x{10FFFF}]"
# What `dependent:no` leaves out: OProfile's dependent images, of the kernel and of libraries.
_DEPENDENT = "dependent"
_DEPENDENT_KINDS = (KIND_KERNEL, KIND_MODULE, KIND_VDSO, KIND_BPF)
_SHARED_LIBRARY = r"\.so(?:[. ]|$)"


class Condition(NamedTuple):
    """The condition that one word makes of a sample; one of the patterns or numbers has to fit.

    Attributes:
        word: that was given.
        patterns: of a word of text.
        numbers: of a word of numbers.
    """

    word: Word
    patterns: tuple[str, ...]
    numbers: frozenset[int]

    @property
    def dimension(self) -> Dimension:
        """The dimension that it chooses by."""
        return OF_WORD[self.word.name]

    @property
    def is_of_objects(self) -> bool:
        """Whether it asks for the kinds of objects as well as for their names."""
        return self.word.name == _DEPENDENT

    def is_met(self, name: str, object_kind: int = -1) -> bool:
        """Whether a name, or a number as text, is meant.

        Args:
            name: of what the word chooses by.
            object_kind: of an object.
        """
        if self.is_of_objects:
            is_meant = object_kind in _DEPENDENT_KINDS or bool(re.search(_SHARED_LIBRARY, name))
        elif self.word.is_number:
            is_meant = name.isdecimal() and int(name) in self.numbers
        else:
            is_meant = any(fnmatchcase(name, one) for one in self.patterns)
        return is_meant != self.word.excludes

    def event_name(self, event: EventInfo) -> str:
        """Return what the word compares of an event."""
        return str(event_number(event, self.word.name)) if self.word.is_number else event.name

    def sql(self, events: Sequence[EventInfo]) -> Sql:
        """Return the condition of rows of `samples`, and its parameters.

        Args:
            events: of the store.

        Raises:
            UsageError: no store can be asked for it.
        """
        column = self.word.column
        if not column:
            raise UsageError(
                f"{self.word.name}: chooses of a recording; of a store's, --sort"
                f" {self.dimension.name} shows all, if it has them"
            )
        if self.word.table == EVENTS:
            meant = [row for row, one in enumerate(events) if self.is_met(self.event_name(one))]
            return is_one_of(column, meant)
        if self.word.is_number:
            return is_one_of(column, self.numbers)
        condition, values = fits_one_of(column, self.patterns)
        if self.is_of_objects:
            condition, values = is_one_of("object_kind", _DEPENDENT_KINDS)
            condition = f"{condition} OR regexp_matches({column}, ?)"
            values = [*values, _SHARED_LIBRARY]
        if self.word.table == FUNCTIONS:
            is_in = "NOT IN" if self.word.excludes else "IN"
            condition = f"function {is_in} (SELECT function FROM function_rows WHERE {condition})"
        return condition, values


def conditions_in(chosen: Specification) -> list[Condition]:
    """Return what a specification asks of samples, but for their times."""
    texts, numbers = chosen.texts.items(), chosen.numbers.items()
    return [
        *(Condition(WORDS[word], patterns, frozenset()) for word, patterns in texts),
        *(Condition(WORDS[word], (), frozenset(values)) for word, values in numbers),
    ]


def fits_one_of(column: str, patterns: Sequence[str]) -> Sql:
    """Return the condition that a column fits one of these patterns, and its parameters."""
    plain = [one for one in patterns if not any(sign in one for sign in _MAGIC)]
    others = [regular_expression(one) for one in patterns if one not in plain]
    conditions = [f"regexp_matches({column}, ?)"] * len(others)
    if plain:
        conditions.append(f"{column} IN ({', '.join('?' * len(plain))})")
    return f"({' OR '.join(conditions) or '1 = 0'})", [*others, *plain]


def is_one_of(column: str, numbers: Iterable[int]) -> Sql:
    """Return the condition that a column is one of these numbers, and its parameters."""
    ends: list[int] = []
    for number in sorted(set(numbers)):
        if ends and number == ends[-1] + 1:
            ends[-1] = number
        else:
            ends += number, number
    conditions = [f"{column} BETWEEN ? AND ?"] * (len(ends) // 2)
    return f"({' OR '.join(conditions) or '1 = 0'})", ends


def regular_expression(pattern: str) -> str:
    """Return the regular expression of a shell's pattern, as `fnmatch.fnmatchcase` reads it."""
    found, at = "", 0
    while at < len(pattern):
        sign = pattern[at]
        at += 1
        if sign == "*":
            found += ".*"
        elif sign == "?":
            found += "."
        elif sign == "[" and (end := _end_of_set(pattern, at)):
            is_not = pattern[at] == "!"
            members = pattern[at + is_not : end]
            found += f"[{'^' * is_not}{''.join(_escaped(one) for one in members)}]"
            at = end + 1
        else:
            found += _escaped(sign)
    try:
        re.compile(found)
    except re.error:  # a range from more to less, which nothing is in
        found = _NOTHING
    return rf"(?s)\A(?:{found})\z"


def _end_of_set(pattern: str, at: int) -> int:
    """Return where the bracket closes that opened before `at`; 0 where it does not."""
    first = at + (pattern[at : at + 1] == "!")
    return max(pattern.find("]", first + 1), 0)


def _escaped(sign: str) -> str:
    """Return a sign as both kinds of expressions take it for itself; `-` is left to sets."""
    return sign if sign.isalnum() or not sign.isascii() or sign in "_- " else f"\\{sign}"
