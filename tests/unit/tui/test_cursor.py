"""The chosen row stays chosen, and stays on its line."""

from __future__ import annotations

from prospect.tui.pictures import Cursor
from prospect.tui.rows import Row


def rows_of(names):
    return [Row(key=(name,), name=name) for name in names]


def test_until_it_is_moved_it_stays_at_the_top_whoever_is_there():
    assert Cursor().followed(rows_of("abc"), 2) == Cursor()


def test_a_moved_cursor_follows_its_row_and_keeps_its_line():
    cursor = Cursor().moved(rows_of("abcdefgh"), 3, 5)
    assert (cursor.row, cursor.top, cursor.key) == (3, 0, ("d",))
    below = cursor.followed(rows_of("xyzabcdefgh"), 5)
    assert (below.row, below.top) == (6, 3)
    above = cursor.followed(rows_of("dabcefgh"), 5)
    assert (above.row, above.top) == (0, 0)


def test_a_row_that_goes_leaves_the_cursor_where_it_is_and_is_found_when_it_comes_back():
    cursor = Cursor().moved(rows_of("abcd"), 2, 5)
    gone = cursor.followed(rows_of("abd"), 5)
    assert gone.row == 2
    assert gone.followed(rows_of("abdc"), 5).row == 3


def test_it_never_leaves_the_rows_nor_the_screen():
    rows = rows_of("abcdefghij")
    down = Cursor().moved(rows, 100, 4)
    assert (down.row, down.top) == (9, 6)
    up = down.moved(rows, -100, 4)
    assert (up.row, up.top) == (0, 0)
    assert down.followed(rows_of("ab"), 4).row == 1
    assert Cursor(5, 3).moved([], 1, 4) == Cursor()
    assert down.within(10, 1).top == 9


def test_text_is_scrolled_by_lines():
    lines = rows_of(range(100))
    assert Cursor().scrolled(lines, 3, 10).top == 3
    assert Cursor(3, 3).scrolled(lines, 500, 10).top == 90
    assert Cursor().scrolled(lines[:5], 500, 10).top == 0
    assert Cursor(3, 3).scrolled([], 1, 10) == Cursor()


def test_text_opens_where_it_matters_and_then_stays_whatever_comes_between():
    lines = rows_of(range(100))
    opened = Cursor().opened(lines, 50, 12)
    assert opened.top == 46
    assert opened.opened(lines, 90, 12) == opened
    longer = [*rows_of("abc"), *lines]
    assert opened.opened(longer, 0, 12).top == 49
    assert Cursor().opened([], 0, 12).key is None
