"""JSON of plain values is what the standard library writes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prospect.perfdata.feature_encoding import json_text

SIMPLE = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
VALUES = st.recursive(
    SIMPLE,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=4) | st.integers(), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(VALUES)
def test_any_value_is_written_as_the_standard_library_writes_it(value):
    assert json_text(value) == json.dumps(value, separators=(",", ":"))


def test_what_is_no_plain_value_is_refused():
    with pytest.raises(TypeError, match="bytes is no plain value"):
        json_text({"a": [b"x"]})
