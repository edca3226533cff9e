"""What chains told, and what processes and functions add to it."""

import numpy as np
import pytest

from builders.profile_builder import ProfileBuilder
from prospect.assembly.causes.entry_points import (
    KERNEL_THREAD,
    NEW_TASK,
    NO_CAUSE,
    UNCLASSIFIED,
    Cause,
)
from prospect.assembly.causes.hit_causes import NO_CHAIN, SILENT, with_causes
from prospect.profile.model import (
    CAUSE_EXCEPTION,
    CAUSE_IDLE,
    CAUSE_KERNEL_THREAD,
    CAUSE_NONE,
    CAUSE_SYSCALL,
    CAUSE_UNCLASSIFIED,
    CAUSE_UNRECORDED,
    KIND_KERNEL,
    KIND_MODULE,
    MODE_KERNEL,
    MODE_USER,
)

READ = Cause(CAUSE_SYSCALL, "read")
TOLD = [NO_CAUSE, UNCLASSIFIED, READ, KERNEL_THREAD, NEW_TASK]
READ_LABEL, THREAD_LABEL, NEW_LABEL = 2, 3, 4


def cause_of(
    label, *, function="schedule", kind=KIND_KERNEL, mode=MODE_KERNEL, extra=None, **process
):
    """The cause of one hit beside another that has one of its own."""
    build = ProfileBuilder()
    facts = {"pid": 10, **process}
    row = build.process(facts.pop("comm", "sh"), facts.pop("pid"), **facts)
    where = build.object("[kernel.kallsyms]", kind)
    build.hit(row, build.function("vfs_read", where, 0x100), 5, MODE_KERNEL)
    build.hit(row, build.function(function, where, 0x200, **(extra or {})), 5, mode)
    made = build.build()
    made.comms[0] = build.processes[0][0]
    profile = with_causes(made, np.array([READ_LABEL, label], np.uint16), TOLD)
    table, rows = profile.causes, profile.hits.cause_index
    assert (table.kind[0], table.name[0]) == (CAUSE_NONE, "")
    assert (table.kind[rows[0]], table.name[rows[0]]) == READ
    assert {*rows.tolist(), 0} == {*range(len(table))}
    return Cause(int(table.kind[rows[1]]), table.name[rows[1]])


def test_what_a_chain_told_is_the_cause():
    assert cause_of(READ_LABEL) == READ


def test_a_user_hit_has_none():
    assert cause_of(NO_CHAIN, mode=MODE_USER) == NO_CAUSE


def test_a_hit_of_an_unknown_mode_has_none():
    assert cause_of(NO_CHAIN, mode=5) == NO_CAUSE


@pytest.mark.parametrize(
    ("comm", "name"),
    [
        ("kswapd0", "kswapd0"),
        ("ksoftirqd/1", "ksoftirqd"),
        ("kworker/u8:2-events", "kworker"),
        ("kworker/0:1H", "kworker"),
        ("migration/13", "migration"),
        ("irq/24-nvme0q1", "irq/24-nvme0q1"),
        ("a/b", "a/b"),
    ],
)
def test_a_kernel_thread_is_called_by_what_its_kind_has_in_common(comm, name):
    assert cause_of(THREAD_LABEL, comm=comm) == Cause(CAUSE_KERNEL_THREAD, name)


def test_a_chain_that_is_cut_short_leaves_it_to_the_process():
    thread = {"comm": "kswapd0", "is_kernel_thread": True}
    assert cause_of(SILENT, **thread) == Cause(CAUSE_KERNEL_THREAD, "kswapd0")
    assert cause_of(SILENT, comm="swapper", pid=0) == Cause(CAUSE_IDLE)
    assert cause_of(SILENT) == Cause(CAUSE_UNCLASSIFIED)


@pytest.mark.parametrize(
    ("function", "cause"),
    [
        ("__switch_to", Cause(CAUSE_SYSCALL, "(task switch)")),
        ("save_fpregs_to_fpstate.cold", Cause(CAUSE_SYSCALL, "(task switch)")),
        ("error_entry", Cause(CAUSE_EXCEPTION, "(entry and exit)")),
        ("do_idle", UNCLASSIFIED),  # the chain would have said so
    ],
)
def test_where_the_stack_changes_the_place_tells_what_the_chain_cannot(function, cause):
    assert cause_of(SILENT, function=function) == cause
    assert cause_of(SILENT, function=function, kind=KIND_MODULE) == UNCLASSIFIED
    thread = {"comm": "kswapd0", "is_kernel_thread": True}
    assert cause_of(SILENT, function=function, **thread).kind == CAUSE_KERNEL_THREAD
    assert cause_of(READ_LABEL, function=function) == READ


def test_another_name_of_the_place_tells_as_well():
    other = {"aliases": ("common_interrupt_return",)}
    assert cause_of(SILENT, function="__irqentry_text_end", extra=other).name == "(entry and exit)"


def test_the_start_of_a_kernel_thread_is_its_own():
    thread = {"comm": "kworker/1:0", "is_kernel_thread": True}
    assert cause_of(NEW_LABEL, **thread) == Cause(CAUSE_KERNEL_THREAD, "kworker")
    assert cause_of(NEW_LABEL) == NEW_TASK


@pytest.mark.parametrize(
    ("function", "cause"),
    [
        ("default_idle", Cause(CAUSE_IDLE)),
        ("entry_SYSCALL_64", Cause(CAUSE_SYSCALL, "(entry and exit)")),
        ("exc_page_fault", Cause(CAUSE_EXCEPTION, "page fault")),
        ("schedule", Cause(CAUSE_UNRECORDED)),
        # Of interrupts only their very entries would be seen.
        ("asm_sysvec_apic_timer_interrupt", Cause(CAUSE_UNRECORDED)),
        ("handle_softirqs", Cause(CAUSE_UNRECORDED)),
    ],
)
def test_without_a_chain_only_the_function_that_was_hit_tells(function, cause):
    assert cause_of(NO_CHAIN, function=function) == cause
    assert cause_of(NO_CHAIN, function=function, kind=KIND_MODULE) == Cause(CAUSE_UNRECORDED)


def test_a_hit_without_a_process_or_place_has_a_cause_all_the_same():
    build = ProfileBuilder()
    build.hit(-1, -1, 3, MODE_KERNEL)
    for label, cause in ((NO_CHAIN, Cause(CAUSE_UNRECORDED)), (SILENT, UNCLASSIFIED)):
        profile = with_causes(build.build(), np.array([label], np.uint16), TOLD)
        row = profile.hits.cause_index[0]
        assert (profile.causes.kind[row], profile.causes.name[row]) == cause


def test_a_profile_without_hits_has_the_first_row_only():
    profile = with_causes(ProfileBuilder().build(), np.zeros(0, np.uint16), TOLD)
    assert profile.causes.name == [""]
