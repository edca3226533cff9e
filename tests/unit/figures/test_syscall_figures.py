"""Section 2: what samples and counts say of system calls, side by side."""

from __future__ import annotations

import math

import numpy as np
import pytest

from builders.profile_builder import ProfileBuilder, run_info
from prospect.figures.report.syscalls import syscall_figures
from prospect.profile.complete import NO_PROCESS_NAME, complete
from prospect.profile.model import (
    CPUMODE_KERNEL,
    ENTRY_REASON_EXCEPTION,
    ENTRY_REASON_NONE,
    ENTRY_REASON_SYSCALL,
    KIND_KERNEL,
    EntryReasonTable,
    SyscallTable,
)
from prospect.records import replace

ENTRY_REASONS = (
    (ENTRY_REASON_NONE, ""),
    (ENTRY_REASON_SYSCALL, "read"),
    (ENTRY_REASON_SYSCALL, "write"),
)
FAULT = (ENTRY_REASON_EXCEPTION, "page fault")


def table_of(*rows, **facts):
    """Make a table of (process, name, compat, calls, unfinished, time_ns)."""
    names = sorted({row[1] for row in rows})
    columns = list(zip(*rows, strict=True))
    return SyscallTable(
        process_index=np.array(columns[0], np.int32),
        name_index=np.array([names.index(name) for name in columns[1]], np.int32),
        is_compat=np.array(columns[2], np.bool_),
        calls=np.array(columns[3], np.int64),
        unfinished=np.array(columns[4], np.int64),
        time_ns=np.array(columns[5], np.int64),
        names=names,
        **facts,
    )


@pytest.fixture
def profile():
    """Give cat with 8 hits in read, 1 in write, 3 in faults, 4 in user space; dd with 2 in read."""
    build = ProfileBuilder(run_info(wall_seconds=2.0, cpus=2))
    cat, dd = build.process("cat", 10), build.process("dd", 11)
    build.process("prospect", 12, is_recorder=True)
    kernel = build.object("[kernel.kallsyms]", KIND_KERNEL)
    function = build.function("vfs_read", kernel, 0x1000)
    entry_reasons = []
    for process, entry_reason, count in ((cat, 1, 8), (cat, 2, 1), (cat, 3, 3), (dd, 1, 2)):
        build.hit(process, function, count, CPUMODE_KERNEL)
        entry_reasons.append(entry_reason)
    build.hit(cat, function, 4)
    profile = build.build()
    kinds = [kind for kind, _ in (*ENTRY_REASONS, FAULT)]
    return replace(
        profile,
        entry_reasons=EntryReasonTable(
            np.array(kinds, np.uint8), [name for _, name in (*ENTRY_REASONS, FAULT)]
        ),
        hits=replace(profile.hits, entry_reason_index=np.array([*entry_reasons, 0], np.int32)),
    )


COUNTED = (
    (0, "read", False, 100, 1, 3_000_000_000),
    (0, "exit_group", False, 1, 1, 0),
    (1, "read", True, 10, 0, 1_000_000_000),
    (1, "read", False, 30, 0, 1_000_000_000),
    (2, "poll", False, 4, 0, 500),
)


def test_samples_alone_give_shares_of_kernel_time(profile):
    figures = syscall_figures(complete(profile), 0)
    assert not figures.is_counted
    assert figures.system.name == ["read", "write"]
    assert figures.system.hits.tolist() == [10, 1]
    assert figures.system.sampled_s == pytest.approx([10 / 256, 1 / 256])
    assert figures.system.share == pytest.approx([10 / 14, 1 / 14])
    assert figures.of_process(0).share == pytest.approx([8 / 12, 1 / 12])
    assert figures.of_process(1).share == pytest.approx([1.0])
    assert len(figures.of_process(2)) == 0
    assert figures.system.calls.tolist() == [0, 0]
    assert np.isnan(figures.system.mean_s).all()


def test_counts_stand_beside_samples_of_the_same_call(profile):
    counted = replace(profile, syscalls=table_of(*COUNTED, cost_ns=400.0, dropped=5))
    figures = syscall_figures(complete(counted), 0)
    system = figures.system
    assert system.name == ["read", "write", "poll", "exit_group"]
    assert system.calls.tolist() == [140, 0, 4, 1]
    assert system.compat_calls.tolist() == [10, 0, 0, 0]
    assert system.unfinished.tolist() == [1, 0, 0, 1]
    assert system.time_s == pytest.approx([5.0, 0.0, 5e-7, 0.0])
    assert system.mean_s[0] == pytest.approx(5.0 / 139)
    assert math.isnan(system.mean_s[3])
    assert system.hits.tolist() == [10, 1, 0, 0]
    assert (figures.dropped, figures.recorder_calls) == (5, 4)
    dd = figures.of_process(1)
    assert (dd.name, dd.calls.tolist(), dd.compat_calls.tolist()) == (["read"], [40], [10])


def test_processes_sum_up_to_the_system(profile):
    counted = replace(profile, syscalls=table_of(*COUNTED))
    figures = syscall_figures(complete(counted), 0)
    parts = [figures.of_process(row) for row in range(len(counted.processes))]
    for column in ("hits", "sampled_s", "calls", "compat_calls", "unfinished", "time_s"):
        whole = getattr(figures.system, column).sum()
        assert sum(getattr(part, column).sum() for part in parts) == pytest.approx(whole)


def test_what_counting_cost_is_a_share_of_all_cpus(profile):
    counted = replace(profile, syscalls=table_of(*COUNTED, cost_ns=400.0))
    figures = syscall_figures(complete(counted), 0)
    assert figures.system.cost_s.sum() == pytest.approx(145 * 400e-9)
    assert figures.cost_share == pytest.approx(145 * 400e-9 / 4.0)
    timeless = replace(counted, run=replace(counted.run, wall_seconds=0.0))
    assert syscall_figures(complete(timeless), 0).cost_share == 0.0


def test_calls_of_unknown_processes_have_a_row_of_their_own(profile):
    counted = replace(profile, syscalls=table_of((-1, "read", False, 9, 0, 1)))
    completed = complete(counted)
    figures = syscall_figures(completed, 0)
    last = len(completed.processes) - 1
    assert completed.processes.name[last] == NO_PROCESS_NAME
    assert figures.of_process(last).calls.tolist() == [9]
    assert figures.system.calls.sum() == 9


def test_a_run_without_hits_still_has_its_counts():
    build = ProfileBuilder()
    build.process("true", 10)
    counted = replace(build.build(), syscalls=table_of((0, "brk", False, 3, 0, 1)))
    figures = syscall_figures(complete(counted), 0)
    assert (figures.system.name, figures.system.share.tolist()) == (["brk"], [0.0])
    assert not len(syscall_figures(complete(build.build()), 0).system)
