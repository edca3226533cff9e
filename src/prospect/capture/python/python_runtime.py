"""CPython's part of the walker: from a thread to its innermost frame, and from frame to frame.

CPython before 3.13 keeps the state of a thread under a key of thread-specific data, whose place is
known for glibc. Otherwise the thread is found in the lists of interpreters and threads, by the
result of pthread_self(), which is the thread pointer on x86-64, also in musl.

Defined by: `abi.cpython`.
"""

from __future__ import annotations

from prospect.abi import bpf as abi
from prospect.abi import cpython
from prospect.abi import runtime_frames as wire
from prospect.capture.capture_limits import MOST_PYTHON_STEPS
from prospect.capture.kernel import bpf_assembler as asm
from prospect.capture.kernel.bpf_assembler import Label
from prospect.capture.python.interpreters import ENTRY as AT
from prospect.capture.runtimes import image_entry as entry
from prospect.capture.runtimes.runtime import Runtime
from prospect.capture.runtimes.walk_names import send_bytes
from prospect.capture.runtimes.walk_parts import (
    CODE,
    ENTRY,
    FOUND_AT,
    FP,
    FRAME,
    HEAD,
    KEY,
    LAST,
    MARK,
    MINE,
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
    TAG,
    THREAD_POINTER,
    THREADS_BITS,
    add_slot,
    add_word,
    field,
    follow,
    jump_if_slot,
    jump_if_word,
    look_up,
    read,
    read_field,
    read_frame,
    read_window,
)
from prospect.capture.runtimes.walk_rooms import begin_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.capture.runtimes.walk_parts import Item, Maps

MOST_KEYS = 1024
KEYS_A_BLOCK = 32
_KEY_BYTES = 16
_BLOCKS_OFFSET = cpython.GLIBC_KEYS_OFFSET + KEYS_A_BLOCK * _KEY_BYTES
_MOST_COPIES = 1 << 16
# An element of the map of threads: a task, its image, and the address of the thread's state; or 0,
# and the state and the interpreter at which the search goes on. Other tasks overwrite it.
_TASK, _IMAGE, _STATE, _NEXT_STATE, _NEXT_INTERPRETER = 0, 8, 16, 24, 32
# Slots, before names are read.
_WHO, _LATER, _THREAD = TAG, POINTER, CODE


def find_frame(maps: Maps) -> Iterator[Item]:
    """Go to "has_frame" with the innermost frame in `FRAME`, or to one of `FAILURES`."""
    yield asm.load(abi.BPF_DW, R3, ENTRY, AT["first_interpreter"])
    yield from read(_LATER, 8, "no_key")
    yield asm.load(abi.BPF_DW, R1, ENTRY, AT["key"])
    yield asm.jump_if(abi.BPF_JEQ, R1, 0, "by_number")
    # The key leads to the state that the thread has in its first interpreter.
    yield asm.load(abi.BPF_DW, R3, SCRATCH, _LATER)
    yield asm.jump_if(abi.BPF_JEQ, R3, 0, "by_key")
    yield from follow(AT["next_interpreter"], PAIR, "by_key")
    yield from jump_if_slot(abi.BPF_JNE, PAIR, 0, "by_number")
    yield Label("by_key")
    yield from _by_key()
    yield Label("by_number")
    yield from _by_number(maps)


def _by_key() -> Iterator[Item]:
    """Go from the thread pointer by the key of thread states to the innermost frame."""
    yield asm.load(abi.BPF_DW, R3, ENTRY, AT["key"])
    yield from read(PAIR, 8, "no_key")
    # Py_tss_t: whether the key is there, then the key
    yield asm.load(abi.BPF_W, R1, SCRATCH, PAIR)
    yield asm.jump_if(abi.BPF_JNE, R1, 1, "no_key")
    yield asm.load(abi.BPF_W, R1, SCRATCH, PAIR + 4)
    yield asm.jump_if(abi.BPF_JGE, R1, MOST_KEYS, "no_key")
    yield asm.load(abi.BPF_DW, R3, FP, THREAD_POINTER)
    yield asm.jump_if(abi.BPF_JGE, R1, KEYS_A_BLOCK, "far_key")
    yield asm.alu(abi.BPF_ADD, R3, cpython.GLIBC_KEYS_OFFSET)
    yield asm.jump("key_found")
    # Further keys are in blocks, to which pointers lead.
    yield Label("far_key")
    yield asm.move(R2, R1)
    yield asm.alu(abi.BPF_RSH, R2, 5)
    yield asm.alu(abi.BPF_LSH, R2, 3)
    yield asm.alu(abi.BPF_ADD, R3, R2)
    yield asm.alu(abi.BPF_ADD, R3, _BLOCKS_OFFSET)
    yield from read(HEAD, 8, "no_thread")
    yield asm.load(abi.BPF_W, R1, SCRATCH, PAIR + 4)
    yield asm.alu(abi.BPF_AND, R1, KEYS_A_BLOCK - 1)
    yield asm.load(abi.BPF_DW, R3, SCRATCH, HEAD)
    yield asm.jump_if(abi.BPF_JEQ, R3, 0, "no_thread")
    yield Label("key_found")
    yield asm.alu(abi.BPF_LSH, R1, 4)
    yield asm.alu(abi.BPF_ADD, R3, R1)
    yield asm.alu(abi.BPF_ADD, R3, 8)
    yield from read(FRAME, 8, "no_thread")
    yield asm.load(abi.BPF_DW, R3, SCRATCH, FRAME)
    yield asm.jump_if(abi.BPF_JEQ, R3, 0, "no_thread")
    yield from _frame_of_state("no_frame", "fault", "key")
    yield asm.jump("has_frame")


def _frame_of_state(none: str, failed: str, label: str) -> Iterator[Item]:
    """Put the innermost frame of the thread's state at R3 into `FRAME` and R3.

    Args:
        none: label to go to if there is no frame.
        failed: label to go to if it cannot be read.
        label: prefix of the labels of these instructions.
    """
    yield from follow(AT["thread_frame"], FRAME, failed)
    yield asm.load(abi.BPF_W, R1, ENTRY, AT["cframe"])
    yield asm.load(abi.BPF_DW, R3, SCRATCH, FRAME)
    yield asm.load_imm64(R2, cpython.NO_OFFSET)
    yield asm.jump_if(abi.BPF_JEQ, R1, R2, label + "_is_frame")
    yield asm.jump_if(abi.BPF_JEQ, R3, 0, none)
    yield from follow(AT["cframe"], FRAME, failed)
    yield asm.load(abi.BPF_DW, R3, SCRATCH, FRAME)
    yield Label(label + "_is_frame")
    yield asm.jump_if(abi.BPF_JEQ, R3, 0, none)


def _by_number(maps: Maps) -> Iterator[Item]:
    """Look at the last place of the thread's state, or search the lists of all interpreters."""
    yield asm.store(abi.BPF_DW, SCRATCH, FOUND_AT, 0)
    yield asm.load(abi.BPF_DW, ROW, SCRATCH, FOUND_AT)
    yield asm.call(abi.BPF_FUNC_get_current_pid_tgid)
    yield asm.store(abi.BPF_DW, SCRATCH, _WHO, R0)
    yield asm.alu(abi.BPF_AND, R0, (1 << THREADS_BITS) - 1)
    yield asm.store(abi.BPF_DW, FP, KEY, R0)
    yield from look_up(maps.threads, KEY, R0)
    yield asm.store(abi.BPF_DW, FP, MINE, R0)
    yield asm.load(abi.BPF_DW, R1, R0, _STATE)
    yield asm.store(abi.BPF_DW, SCRATCH, _THREAD, R1)
    yield asm.load(abi.BPF_DW, R1, R0, _TASK)
    yield asm.load(abi.BPF_DW, R2, SCRATCH, _WHO)
    yield asm.jump_if(abi.BPF_JNE, R1, R2, "search")
    yield asm.load(abi.BPF_DW, R1, R0, _IMAGE)
    yield asm.load(abi.BPF_DW, R2, ENTRY, entry.ID)
    yield asm.jump_if(abi.BPF_JNE, R1, R2, "search")
    yield from jump_if_slot(abi.BPF_JEQ, _THREAD, 0, "resume")
    # If there are several interpreters, the thread may have a state in each.
    yield from read_field(_LATER, AT["next_interpreter"], PAIR, "no_key")
    yield from jump_if_slot(abi.BPF_JNE, PAIR, 0, "search")
    yield from _check_state("search", "search", "same_thread")
    yield Label("search")
    yield from _search()


def _search() -> Iterator[Item]:
    """Search the interpreters, the newest first: it runs calls of the older ones."""
    yield Label("interpreter")
    yield asm.may_go("searched")
    yield asm.load(abi.BPF_DW, R3, SCRATCH, _LATER)
    yield asm.jump_if(abi.BPF_JEQ, R3, 0, "searched")
    yield asm.alu(abi.BPF_ADD, ROW, 1)
    yield asm.jump_if(abi.BPF_JGT, ROW, MOST_PYTHON_STEPS, "searched")
    yield from follow(AT["threads"], _THREAD, "no_key")
    yield from read_field(_LATER, AT["next_interpreter"], _LATER, "no_key")
    yield Label("thread")
    yield asm.may_go("searched")
    yield asm.load(abi.BPF_DW, R3, SCRATCH, _THREAD)
    yield asm.jump_if(abi.BPF_JEQ, R3, 0, "interpreter")
    yield asm.alu(abi.BPF_ADD, ROW, 1)
    yield asm.jump_if(abi.BPF_JGT, ROW, MOST_PYTHON_STEPS, "pause")
    yield from _check_state("other_thread", "idle_thread", "met")
    yield Label("idle_thread")
    yield asm.store(abi.BPF_DW, SCRATCH, FOUND_AT, 1)
    yield Label("other_thread")
    yield from read_field(_THREAD, AT["next_thread"], _THREAD, "no_thread")
    yield asm.jump("thread")
    yield Label("searched")
    yield from jump_if_slot(abi.BPF_JEQ, FOUND_AT, 0, "no_thread")
    yield asm.jump("no_frame")
    yield Label("pause")
    yield from _note((_THREAD, _NEXT_STATE), (_LATER, _NEXT_INTERPRETER))
    yield asm.store(abi.BPF_DW, R1, _STATE, 0)
    yield asm.jump("searched")
    yield Label("resume")
    yield asm.load(abi.BPF_DW, R1, FP, MINE)
    # Resume only once: the state may be gone.
    yield asm.store(abi.BPF_DW, R1, _TASK, 0)
    for slot, offset in ((_THREAD, _NEXT_STATE), (_LATER, _NEXT_INTERPRETER)):
        yield asm.load(abi.BPF_DW, R2, R1, offset)
        yield asm.store(abi.BPF_DW, SCRATCH, slot, R2)
    yield asm.jump("thread")


def _check_state(other: str, idle: str, label: str) -> Iterator[Item]:
    """Go to "has_frame" with the frame of the thread state `_THREAD`, and note the state.

    Args:
        other: label to go to if it is another thread's.
        idle: label to go to if it has no frame.
        label: label of the code that takes the frame. An outermost frame is checked before that: in
            3.15 it may be the base of a thread that runs only C.
    """
    yield from read_field(_THREAD, AT["number"], PAIR, other)
    yield asm.load(abi.BPF_DW, R1, SCRATCH, PAIR)
    yield asm.load(abi.BPF_DW, R2, FP, THREAD_POINTER)
    yield asm.jump_if(abi.BPF_JNE, R1, R2, other)
    yield asm.load(abi.BPF_DW, R3, SCRATCH, _THREAD)
    yield from _frame_of_state(idle, idle, label)
    yield from add_word(R3, AT["base"])
    yield from follow(AT["back"], PAIR, idle)
    yield from jump_if_slot(abi.BPF_JNE, PAIR, 0, label)
    yield from read_field(FRAME, AT["owner"], PAIR, label)
    yield asm.load(abi.BPF_B, R1, SCRATCH, PAIR)
    yield asm.jump_if(abi.BPF_JGE, R1, cpython.OWNED_BY_C, idle)
    yield Label(label)
    yield from _note((_THREAD, _STATE))
    yield asm.jump("has_frame")


def _note(*found: tuple[int, int]) -> Iterator[Item]:
    """Store task, image and some slots in the task's element of the map; leave its address in R1.

    `found` are slots, each with its offset in the element.
    """
    yield asm.load(abi.BPF_DW, R1, FP, MINE)
    for slot, offset in ((_WHO, _TASK), *found):
        yield asm.load(abi.BPF_DW, R2, SCRATCH, slot)
        yield asm.store(abi.BPF_DW, R1, offset, R2)
    yield asm.load(abi.BPF_DW, R2, ENTRY, entry.ID)
    yield asm.store(abi.BPF_DW, R1, _IMAGE, R2)


def read_python_frame() -> Iterator[Item]:
    """Read the frame at `FRAME`: its code object, last instruction, mark, and the next frame."""
    yield asm.load(abi.BPF_DW, R3, SCRATCH, FRAME)
    yield from add_word(R3, AT["base"])
    # Since 3.11 frames are next to each other, each caller below its callee.
    yield from jump_if_word(abi.BPF_JEQ, AT["last_is_address"], 0, "frame_alone")
    yield from read_window(AT["size"], "walk_fault", down=True)
    yield asm.jump("frame_read")
    yield Label("frame_alone")
    yield from read_frame(AT["size"], "walk_fault")
    yield asm.alu(abi.BPF_ADD, R5, SCRATCH)
    yield Label("frame_read")
    for size, name, slot in (
        (abi.BPF_DW, "back", FRAME),
        (abi.BPF_B, "owner", MARK),
        (abi.BPF_DW, "last", LAST),
        (abi.BPF_DW, "code", CODE),
    ):
        yield from field(size, R2, AT[name])
        if slot == CODE:
            yield asm.alu(abi.BPF_AND, R2, -4)
        yield asm.store(abi.BPF_DW, SCRATCH, slot, R2)
    yield asm.load(abi.BPF_W, R4, ENTRY, AT["last_is_address"])
    yield asm.jump_if(abi.BPF_JEQ, R4, 0, "is_number")
    yield from _offset_of_instruction()
    yield Label("is_number")


def sign_code(_maps: Maps) -> Iterator[Item]:
    """Read the 8 bytes of the code object with its first line."""
    yield from read_field(CODE, AT["signature"], PAIR, "next")


def _offset_of_instruction() -> Iterator[Item]:
    """Turn the address in `LAST` into an offset in the code object.

    Without the global lock each thread may run a copy of the bytecode, whose number the frame has.
    """
    yield asm.load(abi.BPF_W, R4, ENTRY, AT["copy"])
    yield asm.load_imm64(R2, cpython.NO_OFFSET)
    yield asm.jump_if(abi.BPF_JEQ, R4, R2, "in_code")
    yield from field(abi.BPF_W, R4, AT["copy"])
    yield asm.jump_if(abi.BPF_JEQ, R4, 0, "in_code")
    yield asm.jump_if(abi.BPF_JGE, R4, _MOST_COPIES, "in_code")
    yield asm.alu(abi.BPF_LSH, R4, 3)
    yield asm.store(abi.BPF_DW, SCRATCH, SIZE, R4)
    yield from read_field(CODE, AT["copies"], POINTER, "no_copy")
    # the number of copies, then their addresses
    yield asm.load(abi.BPF_DW, R3, SCRATCH, POINTER)
    yield from add_slot(R3, SIZE)
    yield asm.alu(abi.BPF_ADD, R3, 8)
    yield from read(POINTER, 8, "no_copy")
    yield asm.load(abi.BPF_DW, R3, SCRATCH, LAST)
    yield asm.load(abi.BPF_DW, R1, SCRATCH, POINTER)
    yield asm.alu(abi.BPF_SUB, R3, R1)
    yield from add_word(R3, AT["instructions"])
    yield asm.jump("has_offset")
    yield Label("no_copy")
    yield asm.move(R3, 0)
    yield asm.jump("has_offset")
    yield Label("in_code")
    yield asm.load(abi.BPF_DW, R3, SCRATCH, LAST)
    yield asm.load(abi.BPF_DW, R2, SCRATCH, CODE)
    yield asm.alu(abi.BPF_SUB, R3, R2)
    yield Label("has_offset")
    yield asm.store(abi.BPF_DW, SCRATCH, LAST, R3)


# Defined by: `abi.cpython`; ``Include/cpython/unicodeobject.h`` for the state of a str.


def send_code(maps: Maps) -> Iterator[Item]:
    """Send name, file and lines of the code object in `CODE`."""
    # Send nothing if it is no code object, or is not in memory now.
    for pointer in ("name", "file", "lines"):
        yield from _read_object(AT[pointer])
    yield from begin_name("all_named")
    yield from _send_text(maps, wire.KIND_NAME, AT["name"], wire.MOST_NAME_BYTES)
    yield from _send_text(maps, wire.KIND_FILE, AT["file"], wire.MOST_FILE_BYTES)
    yield from _send_lines(maps)
    # A table that is swapped out is read with the next name, in minutes.
    yield Label("no_lines")


def _add_pointer() -> Iterator[Item]:
    """Turn the offset in R3 into an address in the object that was read."""
    yield from add_slot(R3, POINTER)


def _send_text(maps: Maps, kind: int, pointer: int, most: int) -> Iterator[Item]:
    yield from _read_object(pointer)
    # its state: 2 bits or more, then bytes a character in 3, compact, ascii
    label = f"compact_{kind}"
    yield asm.load(abi.BPF_W, R1, SCRATCH, HEAD + 16)
    yield asm.load(abi.BPF_W, R2, ENTRY, AT["state_shift"])
    yield asm.alu(abi.BPF_AND, R2, 31)
    yield asm.alu(abi.BPF_RSH, R1, R2)
    yield asm.move(R2, R1)
    yield asm.alu(abi.BPF_RSH, R2, 2)
    yield asm.alu(abi.BPF_AND, R2, 7)
    yield asm.move(R5, R2)
    yield asm.load(abi.BPF_W, R3, ENTRY, AT["compact"])
    yield asm.alu(abi.BPF_AND, R1, 64)
    yield asm.jump_if(abi.BPF_JEQ, R1, 0, label)
    yield asm.load(abi.BPF_W, R3, ENTRY, AT["ascii"])
    yield asm.alu(abi.BPF_OR, R5, wire.IS_ASCII)
    yield Label(label)
    yield asm.load(abi.BPF_DW, R4, SCRATCH, HEAD)
    yield asm.jump_if(abi.BPF_JLT, R4, most, label + "_fits")
    yield asm.move(R4, most)
    yield asm.alu(abi.BPF_OR, R5, wire.CUT)
    yield Label(label + "_fits")
    yield asm.alu(abi.BPF_RSH, R2, 1)
    yield asm.alu(abi.BPF_LSH, R4, R2)
    yield from _add_pointer()
    yield from send_bytes(maps, kind, most, label)


def _send_lines(maps: Maps) -> Iterator[Item]:
    yield from _read_object(AT["lines"])
    yield asm.load(abi.BPF_W, R3, ENTRY, AT["bytes"])
    yield asm.move(R5, 1)
    yield asm.load(abi.BPF_DW, R4, SCRATCH, HEAD)
    yield from _add_pointer()
    yield from send_bytes(maps, wire.KIND_LINES, wire.MOST_LINES_BYTES, "lines", "no_lines")


def _read_object(pointer: int) -> Iterator[Item]:
    """Follow a pointer of the code object; read the object's length and the 16 bytes after it."""
    yield from read_field(CODE, pointer, POINTER, "named")
    yield from read_field(POINTER, AT["length"], HEAD, "named", 24)


RUNTIME = Runtime(
    number=wire.CPYTHON, start=find_frame, frame=read_python_frame, sign=sign_code, send=send_code
)
