"""The page as a file: what is in it, and that nothing in it runs or leads elsewhere."""

import gzip
import hashlib
import json
import re
from base64 import b64decode, b64encode

import numpy as np
import pytest

from builders.annotated import annotated_loop
from builders.pages import report_of
from builders.profile import empty_profile, hostile_profile, perf_profile, qsort_profile
from builders.stacks import lined_stacks_profile, random_stacks_profile, stacks_profile
from prospect.records import replace
from prospect.render.html.diff_page import SCRIPTS as DIFF_SCRIPTS
from prospect.render.html.page import SCRIPTS
from prospect.render.html.whole_file import ColumnBlock, asset

PROFILES = {
    "stacks": stacks_profile,
    "lines": lined_stacks_profile,
    "qsort": qsort_profile,
    "perf": perf_profile,
    "hostile": hostile_profile,
    "empty": empty_profile,
}
every_case = pytest.mark.parametrize("case", PROFILES)
BLOCK = re.compile(r'<script type="application/gzip" id="data-(\w+)">([A-Za-z0-9+/=]*)</script>\n')


def rendered(profile, name="html", **options):
    return report_of(profile, name, **{"detail": "4", **options})


def blocks_of(page):
    return {name: gzip.decompress(b64decode(data)) for name, data in BLOCK.findall(page.decode())}


def columns_of(block):
    """Read a block of columns as the page does."""
    size = int.from_bytes(block[:4], "little")
    header = json.loads(block[4 : 4 + size])

    def filled(value):
        if not isinstance(value, dict):
            return [filled(part) for part in value] if isinstance(value, list) else value
        if set(value) != {"type", "at", "length"}:
            return {key: filled(part) for key, part in value.items()}
        return np.frombuffer(block, "<" + value["type"], value["length"], 4 + size + value["at"])

    return filled(header)


@every_case
def test_only_the_data_differs_between_pages(case):
    page = rendered(PROFILES[case]()).decode()
    empty = rendered(empty_profile()).decode()
    assert list(blocks_of(page.encode())) == ["report", "source", "stacks"]
    assert BLOCK.sub("", page) == BLOCK.sub("", empty)


def test_the_policy_runs_the_one_script_and_loads_nothing():
    page = rendered(hostile_profile()).decode()
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)

    def hashed(text):
        return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    assert dict(part.split(" ", 1) for part in policy.split("; ")) == {
        "default-src": "'none'",
        "script-src": hashed(script),
        "style-src": hashed(style),
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    markup = BLOCK.sub("", page).replace(script, "").replace(style, "")
    assert page.index("Content-Security-Policy") < page.index("<style>") < page.index("<script")
    assert not re.search(r"\b(src|href|style|on\w+)=", markup)
    assert not re.search(r"https?:|//[a-z]|url\(|@import", style)


def test_no_two_parts_of_a_script_declare_a_name():
    for scripts in (("embedded", *SCRIPTS), ("served", *SCRIPTS), DIFF_SCRIPTS):
        text = "".join(asset(f"{name}.js") for name in scripts)
        declared = re.findall(r"^(?:async )?(?:function|const|let|class) (\w+)", text, re.MULTILINE)
        assert len(declared) > 50
        assert [name for name in set(declared) if declared.count(name) > 1] == []


def test_the_script_has_no_way_to_make_markup_or_code_of_names():
    (script,) = re.findall(
        r"<script>(.*?)</script>", rendered(stacks_profile()).decode(), re.DOTALL
    )
    unsafe = r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function"
    assert not re.search(unsafe, script)
    assert not re.search(r"\bfetch\(|XMLHttpRequest|WebSocket|import\(|localStorage", script)


@every_case
def test_the_report_in_the_page_is_the_json_report(case):
    profile = PROFILES[case]()
    calls = ("totals",) if profile.stacks is not None else ()
    options = {"user_threshold_s": 0.01, "kernel_threshold_s": 0.0}
    page = rendered(profile, **options)
    assert blocks_of(page)["report"] == rendered(profile, "json", calls=calls, **options)


def test_the_stacks_in_the_page_have_every_sample():
    profile = random_stacks_profile(3000, 300, 12)
    block = columns_of(blocks_of(rendered(profile))["stacks"])
    (event,) = block["events"]
    assert event["cells"]["count"].sum() == 3000
    assert event["is_whole"]
    assert event["has_time"]
    node = event["cells"]["node_step"].cumsum()
    assert node.max() < len(event["depth"]) == len(event["frame"])
    assert event["cells"]["context"].max() < len(event["context"]["thread"])
    seconds = profile.hits.period.sum() * profile.run.events[0].seconds_per_period
    assert event["ns_each"] * 3000 / 1e9 == pytest.approx(seconds)
    assert block["first_thread_frame"] + len(block["comms"]) > event["frame"].max()


def test_an_event_without_time_is_counted_in_samples():
    profile = stacks_profile()
    event = replace(profile.run.events[0], seconds_per_period=0.0, seconds_per_hit=0.0)
    profile = replace(profile, run=replace(profile.run, events=(event,)))
    found = blocks_of(rendered(profile))
    assert not columns_of(found["stacks"])["events"][0]["has_time"]
    (calls,) = json.loads(found["report"])["calls"]
    assert {row["total_half_width_s"] for row in calls["functions"]} == {None}


def test_the_source_of_instructions_with_hits_is_in_the_page():
    source = json.loads(blocks_of(rendered(annotated_loop(), disassemble=1))["source"])
    (function,) = (one for one in source["functions"] if one["name"] == "work")
    assert function["address"] == 0x1000
    *instructions, between = function["instructions"]
    assert between is None  # one hit is at no instruction's first byte
    assert [fields[0] for fields in instructions] == [
        str(address) for address in (0x1002, 0x1005, 0x100A, 0x100D)
    ]
    # A jump leads to the first; behind the call it was the callee.
    assert [fields[3:5] for fields in instructions] == [[0, 0], [3, 0], [0, 0], [3, 0]]
    _, text, target, _, _, file, line, source_text = instructions[0]
    assert (text, target, source["files"][file], line) == ("imul   %edi,%eax", "", "/src/mix.h", 9)
    assert source_text == "    return x * y;"


def test_a_page_of_a_usual_run_is_small():
    assert len(rendered(random_stacks_profile(20_000, 2000, 30))) < 1_000_000


def test_columns_have_the_smallest_type_that_holds_them_and_stand_on_whole_words():
    columns = {
        "u1": np.array([0, 255]),
        "u2": np.array([65535, 1, 2]),
        "u4": np.array([2**32 - 1]),
        "f8": np.array([2**40]),
    }
    block = ColumnBlock()
    places = {name: block.add(column) for name, column in columns.items()}
    places["none"] = block.add(np.zeros(0, np.int64))
    assert {name: place["type"] for name, place in places.items()} == {
        **{name: name for name in columns},
        "none": "u1",
    }
    assert all(place["at"] % 8 == 0 for place in places.values())
    data = block.block({"columns": places, "é": 1})
    assert (4 + int.from_bytes(data[:4], "little")) % 8 == 0
    found = columns_of(data)
    assert {name: column.tolist() for name, column in found["columns"].items()} == {
        **{name: column.tolist() for name, column in columns.items()},
        "none": [],
    }
    assert found["é"] == 1
