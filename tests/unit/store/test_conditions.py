"""Patterns mean in a query what they mean in a shell, whatever signs they have."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest

from prospect.store.conditions import fits_one_of, is_one_of

duckdb = pytest.importorskip("duckdb")

TEXTS = [
    "nginx",
    "php-fpm",
    "a.b",
    "ab",
    "a*b",
    "x[1]",
    "x1",
    "-",
    "",
    "a\nb",
    "ü",
    "_",
    "a\\b",
    "]",
]


@pytest.mark.parametrize(
    "pattern",
    [
        "*",
        "?",
        "php*",
        "a.b",
        "a?b",
        "x[0-9]",
        "x[[]1]",
        "[!a]*",
        "[",
        "a[",
        "[]]",
        "[z-a]",
        "*\\*",
        "{a}(b)|c$^+",
        "[-_]",
        "[a&&b]b",
        "ü",
        "??",
    ],
)
def test_a_pattern_fits_what_it_fits_in_a_shell(pattern):
    condition, parameters = fits_one_of("text", [pattern])
    query = f"SELECT text FROM (SELECT unnest(?) AS text) WHERE {condition}"
    found = duckdb.execute(query, [TEXTS, *parameters]).fetchall()
    assert [text for (text,) in found] == [each for each in TEXTS if fnmatchcase(each, pattern)]


def test_several_patterns_and_numbers_are_alternatives():
    assert fits_one_of("c", ["a", "b*", "d"]) == (
        "(regexp_matches(c, ?) OR c IN (?, ?))",
        [r"(?s)\A(?:b.*)\z", "a", "d"],
    )
    assert is_one_of("n", [7, 1, 2, 3, 3]) == (
        "(n BETWEEN ? AND ? OR n BETWEEN ? AND ?)",
        [1, 3, 7, 7],
    )
    assert is_one_of("n", []) == fits_one_of("n", []) == ("(1 = 0)", [])
