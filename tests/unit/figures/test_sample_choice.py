"""Names that nothing in a recording has are answered with those that it has."""

from __future__ import annotations

import pytest

from builders.stacks import stacks_profile
from prospect.errors import UsageError
from prospect.figures.calls.calls_view import CallsChoice, calls_view
from prospect.figures.calls.sample_choice import SampleChoice, functions_called


@pytest.mark.parametrize(
    ("choice", "says"),
    [
        ({"process": "wrok"}, "no process with samples is called 'wrok'; did you mean work?"),
        ({"process": "12345"}, "no process with samples is called '12345'"),
        ({"process": "swaper"}, "is called 'swaper'; did you mean swapper?"),
        ({"thread": "12345"}, "no thread with samples is called '12345'"),
        ({"objects": "libc"}, "no object with samples is called 'libc'; did you mean libc.so.6?"),
        ({"function": "jited"}, "no function with samples is called 'jited'; did you mean jitted?"),
        ({"function": "Syscall"}, "is called 'Syscall'; did you mean do_syscall_64?"),
        ({"through": "mian"}, "no function with samples is called 'mian'; did you mean main?"),
        ({"through": "zzzzz"}, "no function with samples is called 'zzzzz'"),
        (
            {"entry_reason": "raed"},
            "no entry reason with samples is called 'raed'; did you mean read?",
        ),
    ],
)
def test_a_name_that_nothing_has(choice, says):
    with pytest.raises(UsageError) as refused:
        calls_view(stacks_profile(), CallsChoice(SampleChoice("4", **choice)))
    assert str(refused.value).endswith(says)


@pytest.mark.parametrize(
    ("choice", "hits"),
    [
        ({"process": "work"}, 21),
        ({"process": "7*"}, 21),
        ({"process": "77"}, 21),
        ({"thread": "a b;c"}, 9),
        ({"thread": "77"}, 21),
        ({"objects": "libc.so*"}, 1),
        ({"objects": "/usr/lib/libc.so.6"}, 1),
        ({"entry_reason": "system call"}, 6),
        ({"entry_reason": "re?d"}, 6),
    ],
)
def test_a_name_a_number_a_kind_or_a_part_of_a_path(choice, hits):
    (event,) = calls_view(stacks_profile(), CallsChoice(SampleChoice("4", **choice))).events
    assert event.graph.hits == hits


@pytest.mark.parametrize("what", ["do_syscall_64", "*sysc*", "syscall", "do_sys"])
def test_a_function_is_meant_by_its_name_a_pattern_or_a_part(what):
    profile = stacks_profile()
    called = functions_called(profile, what)
    assert [profile.functions.name[row] for row in called.nonzero()[0]] == ["do_syscall_64"]


def test_two_letters_are_no_part():
    with pytest.raises(UsageError, match="no function with samples is called 'do'"):
        functions_called(stacks_profile(), "do")
