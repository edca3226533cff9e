"""PHP: the chain of calls from executor_globals.

The offsets of the innermost call in executor_globals, and of a function's file, differ between
versions. The code of two short functions of PHP has them. In builds with threads (ZTS) each thread
has its own globals, in a block to which a thread-local variable leads; since PHP 8.0 the code of a
third function has the place of that variable.

Defined by: `abi.php`; zend_is_executing() and zend_get_executed_filename_ex() in
``Zend/zend_execute_API.c``; tsrm_get_ls_cache_tcb_offset() in ``TSRM/TSRM.c``.
"""

from __future__ import annotations

import struct

from prospect.abi import bpf as abi
from prospect.abi import php
from prospect.abi import runtime_frames as wire
from prospect.capture.capture_limits import MOST_PHP_GETTER_BYTES, MOST_PHP_GLOBALS
from prospect.capture.kernel import bpf_assembler as asm
from prospect.capture.kernel.bpf_assembler import Label
from prospect.capture.runtimes.elf_lookup import ET_EXEC
from prospect.capture.runtimes.image_entry import entry_fields
from prospect.capture.runtimes.runtime import Image, Runtime, Unknown
from prospect.capture.runtimes.walk_names import send_bytes
from prospect.capture.runtimes.walk_parts import (
    CODE,
    ENTRY,
    FP,
    FRAME,
    HANDLE,
    HEAD,
    LAST,
    MARK,
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
    THREAD_POINTER,
    WINDOW_AT,
    add_slot,
    add_word,
    copy,
    find_recalled,
    jump_if_slot,
    jump_if_word,
    keep,
    read,
    read_at,
    read_field,
    read_window,
    recall,
)
from prospect.capture.runtimes.walk_rooms import begin_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.capture.runtimes.elf_lookup import File
    from prospect.capture.runtimes.walk_parts import Item, Maps

_GLOBALS, _LOOP = b"executor_globals", b"execute_ex"
_RUNS, _FILE = b"zend_is_executing", b"zend_get_executed_filename_ex"
# Builds with threads have these instead of the globals: the offset of the globals in a thread's
# block, and a function that returns the place of the thread's pointer to its block.
_WITH_THREADS, _BLOCK = b"executor_globals_offset", b"tsrm_get_ls_cache_tcb_offset"
# The access to the globals: they are at one place, or the thread pointer plus an offset leads to
# them, which the function has in its code or loads from memory.
_AT_ONE_PLACE, _FIXED, _BY_OFFSET = range(3)
# mov imm32, %rax; mov disp32(%rip), %rax; maybe after endbr64.
_MOVE_NUMBER, _MOVE_MEMORY = b"\x48\xc7\xc0", b"\x48\x8b\x05"
_MOVE_BYTES, _LANDING = 7, b"\xf3\x0f\x1e\xfa"
# cmpq $0, disp32(%rip), which ends a byte later; cmpq $0, disp32(%register), or of the sum of two.
_COMPARE_HERE, _COMPARE = b"\x48\x83\x3d", b"\x48\x83"
_COMPARE_BYTES, _OF_SUM = 8, 0xBC
# mov disp32(%register), %register: the file's offset is smaller than any in the globals.
_LOAD = b"\x48\x8b"
_NEAREST, _FARTHEST = 0x60, 0x140
_BLOCK_END = 1 << 24

AT = entry_fields(("current", "storage"), ("frame_bytes", "file", "access", "offset", "in_globals"))


def find_php(file: File, _path: bytes, /) -> Image | Unknown | None:
    """Return the PHP in a file, None if there is none; raises as `find_python`."""
    code = [segment for segment in file.segments if segment.is_code]
    symbols = file.find((_GLOBALS, _LOOP, _RUNS, _FILE, _WITH_THREADS, _BLOCK))
    if not code or not {_LOOP, _RUNS, _FILE} <= symbols.keys():
        return None
    if _GLOBALS not in symbols and _WITH_THREADS not in symbols:
        return None
    globals_at, size = symbols.get(_GLOBALS, (0, MOST_PHP_GLOBALS))
    current, name = (
        file.at(symbols[one][0], min(symbols[one][1], MOST_PHP_GETTER_BYTES))
        for one in (_RUNS, _FILE)
    )
    offset = _current_offset(current, symbols[_RUNS][0] - globals_at)
    file_offset = _file_offset(name)
    if not 0 < offset < min(size, MOST_PHP_GLOBALS) or not file_offset:
        return Unknown(wire.PHP, 0)
    place: tuple[int, int, int] | None = (_AT_ONE_PLACE, 0, 0)
    if _GLOBALS not in symbols:
        at, size = symbols.get(_BLOCK, (0, 0))
        place = _block_place(file.at(at, min(size, MOST_PHP_GETTER_BYTES)) if size else b"", at)
        globals_at = symbols[_WITH_THREADS][0] - offset
    if place is None:
        return Unknown(wire.PHP, 0)
    access, storage, block_offset = place
    loop, loop_bytes = symbols[_LOOP]
    return Image(
        runtime=wire.PHP,
        version=0,
        described=0,
        addresses=(globals_at + offset, storage),
        words=(php.FRAME_BYTES, file_offset, access, block_offset, offset),
        text=(code[0].address, code[0].address + code[0].size),
        loop=(loop, loop + loop_bytes),
        is_fixed=file.kind == ET_EXEC,
        segments=file.segments,
    )


def _current_offset(code: bytes, shift: int) -> int:
    """Return the offset of the innermost call in the globals, 0 if the code is unknown."""
    for at in range(len(code) - _COMPARE_BYTES):
        if not code.startswith(_COMPARE, at):
            continue
        sum_of_two = code[at + 2] == _OF_SUM
        (number,) = struct.unpack_from("<i", code, at + 3 + sum_of_two)
        if code[at + 7 + sum_of_two : at + 8 + sum_of_two] != b"\0":
            continue
        if code.startswith(_COMPARE_HERE, at):
            return int(shift + at + _COMPARE_BYTES + number)
        if code[at + 2] & 0xF8 == 0xB8:
            return int(number)
    return 0


def _block_place(code: bytes, address: int) -> tuple[int, int, int] | None:
    """Return the access to a thread's block, an address, and an offset as 32 bits."""
    code, skipped = code.removeprefix(_LANDING), len(_LANDING) * code.startswith(_LANDING)
    if len(code) < _MOVE_BYTES:
        return None
    (number,) = struct.unpack_from("<i", code, len(_MOVE_NUMBER))
    if code.startswith(_MOVE_NUMBER) and number < 0:
        return _FIXED, 0, number & 0xFFFFFFFF
    if code.startswith(_MOVE_MEMORY):
        return _BY_OFFSET, address + skipped + _MOVE_BYTES + number, 0
    return None


def _file_offset(code: bytes) -> int:
    """Return the offset of the file in a function, 0 if the code is unknown."""
    found = set()
    for at in range(len(code) - 6):
        if code.startswith(_LOAD, at) and code[at + 2] & 0xC0 == 0x80:
            (number,) = struct.unpack_from("<i", code, at + 3)
            if _NEAREST <= number < _FARTHEST and number % 8 == 0:
                found.add(number)
    return int(found.pop()) if len(found) == 1 else 0


def _start(maps: Maps) -> Iterator[Item]:
    """Go from the globals to the innermost call; globals at one place are the first thread's."""
    yield from find_recalled(maps)
    yield from jump_if_word(abi.BPF_JNE, AT["access"], _AT_ONE_PLACE, "of_thread")
    yield asm.call(abi.BPF_FUNC_get_current_pid_tgid)
    yield asm.move(R1, R0)
    yield asm.alu(abi.BPF_RSH, R1, 32)
    yield asm.alu(abi.BPF_LSH, R0, 32)
    yield asm.alu(abi.BPF_RSH, R0, 32)
    yield asm.jump_if(abi.BPF_JNE, R0, R1, "no_thread")
    yield asm.load(abi.BPF_DW, R3, ENTRY, AT["current"])
    yield asm.jump("has_globals")
    yield from _find_block()
    yield Label("has_globals")
    yield from read(FRAME, 8, "no_key")
    yield asm.load(abi.BPF_DW, R3, SCRATCH, FRAME)
    yield asm.jump_if(abi.BPF_JEQ, R3, 0, "no_frame")
    yield asm.jump_if(abi.BPF_JNE, R3, 1, "has_frame")
    yield asm.jump("fault")


def _find_block() -> Iterator[Item]:
    """Put the address of the innermost call in this thread's globals into R3."""
    yield Label("of_thread")
    # The offset is negative.
    yield asm.load(abi.BPF_W, R3, ENTRY, AT["offset"])
    yield asm.load_imm64(R2, 0xFFFFFFFF00000000)
    yield asm.alu(abi.BPF_OR, R3, R2)
    yield asm.jump_if(abi.BPF_JEQ, R1, _FIXED, "has_offset")
    yield asm.load(abi.BPF_DW, R3, ENTRY, AT["storage"])
    yield from read(PAIR, 8, "no_key")
    yield asm.load(abi.BPF_DW, R3, SCRATCH, PAIR)
    yield Label("has_offset")
    yield asm.load(abi.BPF_DW, R1, FP, THREAD_POINTER)
    yield asm.alu(abi.BPF_ADD, R3, R1)
    yield from read(POINTER, 8, "no_thread")
    yield asm.load(abi.BPF_DW, R3, ENTRY, AT["current"])
    yield from read(PAIR, 8, "no_key")
    yield asm.load(abi.BPF_DW, R3, SCRATCH, POINTER)
    yield asm.jump_if(abi.BPF_JEQ, R3, 0, "no_thread")
    yield from jump_if_slot(abi.BPF_JGE, PAIR, _BLOCK_END, "no_key")
    yield asm.alu(abi.BPF_ADD, R3, R1)
    yield from add_word(R3, AT["in_globals"])


def _frame() -> Iterator[Item]:
    """Read a call: its function and its line. Callers are below it."""
    yield asm.load(abi.BPF_DW, R3, SCRATCH, FRAME)
    yield from read_window(AT["frame_bytes"], "walk_fault", down=True)
    yield asm.load(abi.BPF_DW, R1, R5, WINDOW_AT + php.CALLER)
    yield asm.store(abi.BPF_DW, SCRATCH, FRAME, R1)
    yield asm.load(abi.BPF_W, R1, R5, WINDOW_AT + php.CALL_INFO)
    yield asm.alu(abi.BPF_RSH, R1, php.CALL_TOP_SHIFT)
    yield asm.alu(abi.BPF_AND, R1, wire.OUTERMOST)
    yield asm.store(abi.BPF_DW, SCRATCH, MARK, R1)
    yield asm.load(abi.BPF_DW, R1, R5, WINDOW_AT + php.OPLINE)
    yield asm.store(abi.BPF_DW, SCRATCH, POINTER, R1)
    yield asm.store(abi.BPF_DW, SCRATCH, LAST, 0)
    yield asm.load(abi.BPF_DW, R3, R5, WINDOW_AT + php.FUNCTION)
    # Calls that are being prepared, and placeholders, have no function.
    yield asm.jump_if(abi.BPF_JEQ, R3, 0, "next")
    yield asm.store(abi.BPF_DW, SCRATCH, HANDLE, R3)
    yield asm.store(abi.BPF_DW, SCRATCH, CODE, R3)
    yield from read(HEAD, 24, "walk_fault")
    yield from _identify()
    yield from _read_line()


def _identify() -> Iterator[Item]:
    yield asm.load(abi.BPF_DW, R2, SCRATCH, HEAD + php.NAME)
    yield asm.load_imm64(R1, MIX_CODE)
    yield asm.alu(abi.BPF_MUL, R2, R1)
    yield from add_slot(R2, HEAD + php.SCOPE)
    yield asm.store(abi.BPF_DW, SCRATCH, PAIR, R2)
    yield asm.load(abi.BPF_B, R1, SCRATCH, HEAD)
    yield asm.jump_if(abi.BPF_JEQ, R1, php.KIND_USER, "in_php")
    yield asm.jump_if(abi.BPF_JEQ, R1, php.KIND_EVAL, "in_php")
    yield asm.jump_if(abi.BPF_JNE, R1, php.KIND_INTERNAL, "walk_fault")
    # A fiber begins with a C function that has no name.
    yield from jump_if_slot(abi.BPF_JEQ, HEAD + php.NAME, 0, "next")
    # A C function is part of the run that called it.
    yield asm.store(abi.BPF_DW, SCRATCH, MARK, 0)
    yield asm.jump("has_line")
    yield Label("in_php")
    # Each object of a closure has its own function, and the code of files has no name: file and
    # lines identify both.
    yield from jump_if_slot(abi.BPF_JEQ, HEAD + php.NAME, 0, "by_lines")
    yield asm.load(abi.BPF_W, R1, SCRATCH, HEAD + php.FLAGS)
    yield asm.alu(abi.BPF_AND, R1, php.CLOSURE)
    yield asm.jump_if(abi.BPF_JEQ, R1, 0, "identified")
    yield Label("by_lines")
    yield from read_field(CODE, AT["file"], HEAD, "walk_fault", 16)
    yield asm.load(abi.BPF_DW, R2, SCRATCH, PAIR)
    yield from add_slot(R2, HEAD)
    yield asm.store(abi.BPF_DW, SCRATCH, CODE, R2)
    yield from copy(HEAD + php.LINES_AFTER_FILE, PAIR)
    yield Label("identified")


def _read_line() -> Iterator[Item]:
    # In the same function, the instruction has the same line.
    yield from recall(POINTER, PAIR, "has_line")
    yield from read_at(POINTER, php.OP_LINE, LAST, "no_line", 4)
    yield from keep(POINTER, PAIR)
    yield asm.jump("has_line")
    yield Label("no_line")
    yield asm.store(abi.BPF_DW, SCRATCH, LAST, 0)
    yield Label("has_line")


def _send(maps: Maps) -> Iterator[Item]:
    yield from read_at(HANDLE, 0, HEAD, "named", 24)
    yield from copy(HEAD + php.NAME, OWN[0])
    yield from copy(HEAD + php.SCOPE, OWN[1])
    yield asm.load(abi.BPF_B, R1, SCRATCH, HEAD)
    yield asm.store(abi.BPF_DW, SCRATCH, OWN[2], R1)
    yield asm.store(abi.BPF_DW, SCRATCH, PAIR, 0)
    yield asm.jump_if(abi.BPF_JEQ, R1, php.KIND_INTERNAL, "no_lines")
    yield asm.load(abi.BPF_DW, R3, SCRATCH, HANDLE)
    yield from add_word(R3, AT["file"])
    yield asm.alu(abi.BPF_ADD, R3, php.LINES_AFTER_FILE)
    yield from read(PAIR, 8, "named")
    yield Label("no_lines")
    yield from begin_name("all_named")
    # A file's own code has no name.
    yield asm.load(abi.BPF_DW, R3, SCRATCH, HANDLE)
    yield asm.move(R4, 0)
    yield from jump_if_slot(abi.BPF_JEQ, OWN[0], 0, "no_name")
    yield from _read_string(OWN[0])
    yield Label("no_name")
    yield asm.move(R5, wire.IS_UTF8)
    yield from send_bytes(maps, wire.KIND_NAME, wire.MOST_NAME_BYTES, "name")
    yield asm.load(abi.BPF_DW, R3, SCRATCH, OWN[1])
    yield asm.jump_if(abi.BPF_JEQ, R3, 0, "no_class")
    yield asm.alu(abi.BPF_ADD, R3, php.CLASS_NAME)
    yield from read(OWN[1], 8, "named")
    yield from _read_string(OWN[1])
    yield asm.move(R5, wire.IS_UTF8)
    yield from send_bytes(maps, wire.KIND_SCOPE, wire.MOST_NAME_BYTES, "class")
    yield Label("no_class")
    yield from jump_if_slot(abi.BPF_JEQ, OWN[2], php.KIND_INTERNAL, "no_file")
    yield from read_field(HANDLE, AT["file"], OWN[1], "named")
    yield from _read_string(OWN[1])
    yield asm.move(R5, wire.IS_UTF8)
    yield from send_bytes(maps, wire.KIND_FILE, wire.MOST_FILE_BYTES, "file")
    yield Label("no_file")


def _read_string(slot: int) -> Iterator[Item]:
    """Put the address of a string's text into R3, its length into R4."""
    yield from read_at(slot, php.STRING_LENGTH, POINTER, "named")
    yield asm.load(abi.BPF_DW, R3, SCRATCH, slot)
    yield asm.alu(abi.BPF_ADD, R3, php.STRING_TEXT)
    yield asm.load(abi.BPF_DW, R4, SCRATCH, POINTER)


RUNTIME = Runtime(wire.PHP, start=_start, frame=_frame, send=_send)
