"""Processes, names and parents as side records and snapshots tell of them."""

import numpy as np
import pytest

from builders.sideband import EventLog
from prospect.profile.model import BIRTH_EXEC, BIRTH_FORK, BIRTH_PREEXISTING
from prospect.spaces.attribution import attribute
from prospect.spaces.process_history import build_spaces

RUNNING_NS = 2**64 - 1
KERNEL_MODE = 1


def world_of(log):
    return build_spaces(log.events())


def process(history, row):
    """A process row's facts, as plain values."""
    rows = history.processes
    return {
        "pid": int(rows.pid[row]),
        "parent_pid": int(rows.parent_pid[row]),
        "parent_row": int(rows.parent_row[row]),
        "birth": int(rows.birth[row]),
        "life": (int(rows.start_ns[row]), int(rows.end_ns[row])),
        "name": history.names[rows.name[row]],
    }


def samples_by_name(log):
    """Count samples by (pid, start of the process row, thread name)."""
    events = log.events()
    history = build_spaces(events)
    hits = attribute(events.samples, history.timeline)
    counts = {}
    for row in range(len(hits)):
        at = hits.process_row[row]
        key = (
            int(history.processes.pid[at]),
            int(history.processes.start_ns[at]),
            history.names[hits.comm[row]],
        )
        counts[key] = counts.get(key, 0) + int(hits.count[row])
    return counts


def test_fork_and_exec_are_births_of_rows_of_their_own():
    log = EventLog()
    log.comm(0, 1, b"shell")
    log.fork(10, 1, 2)
    log.exec(20, 2, b"ls")
    log.exit(30, 2)
    history = world_of(log)
    assert [process(history, row) for row in range(3)] == [
        {
            "pid": 1,
            "parent_pid": -1,
            "parent_row": -1,
            "birth": BIRTH_PREEXISTING,
            "life": (0, RUNNING_NS),
            "name": b"shell",
        },
        {
            "pid": 2,
            "parent_pid": 1,
            "parent_row": 0,
            "birth": BIRTH_FORK,
            "life": (10, 20),
            "name": b"shell",
        },
        {
            "pid": 2,
            "parent_pid": 1,
            "parent_row": 1,
            "birth": BIRTH_EXEC,
            "life": (20, 30),
            "name": b"ls",
        },
    ]


def test_a_chain_of_execs_is_a_chain_of_rows():
    log = EventLog()
    log.comm(0, 5, b"sh")
    for number in range(1, 5):
        log.exec(10 * number, 5, b"program%d" % number)
        log.sample(10 * number + 1, 5, 0x1000)
    history = world_of(log)
    assert history.processes.parent_row.tolist() == [-1, 0, 1, 2, 3]
    assert history.processes.end_ns.tolist() == [10, 20, 30, 40, RUNNING_NS]
    assert samples_by_name(log) == {(5, 10 * n, b"program%d" % n): 1 for n in range(1, 5)}


def test_a_reused_pid_is_another_process():
    log = EventLog()
    log.comm(0, 1, b"init")
    log.comm(0, 7, b"old")
    log.sample(5, 7, 0x1000)
    log.exit(10, 7)
    log.fork(20, 1, 7)
    log.comm(21, 7, b"new")
    log.sample(25, 7, 0x1000)
    history = world_of(log)
    assert samples_by_name(log) == {(7, 0, b"old"): 1, (7, 20, b"new"): 1}
    assert [process(history, row)["life"] for row in (1, 2)] == [(0, 10), (20, RUNNING_NS)]


def test_a_name_is_the_last_of_the_main_thread():
    log = EventLog()
    log.fork(10, 1, 2)
    log.comm(11, 2, b"first")
    log.comm(12, 2, b"last")
    log.clone(13, 2, 3)
    log.comm(14, 2, b"worker", tid=3)
    history = world_of(log)
    row = history.processes.pid.tolist().index(2)
    assert process(history, row)["name"] == b"last"


def test_a_process_ends_with_its_last_thread_when_the_leader_goes_first():
    log = EventLog()
    log.fork(10, 1, 2)
    log.clone(11, 2, 3)
    log.clone(11, 2, 4)
    log.exit(20, 2, tid=4)
    log.exit(30, 2)
    log.exit(40, 2, tid=3)
    history = world_of(log)
    row = history.processes.pid.tolist().index(2)
    assert process(history, row)["life"] == (10, 40)


def test_threads_have_names_of_their_own_by_time():
    log = EventLog()
    log.comm(0, 2, b"main")
    log.clone(10, 2, 3)
    log.sample(11, 2, 0x10, tid=3)
    log.comm(20, 2, b"worker", tid=3)
    log.sample(21, 2, 0x10, tid=3)
    log.clone(30, 2, 4, parent_tid=3)
    log.sample(31, 2, 0x10, tid=4)
    log.sample(31, 2, 0x10)
    assert samples_by_name(log) == {(2, 0, b"main"): 2, (2, 0, b"worker"): 2}


def test_a_fork_by_a_thread_passes_on_the_name_of_the_thread():
    log = EventLog()
    log.comm(0, 2, b"main")
    log.comm(0, 2, b"worker", tid=3)
    log.fork(10, 2, 9, parent_tid=3)
    log.sample(11, 9, 0x10)
    assert samples_by_name(log) == {(9, 10, b"worker"): 1}


def test_a_thread_that_no_record_names_goes_by_its_process():
    log = EventLog()
    log.comm(0, 2, b"before")
    log.comm(50, 2, b"after")
    log.sample(40, 2, 0x10, tid=77)
    log.sample(60, 2, 0x10, tid=77)
    assert samples_by_name(log) == {(2, 0, b"before"): 1, (2, 0, b"after"): 1}


def test_tasks_without_any_record_get_rows_and_names():
    log = EventLog()
    log.sample(10, 0, 0x10, mode=KERNEL_MODE)
    log.sample(11, -1, 0x10, mode=KERNEL_MODE)
    log.sample(12, 4321, 0x10)
    log.sample(13, -1, 0x20, mode=KERNEL_MODE)
    assert samples_by_name(log) == {
        (0, 0, b"swapper"): 1,
        (-1, 0, b"unknown"): 2,
        (4321, 0, b":4321"): 1,
    }
    history = world_of(log)
    assert sorted(history.names[row] for row in history.processes.name) == [
        b":4321",
        b"swapper",
        b"unknown",
    ]


def test_an_exec_first_seen_live_leaves_what_was_before_it_unnamed():
    log = EventLog()
    log.sample(5, 8, 0x10)
    log.exec(10, 8, b"program")
    log.sample(15, 8, 0x10)
    assert samples_by_name(log) == {(8, 0, b":8"): 1, (8, 10, b"program"): 1}


def test_a_sample_just_before_its_process_was_born_belongs_to_it():
    log = EventLog()
    log.comm(0, 1, b"init")
    log.fork(10, 1, 8)
    log.sample(9, 8, 0x10)
    assert samples_by_name(log) == {(8, 10, b"init"): 1}


def test_the_snapshot_tells_parents_but_no_births():
    log = EventLog()
    log.fork(0, 7, 8)  # the child is listed first
    log.comm(0, 8, b"child")
    log.clone(0, 8, 9)
    log.fork(0, 1, 7)
    log.comm(0, 7, b"parent")
    history = world_of(log)
    child, parent = (history.processes.pid.tolist().index(pid) for pid in (8, 7))
    assert process(history, child)["parent_row"] == parent
    assert process(history, child)["birth"] == BIRTH_PREEXISTING
    assert process(history, parent)["parent_pid"] == 1
    assert process(history, parent)["parent_row"] == -1
    assert len(history.processes) == 2


def test_parents_end_even_where_a_file_says_otherwise():
    log = EventLog()
    for pid, parent in ((2, 3), (3, 4), (4, 2), (5, 4), (6, 6)):
        log.fork(0, parent, pid)
    history = world_of(log)
    above = np.arange(len(history.processes))
    for _ in range(len(history.processes)):
        above = np.where(above >= 0, history.processes.parent_row.take(above), -1)
    assert above.tolist() == [-1] * len(history.processes)


def test_a_birth_wins_over_the_snapshot_that_came_after_it():
    log = EventLog()
    log.comm(0, 1, b"shell")
    log.mmap(0, 1, 0x1000, 0x1000, b"/bin/shell")
    log.comm(0, 2, b"ls")  # what the snapshot saw: the program that 2 became
    log.mmap(0, 2, 0x5000, 0x1000, b"/bin/ls")
    log.fork(10, 1, 2)
    log.sample(12, 2, 0x1800)
    log.exec(20, 2, b"ls")
    log.mmap(21, 2, 0x5000, 0x1000, b"/bin/ls")
    log.sample(22, 2, 0x5800)
    events = log.events()
    history = build_spaces(events)
    hits = attribute(events.samples, history.timeline)
    where = history.address_spaces.locate(hits.space, hits.epoch, hits.address)
    names = [history.names[history.mappings.name[where[row]]] for row in hits.sample_row]
    assert names == [b"/bin/shell", b"/bin/ls"]
    assert samples_by_name(log) == {(2, 10, b"shell"): 1, (2, 20, b"ls"): 1}
    assert history.processes.birth.tolist() == [BIRTH_PREEXISTING, BIRTH_FORK, BIRTH_EXEC]
    assert len(history.mappings) == 2


def test_the_snapshot_stands_where_the_pid_was_reused_after_its_exit():
    log = EventLog()
    log.comm(0, 2, b"old")
    log.sample(5, 2, 0x10)
    log.exit(10, 2)
    log.fork(20, 1, 2)
    log.comm(21, 2, b"new")
    log.sample(25, 2, 0x10)
    assert samples_by_name(log) == {(2, 0, b"old"): 1, (2, 20, b"new"): 1}


def test_an_exec_replaces_what_the_snapshot_mapped():
    log = EventLog()
    log.comm(0, 2, b"old")
    log.mmap(0, 2, 0x1000, 0x1000, b"/bin/old")
    log.exec(10, 2, b"new")
    log.mmap(11, 2, 0x9000, 0x1000, b"/bin/new")
    for time in (5, 15):
        for address in (0x1800, 0x9800):
            log.sample(time, 2, address)
    events = log.events()
    history = build_spaces(events)
    hits = attribute(events.samples, history.timeline)
    where = history.address_spaces.locate(hits.space, hits.epoch, hits.address)
    assert where.take(hits.sample_row).tolist() == [0, -1, -1, 1]


def test_kernel_mappings_are_no_part_of_user_spaces():
    log = EventLog()
    log.mmap(0, -1, 0xFFFFFFFF81000000, 0x1000000, b"[kernel.kallsyms]_text", mode=KERNEL_MODE)
    log.mmap(5, -1, 0xFFFFFFFFC0000000, 0x1000, b"[module]", mode=KERNEL_MODE)
    log.mmap(0, 2, 0x1000, 0x1000, b"/bin/true")
    history = world_of(log)
    assert [history.names[row] for row in history.kernel_mappings.name] == [
        b"[kernel.kallsyms]_text",
        b"[module]",
    ]
    assert history.kernel_mappings.process_row.tolist() == [-1, -1]
    assert [history.names[row] for row in history.mappings.name] == [b"/bin/true"]
    assert history.processes.pid.tolist() == [2]


def test_a_mapping_over_the_end_of_the_address_space_is_cut_there():
    log = EventLog()
    log.mmap(0, 2, 2**64 - 0x1000, 0x2000, b"/damaged")
    log.mmap(0, 2, 0x1000, 0, b"/empty")
    history = world_of(log)
    assert history.mappings.end.tolist() == [2**64 - 1]


def test_a_recording_of_nothing_is_a_world_of_nothing():
    events = EventLog().events()
    history = build_spaces(events)
    hits = attribute(events.samples, history.timeline)
    assert (len(history.processes), len(hits), len(hits.sample_row)) == (0, 0, 0)
    none = np.empty(0, np.int64)
    assert len(history.address_spaces.locate(none, none, np.empty(0, np.uint64))) == 0


@pytest.mark.parametrize("pid", [2**31 - 1, 2**22 + 1, -5])
def test_ids_that_no_kernel_gives_out_do_no_harm(pid):
    log = EventLog()
    log.fork(10, pid, pid - 1 if pid > 0 else pid, parent_tid=pid)
    log.mmap(11, pid, 0x1000, 0x1000, b"/bin/true")
    log.sample(12, pid, 0x1800)
    assert sum(samples_by_name(log).values()) == 1
