"""The walker's first part: from the thread that was interrupted to its innermost Python frame.

CPython before 3.13 keeps the state of a thread under a key of glibc's thread-specific data. Later
versions describe their lists of interpreters and threads, in which the thread is found by its
number: what pthread_self() returns, which is the thread pointer on x86-64, in musl too.
"""

from __future__ import annotations

from prospect.abi import bpf as abi
from prospect.abi import cpython
from prospect.abi import python_frames as wire
from prospect.capture.kernel import bpf_assembler as asm
from prospect.capture.kernel.bpf_assembler import Label
from prospect.capture.python import image_entry as entry
from prospect.capture.python.walk_parts import (
    BLOCKS_OFFSET,
    CODE,
    ENTRY,
    FOUND_AT,
    FP,
    FRAME,
    HEAD,
    KEYS_A_BLOCK,
    MOST_KEYS,
    PAIR,
    POINTER,
    R0,
    R1,
    R2,
    R3,
    ROW,
    SCRATCH,
    SLOT,
    TAG,
    THREAD_POINTER,
    follow,
    look_up,
    probe,
    read,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

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
    yield asm.load(abi.BPF_DW, R3, ENTRY, entry.KEY_ADDRESS)
    yield asm.jump_if(abi.BPF_JEQ, R3, 0, "by_number")
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
    yield from follow(entry.THREAD_FRAME, FRAME, "fault")
    yield asm.load(abi.BPF_W, R1, ENTRY, entry.CFRAME)
    yield asm.load(abi.BPF_DW, R3, FP, FRAME)
    yield asm.load_imm64(R2, cpython.NO_OFFSET)
    yield asm.jump_if(abi.BPF_JEQ, R1, R2, "read_frame")
    yield asm.jump_if(abi.BPF_JEQ, R3, 0, "no_frame")
    yield from follow(entry.CFRAME, FRAME, "fault")
    yield asm.load(abi.BPF_DW, R3, FP, FRAME)
    yield Label("read_frame")
    yield asm.jump_if(abi.BPF_JEQ, R3, 0, "no_frame")
    yield asm.jump("has_frame")


def _by_number(maps: Maps) -> Iterator[Item]:
    """Look where the thread had its state before, or search the lists of all interpreters."""
    yield asm.store(abi.BPF_DW, SCRATCH, FOUND_AT, 0)
    yield asm.move(ROW, 0)
    yield from read(_LATER, 8)
    yield asm.load(abi.BPF_DW, R3, ENTRY, entry.INTERPRETERS)
    yield from probe("no_key")
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
    yield from follow(entry.THREAD_FRAME, FRAME, idle)
    yield asm.load(abi.BPF_DW, R3, FP, FRAME)
    yield asm.jump_if(abi.BPF_JEQ, R3, 0, idle)
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
