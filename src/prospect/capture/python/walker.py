"""The BPF program that walks the Python frames of the thread that a sample interrupted.

It runs in the handler of the clocks' events, before each sample is written, and writes records of
`abi.python_frames` into the same ring. It always returns 1: the sample is written in any case.

It finds the innermost frame first. CPython before 3.13 keeps the state of a thread under a key of
thread-specific data, which is known of glibc. Otherwise the thread is found in the lists of
interpreters and threads, by its number: the result of pthread_self(), which is the thread pointer
on x86-64, in musl too.

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
    BLOCKS_OFFSET,
    BUFFER_AT,
    CODE,
    CTX,
    ENTRY,
    FIRST_WORD,
    FOUND_AT,
    FP,
    FRAME,
    FRAMES_AT,
    HEAD,
    KEY,
    KEYS_A_BLOCK,
    LAST_FIELD,
    MOST_COPIES,
    MOST_KEYS,
    NEW_AT,
    PAIR,
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
    SLOT,
    TAG,
    THREAD_POINTER,
    ZERO,
    follow,
    frame_row,
    look_up,
    output,
    probe,
    read,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.capture.kernel.kernel_types import TaskOffsets
    from prospect.capture.python.walk_parts import Item, Maps

# An element of the map of threads: a task, its image, and the address of the thread's state; or 0
# and the state and the interpreter at which the search for it goes on. Other tasks overwrite it.
THREAD_BYTES = 40
THREADS_BITS = 12
_TASK, _IMAGE, _STATE, _NEXT_STATE, _NEXT_INTERPRETER = 0, 8, 16, 24, 32
# Interpreters and threads that one sample looks at, at most; the next one goes on from there.
_MOST_STEPS = 16
# Slots, as long as no name is looked for.
_MINE, _WHO, _LATER, _THREAD = SLOT, TAG, POINTER, CODE


def find_frame(maps: Maps) -> Iterator[Item]:
    """Go to "walk" with the innermost frame in `FRAME`, or to "sent" with a status."""
    yield from read(_LATER, 8)
    yield asm.load(abi.BPF_DW, R3, ENTRY, entry.INTERPRETERS)
    yield from probe("no_key")
    yield asm.load(abi.BPF_DW, R1, ENTRY, entry.KEY_ADDRESS)
    yield asm.jump_if(abi.BPF_JEQ, R1, 0, "by_number")
    # The key leads to the state that the thread has in its first interpreter.
    yield asm.load(abi.BPF_DW, R3, FP, _LATER)
    yield asm.jump_if(abi.BPF_JEQ, R3, 0, "by_key")
    yield from follow(entry.NEXT_INTERPRETER, PAIR, "by_key")
    yield asm.load(abi.BPF_DW, R1, FP, PAIR)
    yield asm.jump_if(abi.BPF_JNE, R1, 0, "by_number")
    yield Label("by_key")
    yield from _by_key()
    yield Label("by_number")
    yield from _by_number(maps)
    for label, status in (
        ("no_key", wire.NO_KEY),
        ("no_thread", wire.NO_THREAD),
        ("no_frame", wire.NO_FRAME),
        ("fault", wire.FAULT),
    ):
        yield Label(label)
        yield asm.store(abi.BPF_H, SCRATCH, 6, status)
        yield asm.jump("sent")
    yield Label("has_frame")
    yield asm.move(ROW, 0)


def _by_key() -> Iterator[Item]:
    """Go from the thread pointer by the key of thread states to the innermost frame."""
    yield asm.load(abi.BPF_DW, R3, ENTRY, entry.KEY_ADDRESS)
    yield from read(PAIR, 8)
    yield from probe("no_key")
    # Py_tss_t: whether the key is there, then the key
    yield asm.load(abi.BPF_W, R1, FP, PAIR)
    yield asm.jump_if(abi.BPF_JNE, R1, 1, "no_key")
    yield asm.load(abi.BPF_W, R1, FP, PAIR + 4)
    yield asm.jump_if(abi.BPF_JGE, R1, MOST_KEYS, "no_key")
    yield asm.load(abi.BPF_DW, R3, FP, THREAD_POINTER)
    yield asm.jump_if(abi.BPF_JGE, R1, KEYS_A_BLOCK, "far_key")
    yield asm.alu(abi.BPF_ADD, R3, cpython.GLIBC_KEYS_OFFSET)
    yield asm.jump("key_found")
    # The blocks of further keys are behind pointers.
    yield Label("far_key")
    yield asm.move(R2, R1)
    yield asm.alu(abi.BPF_RSH, R2, 5)
    yield asm.alu(abi.BPF_LSH, R2, 3)
    yield asm.alu(abi.BPF_ADD, R3, R2)
    yield asm.alu(abi.BPF_ADD, R3, BLOCKS_OFFSET)
    yield from read(HEAD, 8)
    yield from probe("no_thread")
    yield asm.load(abi.BPF_W, R1, FP, PAIR + 4)
    yield asm.alu(abi.BPF_AND, R1, KEYS_A_BLOCK - 1)
    yield asm.load(abi.BPF_DW, R3, FP, HEAD)
    yield asm.jump_if(abi.BPF_JEQ, R3, 0, "no_thread")
    yield Label("key_found")
    yield asm.alu(abi.BPF_LSH, R1, 4)
    yield asm.alu(abi.BPF_ADD, R3, R1)
    yield asm.alu(abi.BPF_ADD, R3, 8)
    yield from read(FRAME, 8)
    yield from probe("no_thread")
    yield asm.load(abi.BPF_DW, R3, FP, FRAME)
    yield asm.jump_if(abi.BPF_JEQ, R3, 0, "no_thread")
    yield from _frame_of_state("no_frame", "fault", "key")
    yield asm.jump("has_frame")


def _frame_of_state(none: str, failed: str, label: str) -> Iterator[Item]:
    """Put the innermost frame of the thread's state at R3 into `FRAME` and R3.

    Args:
        none: where to go if there is no frame.
        failed: where to go if it cannot be read.
        label: begins the labels of these instructions.
    """
    yield from follow(entry.THREAD_FRAME, FRAME, failed)
    yield asm.load(abi.BPF_W, R1, ENTRY, entry.CFRAME)
    yield asm.load(abi.BPF_DW, R3, FP, FRAME)
    yield asm.load_imm64(R2, cpython.NO_OFFSET)
    yield asm.jump_if(abi.BPF_JEQ, R1, R2, label + "_is_frame")
    yield asm.jump_if(abi.BPF_JEQ, R3, 0, none)
    yield from follow(entry.CFRAME, FRAME, failed)
    yield asm.load(abi.BPF_DW, R3, FP, FRAME)
    yield Label(label + "_is_frame")
    yield asm.jump_if(abi.BPF_JEQ, R3, 0, none)


def _by_number(maps: Maps) -> Iterator[Item]:
    """Look where the thread had its state before, or search the lists of all interpreters."""
    yield asm.store(abi.BPF_DW, SCRATCH, FOUND_AT, 0)
    yield asm.move(ROW, 0)
    yield asm.call(abi.BPF_FUNC_get_current_pid_tgid)
    yield asm.store(abi.BPF_DW, FP, _WHO, R0)
    yield asm.alu(abi.BPF_AND, R0, (1 << THREADS_BITS) - 1)
    yield asm.store(abi.BPF_DW, FP, HEAD, R0)
    yield from look_up(maps.threads, HEAD, R0)
    yield asm.store(abi.BPF_DW, FP, _MINE, R0)
    yield asm.load(abi.BPF_DW, R1, R0, _STATE)
    yield asm.store(abi.BPF_DW, FP, _THREAD, R1)
    yield asm.load(abi.BPF_DW, R1, R0, _TASK)
    yield asm.load(abi.BPF_DW, R2, FP, _WHO)
    yield asm.jump_if(abi.BPF_JNE, R1, R2, "search")
    yield asm.load(abi.BPF_DW, R1, R0, _IMAGE)
    yield asm.load(abi.BPF_DW, R2, ENTRY, entry.ID)
    yield asm.jump_if(abi.BPF_JNE, R1, R2, "search")
    yield asm.load(abi.BPF_DW, R1, FP, _THREAD)
    yield asm.jump_if(abi.BPF_JEQ, R1, 0, "resume")
    # If there are several interpreters, the thread may have a state in each.
    yield asm.load(abi.BPF_DW, R3, FP, _LATER)
    yield from follow(entry.NEXT_INTERPRETER, PAIR, "no_key")
    yield asm.load(abi.BPF_DW, R1, FP, PAIR)
    yield asm.jump_if(abi.BPF_JNE, R1, 0, "search")
    yield from _check_state("search", "search", "same_thread")
    yield Label("search")
    yield from _search()


def _search() -> Iterator[Item]:
    """Search the interpreters, the newest first: an older one called what a newer one runs."""
    yield Label("interpreter")
    yield asm.load(abi.BPF_DW, R3, FP, _LATER)
    yield asm.jump_if(abi.BPF_JEQ, R3, 0, "searched")
    yield asm.alu(abi.BPF_ADD, ROW, 1)
    yield asm.jump_if(abi.BPF_JGT, ROW, _MOST_STEPS, "searched")
    yield from follow(entry.THREADS, _THREAD, "no_key")
    yield asm.load(abi.BPF_DW, R3, FP, _LATER)
    yield from follow(entry.NEXT_INTERPRETER, _LATER, "no_key")
    yield Label("thread")
    yield asm.load(abi.BPF_DW, R3, FP, _THREAD)
    yield asm.jump_if(abi.BPF_JEQ, R3, 0, "interpreter")
    yield asm.alu(abi.BPF_ADD, ROW, 1)
    yield asm.jump_if(abi.BPF_JGT, ROW, _MOST_STEPS, "pause")
    yield from _check_state("other_thread", "idle_thread", "met")
    yield Label("idle_thread")
    yield asm.store(abi.BPF_DW, SCRATCH, FOUND_AT, 1)
    yield Label("other_thread")
    yield asm.load(abi.BPF_DW, R3, FP, _THREAD)
    yield from follow(entry.NEXT_THREAD, _THREAD, "no_thread")
    yield asm.jump("thread")
    yield Label("searched")
    yield asm.load(abi.BPF_DW, R1, SCRATCH, FOUND_AT)
    yield asm.jump_if(abi.BPF_JEQ, R1, 0, "no_thread")
    yield asm.jump("no_frame")
    yield Label("pause")
    yield from _note((_THREAD, _NEXT_STATE), (_LATER, _NEXT_INTERPRETER))
    yield asm.store(abi.BPF_DW, R1, _STATE, 0)
    yield asm.jump("searched")
    yield Label("resume")
    yield asm.load(abi.BPF_DW, R1, FP, _MINE)
    # Once: what it leads to may be gone.
    yield asm.store(abi.BPF_DW, R1, _TASK, 0)
    for slot, offset in ((_THREAD, _NEXT_STATE), (_LATER, _NEXT_INTERPRETER)):
        yield asm.load(abi.BPF_DW, R2, R1, offset)
        yield asm.store(abi.BPF_DW, FP, slot, R2)
    yield asm.jump("thread")


def _check_state(other: str, idle: str, label: str) -> Iterator[Item]:
    """Go on to "has_frame" with the frame of `_THREAD`, and remember that.

    Args:
        other: where to go if it is another thread's.
        idle: where to go if it runs nothing.
        label: name for the code that takes the frame. An outermost frame is checked before that:
            in 3.15 it may be the base of a thread that runs only C.
    """
    yield asm.load(abi.BPF_DW, R3, FP, _THREAD)
    yield from follow(entry.NUMBER, PAIR, other)
    yield asm.load(abi.BPF_DW, R1, FP, PAIR)
    yield asm.load(abi.BPF_DW, R2, FP, THREAD_POINTER)
    yield asm.jump_if(abi.BPF_JNE, R1, R2, other)
    yield asm.load(abi.BPF_DW, R3, FP, _THREAD)
    yield from _frame_of_state(idle, idle, label)
    yield asm.load(abi.BPF_W, R1, ENTRY, entry.BASE)
    yield asm.alu(abi.BPF_ADD, R3, R1)
    yield from follow(entry.BACK, PAIR, idle)
    yield asm.load(abi.BPF_DW, R1, FP, PAIR)
    yield asm.jump_if(abi.BPF_JNE, R1, 0, label)
    yield asm.load(abi.BPF_DW, R3, FP, FRAME)
    yield from follow(entry.OWNER, PAIR, label)
    yield asm.load(abi.BPF_B, R1, FP, PAIR)
    yield asm.jump_if(abi.BPF_JGE, R1, cpython.OWNED_BY_C, idle)
    yield Label(label)
    yield from _note((_THREAD, _STATE))
    yield asm.jump("has_frame")


def _note(*found: tuple[int, int]) -> Iterator[Item]:
    """Store task, image and some slots in the task's element of the map, to which R1 points then.

    Args:
        found: slots, each with its offset in the element.
    """
    yield asm.load(abi.BPF_DW, R1, FP, _MINE)
    for slot, offset in ((_WHO, _TASK), *found):
        yield asm.load(abi.BPF_DW, R2, FP, slot)
        yield asm.store(abi.BPF_DW, R1, offset, R2)
    yield asm.load(abi.BPF_DW, R2, ENTRY, entry.ID)
    yield asm.store(abi.BPF_DW, R1, _IMAGE, R2)


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
