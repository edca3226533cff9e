"""The program that counts calls, run by the kernel as a probed function is entered.

Comes in: the maps that it writes to. Goes out: machine code for uprobes on x86-64. It sees the
registers of the caller: the function's first instruction has not run, so the return address lies on
top of the stack. It touches nothing of the process: return addresses stay what they are, and stacks
can be unwound as ever.

Source: uprobe_multi_link_handler() in ``kernel/trace/bpf_trace.c``, Linux 6.18; bpf-helpers(7).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from prospect.abi import bpf as abi
from prospect.abi.bpf import BPF_DW, BPF_W
from prospect.capture.counting.bpf_syscall_programs import pid_and_tid
from prospect.capture.kernel.bpf_assembler import (
    EXIT,
    Instruction,
    Label,
    Reg,
    alu,
    assemble,
    atomic_add,
    call,
    jump,
    jump_if,
    load,
    load_map,
    move,
    store,
)
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.capture.counting.bpf_syscall_programs import Namespace

R0, R1, R2, R3, R4, R6, R7, R8, FP = (
    *(Reg.R0, Reg.R1, Reg.R2, Reg.R3, Reg.R4),
    *(Reg.R6, Reg.R7, Reg.R8, Reg.FP),
)

# function u32 and CLOSED_BIT, pid u32, return address u64
KEY = struct.Struct("=IIQ")
# calls, when the first of them was (CLOCK_MONOTONIC, ns)
VALUE = struct.Struct("=2Q")
# Calls while no window was open: probes are not gone at once, and what they cost has to be known.
CLOSED_BIT = 1 << 31

# struct pt_regs of x86-64. Source: arch/x86/include/asm/ptrace.h
_SP_OFFSET = 152
_KEY_AT = -KEY.size
_FUNCTION, _PID, _CALLER = _KEY_AT, _KEY_AT + 4, _KEY_AT + 8
_VALUE_AT = _KEY_AT - VALUE.size
_CALLS, _FIRST_NS = _VALUE_AT, _VALUE_AT + 8
_INDEX = _VALUE_AT - 8


class Maps(NamedTuple):
    """File descriptors of the maps.

    Attributes:
        counts: a hash, KEY → VALUE.
        dropped: per-CPU array of one u64: calls that found no room in `counts`.
        gate: array of one u32: what is added to the function's number, 0 or CLOSED_BIT.
    """

    counts: int
    dropped: int
    gate: int


def call_program(maps: Maps, namespace: Namespace | None) -> bytes:
    """Return the code.

    Args:
        maps: where to count.
        namespace: number processes as this pid namespace does, None for the first one.
    """
    return assemble(
        (
            move(R6, R1),
            *pid_and_tid(namespace),
            alu(abi.BPF_RSH, R8, 32),
            store(BPF_W, FP, _PID, R8),
            move(R1, R6),
            call(abi.BPF_FUNC_get_attach_cookie),
            move(R7, R0),
            *_element(maps.gate),
            jump_if(abi.BPF_JEQ, R0, 0, "done"),
            load(BPF_W, R1, R0, 0),
            alu(abi.BPF_OR, R7, R1),
            store(BPF_W, FP, _FUNCTION, R7),
            store(BPF_DW, FP, _CALLER, 0),  # where the stack cannot be read
            *_read_return_address(),
            *_lookup(maps.counts),
            jump_if(abi.BPF_JNE, R0, 0, "count"),
            *_new_counts(maps.counts),
            jump_if(abi.BPF_JEQ, R0, 0, "dropped"),
            Label("count"),
            move(R1, 1),
            atomic_add(R0, 0, R1),
            jump("done"),
            Label("dropped"),
            *_element(maps.dropped),
            jump_if(abi.BPF_JEQ, R0, 0, "done"),
            move(R1, 1),
            atomic_add(R0, 0, R1),
            Label("done"),
            move(R0, 0),
            EXIT,
        )
    )


def _read_return_address() -> Sequence[Instruction | Label]:
    return (
        move(R1, FP),
        alu(abi.BPF_ADD, R1, _CALLER),
        move(R2, 8),
        load(BPF_DW, R3, R6, _SP_OFFSET),
        call(abi.BPF_FUNC_probe_read_user),
    )


def _element(map_fd: int) -> Sequence[Instruction | Label]:
    """Set R0 to the one element of an array; the kernel cannot know that it is there."""
    return (
        store(BPF_W, FP, _INDEX, 0),
        load_map(R1, map_fd),
        move(R2, FP),
        alu(abi.BPF_ADD, R2, _INDEX),
        call(abi.BPF_FUNC_map_lookup_elem),
    )


def _lookup(counts_fd: int) -> Sequence[Instruction | Label]:
    """Set R0 to the counts of the key on the stack, 0 if there are none."""
    return (
        load_map(R1, counts_fd),
        move(R2, FP),
        alu(abi.BPF_ADD, R2, _KEY_AT),
        call(abi.BPF_FUNC_map_lookup_elem),
    )


def _new_counts(counts_fd: int) -> Sequence[Instruction | Label]:
    """Make the counts of the key and set R0 to them, 0 if there is no room."""
    return (
        call(abi.BPF_FUNC_ktime_get_ns),
        store(BPF_DW, FP, _FIRST_NS, R0),
        store(BPF_DW, FP, _CALLS, 0),
        load_map(R1, counts_fd),
        move(R2, FP),
        alu(abi.BPF_ADD, R2, _KEY_AT),
        move(R3, FP),
        alu(abi.BPF_ADD, R3, _VALUE_AT),
        move(R4, abi.BPF_NOEXIST),  # another CPU may have made them in the meantime
        call(abi.BPF_FUNC_map_update_elem),
        *_lookup(counts_fd),
    )
