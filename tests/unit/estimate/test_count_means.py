"""Means of counts over runs, with Student's intervals."""

import pytest

from prospect.estimate.count_means import count_means
from prospect.profile.event_counts import Count, CountedEvent, CountedRun, EventCounts


def counted(*values, running_ns=100):
    runs = tuple(CountedRun(1.0, (Count(v, 100, running_ns),), user_s=0.5) for v in values)
    return EventCounts("'x'", (CountedEvent("faults"),), runs)


def test_one_run_has_no_interval():
    means = count_means(counted(7))
    assert means.counts[0] == (7.0, None)
    assert means.elapsed_s == (1.0, None)
    assert means.system_s is None


def test_the_interval_is_students():
    # t of 2 degrees of freedom is 4.3027, and the deviation of 1, 2, 3 is 1.
    mean = count_means(counted(1, 2, 3)).counts[0]
    assert mean.value == 2.0
    assert mean.half == pytest.approx(4.3027 / 3**0.5, rel=1e-3)


def test_equal_runs_have_an_interval_of_nothing():
    assert count_means(counted(5, 5)).counts[0] == (5.0, 0.0)


def test_what_never_ran_has_no_mean():
    means = count_means(counted(0, 0, running_ns=0))
    assert means.counts == (None,)
    assert means.running == (0.0,)
