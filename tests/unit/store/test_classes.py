"""Classes of a part of a store side by side: by what its windows keep apart."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime

import pytest

from builders.stacks import stacks_profile
from builders.stored import BEGIN_S, fill, window_at
from prospect.api.store_part import part_of, read_store
from prospect.errors import StoreError
from prospect.records import replace
from prospect.render.registry import make_renderer

pytest.importorskip("duckdb")


def by_class(profile, dimension, **options):
    """Return the hits of each class, and of each function those by class."""
    out = io.BytesIO()
    options = {"detail": "4", "user_threshold_s": 0.0, **options}
    make_renderer("json", columns=dimension, **options).render(profile, out)
    (table,) = json.loads(out.getvalue())["tables"]
    names = [one["class"] for one in table["classes"]]
    rows = {row["function"]: [cell["samples"] for cell in row["columns"]] for row in table["rows"]}
    return dict(zip(names, (one["samples"] for one in table["classes"]), strict=True)), rows


def of_store(path, dimension, *words):
    return by_class(read_store(str(path), words, apart=[dimension]), dimension)


@pytest.mark.parametrize("dimension", ["cpu", "thread", "process"])
def test_what_is_kept_apart_is_as_in_the_recording(tmp_path, dimension):
    separate = ("process", "thread", "cpu")
    fill(tmp_path / "s", [window_at(minute, separate=separate) for minute in range(2)])
    totals, rows = of_store(tmp_path / "s", dimension)
    of_recording, expected = by_class(stacks_profile(), dimension)
    assert totals == {name: 2 * hits for name, hits in of_recording.items()}
    assert {name: sum(hits) for name, hits in rows.items()} == {
        name: 2 * sum(hits) for name, hits in expected.items()
    }


def test_sessions_and_hours_are_classes_of_any_store(tmp_path):
    fill(tmp_path / "s", [window_at(0), window_at(1), window_at(70)])
    fill(tmp_path / "s", [window_at(80)], session="later")
    assert of_store(tmp_path / "s", "session")[0] == {"current": 90, "later": 30}
    hours, rows = of_store(tmp_path / "s", "hour")
    names = [
        datetime.fromtimestamp(BEGIN_S + 60 * minute, UTC).astimezone().strftime("%Y-%m-%d %H:00")
        for minute in (0, 70)
    ]
    assert hours == dict(zip(names, (60, 60), strict=True))
    assert rows["work"] == [16, 16]
    assert of_store(tmp_path / "s", "host")[0] == {"fctype2": 120}


def test_what_was_not_kept_apart_is_refused(tmp_path):
    fill(tmp_path / "s", [window_at(0)])
    for dimension, word in (("cpu", "cpu"), ("thread", "thread"), ("process", "process")):
        with pytest.raises(StoreError, match=f"--separate {word} does from then on"):
            of_store(tmp_path / "s", dimension)


def test_services_are_classes(tmp_path):
    services = {1: "web.service"}
    fill(tmp_path / "s", [window_at(0, services=services)])
    totals, _ = of_store(tmp_path / "s", "service")
    assert totals == {"web.service": 21, "": 9}


def test_a_part_of_a_recording_has_classes_too():
    profile = replace(
        stacks_profile(), run=replace(stacks_profile().run, started_at=float(BEGIN_S))
    )
    whole, _ = by_class(profile, "cpu", sort=("function", "program"))
    part, _ = by_class(part_of(profile, ["comm:comm"], columns="cpu"), "cpu")
    assert sum(part.values()) == 21
    assert all(part[name] <= whole[name] for name in part)
