"""Names of kernel functions against the causes that they stand for, x86-64 and arm64."""

import pytest

from prospect.abi.syscall_names import called_names
from prospect.assembly.causes.entry_points import Cause, cause_of_called, entry_point
from prospect.profile.model import (
    CAUSE_EXCEPTION,
    CAUSE_IDLE,
    CAUSE_INTERRUPT,
    CAUSE_KERNEL_THREAD,
    CAUSE_SOFTIRQ,
    CAUSE_SYSCALL,
)


@pytest.mark.parametrize(
    ("function", "kind", "name"),
    [
        ("__x64_sys_read", CAUSE_SYSCALL, "read"),
        ("__se_sys_clone", CAUSE_SYSCALL, "clone"),
        ("__do_sys_newfstat", CAUSE_SYSCALL, "fstat"),
        ("__ia32_compat_sys_ioctl", CAUSE_SYSCALL, "ioctl"),
        ("__do_compat_sys_execve.constprop.0", CAUSE_SYSCALL, "execve"),
        ("__arm64_sys_futex", CAUSE_SYSCALL, "futex"),
        ("SyS_read", CAUSE_SYSCALL, "read"),
        ("entry_SYSCALL_64_after_hwframe", CAUSE_SYSCALL, "(entry and exit)"),
        ("el0t_64_sync_handler", CAUSE_SYSCALL, "(entry and exit)"),
        ("task_work_run", CAUSE_SYSCALL, "(task_work_run)"),
        ("ret_from_fork_asm", CAUSE_SYSCALL, "(new task)"),
        ("emulate_vsyscall", CAUSE_SYSCALL, "(vsyscall)"),
        ("asm_exc_page_fault", CAUSE_EXCEPTION, "page fault"),
        ("exc_page_fault", CAUSE_EXCEPTION, "page fault"),
        ("exc_general_protection", CAUSE_EXCEPTION, "general protection"),
        ("asm_exc_int3", CAUSE_EXCEPTION, "breakpoint"),
        ("exc_debug_user", CAUSE_EXCEPTION, "debug"),
        ("asm_exc_nmi", CAUSE_EXCEPTION, "NMI"),
        ("exc_device_not_available", CAUSE_EXCEPTION, "device not available"),
        ("arch_do_signal_or_restart", CAUSE_EXCEPTION, "signal"),
        ("el0_da", CAUSE_EXCEPTION, "page fault"),
        ("el1_abort", CAUSE_EXCEPTION, "page fault"),
        ("el0_undef", CAUSE_EXCEPTION, "invalid op"),
        ("el1h_64_error_handler", CAUSE_EXCEPTION, "SError"),
        ("asm_sysvec_apic_timer_interrupt", CAUSE_INTERRUPT, "local timer"),
        ("sysvec_apic_timer_interrupt", CAUSE_INTERRUPT, "local timer"),
        ("fred_sysvec_apic_timer_interrupt", CAUSE_INTERRUPT, "local timer"),
        ("smp_apic_timer_interrupt", CAUSE_INTERRUPT, "local timer"),
        ("asm_sysvec_reschedule_ipi", CAUSE_INTERRUPT, "reschedule"),
        ("sysvec_call_function_single", CAUSE_INTERRUPT, "function call"),
        ("asm_sysvec_hyperv_stimer0", CAUSE_INTERRUPT, "hyperv stimer0"),
        ("sysvec_xen_hvm_callback", CAUSE_INTERRUPT, "Xen event"),
        ("exc_xen_hypervisor_callback", CAUSE_INTERRUPT, "Xen event"),
        ("asm_common_interrupt", CAUSE_INTERRUPT, "(irq entry and exit)"),
        ("el1h_64_irq_handler", CAUSE_INTERRUPT, "(irq entry and exit)"),
        ("el0_irq", CAUSE_INTERRUPT, "(irq entry and exit)"),
        ("__el1_irq", CAUSE_INTERRUPT, "(irq entry and exit)"),
        ("el0t_64_fiq_handler", CAUSE_INTERRUPT, "(irq entry and exit)"),
        ("gic_handle_irq", CAUSE_INTERRUPT, "(irq entry and exit)"),
        ("handle_softirqs", CAUSE_SOFTIRQ, "(softirq entry and exit)"),
        ("__do_softirq", CAUSE_SOFTIRQ, "(softirq entry and exit)"),
        ("kthread", CAUSE_KERNEL_THREAD, ""),
        ("io_wq_worker", CAUSE_KERNEL_THREAD, "io_uring worker"),
        ("do_idle", CAUSE_IDLE, ""),
        ("cpu_idle_poll.isra.0", CAUSE_IDLE, ""),
        ("secondary_start_kernel", CAUSE_IDLE, ""),
    ],
)
def test_an_entry_point_tells_why(function, kind, name):
    point = entry_point(function)
    assert point is not None
    assert point.cause == Cause(kind, name)


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
    ("dispatcher", "called", "cause"),
    [
        ("do_syscall_64", "ksys_read", (CAUSE_SYSCALL, "read")),
        ("do_syscall_64", "kernel_wait4", (CAUSE_SYSCALL, "wait4")),
        ("do_syscall_64", "vm_mmap_pgoff", (CAUSE_SYSCALL, "mmap")),
        ("do_syscall_64", "ksys_mmap_pgoff", (CAUSE_SYSCALL, "mmap")),
        ("x64_sys_call", "__sys_sendto", (CAUSE_SYSCALL, "sendto")),
        ("do_syscall_64", "do_sys_poll", (CAUSE_SYSCALL, "poll")),
        ("do_syscall_64", "do_epoll_wait", (CAUSE_SYSCALL, "epoll_wait")),
        ("el0_svc_common.constprop.0", "kernel_clone", (CAUSE_SYSCALL, "clone")),
        ("invoke_syscall", "do_madvise.part.0", (CAUSE_SYSCALL, "madvise")),
        ("do_syscall_64", "", (CAUSE_SYSCALL, "(entry and exit)")),
        ("do_syscall_64", "exit_to_user_mode_loop", (CAUSE_SYSCALL, "(entry and exit)")),
        ("do_syscall_64", "syscall_trace_enter", (CAUSE_SYSCALL, "(entry and exit)")),
        ("do_syscall_64", "__rseq_handle_notify_resume", (CAUSE_SYSCALL, "(entry and exit)")),
        ("el0_svc", "do_notify_resume", (CAUSE_SYSCALL, "(entry and exit)")),
        ("__handle_irq_event_percpu", "vm_interrupt", (CAUSE_INTERRUPT, "vm_interrupt")),
        ("__handle_irq_event_percpu", "xen_timer_interrupt", (CAUSE_INTERRUPT, "local timer")),
        (
            "__handle_irq_event_percpu",
            "__irq_wake_thread",
            (CAUSE_INTERRUPT, "(irq entry and exit)"),
        ),
        ("__handle_irq_event_percpu", "", (CAUSE_INTERRUPT, "(irq entry and exit)")),
        ("handle_percpu_devid_irq", "arch_timer_handler_virt", (CAUSE_INTERRUPT, "local timer")),
        ("handle_percpu_devid_irq", "ipi_handler", (CAUSE_INTERRUPT, "interprocessor")),
        ("handle_softirqs", "net_rx_action", (CAUSE_SOFTIRQ, "NET_RX")),
        ("handle_softirqs", "run_timer_softirq", (CAUSE_SOFTIRQ, "TIMER")),
        ("__do_softirq", "run_rebalance_domains", (CAUSE_SOFTIRQ, "SCHED")),
        ("handle_softirqs", "rcu_core", (CAUSE_SOFTIRQ, "RCU")),
        ("handle_softirqs", "tasklet_action_common.isra.0", (CAUSE_SOFTIRQ, "TASKLET")),
        ("handle_softirqs", "_raw_spin_unlock_irqrestore", (CAUSE_SOFTIRQ, "HRTIMER")),
        ("__do_softirq", "_raw_spin_unlock_irq", (CAUSE_SOFTIRQ, "TIMER")),
        ("handle_softirqs", "xfrm_dev_backlog", (CAUSE_SOFTIRQ, "NET_TX")),
        ("handle_softirqs", "perf_trace_softirq", (CAUSE_SOFTIRQ, "(softirq entry and exit)")),
        ("handle_softirqs", "wakeup_softirqd", (CAUSE_SOFTIRQ, "(softirq entry and exit)")),
        ("handle_softirqs", "", (CAUSE_SOFTIRQ, "(softirq entry and exit)")),
    ],
)
def test_what_a_dispatcher_calls_tells_which(dispatcher, called, cause):
    point = entry_point(dispatcher)
    assert point is not None
    assert point.hands_on
    assert cause_of_called(point, called, called_names("")) == cause


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
    found = cause_of_called(point, called, called_names("aarch64"))
    assert found == Cause(CAUSE_SYSCALL, name)
