"""What reports say of callers that are not known, and of those that were not asked for."""

import numpy as np
import pytest

from builders.profile_builder import ProfileBuilder, run_info
from builders.stacks import stack_copies, with_stacks
from prospect.figures.calls.calls_view import CallsChoice, calls_view
from prospect.figures.calls.sample_choice import SampleChoice
from prospect.figures.remarks import run_notes
from prospect.profile.run_info import EventInfo
from prospect.records import replace


def profile_of(paths, **facts):
    build = ProfileBuilder(run_info(command=("x",), begin_ns=1))
    process = build.process("p", 10, is_command=True)
    image = build.object("/bin/x")
    rows = [build.function(f"f{row}", image, 0x1000 * (row + 1)) for row in range(3)]
    profile = with_stacks(build, [(process, [rows[f] for f in path]) for path in paths])
    return replace(profile, run=replace(profile.run, **facts))


def remedy_of(profile):
    (event,) = calls_view(profile, CallsChoice(SampleChoice("4"))).events
    return event.remedy


@pytest.mark.parametrize(
    ("paths", "recorded", "expected"),
    [
        ([[0], [1], [0, 1]], True, "Their code keeps no frame pointers: record"),
        ([[0], [1], [0, 1]], False, "They were not recorded: record"),
        ([[0], [0, 2], [0, 1]], True, ""),
        # some assembly of Go, in a program that keeps them else
        ([[0]] * 12 + [[0, 1]] * 100, True, "Their code keeps no frame pointers: record"),
        ([[0]] * 12 + [[0, 1]] * 100, False, ""),
        ([[0]] * 12 + [[0, 1]] * 300, True, ""),
    ],
)
def test_the_remedy_is_named_if_a_good_part_of_hits_has_no_caller(paths, recorded, expected):
    remedy = remedy_of(profile_of(paths, has_user_callers=recorded))
    assert remedy.startswith(expected)
    assert bool(remedy) is bool(expected)


def test_no_remedy_beside_copies_of_stacks():
    profile = profile_of([[0], [1]], has_user_callers=True)
    assert remedy_of(profile)
    copies = stack_copies([1], ["complete"])
    assert not remedy_of(replace(profile, stack_copies=copies))
    assert remedy_of(replace(profile, stack_copies=replace(copies, only_of_waits=True)))


@pytest.mark.parametrize(
    ("ends", "path", "is_named"),
    [
        (["no row", "no row", "complete"], "/bin/x", True),
        (["no row", "complete", "complete"], "/bin/x", False),
        (["cut", "cut", "cut"], "/bin/x", False),
        # Code that a runtime compiled.
        (["no row", "no row", "complete"], "", False),
    ],
)
def test_copies_that_end_in_code_without_call_frame_information_have_a_remedy(ends, path, is_named):
    place = [-1 if end == "complete" else 0 for end in ends]
    copies = stack_copies([10] * 3, ends, paths=(path,), place=np.array(place, np.int32))
    profile = replace(profile_of([[0], [0], [0, 1]], has_user_callers=True), stack_copies=copies)
    remedy = remedy_of(profile)
    assert remedy.startswith("Their code has no call-frame information: compile it") is is_named
    assert bool(remedy) is is_named


def test_a_report_without_stacks_says_that_there_are_some():
    profile = profile_of([[0]], has_user_callers=True)
    hint = "The recording has call stacks: prospect calls shows callers and callees."
    assert hint in run_notes(replace(profile, stacks=None), (), asked="2", shown="2")
    assert hint not in run_notes(profile, (), asked="2", shown="2")


def test_many_events_that_are_no_time_are_one_note():
    profile = profile_of([[0]])
    events = [EventInfo(f"sched:e{number}", 0.0, 0.0, 0.0) for number in range(36)]
    timed = EventInfo("cpu-clock", 1e-9, 0.0, 0.0)
    (note,) = run_notes(profile, [timed, *events], asked="2", shown="2")
    assert note.startswith(
        "Samples of 36 events (sched:e0, sched:e1, sched:e2 and 33 more) do not measure time:"
    )
    (note,) = run_notes(profile, [timed, events[0]], asked="2", shown="2")
    assert note.startswith("Samples of the event sched:e0 do not measure time:")
