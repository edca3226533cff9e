"""Annotations as text and JSON: golden files, and what must hold of each."""

import json
from functools import partial

import pytest

from builders.annotated import annotated_loop, code_table, hostile_code
from builders.profile_builder import ProfileBuilder
from prospect.estimate.annotate.annotation_view import annotation_view
from prospect.figures.function_choice import FunctionChoice
from prospect.profile.optional_tables import FLOW_BRANCH, FLOW_NEXT, NO_TARGET
from prospect.records import replace
from prospect.render.json.annotation_documents import annotation_json
from prospect.render.text.annotated_code import annotation_text


def rendered(annotation, profile, **choice):
    return b"".join(annotation(annotation_view(profile, FunctionChoice(**choice))))


in_whole = partial(annotation_text, whole=True)
in_colour = partial(annotation_text, colour=True)
in_boxes = partial(in_colour, boxes=True)


@pytest.mark.parametrize(
    ("name", "annotation", "profile", "options"),
    [
        ("loop.txt", annotation_text, annotated_loop, {}),
        ("loop_whole.txt", in_whole, annotated_loop, {}),
        ("loop_boxes.txt", in_boxes, annotated_loop, {}),
        ("loop_everyone.txt", annotation_text, annotated_loop, {"detail": "4"}),
        ("hostile_code.txt", annotation_text, hostile_code, {}),
        ("loop.json", annotation_json, annotated_loop, {}),
        ("hostile_code.json", annotation_json, hostile_code, {}),
    ],
)
def test_annotations_are_as_they_were_read(golden, name, annotation, profile, options):
    golden(f"annotation/{name}", rendered(annotation, profile(), **options))


def test_nothing_reaches_a_terminal_that_it_would_act_on():
    text = rendered(annotation_text, hostile_code()).decode()
    assert all(line.isprintable() for line in text.split("\n"))


def test_colours_change_nothing_but_colour():
    plain = rendered(annotation_text, annotated_loop()).decode()
    coloured = rendered(in_colour, annotated_loop()).decode()
    for code in ("\x1b[1m", "\x1b[2m", "\x1b[0m", "\x1b[33m"):
        coloured = coloured.replace(code, "")
    assert coloured == plain


def test_json_holds_what_the_view_holds():
    document = json.loads(rendered(annotation_json, annotated_loop()))
    assert document["schema"] == "prospect-annotate/2"
    (event,) = document["events"]
    work = event["functions"][0]
    assert work["samples"] == 100
    assert sum(row["samples"] for row in work["instructions"]) == 99
    assert sum(block["samples"] for block in work["blocks"]) == 99
    assert work["samples_between_instructions"] == 1
    assert work["likely_meant"] == "0x1002"
    assert work["instructions"][2]["target_name"] == "helper"
    assert work["instructions"][1]["frames"] == [
        {"function": "work", "file": "/src/a.c", "line": 5},
        {"function": "mix", "file": "/src/mix.h", "line": 9},
    ]


def test_instructions_far_from_hits_are_left_out_and_counted():
    build = ProfileBuilder()
    command = build.process("x", 1, is_command=True)
    row = build.function("long", build.object("/bin/x"), 0)
    build.hit(command, row, 1000, offset=50)
    rows = [(at, 1, f"nop{at}", FLOW_NEXT, NO_TARGET, "") for at in range(100)]
    profile = replace(build.build(), code=code_table({row: rows}))
    text = rendered(annotation_text, profile).decode()
    assert [at for at in range(100) if f"nop{at}\n" in text] == list(range(46, 55))
    assert "- Skip 46 instructions without a sample" in text
    assert "- Skip 45 instructions without a sample" in text
    whole = rendered(in_whole, profile).decode()
    assert all(f"nop{at}\n" in whole for at in range(100))
    assert "Skip" not in whole


def test_nothing_over_the_thresholds_says_so():
    profile = replace(annotated_loop(), code=code_table({}))
    assert b"give -m 0 -k 0, or name a function" in rendered(annotation_text, profile)


def test_a_long_listing_opens_at_its_hottest_block():
    build = ProfileBuilder()
    command = build.process("x", 1, is_command=True)
    row = build.function("long", build.object("/bin/x"), 0)
    for offset, count in ((10, 5), (30, 6), (50, 900), (70, 7)):
        build.hit(command, row, count, offset=offset)
    rows = [(at, 1, f"nop{at}", FLOW_NEXT, NO_TARGET, "") for at in range(100)]
    rows[44] = (44, 1, "jmp", FLOW_BRANCH, 99, "")
    rows[54] = (54, 1, "jmp", FLOW_BRANCH, 99, "")
    profile = replace(build.build(), code=code_table({row: rows}))
    text = rendered(annotation_text, profile).decode()
    opening, _, ordered = text.partition("The function in order of its addresses:\n")
    assert "The hottest block, 900 samples, 98%:\n...\n" in opening
    assert [at for at in range(100) if f"nop{at}\n" in opening] == list(range(45, 54))
    assert "nop10\n" in ordered
    assert "nop50\n" in ordered


def test_a_short_listing_has_no_opening():
    assert b"The hottest block" not in rendered(annotation_text, annotated_loop())
