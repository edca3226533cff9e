"""What the formats say of turns whose pieces are known."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from builders.critical_paths import MAIN
from builders.json_schema import schema_errors
from builders.pages import report_of
from builders.turns import REQUEST, profile_with_turns, turns_of
from prospect.estimate.finished_report import Report
from prospect.profile.model import PATH_RAN
from prospect.render.text import turns_section
from prospect.render.text.turns_section import turns_summary

SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "report.schema.json").read_text())
LONGER = [(PATH_RAN, MAIN, 100, -1)]


def rendered(profile, name):
    return report_of(profile, name, detail="3").decode()


def summary_of(turns, samples=()):
    with Report(profile_with_turns(turns, samples)) as report:
        return list(turns_summary(report.turns, 79))


def test_the_first_screen_says_what_a_turn_consists_of():
    assert summary_of(turns_of([REQUEST] * 20), [(2, MAIN, "f"), (22, MAIN, "f")]) == [
        "Turns:  shell, 20 of view: median 25.0 ms, 95 % 25.0, longest 25.0:",
        "        server 15.0, own CPU 8.0 (f 8.0),",
        "        waiting for a CPU 2.0 (its own threads had it)",
    ]


def test_turns_without_a_function_are_those_after_their_idle_wait():
    first, *_ = summary_of(turns_of([REQUEST] * 20, ("after poll",)))
    assert first.startswith("Turns:  shell, 20 after poll: median 25.0 ms,")


def test_rows_of_less_than_is_shown_are_left_out(monkeypatch):
    profile = profile_with_turns(turns_of([REQUEST] * 20))
    assert " 5.000  - " in rendered(profile, "text")
    monkeypatch.setattr(turns_section, "_LEAST_MS", 6.0)
    text = rendered(profile, "text")
    assert " 8.000  - " in text
    assert " 5.000  - " not in text


def test_what_has_no_room_is_added_up():
    turns = turns_of([REQUEST], (f"a_view_with_a_long_name_{'x' * 200}",))
    turns.pieces.names[2] = "server" * 10
    lines = summary_of(turns)
    assert len(lines) == 3
    assert all(len(line) <= 79 for line in lines)


def test_time_of_another_thread_that_has_a_lock_is_that_of_the_lock():
    turns = turns_of([REQUEST])
    turns.pieces.process_index[:] = 0
    turns.during[1] = "a mutex"
    assert "a mutex 15.0" in " ".join(summary_of(turns))


def test_a_round_of_a_loop_is_called_so():
    assert "of its loop, view" in summary_of(turns_of([REQUEST], is_loop=True))[0]
    text = rendered(profile_with_turns(turns_of([REQUEST], is_loop=True)), "text")
    assert "view (event loop)" in text
    assert "A turn of an event loop is one round of it, which may serve many requests." in text


def test_the_section_has_each_kind_and_its_parts():
    turns = turns_of([REQUEST] * 20 + [LONGER], ("view", "report"), [0] * 20 + [1, 0], cut=1)
    lines = rendered(profile_with_turns(turns), "text").splitlines()
    title = lines.index("Turns: from the End of a Wait for Work to the Next One")
    first, second, cut = (line.split() for line in lines[title + 3 : title + 6])
    assert first == ["20", "25.0", "25.0-25.0", "25.0", "25.0-", "25.0", "0.500", "shell", "view"]
    assert second == ["1", "100", "-", "100", "-", "100", "0.100", "shell", "report"]
    assert " ".join(cut) == "Left out: 1 turn: 1 cut by the recording's start or end."
    parts = lines.index("shell, view: a turn of 25.000 ms on average of 20 consists of")
    assert (
        lines[parts + 1]
        == "server 15.0, own CPU 8.0, waiting for a CPU 2.0 (its own threads had it)"
    )
    rows = [line.split() for line in lines[parts + 3 : parts + 7]]
    assert [row[0] for row in rows] == ["10.000", "8.000", "5.000", "2.000"]
    assert rows[0][-1] == "poll"


def test_json_has_the_same_and_keeps_to_its_schema():
    document = json.loads(rendered(profile_with_turns(turns_of([REQUEST] * 3, cut=1)), "json"))
    assert schema_errors(document, SCHEMA, SCHEMA) == []
    (kind,) = document["turns"]["kinds"]
    assert kind["median"] == {"value": 0.025, "low": None, "high": None}
    assert sum(row["seconds"] for row in kind["rows"]) == pytest.approx(kind["seconds"])
    assert document["turns"]["cut"] == 1


def test_without_turns_nothing_is_said():
    profile = profile_with_turns(turns_of([REQUEST]))
    turns = profile.turns
    turns.process_index[:] = np.int32(2)
    text = rendered(profile, "text")
    assert "Turns:" not in text
    assert "turns" not in json.loads(rendered(profile, "json"))
