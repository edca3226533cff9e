"""V8's part of the walker: from a thread's registers to the frames of its JavaScript functions.

V8 keeps frame pointers. While JavaScript runs, the frame register has the innermost frame, and r13
leads to the Isolate. If JavaScript called C++, the Isolate has the address of the last frame before
C++. C++ uses r13 for other values, so the walk remembers each thread's Isolate. The table of
builtins shows whether an address is an Isolate.

Defined by: `abi.v8`; struct pt_regs in ``arch/x86/include/asm/ptrace.h`` of Linux.
"""

from __future__ import annotations

from prospect.abi import bpf as abi
from prospect.abi import runtime_frames as wire
from prospect.abi import v8
from prospect.capture.kernel import bpf_assembler as asm
from prospect.capture.kernel.bpf_assembler import Label
from prospect.capture.runtimes import image_entry as entry
from prospect.capture.runtimes.runtime import Runtime
from prospect.capture.runtimes.walk_names import remember_seen, search_seen
from prospect.capture.runtimes.walk_parts import (
    BLOB_AT,
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
    MIX_CODE,
    OWN,
    PAIR,
    POINTER,
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    SCRATCH,
    TAG,
    THREADS_BITS,
    WINDOW_AT,
    copy,
    follow,
    jump_if_slot,
    jump_if_word,
    look_up,
    read,
    read_field,
    read_window,
)
from prospect.capture.runtimes.walk_rooms import begin_name
from prospect.capture.v8.images import ENTRY as AT
from prospect.capture.v8.new_functions import NEWS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.capture.runtimes.walk_parts import Item, Maps

# struct pt_regs of x86-64.
_R13, _R12, _RBP, _R9, _RIP = 16, 24, 32, 64, 128
# An element of the map of threads: a task, its image, its Isolate, and the start of the builtins.
_TASK, _IMAGE, _ISOLATE, _BUILTINS = 0, 8, 16, 24
# Kept from frame to frame: the Isolate, the outermost frame, the frame's instruction, the mark of
# the first frame, and the start of the builtins.
_MY_ISOLATE, _OUTERMOST, _AT, _RUNS, _MY_BUILTINS = OWN
# Slots until there is a frame.
_WHO, _MAYBE = TAG, POINTER
# Slots until there is a function: the bytecode that runs, and the offset in it.
_BYTECODE, _OFFSET = CODE, PAIR
_SMI_SHIFT = 32
_MOST_OFFSET = 1 << 24
# News of compiled code is on pieces of so many bits, at most so many at one sample.
_PIECE_BITS, _MOST_PIECES = 8, 8
_STATE_MASK = (1 << THREADS_BITS) - 1


def find_v8_frame(maps: Maps) -> Iterator[Item]:
    """Go to "has_frame" with the innermost frame in `FRAME`, or to one of `FAILURES`."""
    yield asm.call(abi.BPF_FUNC_get_current_task_btf)
    yield asm.move(R1, R0)
    yield asm.call(abi.BPF_FUNC_task_pt_regs)
    yield asm.store(abi.BPF_DW, SCRATCH, FOUND_AT, 0)
    registers = {_RBP: FRAME, _RIP: _AT, _R12: _BYTECODE, _R9: _OFFSET, _R13: _MAYBE}
    for register, slot in registers.items():
        yield asm.load(abi.BPF_DW, R1, R0, register)
        yield asm.store(abi.BPF_DW, SCRATCH, slot, R1)
    yield asm.alu(abi.BPF_SUB, R1, v8.ISOLATE_REGISTER_BIAS)
    yield asm.store(abi.BPF_DW, SCRATCH, _MAYBE, R1)
    yield from _find_isolate(maps)
    yield from _find_innermost()
    yield asm.jump("has_frame")


def _find_isolate(maps: Maps) -> Iterator[Item]:
    """Put the thread's Isolate into its slot, or go to "no_thread"."""
    yield asm.call(abi.BPF_FUNC_get_current_pid_tgid)
    yield asm.store(abi.BPF_DW, SCRATCH, _WHO, R0)
    yield asm.alu(abi.BPF_AND, R0, _STATE_MASK)
    yield asm.store(abi.BPF_DW, FP, KEY, R0)
    yield from look_up(maps.threads, KEY, R0)
    yield asm.store(abi.BPF_DW, FP, MINE, R0)
    yield asm.store(abi.BPF_DW, SCRATCH, _MY_ISOLATE, 0)
    yield asm.load(abi.BPF_DW, R1, R0, _TASK)
    yield asm.load(abi.BPF_DW, R2, SCRATCH, _WHO)
    yield asm.jump_if(abi.BPF_JNE, R1, R2, "v8_register")
    yield asm.load(abi.BPF_DW, R1, R0, _IMAGE)
    yield asm.load(abi.BPF_DW, R2, ENTRY, entry.ID)
    yield asm.jump_if(abi.BPF_JNE, R1, R2, "v8_register")
    yield asm.load(abi.BPF_DW, R1, R0, _BUILTINS)
    yield asm.store(abi.BPF_DW, SCRATCH, _MY_BUILTINS, R1)
    yield asm.load(abi.BPF_DW, R1, R0, _ISOLATE)
    yield asm.store(abi.BPF_DW, SCRATCH, _MY_ISOLATE, R1)
    yield asm.load(abi.BPF_DW, R2, SCRATCH, _MAYBE)
    yield asm.jump_if(abi.BPF_JEQ, R1, R2, "v8_isolate")
    yield Label("v8_register")
    yield from read_field(_MAYBE, AT["builtins"], HEAD, "v8_no_isolate", 16)
    yield asm.load(abi.BPF_DW, R1, SCRATCH, HEAD)
    yield asm.load(abi.BPF_DW, R2, SCRATCH, HEAD + 8)
    yield asm.jump_if(abi.BPF_JEQ, R1, 0, "v8_no_isolate")
    yield asm.alu(abi.BPF_SUB, R2, R1)
    yield asm.load(abi.BPF_W, R3, ENTRY, AT["first_bytes"])
    yield asm.jump_if(abi.BPF_JNE, R2, R3, "v8_no_isolate")
    yield asm.store(abi.BPF_DW, SCRATCH, _MY_BUILTINS, R1)
    yield asm.load(abi.BPF_DW, R2, SCRATCH, _MAYBE)
    yield asm.store(abi.BPF_DW, SCRATCH, _MY_ISOLATE, R2)
    yield asm.load(abi.BPF_DW, R3, FP, MINE)
    yield asm.store(abi.BPF_DW, R3, _BUILTINS, R1)
    yield asm.store(abi.BPF_DW, R3, _ISOLATE, R2)
    yield asm.load(abi.BPF_DW, R1, SCRATCH, _WHO)
    yield asm.store(abi.BPF_DW, R3, _TASK, R1)
    yield asm.load(abi.BPF_DW, R1, ENTRY, entry.ID)
    yield asm.store(abi.BPF_DW, R3, _IMAGE, R1)
    yield Label("v8_no_isolate")
    yield from jump_if_slot(abi.BPF_JEQ, _MY_ISOLATE, 0, "no_thread")
    yield Label("v8_isolate")


def _find_innermost() -> Iterator[Item]:
    """Put the innermost frame into `FRAME`: the one that called C++, or that runs."""
    for name, slot in (("outermost", _OUTERMOST), ("entered", HEAD), ("called", HEAD + 8)):
        yield from read_field(
            _MY_ISOLATE, AT[name], slot, "no_key" if slot == _OUTERMOST else "fault"
        )
    yield from jump_if_slot(abi.BPF_JEQ, _OUTERMOST, 0, "no_frame")
    yield asm.store(abi.BPF_DW, SCRATCH, _RUNS, 0)
    yield from jump_if_slot(abi.BPF_JNE, HEAD, 0, "v8_has_called")
    yield from jump_if_slot(abi.BPF_JNE, HEAD + 8, 0, "v8_has_called")
    yield asm.store(abi.BPF_DW, SCRATCH, _RUNS, v8.RUNS)
    yield asm.jump("v8_innermost")
    yield Label("v8_has_called")
    yield asm.store(abi.BPF_DW, SCRATCH, FRAME, R1)
    yield asm.store(abi.BPF_DW, SCRATCH, _AT, 0)
    yield Label("v8_innermost")


def read_v8_frame() -> Iterator[Item]:
    """Read the frame at `FRAME`: its function, its instruction, and the next frame."""
    yield asm.load(abi.BPF_DW, R3, SCRATCH, FRAME)
    yield asm.load(abi.BPF_DW, R1, SCRATCH, _OUTERMOST)
    yield asm.jump_if(abi.BPF_JGT, R3, R1, "walk_fault")
    yield asm.alu(abi.BPF_ADD, R3, v8.ENTRY_CALLED)
    yield from read_window(AT["frame_bytes"], "walk_fault", down=False)
    yield from copy(_AT, LAST)
    yield _field(R1, v8.FRAME_RETURN)
    yield asm.store(abi.BPF_DW, SCRATCH, _AT, R1)
    yield asm.load(abi.BPF_DW, R1, SCRATCH, _RUNS)
    yield asm.alu(abi.BPF_OR, R1, v8.COMPILED)
    yield asm.store(abi.BPF_DW, SCRATCH, MARK, R1)
    yield _field(R4, v8.FRAME_CALLER)
    yield _field(R2, v8.FRAME_CONTEXT)
    yield asm.move(R1, R2)
    yield asm.alu(abi.BPF_AND, R1, 1)
    yield asm.jump_if(abi.BPF_JNE, R1, 0, "v8_function")
    yield asm.alu(abi.BPF_RSH, R2, 1)
    for kind in v8.ENTRY_TYPES:
        yield asm.jump_if(abi.BPF_JEQ, R2, kind, "v8_entry")
    yield from _go_out("v8_other")
    yield asm.load(abi.BPF_W, R1, ENTRY, AT["builtin_exit"])
    yield asm.jump_if(abi.BPF_JNE, R1, R2, "next")
    yield asm.alu(abi.BPF_ADD, R3, v8.FRAME_TARGET)
    yield from read(POINTER, 8, "next")
    yield asm.store(abi.BPF_DW, SCRATCH, LAST, 0)
    yield asm.jump("v8_compiled")
    yield Label("v8_entry")
    yield from _enter()
    yield asm.jump("v8_read")
    yield Label("v8_function")
    yield from _function()
    yield Label("v8_read")
    yield asm.store(abi.BPF_DW, SCRATCH, _RUNS, 0)


def _go_out(label: str) -> Iterator[Item]:
    """Make the frame in R4, which has to be further out, the next one; leave the other in R3."""
    yield asm.load(abi.BPF_DW, R3, SCRATCH, FRAME)
    yield asm.jump_if(abi.BPF_JLE, R4, R3, "walk_fault")
    yield Label(label)
    yield asm.store(abi.BPF_DW, SCRATCH, FRAME, R4)


def _enter() -> Iterator[Item]:
    """Make a row of an entry from C++, and go on with the frame that called C++, if any."""
    yield asm.store(abi.BPF_DW, SCRATCH, MARK, v8.ENTRY)
    yield from copy(LAST, CODE)
    yield asm.store(abi.BPF_DW, SCRATCH, LAST, 0)
    yield asm.store(abi.BPF_DW, SCRATCH, _AT, 0)
    yield asm.move(R4, 0)
    yield asm.load(abi.BPF_DW, R1, SCRATCH, FRAME)
    yield asm.load(abi.BPF_DW, R2, SCRATCH, _OUTERMOST)
    yield asm.jump_if(abi.BPF_JEQ, R1, R2, "v8_entered")
    yield _field(R4, v8.ENTRY_OUTER)
    yield asm.jump_if(abi.BPF_JNE, R4, 0, "v8_is_outer")
    yield from jump_if_word(abi.BPF_JEQ, AT["has_called"], 0, "v8_entered")
    yield _field(R4, v8.ENTRY_CALLED)
    yield asm.jump_if(abi.BPF_JEQ, R4, 0, "v8_entered")
    yield Label("v8_is_outer")
    yield from _go_out("v8_further_out")
    yield Label("v8_entered")
    yield asm.store(abi.BPF_DW, SCRATCH, FRAME, R4)


def _function() -> Iterator[Item]:
    """Put the function's SharedFunctionInfo into `CODE`; set the mark of interpreted frames."""
    yield _field(R3, v8.FRAME_FUNCTION)
    yield asm.store(abi.BPF_DW, SCRATCH, POINTER, R3)
    yield from _go_out("v8_called_by")
    # Builtins interpret the bytecode, in the file or in V8's copy of it. A value that compiled code
    # keeps in the frame may look like bytecode.
    yield asm.load(abi.BPF_DW, R1, SCRATCH, LAST)
    yield asm.load(abi.BPF_DW, R2, ENTRY, entry.TEXT_END)
    yield asm.jump_if(abi.BPF_JGE, R1, R2, "v8_in_copy")
    yield asm.load(abi.BPF_DW, R2, ENTRY, entry.TEXT_BEGIN)
    yield asm.jump_if(abi.BPF_JGE, R1, R2, "v8_in_builtins")
    yield Label("v8_in_copy")
    yield asm.load(abi.BPF_DW, R2, SCRATCH, _MY_BUILTINS)
    yield asm.alu(abi.BPF_SUB, R1, R2)
    yield asm.load(abi.BPF_W, R2, ENTRY, AT["builtins_bytes"])
    yield asm.jump_if(abi.BPF_JGE, R1, R2, "v8_compiled")
    yield Label("v8_in_builtins")
    yield _field(R1, v8.FRAME_BYTECODE)
    yield asm.alu(abi.BPF_AND, R1, 3)
    yield asm.jump_if(abi.BPF_JNE, R1, 1, "v8_builtin")
    yield _field(R1, v8.FRAME_OFFSET)
    yield asm.move(R2, R1)
    yield asm.alu(abi.BPF_LSH, R2, _SMI_SHIFT)
    yield asm.jump_if(abi.BPF_JNE, R2, 0, "v8_builtin")
    yield asm.alu(abi.BPF_RSH, R1, _SMI_SHIFT)
    yield asm.store(abi.BPF_DW, SCRATCH, LAST, R1)
    yield asm.load(abi.BPF_DW, R1, SCRATCH, MARK)
    yield asm.alu(abi.BPF_XOR, R1, v8.COMPILED ^ v8.INTERPRETED)
    yield asm.store(abi.BPF_DW, SCRATCH, MARK, R1)
    # While a function runs, its frame has the offset of its last call, and a register the current
    # offset.
    yield asm.jump_if(abi.BPF_JNE, R1, v8.INTERPRETED | v8.RUNS, "v8_compiled")
    yield _field(R1, v8.FRAME_BYTECODE)
    yield asm.load(abi.BPF_DW, R2, SCRATCH, _BYTECODE)
    yield asm.jump_if(abi.BPF_JNE, R1, R2, "v8_compiled")
    yield from jump_if_slot(abi.BPF_JGE, _OFFSET, _MOST_OFFSET, "v8_compiled")
    yield asm.store(abi.BPF_DW, SCRATCH, LAST, R1)
    yield asm.jump("v8_compiled")
    # This is a builtin with its own frame of a function.
    yield Label("v8_builtin")
    yield asm.store(abi.BPF_DW, SCRATCH, LAST, 0)
    yield Label("v8_compiled")
    yield asm.load(abi.BPF_DW, R3, SCRATCH, POINTER)
    yield asm.alu(abi.BPF_SUB, R3, 1)
    yield from follow(AT["js_shared"], CODE, "walk_fault")


def sign_v8_function(maps: Maps) -> Iterator[Item]:
    """Read the function's script and its number there; send news of new compiled code."""
    yield from jump_if_slot(abi.BPF_JEQ, MARK, v8.ENTRY, "next")
    yield asm.load(abi.BPF_DW, R3, SCRATCH, CODE)
    yield asm.alu(abi.BPF_SUB, R3, 1)
    yield from follow(AT["script"], HEAD, "next", 24)
    yield asm.load(abi.BPF_DW, R1, SCRATCH, HEAD)
    yield asm.load(abi.BPF_DW, R2, SCRATCH, HEAD + 16)
    yield asm.alu(abi.BPF_RSH, R2, 32)
    yield asm.alu(abi.BPF_LSH, R2, 32)
    yield asm.alu(abi.BPF_ADD, R1, R2)
    yield asm.store(abi.BPF_DW, SCRATCH, PAIR, R1)
    yield from _send_code_news(maps)


def _send_code_news(maps: Maps) -> Iterator[Item]:
    """Send news of compiled code, once for each piece of it."""
    yield asm.load(abi.BPF_DW, R1, SCRATCH, MARK)
    yield asm.alu(abi.BPF_AND, R1, v8.KIND_MASK)
    yield asm.jump_if(abi.BPF_JNE, R1, v8.COMPILED, "v8_code_sent")
    yield asm.load(abi.BPF_DW, R2, SCRATCH, LAST)
    yield asm.alu(abi.BPF_RSH, R2, _PIECE_BITS)
    yield asm.jump_if(abi.BPF_JEQ, R2, 0, "v8_code_sent")
    yield from jump_if_slot(abi.BPF_JGE, FOUND_AT, _MOST_PIECES, "v8_code_sent")
    yield asm.load_imm64(R3, MIX_CODE)
    yield asm.alu(abi.BPF_MUL, R2, R3)
    for base, slot in ((SCRATCH, CODE), (ENTRY, entry.ID)):
        yield asm.load(abi.BPF_DW, R1, base, slot)
        yield asm.alu(abi.BPF_ADD, R2, R1)
    yield asm.alu(abi.BPF_MUL, R2, R3)
    yield asm.store(abi.BPF_DW, SCRATCH, TAG, R2)
    yield from search_seen("v8_code_sent")
    yield asm.load(abi.BPF_DW, R1, SCRATCH, FOUND_AT)
    yield asm.alu(abi.BPF_ADD, R1, 1)
    yield asm.store(abi.BPF_DW, SCRATCH, FOUND_AT, R1)
    yield asm.load(abi.BPF_DW, R1, SCRATCH, LAST)
    yield from _send_news(maps)
    yield asm.jump_if(abi.BPF_JNE, R0, 0, "v8_code_sent")
    yield from remember_seen("v8_code_room")
    yield Label("v8_code_sent")


def send_v8_function(maps: Maps) -> Iterator[Item]:
    """Send news of a new function, see `new_functions`."""
    yield from begin_name("all_named")
    yield asm.move(R1, 0)
    yield from _send_news(maps)
    yield asm.jump_if(abi.BPF_JNE, R0, 0, "named")


def _send_news(maps: Maps) -> Iterator[Item]:
    """Send news of the function in `CODE` and its code at R1 or 0; leave an error in R0."""
    yield asm.store(abi.BPF_DW, SCRATCH, BLOB_AT + 24, R1)
    yield asm.load(abi.BPF_DW, R1, ENTRY, entry.ID)
    yield asm.store(abi.BPF_DW, SCRATCH, BLOB_AT, R1)
    for number, slot in enumerate((CODE, PAIR)):
        yield from copy(slot, BLOB_AT + 8 + 8 * number)
    yield asm.load_map(R1, maps.news)
    yield asm.move(R2, SCRATCH)
    yield asm.alu(abi.BPF_ADD, R2, BLOB_AT)
    yield asm.move(R3, NEWS.size)
    yield asm.move(R4, 0)
    yield asm.call(abi.BPF_FUNC_ringbuf_output)


def _field(dst: asm.Reg, offset: int) -> asm.Instruction:
    """Load a word at an offset from the address of the frame in the window."""
    return asm.load(abi.BPF_DW, dst, R5, WINDOW_AT + offset - v8.ENTRY_CALLED)


RUNTIME = Runtime(
    number=wire.V8,
    start=find_v8_frame,
    frame=read_v8_frame,
    sign=sign_v8_function,
    send=send_v8_function,
)
