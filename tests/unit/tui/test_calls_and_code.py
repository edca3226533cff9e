"""What Enter on a function leads to: the trees of `prospect calls`, the lines of `annotate`."""

from __future__ import annotations

import numpy as np
import pytest

from builders.live import state_of
from builders.profile import interrupted_profile
from builders.stacks import stacks_profile
from prospect.disasm.kernel_code import LiveKernel
from prospect.estimate.errors.call_estimates import estimate_calls
from prospect.figures.calls.calls_view import CallsChoice, calls_view
from prospect.figures.calls.sample_choice import SampleChoice
from prospect.profile.optional_tables import NO_TARGET, CodeTable
from prospect.records import replace
from prospect.tui import table_pages
from prospect.tui.figures import live_figures
from prospect.tui.pictures import NO_STACKS, calls_page
from prospect.tui.rows import CALLEES, CALLERS, FUNCTIONS, Place
from prospect.tui.table_pages import CodeMemory, View, table_page


def function_row(figures, name):
    rows = table_page(figures, Place(FUNCTIONS), View()).rows
    return next(row for row in rows if row.name == name)


def tree_of(figures, name, page):
    target = function_row(figures, name).target
    return calls_page(figures, replace(target, page=page), target.function)


def indented(page):
    return [f"{row.hits} {row.lead}{row.name}" for row in page.rows]


@pytest.fixture
def figures():
    return live_figures(state_of(stacks_profile()))


def test_callers_stand_below_the_function_that_was_hit(figures):
    page = tree_of(figures, "vfs_read", CALLERS)
    assert indented(page) == ["6 vfs_read", "6 ← do_syscall_64", "6 ← read", "6 ← main"]


def test_a_function_whose_callers_are_not_known_says_what_would_tell(figures):
    profile = figures.profile
    stacks = replace(
        profile.stacks,
        caller_index=np.full(len(profile.stacks), -1, np.int32),
        depth=np.zeros(len(profile.stacks), np.int32),
    )
    alone = live_figures(state_of(replace(profile, stacks=stacks)))
    assert "--call-graph auto" in tree_of(alone, "vfs_read", CALLERS).note
    assert "Most of its callers are unknown" in tree_of(alone, "vfs_read", CALLERS).note
    assert "frame pointers" in tree_of(figures, "vfs_read", CALLERS).note


def test_a_function_that_calls_nothing_has_a_page_that_says_so(figures):
    page = tree_of(figures, "vfs_read", CALLEES)
    assert indented(page) == ["6 vfs_read"]
    assert page.note == "No sample was taken in anything that it calls."
    assert tree_of(figures, "work", CALLEES).note == ""


def test_callees_stand_below_the_function_and_lines_are_drawn_where_ways_part(figures):
    page = tree_of(figures, "work", CALLEES)
    assert indented(page) == ["10 work", "2 → a;b <c>&\"' 1"]
    main = replace(function_row(figures, "work").target, page=CALLEES)
    named = next(row for row in tree_of(figures, "work", CALLERS).rows if row.name == "main")
    page = calls_page(figures, main, named.target.function)
    assert indented(page) == [
        "21 main",
        "10 ├→ work",
        "2 │ → a;b <c>&\"' 1",
        "6 ├→ read",
        "6 │ → do_syscall_64",
        "6 │ → vfs_read",
        "4 ├→ jitted",
        "1 └→ [libc.so.6]",
    ]


def test_times_and_error_bars_of_callers_are_those_of_prospect_calls(figures):
    choice = CallsChoice(SampleChoice("4"), ("callers",), share=0.0)
    view = calls_view(stacks_profile(), choice)
    (event,), (estimates,) = view.events, estimate_calls(view)
    tree = event.callers
    labels = [tree.labels[frame] for frame in tree.frame.tolist()]
    first = labels.index("vfs_read")
    assert tree.parent[first] == -1
    page = tree_of(figures, "vfs_read", CALLERS)
    for at, row in enumerate(page.rows):
        assert row.name == labels[first + at]
        assert row.seconds == pytest.approx(tree.total_s[first + at], rel=1e-12)
        assert row.half_width_s == pytest.approx(estimates.callers_s[first + at], rel=1e-12)


def test_enter_on_a_caller_leads_to_its_own_callers(figures):
    caller = tree_of(figures, "vfs_read", CALLERS).rows[2]
    assert caller.target.function.name == "read"
    assert caller.target.page == CALLERS


def test_without_stacks_it_says_what_would_record_them():
    figures = live_figures(state_of(interrupted_profile()))
    assert tree_of(figures, "main", CALLERS).note == NO_STACKS


def two_instructions(profile, function, **_options):
    start = int(profile.functions.address[function])
    return CodeTable(
        function_index=np.array([function], np.int32),
        start=np.array([0, 2]),
        reason=[""],
        address=np.array([start, start + 4], np.uint64),
        size_bytes=np.array([4, 4], np.uint8),
        text=["nop", "ret"],
        flow=np.zeros(2, np.uint8),
        target=np.full(2, NO_TARGET, np.uint64),
        target_name=["", ""],
    )


@pytest.fixture
def asked(monkeypatch):
    """Let every function have two instructions; give what was asked for."""
    words_of_each = []
    monkeypatch.setattr(
        table_pages,
        "function_code",
        lambda *words, **options: (
            words_of_each.append(words) or two_instructions(*words, **options)
        ),
    )
    return words_of_each


def test_instructions_have_the_hits_of_the_moment_and_are_read_once(figures, asked):
    code = CodeMemory()
    named = function_row(figures, "vfs_read").target.function
    page = code.page(figures, named)
    (hit,) = [row for row in page.rows if "ret" in row.name and "<+4>" in row.name]
    assert hit.name.split()[0] == "6"
    assert page.title.split()[0] == "Samples"
    assert page.rows[page.opens_at] is hit
    assert [row.paint for row in page.rows if row.paint] == [hit.paint]
    assert len({row.key for row in page.rows}) == len(page.rows)
    code.page(figures, named)
    assert len(asked) == 1


def test_a_program_that_is_built_anew_has_other_instructions(figures, asked):
    code = CodeMemory()
    named = function_row(figures, "vfs_read").target.function
    before = [row.name for row in code.page(figures, named).rows]
    objects = figures.profile.objects
    anew = replace(objects, build_id=["ab" * 20] * len(objects))
    rebuilt = live_figures(state_of(replace(figures.profile, objects=anew)))
    assert [row.name for row in code.page(rebuilt, named).rows] == before
    code.page(figures, named)
    assert len(asked) == 2


def test_a_function_without_code_says_why(figures):
    page = CodeMemory(use_cache=False).page(
        figures, function_row(figures, "jitted").target.function
    )
    assert page.rows == ()
    assert page.note.startswith("No instructions: ")


@pytest.mark.parametrize(
    ("reason", "more"),
    [
        (LiveKernel.open("/nowhere"), " to prospect annotate, of the recording that s saves"),
        ("this is no code", ""),
    ],
)
def test_an_option_that_would_help_is_said_to_be_of_another_command(
    figures, monkeypatch, reason, more
):
    def function_code(profile, function, **_options):
        return replace(two_instructions(profile, function), reason=[reason])

    monkeypatch.setattr(table_pages, "function_code", function_code)
    named = function_row(figures, "vfs_read").target.function
    assert CodeMemory().page(figures, named).note == f"No instructions: {reason}{more}."
