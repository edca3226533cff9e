"""What was probably meant: near words, and none where nothing is near."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as some

from prospect.spelling import _mistakes, nearest, suggestion

COMMANDS = ("record", "report", "annotate", "calls", "diff", "stat", "list", "doctor", "help")
FUNCTIONS = (
    "_dl_relocate_object",
    "std::vector<int>::push_back",
    "qsort_r",
    "work",
    "do_syscall_64",
)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("recrod", "record"),
        ("reprot", "report"),
        ("Report", "report"),
        ("anotate", "annotate"),
        ("rep", "report"),
        ("lsit", "list"),
        ("statt", "stat"),
        ("re", ""),
        ("ls", ""),
        ("make", ""),
        ("true", ""),
        ("nonsense", ""),
        ("ecrod", ""),
        ("", ""),
        ("recordrecordrecord", ""),
        ("a" * 1_000_000, ""),
    ],
)
def test_a_command_that_was_meant(typed, meant):
    assert nearest(typed, COMMANDS) == meant


def test_two_mistakes_of_six_letters_are_another_word():
    programs = ("touch", "nohup", "mount", "python3")
    assert nearest("nosuch", programs) == ""
    assert nearest("pyhton3", programs) == "python3"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("wrok", "work"),
        ("qsort", "qsort_r"),
        ("push_back", "std::vector<int>::push_back"),
        ("RELOCATE", "_dl_relocate_object"),
        ("do_syscal64", "do_syscall_64"),
        ("ector", "std::vector<int>::push_back"),
        ("sor", ""),
    ],
)
def test_a_function_may_be_named_in_part(typed, meant):
    assert nearest(typed, FUNCTIONS, parts=True) == meant


def test_of_equally_near_words_the_first_is_taken():
    assert nearest("tester", ["rester", "tested", "testers"]) == "rester"
    assert nearest("jsn", ["text", "json"]) == "json"


def test_a_suggestion_is_a_question_or_nothing():
    assert suggestion("jsn", ["text", "json"]) == "; did you mean json?"
    assert suggestion("xml", ["text", "json"]) == ""


def brute_force(a: str, b: str) -> int:
    """Restricted edit distance by its definition."""
    if not a or not b:
        return len(a) + len(b)
    least = min(
        brute_force(a[1:], b) + 1,
        brute_force(a, b[1:]) + 1,
        brute_force(a[1:], b[1:]) + (a[0] != b[0]),
    )
    if a[:2] == b[1::-1] and len(a) > 1 < len(b):
        least = min(least, brute_force(a[2:], b[2:]) + 1)
    return least


letters = some.text("abc", max_size=5)


@given(letters, letters, some.integers(1, 4))
def test_mistakes_are_counted_as_defined(first, second, enough):
    assert _mistakes(first, second, enough) == min(brute_force(first, second), enough)


def test_names_that_are_all_alike_are_not_all_compared():
    alike = ["ab" * 90 + f"{number:08}" for number in range(100_000)]
    began = time.process_time()
    nearest("ab" * 90 + "0000xyzu", alike)
    assert time.process_time() - began < 20  # all of them take minutes
