"""Calls as text and JSON: golden files, and what must hold of each."""

import io
import json
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from builders.pages import report_of
from builders.profile import qsort_profile
from builders.stacks import stacks_profile
from prospect.errors import UsageError
from prospect.estimate.errors.call_estimates import estimate_calls
from prospect.figures.calls.calls_view import SECTIONS, CallsChoice, calls_view
from prospect.figures.calls.sample_choice import SampleChoice
from prospect.render.json.calls_document import calls_json
from prospect.render.json.report_document import JsonRenderer
from prospect.render.text.call_sections import calls_text
from prospect.render.text.text_report import TextRenderer

TESTS = Path(__file__).parents[2]
PAGE = (TESTS.parent / "docs" / "calls.md").read_text()
GOLDEN = TESTS / "golden" / "calls"
EVERYTHING = CallsChoice(SampleChoice("4"), SECTIONS)


def rendered(calls, choice, **profile):
    view = calls_view(stacks_profile(**profile), choice)
    return b"".join(calls(view, estimate_calls(view)))


@pytest.mark.parametrize(
    ("name", "calls", "choice", "options"),
    [
        ("everything.txt", calls_text, EVERYTHING, {}),
        ("command.txt", calls_text, CallsChoice(), {}),
        ("inlined.txt", calls_text, CallsChoice(), {"lines": True}),
        ("callers_of.txt", calls_text, CallsChoice(sections=(), callers_of="work"), {}),
        ("nothing.txt", calls_text, CallsChoice(SampleChoice("4", cpus=(7,))), {}),
        ("everything.json", calls_json, EVERYTHING, {}),
    ],
)
def test_calls_are_as_they_were_read(golden, name, calls, choice, options):
    golden(f"calls/{name}", rendered(calls, choice, **options))


def test_the_tree_that_was_asked_for_comes_first():
    text = rendered(calls_text, CallsChoice(sections=SECTIONS, callers_of="work")).decode()
    assert text.index("Callers of work") < text.index("Functions by Total Time")
    assert text.count("(bottom-up)") == 1


def test_callers_of_an_inlined_function():
    choice = CallsChoice(SampleChoice("3"), (), "inlined")
    text = rendered(calls_text, choice, lines=True).decode()
    assert "Callers of inlined" in text
    assert "inlined<int>\n" in text
    with pytest.raises(UsageError, match="no function with samples is called 'inlined'"):
        rendered(calls_text, choice)


def test_a_function_without_samples_is_answered_in_words():
    choice = CallsChoice(SampleChoice("3"), (), "default_idle")
    text = rendered(calls_text, choice).decode()
    assert "- No sample has 'default_idle' on its stack; --inline finds inlined ones." in text
    assert "Rows of less" not in text


def test_colours_change_nothing_but_colour():
    plain = rendered(calls_text, EVERYTHING).decode()
    coloured = rendered(partial(calls_text, colour=True), EVERYTHING).decode()
    assert coloured != plain
    for code in ("\x1b[1m", "\x1b[2m", "\x1b[0m"):
        coloured = coloured.replace(code, "")
    assert coloured == plain


def test_json_has_the_figures_of_the_view():
    document = json.loads(rendered(calls_json, EVERYTHING))
    assert document["schema"] == "prospect-calls/1"
    (event,) = document["events"]
    assert event["samples"] == 30
    by_name = {row["name"]: row for row in event["functions"]}
    assert (by_name["main"]["total_samples"], by_name["main"]["self_samples"]) == (21, 0)
    # Three of its calls in a row are one: 5 + 3 + 2 of 30 samples have it on their stack.
    assert (by_name["work"]["total_samples"], by_name["work"]["self_samples"]) == (10, 8)
    assert sum(row["samples"] for row in event["callees"] if row["parent"] < 0) == 30
    arcs = {(row["caller"], row["callee"]): row["samples"] for row in event["arcs"]}
    assert arcs["main", "work"] == 10
    assert arcs["read", "do_syscall_64"] == 6


def test_error_bars_of_totals_hold_what_they_call():
    view = calls_view(stacks_profile(), EVERYTHING)
    (event,), (known,) = view.events, estimate_calls(view)
    assert len(known.total_s) == len(event.hottest)
    assert (known.total_s > 0).all()
    assert np.isfinite(known.callees_s).all()
    assert len(known.callers_s) == len(event.callers)


@pytest.mark.parametrize("excerpt", re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL))
def test_an_excerpt_is_what_the_program_writes(excerpt):
    assert excerpt in (GOLDEN / "everything.txt").read_text()


def test_a_report_shows_calls_before_what_it_rests_on():
    text, document = io.BytesIO(), io.BytesIO()
    TextRenderer("4", calls=("totals",)).render(stacks_profile(), text)
    JsonRenderer("4", calls=("totals", "graph")).render(stacks_profile(), document)
    calls = rendered(calls_text, CallsChoice(SampleChoice("4"), ("totals",)))
    before, found, behind = text.getvalue().partition(calls)
    assert found
    assert (b"Details of Processes" in before, b"Statistics of Run" in behind) == (True, True)
    (calls,) = json.loads(document.getvalue())["calls"]
    assert {row["name"] for row in calls["functions"]} >= {"main", "work"}
    assert calls["arcs"]


def test_a_report_without_stacks_says_so():
    text = report_of(qsort_profile(), "text", calls=("totals",)).decode()
    assert "no sample has a call chain" in text


@pytest.mark.parametrize(("entry_reason", "hits"), [("read", 6), ("system call", 6), ("idle", 9)])
def test_entry_reasons_choose_samples(entry_reason, hits):
    view = calls_view(stacks_profile(), CallsChoice(SampleChoice("4", entry_reason=entry_reason)))
    assert view.events[0].graph.hits == hits


def test_an_entry_reason_that_nothing_has_is_refused_in_words():
    with pytest.raises(UsageError, match="no entry reason"):
        calls_view(stacks_profile(), CallsChoice(SampleChoice("4", entry_reason="write")))
