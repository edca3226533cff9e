"""Events side by side: every hit in one cell, the function with the largest shares first."""

import numpy as np
import pytest

from builders.profile import perf_profile
from prospect.figures.report.event_figures import side_by_side
from prospect.profile.complete import complete


def test_columns_are_events_and_rows_functions():
    profile = complete(perf_profile())
    table = side_by_side(profile, (0, 1), "4")
    names = [profile.functions.name[row] for row in table.function]
    assert names == ["c_parse_file", "fold_binary"]
    assert table.hits.tolist() == [[3000, 7], [1010, 13]]
    assert table.total.tolist() == [4010, 20]


def test_the_kernel_alone():
    table = side_by_side(complete(perf_profile()), (0, 1), "k")
    assert table.hits.tolist() == [[10, 0]]


@pytest.mark.parametrize("detail", ["2", "3"])
def test_processes_that_are_not_looked_at_have_no_rows(detail):
    table = side_by_side(complete(perf_profile()), (0, 1), detail)
    assert len(table) == 0
    assert table.total.tolist() == [0, 0]


def test_each_hit_is_in_one_cell():
    profile = complete(perf_profile())
    table = side_by_side(profile, (0, 1), "4")
    of_event = [profile.hits.count[profile.hits.event == event].sum() for event in (0, 1)]
    assert np.array_equal(table.hits.sum(axis=0), of_event)
