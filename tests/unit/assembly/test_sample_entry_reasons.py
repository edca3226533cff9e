"""Chains against their entry reasons, and any chains against reading them one by one."""

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.examples import examples
from builders.kernel_chains import (
    CONTEXT_KERNEL,
    CONTEXT_USER,
    KERNEL_MODE,
    TEXT,
    USER_MODE,
    MadeUpKernel,
    chained,
)
from builders.sideband import samples_of
from prospect.abi.syscall_names import called_names
from prospect.assembly.entry_reasons.entry_points import (
    NO_ENTRY_REASON,
    UNCLASSIFIED,
    EntryReason,
    entry_point,
    entry_reason_of_called,
)
from prospect.assembly.entry_reasons.hit_reasons import label_samples
from prospect.assembly.stacks import chain_frames
from prospect.profile.model import (
    ENTRY_REASON_EXCEPTION,
    ENTRY_REASON_IDLE,
    ENTRY_REASON_INTERRUPT,
    ENTRY_REASON_KERNEL_THREAD,
    ENTRY_REASON_SOFTIRQ,
    ENTRY_REASON_SYSCALL,
)

NAMES = (
    "entry_SYSCALL_64_after_hwframe",
    "do_syscall_64",
    "x64_sys_call",
    "__x64_sys_sendto",
    "__sys_sendto",
    "ksys_read",
    "exit_to_user_mode_loop",
    "schedule",
    "copy_from_user",
    "asm_exc_page_fault",
    "exc_page_fault",
    "handle_mm_fault",
    "asm_sysvec_apic_timer_interrupt",
    "irq_exit_rcu",
    "handle_softirqs",
    "net_rx_action",
    "run_timer_softirq",
    "__local_bh_enable_ip",
    "_raw_spin_unlock_irqrestore",
    "asm_common_interrupt",
    "__handle_irq_event_percpu",
    "vm_interrupt@[virtio_mmio]",
    "ret_from_fork_asm",
    "kthread",
    "run_ksoftirqd",
    "do_idle@[evil]",
    "do_idle",
    "common_startup_64",
    "arch_do_signal_or_restart",
    "do_exit",
    "__x86_indirect_thunk_rax",
)
MACHINE = MadeUpKernel(NAMES)
CALLS = called_names("x86_64")
CALL = ("do_syscall_64", "entry_SYSCALL_64_after_hwframe")


def entry_reasons_of(chains, modes=None):
    told = label_samples(chained(chains, modes), MACHINE.resolve, "x86_64")
    return [told.entry_reasons[label] for label in told.label]


@pytest.mark.parametrize(
    ("functions", "kind", "name"),
    [
        (("copy_from_user", "__x64_sys_sendto", *CALL), ENTRY_REASON_SYSCALL, "sendto"),
        (("__x64_sys_sendto", *CALL), ENTRY_REASON_SYSCALL, "sendto"),
        (("schedule", "ksys_read", *CALL), ENTRY_REASON_SYSCALL, "read"),
        (("ksys_read", "x64_sys_call", *CALL), ENTRY_REASON_SYSCALL, "read"),
        (CALL, ENTRY_REASON_SYSCALL, "(entry and exit)"),
        (("schedule", "exit_to_user_mode_loop", *CALL), ENTRY_REASON_SYSCALL, "(entry and exit)"),
        (
            ("handle_mm_fault", "exc_page_fault", "asm_exc_page_fault", "copy_from_user", *CALL),
            *(ENTRY_REASON_EXCEPTION, "page fault"),
        ),
        (
            ("irq_exit_rcu", "asm_sysvec_apic_timer_interrupt", "__x64_sys_sendto", *CALL),
            *(ENTRY_REASON_INTERRUPT, "local timer"),
        ),
        (
            ("net_rx_action", "handle_softirqs", "irq_exit_rcu", "asm_sysvec_apic_timer_interrupt"),
            *(ENTRY_REASON_SOFTIRQ, "NET_RX"),
        ),
        (
            ("net_rx_action", "handle_softirqs", "__local_bh_enable_ip", "__sys_sendto", *CALL),
            *(ENTRY_REASON_SOFTIRQ, "NET_RX"),
        ),
        (
            ("net_rx_action", "handle_softirqs", "run_ksoftirqd", "kthread", "ret_from_fork_asm"),
            *(ENTRY_REASON_SOFTIRQ, "NET_RX"),
        ),
        (("handle_softirqs", "irq_exit_rcu"), ENTRY_REASON_SOFTIRQ, "(softirq entry and exit)"),
        (
            ("_raw_spin_unlock_irqrestore", "handle_softirqs", "irq_exit_rcu"),
            *(ENTRY_REASON_SOFTIRQ, "HRTIMER"),
        ),
        (
            ("_raw_spin_unlock_irqrestore", "net_rx_action", "handle_softirqs", "irq_exit_rcu"),
            *(ENTRY_REASON_SOFTIRQ, "NET_RX"),
        ),
        (
            ("vm_interrupt@[virtio_mmio]", "__handle_irq_event_percpu", "asm_common_interrupt"),
            *(ENTRY_REASON_INTERRUPT, "vm_interrupt"),
        ),
        (("irq_exit_rcu", "asm_common_interrupt"), ENTRY_REASON_INTERRUPT, "(irq entry and exit)"),
        (
            ("schedule", "run_ksoftirqd", "kthread", "ret_from_fork_asm"),
            ENTRY_REASON_KERNEL_THREAD,
            "",
        ),
        (("schedule", "ret_from_fork_asm"), ENTRY_REASON_SYSCALL, "(new task)"),
        (("schedule", "do_idle", "common_startup_64"), ENTRY_REASON_IDLE, ""),
        (
            ("do_exit", "arch_do_signal_or_restart", "exit_to_user_mode_loop", *CALL),
            *(ENTRY_REASON_EXCEPTION, "signal"),
        ),
    ],
)
def test_the_innermost_entry_point_decides(functions, kind, name):
    assert entry_reasons_of([MACHINE.chain(*functions)]) == [EntryReason(kind, name)]


def test_a_chain_that_is_cut_short_says_so():
    assert entry_reasons_of([MACHINE.chain("__x86_indirect_thunk_rax")]) == [UNCLASSIFIED]


def test_a_function_of_a_module_is_no_entry_point():
    assert entry_reasons_of([MACHINE.chain("schedule", "do_idle@[evil]")]) == [UNCLASSIFIED]


def test_an_interrupted_instruction_is_where_it_is_and_no_return_address():
    first_of_do_idle = [CONTEXT_KERNEL, MACHINE.start("do_idle")]
    returns_to_do_idle = [CONTEXT_KERNEL, MACHINE.start("schedule"), MACHINE.start("do_idle")]
    assert entry_reasons_of([first_of_do_idle, returns_to_do_idle]) == [
        EntryReason(ENTRY_REASON_IDLE),
        UNCLASSIFIED,
    ]


def test_what_is_behind_the_kernel_part_tells_nothing():
    kernel = MACHINE.chain("schedule")
    assert entry_reasons_of([[*kernel, CONTEXT_USER, MACHINE.end("do_idle")]]) == [UNCLASSIFIED]


@pytest.mark.parametrize(
    "chain",
    [[], [CONTEXT_KERNEL], [CONTEXT_USER, 0x400000], [MACHINE.end("do_idle")], [0], [2**64 - 1]],
)
def test_a_sample_without_a_kernel_chain_has_no_label(chain):
    assert entry_reasons_of([chain, MACHINE.chain("do_idle")]) == [
        NO_ENTRY_REASON,
        EntryReason(ENTRY_REASON_IDLE),
    ]


def test_user_mode_has_no_entry_reason():
    assert entry_reasons_of([MACHINE.chain("do_idle")], [USER_MODE]) == [NO_ENTRY_REASON]


def test_a_recording_without_chains_has_no_labels():
    told = label_samples(samples_of([(TEXT, 7, 0, KERNEL_MODE, 1, 0)]), MACHINE.resolve, "")
    assert told.label is None


def test_a_kernel_without_names_tells_nothing():
    nobody = MadeUpKernel([])
    told = label_samples(chained([MACHINE.chain("do_idle")]), nobody.resolve, "")
    assert [told.entry_reasons[label] for label in told.label] == [UNCLASSIFIED]


WORDS = st.one_of(
    st.sampled_from([MACHINE.end(name) for name in NAMES]),
    st.sampled_from([MACHINE.start(name) for name in NAMES]),
    st.sampled_from([CONTEXT_KERNEL, CONTEXT_USER, 0, 1, 0x400000, 2**64 - 1, 2**64 - 4095]),
    st.integers(0, 2**64 - 1),
)
CHAINS = st.lists(
    st.tuples(
        st.one_of(
            st.lists(WORDS, max_size=12).map(lambda words: [CONTEXT_KERNEL, *words]),
            st.lists(WORDS, max_size=12),
        ),
        st.sampled_from([KERNEL_MODE, KERNEL_MODE, USER_MODE, 0, 5]),
    ),
    min_size=1,
    max_size=30,
)


def one_by_one(chain, mode):
    """Read a chain as the rules of this module's subject say, frame by frame."""
    if mode != KERNEL_MODE or len(chain) < 2 or chain[0] != CONTEXT_KERNEL:
        return NO_ENTRY_REASON
    inner = ""
    for place, word in enumerate(chain[1:]):
        # The instruction itself, then return addresses: the call stands before them.
        lookup = word if place == 0 else word - 1
        if 2**64 - 4095 <= lookup + 1 < 2**64:  # another context
            return UNCLASSIFIED
        name = MACHINE.name_at(lookup) if word >= 1 << 63 else ""
        point = entry_point(name) if "@" not in name else None
        if point is not None:
            can_hand_on = point.is_dispatcher and place > 0
            called = inner.partition("@")[0]
            return (
                entry_reason_of_called(point, called, CALLS) if can_hand_on else point.entry_reason
            )
        inner = name
    return UNCLASSIFIED


@settings(max_examples=examples(300))
@given(CHAINS, st.sampled_from([1, 7, 1 << 16]))
def test_any_chains_are_read_as_one_by_one(chains, block):
    with patch.object(chain_frames, "BLOCK_WORDS", block):
        found = entry_reasons_of([chain for chain, _ in chains], [mode for _, mode in chains])
    assert found == [one_by_one(chain, mode) for chain, mode in chains]


def test_more_entry_reasons_than_labels_are_unclassified():
    names = ["schedule", *(f"__x64_sys_call{number}" for number in range(40))]
    kernel = MadeUpKernel(names)
    with patch("prospect.assembly.entry_reasons.hit_reasons._MOST_LABELS", 10):
        told = label_samples(
            chained([kernel.chain("schedule", name) for name in names[1:]]), kernel.resolve, ""
        )
    assert len(told.entry_reasons) == 10
    assert np.count_nonzero(told.label == told.entry_reasons.index(UNCLASSIFIED)) == 32
