"""The process table: what records say, what the snapshot adds, who is COMMAND."""

from __future__ import annotations

from builders.sideband import EventLog
from prospect.abi.recorded_facts import RecordingInfo
from prospect.assembly.tables.process_table import describe_processes
from prospect.spaces.process_history import build_spaces


def processes_of(log, **extras):
    return describe_processes(build_spaces(log.events()), RecordingInfo(extras=extras))


def launched():
    """The recorder, 5, forks COMMAND, 6, which forks a child that executes; then 6 is reused."""
    log = EventLog()
    log.comm(0, 5, b"recorder")
    log.fork(10, 5, 6)
    log.exec(11, 6, b"command")
    log.fork(12, 6, 7)
    log.exec(13, 7, b"child")
    log.exit(14, 7)
    log.exit(15, 6)
    log.fork(20, 5, 6)
    return log


def test_the_command_begins_with_its_exec_and_its_pid_is_not_its_name():
    table = processes_of(launched(), command_pid=6, recorder_pids=[5, 6])
    rows = list(zip(table.pid.tolist(), table.name, strict=True))
    assert rows == [(5, "recorder"), (6, "recorder"), (6, "command"), (7, "command"),
                    (7, "child"), (6, "recorder")]  # fmt: skip
    assert table.is_command.tolist() == [False, False, True, False, False, False]
    assert table.is_descendant.tolist() == [False, False, True, True, True, False]
    assert table.is_recorder.tolist() == [True, True, False, False, False, True]


def test_facts_of_the_snapshot_pass_through_exec_and_fork_but_not_to_a_later_life():
    log = launched()
    table = processes_of(log, processes={"5": [1, 4, 3, 0], "6": [5, 6, 3, 0]})
    assert table.group_pid.tolist() == [4, 6, 6, 6, 6, 4]
    assert table.session_pid.tolist() == [3, 3, 3, 3, 3, 3]
    assert table.parent_pid.tolist() == [1, 5, 5, 6, 6, 5]


def test_groups_go_down_a_chain_of_forks_as_far_as_the_first_is_known():
    log = EventLog()
    log.comm(0, 5, b"shell")
    log.fork(10, 5, 6)
    log.fork(11, 6, 7)
    log.exec(12, 7, b"grandchild")
    log.comm(0, 8, b"stranger")
    log.fork(13, 8, 9)
    table = processes_of(log, processes={"5": [1, 40, 30, 0]})
    found = dict(zip(zip(table.pid.tolist(), table.name, strict=True),
                     zip(table.group_pid.tolist(), table.session_pid.tolist(), strict=True),
                     strict=True))  # fmt: skip
    assert found == {
        (5, "shell"): (40, 30),
        (6, "shell"): (40, 30),
        (7, "shell"): (40, 30),
        (7, "grandchild"): (40, 30),
        (8, "stranger"): (-1, -1),
        (9, "stranger"): (-1, -1),
    }


def test_a_parent_may_have_its_row_behind_its_children():
    log = EventLog()
    log.fork(0, 40, 30)
    log.comm(0, 30, b"child")
    log.comm(0, 40, b"parent")
    table = processes_of(log, processes={"40": [1, 41, 42, 0]})
    assert table.pid.tolist() == [30, 40]
    assert table.parent_index.tolist() == [1, -1]
    assert table.parent_pid.tolist() == [40, 1]
    assert table.group_pid.tolist() == [-1, 41]


def test_children_of_kthreadd_are_kernel_threads_until_they_execute():
    log = EventLog()
    log.comm(0, 2, b"kthreadd")
    log.fork(10, 2, 30)
    log.exec(11, 30, b"modprobe")
    log.comm(0, 40, b"kworker")
    log.comm(0, 41, b"user")
    table = processes_of(log, processes={"40": [2, 0, 0, 1], "41": [1, 41, 41, 0]})
    kernel = dict(zip(zip(table.pid.tolist(), table.name, strict=True), table.is_kernel_thread,
                      strict=True))  # fmt: skip
    assert kernel == {
        (2, "kthreadd"): True,
        (30, "kthreadd"): True,
        (30, "modprobe"): False,
        (40, "kworker"): True,
        (41, "user"): False,
    }


def attached_to():
    """Process 5, which runs already, executes another program; its child ends, and so does it."""
    log = EventLog()
    log.comm(0, 5, b"server")
    log.fork(0, 4, 6)
    log.comm(0, 6, b"other")
    log.fork(10, 5, 7)
    log.exec(11, 5, b"newer")
    log.fork(12, 7, 8)
    log.exit(13, 5)
    log.fork(14, 6, 5)
    return log


def test_what_was_attached_to_takes_the_part_of_the_command():
    extras = {"command": ["sleep", "9"], "command_pid": 8, "recorder_pids": [7]}
    table = processes_of(attached_to(), attached_pids=[5], **extras)
    known = {
        (pid, name, command, descendant)
        for pid, name, command, descendant in zip(
            table.pid.tolist(),
            table.name,
            table.is_command.tolist(),
            table.is_descendant.tolist(),
            strict=True,
        )
    }
    assert known >= {
        (5, "server", True, True),
        (5, "newer", True, True),  # it goes on
        (5, "other", False, False),  # another process of the same number
        (6, "other", False, False),
        (7, "server", False, False),  # the recorder, if a shell attaches to itself
        (8, "server", False, True),
    }


def test_who_is_followed_by_inheritance_alone_descends_from_whom_it_was_attached_to():
    log = EventLog()
    log.comm(0, 5, b"server")
    log.comm(10, 8, b"child")  # started while events were opened: there is no record of its fork
    log.comm(0, 7, b"recorder")
    extras = {"attached_pids": [5], "recorder_pids": [7]}
    followed = processes_of(log, scope="task", **extras)
    assert set(followed.pid[followed.is_descendant].tolist()) == {5, 8}
    assert followed.pid[followed.is_command].tolist() == [5]
    everyone = processes_of(log, scope="system", **extras)
    assert everyone.pid[everyone.is_descendant].tolist() == [5]


def test_groups_that_were_read_later_pass_through_exec_and_fork_of_that_life_only():
    known = {"processes": {"5": [1, 4, 3, 0]}}
    table = processes_of(launched(), **known, groups={"6": [6, 6, 12], "5": [2, 2, 11]})
    assert table.group_pid.tolist() == [2, 6, 6, 6, 6, 2]
    assert table.session_pid.tolist() == [2, 6, 6, 6, 6, 2]
    # The pid's later process, and damaged facts.
    table = processes_of(launched(), **known, groups={"6": [6, 6, 20], "7": [1], "5": ["a", 2, 3]})
    assert table.session_pid.tolist() == [3, 3, 3, 3, 3, 6]
