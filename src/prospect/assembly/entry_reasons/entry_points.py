"""Names of kernel functions → why the CPU was in the kernel.

An `EntryPoint` is a function through which the kernel is entered. Some are dispatchers (of system
calls, of interrupts, of softirqs): the function that they call determines the entry reason. The
names are those of Linux 4.18 to 6.18 on x86-64 and arm64.

Source, of Linux 6.18 unless a version is given:

- x86-64: ``arch/x86/entry/entry_64.S``, ``entry_64_compat.S``, ``syscall_64.c``; exceptions and
  vectors, ``arch/x86/include/asm/idtentry.h`` (from 5.8 on; before, ``entry_64.S``);
  ``entry_fred.c`` (from 6.9 on).
- arm64: ``arch/arm64/kernel/entry-common.c``, ``syscall.c``, ``smp.c``; ``entry.S`` (5.10).
- both: ``kernel/entry/common.c``, ``kernel/softirq.c``, ``kernel/irq/handle.c``, ``chip.c``,
  ``kernel/sched/idle.c``, ``kernel/kthread.c``, ``include/linux/syscalls.h``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prospect.profile.model import (
    ENTRY_REASON_EXCEPTION,
    ENTRY_REASON_IDLE,
    ENTRY_REASON_INTERRUPT,
    ENTRY_REASON_KERNEL_THREAD,
    ENTRY_REASON_NONE,
    ENTRY_REASON_SOFTIRQ,
    ENTRY_REASON_SYSCALL,
    ENTRY_REASON_UNCLASSIFIED,
    ENTRY_REASON_UNRECORDED,
)
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Container

# They call the system call's function, or jump to it; then this has their place in the chain.
CALL_DISPATCHERS = """
    do_syscall_64 x64_sys_call x32_sys_call ia32_sys_call do_fast_syscall_32 __do_fast_syscall_32
    do_int80_syscall_32 do_int80_emulation int80_emulation do_SYSENTER_32 do_syscall_32_irqs_on
    invoke_syscall el0_svc_common el0_svc_handler do_el0_svc do_el0_svc_compat el0_svc
    el0_svc_compat
"""
CALL_PATHS = """
    entry_SYSCALL_64 entry_SYSCALL_64_safe_stack entry_SYSCALL_64_after_hwframe
    entry_SYSCALL_64_trampoline syscall_return_via_sysret entry_SYSRETQ_unsafe_stack
    entry_SYSRETL_compat_unsafe_stack sysret32_from_system_call entry_SYSENTER_compat
    entry_SYSENTER_compat_after_hwframe entry_SYSCALL_compat entry_SYSCALL_compat_safe_stack
    entry_SYSCALL_compat_after_hwframe entry_INT80_compat asm_int80_emulation
    syscall_exit_to_user_mode syscall_enter_from_user_mode
    el0t_64_sync el0t_64_sync_handler el0t_32_sync el0t_32_sync_handler el0_sync el0_sync_handler
    el0_sync_compat el0_sync_compat_handler ret_to_user
"""
IRQ_DISPATCHERS = (
    "__handle_irq_event_percpu handle_percpu_devid_irq handle_percpu_devid_fasteoi_ipi"
)
IRQ_PATHS = """
    common_interrupt asm_common_interrupt do_IRQ ret_from_intr fred_extint el0_interrupt
    el1_interrupt gic_handle_irq do_interrupt_handler enter_el1_irq_or_nmi
"""
SOFTIRQ_DISPATCHERS = "handle_softirqs __do_softirq"
IDLE_LOOPS = """
    do_idle cpu_startup_entry start_secondary secondary_start_kernel rest_init start_kernel
    common_startup_64 secondary_startup_64 secondary_startup_64_no_verify x86_64_start_kernel
    x86_64_start_reservations __secondary_switched __primary_switched cpu_bringup_and_idle
    asm_cpu_bringup_and_idle default_idle default_idle_call arch_cpu_idle pv_native_safe_halt
    native_safe_halt acpi_safe_halt acpi_idle_do_entry acpi_idle_enter mwait_idle intel_idle
    intel_idle_irq intel_idle_ibrs cpuidle_enter cpuidle_enter_state poll_idle cpu_idle_poll
    cpu_do_idle psci_enter_idle_state xen_safe_halt default_enter_idle
"""
SIGNALS = "arch_do_signal_or_restart arch_do_signal do_signal"
# Tasks that begin at another function than kthread() and have no user-space program (yet).
THREADS = {
    "io_wq_worker": "io_uring worker",
    "io_wqe_worker": "io_uring worker",
    "io_sq_thread": "io_uring poller",
    "vhost_task_fn": "vhost",
    "call_usermodehelper_exec_async": "usermode helper",
}

# The unwinder ends a chain at once while the stack is being changed: between two tasks
# (``arch/x86/kernel/process_64.c`` __switch_to()), and at entry to and exit from exceptions and,
# more rarely, interrupts. Only counters that use non-maskable interrupts sample these places.
SWITCHES = """
    __switch_to __switch_to_asm __switch_to_xtra save_fpregs_to_fpstate switch_fpu_finish
    native_load_tls native_load_sp0 native_load_gs_index __rdgsbase_inactive __wrgsbase_inactive
    cpu_switch_to
"""
TRAP_PATHS = """
    error_entry error_return common_interrupt_return swapgs_restore_regs_and_return_to_usermode
    restore_regs_and_return_to_kernel native_irq_return_iret native_iret paranoid_entry
    paranoid_exit
"""

# Exceptions of idtentry.h that are not listed here have their own names, with blanks.
EXCEPTIONS = {
    "int3": "breakpoint",
    "debug_kernel": "debug",
    "debug_user": "debug",
    "nmi": "NMI",
    "nmi_kvm_vmx": "NMI",
    "end_repeat_nmi": "NMI",
    "__el1_pnmi": "NMI",
    "do_nmi": "NMI",
    "page_fault": "page fault",
    "async_page_fault": "page fault",
    "do_page_fault": "page fault",
    "do_async_page_fault": "page fault",
    "do_translation_fault": "page fault",
    "do_mem_abort": "page fault",
    "el0_da": "page fault",
    "el0_ia": "page fault",
    "el1_abort": "page fault",
    "general_protection": "general protection",
    "do_general_protection": "general protection",
    "do_int3": "breakpoint",
    "do_debug": "debug",
    "fred_hwexc": "(entry and exit)",
    "el1h_64_sync": "(entry and exit)",
    "el1h_64_sync_handler": "(entry and exit)",
    "el1_sync": "(entry and exit)",
    "el1_sync_handler": "(entry and exit)",
    "do_serror": "SError",
    "__sdei_handler": "SDEI event",
}
EXCEPTION = r"(?:asm_|fred_|xenpv_)?exc_(?:xenpv_)?(\w+)"
# The words after el0_ and el1_ in the functions for arm64's exception classes.
ARM64_CLASSES = {
    "fpsimd_acc": "floating-point access",
    "sve_acc": "SVE access",
    "sme_acc": "SME access",
    "fpsimd_exc": "floating-point error",
    "sys": "trapped instruction",
    "cp15": "trapped instruction",
    "pc": "alignment check",
    "sp": "alignment check",
    "undef": "invalid op",
    "inv": "(unknown)",
    "bti": "branch target",
    "dbg": "debug",
    "breakpt": "debug",
    "softstp": "debug",
    "watchpt": "debug",
    "brk64": "breakpoint",
    "bkpt32": "breakpoint",
    "fpac": "pointer authentication",
    "mops": "memory copy",
    "gcs": "guarded control stack",
}
ARM64_CLASS = r"el[01]_(\w+)"
ARM64_ERROR = r"el[01][th]?(?:_\d\d)?_error(?:_handler)?"
ARM64_IRQ = r"_{0,2}el[01][th]?(?:_\d\d)?_(?:irq|fiq)(?:_handler|_compat|_naked)?"

# By the function's name without sysvec_ and _interrupt; others have their own names, with blanks.
VECTORS = {
    "apic_timer": "local timer",
    "call_function_single": "function call",
    "call_function": "function call",
    "irq_work": "IRQ work",
    "error": "APIC error",
    "spurious_apic": "spurious",
    "xen_hvm_callback": "Xen event",
}
VECTOR = r"(?:asm_|fred_)?sysvec_(\w+?)(?:_interrupt|_ipi)?"
OLD_VECTORS = {
    "asm_spurious_interrupt": "spurious",
    "spurious_interrupt": "spurious",
    "apic_timer_interrupt": "local timer",
    "smp_apic_timer_interrupt": "local timer",
    "reschedule_interrupt": "reschedule",
    "smp_reschedule_interrupt": "reschedule",
    "call_function_interrupt": "function call",
    "smp_call_function_interrupt": "function call",
    "call_function_single_interrupt": "function call",
    "smp_call_function_single_interrupt": "function call",
    "irq_work_interrupt": "IRQ work",
    "smp_irq_work_interrupt": "IRQ work",
    "xen_hvm_callback_vector": "Xen event",
    "xen_evtchn_do_upcall": "Xen event",
    "__xen_evtchn_do_upcall": "Xen event",
    "__xen_pv_evtchn_do_upcall": "Xen event",
    "hyperv_callback_vector": "hyperv callback",
    "hyperv_vector_handler": "hyperv callback",
}
HANDLERS = {
    "arch_timer_handler_virt": "local timer",
    "arch_timer_handler_phys": "local timer",
    "xen_timer_interrupt": "local timer",
    "ipi_handler": "interprocessor",
    "do_handle_IPI": "interprocessor",
}
# Called next to the handlers.
AROUND_HANDLER = (
    r"_*irq_|add_interrupt|warn_no_thread|trace_|__traceiter|bpf_trace|perf_trace|"
    r"__x86_|srso_|retbleed_|gic_|_raw_spin"
)

# Names of softirq_to_name[]. An action that ends with a call jumps there, and the called function
# has its place in the chain. The unlock functions are frequent there: samples that were due while
# interrupts were masked arrive when these unmask them. hrtimer_run_softirq() ends with
# _raw_spin_unlock_irqrestore(), __run_timer_base() (before 6.9, __run_timers()) with
# _raw_spin_unlock_irq(). No other action ends so, and handle_softirqs() calls neither.
SOFTIRQS = {
    "tasklet_hi_action": "HI",
    "run_timer_softirq": "TIMER",
    "run_timer_base": "TIMER",
    "__run_timer_base": "TIMER",
    "__run_timers": "TIMER",
    "_raw_spin_unlock_irq": "TIMER",
    "tmigr_handle_remote": "TIMER",
    "net_tx_action": "NET_TX",
    "xfrm_dev_backlog": "NET_TX",
    "net_rx_action": "NET_RX",
    "net_rps_action_and_irq_enable": "NET_RX",
    "blk_done_softirq": "BLOCK",
    "blk_complete_reqs": "BLOCK",
    "irq_poll_softirq": "IRQ_POLL",
    "tasklet_action": "TASKLET",
    "tasklet_action_common": "TASKLET",
    "workqueue_softirq_action": "TASKLET",
    "sched_balance_softirq": "SCHED",
    "sched_balance_domains": "SCHED",
    "run_rebalance_domains": "SCHED",
    "rebalance_domains": "SCHED",
    "hrtimer_run_softirq": "HRTIMER",
    "_raw_spin_unlock_irqrestore": "HRTIMER",
    "rcu_core_si": "RCU",
    "rcu_core": "RCU",
    "rcu_process_callbacks": "RCU",
}

# Functions of system calls. Source: SYSCALL_DEFINEx() and arch/*/include/asm/syscall_wrapper.h.
CALL = r"(?:__(?:x64|ia32|arm64|s390x?|riscv|se|do)_(?:compat_)?sys_|(?:compat_)?SyS_|C_SYSC_)(\w+)"
# Each name that matches CALL, EXCEPTION, VECTOR or a pattern of arm64 contains one of these.
IN_EVERY_PATTERN = r"sys_|SyS_|SYSC_|exc_|sysvec_|el[01]"
# Targets of calls whose function only calls another.
IMPLEMENTATION = r"(?:ksys_|__sys_|do_sys_|sys_|kernel_|__do_|do_)(\w+)"
# Functions and stems whose system call has another name in user space.
CALLS = {
    "newstat": "stat",
    "newlstat": "lstat",
    "newfstat": "fstat",
    "newuname": "uname",
    "sendfile64": "sendfile",
    "umount": "umount2",
    "mmap_pgoff": "mmap",
    "vm_mmap_pgoff": "mmap",
    "__vm_munmap": "munmap",
    "kernel_clone": "clone",
    "do_sys_openat2": "openat",
    "core_sys_select": "select",
    "do_pselect": "pselect6",
    "do_group_exit": "exit_group",
    "do_mprotect_pkey": "mprotect",
    "do_prlimit": "prlimit64",
    "do_sigaction": "rt_sigaction",
    "sigprocmask": "rt_sigprocmask",
    "iterate_dir": "getdents64",
    "kern_select": "select",
    "path_mount": "mount",
    "fadvise64_64": "fadvise64",
}
# Functions called in addition to the call itself: tracing, accounting, and the work of the return.
AROUND_CALL = (
    r"syscall_|exit_to_user|enter_from_user|arm64_(?:exit|enter)|irqentry|_*audit_|task_work|"
    r"_*schedule|preempt_|_*cond_resched|dynamic_|fpregs_|switch_fpu|restore_fpregs|fpsimd_|"
    r"context_tracking|_*ct_|user_(?:enter|exit)|_*rseq|resume_user|uprobe_|mem_cgroup_|blkcg_|"
    r"fire_user|trace_|__traceiter|bpf_trace|perf_(?:syscall|trace)|ftrace_|_*secure|__seccomp|"
    r"add_random|do_notify_resume|do_syscall_trace|__x86_|srso_|retbleed_|clear_bhb|its_return|"
    r"entry_|(?:x64|x32|ia32)_sys_call|(?:do_)?el0_svc|invoke_syscall|_*(?:get|put)_user"
)


class EntryReason(NamedTuple):
    """Why the CPU was in the kernel: an ENTRY_REASON_*, and a name such as the system call's."""

    kind: int
    name: str = ""


class EntryPoint(NamedTuple):
    """The meaning of a function in a chain.

    Attributes:
        entry_reason: its reason, unless the function that it calls has one.
        is_dispatcher: whether the function that it calls may have one, see
            `entry_reason_of_called`.
    """

    entry_reason: EntryReason
    is_dispatcher: bool = False


NO_ENTRY_REASON = EntryReason(ENTRY_REASON_NONE)
UNCLASSIFIED = EntryReason(ENTRY_REASON_UNCLASSIFIED)
UNRECORDED = EntryReason(ENTRY_REASON_UNRECORDED)
IDLE = EntryReason(ENTRY_REASON_IDLE)
KERNEL_THREAD = EntryReason(ENTRY_REASON_KERNEL_THREAD)  # its name is the thread's
# In brackets: time of system calls without a name.
NEW_TASK = EntryReason(ENTRY_REASON_SYSCALL, "(new task)")
# A wait that began outside of a system call, if nothing more is known.
OUTSIDE_OF_CALLS = EntryReason(ENTRY_REASON_EXCEPTION, "page fault")
_TASK_SWITCH = EntryReason(ENTRY_REASON_SYSCALL, "(task switch)")
_CALL_PATH = EntryReason(ENTRY_REASON_SYSCALL, "(entry and exit)")
_TRAP_PATH = EntryReason(ENTRY_REASON_EXCEPTION, "(entry and exit)")
_IRQ_PATH = EntryReason(ENTRY_REASON_INTERRUPT, "(irq entry and exit)")
_SOFTIRQ_PATH = EntryReason(ENTRY_REASON_SOFTIRQ, "(softirq entry and exit)")

_BY_NAME: dict[str, EntryPoint] = {
    name: entry
    for known, entry in (
        (CALL_PATHS, EntryPoint(_CALL_PATH)),
        (CALL_DISPATCHERS, EntryPoint(_CALL_PATH, is_dispatcher=True)),
        ("emulate_vsyscall", EntryPoint(EntryReason(ENTRY_REASON_SYSCALL, "(vsyscall)"))),
        ("task_work_run", EntryPoint(EntryReason(ENTRY_REASON_SYSCALL, "(task_work_run)"))),
        ("ret_from_fork ret_from_fork_asm", EntryPoint(NEW_TASK)),
        (SIGNALS, EntryPoint(EntryReason(ENTRY_REASON_EXCEPTION, "signal"))),
        (IRQ_PATHS, EntryPoint(_IRQ_PATH)),
        (IRQ_DISPATCHERS, EntryPoint(_IRQ_PATH, is_dispatcher=True)),
        (SOFTIRQ_DISPATCHERS, EntryPoint(_SOFTIRQ_PATH, is_dispatcher=True)),
        ("kthread", EntryPoint(KERNEL_THREAD)),
        (IDLE_LOOPS, EntryPoint(IDLE)),
    )
    for name in known.split()
}
_BY_NAME |= {
    name: EntryPoint(EntryReason(kind, words))
    for kind, table in (
        (ENTRY_REASON_KERNEL_THREAD, THREADS),
        (ENTRY_REASON_EXCEPTION, EXCEPTIONS),
        (ENTRY_REASON_INTERRUPT, OLD_VECTORS),
    )
    for name, words in table.items()
}
_WITHOUT_OUTER_FRAMES = dict.fromkeys(SWITCHES.split(), _TASK_SWITCH)
_WITHOUT_OUTER_FRAMES |= dict.fromkeys(TRAP_PATHS.split(), _TRAP_PATH)


def entry_point(function: str) -> EntryPoint | None:
    """Return the entry point that a kernel function is, None if it is none."""
    function = function.partition(".")[0]  # without the compiler's .isra.0, .constprop.0
    known = _BY_NAME.get(function)
    if known is not None:
        return known
    if not re.search(IN_EVERY_PATTERN, function):  # faster for most functions
        return None
    entry_reason = _call(function) or _exception(function) or _interrupt(function)
    return EntryPoint(entry_reason) if entry_reason else None


def entry_reason_of_place(function: str) -> EntryReason | None:
    """Return the entry reason by the hit function alone, for chains without outer frames."""
    return _WITHOUT_OUTER_FRAMES.get(function.partition(".")[0])


def entry_reason_of_called(entry: EntryPoint, function: str, calls: Container[str]) -> EntryReason:
    """Return the entry reason of a dispatcher that calls a function.

    `calls` are the machine's system calls. A function that is none of them is a leaf of the
    dispatcher, or the target of a jump from a system call's function, whose frame is gone.
    """
    function = function.partition(".")[0]
    if not function:
        return entry.entry_reason
    if entry.entry_reason.kind == ENTRY_REASON_SOFTIRQ:
        name = SOFTIRQS.get(function)
        return EntryReason(ENTRY_REASON_SOFTIRQ, name) if name else entry.entry_reason
    if entry.entry_reason.kind == ENTRY_REASON_INTERRUPT:
        if re.match(AROUND_HANDLER, function):
            return entry.entry_reason
        return EntryReason(ENTRY_REASON_INTERRUPT, HANDLERS.get(function, function))
    if re.match(AROUND_CALL, function):
        return entry.entry_reason
    stem = re.fullmatch(IMPLEMENTATION, function)
    call = CALLS.get(function) or (stem.group(1) if stem else function)
    name = CALLS.get(call, call)
    return EntryReason(ENTRY_REASON_SYSCALL, name) if name in calls else entry.entry_reason


def _call(function: str) -> EntryReason | None:
    found = re.fullmatch(CALL, function)
    if not found:
        return None
    name = found.group(1)
    return EntryReason(ENTRY_REASON_SYSCALL, CALLS.get(name, name))


def _exception(function: str) -> EntryReason | None:
    found = re.fullmatch(EXCEPTION, function)
    if found:
        name = found.group(1)
        if name == "xen_hypervisor_callback":
            return EntryReason(ENTRY_REASON_INTERRUPT, "Xen event")
        return EntryReason(ENTRY_REASON_EXCEPTION, EXCEPTIONS.get(name, name.replace("_", " ")))
    if re.fullmatch(ARM64_ERROR, function):
        return EntryReason(ENTRY_REASON_EXCEPTION, "SError")
    found = re.fullmatch(ARM64_CLASS, function)
    if found and found.group(1) in ARM64_CLASSES:
        return EntryReason(ENTRY_REASON_EXCEPTION, ARM64_CLASSES[found.group(1)])
    return None


def _interrupt(function: str) -> EntryReason | None:
    if re.fullmatch(ARM64_IRQ, function):
        return _IRQ_PATH
    found = re.fullmatch(VECTOR, function)
    if not found:
        return None
    name = found.group(1)
    return EntryReason(ENTRY_REASON_INTERRUPT, VECTORS.get(name, name.replace("_", " ")))
