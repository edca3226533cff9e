"""Where nothing is chosen, a sentence says what there is and which option shows it."""

from __future__ import annotations

import io

import pytest

from builders.annotated import annotated_loop, code_table
from builders.profile import empty_profile
from builders.profile_builder import ProfileBuilder, run_info
from builders.stacks import stacks_profile
from prospect.estimate.annotate.annotation_view import annotation_view
from prospect.figures.calls.calls_view import CallsChoice, calls_view
from prospect.figures.calls.sample_choice import SampleChoice
from prospect.figures.function_choice import FunctionChoice
from prospect.figures.remarks import has_chosen, nothing_chosen
from prospect.profile.complete import complete
from prospect.records import replace
from prospect.render.text.text_report import TextRenderer


@pytest.fixture
def shell():
    """Return what a shell started and a stranger, the shell itself without a hit."""
    build = ProfileBuilder(run_info(command=("sh",)))
    work = build.function("work", build.object("/bin/work"), 0x1000)
    build.process("sh", 100, is_command=True)
    started = build.process("work", 101, is_descendant=True)
    stranger = build.process("other", 50)
    build.hit(started, work, 30)
    build.hit(stranger, work, 12)
    return complete(build.build())


def test_what_other_details_have_is_said(shell):
    assert not has_chosen(shell, "2")
    assert has_chosen(shell, "3")
    assert nothing_chosen(shell, "2") == (
        "No sample hit the command itself (-V 2); -V 3 (the command and its descendants) has 30 "
        "and -V 4 (every process) has 42."
    )


def test_a_report_says_it(shell):
    out = io.BytesIO()
    TextRenderer("2").render(shell, out)
    top = " ".join(out.getvalue().decode().split())
    assert "-V 3 (the command and its descendants) has 30" in top


def test_no_samples_at_all():
    assert "run longer" in nothing_chosen(complete(empty_profile()), "3")


def test_switches_alone_are_no_reason_to_run_longer():
    said = nothing_chosen(complete(empty_profile(events=())), "3")
    assert "become waits" in said
    assert "run longer" not in said


def test_filters_that_together_leave_nothing():
    profile = stacks_profile()
    choice = SampleChoice("4", process="work", function="default_idle")
    view = calls_view(profile, CallsChoice(choice))
    assert not view.events
    assert view.nothing.startswith(
        "No sample of -V 4 passes --process work --function default_idle: "
    )
    assert "do without --process work" in view.nothing
    assert "do without --function default_idle" in view.nothing


def test_thresholds_that_leave_nothing():
    choice = FunctionChoice(user_threshold_s=99.0, kernel_threshold_s=98.0)
    view = annotation_view(replace(annotated_loop(), code=code_table({})), choice)
    assert view.nothing.startswith("No function passes -m 99 and -k 98, all together have ")
