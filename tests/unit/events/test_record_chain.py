"""Records between two samples are those that following the headers one by one gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prospect.events.record_starts import records_between

MMAP, SAMPLE = 10, 9
# Words in records that look like headers: they would lead astray.
LIKE_HEADERS = st.sampled_from([(3 << 51) | MMAP, (1 << 51) | SAMPLE, 5, (2 << 51) | 300])


def header(type_, words):
    return (words << 51) | type_


RECORDS = st.lists(
    st.tuples(
        st.sampled_from([MMAP, SAMPLE, 3, 7, 4, 64]), st.lists(LIKE_HEADERS, min_size=0, max_size=6)
    ),
    min_size=1,
    max_size=80,
)


def laid_out(records):
    words, starts = [], []
    for type_, body in records:
        starts.append(len(words))
        words += [header(type_, 1 + len(body)), *body]
    return np.array(words, np.uint64), starts


@given(RECORDS, st.lists(LIKE_HEADERS, max_size=5))
def test_headers_are_followed_and_what_looks_like_one_is_not(records, before):
    words, starts = laid_out(records)
    words = np.concatenate((np.array(before, np.uint64), words))
    found = records_between(words, len(before), len(words))
    assert found is not None
    assert found.tolist() == [len(before) + start for start in starts]


@pytest.mark.parametrize(
    "last", [header(MMAP, 3), header(MMAP, 0), header(MMAP, 1) | (1 << 48), header(1 << 20, 2)]
)
def test_a_chain_that_leads_elsewhere_is_none(last):
    words, _ = laid_out([(MMAP, [5, 5]), (7, [5])])
    words = np.append(words, np.array([last, 5], np.uint64))
    assert records_between(words, 0, len(words)) is None


def test_where_no_record_begins_there_is_none():
    assert records_between(np.array([1 << 40, header(MMAP, 1)], np.uint64), 0, 2) is None
