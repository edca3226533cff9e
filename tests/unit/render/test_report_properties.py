"""What holds for every profile, whatever it is of."""

import csv
import io
import json
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from builders.examples import examples
from builders.pages import report_of
from builders.profile_builder import ProfileBuilder, clock_event, run_info
from prospect.profile.run_info import EventInfo

EVENTS = (
    clock_event(1000.0),
    EventInfo("cycles", 0.0, 0.00025, 4000.0),
    EventInfo("faults", 0.0, 0.0, 0.0),
)
HITS = st.lists(
    st.tuples(
        st.integers(-1, 4),
        st.integers(-1, 5),
        st.sampled_from([0, 1, 2, 3, 4, 5]),
        st.integers(0, 2),
        st.integers(1, 5000),
    ),
    max_size=40,
)
NAMES = st.text(max_size=70)


@st.composite
def profiles(draw):
    build = ProfileBuilder(run_info(events=EVENTS))
    for row in range(5):
        is_command = row in (1, 2) and draw(st.booleans())
        build.process(
            draw(NAMES),
            draw(st.sampled_from([0, 7, 8, 9])),
            parent_index=row - 1,
            birth=row % 3,
            is_command=is_command,
            is_descendant=is_command or draw(st.booleans()),
            is_kernel_thread=draw(st.booleans()),
        )
    places = [build.object(draw(NAMES)) for _ in range(2)]
    for row in range(6):
        build.function(
            draw(NAMES), places[row % 2], 64 * row, source=draw(st.sampled_from([0, 5, 34]))
        )
    for process, function, mode, event, count in draw(HITS):
        build.hit(process, function, count, mode, event=event, period=count * 1_000_000)
    return build.build()


def _rendered(profile, name, **options):
    return report_of(profile, name, **options)


def _document(profile, detail, threshold_s=0.0):
    return json.loads(
        _rendered(
            profile,
            "json",
            detail=detail,
            user_threshold_s=threshold_s,
            kernel_threshold_s=threshold_s,
        )
    )


MODES = ("user", "kernel", "other")


@settings(max_examples=examples(60))
@given(profiles(), st.sampled_from(["2", "3", "4", "k"]), st.sampled_from([0.0, 0.5, 3.0]))
def test_rows_and_what_is_skipped_add_up_to_the_totals(profile, detail, threshold_s):
    document = _document(profile, detail, threshold_s)
    assert sum(
        event["total"][mode]["samples"] for event in document["events"] for mode in MODES
    ) == int(profile.hits.count.sum())
    for event in document["events"]:
        for mode in MODES:
            rows = sum(process[mode]["samples"] for process in event["processes"])
            skipped = event["processes_skipped"][mode]["samples"]
            assert rows + skipped == event["total"][mode]["samples"]
        for process in event["details"]:
            for mode in MODES:
                table = process["functions"][mode]
                assert table["samples"] == process[mode]["samples"]
                rows = sum(row["samples"] for row in table["rows"])
                assert rows + table["skipped"]["samples"] == table["samples"]
        quality = event["symbol_quality"]
        assert sum(entry["samples"] for entry in quality["sources"]) == quality["samples"]


@settings(max_examples=examples(40))
@given(profiles())
def test_each_detail_shows_what_the_one_before_shows(profile):
    shown = []
    for detail in "234":
        rows = [
            (event["name"], process["process_index"])
            for event in _document(profile, detail)["events"]
            for process in event["details"]
        ]
        assert len(rows) == len(set(rows))
        shown.append(set(rows))
    assert shown[0] <= shown[1] <= shown[2]


@settings(max_examples=examples(40))
@given(profiles())
def test_accumulated_shares_rise_to_one(profile):
    for event in _document(profile, "4")["events"]:
        for process in event["details"]:
            for table in process["functions"].values():
                running = 0.0
                for row in table["rows"]:
                    running += row["share"]
                    assert abs(row["accumulated"] - running) < 1e-9
                assert not table["rows"] or abs(running - 1.0) < 1e-9


@settings(max_examples=examples(40))
@given(profiles())
def test_the_kernels_parts_sum_up_to_the_whole(profile):
    for event in _document(profile, "k")["events"]:
        whole, *parts = event["kernel_profiles"]
        assert sum(part["samples"] for part in parts) == whole["samples"]
        assert whole["samples"] == event["total"]["kernel"]["samples"]


@settings(max_examples=examples(40))
@given(profiles())
def test_csv_and_json_have_the_same_rows(profile):
    document = _document(profile, "4")
    expected = [
        (event["name"], process["name"], mode, row["samples"], row["name"] or "")
        for event in document["events"]
        for process in event["details"]
        for mode in MODES
        for row in process["functions"][mode]["rows"]
    ]
    nothing_cut = {"user_threshold_s": 0.0, "kernel_threshold_s": 0.0}
    raw = _rendered(profile, "csv", detail="4", **nothing_cut).decode("utf-8", "surrogateescape")
    got = [
        (row["event"], row["process"], row["mode"], int(row["samples"]), row["function"])
        for row in csv.DictReader(io.StringIO(raw, newline=""))
    ]
    assert got == expected


@settings(max_examples=examples(60))
@given(profiles(), st.sampled_from(["2", "3", "4", "k"]))
def test_text_is_printable_lines_and_nothing_wraps(profile, detail):
    report = _rendered(profile, "text", detail=detail).decode()
    assert all(char.isprintable() or char == "\n" for char in report)
    # A row of a table starts with its figures: no name begins a line of its own.
    tables = re.split(r"Function +Type", report)[1:]
    for table in tables:
        for line in table.splitlines()[1:]:
            if not line or line.startswith("-"):
                break
            assert line.lstrip()[0].isdigit()
