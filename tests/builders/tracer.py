"""A tracer such as others run: a BPF program at each system call's entry, that takes its time."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager

from prospect.abi import bpf as abi
from prospect.abi import constants
from prospect.abi.attr import EventAttr
from prospect.capture.events.tracepoints import tracepoint_id
from prospect.capture.kernel import bpf_assembler as asm
from prospect.capture.kernel import bpf_objects
from prospect.capture.kernel.bpf_assembler import EXIT, Label, Reg
from prospect.capture.kernel.perf_syscalls import perf_event_open


@contextmanager
def tracing(turns):
    """Run a program at each system call's entry, on all CPUs, that asks for the time so often."""
    code = [
        asm.move(Reg.R6, 0),
        Label("turn"),
        asm.call(abi.BPF_FUNC_ktime_get_ns),
        asm.alu(abi.BPF_ADD, Reg.R6, 1),
        asm.jump_if(abi.BPF_JLT, Reg.R6, turns, "turn"),
        asm.move(Reg.R0, 0),
        EXIT,
    ]
    program = bpf_objects._load_program(
        "others", asm.assemble(code), abi.BPF_PROG_TYPE_TRACEPOINT, 0
    )
    number = tracepoint_id("raw_syscalls", "sys_enter")
    attr = EventAttr(type=constants.PERF_TYPE_TRACEPOINT, config=number, sample_period=1)
    event = perf_event_open(attr.pack(), -1, 0)
    try:
        fcntl.ioctl(event, constants.PERF_EVENT_IOC_SET_BPF, program)
        yield
    finally:
        os.close(event)
        os.close(program)
