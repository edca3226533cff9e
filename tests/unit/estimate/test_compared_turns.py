"""Turns of two sides: which became longer, and by what."""

import io
import json
from pathlib import Path

import pytest

from builders.critical_paths import MAIN, OTHER
from builders.json_schema import schema_errors
from builders.turns import REQUEST, profile_with_turns, turns_of
from prospect.estimate.compare.compared_sides import compare
from prospect.estimate.compare.compared_turns import compared_turns
from prospect.estimate.compare.comparison import CompareOptions
from prospect.profile.model import PATH_BLOCKED, PATH_RAN
from prospect.records import replace
from prospect.render.diff_registry import diff_writer

SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "diff.schema.json").read_text())
SLOWER = [(state, tid, ms + 5 * (state == PATH_BLOCKED), by) for state, tid, ms, by in REQUEST]


def rendered(name, comparison):
    out = io.BytesIO()
    diff_writer(name)(comparison, out)
    return out.getvalue().decode()


SAMPLES = [(1.5 + at / 100, MAIN, "f") for at in range(20)]


def profile_of_requests(requests, kinds=("view",), kind_of=()):
    return profile_with_turns(turns_of(requests, kinds, kind_of), SAMPLES)


def test_a_longer_wait_of_another_process_is_the_change():
    before, after = profile_of_requests([REQUEST] * 10), profile_of_requests([SLOWER] * 8)
    (view,) = compared_turns([before], [after], "3")
    assert (view.program, view.kind, view.a_turns, view.b_turns) == ("shell", "view", 10, 8)
    assert view.change == pytest.approx(0.005)
    assert view.half_width_s == pytest.approx(0, abs=1e-9)
    first = view.parts[0]
    assert (first.state, first.program, first.thread) == ("blocked", "server", "other process")
    assert first.change == pytest.approx(0.005)
    assert sum(part.change for part in view.parts) == pytest.approx(view.change)


def test_recordings_of_a_side_are_together_and_their_spread_is_the_interval():
    requests = [[(PATH_RAN, MAIN, ms, -1)] for ms in (10, 20)] * 5
    sides = [profile_of_requests(requests), profile_of_requests(requests)]
    (view,) = compared_turns(sides, sides[:1], "3")
    assert (view.a_turns, view.a, view.change) == (20, pytest.approx(0.015), pytest.approx(0))
    expected = 1.96 * (0.000025 * 20 / 19 / 20 + 0.000025 * 10 / 9 / 10) ** 0.5
    assert view.half_width_s == pytest.approx(expected)


def test_kinds_that_one_side_lacks_are_not_compared():
    before = profile_of_requests([REQUEST] * 2, ("view", "report"), (0, 1))
    after = profile_of_requests([[(PATH_RAN, OTHER, 9, -1)]], ("report",))
    assert [one.kind for one in compared_turns([before], [after], "3")] == ["report"]


def test_formats_have_the_change():
    before, after = profile_of_requests([REQUEST] * 10), profile_of_requests([SLOWER] * 10)
    found = compare([before], [after], CompareOptions())
    lines = rendered("text", found).splitlines()
    assert "shell, view: +5.000 ms a turn, of which" in lines
    document = json.loads(rendered("json", found))
    assert schema_errors(document, SCHEMA, SCHEMA) == []
    assert document["turns"][0]["change"] == pytest.approx(0.005)
    without = compare([before], [replace(after, turns=None)], CompareOptions())
    assert "turns" not in json.loads(rendered("json", without))
