"""The BPF programs that record switches and wake-ups of followed threads.

They run at the raw tracepoints sched_switch, sched_waking and sched_process_fork, and write samples
of two events into the rings of the recording. The raw data of a sample has the layout of the
tracepoint of the same name, so that perf reads it, and then our own fields. A map has the ids of
the followed threads, and the calls that they wait in. A child of a followed thread is followed from
its birth on. A thread that wakes a followed one is followed from then on: its work before explains
the wait. The recorder starts COMMAND, and a child of the recorder that reads COMMAND's mappings may
delay it. Neither is followed: otherwise all threads that wake them would be too.

Defined by: ``include/trace/events/sched.h`` for the arguments and the layout;
``arch/x86/include/asm/ptrace.h`` for the registers of a system call, Linux 6.18;
bpf_enable_priv_stack() in ``kernel/bpf/verifier.c`` for stacks of programs.
"""

from __future__ import annotations

from prospect.abi import bpf as abi
from prospect.abi.bpf import BPF_B, BPF_DW, BPF_W
from prospect.abi.syscall_names import syscall_names
from prospect.capture.kernel import bpf_assembler as asm
from prospect.capture.kernel.bpf_assembler import EXIT, REGISTERS, Label, assemble
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.capture.kernel.bpf_assembler import Instruction
    from prospect.capture.kernel.kernel_types import SwitchOffsets

    Items = Iterator[Instruction | Label]

# The layouts of the tracepoints, as tracefs shows them: name, offset, size.
COMMON_LAYOUT = (
    ("common_type", 0, 2),
    ("common_flags", 2, 1),
    ("common_preempt_count", 3, 1),
    ("common_pid", 4, 4),
)
SWITCH_LAYOUT = (
    *COMMON_LAYOUT,
    ("prev_comm[16]", 8, 16),
    ("prev_pid", 24, 4),
    ("prev_prio", 28, 4),
    ("prev_state", 32, 8),
    ("next_comm[16]", 40, 16),
    ("next_pid", 56, 4),
    ("next_prio", 60, 4),
)
WAKING_LAYOUT = (
    *COMMON_LAYOUT,
    ("comm[16]", 8, 16),
    ("pid", 24, 4),
    ("prio", 28, 4),
    ("target_cpu", 32, 4),
)
# Our own fields. `syscall`: number of the system call of the task that leaves its CPU, with
# COMPAT_BIT for a 32-bit one; -1 for none. `followed`: which of the two tasks are followed,
# FOLLOWS_PREV and FOLLOWS_NEXT. `ran_ns`: CPU time of the task that leaves, since its start: it
# gives the time of its arrival if the record of that is missing.
SWITCH_FIELDS = (("syscall", 64, 4), ("followed", 68, 4), ("ran_ns", 72, 8))
_SWITCH_BYTES, _WAKING_BYTES = 80, 36
FOLLOWS_PREV, FOLLOWS_NEXT = 1, 2
COMPAT_BIT = 1 << 16

_MACHINE = "x86_64"
_STILL_RUNNABLE = 0x100  # TASK_REPORT_MAX: the task was preempted
_STATE_BITS = 0xFF
_INTERRUPTIBLE, _UNINTERRUPTIBLE = 1, 2
_DEAD = 0x80
_IN_HARDIRQ, _IN_SOFTIRQ = 0x08, 0x10  # enum trace_flag_type
# struct pt_regs on x86-64: orig_ax, ip, cs.
_CALL_OFFSET, _CS_OFFSET = 120, 136
_USER_CS, _CS_OF_32_BIT = 3, 0x23
# Calls that send, and those that receive, or that wait for room or an answer.
_SENDING_CALLS = frozenset(
    (
        *("close", "write", "writev", "sendfile", "connect", "sendto", "sendmsg"),
        *("shutdown", "splice", "sendmmsg", "io_uring_enter"),
    )
)
_RECEIVING_CALLS = frozenset(
    (
        *("read", "readv", "recvfrom", "recvmsg", "recvmmsg", "accept", "accept4"),
        *("poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait", "epoll_pwait2"),
        *("write", "writev", "sendto", "sendmsg", "connect", "io_uring_enter"),
    )
)
OTHER_WAIT = -1  # the value of a thread that does not wait interruptibly in a call
_TASK_STACK_BYTES = 1 << 15  # THREAD_SIZE, with KASAN

R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, FP = REGISTERS
# On the stack: the record, a key of the map, a value of it or a register.
_DATA = -_SWITCH_BYTES
_KEY = _DATA - 8
_VALUE = _KEY - 8
_WAKE = -_WAKING_BYTES - 4
_WAKE_KEY = _WAKE - 8
_WAKE_REGISTER, _WAKE_WAIT = _WAKE + 8, _WAKE + 16  # where the name is written later


class Maps(NamedTuple):
    """The maps and numbers that the programs use.

    Attributes:
        threads: descriptor of a map: the call that each followed thread waits in.
        switches, wakes: descriptors of maps: the events of each CPU; `switches` is -1 if they are
            not recorded.
        every_thread: whether all are followed: then `threads` only has those that have waited.
        recorder_pid: the process that records; it and its children are not followed.
    """

    threads: int
    switches: int
    wakes: int
    every_thread: bool
    recorder_pid: int


def switch_program(maps: Maps, types: SwitchOffsets, number: int) -> bytes:
    """Return the program for sched_switch(preempt, prev, next, prev_state)."""
    if maps.switches < 0:
        return assemble(tuple(_leaving(maps)))
    return assemble(tuple(_switch(maps, types, number)))


def waking_program(maps: Maps, types: SwitchOffsets, number: int) -> bytes:
    """Return the program for sched_waking(p); arguments as of `switch_program`."""
    return assemble(tuple(_waking(maps, types, number)))


def fork_program(maps: Maps, types: SwitchOffsets) -> bytes:
    """Return the program for sched_process_fork(parent, child)."""
    return assemble(
        (
            asm.move(R6, R1),
            *_current_number(_KEY),
            *_look_up(maps, _KEY, unknown="out"),
            asm.load(BPF_DW, R7, R6, 8),
            *asm.read_kernel(R7, types.pid, _KEY, 4),
            asm.store(BPF_DW, FP, _VALUE, OTHER_WAIT),
            *_set_wait(maps, _KEY, _VALUE),
            Label("out"),
            asm.move(R0, 0),
            EXIT,
        )
    )


def _switch(maps: Maps, types: SwitchOffsets, number: int) -> Items:
    # R6 the arguments, R7 the next task, R8 the state of the one before, R9 which are followed.
    yield asm.move(R6, R1)
    yield asm.load(BPF_DW, R7, R6, 16)
    yield asm.move(R9, 0)
    yield from _current_number(_KEY)
    yield asm.store(BPF_W, FP, _DATA + 24, R0)
    yield asm.store(BPF_W, FP, _DATA + 4, R0)
    yield from _look_up(maps, _KEY, unknown="prev is not")
    yield asm.move(R9, FOLLOWS_PREV)
    yield Label("prev is not")
    yield from asm.read_kernel(R7, types.pid, _DATA + 56, 4)
    yield from _look_up(maps, _DATA + 56, unknown="next is not")
    yield asm.alu(abi.BPF_OR, R9, FOLLOWS_NEXT)
    yield Label("next is not")
    yield asm.jump_if(abi.BPF_JEQ, R9, 0, "out")
    yield from _state()
    yield asm.store(BPF_DW, FP, _DATA + 32, R8)
    yield asm.store(BPF_W, FP, _DATA, number)
    yield asm.store(BPF_W, FP, _DATA + 28, 0)
    yield asm.store(BPF_W, FP, _DATA + 60, 0)
    yield asm.store(BPF_W, FP, _DATA + 64, -1)
    yield asm.store(BPF_W, FP, _DATA + 68, R9)
    yield from asm.address(R1, _DATA + 8)
    yield asm.move(R2, 16)
    yield asm.call(abi.BPF_FUNC_get_current_comm)
    yield asm.load(BPF_DW, R1, R6, 8)
    yield from asm.read_kernel(R1, types.ran_ns, _DATA + 72, 8)
    yield from asm.read_kernel(R7, types.comm, _DATA + 40, 16)
    yield asm.move(R1, R9)
    yield asm.alu(abi.BPF_AND, R1, FOLLOWS_PREV)
    yield asm.jump_if(abi.BPF_JEQ, R1, 0, "write")
    yield asm.jump_if(abi.BPF_JEQ, R8, _STILL_RUNNABLE, "write")
    yield from _syscall()
    yield from _keep_wait(maps)
    yield Label("write")
    yield from _write(maps.switches, _DATA, _SWITCH_BYTES)
    if not maps.every_thread:
        # Another thread may get its id now.
        yield asm.jump_if(abi.BPF_JNE, R8, _DEAD, "out")
        yield asm.load(BPF_W, R1, FP, _DATA + 24)
        yield asm.store(BPF_W, FP, _KEY, R1)
        yield asm.load_map(R1, maps.threads)
        yield from asm.address(R2, _KEY)
        yield asm.call(abi.BPF_FUNC_map_delete_elem)
    yield Label("out")
    yield asm.move(R0, 0)
    yield EXIT


def _leaving(maps: Maps) -> Items:
    """Only keep the call that a thread waits in; registers as of `_switch`."""
    yield asm.move(R6, R1)
    yield from _state()
    yield asm.jump_if(abi.BPF_JEQ, R8, _STILL_RUNNABLE, "out")
    yield from _current_number(_DATA + 24)
    yield from _syscall()
    yield from _keep_wait(maps)
    yield Label("out")
    yield asm.move(R0, 0)
    yield EXIT


def _waking(maps: Maps, types: SwitchOffsets, number: int) -> Items:
    # R6 the arguments, R7 the task that is woken, R8 the interrupts that the CPU is in, R9 the
    # waker. A program with more than 48 bytes on the stack has its own stack (Linux 6.13), whose
    # place shows whether the CPU is in an interrupt.
    yield asm.move(R6, R1)
    yield asm.load(BPF_DW, R7, R6, 0)
    yield from asm.read_kernel(R7, types.pid, _WAKE + 24, 4)
    yield asm.store(BPF_DW, FP, _WAKE_WAIT, OTHER_WAIT)
    yield from asm.look_up(maps.threads, _WAKE + 24)
    yield asm.jump_if(abi.BPF_JEQ, R0, 0, "unknown" if maps.every_thread else "out")
    yield asm.load(BPF_DW, R1, R0, 0)
    yield asm.store(BPF_DW, FP, _WAKE_WAIT, R1)
    yield Label("unknown")
    yield from _current_number(_WAKE_KEY)
    yield asm.move(R9, R0)
    yield asm.store(BPF_W, FP, _WAKE + 4, R9)
    yield asm.store(BPF_W, FP, _WAKE + 28, 0)
    yield asm.store(BPF_W, FP, _WAKE + 32, -1)
    yield from _interrupts()
    yield from asm.read_kernel(R7, types.comm, _WAKE + 8, 16)
    yield asm.store(BPF_W, FP, _WAKE, number)
    yield asm.store(BPF_B, FP, _WAKE + 2, R8)
    if not maps.every_thread:
        yield asm.jump_if(abi.BPF_JNE, R8, 0, "write")
        yield from _look_up(maps, _WAKE_KEY, unknown="new")
        yield asm.jump("write")
        yield Label("new")
        yield asm.call(abi.BPF_FUNC_get_current_task_btf)
        yield asm.load(BPF_W, R1, R0, types.tgid)
        yield asm.jump_if(abi.BPF_JEQ, R1, maps.recorder_pid, "write")
        yield asm.load(BPF_DW, R1, R0, types.real_parent)
        yield asm.load(BPF_W, R1, R1, types.tgid)
        yield asm.jump_if(abi.BPF_JEQ, R1, maps.recorder_pid, "write")
        yield from _set_wait(maps, _WAKE_KEY, _WAKE)
    yield Label("write")
    yield from _write(maps.wakes, _WAKE, _WAKING_BYTES)
    yield Label("out")
    yield asm.move(R0, 0)
    yield EXIT


def _interrupts() -> Items:
    """Set R8 to the interrupts that this CPU is in; 0 if the thread itself wakes the other.

    An interrupt that comes while the kernel runs has its own stack. One that comes while the
    program runs uses the task's, with -1 instead of a call's number. So does an exception, which
    rarely wakes a thread. Packets for this machine arrive in a softirq that the sender's call
    runs: a thread in a call that sends wakes one in a call that receives.
    """
    yield asm.move(R8, _IN_HARDIRQ)
    yield asm.jump_if(abi.BPF_JEQ, R9, 0, "known")
    yield asm.call(abi.BPF_FUNC_get_current_task_btf)
    yield asm.move(R1, R0)
    yield asm.call(abi.BPF_FUNC_task_pt_regs)
    yield asm.move(R8, R0)
    yield asm.alu(abi.BPF_SUB, R8, FP)
    yield asm.move(R9, R0)
    yield from asm.read_kernel(R9, _CS_OFFSET, _WAKE_REGISTER, 8)
    yield asm.load(BPF_DW, R2, FP, _WAKE_REGISTER)
    yield asm.alu(abi.BPF_AND, R2, _USER_CS)
    yield asm.jump_if(abi.BPF_JNE, R2, _USER_CS, "of the kernel")
    yield from asm.read_kernel(R9, _CALL_OFFSET, _WAKE_REGISTER, 8)
    yield asm.load(BPF_DW, R1, FP, _WAKE_REGISTER)
    yield asm.jump_if(abi.BPF_JLT, R1, COMPAT_BIT, "in a call")
    yield asm.move(R8, _IN_HARDIRQ)
    yield asm.jump("known")
    yield Label("in a call")
    yield asm.jump_if(abi.BPF_JLT, R8, _TASK_STACK_BYTES, "the thread")
    yield asm.move(R8, _IN_SOFTIRQ)
    for number in _numbers(_SENDING_CALLS):
        yield asm.jump_if(abi.BPF_JEQ, R1, number, "sends")
    yield asm.jump("known")
    yield Label("sends")
    yield asm.load(BPF_DW, R1, FP, _WAKE_WAIT)
    for number in _numbers(_RECEIVING_CALLS):
        yield asm.jump_if(abi.BPF_JEQ, R1, number, "the thread")
    yield asm.jump("known")
    yield Label("of the kernel")
    yield asm.jump_if(abi.BPF_JLT, R8, _TASK_STACK_BYTES, "the thread")
    yield asm.move(R8, _IN_SOFTIRQ)
    yield asm.jump("known")
    yield Label("the thread")
    yield asm.move(R8, 0)
    yield Label("known")


def _current_number(key: int) -> Items:
    """Set R0, and a key, to the number of the thread that is on this CPU."""
    yield asm.call(abi.BPF_FUNC_get_current_pid_tgid)
    yield asm.alu(abi.BPF_LSH, R0, 32)
    yield asm.alu(abi.BPF_RSH, R0, 32)
    yield asm.store(BPF_W, FP, key, R0)


def _state() -> Items:
    """Set R8 to the state of the task that leaves, as the tracepoint's record has it."""
    yield asm.move(R8, _STILL_RUNNABLE)
    yield asm.load(BPF_DW, R1, R6, 0)
    yield asm.alu(abi.BPF_AND, R1, 0xFF)
    yield asm.jump_if(abi.BPF_JNE, R1, 0, "state is known")
    yield asm.load(BPF_DW, R8, R6, 24)
    yield asm.alu(abi.BPF_LSH, R8, 32)
    yield asm.alu(abi.BPF_RSH, R8, 32)
    yield asm.jump_if(abi.BPF_JEQ, R8, 0, "state is known")
    yield asm.alu(abi.BPF_AND, R8, _STATE_BITS)
    yield asm.jump_if(abi.BPF_JNE, R8, 0, "state is known")
    yield asm.move(R8, _UNINTERRUPTIBLE)  # for a lock of a kernel with real-time preemption
    yield Label("state is known")


def _syscall() -> Items:
    """Write the number of the call that the leaving thread is in.

    An exception or interrupt leaves -1 if a call leaves its number; a kernel thread has no
    registers of a program.
    """
    yield asm.call(abi.BPF_FUNC_get_current_task_btf)
    yield asm.move(R1, R0)
    yield asm.call(abi.BPF_FUNC_task_pt_regs)
    yield asm.move(R7, R0)
    yield from asm.read_kernel(R7, _CS_OFFSET, _VALUE, 8)
    yield asm.load(BPF_DW, R9, FP, _VALUE)
    yield asm.move(R1, R9)
    yield asm.alu(abi.BPF_AND, R1, _USER_CS)
    yield asm.jump_if(abi.BPF_JNE, R1, _USER_CS, "no call")
    yield from asm.read_kernel(R7, _CALL_OFFSET, _VALUE, 8)
    yield asm.load(BPF_DW, R1, FP, _VALUE)
    yield asm.jump_if(abi.BPF_JGE, R1, COMPAT_BIT, "no call")
    yield asm.alu(abi.BPF_AND, R9, 0xFF)
    yield asm.jump_if(abi.BPF_JNE, R9, _CS_OF_32_BIT, "native")
    yield asm.alu(abi.BPF_OR, R1, COMPAT_BIT)
    yield Label("native")
    yield asm.store(BPF_W, FP, _DATA + 64, R1)


def _keep_wait(maps: Maps) -> Items:
    """Keep the call, in R1, of the thread that leaves, for the thread that will wake it."""
    yield asm.jump_if(abi.BPF_JEQ, R8, _INTERRUPTIBLE, "interruptible")
    yield Label("no call")
    yield asm.move(R1, OTHER_WAIT)
    yield Label("interruptible")
    yield asm.store(BPF_DW, FP, _VALUE, R1)
    yield asm.load(BPF_W, R1, FP, _DATA + 24)
    yield asm.store(BPF_W, FP, _KEY, R1)
    # Written in place if the entry exists: an update takes longer.
    yield from asm.look_up(maps.threads, _KEY)
    yield asm.jump_if(abi.BPF_JEQ, R0, 0, "first wait")
    yield asm.load(BPF_DW, R1, FP, _VALUE)
    yield asm.store(BPF_DW, R0, 0, R1)
    yield asm.jump("kept")
    yield Label("first wait")
    yield from _set_wait(maps, _KEY, _VALUE)
    yield Label("kept")


def _look_up(maps: Maps, key: int, unknown: str) -> Items:
    """Go to a label if the thread at `key` is not followed."""
    if maps.every_thread:
        return
    yield from asm.look_up(maps.threads, key)
    yield asm.jump_if(abi.BPF_JEQ, R0, 0, unknown)


def _set_wait(maps: Maps, key: int, value: int) -> Items:
    """Follow the thread of a key, with the call that it waits in."""
    yield from asm.update(maps.threads, (FP, key), (FP, value), abi.BPF_ANY)


def _write(output: int, place: int, size: int) -> Items:
    yield asm.move(R1, R6)
    yield asm.load_map(R2, output)
    yield asm.load_imm64(R3, abi.BPF_F_CURRENT_CPU)
    yield from asm.address(R4, place)
    yield asm.move(R5, size)
    yield asm.call(abi.BPF_FUNC_perf_event_output)


def _numbers(calls: frozenset[str]) -> list[int]:
    return [number for number, name in syscall_names(_MACHINE).items() if name in calls]
