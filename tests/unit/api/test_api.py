"""The Python interface on profiles in memory: tables, data frames, the notebook's view."""

from __future__ import annotations

import json
import os
import sys

import numpy as np
import pytest

import prospect
from builders.annotated import annotated_loop
from builders.profile import (
    empty_profile,
    hostile_profile,
    perf_profile,
    qsort_profile,
    rowless_profile,
)
from builders.sources import CLOCK
from builders.switches import SWITCH, switched_profile
from builders.turns import REQUEST, profile_with_turns, turns_of
from prospect import Profile
from prospect.errors import RecordingError, UsageError
from prospect.estimate.flat_tables import TABLES
from prospect.records import asdict, replace
from prospect.render.plugin_report import PluginReport

CASES = [empty_profile, qsort_profile, hostile_profile, perf_profile, rowless_profile]
OF_ANY = [name for name in TABLES if name not in ("waits", "path", "turns")]


def as_public(profile) -> Profile:
    return Profile(**asdict(profile))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", OF_ANY)
def test_the_columns_of_a_table_are_equally_long(case, name):
    columns = getattr(as_public(case()), f"{name}_table")()
    assert len({len(column) for column in columns.values()}) == 1


@pytest.mark.parametrize("case", CASES)
def test_every_table_of_hits_adds_up_to_the_recording(case):
    profile = as_public(case())
    total = profile.hits.count.sum()
    assert profile.hits_table(detail="4")["samples"].sum() == total
    assert profile.functions_table(detail="4")["samples"].sum() == total
    hits = profile.hits_table(detail="4")
    processes = profile.processes_table(detail="4")
    for mode in ("user", "kernel"):
        of_mode = hits["mode"] == mode
        assert processes[f"{mode}_samples"].sum() == hits["samples"][of_mode].sum()
        assert processes[f"{mode}_seconds"].sum() == pytest.approx(hits["seconds"][of_mode].sum())


def test_rows_are_those_of_the_report():
    profile = as_public(qsort_profile())
    functions, processes = profile.functions_table(detail="4"), profile.processes_table(detail="4")
    assert functions["function"][0] == "default_idle"
    assert functions["object"][1] == "/home/hp/bench/qsort"
    assert (processes["process"][0], processes["pid"][0]) == ("qsort", 1213)
    assert processes["user_samples"][0] == 384
    assert processes["user_seconds"][0] == pytest.approx(1.5, abs=1e-6)
    assert processes["birth"][0] == "exec"
    assert processes["is_command"].tolist().count(True) == 1
    assert profile.mappings_table(detail="4")["samples"].tolist() == [156, 228]
    assert profile.losses_table()["cpu"].tolist() == [0]


def test_functions_have_the_errors_of_the_report():
    profile = as_public(qsort_profile())
    functions = profile.functions_table()
    document = json.loads(profile.report(format="json"))
    shown = {row["name"]: row["half_width_s"] for row in document["summary"]["functions"]}
    assert "my_compare" in shown
    errors = dict(zip(functions["function"], functions["error_seconds"], strict=True))
    for name, error in shown.items():
        assert errors[name] == pytest.approx(error, rel=1e-6)
    of_report = PluginReport(profile, "3", "").table("functions")
    assert of_report["error_seconds"] == pytest.approx(functions["error_seconds"])


def test_errors_of_functions_whose_samples_are_no_time_are_unknown():
    profile = as_public(qsort_profile())
    misses = [
        replace(event, name="cache-misses", seconds_per_hit=0.0, seconds_per_period=0.0)
        for event in profile.run.events
    ]
    counted = as_public(replace(profile, run=replace(profile.run, events=misses)))
    assert np.isnan(counted.functions_table()["error_seconds"]).all()


def test_wall_time_and_the_critical_path_are_tables():
    profile = as_public(switched_profile(CLOCK, SWITCH, extras={"command_pid": 5}))
    path, wall = profile.path_table(), profile.to_pandas("wall")
    assert path["state"].tolist()[:3] == ["blocked", "running", "blocked"]
    assert float(path["seconds"].sum()) == pytest.approx(100e-6)
    assert float(wall["seconds"].sum()) == pytest.approx(100e-6)
    assert wall["share"].sum() == pytest.approx(1)
    for table in ("path", "wall"):
        with pytest.raises(UsageError, match="has no critical path: record a command"):
            as_public(qsort_profile()).to_pandas(table)


def test_waits_are_in_a_table_of_their_own():
    profile = as_public(switched_profile(CLOCK, SWITCH, waits=True))
    waits = profile.waits_table(detail="4")
    assert waits["state"].tolist() == ["blocked", "runnable"]
    assert waits["seconds"].tolist() == pytest.approx([20e-6, 21e-6])
    assert (waits["begin_ns"].tolist(), waits["tid"].tolist()) == ([12_000, 40_000], [5, 5])
    assert profile.hits_table(detail="4")["samples"].tolist() == [1]
    with pytest.raises(UsageError, match="has no waits: record with --off-cpu"):
        as_public(qsort_profile()).waits_table()


def test_tables_are_of_what_a_report_shows():
    profile = as_public(qsort_profile())
    hits = profile.hits_table()
    assert set(hits["process"]) == {"qsort"}
    of_command = profile.processes.is_command | profile.processes.is_descendant
    chosen = of_command[profile.hits.process_index]
    assert hits["samples"].sum() == profile.hits.count[chosen].sum() < profile.hits.count.sum()
    functions = profile.functions_table()
    assert functions["function"][0] == "my_compare"
    assert functions["samples"].sum() == hits["samples"].sum()
    assert functions["percent"].sum() == pytest.approx(100)
    assert set(profile.processes_table()["process"]) == {"qsort"}
    assert set(profile.mappings_table()["process"]) == {"qsort"}
    assert profile.to_arrow("hits").num_rows == len(hits["samples"])
    assert len(profile.to_pandas("hits", detail=4)) == len(
        profile.hits_table(detail="4")["samples"]
    )
    kernel = profile.hits_table(detail="k")["mode"]
    assert len(kernel)
    assert "user" not in kernel


def test_a_detail_that_no_table_has_is_refused():
    profile = as_public(qsort_profile())
    with pytest.raises(UsageError, match="detail='5' is not one of 2, 3, 4, k"):
        profile.functions_table(detail="5")


def test_a_notebook_shows_a_cell():
    page = as_public(qsort_profile())._repr_html_()
    assert ">my_compare</td>" in page
    assert "<pre>qsort<br>" in page


def test_a_hostile_name_is_no_markup():
    page = as_public(qsort_profile(command=("<script>alert(1)</script>",)))._repr_html_()
    assert "<script>" not in page
    assert as_public(hostile_profile())._repr_html_().count("<table>") == 1


@pytest.mark.parametrize("name", OF_ANY)
def test_names_that_are_no_unicode_reach_every_library(name):
    profile = as_public(hostile_profile())
    assert profile.to_arrow(name).num_rows == len(profile.to_pandas(name))


def test_names_that_are_no_unicode_stand_as_their_bytes():
    profile = as_public(hostile_profile())
    assert r"\xff\xfe" in profile.processes_table(detail="4")["process"].tolist()
    for text in (profile.report(), profile.report(format="csv"), profile._repr_html_()):
        assert text.encode()


def test_a_recording_that_made_up_a_surrogate_is_shown_all_the_same():
    profile = as_public(qsort_profile(command=("a\ud800",)))
    assert r"a\ud800" in repr(profile)
    assert profile.report().encode()


def test_the_repr_is_one_line():
    assert repr(as_public(qsort_profile())).startswith(
        "<prospect.Profile: qsort: 1014 samples of 6 "
    )


@pytest.mark.parametrize("name", OF_ANY)
def test_arrow_and_pandas_hold_the_same_rows(name):
    profile = as_public(qsort_profile())
    arrow, frame = profile.to_arrow(name), profile.to_pandas(name)
    assert arrow.column_names == list(frame.columns) == list(TABLES[name](profile))
    assert arrow.num_rows == len(frame)


@pytest.mark.parametrize(("library", "method"), [("pyarrow", "to_arrow"), ("pandas", "to_pandas")])
def test_a_missing_library_is_named_with_what_installs_it(monkeypatch, library, method):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(UsageError, match=f"-m pip install {library}"):
        getattr(as_public(qsort_profile()), method)()


def test_an_unknown_table_is_answered_with_the_known_ones():
    with pytest.raises(
        UsageError, match="functions, processes, hits, waits, path, turns, mappings, losses, wall"
    ):
        as_public(qsort_profile()).to_arrow("nonsense")


def test_a_report_is_returned_and_written(tmp_path):
    profile = as_public(qsort_profile())
    text = profile.report(detail="2", output=str(tmp_path / "out"))
    assert "Statistics of Run" in text
    assert (tmp_path / "out").read_text() == text
    assert profile.report(format="csv") != text
    assert "my_compare" not in profile.report(user_threshold_s=1e6, classic=True)
    assert "do_anonymous_page" in profile.report(kernel_threshold_s=0.0)


def test_an_unknown_format_or_detail_is_refused():
    with pytest.raises(UsageError):
        as_public(qsort_profile()).report(format="yaml")
    with pytest.raises(UsageError):
        as_public(qsort_profile()).report(detail="5")


def test_a_detail_may_be_a_number():
    profile = as_public(qsort_profile())
    assert profile.report(detail=4) == profile.report(detail="4")


@pytest.mark.parametrize("command", ["", [], [""], None, 5, b"true", ["true", 5], 'an "open quote'])
def test_what_is_no_command_is_refused_in_words(command):
    with pytest.raises(UsageError, match="record: "):
        prospect.record(command)


@pytest.mark.parametrize("keyword", ["frequency_hz", "flush_centiseconds"])
@pytest.mark.parametrize("value", ["200", 200.5, float("nan"), None])
def test_a_keyword_of_another_type_is_refused_in_words(keyword, value):
    with pytest.raises(UsageError, match=f"{keyword} is a whole number"):
        prospect.record("true", **{keyword: value})


def test_a_recording_may_be_named_in_bytes(tmp_path):
    with pytest.raises(RecordingError, match="missing: No such file"):
        prospect.open(os.fsencode(tmp_path / "missing"))


@pytest.mark.parametrize("value", ["4", 2.0])
def test_a_number_of_clocks_is_whole(value):
    with pytest.raises(UsageError, match="clocks is a whole number"):
        prospect.record("true", clocks=value)


@pytest.mark.parametrize(
    ("keywords", "says"),
    [
        ({"overhead_percent": "0.5%"}, "overhead_percent is a number"),
        ({"overhead_percent": 0.5, "frequency_hz": 99}, "leave out frequency_hz"),
        ({"overhead_percent": 0.0}, "more than 0"),
        ({"overhead_percent": float("nan")}, "more than 0"),
        ({"overhead_percent": 101}, "at most 100%"),
        ({"clocks": 5}, "1 to 4 clocks"),
        ({"max_bytes": "4G"}, "max_bytes is a whole number"),
        ({"max_bytes": 1.5e9}, "max_bytes is a whole number"),
        ({"max_bytes": 4096}, "no less than 1 MiB"),
        ({"max_bytes": 0}, "no less than 1 MiB"),
        ({"clocks": -1, "overhead_percent": 1.0}, "1 to 4 clocks"),
    ],
)
def test_a_rate_that_cannot_be_is_refused_before_the_command_runs(tmp_path, keywords, says):
    with pytest.raises(UsageError, match=says):
        prospect.record(["touch", str(tmp_path / "ran")], **keywords)
    assert not (tmp_path / "ran").exists()


def test_a_report_with_instructions_needs_a_profile_with_code():
    profile = as_public(annotated_loop())
    assert "<work+5>:" in profile.report(disassemble=1)
    assert "<work+5>:" not in profile.report()
    with pytest.raises(UsageError, match="code=True"):
        as_public(qsort_profile()).report(disassemble=1)


@pytest.mark.parametrize(
    "keywords", [{"syntax": "arm"}, {"disassembler": "objdump"}, {"gdb_processes": 0}]
)
def test_keywords_of_disassembly_without_meaning_are_refused(keywords):
    with pytest.raises(UsageError, match=next(iter(keywords))):
        prospect.open("no-such-file", code=True, **keywords)


def test_turns_and_their_parts_are_tables():
    turns = turns_of([REQUEST] * 2, cut=1)
    profile = as_public(profile_with_turns(turns))
    found, parts = profile.turns_table(), profile.to_pandas("turn_parts")
    assert found["state"].tolist() == ["whole", "whole", "cut"]
    assert found["seconds"].tolist() == pytest.approx([0.025, 0.025, 0.001])
    assert set(found["kind"]) == {"view"}
    assert parts["seconds"].sum() == pytest.approx(0.05)
    assert set(parts["turns"]) == {2}
    for table in ("turns", "turn_parts"):
        with pytest.raises(UsageError, match="has no turns: record with --off-cpu"):
            as_public(qsort_profile()).to_pandas(table)
