"""What holds of any two recordings: a comparison is balanced, and its rows are the whole."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.examples import examples
from builders.runs import run_of
from prospect.estimate.compare.compared_sides import compare
from prospect.estimate.compare.comparison import CompareOptions

FUNCTIONS = ("f", "g", "k:f", "k:h", "", "x.isra.0")
runs = st.lists(
    st.dictionaries(st.sampled_from(FUNCTIONS), st.integers(0, 5000)).map(run_of),
    min_size=1,
    max_size=3,
)
units = st.sampled_from(("run", "second", "7 turns"))


def keyed(table):
    keys = zip(table.name, table.object, table.mode.tolist(), strict=True)
    return {key: row for row, key in enumerate(keys)}


@settings(max_examples=examples(40))
@given(before=runs, after=runs, per=units)
def test_the_other_way_round_every_change_is_its_negative(before, after, per):
    options = CompareOptions(per=per)
    forth, back = compare(before, after, options), compare(after, before, options)
    assert forth.tested == back.tested
    for name in ("total", "modes", "processes", "objects", "functions"):
        one, other = getattr(forth, name), getattr(back, name)
        rows = keyed(other)
        place = [rows[key] for key in keyed(one)]
        assert len(place) == len(other)
        np.testing.assert_allclose(one.change, -other.change[place], atol=1e-12)
        np.testing.assert_allclose(one.half_width, other.half_width[place], rtol=1e-9)
        np.testing.assert_allclose(one.p_value, other.p_value[place], rtol=1e-6, atol=1e-12)
        np.testing.assert_array_equal(one.hits, other.hits[place][:, ::-1])


@settings(max_examples=examples(40))
@given(before=runs, after=runs, per=units)
def test_every_table_adds_up_to_the_total(before, after, per):
    found = compare(before, after, CompareOptions(per=per))
    for table in (found.modes, found.processes, found.objects, found.functions):
        for column in ("hits", "mean", "change"):
            np.testing.assert_allclose(
                getattr(table, column).sum(axis=0),
                getattr(found.total, column).sum(axis=0),
                atol=1e-12,
            )


@settings(max_examples=examples(40))
@given(before=runs, after=runs)
def test_what_is_marked_has_an_interval_without_nothing(before, after):
    found = compare(before, after)
    for table in (found.processes, found.objects, found.functions):
        assert (np.abs(table.change) > table.half_width)[table.significant].all()
        assert (table.half_width > 0).all()
        known = np.isfinite(table.relative)
        low, high = table.relative_low[known], table.relative_high[known]
        assert ((low <= table.relative[known]) & (table.relative[known] <= high)).all()
