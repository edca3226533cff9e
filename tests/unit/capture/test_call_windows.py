"""When calls are counted, and what probes cost."""

from __future__ import annotations

import random

import pytest

from prospect.capture.counting.call_counter import Windows
from prospect.capture.counting.call_probes import KINDS, kind_of
from prospect.errors import UsageError
from prospect.recording.counted_functions import CallPattern, parse_call_patterns

MS = 1_000_000


def windows(budget=0.05):
    return Windows(budget, random.Random(1))


def test_cheap_counting_goes_on_and_is_exact():
    found = windows()
    for _ in range(100):
        found.add_window(10 * MS, 0.4 * MS)
        assert found.is_within_budget
    assert found.is_exact
    assert sum(found.own_ns) == pytest.approx(960 * MS)


def test_dear_counting_pauses_until_the_budget_has_room():
    found = windows()
    found.add_window(10 * MS, 4 * MS)
    assert not found.is_within_budget
    found.add_gap(60 * MS, 0.0)
    assert not found.is_within_budget
    found.add_gap(10 * MS, 0.0)
    assert found.is_within_budget
    assert not found.is_exact
    assert found.gap_ns == [70 * MS]


def test_all_calls_are_counted_where_the_budget_is_everything():
    found = windows(1.0)
    found.add_window(10 * MS, 30 * MS)
    assert found.is_within_budget
    assert not found.too_hot(10 * MS, {0: 30 * MS})


def test_counting_all_calls_has_a_bound_too():
    found = windows(1.0)
    for _ in range(49):
        found.add_window(100 * MS, 100 * MS)
        assert found.is_within_budget
    found.add_window(100 * MS, 101 * MS)
    assert not found.is_within_budget
    assert found.too_hot(100 * MS, {0: 101 * MS}) == {0: 1.01}
    found.add_gap(5_000 * MS, 0.0)
    assert not found.is_within_budget
    found.add_gap(200 * MS, 0.0)  # half is the program's own then
    assert found.is_within_budget


def test_a_window_that_probes_fill_says_nothing_of_the_programs_own_time():
    found = windows()
    found.add_window(10 * MS, 6 * MS)
    assert found.own_ns == [0.0]
    found.extend_window(1 * MS, 0.0)
    assert found.own_ns == [0.0]


def test_the_end_of_a_window_belongs_to_it():
    found = windows()
    found.add_window(10 * MS, 1 * MS)
    found.extend_window(2 * MS, 1 * MS)
    assert found.own_ns == [10 * MS]
    assert (found.cpu_ns, found.cost_ns) == (12 * MS, 2 * MS)


def test_what_probes_cost_while_they_are_taken_away_is_no_time_of_the_program():
    found = windows()
    found.add_window(10 * MS, 2 * MS)
    found.add_gap(5 * MS, 3 * MS)
    assert found.gap_ns == [2 * MS]
    assert found.cost_ns == 5 * MS


def test_the_functions_that_are_called_most_are_given_up_until_the_rest_is_bearable():
    found = windows()
    found.add_window(10 * MS, 9 * MS)
    assert found.too_hot(10 * MS, {1: 1 * MS, 2: 5 * MS, 3: 3 * MS}) == {2: 0.5}
    assert not found.too_hot(10 * MS, {1: 1 * MS, 2: 2 * MS})
    assert not found.too_hot(MS // 2, {1: 1 * MS})  # too short to be sure


def test_pauses_are_random_and_about_as_long_as_the_budget_needs():
    found = windows()
    found.add_window(10 * MS, 4 * MS)
    pauses = [found.pause_s(0.01) for _ in range(500)]
    assert min(pauses) >= 0.035  # 70 ms, halved at most
    assert max(pauses) <= 0.105
    assert sum(pauses) / 500 == pytest.approx(0.07, rel=0.1)


def test_windows_lie_farther_apart_in_a_long_run():
    found = windows()
    found.add_window(100_000 * MS, 5_000 * MS)
    assert found.pause_s(1000.0) > 1.0


def test_a_program_that_waits_is_looked_at_again_before_long():
    found = windows()
    found.add_window(0, 1 * MS)
    assert found.pause_s(10.0) <= 0.15


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("0f1f440000", "nop"),
        ("f30f1efa55", "endbr64"),
        ("554889e5", "emulated"),
        ("4157", "emulated"),
        ("53", "emulated"),
        ("e800000000", "emulated"),
        ("eb10", "emulated"),
        ("7403", "emulated"),
        ("0f8400000000", "emulated"),
        ("4889f8", "other"),
        ("4883ec08", "other"),
        ("0f1f00", "other"),
        ("41", "other"),
        ("", "other"),
    ],
)
def test_the_first_bytes_tell_the_kind(code, kind):
    assert kind_of(bytes.fromhex(code)) == kind
    assert kind in KINDS


def test_patterns():
    assert parse_call_patterns("parse_*,libz.so.1:deflate*,std::sort*,./a:ns::f") == (
        CallPattern("", "parse_*"),
        CallPattern("libz.so.1", "deflate*"),
        CallPattern("", "std::sort*"),
        CallPattern("./a", "ns::f"),
    )


@pytest.mark.parametrize("text", ["", ",", "a,", "libz:", ":a", "a\0b"])
def test_patterns_that_are_none(text):
    with pytest.raises(UsageError, match="give names of functions"):
        parse_call_patterns(text)
