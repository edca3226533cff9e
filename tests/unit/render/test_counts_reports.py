"""Counts as text, JSON and CSV: the same figures, nothing that a terminal acts on."""

import csv
import io
import json

import pytest

from prospect.profile.event_counts import (
    Count,
    CountedEvent,
    CountedRun,
    CountInterval,
    EventCounts,
)
from prospect.render.json.counts_document import (
    COLUMNS,
    counts_csv,
    counts_json,
    csv_heading,
    interval_csv,
)
from prospect.render.text.counts import counts_text, interval_text

SECOND = 1_000_000_000
EVENTS = (
    CountedEvent("task-clock", "ns"),
    CountedEvent("cycles", group=0),
    CountedEvent("instructions", group=0),
    CountedEvent("power/energy/", "Joules", 0.25),
    CountedEvent("\x1b[31mred"),
)
COUNTS = (
    Count(SECOND, SECOND, SECOND),
    Count(1_000_000, SECOND, SECOND // 2),
    Count(3_000_000, SECOND, SECOND // 2),
    Count(10, SECOND, SECOND),
    Count(0, SECOND, 0),
)
HALF = CountInterval(0.0, 1.0, COUNTS)


def found(runs=1, intervals=()):
    run = CountedRun(2.0, COUNTS, intervals, 0.5, 0.25, 3)
    return EventCounts("'make \x1b'", EVENTS, (run,) * runs, ("Not all.",), 3)


def test_text():
    lines = counts_text(found()).splitlines()
    assert lines[0] == "Counts of 'make \\x1b'"
    rows = [line.split() for line in lines[3:8]]
    assert rows[0] == ["1,000.000", "ms", "task-clock", "100.0%", "0.500", "CPUs", "utilised"]
    assert rows[1][:4] == ["2,000,000", "cycles", "{0}", "50.0%"]
    assert rows[2][:3] == ["6,000,000", "instructions", "{0}"]
    assert rows[2][-4:] == ["3.000", "instructions", "a", "cycle"]
    assert rows[3][:3] == ["2.500", "Joules", "power/energy/"]
    assert rows[4][:3] == ["not", "counted", "\\x1b[31mred"]
    assert lines[-1] == "Not all."
    assert "\x1b" not in counts_text(found())


def test_text_of_several_runs_has_intervals():
    text = counts_text(found(3))
    assert "3 runs" in text
    assert " ± " in text.splitlines()[2] + " "
    assert "2.000000 ± 0.000000 s elapsed" in text


def test_intervals_as_text_say_when_they_ended():
    lines = interval_text(EVENTS, HALF).splitlines()
    assert len(lines) == len(EVENTS)
    assert all(line.split()[0] == "1.000000" for line in lines)
    assert "counted 50.0%" in lines[1]


def test_json():
    document = json.loads(counts_json(found(2, (HALF,))))
    assert document["schema"] == "prospect-counts/1"
    assert (document["runs"], document["exit_status"]) == (2, 3)
    cycles, energy, red = (document["events"][row] for row in (1, 3, 4))
    assert cycles["count"] == {"value": 2_000_000.0, "half": 0.0}
    assert (cycles["group"], cycles["running_share"]) == (0, 0.5)
    assert (energy["unit"], energy["scale"], energy["group"]) == ("Joules", 0.25, None)
    assert red["count"] is None
    first = document["each_run"][0]
    assert first["counts"][1] == {
        "name": "cycles",
        "value": 1_000_000,
        "enabled_ns": SECOND,
        "running_ns": SECOND // 2,
        "count": 2_000_000.0,
    }
    assert first["intervals"][0]["end_s"] == 1.0


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_csv():
    rows = rows_of(counts_csv(found(2)))
    assert len(rows) == 2 * len(EVENTS)
    assert tuple(rows[0]) == COLUMNS
    assert [row["run"] for row in rows] == ["0"] * 5 + ["1"] * 5
    assert rows[1]["count"] == "2000000.0"
    assert rows[3]["count"] == "2.5"
    assert rows[4]["count"] == ""
    assert {row["end_s"] for row in rows} == {"2.0"}


@pytest.mark.parametrize("parts", [1, 3])
def test_intervals_as_csv_are_the_same_live_and_at_the_end(parts):
    live = csv_heading() + "".join(interval_csv(EVENTS, HALF) for _ in range(parts))
    assert live == counts_csv(found(1, (HALF,) * parts))
