"""Ruby: control frames of the thread's execution context, which is in thread-local storage.

The code of rb_thread_current() has the place of a thread's pointer to its context. Before 3.0 there
is one pointer, to the context of the thread that has the interpreter's lock: other threads are not
read. C functions have control frames without an instruction sequence, and a frame that one of them
called begins a run of the evaluation loop.

The name of a C function is a number in the table of symbols; its class has a record of its own
path. The code of rb_id2str() and rb_mod_name() has the places of both. Up to Ruby 3.1 a class has
its path in the table of its variables.

Defined by: `abi.ruby`; get_id_serial_entry() in ``symbol.c`` and rb_mod_name() in ``variable.c``;
"ELF Handling For Thread-Local Storage" for the code and the vector of modules, as glibc has it on
x86-64 (``sysdeps/generic/dl-dtv.h``).
"""

from __future__ import annotations

import struct

from prospect.abi import bpf as abi
from prospect.abi import ruby
from prospect.abi import runtime_frames as wire
from prospect.capture.capture_limits import (
    MOST_MODULES,
    MOST_NAME_CODE_BYTES,
    MOST_RUBY_GETTER_BYTES,
)
from prospect.capture.kernel import bpf_assembler as asm
from prospect.capture.kernel.bpf_assembler import Label
from prospect.capture.runtimes.elf_lookup import ET_EXEC
from prospect.capture.runtimes.image_entry import entry_fields
from prospect.capture.runtimes.runtime import Image, Runtime, Unknown
from prospect.capture.runtimes.walk_names import send_bytes
from prospect.capture.runtimes.walk_parts import (
    CODE,
    COUNT_AT,
    ENTRY,
    FOUND_AT,
    FP,
    FRAME,
    FRAMES_AT,
    HANDLE,
    HEAD,
    LAST,
    MARK,
    MIX_CODE,
    OWN,
    PAIR,
    POINTER,
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
    from collections.abc import Callable, Iterator

    from prospect.capture.runtimes.elf_lookup import File
    from prospect.capture.runtimes.walk_parts import Item, Maps

_VERSION, _THREAD, _LOOP = b"ruby_api_version", b"rb_thread_current", b"rb_vm_exec"
_CONTEXT = b"ruby_current_execution_context_ptr"
# The access to the pointer: at an offset from the thread pointer, by a module and an offset in its
# storage, by an offset from the thread pointer that is in memory, or at an address.
_FIXED, _BY_MODULE, _BY_OFFSET, _GLOBAL = range(4)
_MOST_STACK_WORDS = 1 << 28
# lea disp32(%rip), %rdi with a prefix; mov %fs:disp32, %rax; mov disp32(%rip), %rax.
_LEA, _LOAD_FIXED, _LOAD_OFFSET = b"\x66\x48\x8d\x3d", b"\x64\x48\x8b\x04\x25", b"\x48\x8b\x05"

# Slots of the pieces of insns_info.
_LINES, _TABLE, _COUNT = OWN[4], OWN[1], OWN[2]
# The program counter of the frame.
_COUNTER = OWN[0]


def find_ruby(file: File, _path: bytes, /) -> Image | Unknown | None:
    """Return the Ruby in a file, None if there is none; raises as `find_python`."""
    code = [segment for segment in file.segments if segment.is_code]
    symbols = file.find((_VERSION, _THREAD, _LOOP, _CONTEXT, *SYMBOLS))
    if not code or _VERSION not in symbols or _THREAD not in symbols:
        return None
    major, minor = struct.unpack("<ii", file.at(symbols[_VERSION][0], 8))
    if not (0 <= major < 1 << 7 and 0 <= minor < 1 << 8):
        return None
    version = major << 8 | minor
    address, size = symbols[_THREAD]
    layout = ruby.LAYOUTS.get(version)
    if _CONTEXT in symbols:
        place: tuple[int, int, int] | None = (_GLOBAL, symbols[_CONTEXT][0], 0)
    else:
        place = _storage(file.at(address, min(size, MOST_RUBY_GETTER_BYTES)), address)
    if layout is None or place is None:
        return Unknown(wire.RUBY, version)
    access, storage, offset = place
    path_key, class_path = find_path(file, symbols)
    loop, loop_bytes = symbols.get(_LOOP, (code[0].address, 0))
    return Image(
        runtime=wire.RUBY,
        version=version,
        described=layout.line_bytes | layout.has_fixnum << 8,
        addresses=(storage, find_symbols(file, symbols), path_key),
        words=(access, offset, class_path, *layout),
        text=(code[0].address, code[0].address + code[0].size),
        loop=(loop, loop + loop_bytes),
        is_fixed=file.kind == ET_EXEC,
        segments=file.segments,
    )


def _storage(code: bytes, address: int) -> tuple[int, int, int] | None:
    """Return the function's access to the context, an address, and an offset as 32 bits."""
    for pattern, way in ((_LEA, _BY_MODULE), (_LOAD_FIXED, _FIXED), (_LOAD_OFFSET, _BY_OFFSET)):
        at = code.find(pattern)
        end = at + len(pattern) + 4
        if at < 0 or end > len(code):
            continue
        (number,) = struct.unpack_from("<i", code, end - 4)
        if way == _FIXED:
            return way, 0, number & 0xFFFFFFFF
        return way, address + end + number, 0
    return None


def _start(maps: Maps) -> Iterator[Item]:
    """Go from the thread pointer to the execution context, and to its innermost frame."""
    yield from find_recalled(maps)
    yield from _find_context()
    # A thread has no storage for a module that it never used.
    yield from read(POINTER, 8, "no_thread")
    yield asm.load(abi.BPF_DW, R3, SCRATCH, POINTER)
    yield asm.jump_if(abi.BPF_JEQ, R3, 0, "no_thread")
    yield from read(HEAD, 24, "fault")
    yield asm.load(abi.BPF_DW, R1, SCRATCH, HEAD)
    yield asm.load(abi.BPF_DW, R2, SCRATCH, HEAD + 8)
    yield asm.jump_if(abi.BPF_JGT, R2, _MOST_STACK_WORDS, "fault")
    yield asm.alu(abi.BPF_LSH, R2, 3)
    yield asm.alu(abi.BPF_ADD, R2, R1)
    yield asm.store(abi.BPF_DW, SCRATCH, FOUND_AT, R2)
    yield asm.load(abi.BPF_DW, R3, SCRATCH, HEAD + 16)
    yield asm.store(abi.BPF_DW, SCRATCH, FRAME, R3)
    yield asm.jump_if(abi.BPF_JLT, R3, R1, "no_frame")
    yield asm.jump_if(abi.BPF_JLT, R3, R2, "has_frame")
    yield asm.jump("no_frame")


def _find_context() -> Iterator[Item]:
    """Put the address of the pointer to the thread's execution context into R3."""
    yield from jump_if_word(abi.BPF_JEQ, AT["access"], _FIXED, "fixed")
    yield asm.jump_if(abi.BPF_JEQ, R1, _GLOBAL, "global")
    yield asm.load(abi.BPF_DW, R3, ENTRY, AT["storage"])
    yield from read(HEAD, 16, "no_key")
    yield asm.load(abi.BPF_DW, R3, SCRATCH, HEAD)
    yield from jump_if_word(abi.BPF_JEQ, AT["access"], _BY_OFFSET, "from_thread")
    # The vector of the thread's storage has 16 bytes for each module.
    yield asm.jump_if(abi.BPF_JGE, R3, MOST_MODULES, "no_key")
    yield asm.load(abi.BPF_DW, R3, FP, THREAD_POINTER)
    yield asm.alu(abi.BPF_ADD, R3, 8)
    yield from read(PAIR, 8, "no_thread")
    yield asm.load(abi.BPF_DW, R3, SCRATCH, HEAD)
    yield asm.alu(abi.BPF_LSH, R3, 4)
    yield from add_slot(R3, PAIR)
    yield from read(PAIR, 8, "no_thread")
    yield asm.load(abi.BPF_DW, R3, SCRATCH, PAIR)
    yield from add_slot(R3, HEAD + 8)
    yield asm.jump("has_storage")
    yield from _check_thread()
    yield Label("fixed")
    yield asm.load(abi.BPF_W, R3, ENTRY, AT["offset"])
    # The offset is negative.
    yield asm.load_imm64(R1, 0xFFFFFFFF00000000)
    yield asm.alu(abi.BPF_OR, R3, R1)
    yield Label("from_thread")
    yield asm.load(abi.BPF_DW, R1, FP, THREAD_POINTER)
    yield asm.alu(abi.BPF_ADD, R3, R1)
    yield Label("has_storage")


def _check_thread() -> Iterator[Item]:
    """Go on with the only context if it is this thread's."""
    yield Label("global")
    yield asm.load(abi.BPF_DW, R3, ENTRY, AT["storage"])
    for offset in (0, ruby.CONTEXT_THREAD, ruby.THREAD_ID):
        yield asm.alu(abi.BPF_ADD, R3, offset)
        yield from read(PAIR, 8, "no_thread")
        yield asm.load(abi.BPF_DW, R3, SCRATCH, PAIR)
    yield asm.load(abi.BPF_DW, R1, FP, THREAD_POINTER)
    yield asm.jump_if(abi.BPF_JNE, R3, R1, "no_thread")
    yield asm.load(abi.BPF_DW, R3, ENTRY, AT["storage"])
    yield asm.jump("has_storage")


def _frame() -> Iterator[Item]:
    """Read a control frame; callers are above it, up to the end of the VM stack."""
    yield asm.load(abi.BPF_DW, R3, SCRATCH, FRAME)
    yield from read_window(AT["frame_bytes"], "walk_fault", down=False)
    yield asm.load(abi.BPF_DW, R2, R5, WINDOW_AT)
    yield asm.store(abi.BPF_DW, SCRATCH, _COUNTER, R2)
    yield asm.load(abi.BPF_DW, R2, R5, WINDOW_AT + ruby.FRAME_ENVIRONMENT)
    yield asm.store(abi.BPF_DW, SCRATCH, POINTER, R2)
    yield asm.store(abi.BPF_DW, SCRATCH, HANDLE, 0)
    yield asm.load(abi.BPF_DW, R3, R5, WINDOW_AT + 16)
    yield asm.load(abi.BPF_DW, R1, SCRATCH, FRAME)
    yield asm.load(abi.BPF_W, R2, ENTRY, AT["frame_bytes"])
    yield asm.alu(abi.BPF_ADD, R1, R2)
    yield asm.load(abi.BPF_DW, R4, SCRATCH, FOUND_AT)
    yield asm.jump_if(abi.BPF_JLT, R1, R4, "has_caller")
    yield asm.move(R1, 0)
    yield Label("has_caller")
    yield asm.store(abi.BPF_DW, SCRATCH, FRAME, R1)
    yield asm.jump_if(abi.BPF_JEQ, R3, 0, "in_c")
    yield asm.store(abi.BPF_DW, SCRATCH, CODE, R3)
    yield asm.store(abi.BPF_DW, SCRATCH, MARK, 0)
    # The counter is an address in the code of this sequence.
    yield from recall(_COUNTER, CODE, "recalled")
    yield from read_at(CODE, 0, HEAD, "walk_fault", 24)
    yield asm.load(abi.BPF_DW, R1, SCRATCH, HEAD)
    yield asm.alu(abi.BPF_AND, R1, ruby.IMEMO_MASK)
    yield asm.jump_if(abi.BPF_JEQ, R1, ruby.IMEMO_ISEQ, "has_code")
    yield asm.jump_if(abi.BPF_JNE, R1, ruby.IMEMO_IFUNC, "walk_fault")
    yield from _mark_callee()
    yield from _find_instruction()


def _mark_callee() -> Iterator[Item]:
    """Begin a C function, or leave out other frames: its callee began a run of the loop."""
    yield Label("in_c")
    yield asm.load(abi.BPF_W, R1, SCRATCH, COUNT_AT)
    yield asm.jump_if(abi.BPF_JEQ, R1, 0, "marked")
    yield asm.alu(abi.BPF_SUB, R1, 1)
    yield asm.jump_if(abi.BPF_JGE, R1, wire.MOST_FRAMES, "marked")
    yield asm.alu(abi.BPF_LSH, R1, 4)
    yield asm.alu(abi.BPF_ADD, R1, SCRATCH)
    yield asm.load(abi.BPF_W, R2, R1, FRAMES_AT + 12)
    # A C function calls another one without the loop.
    yield asm.move(R3, R2)
    yield asm.alu(abi.BPF_AND, R3, ruby.IN_C)
    yield asm.jump_if(abi.BPF_JNE, R3, 0, "marked")
    yield asm.alu(abi.BPF_OR, R2, wire.OUTERMOST)
    yield asm.store(abi.BPF_W, R1, FRAMES_AT + 12, R2)
    yield Label("marked")
    yield from identify_method("recalled", "next")


def _find_instruction() -> Iterator[Item]:
    """Find the number of the frame's instruction in the sequence in `HEAD`."""
    yield Label("has_code")
    yield asm.load(abi.BPF_DW, R3, SCRATCH, HEAD + ruby.ISEQ_BODY)
    yield asm.store(abi.BPF_DW, SCRATCH, POINTER, R3)
    yield from read(HEAD, 16, "walk_fault")
    yield asm.load(abi.BPF_DW, R1, SCRATCH, HEAD + ruby.BODY_CODE)
    yield asm.load(abi.BPF_DW, R2, SCRATCH, _COUNTER)
    yield asm.alu(abi.BPF_SUB, R2, R1)
    yield asm.alu(abi.BPF_RSH, R2, 3)
    yield asm.store(abi.BPF_DW, SCRATCH, LAST, R2)
    yield asm.load(abi.BPF_DW, R2, SCRATCH, HEAD)
    yield asm.alu(abi.BPF_XOR, R1, R2)
    yield asm.load(abi.BPF_DW, R2, SCRATCH, POINTER)
    yield asm.alu(abi.BPF_LSH, R2, 1)
    yield asm.alu(abi.BPF_ADD, R1, R2)
    yield asm.store(abi.BPF_DW, SCRATCH, PAIR, R1)
    yield from keep(_COUNTER, CODE)
    yield Label("recalled")


def _send(maps: Maps) -> Iterator[Item]:
    """Send label, path and lines of the sequence in `CODE`, or the names of a C function."""
    yield from jump_if_slot(abi.BPF_JNE, HANDLE, 0, "of_c")
    yield from read_at(CODE, ruby.ISEQ_BODY, HANDLE, "named")
    yield from read_at(HANDLE, ruby.BODY_FIRST, PAIR, "named")
    yield from read_at(HANDLE, ruby.BODY_LABEL, POINTER, "named")
    yield from _check_string("named")
    yield from begin_name("all_named")
    yield from _send_string(maps, wire.KIND_NAME, wire.MOST_NAME_BYTES, "name")
    yield from read_at(HANDLE, ruby.BODY_PATH, POINTER, "named")
    yield from read_at(POINTER, 0, HEAD, "named", 16)
    yield asm.load(abi.BPF_DW, R1, SCRATCH, HEAD)
    yield asm.alu(abi.BPF_AND, R1, ruby.TYPE_MASK)
    yield asm.jump_if(abi.BPF_JNE, R1, ruby.TYPE_ARRAY, "has_path")
    # The given path, and the real one if there is a file.
    yield from read_at(POINTER, ruby.ARRAY_ELEMENTS, OWN[1], "named", 16)
    yield from copy(OWN[1] + 8, POINTER)
    yield from _check_string("given_path")
    yield asm.jump("has_path")
    yield Label("given_path")
    yield from copy(OWN[1], POINTER)
    yield Label("has_path")
    yield from _check_string("named")
    yield from _send_string(maps, wire.KIND_FILE, wire.MOST_FILE_BYTES, "file")
    yield from _send_lines(maps)
    yield asm.jump("no_lines")
    yield from _send_method(maps)
    yield Label("no_lines")


def _send_method(maps: Maps) -> Iterator[Item]:
    yield Label("of_c")
    yield from find_names()
    for slot, kind, label in (
        (NAME, wire.KIND_NAME, "of_c_name"),
        (SCOPE, wire.KIND_SCOPE, "of_c_class"),
    ):
        yield from copy(slot, POINTER)
        if kind == wire.KIND_NAME:
            yield from _check_string("named")
            yield from begin_name("all_named")
        else:
            yield from _check_string("no_lines")
        yield from _send_string(maps, kind, wire.MOST_NAME_BYTES, label)


def _check_string(failed: str) -> Iterator[Item]:
    """Read the object at `POINTER` into `HEAD`; go to a label if it is no string."""
    yield from read_at(POINTER, 0, HEAD, failed, 24)
    yield asm.load(abi.BPF_DW, R1, SCRATCH, HEAD)
    yield asm.alu(abi.BPF_AND, R1, ruby.TYPE_MASK)
    yield asm.jump_if(abi.BPF_JNE, R1, ruby.TYPE_STRING, failed)


def _send_string(maps: Maps, kind: int, most: int, label: str) -> Iterator[Item]:
    """Send the string that `_check_string` has read."""
    yield asm.load(abi.BPF_DW, R4, SCRATCH, HEAD + ruby.STRING_LENGTH)
    yield asm.load(abi.BPF_DW, R1, SCRATCH, HEAD)
    yield asm.move(R2, R1)
    yield asm.alu(abi.BPF_AND, R1, ruby.STRING_ELSEWHERE)
    yield asm.jump_if(abi.BPF_JEQ, R1, 0, label + "_inside")
    yield from read_at(POINTER, ruby.STRING_POINTER, POINTER, "named")
    yield asm.load(abi.BPF_DW, R4, SCRATCH, HEAD + ruby.STRING_LENGTH)
    yield asm.load(abi.BPF_DW, R3, SCRATCH, POINTER)
    yield asm.jump(label + "_found")
    yield Label(label + "_inside")
    yield from jump_if_word(abi.BPF_JEQ, AT["has_short_length"], 0, label + "_has_length")
    yield asm.alu(abi.BPF_RSH, R2, ruby.SHORT_LENGTH_SHIFT)
    yield asm.alu(abi.BPF_AND, R2, ruby.SHORT_LENGTH_MASK)
    yield asm.move(R4, R2)
    yield Label(label + "_has_length")
    yield asm.load(abi.BPF_DW, R3, SCRATCH, POINTER)
    yield from add_word(R3, AT["short_text"])
    yield Label(label + "_found")
    yield asm.move(R5, wire.IS_UTF8)
    yield from send_bytes(maps, kind, most, label)


def _send_lines(maps: Maps) -> Iterator[Item]:
    """Send the lines of the code, and the table that leads to them from positions."""
    yield from read_field(HANDLE, AT["insns_info"], _LINES, "no_lines", 32)
    yield asm.load(abi.BPF_DW, R3, SCRATCH, _LINES)
    yield asm.load(abi.BPF_W, R4, SCRATCH, _COUNT)
    yield asm.load(abi.BPF_W, R1, ENTRY, AT["line_bytes"])
    yield asm.alu(abi.BPF_MUL, R4, R1)
    yield asm.move(R5, 0)
    yield from send_bytes(maps, wire.KIND_LINES, wire.MOST_LINES_BYTES, "lines", "no_lines")
    yield from read_at(HANDLE, 0, HEAD, "named")
    yield asm.load(abi.BPF_W, R4, SCRATCH, HEAD + ruby.BODY_SIZE)
    yield asm.jump_if(abi.BPF_JGT, R4, ruby.NEAR_POSITIONS, "far_positions")
    yield asm.move(R4, ruby.NEAR_POSITIONS + 1 - ruby.BLOCK_POSITIONS)
    yield Label("far_positions")
    yield asm.alu(abi.BPF_ADD, R4, ruby.BLOCK_POSITIONS - 1 - ruby.NEAR_POSITIONS)
    yield asm.alu(abi.BPF_RSH, R4, 9)
    yield asm.alu(abi.BPF_MUL, R4, ruby.BLOCK_BYTES)
    yield asm.alu(abi.BPF_ADD, R4, ruby.NEAR_BYTES)
    yield asm.load(abi.BPF_DW, R3, SCRATCH, _TABLE)
    yield asm.move(R5, 0)
    yield from send_bytes(maps, wire.KIND_POSITIONS, wire.MOST_LINES_BYTES, "positions", "no_lines")


RUNTIME = Runtime(wire.RUBY, start=_start, frame=_frame, send=_send)


TABLE, NAME_OF, CLASS_NAME = b"ruby_global_symbols", b"rb_id2str", b"rb_mod_name"
SYMBOLS = (TABLE, NAME_OF, CLASS_NAME)
AT = entry_fields(
    ("storage", "symbols", "path_key"), ("access", "offset", "class_path", *ruby.RubyLayout._fields)
)
_JUMP, _PADDED = 0xE9, b"\xf3\x0f\x1e\xfa"
# cmp %r32, disp32(%rip) or cmp disp32(%rip), %r32; mov disp32(%rip), %r64 with its prefixes.
_COMPARES, _LOADS, _REX_LOADS = (0x39, 0x3B), 0x8B, (0x48, 0x4C)
_REGISTER_MASK, _FROM_HERE = 0xC7, 0x05
# mov disp32(%rdi), %rax; mov 0x18(%rdi), %rax; mov disp32(%rip), %rsi.
_LOAD_PATH, _LOAD_EXTENSION, _LOAD_KEY = b"\x48\x8b\x87", b"\x48\x8b\x47\x18", b"\x48\x8b\x35"
_FARTHEST_PATH = 1 << 10
# The first entries of a class's variables, which are searched; its path is usually the first.
_LOOKED_AT = 4
# The slot for a method entry.
_METHOD = OWN[4]
_DEFINITION, _ID, _OWNER = OWN[2], OWN[1], OWN[0]
# The slots for the results of `find_names`: strings, 0 for no class.
NAME, SCOPE = OWN[2], OWN[3]


def find_symbols(file: File, symbols: dict[bytes, tuple[int, int]]) -> int:
    """Return the address of a Ruby's table of symbols, 0 if its code is unknown."""
    if TABLE in symbols:
        return symbols[TABLE][0]
    address, size = symbols.get(NAME_OF, (0, 0))
    code = file.at(address, min(size, MOST_NAME_CODE_BYTES)) if size else b""
    target = _jumps_to(code, address)
    more = file.at(target, MOST_NAME_CODE_BYTES) if target else b""
    return table_of(((code, address), (more, target)))


def table_of(pieces: tuple[tuple[bytes, int], ...]) -> int:
    """Return the address of the table that pieces of code at their addresses read, 0 if unknown.

    They compare a number with its beginning, and load its arrays.
    """
    compared, loaded = set(), set()
    for code, address in pieces:
        for at in range(len(code) - 5):
            if code[at + 1] & _REGISTER_MASK != _FROM_HERE:
                continue
            (number,) = struct.unpack_from("<i", code, at + 2)
            if code[at] in _COMPARES:
                compared.add(address + at + 6 + number)
            elif code[at] == _LOADS and at and code[at - 1] in _REX_LOADS:
                loaded.add(address + at + 6 + number)
    found = [one for one in compared if one + ruby.SYMBOL_ARRAYS in loaded]
    return int(found[0]) if len(found) == 1 else 0


def _jumps_to(code: bytes, address: int) -> int:
    """Return the target of a function's first jump, 0 without."""
    for at in range(len(code) - 4):
        if code[at] == _JUMP:
            return int(address + at + 5 + struct.unpack_from("<i", code, at + 1)[0])
    return 0


def path_place(code: bytes, address: int) -> tuple[int, int]:
    """Return the access of rb_mod_name() at an address to the path of a class, zeros if unknown.

    Returns:
        The address of the path's key in the table of variables, and the offset of the path in the
        class. One of them is 0.
    """
    begin = len(_PADDED) * code.startswith(_PADDED)
    at = code.find(_LOAD_KEY)
    if code.startswith(_LOAD_PATH, begin) and len(code) >= begin + 7:
        (number,) = struct.unpack_from("<i", code, begin + 3)
        return 0, number if 0 < number < _FARTHEST_PATH else 0
    if _LOAD_EXTENSION in code and 0 <= at <= len(code) - 7:
        return address + at + 7 + struct.unpack_from("<i", code, at + 3)[0], 0
    return 0, 0


def find_path(file: File, symbols: dict[bytes, tuple[int, int]]) -> tuple[int, int]:
    """Return the `path_place` of a file."""
    address, size = symbols.get(CLASS_NAME, (0, 0))
    return path_place(file.at(address, min(size, MOST_NAME_CODE_BYTES)) if size else b"", address)


def identify_method(shown: str, left_out: str) -> Iterator[Item]:
    """Go to `shown` with the C function of a frame, or to `left_out` with another frame.

    `POINTER` has the frame's environment. A method entry that cannot be read has no name.
    """
    yield asm.load(abi.BPF_DW, R3, SCRATCH, POINTER)
    yield asm.alu(abi.BPF_SUB, R3, ruby.METHOD_BEFORE)
    yield from read(HEAD, 24, "walk_fault")
    yield asm.load(abi.BPF_DW, R1, SCRATCH, HEAD + ruby.METHOD_BEFORE)
    yield asm.alu(abi.BPF_AND, R1, ruby.FRAME_KIND_MASK)
    yield asm.jump_if(abi.BPF_JNE, R1, ruby.FRAME_OF_C, left_out)
    yield asm.load(abi.BPF_DW, R3, SCRATCH, HEAD)
    yield asm.store(abi.BPF_DW, SCRATCH, CODE, R3)
    yield asm.store(abi.BPF_DW, SCRATCH, HANDLE, R3)
    yield asm.store(abi.BPF_DW, SCRATCH, LAST, 0)
    yield asm.store(abi.BPF_DW, SCRATCH, MARK, ruby.IN_C)
    yield asm.store(abi.BPF_DW, SCRATCH, PAIR, 0)
    yield from _read_method(shown)
    yield asm.load(abi.BPF_DW, R2, SCRATCH, _DEFINITION)
    yield asm.load_imm64(R1, MIX_CODE)
    yield asm.alu(abi.BPF_MUL, R2, R1)
    yield from add_slot(R2, _OWNER)
    yield asm.load(abi.BPF_DW, R1, SCRATCH, _ID)
    yield asm.alu(abi.BPF_XOR, R2, R1)
    yield asm.store(abi.BPF_DW, SCRATCH, PAIR, R2)
    yield asm.jump(shown)


def _read_method(other: str) -> Iterator[Item]:
    """Read the method entry at `R3`, or go to a label if there is none."""
    yield from read(_METHOD, ruby.METHOD_BYTES, other)
    yield asm.load(abi.BPF_DW, R1, SCRATCH, _METHOD)
    yield asm.alu(abi.BPF_AND, R1, ruby.IMEMO_MASK)
    yield asm.jump_if(abi.BPF_JNE, R1, ruby.IMEMO_METHOD, other)


def find_names() -> Iterator[Item]:
    """Find the name of the method at `HANDLE`, and its class; go to "named" if it has no name.

    `PAIR` becomes 1 for a method of the class itself, else 0.
    """
    yield asm.load(abi.BPF_DW, R3, SCRATCH, HANDLE)
    yield from _read_method("named")
    yield from read_at(_DEFINITION, ruby.DEFINITION_NAME, _ID, "named")
    yield from _find_name()
    yield asm.store(abi.BPF_DW, SCRATCH, SCOPE, 0)
    yield asm.store(abi.BPF_DW, SCRATCH, PAIR, 0)
    yield from _find_class()
    yield Label("has_scope")


def _find_name() -> Iterator[Item]:
    yield from jump_if_slot(abi.BPF_JLT, _ID, ruby.OPERATOR_END, "has_number")
    yield asm.alu(abi.BPF_RSH, R1, ruby.NAME_SHIFT)
    yield asm.store(abi.BPF_DW, SCRATCH, _ID, R1)
    yield Label("has_number")
    yield asm.load(abi.BPF_DW, R3, ENTRY, AT["symbols"])
    yield asm.jump_if(abi.BPF_JEQ, R3, 0, "named")
    yield asm.alu(abi.BPF_ADD, R3, ruby.SYMBOL_ARRAYS)
    yield from read(POINTER, 8, "named")
    yield asm.load(abi.BPF_DW, R1, SCRATCH, _ID)
    yield asm.alu(abi.BPF_RSH, R1, ruby.IN_ARRAY_SHIFT)
    yield asm.store(abi.BPF_DW, SCRATCH, MARK, R1)
    yield from _element(MARK)
    yield asm.load(abi.BPF_DW, R1, SCRATCH, _ID)
    yield asm.alu(abi.BPF_AND, R1, (1 << ruby.IN_ARRAY_SHIFT) - 1)
    yield asm.alu(abi.BPF_LSH, R1, 1)
    yield asm.store(abi.BPF_DW, SCRATCH, MARK, R1)
    yield from _element(MARK)
    yield from copy(POINTER, NAME)


def _element(index: int) -> Iterator[Item]:
    """Replace the array at `POINTER` by the element whose number a slot has."""
    yield from read_at(POINTER, 0, LAST, "named")
    yield asm.load(abi.BPF_DW, R1, SCRATCH, LAST)
    yield asm.alu(abi.BPF_AND, R1, ruby.TYPE_MASK | ruby.ARRAY_INSIDE)
    yield asm.jump_if(abi.BPF_JNE, R1, ruby.TYPE_ARRAY, "named")
    yield from read_at(POINTER, ruby.ARRAY_LENGTH, HEAD, "named", 24)
    yield asm.load(abi.BPF_DW, R1, SCRATCH, index)
    yield asm.load(abi.BPF_DW, R2, SCRATCH, HEAD)
    yield asm.jump_if(abi.BPF_JGE, R1, R2, "named")
    yield asm.load(abi.BPF_DW, R3, SCRATCH, HEAD + 16)
    yield asm.alu(abi.BPF_LSH, R1, 3)
    yield asm.alu(abi.BPF_ADD, R3, R1)
    yield from read(POINTER, 8, "named")


def _find_class() -> Iterator[Item]:
    """Put the string of the path of the class `_OWNER` into `SCOPE`; go to "has_scope" without."""
    yield from read_at(_OWNER, 0, HEAD, "has_scope")
    yield asm.load(abi.BPF_DW, R1, SCRATCH, HEAD)
    yield asm.move(R2, R1)
    yield asm.alu(abi.BPF_AND, R2, ruby.TYPE_MASK)
    yield asm.jump_if(abi.BPF_JNE, R2, ruby.TYPE_CLASS, "has_class")
    yield asm.load(abi.BPF_W, R2, ENTRY, AT["singleton"])
    yield asm.alu(abi.BPF_AND, R1, R2)
    yield asm.jump_if(abi.BPF_JEQ, R1, 0, "has_class")
    # This is the class of a class: its methods are those of the class attached to it.
    yield asm.store(abi.BPF_DW, SCRATCH, PAIR, 1)
    yield from jump_if_word(abi.BPF_JEQ, AT["attached"], 0, "attached_elsewhere")
    yield asm.load(abi.BPF_DW, R3, SCRATCH, _OWNER)
    yield asm.alu(abi.BPF_ADD, R3, R1)
    yield from read(POINTER, 8, "has_scope")
    yield from _check_attached("has_scope")
    yield Label("attached_elsewhere")
    yield asm.load(abi.BPF_DW, R1, ENTRY, AT["path_key"])
    yield asm.jump_if(abi.BPF_JEQ, R1, 0, "has_scope")
    yield from _for_each_variable("not_attached", _check_value)
    yield Label("attached")
    yield from copy(POINTER, _OWNER)
    yield Label("has_class")
    yield from _find_path()


def _check_attached(other: str) -> Iterator[Item]:
    """Go to "attached" if the class of the object at `POINTER` is `_OWNER`, or to a label."""
    yield from read_at(POINTER, ruby.OBJECT_CLASS, LAST, other)
    yield asm.load(abi.BPF_DW, R1, SCRATCH, LAST)
    yield asm.load(abi.BPF_DW, R2, SCRATCH, _OWNER)
    yield asm.jump_if(abi.BPF_JEQ, R1, R2, "attached")
    yield asm.jump(other)


def _find_path() -> Iterator[Item]:
    yield from jump_if_word(abi.BPF_JEQ, AT["class_path"], 0, "path_elsewhere")
    yield asm.load(abi.BPF_DW, R3, SCRATCH, _OWNER)
    yield asm.alu(abi.BPF_ADD, R3, R1)
    yield from read(SCOPE, 8, "no_scope")
    yield asm.jump("has_scope")
    yield Label("path_elsewhere")
    yield asm.load(abi.BPF_DW, R3, ENTRY, AT["path_key"])
    yield asm.jump_if(abi.BPF_JEQ, R3, 0, "has_scope")
    yield from read(_ID, 8, "has_scope")
    yield from _for_each_variable("no_path", _take_path)
    yield Label("no_scope")
    yield asm.store(abi.BPF_DW, SCRATCH, SCOPE, 0)


def _check_value(other: str) -> Iterator[Item]:
    """Go to "attached" if a variable in `HEAD` is an object of `_OWNER`, or to a label."""
    yield from copy(HEAD + 16, POINTER)
    yield from _check_attached(other)


def _take_path(other: str) -> Iterator[Item]:
    """Take the value of a variable in `HEAD` as the path if its key is `_ID`, or go to a label."""
    yield asm.load(abi.BPF_DW, R1, SCRATCH, HEAD + 8)
    yield asm.load(abi.BPF_DW, R2, SCRATCH, _ID)
    yield asm.jump_if(abi.BPF_JNE, R1, R2, other)
    yield from copy(HEAD + 16, SCOPE)
    yield asm.jump("has_scope")


def _for_each_variable(name: str, check: Callable[[str], Iterator[Item]]) -> Iterator[Item]:
    """Check the first variables of `_OWNER`, each read into `HEAD`; go to "has_scope" after them.

    A check goes somewhere, or to the label of the next variable, which begins with `name`.
    """
    yield asm.load(abi.BPF_DW, R3, SCRATCH, _OWNER)
    for offset in (ruby.CLASS_EXTENSION, ruby.CLASS_VARIABLES):
        yield asm.alu(abi.BPF_ADD, R3, offset)
        yield from read(LAST, 8, "has_scope")
        yield asm.load(abi.BPF_DW, R3, SCRATCH, LAST)
    yield asm.alu(abi.BPF_ADD, R3, ruby.TABLE_ENTRIES)
    yield from read(HEAD, 16, "has_scope")
    for place, slot in ((0, FRAME), (8, MARK)):
        yield from copy(HEAD + place, slot)
    for number in range(_LOOKED_AT):
        other = f"{name}_{number}"
        yield from jump_if_slot(abi.BPF_JLE, FRAME, number, "has_scope")
        yield from read_at(MARK, ruby.ENTRY_BYTES * number, HEAD, "has_scope", ruby.ENTRY_BYTES)
        yield from check(other)
        yield Label(other)
    yield asm.jump("has_scope")
