"""Hits added up by function: nothing that a flat report says may change by it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.profile import (
    empty_profile,
    huge_profile,
    interrupted_profile,
    perf_profile,
    qsort_profile,
)
from builders.stacks import random_stacks_profile
from prospect.estimate.finished_report import Report
from prospect.figures.selection import by_function
from prospect.profile.complete import complete
from prospect.records import replace

PROFILES = (qsort_profile, interrupted_profile, perf_profile, empty_profile)


def told_apart(profile, rows):
    """What a report knows of these hits, a row each."""
    hits = profile.hits
    columns = (
        hits.event,
        hits.process_index,
        hits.mode,
        hits.entry_reason_index,
        profile.locations.function_index.take(hits.location_index),
    )
    return np.stack([column.take(rows).astype(np.int64) for column in columns], axis=1)


def random_profile(seed):
    """Samples of 20 functions, whose hits differ in all that may keep them apart."""
    random = np.random.default_rng(seed)
    profile = random_stacks_profile(400, 100, 4, seed)
    size = len(profile.hits)
    locations, hits = profile.locations, profile.hits
    return replace(
        profile,
        locations=replace(locations, function_index=locations.function_index % 20),
        hits=replace(
            hits,
            process_index=random.integers(-1, 3, size).astype(np.int32),
            mode=random.integers(0, 3, size).astype(np.uint8),
            event=random.integers(0, 2, size).astype(np.uint16),
            entry_reason_index=random.integers(0, 2, size).astype(np.int32),
        ),
    )


@given(st.integers(0, 2**32 - 1))
def test_each_sample_is_of_the_same_function_process_mode_entry_reason_and_event(seed):
    whole = complete(random_profile(seed))
    fewer = by_function(whole)
    samples, others = whole.samples.hit_index, fewer.samples.hit_index
    np.testing.assert_array_equal(told_apart(fewer, others), told_apart(whole, samples))
    rows = np.arange(len(fewer.hits))
    assert len(np.unique(told_apart(fewer, rows), axis=0)) == len(rows) <= len(whole.hits)
    np.testing.assert_array_equal(np.bincount(others, minlength=len(rows)), fewer.hits.count)


def test_hits_and_periods_add_up_exactly():
    whole = complete(huge_profile(40, 4000))
    large = np.full(len(whole.hits), 2**60 // len(whole.hits) + 1)
    whole = replace(whole, hits=replace(whole.hits, period=large))
    fewer = by_function(whole)
    assert len(fewer.hits) < len(whole.hits)
    assert fewer.hits.count.sum() == whole.hits.count.sum()
    assert fewer.hits.period.sum() == whole.hits.period.sum()


@pytest.mark.parametrize("make", PROFILES)
def test_report_says_the_same_of_fewer_hits(make, monkeypatch):
    of_fewer = [event.estimates for event in Report(make(), "4", 0.0, 0.0).events]
    monkeypatch.setattr("prospect.figures.report.report_view.by_function", lambda profile: profile)
    of_all = [event.estimates for event in Report(make(), "4", 0.0, 0.0).events]
    for one, other in zip(of_all, of_fewer, strict=True):
        for table in ("processes", "totals", "skipped", "functions", "kernel"):
            for name, column in vars(getattr(one, table)).items():
                np.testing.assert_allclose(
                    vars(getattr(other, table))[name], column, rtol=1e-12, err_msg=f"{table} {name}"
                )
        assert one.sentences == other.sentences


def test_keys_that_do_not_fit_into_a_number_leave_the_hits_as_they_are(monkeypatch):
    whole = complete(qsort_profile())
    monkeypatch.setattr("prospect.figures.selection._MOST_KEYS", 1)
    assert by_function(whole) is whole
