"""Titles of columns say what the rows are ordered by."""

from __future__ import annotations

import pytest

from prospect.tui.columns import layout, title_line
from prospect.tui.places import PROCESSES, WAITING
from prospect.tui.tables import BY_BLOCKED, BY_NAME, BY_READY, BY_RECENT, BY_TIME


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
