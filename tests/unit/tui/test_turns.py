"""The page of turns: those of the last interval, and what they consisted of."""

from __future__ import annotations

import pytest

from builders.live import state_of
from builders.sources import CLOCK
from builders.switches import SWITCH, switched_profile
from builders.turns import REQUEST, profile_with_turns, turns_of
from prospect.tui.figures import live_figures
from prospect.tui.pictures import turns_page

KINDS = ("view", "report")


@pytest.fixture(scope="module")
def figures():
    turns = turns_of([REQUEST] * 3, KINDS, (0, 0, 1))
    whole = switched_profile(CLOCK, SWITCH, stacks=True)
    return live_figures(state_of(whole, part=profile_with_turns(turns)))


def test_each_kind_has_a_line_of_times_and_one_of_parts(figures):
    page = turns_page(figures, "")
    assert page.is_text
    assert page.title.split()[:2] == ["Turns", "Median"]
    first, parts, *others = [row.name.split() for row in page.rows]
    assert (first[0], first[-2:]) == ("2", ["shell", "view"])
    assert parts[:4] == ["server", "15.0,", "own", "CPU"]
    assert len(others) == 2


def test_a_filter_leaves_kinds_out(figures):
    assert [row.key[2] for row in turns_page(figures, "REP").rows] == ["report"] * 2
    assert turns_page(figures, "nothing").rows == ()


def test_without_turns_it_says_why():
    whole = switched_profile(CLOCK, SWITCH, stacks=True)
    assert turns_page(live_figures(state_of(whole)), "").note.startswith("No turn yet")
    part = profile_with_turns(turns_of([REQUEST]))
    without = live_figures(state_of(part))
    assert turns_page(without, "").note.startswith("No switches were recorded")
