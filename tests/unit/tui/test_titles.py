"""Titles of columns say what the rows are ordered by."""

from __future__ import annotations

import pytest

from prospect.tui.rows import ENTRY_REASONS, FUNCTIONS, PROCESSES, WAITING
from prospect.tui.table_pages import (
    BY_BLOCKED,
    BY_NAME,
    BY_READY,
    BY_RECENT,
    BY_TIME,
    layout,
    title_line,
)


@pytest.mark.parametrize(
    ("page", "order", "says"),
    [
        (PROCESSES, BY_TIME, "% CPU↓"),
        (PROCESSES, BY_RECENT, "10 s↓"),
        (PROCESSES, BY_NAME, "Process↓"),
        (WAITING, BY_READY, "% ready↓"),
        (WAITING, BY_BLOCKED, "% blocked↓"),
    ],
)
def test_the_column_that_orders_rows_is_marked(page, order, says):
    title = "".join(span.text for span in title_line(layout(page, 80, order), order))
    assert says in title
    assert title.count("↓") == 1


@pytest.mark.parametrize("page", [PROCESSES, FUNCTIONS])
def test_columns_stay_together_on_a_wide_terminal(page):
    narrow, wide = (layout(page, width, BY_TIME, names=20) for width in (120, 300))
    name, behind = wide.columns[-2:]
    assert name.width == 32
    assert wide.rest > 100
    used = sum(column.width + 1 for column in wide.columns) + wide.rest
    assert used == 300
    # Long names have all the room that there is.
    assert layout(page, 300, BY_TIME, names=400).rest == 0
    assert behind.title == narrow.columns[-1].title


def test_where_nothing_follows_a_name_it_has_the_rest():
    form = layout(ENTRY_REASONS, 300, BY_TIME, names=20)
    assert form.columns[-1].width > 200
    assert form.rest == 0
