"""Counted system calls find their process by time; whatever else stands there does no harm."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from builders.profile_builder import ProfileBuilder
from prospect.abi.recorded_facts import RecordingInfo
from prospect.abi.syscall_names import NO_SUCH_CALL, NO_SUCH_NAME
from prospect.assembly.tables.hit_tables import describe_syscalls
from prospect.profile.model import BIRTH_EXEC, BIRTH_FORK

HUGE = 10**400
READ, WRITE, EXIT_GROUP = 0, 1, 231
DOCUMENT = {
    "images": {"pid": [10, 10, 11], "since_ns": [150, 450, 1000]},
    "counts": {
        "image": [0, 1, 1, 2],
        "number": [READ, READ, EXIT_GROUP, 3],
        "compat": [0, 0, 0, 1],
        "calls": [5, 7, 1, 2],
        "ended": [5, 6, 0, 2],
        "time_ns": [50, 60, 0, 20],
    },
    "dropped": 3,
    "cost_ns": 250.5,
}


@pytest.fixture
def processes():
    """Give a pid that is forked at 100, executes at 400 and is used again at 2000."""
    build = ProfileBuilder()
    build.process("old", 11, start_ns=0)
    build.process("sh", 10, start_ns=100, end_ns=400, birth=BIRTH_FORK)
    build.process("ls", 10, start_ns=400, end_ns=900, birth=BIRTH_EXEC, parent_index=1)
    build.process("new", 10, start_ns=2000, birth=BIRTH_FORK)
    return build.build().processes


def described(processes, document, arch="x86_64"):
    info = RecordingInfo(events=(), arch=arch, extras={"syscalls": document})
    return describe_syscalls(info, processes)


def rows_of(table):
    return [
        (process, table.names[name], compat, calls, unfinished, time_ns)
        for process, name, compat, calls, unfinished, time_ns in zip(
            table.process_index.tolist(),
            table.name_index.tolist(),
            table.is_compat.tolist(),
            table.calls.tolist(),
            table.unfinished.tolist(),
            table.time_ns.tolist(),
            strict=True,
        )
    ]


def test_a_program_is_found_by_pid_and_time(processes):
    table = described(processes, DOCUMENT)
    assert rows_of(table) == [
        (0, "read", True, 2, 0, 20),
        (1, "read", False, 5, 0, 50),
        (2, "exit_group", False, 1, 1, 0),
        (2, "read", False, 7, 1, 60),
    ]
    assert (table.dropped, table.cost_ns, len(table)) == (3, 250.5, 4)


@pytest.mark.parametrize(
    ("pid", "since_ns", "row"),
    [
        (10, 99, 1),  # a record came late: the first life of the pid
        (10, 100, 1),
        (10, 399, 1),
        (10, 400, 2),
        (10, 1500, 2),  # between two lives: the one that was
        (10, 2000, 3),
        (10, (1 << 63) - 1, 3),
        (11, 0, 0),
        (12, 500, -1),
        (-1, 0, -1),
    ],
)
def test_the_last_life_that_had_begun_made_the_calls(processes, pid, since_ns, row):
    document = copy.deepcopy(DOCUMENT)
    document["images"] = {"pid": [pid] * 3, "since_ns": [since_ns] * 3}
    assert set(described(processes, document).process_index.tolist()) == {row}


def test_threads_of_one_program_that_were_met_apart_are_one_row(processes):
    document = copy.deepcopy(DOCUMENT)
    document["images"] = {"pid": [10] * 3, "since_ns": [150, 160, 170]}
    document["counts"]["compat"] = [0] * 4
    assert rows_of(described(processes, document))[2] == (1, "read", False, 12, 1, 110)


def test_calls_without_a_name_keep_their_number(processes):
    document = copy.deepcopy(DOCUMENT)
    document["counts"]["number"] = [400, NO_SUCH_CALL, 400, NO_SUCH_CALL]
    document["counts"]["compat"] = [0, 0, 0, 1]
    assert described(processes, document).names == [NO_SUCH_NAME, "syscall_400"]
    assert "syscall_0" in described(processes, DOCUMENT, arch="riscv64").names


def test_other_architectures_have_their_own_numbers(processes):
    names = described(processes, DOCUMENT, arch="aarch64").names
    assert names == ["io_setup", "munlockall", "read"]


def test_without_counts_there_is_no_table(processes):
    assert describe_syscalls(RecordingInfo(events=(), extras={}), processes) is None
    assert described(processes, {"images": {}, "counts": {}}) is None


VALUES = (
    *(None, True, -1, 0.5, HUGE, float("nan"), "x", {}, [], [None], [HUGE], [1 << 62] * 4),
    *([-1] * 4, [1 << 40] * 4, ["1"] * 4, [float("nan")] * 4, [[1]] * 4, [1] * 3, [1] * 5),
    *([3] * 4, [70_000] * 4, {"0": 1}),
)


@pytest.mark.parametrize("place", [*DOCUMENT, *(("counts", key) for key in DOCUMENT["counts"])])
def test_no_value_anywhere_does_harm(processes, place):
    for value in VALUES:
        document = copy.deepcopy(DOCUMENT)
        outer, key = (document, place) if isinstance(place, str) else (document["counts"], place[1])
        outer[key] = value
        table = described(processes, document)
        if table is not None:
            assert table.process_index.max() < len(processes)
            assert table.name_index.max() < len(table.names)
            for column in (table.calls, table.unfinished, table.time_ns):
                assert column.min() >= 0
            assert (table.unfinished <= table.calls).all()
            assert table.dropped >= 0
            assert np.isfinite(table.cost_ns)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("image", [0, 1, 1, 3]),
        ("image", [0, 1, 1, -1]),
        ("number", [0, 0, 0, 65536]),
        ("calls", [1 << 61] * 4),
        ("ended", [1, 1, 1]),
    ],
)
def test_counts_that_no_recorder_writes_are_none(processes, key, value):
    document = copy.deepcopy(DOCUMENT)
    document["counts"][key] = value
    assert described(processes, document) is None


def test_pids_that_cannot_be_are_none(processes):
    for pids in ([1 << 40] * 3, ["1"] * 3, [1, 2]):
        document = copy.deepcopy(DOCUMENT)
        document["images"]["pid"] = pids
        assert described(processes, document) is None
