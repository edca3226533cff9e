"""Express the conditions of `figures/sample_filter.py` in SQL, so that they select the same.

A user's words are always parameters of a query, never a part of its text. A pattern becomes a
regular expression with the same meaning in RE2 (DuckDB, ClickHouse) and Java (Spark). Plain values
are compared for equality, so that engines can skip row groups that do not have them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from prospect.dimensions import EVENTS, FUNCTIONS, WORDS
from prospect.errors import UsageError
from prospect.figures.entry_reasons import ENTRY_REASON_KIND_NAMES
from prospect.figures.modes import (
    KSOFTIRQD,
    MODE_INTERRUPT,
    MODE_KERNEL,
    MODE_NAMES,
    MODE_OTHER,
    MODE_USER,
)
from prospect.figures.sample_filter import DEPENDENT_KINDS, SHARED_LIBRARY, Condition, event_name
from prospect.profile.model import (
    CPUMODE_KERNEL,
    CPUMODE_USER,
    ENTRY_REASON_INTERRUPT,
    ENTRY_REASON_SOFTIRQ,
)
from prospect.store.file_schema import KIND_KERNEL_THREAD

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prospect.dimensions import Word
    from prospect.profile.run_info import EventInfo
    from prospect.store.specification import Specification

    Sql = tuple[str, list[Any]]

_MAGIC = "*?["
_NOTHING = r"[^\x00-\x{10FFFF}]"
# Keys of hits that are made of several columns, as in `figures.modes.hit_modes` and
# `HitColumns.entry_reasons`.
_MADE_OF_COLUMNS = {
    "mode": f"CASE WHEN mode = {CPUMODE_USER} THEN '{MODE_NAMES[MODE_USER]}'"
    f" WHEN mode <> {CPUMODE_KERNEL} THEN '{MODE_NAMES[MODE_OTHER]}'"
    f" WHEN cause_kind = {ENTRY_REASON_INTERRUPT} OR (cause_kind = {ENTRY_REASON_SOFTIRQ}"
    f" AND NOT (kind = {KIND_KERNEL_THREAD} AND process LIKE '{KSOFTIRQD}%'))"
    f" THEN '{MODE_NAMES[MODE_INTERRUPT]}' ELSE '{MODE_NAMES[MODE_KERNEL]}' END",
    "reason": "CASE WHEN cause <> '' THEN cause"
    + "".join(
        f" WHEN cause_kind = {kind} THEN '{name}'"
        for kind, name in enumerate(ENTRY_REASON_KIND_NAMES)
    )
    + " ELSE '' END",
}


def sql_of(one: Condition, events: Sequence[EventInfo]) -> Sql:
    """Return a condition on rows of `samples` as SQL, and its parameters.

    Raises:
        UsageError: stores do not have the column.
    """
    column = column_of(one.word)
    if not column:
        raise UsageError(
            f"{one.word.name}: works with recordings; for a store, --sort {one.dimension.name}"
            " shows all values, if it has them"
        )
    if one.word.table == EVENTS:
        meant = [row for row, each in enumerate(events) if one.is_met(event_name(each, one.word))]
        return is_one_of(column, meant)
    if one.word.is_number:
        return is_one_of(column, one.numbers)
    condition, values = fits_one_of(column, one.patterns)
    if one.is_of_objects:
        condition, values = is_one_of("object_kind", DEPENDENT_KINDS)
        condition = f"{condition} OR regexp_matches({column}, ?)"
        values = [*values, SHARED_LIBRARY]
    if one.word.table == FUNCTIONS:
        is_in = "NOT IN" if one.word.excludes else "IN"
        condition = f"function {is_in} (SELECT function FROM function_rows WHERE {condition})"
    return condition, values


def column_of(word: Word) -> str:
    """Return the SQL expression that a word compares; "" if stores do not have it."""
    return _MADE_OF_COLUMNS.get(word.name, word.column)


def conditions_in(chosen: Specification) -> list[Condition]:
    """Return the conditions of a specification on samples, except those on their times."""
    texts, numbers = chosen.texts.items(), chosen.numbers.items()
    return [
        *(Condition(WORDS[word], patterns) for word, patterns in texts),
        *(Condition(WORDS[word], numbers=frozenset(values)) for word, values in numbers),
    ]


def fits_one_of(column: str, patterns: Sequence[str]) -> Sql:
    """Return the condition that a column matches one of these patterns, and its parameters."""
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
    except re.error:  # an empty range, such as z-a
        found = _NOTHING
    return rf"(?s)\A(?:{found})\z"


def _end_of_set(pattern: str, at: int) -> int:
    """Return the position of the closing bracket of a set that begins at `at`; 0 for none."""
    first = at + (pattern[at : at + 1] == "!")
    return max(pattern.find("]", first + 1), 0)


def _escaped(sign: str) -> str:
    """Return a character so that both kinds of expressions take it literally, except for `-`."""
    return sign if sign.isalnum() or not sign.isascii() or sign in "_- " else f"\\{sign}"
