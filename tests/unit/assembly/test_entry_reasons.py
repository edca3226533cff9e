"""What chains told, and what processes and functions add to it."""

import numpy as np
import pytest

from builders.profile_builder import ProfileBuilder
from prospect.assembly.entry_reasons.entry_points import (
    KERNEL_THREAD,
    NEW_TASK,
    NO_ENTRY_REASON,
    UNCLASSIFIED,
    EntryReason,
)
from prospect.assembly.entry_reasons.hit_reasons import NO_CHAIN, SILENT, with_entry_reasons
from prospect.profile.model import (
    CPUMODE_KERNEL,
    CPUMODE_USER,
    ENTRY_REASON_EXCEPTION,
    ENTRY_REASON_IDLE,
    ENTRY_REASON_KERNEL_THREAD,
    ENTRY_REASON_NONE,
    ENTRY_REASON_SYSCALL,
    ENTRY_REASON_UNCLASSIFIED,
    ENTRY_REASON_UNRECORDED,
    KIND_KERNEL,
    KIND_MODULE,
)

READ = EntryReason(ENTRY_REASON_SYSCALL, "read")
TOLD = [NO_ENTRY_REASON, UNCLASSIFIED, READ, KERNEL_THREAD, NEW_TASK]
READ_LABEL, THREAD_LABEL, NEW_LABEL = 2, 3, 4


def entry_reason_of(
    label, *, function="schedule", kind=KIND_KERNEL, mode=CPUMODE_KERNEL, extra=None, **process
):
    """The entry reason of one hit beside another that has one of its own."""
    build = ProfileBuilder()
    facts = {"pid": 10, **process}
    row = build.process(facts.pop("comm", "sh"), facts.pop("pid"), **facts)
    where = build.object("[kernel.kallsyms]", kind)
    build.hit(row, build.function("vfs_read", where, 0x100), 5, CPUMODE_KERNEL)
    build.hit(row, build.function(function, where, 0x200, **(extra or {})), 5, mode)
    made = build.build()
    made.comms[0] = build.processes[0][0]
    profile = with_entry_reasons(made, np.array([READ_LABEL, label], np.uint16), TOLD)
    table, rows = profile.entry_reasons, profile.hits.entry_reason_index
    assert (table.kind[0], table.name[0]) == (ENTRY_REASON_NONE, "")
    assert (table.kind[rows[0]], table.name[rows[0]]) == READ
    assert {*rows.tolist(), 0} == {*range(len(table))}
    return EntryReason(int(table.kind[rows[1]]), table.name[rows[1]])


def test_what_a_chain_told_is_the_entry_reason():
    assert entry_reason_of(READ_LABEL) == READ


def test_a_user_hit_has_none():
    assert entry_reason_of(NO_CHAIN, mode=CPUMODE_USER) == NO_ENTRY_REASON


def test_a_hit_of_an_unknown_mode_has_none():
    assert entry_reason_of(NO_CHAIN, mode=5) == NO_ENTRY_REASON


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
    assert entry_reason_of(THREAD_LABEL, comm=comm) == EntryReason(ENTRY_REASON_KERNEL_THREAD, name)


def test_a_chain_that_is_cut_short_leaves_it_to_the_process():
    thread = {"comm": "kswapd0", "is_kernel_thread": True}
    assert entry_reason_of(SILENT, **thread) == EntryReason(ENTRY_REASON_KERNEL_THREAD, "kswapd0")
    assert entry_reason_of(SILENT, comm="swapper", pid=0) == EntryReason(ENTRY_REASON_IDLE)
    assert entry_reason_of(SILENT) == EntryReason(ENTRY_REASON_UNCLASSIFIED)


@pytest.mark.parametrize(
    ("function", "entry_reason"),
    [
        ("__switch_to", EntryReason(ENTRY_REASON_SYSCALL, "(task switch)")),
        ("save_fpregs_to_fpstate.cold", EntryReason(ENTRY_REASON_SYSCALL, "(task switch)")),
        ("error_entry", EntryReason(ENTRY_REASON_EXCEPTION, "(entry and exit)")),
        ("do_idle", UNCLASSIFIED),  # the chain would have said so
    ],
)
def test_where_the_stack_changes_the_place_tells_what_the_chain_cannot(function, entry_reason):
    assert entry_reason_of(SILENT, function=function) == entry_reason
    assert entry_reason_of(SILENT, function=function, kind=KIND_MODULE) == UNCLASSIFIED
    thread = {"comm": "kswapd0", "is_kernel_thread": True}
    assert entry_reason_of(SILENT, function=function, **thread).kind == ENTRY_REASON_KERNEL_THREAD
    assert entry_reason_of(READ_LABEL, function=function) == READ


def test_another_name_of_the_place_tells_as_well():
    other = {"aliases": ("common_interrupt_return",)}
    assert (
        entry_reason_of(SILENT, function="__irqentry_text_end", extra=other).name
        == "(entry and exit)"
    )


def test_the_start_of_a_kernel_thread_is_its_own():
    thread = {"comm": "kworker/1:0", "is_kernel_thread": True}
    assert entry_reason_of(NEW_LABEL, **thread) == EntryReason(
        ENTRY_REASON_KERNEL_THREAD, "kworker"
    )
    assert entry_reason_of(NEW_LABEL) == NEW_TASK


@pytest.mark.parametrize(
    ("function", "entry_reason"),
    [
        ("default_idle", EntryReason(ENTRY_REASON_IDLE)),
        ("entry_SYSCALL_64", EntryReason(ENTRY_REASON_SYSCALL, "(entry and exit)")),
        ("exc_page_fault", EntryReason(ENTRY_REASON_EXCEPTION, "page fault")),
        ("schedule", EntryReason(ENTRY_REASON_UNRECORDED)),
        # Of interrupts only their very entries would be seen.
        ("asm_sysvec_apic_timer_interrupt", EntryReason(ENTRY_REASON_UNRECORDED)),
        ("handle_softirqs", EntryReason(ENTRY_REASON_UNRECORDED)),
    ],
)
def test_without_a_chain_only_the_function_that_was_hit_tells(function, entry_reason):
    assert entry_reason_of(NO_CHAIN, function=function) == entry_reason
    assert entry_reason_of(NO_CHAIN, function=function, kind=KIND_MODULE) == EntryReason(
        ENTRY_REASON_UNRECORDED
    )


def test_a_hit_without_a_process_or_place_has_an_entry_reason_all_the_same():
    build = ProfileBuilder()
    build.hit(-1, -1, 3, CPUMODE_KERNEL)
    for label, entry_reason in (
        (NO_CHAIN, EntryReason(ENTRY_REASON_UNRECORDED)),
        (SILENT, UNCLASSIFIED),
    ):
        profile = with_entry_reasons(build.build(), np.array([label], np.uint16), TOLD)
        row = profile.hits.entry_reason_index[0]
        assert (profile.entry_reasons.kind[row], profile.entry_reasons.name[row]) == entry_reason


def test_a_profile_without_hits_has_the_first_row_only():
    profile = with_entry_reasons(ProfileBuilder().build(), np.zeros(0, np.uint16), TOLD)
    assert profile.entry_reasons.name == [""]
