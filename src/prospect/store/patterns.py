"""Patterns of a shell, and numbers → conditions of a query, with parameters for all that is given.

A pattern becomes a regular expression that RE2 (DuckDB, ClickHouse) and Java (Spark) read alike;
what is no pattern is compared as it is, so that engines leave out what cannot have it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Condition = tuple[str, list[Any]]

_MAGIC = "*?["
_NOTHING = r"[^\x00-\x{10FFFF}]"


def fits_one_of(column: str, patterns: Sequence[str]) -> Condition:
    """Return the condition that a column fits one of these patterns, and its parameters."""
    plain = [one for one in patterns if not any(sign in one for sign in _MAGIC)]
    others = [regular_expression(one) for one in patterns if one not in plain]
    conditions = [f"regexp_matches({column}, ?)"] * len(others)
    if plain:
        conditions.append(f"{column} IN ({', '.join('?' * len(plain))})")
    return f"({' OR '.join(conditions) or '1 = 0'})", [*others, *plain]


def is_one_of(column: str, numbers: Iterable[int]) -> Condition:
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
