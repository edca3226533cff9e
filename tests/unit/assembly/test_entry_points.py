"""Names of kernel functions against the entry reasons that they stand for, x86-64 and arm64."""

import pytest

from prospect.abi.syscall_names import called_names
from prospect.assembly.entry_reasons.entry_points import (
    EntryReason,
    entry_point,
    entry_reason_of_called,
)
from prospect.profile.model import (
    ENTRY_REASON_EXCEPTION,
    ENTRY_REASON_IDLE,
    ENTRY_REASON_INTERRUPT,
    ENTRY_REASON_KERNEL_THREAD,
    ENTRY_REASON_SOFTIRQ,
    ENTRY_REASON_SYSCALL,
)


@pytest.mark.parametrize(
    ("function", "kind", "name"),
    [
        ("__x64_sys_read", ENTRY_REASON_SYSCALL, "read"),
        ("__se_sys_clone", ENTRY_REASON_SYSCALL, "clone"),
        ("__do_sys_newfstat", ENTRY_REASON_SYSCALL, "fstat"),
        ("__ia32_compat_sys_ioctl", ENTRY_REASON_SYSCALL, "ioctl"),
        ("__do_compat_sys_execve.constprop.0", ENTRY_REASON_SYSCALL, "execve"),
        ("__arm64_sys_futex", ENTRY_REASON_SYSCALL, "futex"),
        ("SyS_read", ENTRY_REASON_SYSCALL, "read"),
        ("entry_SYSCALL_64_after_hwframe", ENTRY_REASON_SYSCALL, "(entry and exit)"),
        ("el0t_64_sync_handler", ENTRY_REASON_SYSCALL, "(entry and exit)"),
        ("task_work_run", ENTRY_REASON_SYSCALL, "(task_work_run)"),
        ("ret_from_fork_asm", ENTRY_REASON_SYSCALL, "(new task)"),
        ("emulate_vsyscall", ENTRY_REASON_SYSCALL, "(vsyscall)"),
        ("asm_exc_page_fault", ENTRY_REASON_EXCEPTION, "page fault"),
        ("exc_page_fault", ENTRY_REASON_EXCEPTION, "page fault"),
        ("exc_general_protection", ENTRY_REASON_EXCEPTION, "general protection"),
        ("asm_exc_int3", ENTRY_REASON_EXCEPTION, "breakpoint"),
        ("exc_debug_user", ENTRY_REASON_EXCEPTION, "debug"),
        ("asm_exc_nmi", ENTRY_REASON_EXCEPTION, "NMI"),
        ("exc_device_not_available", ENTRY_REASON_EXCEPTION, "device not available"),
        ("arch_do_signal_or_restart", ENTRY_REASON_EXCEPTION, "signal"),
        ("el0_da", ENTRY_REASON_EXCEPTION, "page fault"),
        ("el1_abort", ENTRY_REASON_EXCEPTION, "page fault"),
        ("el0_undef", ENTRY_REASON_EXCEPTION, "invalid op"),
        ("el1h_64_error_handler", ENTRY_REASON_EXCEPTION, "SError"),
        ("asm_sysvec_apic_timer_interrupt", ENTRY_REASON_INTERRUPT, "local timer"),
        ("sysvec_apic_timer_interrupt", ENTRY_REASON_INTERRUPT, "local timer"),
        ("fred_sysvec_apic_timer_interrupt", ENTRY_REASON_INTERRUPT, "local timer"),
        ("smp_apic_timer_interrupt", ENTRY_REASON_INTERRUPT, "local timer"),
        ("asm_sysvec_reschedule_ipi", ENTRY_REASON_INTERRUPT, "reschedule"),
        ("sysvec_call_function_single", ENTRY_REASON_INTERRUPT, "function call"),
        ("asm_sysvec_hyperv_stimer0", ENTRY_REASON_INTERRUPT, "hyperv stimer0"),
        ("sysvec_xen_hvm_callback", ENTRY_REASON_INTERRUPT, "Xen event"),
        ("exc_xen_hypervisor_callback", ENTRY_REASON_INTERRUPT, "Xen event"),
        ("asm_common_interrupt", ENTRY_REASON_INTERRUPT, "(irq entry and exit)"),
        ("el1h_64_irq_handler", ENTRY_REASON_INTERRUPT, "(irq entry and exit)"),
        ("el0_irq", ENTRY_REASON_INTERRUPT, "(irq entry and exit)"),
        ("__el1_irq", ENTRY_REASON_INTERRUPT, "(irq entry and exit)"),
        ("el0t_64_fiq_handler", ENTRY_REASON_INTERRUPT, "(irq entry and exit)"),
        ("gic_handle_irq", ENTRY_REASON_INTERRUPT, "(irq entry and exit)"),
        ("handle_softirqs", ENTRY_REASON_SOFTIRQ, "(softirq entry and exit)"),
        ("__do_softirq", ENTRY_REASON_SOFTIRQ, "(softirq entry and exit)"),
        ("kthread", ENTRY_REASON_KERNEL_THREAD, ""),
        ("io_wq_worker", ENTRY_REASON_KERNEL_THREAD, "io_uring worker"),
        ("do_idle", ENTRY_REASON_IDLE, ""),
        ("cpu_idle_poll.isra.0", ENTRY_REASON_IDLE, ""),
        ("secondary_start_kernel", ENTRY_REASON_IDLE, ""),
    ],
)
def test_an_entry_point_tells_why(function, kind, name):
    point = entry_point(function)
    assert point is not None
    assert point.entry_reason == EntryReason(kind, name)


@pytest.mark.parametrize(
    "function",
    [
        "",
        ".",
        "schedule",
        "vfs_read",
        "net_rx_action",  # ksoftirqd's and others': only who calls it tells
        "rcu_core",  # also rcuc's own
        "sys_off_notify",
        "exc",
        "el0",
        "elf_load",
        "el0_svcs",
        "sysvec",
        "kthread_stop",
        "__x64_sys_",
        "bpf_prog_0123_do_idle",
    ],
)
def test_other_functions_tell_nothing(function):
    assert entry_point(function) is None


@pytest.mark.parametrize(
    ("dispatcher", "called", "entry_reason"),
    [
        ("do_syscall_64", "ksys_read", (ENTRY_REASON_SYSCALL, "read")),
        ("do_syscall_64", "kernel_wait4", (ENTRY_REASON_SYSCALL, "wait4")),
        ("do_syscall_64", "vm_mmap_pgoff", (ENTRY_REASON_SYSCALL, "mmap")),
        ("do_syscall_64", "ksys_mmap_pgoff", (ENTRY_REASON_SYSCALL, "mmap")),
        ("x64_sys_call", "__sys_sendto", (ENTRY_REASON_SYSCALL, "sendto")),
        ("do_syscall_64", "do_sys_poll", (ENTRY_REASON_SYSCALL, "poll")),
        ("do_syscall_64", "do_epoll_wait", (ENTRY_REASON_SYSCALL, "epoll_wait")),
        ("el0_svc_common.constprop.0", "kernel_clone", (ENTRY_REASON_SYSCALL, "clone")),
        ("invoke_syscall", "do_madvise.part.0", (ENTRY_REASON_SYSCALL, "madvise")),
        ("do_syscall_64", "", (ENTRY_REASON_SYSCALL, "(entry and exit)")),
        ("do_syscall_64", "exit_to_user_mode_loop", (ENTRY_REASON_SYSCALL, "(entry and exit)")),
        ("do_syscall_64", "syscall_trace_enter", (ENTRY_REASON_SYSCALL, "(entry and exit)")),
        (
            "do_syscall_64",
            "__rseq_handle_notify_resume",
            (ENTRY_REASON_SYSCALL, "(entry and exit)"),
        ),
        ("el0_svc", "do_notify_resume", (ENTRY_REASON_SYSCALL, "(entry and exit)")),
        ("__handle_irq_event_percpu", "vm_interrupt", (ENTRY_REASON_INTERRUPT, "vm_interrupt")),
        (
            "__handle_irq_event_percpu",
            "xen_timer_interrupt",
            (ENTRY_REASON_INTERRUPT, "local timer"),
        ),
        (
            "__handle_irq_event_percpu",
            "__irq_wake_thread",
            (ENTRY_REASON_INTERRUPT, "(irq entry and exit)"),
        ),
        ("__handle_irq_event_percpu", "", (ENTRY_REASON_INTERRUPT, "(irq entry and exit)")),
        (
            "handle_percpu_devid_irq",
            "arch_timer_handler_virt",
            (ENTRY_REASON_INTERRUPT, "local timer"),
        ),
        ("handle_percpu_devid_irq", "ipi_handler", (ENTRY_REASON_INTERRUPT, "interprocessor")),
        ("handle_softirqs", "net_rx_action", (ENTRY_REASON_SOFTIRQ, "NET_RX")),
        ("handle_softirqs", "run_timer_softirq", (ENTRY_REASON_SOFTIRQ, "TIMER")),
        ("__do_softirq", "run_rebalance_domains", (ENTRY_REASON_SOFTIRQ, "SCHED")),
        ("handle_softirqs", "rcu_core", (ENTRY_REASON_SOFTIRQ, "RCU")),
        ("handle_softirqs", "tasklet_action_common.isra.0", (ENTRY_REASON_SOFTIRQ, "TASKLET")),
        ("handle_softirqs", "_raw_spin_unlock_irqrestore", (ENTRY_REASON_SOFTIRQ, "HRTIMER")),
        ("__do_softirq", "_raw_spin_unlock_irq", (ENTRY_REASON_SOFTIRQ, "TIMER")),
        ("handle_softirqs", "xfrm_dev_backlog", (ENTRY_REASON_SOFTIRQ, "NET_TX")),
        (
            "handle_softirqs",
            "perf_trace_softirq",
            (ENTRY_REASON_SOFTIRQ, "(softirq entry and exit)"),
        ),
        ("handle_softirqs", "wakeup_softirqd", (ENTRY_REASON_SOFTIRQ, "(softirq entry and exit)")),
        ("handle_softirqs", "", (ENTRY_REASON_SOFTIRQ, "(softirq entry and exit)")),
    ],
)
def test_what_a_dispatcher_calls_tells_which(dispatcher, called, entry_reason):
    point = entry_point(dispatcher)
    assert point is not None
    assert point.is_dispatcher
    assert entry_reason_of_called(point, called, called_names("")) == entry_reason


@pytest.mark.parametrize(
    ("called", "name"),
    [
        ("get_random_u16", "(entry and exit)"),  # a leaf of invoke_syscall()
        ("__task_pid_nr_ns", "(entry and exit)"),  # what getpid() and others jump to
        ("blkdev_llseek", "(entry and exit)"),
        ("__f_unlock_pos", "(entry and exit)"),
        ("iterate_dir", "getdents64"),
        ("do_sigaction", "rt_sigaction"),
        ("sigprocmask", "rt_sigprocmask"),
        ("ksys_read", "read"),
    ],
)
def test_no_call_has_a_name_that_the_machine_has_no_call_of(called, name):
    point = entry_point("invoke_syscall")
    assert point is not None
    found = entry_reason_of_called(point, called, called_names("aarch64"))
    assert found == EntryReason(ENTRY_REASON_SYSCALL, name)
