"""What made a command faster or slower, by two accounts of its wall time."""

import pytest

from builders.critical_paths import MAIN, OTHER, path_of, profile_of
from prospect.estimate.compare.compared_turns import compared_wall
from prospect.profile.model import PATH_BLOCKED, PATH_RAN, PATH_WAITED
from prospect.records import replace
from prospect.render.text.style import Style
from prospect.render.text.wall import wall_change_line, wall_change_lines


def run_of(ran, waited, blocked):
    pieces = [(PATH_RAN, MAIN, ran, -1), (PATH_WAITED, MAIN, waited, -1)]
    path = path_of([*pieces, (PATH_BLOCKED, MAIN, blocked, OTHER)], [(1, OTHER, waited)])
    return profile_of(path, [(1, MAIN, "f"), (2, MAIN, "f")])


def test_the_rows_add_up_to_the_change():
    found = compared_wall([run_of(1000, 300, 500)], [run_of(1100, 100, 50)])
    assert (found.a, found.b) == (pytest.approx(1.8), pytest.approx(1.25))
    changes = [(row.state, row.what, round(row.change, 3)) for row in found.rows]
    assert changes == [
        ("blocked", "unknown reason", -0.45),
        ("waiting for a CPU", "", -0.2),
        ("running", "f", 0.1),
    ]
    assert sum(row.change for row in found.rows) == pytest.approx(found.b - found.a)
    assert found.rows[2].half_width_s > 0 == found.rows[1].half_width_s
    line = wall_change_line(found, 79)
    assert line.startswith("Wall: 0.55 s faster (1.80 to 1.25): unknown reason, ended by s")
    assert line.endswith(" -0.45")
    table = list(wall_change_lines(found, 2, Style(colour=False)))
    assert table[1].split() == ["1.800", "1.250", "-0.550", "-", "all"]
    assert table[-1] == "- 1 more row"


def test_a_side_is_the_mean_of_its_recordings():
    found = compared_wall([run_of(1000, 100, 0), run_of(1000, 300, 0)], [run_of(1000, 200, 0)])
    assert found.a == found.b == pytest.approx(1.2)


def test_there_is_none_if_a_recording_has_no_path():
    one = run_of(10, 10, 10)
    assert compared_wall([one], [replace(one, wall=None)]) is None
