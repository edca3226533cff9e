"""Classes of hits side by side (--columns): what each has of every row, and how that is written."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest

from builders.pages import report_of
from builders.profile import perf_profile
from builders.profile_builder import ProfileBuilder
from builders.programs import switching
from builders.sampling import sampled_profile
from builders.stacks import stacks_profile
from prospect.api.recorded_profile import Profile
from prospect.capture.events.clock_bank import clock_periods_ns
from prospect.cli.commands import COMMANDS
from prospect.cli.option_parser import parse
from prospect.dimensions import COLUMN_DIMENSIONS, known_dimension
from prospect.errors import UsageError
from prospect.figures.hit_keys import kept_apart
from prospect.profile.model import (
    CPUMODE_KERNEL,
    ENTRY_REASON_INTERRUPT,
    ENTRY_REASON_SOFTIRQ,
    KIND_KERNEL,
)
from prospect.records import asdict, replace
from prospect.render.registry import make_renderer

REPORT = next(command for command in COMMANDS if command.name == "report")


def written(profile, form, dimension, **options):
    out = io.BytesIO()
    options = {"user_threshold_s": 0.0, "detail": "4", **options}
    make_renderer(form, columns=dimension, **options).render(profile, out)
    return out.getvalue().decode()


def tables(profile, dimension, **options):
    return json.loads(written(profile, "json", dimension, **options))["tables"]


def hits_of(profile, dimension, **options):
    """Return by the first key of a row what each class has of it."""
    (table,) = tables(profile, dimension, **options)
    names = [one["class"] for one in table["classes"]]
    key = options.get("sort", ("function",))[0]
    return {
        row[key]: dict(zip(names, (cell["samples"] for cell in row["columns"]), strict=True))
        for row in table["rows"]
    }


def many_programs(count):
    """Programs `p0`, `p1`, ... with one function each and one they share, the first hit most."""
    build = ProfileBuilder()
    image = build.object("/bin/x")
    shared = build.function("shared", image, 1 << 20)
    for at in range(count):
        process = build.process(f"p{at}", 100 + at, is_descendant=True)
        build.hit(process, build.function(f"own{at}", image, at * 64), 1)
        build.hit(process, shared, 10 * (count - at))
    return build.build()


@pytest.mark.parametrize("dimension", ["cpu", "thread", "process", "program", "mode", "host"])
def test_classes_have_together_what_the_table_by_keys_has(dimension):
    profile = stacks_profile()
    document = report_of(profile, "json", sort=("function",), detail="4", user_threshold_s=0.0)
    (event,) = json.loads(document)["events"]
    expected = {}
    for row in event["rows"]:
        expected[row["function"]] = expected.get(row["function"], 0) + row["samples"]
    (table,) = tables(profile, dimension)
    found = {}
    for row in table["rows"]:
        hits = sum(cell["samples"] for cell in row["columns"])
        found[row["function"]] = found.get(row["function"], 0) + hits
    assert found == expected
    assert sum(one["samples"] for one in table["classes"]) == event["samples"]
    assert sum(one["seconds"] for one in table["classes"]) == pytest.approx(event["seconds"])


def test_a_cell_is_what_samples_say():
    profile = stacks_profile()
    samples, hits = profile.samples, profile.hits
    functions = profile.locations.function_index.take(hits.location_index)
    expected = {}
    for hit, cpu in zip(samples.hit_index.tolist(), samples.cpu.tolist(), strict=True):
        name = profile.functions.name[functions[hit]]
        if name:
            expected.setdefault(name, {}).setdefault(str(cpu), 0)
            expected[name][str(cpu)] += 1
    found = hits_of(profile, "cpu")
    for name, by_cpu in expected.items():
        assert {cpu: hits for cpu, hits in found[name].items() if hits} == by_cpu


def test_error_bars_of_a_single_class_are_those_of_the_table_by_keys():
    random = np.random.default_rng(5)
    schedule = switching(random, 2, 2.0, (1e-3,) * 3, (0.5, 0.3, 0.2))
    profile = sampled_profile(random, schedule, clock_periods_ns(1000, 4))
    document = report_of(profile, "json", sort=("function",), detail="4", user_threshold_s=0.0)
    (event,) = json.loads(document)["events"]
    (table,) = tables(profile, "host")
    assert [row["columns"][0]["half_width_s"] for row in table["rows"]] == pytest.approx(
        [row["half_width_s"] for row in event["rows"]]
    )
    assert table["classes"][0]["half_width_s"] == pytest.approx(event["half_width_s"])


def test_hits_are_kept_apart_without_losing_any():
    profile = stacks_profile()
    found = kept_apart(profile, columns="cpu")
    assert found.hits.count.sum() == profile.hits.count.sum()
    assert found.hits.period.sum() == profile.hits.period.sum()
    assert len(found.hits) > len(profile.hits)
    of_sample = found.hits.class_index.take(found.samples.hit_index)
    names = np.array([name for (name,) in found.classes.names], np.int64)
    assert (names.take(of_sample) == profile.samples.cpu).all()
    assert (
        found.hits.location_index.take(found.samples.hit_index)
        == profile.hits.location_index.take(profile.samples.hit_index)
    ).all()


def test_periods_of_which_only_sums_are_known_add_up():
    profile = stacks_profile()
    profile = replace(profile, samples=replace(profile.samples, period=None))
    profile = replace(profile, hits=replace(profile.hits, period=profile.hits.count * 7 + 1))
    found = kept_apart(profile, ["tid"], "cpu")
    assert found.hits.period.sum() == profile.hits.period.sum()


def test_events_are_columns_of_one_table():
    profile = perf_profile()
    (table,) = tables(profile, "event")
    assert table["event"] is None
    assert [one["class"] for one in table["classes"]] == [
        event.name for event in profile.run.events
    ]
    for at, one in enumerate(table["classes"]):
        assert sum(row["columns"][at]["samples"] for row in table["rows"]) == one["samples"]


def test_classes_beyond_the_bound_are_one_column_and_said():
    lines = written(many_programs(9), "text", "program").splitlines()
    assert "4 others" in lines[3]
    assert "p4 " in lines[3]
    assert "p5 " not in lines[3]
    shared = next(line for line in lines if line.endswith("shared"))
    assert shared.split().count("100%") == 0
    (said,) = [line for line in lines if "One column is of 4 others" in line]
    assert "--format csv has all" in said
    (table,) = tables(many_programs(9), "program")
    assert [one["class"] for one in table["classes"]] == [f"p{at}" for at in range(9)]


def test_a_recording_of_few_classes_has_a_column_for_each():
    lines = written(many_programs(6), "text", "program").splitlines()
    assert not any("others" in line for line in lines)
    assert lines[3].split(" -")[0] == "p0"
    assert lines[-1].split()[-1] == "Total"


def test_a_thread_is_called_as_it_was_most_of_the_time():
    profile = stacks_profile()
    names = list(next(iter(hits_of(profile, "thread").values())))
    assert all(name.endswith(")") for name in names)


def test_a_spreadsheet_has_four_columns_for_each_class():
    rows = list(csv.DictReader(io.StringIO(written(many_programs(3), "csv", "program"))))
    assert list(rows[0]) == [
        "event",
        "function",
        *(f"program p{at} {figure}" for at in range(3) for figure in FIGURES),
    ]
    assert rows[0]["function"] == "shared"
    assert [int(rows[0][f"program p{at} samples"]) for at in range(3)] == [30, 20, 10]
    for at in range(3):
        percents = [float(row[f"program p{at} percent"]) for row in rows]
        assert sum(percents) == pytest.approx(100.0)


FIGURES = ("samples", "seconds", "error_seconds", "percent")


def test_what_the_threshold_leaves_out_is_one_row():
    rows = list(
        csv.DictReader(
            io.StringIO(written(many_programs(3), "csv", "program", user_threshold_s=0.05))
        )
    )
    assert [row["function"] for row in rows] == ["shared", "REMAINDER"]
    assert [rows[1][f"program p{at} samples"] for at in range(3)] == ["1", "1", "1"]


def test_python_has_the_same_columns():
    found = Profile(**asdict(many_programs(3))).columns_table("program", detail="4")
    assert found["function"][0] == "shared"
    assert [int(found[f"program p{at} samples"][0]) for at in range(3)] == [30, 20, 10]
    by_event = Profile(**asdict(perf_profile())).columns_table("event", detail="4")
    assert "event" not in by_event
    text = Profile(**asdict(many_programs(2))).report(columns="image", detail="4")
    assert "by program" in text


def test_two_dimensions_are_refused_by_name():
    with pytest.raises(UsageError, match="cpu and thread are 2 dimensions"):
        known_dimension("cpu,tid")
    with pytest.raises(UsageError, match="--columns cpu,event: cpu and event are 2 dimensions"):
        parse(REPORT, ["--columns", "cpu,event"])
    with pytest.raises(UsageError, match="give one of event, cpu"):
        parse(REPORT, ["--columns", "colour"])
    with pytest.raises(UsageError, match="give one of event"):
        Profile(**asdict(many_programs(1))).columns_table("")
    assert parse(REPORT, ["--columns", "tid"])[0].columns == "thread"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--columns", "cpu", "--classic"], "--columns writes one table .* drop --classic"),
        (["--columns", "cpu", "--format", "svg"], "--columns: a table is text, json or csv"),
        (["--columns", "session"], "needs a store: add --store DIR"),
    ],
)
def test_what_a_table_cannot_be_is_refused(words, says):
    with pytest.raises(UsageError, match=says):
        parse(REPORT, words)


@pytest.mark.parametrize(
    ("dimension", "why"),
    [
        ("session", "needs a store"),
        ("cpu", "no single samples"),
        ("label", "^samples have no labels"),
    ],
)
def test_what_a_profile_does_not_say_is_refused(dimension, why):
    with pytest.raises(UsageError, match=why):
        written(many_programs(2), "json", dimension)


def test_entry_reasons_of_several_kinds_with_one_name_are_told_apart():
    build = ProfileBuilder()
    process = build.process("p", 100, is_descendant=True)
    function = build.function("work", build.object("[kernel]", KIND_KERNEL), 0)
    for kind, name, count in (
        (ENTRY_REASON_INTERRUPT, "(dispatch)", 1),
        (ENTRY_REASON_SOFTIRQ, "(dispatch)", 2),
        (ENTRY_REASON_SOFTIRQ, "timer", 4),
    ):
        build.hit(process, function, count, CPUMODE_KERNEL, entry_reason=(kind, name))
    profile = Profile(**asdict(build.build()))
    expected = {"interrupt (dispatch)": 1, "softirq (dispatch)": 2, "timer": 4}
    assert hits_of(profile, "reason") == {"work": expected}
    found = profile.columns_table("reason", detail="4")
    assert {name: found[f"reason {name} samples"].tolist() for name in expected} == {
        name: [count] for name, count in expected.items()
    }


@pytest.mark.parametrize("dimension", ["cpu", "process", "event"])
def test_a_recording_without_hits_has_no_rows(dimension):
    profile = Profile(**asdict(ProfileBuilder().build()))
    assert f"by {dimension}\n" in written(profile, "text", dimension)
    (table,) = tables(profile, dimension)
    assert (table["rows"], table["left_out"]["rows"]) == ([], 0)
    (head,) = csv.reader(io.StringIO(written(profile, "csv", dimension)))
    assert head[:2] == ["event", "function"]
    assert profile.columns_table(dimension, detail="4")["function"].tolist() == []


def test_a_command_without_hits_has_no_rows():
    build = ProfileBuilder()
    build.process("idle", 1, is_command=True)
    other = build.process("busy", 2)
    build.hit(other, build.function("work", build.object("/bin/busy"), 0), 5)
    profile = build.build()
    assert "No sample hit the process itself (-V 2)" in written(
        profile, "text", "program", detail="2"
    )
    (table,) = tables(profile, "program", detail="2")
    assert (table["classes"], table["rows"]) == ([], [])


def test_an_hour_needs_to_know_when():
    profile = stacks_profile()
    with pytest.raises(UsageError, match="does not say when"):
        written(replace(profile, run=replace(profile.run, started_at=0.0)), "json", "hour")
    began = 1_795_356_300.0
    profile = replace(profile, run=replace(profile.run, started_at=began))
    ((name, hits),) = hits_of(profile, "hour")["work"].items()
    assert name[:2] == "20"
    assert hits > 0


def test_other_formats_are_refused():
    with pytest.raises(UsageError, match="--columns makes a table of text, json or csv, no svg"):
        make_renderer("svg", columns="cpu")


def test_dimensions_are_what_the_option_completes():
    for dimension in COLUMN_DIMENSIONS:
        assert known_dimension(dimension) == dimension
