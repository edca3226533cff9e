"""The critical path of a recording, with the names of its threads."""

import numpy as np
import pytest

from builders.sources import CLOCK, BuiltSource
from builders.switches import (
    BEGIN,
    END,
    RECORDS,
    SWITCH,
    WAKING,
    gets,
    leaves,
    switched_profile,
    wakes,
)
from prospect.abi.recorded_facts import RecordingInfo
from prospect.analysis.pipeline import build_profile
from prospect.analysis.profile_request import ProfileRequest
from prospect.options import NamingOptions
from prospect.profile.model import PATH_BLOCKED, PATH_RAN, PATH_STATES, PATH_WAITED

IN_INTERRUPT = 0x08
COMMAND = [
    RECORDS.comm(5, 5, "shell", is_exec=True, time=2_000),
    gets(1_500, 5),
    # A child, which goes on as another program.
    RECORDS.fork(6, 5, 6, 5, time=10_000),
    leaves(20_000, 5),
    gets(22_000, 6),
    RECORDS.comm(6, 6, "child", is_exec=True, time=30_000),
    leaves(40_000, 6),
    wakes(50_000, 6, 0, flags=IN_INTERRUPT),
    gets(52_000, 6),
    wakes(60_000, 5, 6),
    RECORDS.exit(6, 5, 6, 5, time=60_500),
    leaves(61_000, 6),
    gets(62_000, 5),
    RECORDS.exit(5, 1, 5, 1, time=80_000),
]


def path_of(records, **extras):
    extras = {"interval_ns": [BEGIN, END], "command_pid": 5} | extras
    info = RecordingInfo(events=(CLOCK, SWITCH, WAKING), extras=extras)
    naming = NamingOptions(use_cache=False, debuginfod_s=0)
    return build_profile(BuiltSource(list(records), info), naming, ProfileRequest()).wall


@pytest.fixture(scope="module")
def path():
    return path_of(COMMAND)


def test_it_lasts_from_the_first_exec_to_the_exit(path):
    assert path.begin_ns[0] == 2_000
    assert int(path.length_ns.sum()) == 78_000


def test_each_piece_has_the_program_of_its_time(path):
    names = [path.names[row] for row in path.name_index.tolist()]
    found = list(zip(path.state.tolist(), path.tid.tolist(), names, strict=True))
    assert found == [
        (PATH_RAN, 5, "shell"),
        (PATH_WAITED, 6, "shell"),
        (PATH_RAN, 6, "shell"),
        (PATH_RAN, 6, "child"),
        (PATH_BLOCKED, 6, "child"),
        (PATH_WAITED, 6, "child"),
        (PATH_RAN, 6, "child"),
        (PATH_WAITED, 5, "shell"),
        (PATH_RAN, 5, "shell"),
    ]
    assert path.begin_ns.tolist()[2:5] == [22_000, 30_000, 40_001]
    assert path.ended_by.tolist()[4] == 0


def test_who_had_the_cpu_is_named(path):
    had = path.takers
    names = [path.names[row] for row in had.name_index.tolist()]
    # The child waited while its parent still had the CPU, which then woke up.
    of_first = [
        (name, int(ns))
        for piece, name, ns in zip(had.piece.tolist(), names, had.length_ns.tolist(), strict=True)
        if piece == 1
    ]
    assert of_first == [("shell", 10_001), ("", 1_999)]
    assert had.process_index[had.tid == 0].tolist() == [-1] * int((had.tid == 0).sum())


MS = 1_000_000


def ended_by_exits(records):
    """The states and threads of a path, from a recording without wake-ups."""
    extras = {"interval_ns": [0, 1000 * MS], "command_pid": 5}
    info = RecordingInfo(events=(CLOCK, SWITCH), extras=extras)
    naming = NamingOptions(use_cache=False, debuginfod_s=0)
    found = build_profile(BuiltSource(list(records), info), naming, ProfileRequest()).wall
    states = [PATH_STATES[one] for one in found.state.tolist()]
    return list(zip(states, found.tid.tolist(), (found.length_ns // MS).tolist(), strict=True))


def waiting_for_a_child(delay_ms):
    """A shell whose child ends at 60 ms, and which has a CPU later."""
    return [
        RECORDS.comm(5, 5, "shell", is_exec=True, time=2 * MS),
        gets(1 * MS, 5),
        RECORDS.fork(6, 5, 6, 5, time=10 * MS),
        leaves(20 * MS, 5),
        gets(20 * MS + 1, 6),
        RECORDS.exit(6, 5, 6, 5, time=60 * MS),
        leaves(60 * MS + 1, 6),
        gets((60 + delay_ms) * MS, 5),
        RECORDS.exit(5, 1, 5, 1, time=200 * MS),
    ]


def test_without_wake_ups_a_wait_ends_with_the_exit_of_a_child():
    assert ended_by_exits(waiting_for_a_child(9)) == [
        ("running", 5, 8),
        ("waiting for a CPU", 6, 10),
        ("running", 6, 39),
        ("waiting for a CPU", 5, 9),
        ("running", 5, 131),
    ]


def test_an_exit_long_before_ends_no_wait_unless_preempted_threads_waited_as_long():
    late = waiting_for_a_child(30)
    assert ended_by_exits(late)[1:3] == [("blocked", 5, 69), ("running", 5, 110)]
    busy = [leaves(70 * MS, 7, preempted=True), gets(86 * MS, 7)]
    assert ended_by_exits([*late[:-2], *busy, *late[-2:]])[2] == ("running", 6, 39)


def test_a_child_without_a_record_of_its_exit_ended_as_it_left_its_last_cpu():
    without = waiting_for_a_child(9)
    del without[5]
    found, with_exit = ended_by_exits(without), ended_by_exits(waiting_for_a_child(9))
    assert [one[:2] for one in found] == [one[:2] for one in with_exit]


def test_a_parent_may_go_on_shortly_before_the_exit_is_recorded():
    early = waiting_for_a_child(0)
    early[5] = RECORDS.exit(6, 5, 6, 5, time=60 * MS + 40_000)
    early[6] = leaves(60 * MS + 50_000, 6)
    assert ended_by_exits(early)[2:] == [("running", 6, 39), ("running", 5, 140)]


@pytest.mark.parametrize(
    "extras",
    [{"command_pid": 7}, {"attached_pids": [5]}, {"command_pid": 1 << 70}, {"command_pid": "5"}],
)
def test_there_is_none_without_a_command(extras):
    assert path_of(COMMAND, **extras) is None


def test_there_is_none_without_switches_or_for_other_tasks():
    assert path_of([RECORDS.comm(5, 5, "shell", is_exec=True, time=2_000)]) is None
    assert switched_profile(CLOCK, SWITCH).wall is None


def test_a_command_that_did_not_end_is_followed_from_the_end_of_the_recording():
    found = path_of(COMMAND[:-1])
    assert int(found.begin_ns[-1] + found.length_ns[-1].astype(np.uint64)) == END
    assert PATH_STATES[found.state[-1]] == "running"
