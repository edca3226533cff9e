"""The BPF programs that walk the frames of the thread that a sample interrupted.

They run in the handler of the clocks' events, before each sample is written, and write records of
`abi.runtime_frames` into the same ring. They return 1, so the kernel writes the sample. If another
program calls them, for followed processes, they write the sample as that one does
(`following.process_programs`).

`dispatcher` looks up the runtime in the process and calls its program, `walker`, which is loaded
when the first process of a runtime is met.

The memory of a process may change while it is read, or be hostile: every read may fail, every
number is bounded, and no loop exceeds `MOST_FRAMES`.

Defined by: ``kernel/trace/bpf_trace.c`` (pe_prog_func_proto) and ``kernel/events/core.c``
(bpf_overflow_handler), Linux 6.18.
"""

from __future__ import annotations

from prospect.abi import bpf as abi
from prospect.abi import runtime_frames as wire
from prospect.capture.following.process_programs import look_up_process, write_sample
from prospect.capture.kernel import bpf_assembler as asm
from prospect.capture.kernel.bpf_assembler import Label
from prospect.capture.runtimes import image_entry as entry
from prospect.capture.runtimes.walk_names import find_seen, note_function, send_names
from prospect.capture.runtimes.walk_parts import (
    BEGUN,
    CODE,
    COUNT_AT,
    CTX,
    ENTRY,
    FAILURES,
    FIRST_WORD,
    FP,
    FRAME,
    FRAMES_AT,
    HANDLE,
    KEY,
    LAST,
    MARK,
    NEW_AT,
    NOWHERE,
    R0,
    R1,
    R2,
    R3,
    R5,
    ROW,
    ROW_AT,
    SCRATCH,
    THREAD_POINTER,
    WINDOW_FROM_AT,
    ZERO,
    look_up,
    output,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.capture.following.process_programs import Maps as Chosen
    from prospect.capture.kernel.kernel_types import TaskOffsets
    from prospect.capture.runtimes.runtime import Runtime
    from prospect.capture.runtimes.walk_parts import Item, Maps


def dispatcher(maps: Maps, task: TaskOffsets, chosen: Chosen | None = None) -> list[Item]:
    """Return the program that runs at every sample.

    Args:
        task: of this kernel.
        chosen: maps of the program that calls it, or maps of the followed processes if events run
            it for these alone; None if events run it for every process.
    """
    return [
        *_look_up_process(chosen),
        *_find_entry(maps, task),
        asm.load(abi.BPF_W, R3, ENTRY, entry.RUNTIME),
        asm.move(R1, CTX),
        asm.load_map(R2, maps.walks),
        asm.call(abi.BPF_FUNC_tail_call),
        *_end(chosen),
    ]


def walker(
    maps: Maps, task: TaskOffsets, runtime: Runtime, chosen: Chosen | None = None
) -> list[Item]:
    """Return the program of a runtime; arguments as of `dispatcher`."""
    return [*_find_entry(maps, task), *walk_program(maps, runtime, chosen)]


def walk_program(maps: Maps, runtime: Runtime, chosen: Chosen | None = None) -> list[Item]:
    """Return the program of a runtime, except for the look-up of the process's entry."""
    return [
        *_begin(maps),
        *runtime.start(maps),
        *_failures(),
        Label("has_frame"),
        *find_seen(maps),
        *_walk(maps, runtime),
        *send_names(maps, runtime.send(maps)),
        *_send_stack(maps),
        *_end(chosen),
    ]


def _look_up_process(chosen: Chosen | None) -> Iterator[Item]:
    """Go to "out" if the process is not followed, unless the caller has checked that."""
    if chosen and chosen.walker < 0:
        yield asm.move(CTX, R1)
        yield from look_up_process(chosen.followed)
        yield asm.jump_if(abi.BPF_JEQ, R0, 0, "out")
        yield asm.move(R1, CTX)


def _end(chosen: Chosen | None) -> Iterator[Item]:
    yield Label("out")
    if chosen and chosen.walker >= 0:
        yield from write_sample(chosen)
    else:
        yield asm.move(R0, 1)
        yield asm.EXIT


def _find_entry(maps: Maps, task: TaskOffsets) -> Iterator[Item]:
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


def _begin(maps: Maps) -> Iterator[Item]:
    yield asm.store(abi.BPF_DW, FP, ZERO, 0)
    yield from look_up(maps.scratch, ZERO, SCRATCH)
    yield asm.store(abi.BPF_DW, SCRATCH, HANDLE, 0)
    yield asm.call(abi.BPF_FUNC_ktime_get_ns)
    yield asm.store(abi.BPF_DW, FP, BEGUN, R0)
    yield asm.load_imm64(R1, FIRST_WORD)
    yield asm.store(abi.BPF_DW, SCRATCH, 0, R1)
    yield asm.store(abi.BPF_DW, SCRATCH, COUNT_AT, 0)
    yield asm.load(abi.BPF_DW, R1, ENTRY, entry.ID)
    yield asm.store(abi.BPF_DW, SCRATCH, 16, R1)
    yield asm.store(abi.BPF_DW, SCRATCH, NEW_AT, 0)
    yield asm.load_imm64(R1, NOWHERE)
    yield asm.store(abi.BPF_DW, SCRATCH, WINDOW_FROM_AT, R1)


def _failures() -> Iterator[Item]:
    for label, status in FAILURES.items():
        yield Label(label)
        yield asm.store(abi.BPF_H, SCRATCH, 6, status)
        yield asm.jump("sent")


def _walk(maps: Maps, runtime: Runtime) -> Iterator[Item]:
    # 0, which the verifier does not know: otherwise it verifies each step, see `asm.may_go`.
    yield asm.load(abi.BPF_W, ROW, SCRATCH, COUNT_AT)
    yield Label("walk")
    yield asm.may_go("too_many")
    yield asm.jump_if(abi.BPF_JGE, ROW, wire.MOST_FRAMES, "too_many")
    yield from runtime.frame()
    # The number of rows is in memory, so to the verifier it may be any.
    yield asm.load(abi.BPF_W, R1, SCRATCH, COUNT_AT)
    yield asm.jump_if(abi.BPF_JGE, R1, wire.MOST_FRAMES, "too_many")
    yield asm.move(R5, R1)
    yield asm.alu(abi.BPF_LSH, R5, 4)
    yield asm.alu(abi.BPF_ADD, R5, SCRATCH)
    yield asm.store(abi.BPF_DW, FP, ROW_AT, R5)
    yield asm.alu(abi.BPF_ADD, R1, 1)
    yield asm.store(abi.BPF_W, SCRATCH, COUNT_AT, R1)
    for slot, size, offset in ((CODE, abi.BPF_DW, 0), (LAST, abi.BPF_W, 8), (MARK, abi.BPF_W, 12)):
        yield asm.load(abi.BPF_DW, R2, SCRATCH, slot)
        yield asm.store(size, R5, FRAMES_AT + offset, R2)
    if runtime.sign:
        yield from runtime.sign(maps)
    yield from note_function()
    yield Label("next")
    yield asm.alu(abi.BPF_ADD, ROW, 1)
    yield asm.load(abi.BPF_DW, R2, SCRATCH, FRAME)
    yield asm.jump_if(abi.BPF_JEQ, R2, 0, "walked")
    yield asm.jump("walk")
    yield Label("too_many")
    yield asm.store(abi.BPF_H, SCRATCH, 6, wire.TRUNCATED)
    yield asm.jump("walked")
    yield Label("walk_fault")
    yield asm.store(abi.BPF_H, SCRATCH, 6, wire.FAULT)
    yield Label("walked")


def _send_stack(maps: Maps) -> Iterator[Item]:
    yield asm.call(abi.BPF_FUNC_ktime_get_ns)
    yield asm.load(abi.BPF_DW, R1, FP, BEGUN)
    yield asm.alu(abi.BPF_SUB, R0, R1)
    yield asm.store(abi.BPF_W, SCRATCH, 12, R0)
    yield asm.load(abi.BPF_W, R5, SCRATCH, COUNT_AT)
    yield asm.jump_if(abi.BPF_JGT, R5, wire.MOST_FRAMES, "out")
    yield asm.alu(abi.BPF_LSH, R5, 4)
    yield asm.jump_if(abi.BPF_JNE, R5, 0, "has_frames")
    # One more word makes the record LEAST_RECORD_BYTES long.
    yield asm.store(abi.BPF_DW, SCRATCH, FRAMES_AT, R5)
    yield asm.move(R5, 8)
    yield Label("has_frames")
    yield asm.alu(abi.BPF_ADD, R5, wire.STACK_BYTES)
    yield from output(maps, SCRATCH, 0, None)
