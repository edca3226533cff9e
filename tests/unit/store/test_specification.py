"""What specifications mean."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from prospect.errors import UsageError
from prospect.store.specification import ALWAYS, moment_us, parse_specifications

US = 10**6


@pytest.fixture
def berlin(monkeypatch):
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def utc(*parts):
    return int(datetime(*parts, tzinfo=UTC).timestamp()) * US


def test_words_patterns_and_numbers():
    found = parse_specifications(["comm:nginx,php*", "cpu:0,4-6", "symbol:*[!x]"])
    assert found.texts == {"comm": ("nginx", "php*"), "symbol": ("*[!x]",)}
    assert found.numbers == {"cpu": (0, 4, 5, 6)}
    assert (found.since_us, found.until_us) == (-ALWAYS, ALWAYS)


def test_a_thread_is_chosen_by_its_number_or_its_name():
    assert parse_specifications(["thread:4711,12"]).numbers == {"tid": (4711, 12)}
    assert parse_specifications(["thread:work*,4711x"]).texts == {"comm": ("work*", "4711x")}
    with pytest.raises(UsageError, match="twice"):
        parse_specifications(["thread:12", "tid:13"])


def test_times_are_those_of_this_machine(berlin):
    now = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)  # 13:00
    assert moment_us("12:30", now) == utc(2026, 11, 22, 11, 30)
    assert moment_us("14:05", now) == utc(2026, 11, 21, 13, 5)  # not yet today
    assert moment_us("-15m", now) == utc(2026, 11, 22, 11, 45)
    assert moment_us("2026-11-01", now) == utc(2026, 10, 31, 23)
    assert moment_us("2026-11-01T10:00+00:00", now) == utc(2026, 11, 1, 10)


def test_an_hour_that_summer_time_ends_with_twice_is_told_by_its_offset(berlin):
    now = datetime(2026, 10, 25, 12, 0, tzinfo=UTC)
    assert moment_us("02:30", now) == utc(2026, 10, 25, 0, 30)
    assert moment_us("2026-10-25T02:30+01:00", now) == utc(2026, 10, 25, 1, 30)
    # Half an hour by the clock before 03:00 was an hour and a half before.
    assert moment_us("03:00", now) - moment_us("02:30", now) == 5400 * US


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["14:05"], "not a specification"),
        (["/var/lib/prospect"], "a store is given as --store /var/lib/prospect"),
        (["com:x"], "comm"),
        (["comm:"], "give a value"),
        (["exclude-symbol:,"], "give a value"),
        (["comm:a", "comm:b"], "twice"),
        (["cpu:x"], "give numbers"),
        (["cpu:4294967296"], "give numbers"),
        (["tgid:" + 5000 * "9"], "give numbers"),
        (["count:9223372036854775808"], "give numbers"),
        (["cpu:-1"], "give numbers"),
        (["cpu:0-99999999"], "too many"),
        (["tgid:99999999999999999999"], "give numbers"),
        (["since:later"], "not a time"),
        (["since:25:00"], "not a time"),
        (["since:-999999999d"], "too long ago"),
        (["since:-5m", "until:-10m"], "not after"),
    ],
)
def test_what_has_no_meaning_is_said(words, complaint):
    with pytest.raises(UsageError, match=complaint):
        parse_specifications(words)
