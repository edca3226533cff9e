"""Names of segments, and which of them are read."""

from __future__ import annotations

import pytest

from prospect.store.segments import (
    DAY,
    HOUR,
    MINUTE,
    SAMPLES,
    Segment,
    coarsest,
    is_session_name,
    segment_of,
)

AT = 1_795_356_300  # 2026-11-22 14:05 UTC


def minute(number, session="current"):
    return Segment(MINUTE, AT + 60 * number, AT + 60 * number + 60, session, number, number)


def hour(first, last):
    return Segment(HOUR, AT + 60 * first, AT + 60 * last + 60, "current", first, last)


def test_a_name_says_span_tier_session_and_windows():
    path = minute(3).path(SAMPLES)
    assert path == (
        "minute/date=2026-11-22/hour=14/20261122T140800-20261122T140900.current.3-3.samples.parquet"
    )
    assert segment_of(MINUTE, path.rpartition("/")[2]) == minute(3)
    assert hour(0, 59).directory == "hour/date=2026-11-22"


@pytest.mark.parametrize(
    "name",
    [
        "",
        "x.samples.parquet",
        "20261122T140800-20261122T140900.current.3-3.coverage.parquet",
        "20261122T140800-20261122T140900.current.3-3.samples.parquet.part",
        "20261122T140800-20261122T140700.current.3-3.samples.parquet",
        "20261122T140800-20261122T140900.current.4-3.samples.parquet",
        "20261322T140800-20261122T140900.current.3-3.samples.parquet",
        "20261122T140800-20261122T140900.cur/rent.3-3.samples.parquet",
        f"20261122T140800-20261122T140900.current.3-{'9' * 99}.samples.parquet",
    ],
)
def test_other_names_are_no_segments(name):
    assert segment_of(MINUTE, name) is None


def test_the_coarsest_is_read_and_no_window_twice():
    minutes = [minute(number) for number in range(6)]
    hours = [hour(0, 2)]
    assert coarsest([*minutes, *hours]) == [hour(0, 2), *minutes[3:]]
    day = Segment(DAY, AT, AT + 86400, "current", 0, 4)
    assert coarsest([*minutes, *hours, day]) == [day, minutes[5]]


def test_of_two_with_the_same_windows_one_is_read():
    copy = minute(1)._replace(begin_s=AT + 3600, end_s=AT + 3660)
    assert len(coarsest([minute(0), minute(1), copy])) == 2


def test_windows_are_told_by_their_numbers_when_a_clock_is_set_back():
    again = minute(7)._replace(begin_s=AT, end_s=AT + 60)
    assert coarsest([minute(0), again]) == [minute(0), again]
    assert minute(0).path(SAMPLES) != again.path(SAMPLES)


def test_names_of_sessions():
    assert is_session_name("before-the_deploy2")
    assert not any(map(is_session_name, ("", "a b", "../x", "a.b", "x" * 33, "ä")))
