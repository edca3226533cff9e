"""Lists whose items are made late: what is asked for is made once, in whatever order."""

from __future__ import annotations

from prospect.profile.naming import LazyList, gather, joined


def test_an_item_is_made_when_it_is_asked_for_and_once():
    asked = []
    late = LazyList(3, lambda rows: [asked.append(row) or 10 * row for row in rows])
    assert (late[1], late[-2], late[1]) == (10, 10, 10)
    assert asked == [1]
    assert list(late) == [0, 10, 20]
    assert asked == [1, 0, 2]
    assert late[1:] == [10, 20]
    assert late == [0, 10, 20]
    assert asked == [1, 0, 2]


def test_joined_lists_make_no_more_than_their_parts_are_asked_for():
    asked = []
    late = LazyList(2, lambda rows: [asked.append(row) or f"late {row}" for row in rows])
    whole = joined([["first"], late, [], ["last"]])
    assert (len(whole), whole[0], whole[3], asked) == (4, "first", "last", [])
    assert (whole[2], asked) == ("late 1", [1])
    assert list(whole) == ["first", "late 0", "late 1", "last"]
    assert joined([["a"], ["b"]]) == ["a", "b"]


def test_what_is_taken_is_made_all_at_once():
    asked = []
    late = LazyList(4, lambda rows: asked.append(list(rows)) or [10 * row for row in rows])
    assert late[2] == 20
    assert late.take([3, 2, 0, 3]) == [30, 20, 0, 30]
    assert asked == [[2], [3, 0]]
    assert gather(late, [1]) == [10]
    assert gather(["a", "b"], [1, 0]) == ["b", "a"]


def test_what_is_taken_of_joined_lists_is_made_once_a_part():
    asked = []
    make = lambda rows: asked.append(list(rows)) or [f"late {row}" for row in rows]  # noqa: E731 - one use, one line
    whole = joined([["first"], LazyList(2, make), [], LazyList(1, make)])
    assert gather(whole, [3, 2, 0, 1]) == ["late 0", "late 1", "first", "late 0"]
    assert asked == [[0], [1, 0]]
