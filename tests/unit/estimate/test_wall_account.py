"""The account of a command's wall time: pieces, samples and waits with known sums."""

import numpy as np
import pytest

from builders.critical_paths import CHILD, MAIN, OTHER, path_of, profile_of
from prospect.estimate.finished_report import Report
from prospect.estimate.wall_account import INTERRUPT, NO_SAMPLE, NOBODY, Taker
from prospect.profile.model import (
    CPUMODE_KERNEL,
    ENTRY_REASON_SYSCALL,
    PATH_BLOCKED,
    PATH_RAN,
    PATH_UNKNOWN,
    PATH_WAITED,
    EntryReasonTable,
    StackTable,
    WaitTable,
)
from prospect.records import replace
from prospect.render.text.wall import wall_summary


def account_of(profile):
    with Report(profile) as report:
        return report.wall


def test_samples_divide_the_time_that_a_program_ran():
    path = path_of([(PATH_RAN, MAIN, 100, -1), (PATH_RAN, CHILD, 50, -1)])
    samples = [(at, MAIN, "f") for at in range(0, 90, 10)] + [(95, MAIN, "g")]
    # Neither of these was on the path: another thread, and a thread that was not on it then.
    samples += [(20, CHILD, "g"), (120, MAIN, "g")]
    account = account_of(profile_of(path, samples))
    rows = {(row.program, row.what): row for row in account.rows}
    assert rows["shell", "f"].seconds == pytest.approx(0.09)
    assert rows["shell", "g"].seconds == pytest.approx(0.01)
    assert 0 < rows["shell", "g"].half_width_s < 0.05
    assert (rows["shell", "f"].samples, rows["shell", "f"].pieces) == (9, 1)
    # No sample hit the child: how long it ran is known all the same.
    assert rows["child", NO_SAMPLE].seconds == pytest.approx(0.05)
    assert rows["child", NO_SAMPLE].half_width_s == 0
    assert sum(row.seconds for row in account.rows) == pytest.approx(account.seconds)
    assert sum(row.share for row in account.rows) == pytest.approx(1)


def test_time_that_nobody_knows_has_a_row_of_its_own():
    path = path_of([(PATH_RAN, MAIN, 100, -1), (PATH_UNKNOWN, MAIN, 30, -1)])
    account = account_of(profile_of(path))
    assert account.seconds_of("not known") == pytest.approx(0.03)


def test_who_had_the_cpu_is_told_apart():
    path = path_of(
        [(PATH_WAITED, MAIN, 100, -1), (PATH_RAN, MAIN, 10, -1)],
        [(0, OTHER, 60), (0, CHILD, 30), (0, 0, 10)],
    )
    account = account_of(profile_of(path))
    assert account.takers == (
        Taker("server", False, pytest.approx(0.06)),
        Taker("child", True, pytest.approx(0.03)),
        Taker(NOBODY, False, pytest.approx(0.01)),
    )
    lines = list(wall_summary(account, 79))
    assert lines == [
        "Wall:   0.110 s: waiting for a CPU 0.100 (server, its own threads had it),",
        "        shell running 0.010",
    ]


def with_waits(profile, waits, functions):
    """The profile with waits (piece, system call, functions of the kernel from the inside out)."""
    names = [name for _, _, stack in waits for name in stack]
    table = profile.functions
    first = len(table)
    more = functions(names)
    caller, location, last = [], [], []
    for _, _, stack in waits:
        above = -1
        for name in reversed(stack):
            location.append(len(profile.locations) + names.index(name))
            caller.append(above)
            above = len(caller) - 1
        last.append(above)
    count, path = len(waits), profile.wall
    pieces = np.array([piece for piece, _, _ in waits], np.int64)
    locations = replace(
        profile.locations,
        function_index=np.append(
            profile.locations.function_index, first + np.arange(len(names), dtype=np.int32)
        ).astype(np.int32),
        address=np.append(profile.locations.address, np.arange(len(names), dtype=np.uint64)),
    )
    nothing = np.zeros(count, np.int32)
    return replace(
        profile,
        functions=more,
        locations=locations,
        entry_reasons=EntryReasonTable(
            np.array([0] + [ENTRY_REASON_SYSCALL] * count, np.uint8),
            ["", *(call for _, call, _ in waits)],
        ),
        stacks=StackTable(
            np.array(caller, np.int32),
            np.array(location, np.int32),
            np.full(len(caller), CPUMODE_KERNEL, np.uint8),
            np.zeros(len(caller), np.int32),
        ),
        waits=WaitTable(
            is_runnable=np.zeros(count, np.bool_),
            process_index=nothing,
            comm_index=nothing,
            location_index=nothing,
            mode=np.full(count, CPUMODE_KERNEL, np.uint8),
            entry_reason_index=1 + np.arange(count, dtype=np.int32),
            tid=path.tid.take(pieces),
            cpu=np.zeros(count, np.uint16),
            begin_ns=path.begin_ns.take(pieces),
            length_ns=path.length_ns.take(pieces).astype(np.uint64),
            stack_index=np.array(last, np.int32),
        ),
    )


def test_what_blocked_it_is_named_by_the_call_and_by_what_the_kernel_waited_in():
    path = path_of(
        [
            (PATH_BLOCKED, MAIN, 70, 0),
            (PATH_BLOCKED, MAIN, 40, 0),
            (PATH_BLOCKED, MAIN, 30, OTHER),
            (PATH_BLOCKED, MAIN, 20, -1),
            (PATH_BLOCKED, CHILD, 10, 0),
        ]
    )
    profile = profile_of(path, [(500, MAIN, "f")])

    def functions(names):
        table = profile.functions
        count = len(names)
        return replace(
            table,
            name=[*table.name, *names],
            linkage_name=[*table.linkage_name, *names],
            aliases=[*table.aliases, *([()] * count)],
            object_index=np.append(table.object_index, [0] * count).astype(np.int32),
            address=np.append(table.address, [0] * count).astype(np.uint64),
            size_bytes=np.append(table.size_bytes, [0] * count).astype(np.uint64),
            is_global=np.append(table.is_global, [True] * count),
            source=np.append(table.source, [0] * count).astype(np.uint8),
        )

    waits = [
        (0, "clock_nanosleep", ("schedule", "do_nanosleep")),
        (1, "write", ("schedule", "io_schedule_timeout.isra.0", "ksys_write")),
        (2, "recvfrom", ("schedule", "unix_stream_read_generic")),
        (3, "poll", ("schedule", "do_sys_poll")),
    ]
    account = account_of(with_waits(profile, waits, functions))
    found = [(row.program, row.what, row.ended_by, round(row.seconds, 3)) for row in account.rows]
    assert found == [
        ("shell", "sleep", INTERRUPT, 0.07),
        ("shell", "disk (write)", INTERRUPT, 0.04),
        ("shell", "socket (recvfrom)", "server", 0.03),
        ("shell", "poll", "", 0.02),
        ("child", "unknown reason", INTERRUPT, 0.01),
    ]
    lines = list(wall_summary(account, 79))
    assert lines == [
        "Wall:   0.170 s: sleep 0.070, disk (write) 0.040,",
        "        socket (recvfrom), ended by server 0.030, poll 0.020, others 0.010",
    ]


def test_a_profile_without_a_path_has_no_account():
    assert account_of(replace(profile_of(None), wall=None)) is None
