"""The BPF program that walks the Python frames of the thread that a sample interrupted.

Comes in: maps, offsets in the kernel's structures. Goes out: instructions, for `bpf_assembler`. The
program runs in the handler of the clocks' events, before each sample is written, and writes records
of `abi.python_frames` into the same ring. It always returns 1: the sample is written in any case.

All that it reads of a process may change while it is read, or be made to mislead it: every read may
fail, every number is bounded, no loop goes on for more than `MOST_FRAMES`.

Defined by: ``kernel/trace/bpf_trace.c`` (pe_prog_func_proto) and ``kernel/events/core.c``
(bpf_overflow_handler), Linux 6.18, for when it runs and what it may call.
"""

from __future__ import annotations

from prospect.abi import bpf as abi
from prospect.abi import cpython
from prospect.abi import python_frames as wire
from prospect.capture.kernel import bpf_assembler as asm
from prospect.capture.kernel.bpf_assembler import Label, Reg
from prospect.capture.python import image_entry as entry
from prospect.capture.python.walk_names import find_new, send_names
from prospect.capture.python.walk_parts import (
    BEGUN,
    BUFFER_AT,
    CODE,
    CTX,
    ENTRY,
    FIRST_WORD,
    FP,
    FRAME,
    FRAMES_AT,
    HEAD,
    KEY,
    LAST_FIELD,
    MOST_COPIES,
    NEW_AT,
    POINTER,
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    ROW,
    SCRATCH,
    SIZE,
    THREAD_POINTER,
    ZERO,
    follow,
    frame_row,
    look_up,
    output,
    probe,
    read,
)
from prospect.capture.python.walk_thread import find_frame

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.capture.python.kernel_types import TaskOffsets
    from prospect.capture.python.walk_parts import Item, Maps


def walker(maps: Maps, task: TaskOffsets) -> list[Item]:
    """Return the program."""
    return [
        *_find_entry(maps, task),
        *find_frame(maps),
        *_walk(),
        *find_new(maps),
        *send_names(maps),
        *_send_stack(maps),
        Label("out"),
        asm.move(R0, 1),
        asm.EXIT,
    ]


def _find_entry(maps: Maps, task: TaskOffsets) -> Iterator[Item]:
    """Look up the image that the task runs, and take the CPU's scratch."""
    yield asm.move(CTX, R1)
    yield asm.call(abi.BPF_FUNC_get_current_task_btf)
    yield asm.load(abi.BPF_DW, R1, R0, task.mm)
    yield asm.jump_if(abi.BPF_JEQ, R1, 0, "out")
    for number, offset in enumerate((task.start_code, task.start_stack, task.start_brk)):
        yield asm.load(abi.BPF_DW, R2, R1, offset)
        yield asm.store(abi.BPF_DW, FP, KEY + 8 * number, R2)
    yield asm.load(abi.BPF_DW, R2, R0, task.thread_pointer)
    yield asm.store(abi.BPF_DW, FP, THREAD_POINTER, R2)
    yield from look_up(maps.images, KEY, ENTRY)
    yield asm.store(abi.BPF_DW, FP, ZERO, 0)
    yield from look_up(maps.scratch, ZERO, SCRATCH)
    yield asm.call(abi.BPF_FUNC_ktime_get_ns)
    yield asm.store(abi.BPF_DW, FP, BEGUN, R0)
    yield asm.load_imm64(R1, FIRST_WORD)
    yield asm.store(abi.BPF_DW, SCRATCH, 0, R1)
    yield asm.store(abi.BPF_DW, SCRATCH, 8, 0)
    yield asm.load(abi.BPF_DW, R1, ENTRY, entry.ID)
    yield asm.store(abi.BPF_DW, SCRATCH, 16, R1)
    yield asm.store(abi.BPF_DW, SCRATCH, NEW_AT, 0)


def _walk() -> Iterator[Item]:
    """Write down the frames from the inside out."""
    yield Label("walk")
    yield asm.move(R1, SCRATCH)
    yield asm.alu(abi.BPF_ADD, R1, BUFFER_AT)
    yield asm.load(abi.BPF_W, R2, ENTRY, entry.SIZE)
    yield asm.jump_if(abi.BPF_JGT, R2, cpython.MOST_FRAME_BYTES, "walk_fault")
    yield asm.load(abi.BPF_DW, R3, FP, FRAME)
    yield asm.load(abi.BPF_W, R4, ENTRY, entry.BASE)
    yield asm.alu(abi.BPF_ADD, R3, R4)
    yield asm.call(abi.BPF_FUNC_probe_read_user)
    yield asm.jump_if(abi.BPF_JNE, R0, 0, "walk_fault")
    yield from _field(abi.BPF_DW, R2, entry.CODE)
    yield asm.alu(abi.BPF_AND, R2, -4)
    yield from _field(abi.BPF_DW, R3, entry.LAST)
    yield asm.load(abi.BPF_W, R4, ENTRY, entry.LAST_IS_ADDRESS)
    yield asm.jump_if(abi.BPF_JEQ, R4, 0, "is_number")
    yield from _offset_of_instruction()
    yield Label("is_number")
    yield from _field(abi.BPF_B, R4, entry.OWNER)
    yield from frame_row(R5)
    yield asm.store(abi.BPF_DW, R5, FRAMES_AT, R2)
    yield asm.store(abi.BPF_W, R5, FRAMES_AT + 8, R3)
    yield asm.store(abi.BPF_W, R5, FRAMES_AT + 12, R4)
    yield asm.alu(abi.BPF_ADD, ROW, 1)
    yield from _field(abi.BPF_DW, R2, entry.BACK)
    yield asm.store(abi.BPF_DW, FP, FRAME, R2)
    yield asm.jump_if(abi.BPF_JEQ, R2, 0, "walked")
    yield asm.jump_if(abi.BPF_JLT, ROW, wire.MOST_FRAMES, "walk")
    yield asm.store(abi.BPF_H, SCRATCH, 6, wire.TRUNCATED)
    yield asm.jump("walked")
    yield Label("walk_fault")
    yield asm.store(abi.BPF_H, SCRATCH, 6, wire.FAULT)
    yield Label("walked")
    yield asm.store(abi.BPF_W, SCRATCH, 8, ROW)


def _offset_of_instruction() -> Iterator[Item]:
    """Turn the address in R3 into an offset in the code object in R2.

    Without the global lock each thread may run a copy of the bytecode: the frame says which one.
    """
    yield asm.load(abi.BPF_W, R4, ENTRY, entry.COPY)
    yield asm.load_imm64(R5, cpython.NO_OFFSET)
    yield asm.jump_if(abi.BPF_JEQ, R4, R5, "in_code")
    yield asm.store(abi.BPF_DW, FP, CODE, R2)
    yield asm.store(abi.BPF_DW, FP, HEAD, R3)
    yield from _field(abi.BPF_W, R4, entry.COPY)
    yield asm.jump_if(abi.BPF_JEQ, R4, 0, "in_code")
    yield asm.jump_if(abi.BPF_JGE, R4, MOST_COPIES, "in_code")
    yield asm.alu(abi.BPF_LSH, R4, 3)
    yield asm.store(abi.BPF_DW, FP, SIZE, R4)
    yield asm.move(R3, R2)
    yield from follow(entry.COPIES, POINTER, "no_copy")
    # the number of copies, then their addresses
    yield asm.load(abi.BPF_DW, R3, FP, POINTER)
    yield asm.load(abi.BPF_DW, R1, FP, SIZE)
    yield asm.alu(abi.BPF_ADD, R3, R1)
    yield asm.alu(abi.BPF_ADD, R3, 8)
    yield from read(POINTER, 8)
    yield from probe("no_copy")
    yield asm.load(abi.BPF_DW, R2, FP, CODE)
    yield asm.load(abi.BPF_DW, R3, FP, HEAD)
    yield asm.load(abi.BPF_DW, R1, FP, POINTER)
    yield asm.alu(abi.BPF_SUB, R3, R1)
    yield asm.load(abi.BPF_W, R1, ENTRY, entry.INSTRUCTIONS)
    yield asm.alu(abi.BPF_ADD, R3, R1)
    yield asm.jump("is_number")
    yield Label("no_copy")
    yield asm.load(abi.BPF_DW, R2, FP, CODE)
    yield asm.move(R3, 0)
    yield asm.jump("is_number")
    yield Label("in_code")
    yield asm.alu(abi.BPF_SUB, R3, R2)


def _field(size: int, dst: Reg, offset_of: int) -> Iterator[Item]:
    """Load what the buffer has at an offset of the entry."""
    yield asm.load(abi.BPF_W, R1, ENTRY, offset_of)
    yield asm.jump_if(abi.BPF_JGT, R1, LAST_FIELD, "walk_fault")
    yield asm.alu(abi.BPF_ADD, R1, SCRATCH)
    yield asm.load(size, dst, R1, BUFFER_AT)


def _send_stack(maps: Maps) -> Iterator[Item]:
    yield asm.call(abi.BPF_FUNC_ktime_get_ns)
    yield asm.load(abi.BPF_DW, R1, FP, BEGUN)
    yield asm.alu(abi.BPF_SUB, R0, R1)
    yield asm.store(abi.BPF_W, SCRATCH, 12, R0)
    yield asm.load(abi.BPF_W, R5, SCRATCH, 8)
    yield asm.jump_if(abi.BPF_JGT, R5, wire.MOST_FRAMES, "out")
    yield asm.alu(abi.BPF_LSH, R5, 4)
    yield asm.alu(abi.BPF_ADD, R5, wire.STACK_BYTES)
    yield from output(maps, SCRATCH, 0, None)
