"""What is removed from a store, when, and what is written down of it."""

from __future__ import annotations

import pytest

from builders.stored import by_function, fill, window_at
from prospect.api.store_part import read_store
from prospect.errors import UsageError
from prospect.store.directory import StoreDirectory
from prospect.store.retention import (
    BY_AGE,
    BY_SIZE,
    DROPPED,
    FULL_DISK,
    Dropped,
    Keep,
    clean,
    drop,
    dropped,
    expired,
    left_names,
    next_to_go,
    parse_keep,
)
from prospect.store.segments import DAY, HOUR, KINDS, MINUTE, Segment

AT = 1_795_356_300
DAY_S = 86400


def minute(number, size=1):
    begin = AT + 60 * number
    return Segment(MINUTE, begin, begin + 60, "current", number, number)


@pytest.fixture
def store(tmp_path):
    with StoreDirectory(str(tmp_path / "s"), create=True) as made:
        yield made


def put(store, one, size=1):
    for kind in KINDS:
        store.write_bytes(one.path(kind), b"x" * size)


def test_ages_and_sizes():
    assert parse_keep("7d,2G") == Keep(7 * DAY_S, 400 * DAY_S, 2 << 30)
    assert parse_keep("12h") == Keep(DAY_S // 2)
    assert parse_keep("2w,52w,500M") == Keep(14 * DAY_S, 364 * DAY_S, 500 << 20)
    assert parse_keep("600d").days_s == 600 * DAY_S
    for text in ("", "7", "7x", "0d", "1K", "7d,8d,9d", "-1d", "2G,"):
        with pytest.raises(UsageError):
            parse_keep(text)


def test_the_oldest_go_by_age(store):
    for number in (0, 100, 200):
        put(store, minute(number))
    day = Segment(DAY, AT - 9000, AT, "current", 900, 901)
    now_s = AT + 60 * 201
    found = expired(store, [*store.segments(), day], Keep(60 * 150), now_s)
    assert [(one, why) for one, why in found] == [(minute(0), BY_AGE)]


def test_a_clock_that_is_set_forward_costs_nothing(store):
    put(store, minute(0))
    put(store, minute(1))
    assert expired(store, store.segments(), Keep(3600), AT + 1000 * DAY_S) == []


def test_the_oldest_go_by_size_and_the_newest_stays(store):
    for number in range(5):
        put(store, minute(number), 1000)
    keep = Keep(most_bytes=(2 * len(KINDS) + 1) * 1000)
    found = expired(store, store.segments(), keep, AT + 600)
    assert found == [(minute(number), BY_SIZE) for number in range(3)]
    found = expired(store, store.segments(), Keep(most_bytes=1), AT + 600)
    assert found == [(minute(number), BY_SIZE) for number in range(4)]


def test_windows_and_summaries_cost_no_more_than_their_share(store):
    hours = [Segment(HOUR, AT + each, AT + each, "current", each, each) for each in range(4)]
    days = [Segment(DAY, AT + each, AT + each, "current", each, each) for each in range(2)]
    sizes = dict.fromkeys(hours, 10) | dict.fromkeys(days, 30)
    gone = []
    while one := next_to_go(sizes):
        gone.append(one)
        del sizes[one]
    assert gone == [days[0], hours[0], hours[1], days[1], hours[2]]
    assert list(sizes) == hours[3:]


def test_hours_that_a_day_has_too_are_not_missed(store):
    day = Segment(DAY, AT, AT + 180, "current", 0, 2)
    for one in (minute(0), minute(3), day):
        put(store, one)
    assert drop(store, [(minute(0), BY_AGE), (minute(3), BY_AGE)]) == 2
    assert [one.begin_s for one in dropped(store)] == [AT + 180]
    assert drop(store, [(day, BY_AGE)]) == 1
    assert [one.windows for one in dropped(store)] == [1, 3]


def test_what_was_removed_is_written_down_in_spans(store):
    for number in (0, 1, 2, 7):
        put(store, minute(number))
    assert drop(store, [(minute(number), BY_AGE) for number in (0, 1, 2)]) == 3
    assert drop(store, [(minute(7), BY_SIZE)]) == 1
    assert store.segments() == []
    assert dropped(store) == [
        Dropped(AT, AT + 180, 3, BY_AGE),
        Dropped(AT + 420, AT + 480, 1, BY_SIZE),
    ]


@pytest.mark.parametrize("text", [b"", b"\0", b"{}", b"[1]", b"[[1,2]]", b'[["a",2,3,4]]'])
def test_a_damaged_list_says_nothing(store, text):
    store.write_bytes(DROPPED, text)
    assert dropped(store) == []


def test_a_window_that_goes_leaves_its_names_to_the_others_of_its_hour(tmp_path):
    path = tmp_path / "store"
    (first, *_) = fill(path, [window_at(minute) for minute in range(3)])
    whole = {key: hits for key, hits in by_function(read_store(str(path))).items() if hits}
    with StoreDirectory(str(path)) as store:
        # The first window alone brought names: the others have the same functions.
        assert drop(store, [(first, BY_SIZE)]) == 1
        assert len(store.segments()) == 2
        clean(store)
    left = by_function(read_store(str(path)))
    assert left.keys() == whole.keys()
    assert all(3 * hits == 2 * whole[key] for key, hits in left.items())
    with StoreDirectory(str(path)) as store:
        drop(store, [(one, BY_AGE) for one in store.segments()])
    assert not list(path.rglob("*.parquet"))
    assert not list((path / "minute").glob("*"))


def test_a_full_disk_takes_names_too(tmp_path):
    path = tmp_path / "store"
    (first, *_) = fill(path, [window_at(minute) for minute in range(3)])
    with StoreDirectory(str(path)) as store:
        drop(store, [(first, FULL_DISK)])
        assert not left_names(store, [first.directory])
