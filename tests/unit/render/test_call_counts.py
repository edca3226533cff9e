"""Counted calls in the reports."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from builders.json_schema import schema_errors
from builders.pages import report_of
from builders.profile_builder import ProfileBuilder, clock_event
from builders.stacks import stacks_profile
from prospect.errors import UsageError
from prospect.estimate.errors.call_estimates import estimate_calls
from prospect.figures.calls.calls_view import CallsChoice, calls_view
from prospect.figures.calls.sample_choice import SampleChoice
from prospect.foreign.gmon_profile import read_gmon
from prospect.profile.complete import complete
from prospect.profile.optional_tables import CallCounts, CallWindows, CountedFunctions
from prospect.records import replace
from prospect.render.json.calls_document import calls_json
from prospect.render.text.call_sections import calls_text

SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "report.schema.json").read_text())


def counted_profile(windows=None, left_out=""):
    """A command whose function `leaf` is called 400 times, by `main` and by code without a name."""
    build = ProfileBuilder()
    command = build.process("search", 11, is_command=True, is_descendant=True)
    other = build.process("else", 12)
    image = build.object("/opt/search")
    leaf, main = build.function("leaf", image, 16), build.function("main", image, 64)
    nameless = build.function("", image, 96)
    for function, hits in ((leaf, 30), (main, 10)):
        build.hit(command, function, count=hits, period=hits * 5_000_000)
    profile = build.build()
    counts = CallCounts(
        functions=CountedFunctions(
            name=["leaf", "never", "bad\x1b[1m"],
            object_path=["/opt/search"] * 3,
            function_index=np.array([leaf, -1, -1], np.int32),
            probe_ns=np.array([1000.0, 1000.0, 4000.0]),
            probe_spread_ns=np.array([10.0, 10.0, 40.0]),
            left_out=["", "", left_out],
        ),
        counted_index=np.array([0, 0, 0, 2], np.int32),
        process_index=np.array([command, command, other, command], np.int32),
        caller_index=np.array([main, nameless, main, main], np.int32),
        calls=np.array([300, 100, 7, 5]),
        windows=windows,
        dropped=0,
        budget=0.05,
        cost_s=0.0005,
        cost_share=0.0025,
    )
    run = replace(profile.run, events=(clock_event(200.0),))
    return replace(profile, run=run, call_counts=counts)


def in_windows():
    return CallWindows(
        own_s=np.full(8, 0.01),
        gap_s=np.full(8, 0.03),
        window_index=np.arange(8, dtype=np.int32),
        counted_index=np.zeros(8, np.int32),
        process_index=np.zeros(8, np.int32),
        calls=np.full(8, 50),
    )


def text_of(profile, detail="2"):
    text = report_of(profile, "text", detail=detail).decode().partition("Calls Counted")[2]
    return [line.split() for line in text.partition("Extrapolated Summary")[0].splitlines()]


def json_of(profile, detail="2"):
    document = json.loads(report_of(profile, "json", detail=detail))
    assert not schema_errors(document, SCHEMA, SCHEMA)
    return document["events"][0]["call_counts"]


def test_calls_callers_and_time_a_call():
    lines = text_of(counted_profile())
    assert ["400", "0", "375.000", "-", "search", "leaf"] in lines  # 30 hits of 5 ms by 400
    assert ["300", "75.00%", "search", "<-", "main"] in lines
    assert ["100", "25.00%", "search", "<-", "[no", "name]"] in lines
    assert ["-", "1", "more", "function", "without", "a", "call"] in lines


def test_other_processes_count_where_all_are_shown():
    assert ["407", "0"] in [line[:2] for line in text_of(counted_profile(), "4")]
    assert json_of(counted_profile(), "4")["functions"][0]["counted"] == 407


def test_what_was_left_out_is_said_without_its_escapes():
    profile = counted_profile(in_windows(), left_out="too hot")
    lines = text_of(profile)
    warning = [line for line in lines if line[:1] == ["Warning:"]]
    assert len(warning) == 1
    assert "\x1b" not in " ".join(warning[0])
    assert ["?", "?", "-", "-"] in [line[:4] for line in lines]
    assert not [line for line in lines if line[:1] == ["5"]]  # what was counted is no estimate
    names = [line[-1] for line in lines if "search" in line]
    assert names == ["leaf", "main", "name]", "bad\\x1b[1m"]  # the last, and without callers
    (row,) = [row for row in json_of(profile)["functions"] if row["calls"] is None]
    assert (row["counted"], row["half_width"]) == (5, None)


def test_one_window_estimates_nothing_and_ranks_nothing():
    """The function that was counted most so far is not the one that is called most."""
    one = replace(in_windows(), own_s=np.full(1, 0.01), gap_s=np.full(1, 0.3))
    windows = replace(one, window_index=np.zeros(8, np.int32))
    lines = text_of(counted_profile(windows))
    rows = [line for line in lines if line[:1] == ["?"]]
    assert [row[-1] for row in rows] == ["bad\\x1b[1m", "leaf"]
    assert {row[2] for row in rows} == {"-"}  # no time by a number of calls that nobody knows
    assert ["Warning:", "the", "calls", "of", "2", "functions", "(?)"] in [row[:7] for row in lines]
    assert "cannot be estimated" in " ".join(map(" ".join, lines))


def test_time_in_a_function_is_withheld_where_its_probe_took_more():
    profile = counted_profile()
    counts = profile.call_counts
    expensive = replace(counts.functions, probe_ns=np.array([200_000.0, 1000.0, 4000.0]))
    found = replace(profile, call_counts=replace(counts, functions=expensive))
    # 400 calls by 0.2 ms are 80 ms, beside the 150 ms that were sampled.
    assert ["400", "0", "-", "-", "search", "leaf"] in text_of(found)
    assert json_of(found)["functions"][0]["self_s"] is None


def test_probes_that_took_all_the_time_are_said_to():
    counts = replace(counted_profile().call_counts, cost_s=2.0, cost_share=1.0)
    text = "\n".join(
        " ".join(line) for line in text_of(replace(counted_profile(), call_counts=counts))
    )
    assert "Probes took 2.000000 seconds, nearly all of the command's CPU time." in text
    assert "its times are not those of a run without them" in text


def test_estimated_calls_have_an_interval_and_callers_their_share_of_them():
    found = json_of(counted_profile(in_windows()))
    function = found["functions"][0]
    assert function["calls"] == pytest.approx(400 + 50 * 8 * 3)
    assert 0 < function["half_width"] < 600
    assert found["windows"] == {"count": 8, "own_s": 0.08, "gap_s": 0.24}
    lines = text_of(counted_profile(in_windows()))
    assert ["1200", "75.00%", "search", "<-", "main"] in lines


def test_exact_counts_as_json():
    found = json_of(counted_profile())
    assert (found["is_exact"], found["windows"], found["uncalled"]) == (True, None, 1)
    assert found["functions"][0]["self_s"] == pytest.approx(0.15)
    assert found["functions"][0]["half_width"] == 0.0


def test_without_counts_there_is_no_section():
    profile = replace(counted_profile(), call_counts=None)
    assert text_of(profile) == []
    assert json_of(profile) is None


def stacks_with_counts():
    """Count 120 calls of `read`, 90 of them by `main`, beside samples with stacks."""
    profile = complete(stacks_profile())
    row = {name: at for at, name in enumerate(profile.functions.name)}
    read, main, work = row["read"], row["main"], row["work"]
    command = int(np.flatnonzero(profile.processes.is_command)[0])
    counts = replace(
        counted_profile().call_counts,
        functions=CountedFunctions(
            name=["read"],
            object_path=["/usr/bin/work"],
            function_index=np.array([read], np.int32),
            probe_ns=np.array([1000.0]),
            probe_spread_ns=np.array([10.0]),
            left_out=[""],
        ),
        counted_index=np.zeros(2, np.int32),
        process_index=np.full(2, command, np.int32),
        caller_index=np.array([main, work], np.int32),
        calls=np.array([90, 30]),
    )
    return replace(profile, call_counts=counts)


def calls_of(calls, choice):
    view = calls_view(stacks_with_counts(), choice)
    return b"".join(calls(view, estimate_calls(view))).decode()


def test_totals_and_graph_have_a_column_of_calls():
    totals, _, graph = calls_of(calls_text, CallsChoice(sections=("totals", "graph"))).partition(
        "Call Graph"
    )
    (row,) = [line.split() for line in totals.splitlines() if line.endswith(" read")]
    assert row[-3] == "120"
    lines = [line.split() for line in graph.splitlines() if "read" in line]
    assert any(line[0].startswith("[") and "120" in line for line in lines)
    assert any(not line[0].startswith("[") and "90" in line for line in lines)


def test_a_filter_of_samples_has_no_calls():
    choice = CallsChoice(SampleChoice(through="read"), sections=("totals", "graph"))
    assert "Calls" not in calls_of(calls_text, choice)
    document = json.loads(calls_of(calls_json, choice))
    assert {function["calls"] for function in document["events"][0]["functions"]} == {None}


def test_calls_as_json():
    event = json.loads(calls_of(calls_json, CallsChoice(sections=("graph",))))["events"][0]
    calls = {function["name"]: function["calls"] for function in event["functions"]}
    assert (calls["read"], calls["main"]) == (120.0, None)
    arcs = {(arc["caller"], arc["callee"]): arc["calls"] for arc in event["arcs"]}
    assert arcs["main", "read"] == 90.0


def arcs_of(profile, detail="2"):
    found = read_gmon(memoryview(report_of(profile, "gmon", detail=detail)))
    columns = (found.arc_from, found.arc_to, found.arc_calls)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_counted_calls_are_the_arcs_of_a_gmon_out():
    assert arcs_of(counted_profile()) == [(64, 16, 300), (96, 16, 100)]
    assert arcs_of(counted_profile(), "4") == [(64, 16, 307), (96, 16, 100)]


def test_calls_of_windows_are_no_arcs():
    assert arcs_of(counted_profile(in_windows())) == []


def test_more_calls_than_an_arc_holds_are_several_arcs():
    profile = counted_profile()
    counts = replace(profile.call_counts, calls=np.array([2**33, 100, 7, 5]))
    assert arcs_of(replace(profile, call_counts=counts)) == [
        (64, 16, 2**32 - 1),
        (64, 16, 2**32 - 1),
        (64, 16, 2),
        (96, 16, 100),
    ]


def test_more_calls_than_any_program_makes_are_refused():
    profile = counted_profile()
    counts = replace(profile.call_counts, calls=np.array([2**62, 100, 7, 5]))
    with pytest.raises(UsageError, match="calls are too many"):
        arcs_of(replace(profile, call_counts=counts))
