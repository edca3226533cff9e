import json
from pathlib import Path

import pytest

from builders.json_schema import schema_errors
from builders.pages import report_of
from builders.profile import (
    empty_profile,
    hostile_profile,
    huge_profile,
    perf_profile,
    qsort_profile,
    rowless_profile,
)

DOCS = Path(__file__).parents[3] / "docs"
SCHEMA = json.loads((DOCS / "report.schema.json").read_text())
PROFILES = {
    "empty": empty_profile(),
    "qsort": qsort_profile(),
    "hostile": hostile_profile(),
    "perf": perf_profile(),
    "rowless": rowless_profile(),
    "huge": huge_profile(20, 400),
}


def _report(profile, **options):
    return json.loads(report_of(profile, "json", **options))


@pytest.mark.parametrize("detail", ["2", "3", "4", "k"])
@pytest.mark.parametrize("name", PROFILES)
def test_the_document_keeps_to_its_schema(name, detail):
    assert schema_errors(_report(PROFILES[name], detail=detail), SCHEMA, SCHEMA) == []


def test_the_schema_check_finds_what_is_wrong():
    document = _report(qsort_profile())
    document["schema"] = "prospect-report/1"
    document["more"] = 1
    document["events"][0]["total"]["user"]["samples"] = "384"
    del document["run"]["uname"]
    assert len(schema_errors(document, SCHEMA, SCHEMA)) == 4


def _fields(schema):
    for name, value in schema.get("properties", {}).items():
        yield name
        yield from _fields(value)
        yield from _fields(value.get("items", {}))
    for value in schema.get("$defs", {}).values():
        yield from _fields(value)


def test_every_field_is_documented():
    text = (DOCS / "schema.md").read_text()
    missing = {name for name in _fields(SCHEMA) if f"`{name}`" not in text}
    assert not missing


def test_names_come_back_exactly_as_they_were():
    profile = hostile_profile()
    document = _report(profile)
    shown = {process["name"] for process in document["events"][0]["processes"]}
    assert shown == set(profile.processes.name)
    rows = document["events"][0]["details"][0]["functions"]["user"]["rows"]
    assert {row["name"] or "" for row in rows} <= set(profile.functions.name)
    assert "f\udc80" in {row["name"] for row in rows}
    assert document["warnings"] == ["cut at\noffset 3"]


def test_accounting_that_json_cannot_hold_is_null_or_left_out():
    assert _report(hostile_profile())["run"]["accounting"] == {"user_s": None}


def test_the_figures_of_the_talk():
    event = _report(qsort_profile())["events"][0]
    process = event["details"][0]
    assert (process["name"], process["pid"], process["parent_name"]) == ("qsort", 1213, "prospect")
    assert (process["birth"], process["end"]) == ("exec", "exit")
    user = process["user"]
    assert (user["samples"], user["seconds"]) == (384, 1.5)
    assert user["low_s"] < 1.5 < user["high_s"]
    assert 1.5 - user["low_s"] == pytest.approx(user["half_width_s"], rel=0.05)
    table = process["functions"]["user"]
    assert [(row["name"], row["samples"]) for row in table["rows"]][:2] == [
        ("my_compare", 145),
        ("bsearch->qsort", 138),
    ]
    assert table["skipped"]["functions"] == 2
    assert table["skipped"]["samples"] == 10
    assert table["rows"][0]["build_id"] == "00ff"
    assert table["rows"][0]["is_global"] is False


def test_without_thresholds_nothing_is_left_out():
    options = {"user_threshold_s": 0.0, "kernel_threshold_s": 0.0}
    event = _report(qsort_profile(), detail="4", **options)["events"][0]
    assert event["processes_skipped"]["user"]["samples"] == 0
    tables = [table for process in event["details"] for table in process["functions"].values()]
    assert sum(row["samples"] for table in tables for row in table["rows"]) == 1014


def test_kernel_only_has_the_profiles_and_no_details():
    event = _report(qsort_profile(), detail="k")["events"][0]
    assert event["details"] == []
    assert [(part["part"], part["samples"]) for part in event["kernel_profiles"]] == [
        ("all", 622),
        ("kernel threads", 2),
        ("user processes", 9),
        ("process zero", 611),
    ]
