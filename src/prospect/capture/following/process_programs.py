"""The BPF programs that let the events of a recording copy the stacks of some processes only.

A map has the ids of the followed processes. The programs at the raw tracepoints sched_process_fork
and sched_process_free maintain it: the child of a followed process is followed from its birth to
its end. The third program runs when a clock ticks or a thread leaves its CPU, and decides which
event writes the sample:

=================  =========================  ==========================================
the thread's       a clock's tick             a switch, from events with stacks
process is
=================  =========================  ==========================================
followed           a sample of a second       the event's own sample, or that of
                   event, with the copy       another one (`wait_stacks`)
not followed       the clock's own sample,    none; records of switches have the times
                   without callers
=================  =========================  ==========================================

If every process is followed, there is no map of them, and clocks write their own samples.

So each tick makes one sample. The second event is of the kind BPF_OUTPUT; it gets the registers
that the clock interrupted, so its sample is the same as the clock's own would be.

Defined by: ``include/trace/events/sched.h`` for the tracepoints' arguments;
pe_prog_func_proto() in ``kernel/trace/bpf_trace.c`` and bpf_overflow_handler() in
``kernel/events/core.c``, Linux 6.18, for the abilities of a program at an event.
"""

from __future__ import annotations

import os

from prospect.abi import bpf as abi
from prospect.abi.bpf import BPF_DW, BPF_W
from prospect.capture.kernel import bpf_assembler as asm
from prospect.capture.kernel.bpf_assembler import EXIT, REGISTERS, Label, Reg, assemble
from prospect.capture.kernel.kernel_types import add_offset
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.capture.kernel.bpf_assembler import Instruction

    Items = Iterator[Instruction | Label]

R0, R1, R2, R3, R4, R5, R6, R7, R8, _, FP = REGISTERS
_KEY, _VALUE = -8, -16
_DROP, _KEEP = 0, 1
# Places in the array of `Maps.walker`.
OF_RUNTIMES, OF_SWITCHES = 0, 1
# The offset in struct bpf_perf_event_data of the event's period, after the registers of the
# machine.
_PERIOD_OFFSET = {"x86_64": 168, "aarch64": 272}


class Maps(NamedTuple):
    """The maps and numbers that the program at events uses.

    Attributes:
        followed: descriptor of a map of the ids of followed processes; -1 if every one is followed.
        copies: descriptor of an array of the events that write copies: those of the first clock,
            one for each CPU, then those of the next; -1 if the clocks write all samples.
        walker: descriptor of an array for the program that reads frames of runtimes; -1 if there
            is no program at events, and that one looks up the process.
        cpus: the number of possible CPUs.
        periods: of the clocks, all different; a period identifies the clock that has ticked.
        copies_of_waits: whether the array of `walker` is also for the program that writes samples
            of switches (`wait_stacks`).
    """

    followed: int
    copies: int
    walker: int
    cpus: int
    periods: tuple[int, ...]
    copies_of_waits: bool = False

    @property
    def descriptors(self) -> tuple[int, ...]:
        """The descriptors that there are."""
        return tuple(fd for fd in (self.followed, self.copies, self.walker) if fd >= 0)


def fork_program(followed: int) -> tuple[Instruction | Label, ...]:
    """Return the program for sched_process_fork(parent, child)."""
    return (
        asm.move(R6, R1),
        *look_up_process(followed),
        asm.jump_if(abi.BPF_JEQ, R0, 0, "out"),
        asm.load(BPF_DW, R7, R6, 8),
        *_read_field(R7, "tgid", _KEY),
        asm.store(BPF_W, FP, _VALUE, 0),
        *asm.update(followed, (FP, _KEY), (FP, _VALUE), abi.BPF_ANY),
        Label("out"),
        asm.move(R0, 0),
        EXIT,
    )


def free_program(followed: int) -> tuple[Instruction | Label, ...]:
    """Return the program for sched_process_free(task): forget a process when its leader is freed.

    The kernel frees the leader after the last other thread, even if the leader ended first or
    another thread called exec.
    """
    return (
        asm.load(BPF_DW, R7, R1, 0),
        *_read_field(R7, "pid", _VALUE),
        *_read_field(R7, "tgid", _KEY),
        asm.load(BPF_W, R1, FP, _VALUE),
        asm.load(BPF_W, R2, FP, _KEY),
        asm.jump_if(abi.BPF_JNE, R1, R2, "out"),
        asm.load_map(R1, followed),
        *asm.address(R2, _KEY),
        asm.call(abi.BPF_FUNC_map_delete_elem),
        Label("out"),
        asm.move(R0, 0),
        EXIT,
    )


def sample_program(maps: Maps) -> bytes:
    """Return the program for the clocks, and for context switches (with a period of 1)."""
    return assemble(
        (
            asm.move(R6, R1),
            *(_leave_unfollowed(maps.followed) if maps.followed >= 0 else ()),
            # The next instruction runs only if there is no such program.
            asm.move(R1, R6),
            asm.load_map(R2, maps.walker),
            asm.move(R3, OF_RUNTIMES),
            asm.call(abi.BPF_FUNC_tail_call),
            *write_sample(maps),
        )
    )


def _leave_unfollowed(followed: int) -> Items:
    """End if the process is not followed: keep a clock's sample, drop that of a switch."""
    yield from look_up_process(followed)
    yield asm.jump_if(abi.BPF_JNE, R0, 0, "followed")
    yield from _load_period()
    yield asm.move(R0, _KEEP)
    yield asm.jump_if(abi.BPF_JNE, R7, 1, "kept")
    yield asm.move(R0, _DROP)
    yield Label("kept")
    yield EXIT
    yield Label("followed")


def write_sample(maps: Maps) -> Items:
    """Write the sample of a followed process, and end; R6 is the program's context."""
    yield from _load_period()
    if maps.copies_of_waits:
        yield asm.jump_if(abi.BPF_JNE, R7, 1, "of a clock")
        yield asm.move(R1, R6)
        yield asm.load_map(R2, maps.walker)
        yield asm.move(R3, OF_SWITCHES)
        yield asm.call(abi.BPF_FUNC_tail_call)
        yield asm.move(R0, _DROP)
        yield EXIT
        yield Label("of a clock")
    if maps.copies < 0:
        yield asm.move(R0, _KEEP)
        yield EXIT
        return
    for number, period in enumerate(maps.periods):
        yield asm.move(R8, number * maps.cpus)
        yield asm.jump_if(abi.BPF_JEQ, R7, period, "write copy")
    yield asm.move(R0, _KEEP)
    yield EXIT
    yield Label("write copy")
    yield asm.call(abi.BPF_FUNC_get_smp_processor_id)
    yield asm.alu(abi.BPF_ADD, R8, R0)
    yield asm.move(R1, R6)
    yield asm.load_map(R2, maps.copies)
    yield asm.move(R3, R8)
    yield from asm.address(R4, _KEY)
    yield asm.move(R5, 0)  # no raw data
    yield asm.call(abi.BPF_FUNC_perf_event_output)
    yield asm.move(R0, _DROP)
    yield EXIT


def look_up_process(followed: int) -> Items:
    """Set R0 to 0 if the current process is not followed."""
    yield asm.call(abi.BPF_FUNC_get_current_pid_tgid)
    yield asm.alu(abi.BPF_RSH, R0, 32)
    yield asm.store(BPF_W, FP, _KEY, R0)
    yield from asm.look_up(followed, _KEY)


def _load_period() -> Items:
    yield asm.load(BPF_DW, R7, R6, _PERIOD_OFFSET[os.uname().machine])


def _read_field(task: Reg, field: str, place: int) -> Items:
    yield asm.move(R3, task)
    yield add_offset(R3, field)
    yield from asm.address(R1, place)
    yield asm.move(R2, 4)
    yield asm.call(abi.BPF_FUNC_probe_read_kernel)
