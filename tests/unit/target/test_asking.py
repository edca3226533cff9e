"""Answers of a target that are none, and text of one that is hostile."""

from __future__ import annotations

import json

import pytest

from prospect.errors import CaptureError
from prospect.profile.event_counts import (
    Count,
    CountedEvent,
    CountedRun,
    CountInterval,
    EventCounts,
)
from prospect.recording.diagnosis import OK, Check, Diagnosis
from prospect.records import asdict
from prospect.target.question_client import (
    _counts_in,
    _diagnosis_in,
    _events_in,
    _interval_line_in,
    _read,
)

EVENTS = (CountedEvent("page-faults"), CountedEvent("cpu-clock", "ms", 1e-6, 0))
ROW = (Count(3, 5, 5), Count(7, 5, 4))
RUN = CountedRun(1.5, ROW, (CountInterval(0.0, 1.5, ROW),), 0.5, None, 3)
COUNTS = EventCounts("'true'", EVENTS, (RUN, RUN), ("A limit.",), 3)
DIAGNOSIS = Diagnosis("h, Linux", (Check("events", OK, "fine"),), 0, "Everything.", "")
SAID = asdict(DIAGNOSIS) | {"checks": [asdict(one) for one in DIAGNOSIS.checks]}


def through_json(value):
    return json.loads(json.dumps(value))


def test_what_was_said_there_is_the_same_here():
    assert _counts_in(through_json(COUNTS)) == COUNTS
    line = json.dumps([EVENTS, RUN.intervals[0]]).encode()
    assert _interval_line_in(line) == (EVENTS, RUN.intervals[0])
    assert _diagnosis_in(through_json(SAID)) == DIAGNOSIS


def test_text_moves_no_cursor():
    hostile = SAID | {"summary": "\x1b[2J", "remedy": "\x07"}
    assert "\x1b" not in _diagnosis_in(hostile).summary
    assert "\x1b" not in _counts_in(through_json(COUNTS._replace(target="\x1b[2J"))).target


@pytest.mark.parametrize(
    ("read", "said"),
    [
        (_counts_in, None),
        (_counts_in, [1, 2]),
        (_counts_in, through_json(COUNTS._replace(runs=()))),
        (_counts_in, through_json(COUNTS._replace(events=EVENTS[:1]))),
        (_counts_in, through_json(COUNTS._replace(target=5))),
        (_interval_line_in, b"[]"),
        (_interval_line_in, b"{"),
        (_interval_line_in, b"[" * 100000),
        (_diagnosis_in, SAID | {"status": 7}),
        (_diagnosis_in, SAID | {"checks": []}),
        (_diagnosis_in, SAID | {"checks": [{"name": "a", "state": "b", "finding": "c"}]}),
        (_events_in, [[], [], [None]]),
        (_events_in, [[["kind"]], [], [None]]),
    ],
)
def test_what_is_no_answer_is_refused(read, said):
    with pytest.raises(CaptureError, match="damaged"):
        _read(read, said)
