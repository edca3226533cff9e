"""Ruby's C functions: how their method entries lead to names.

A name is a number in the table of symbols; the class is known by its own record of its path. The
code of two functions, rb_id2str() and rb_mod_name(), says where both are. Up to Ruby 3.1 a class
has its path in the table of its variables.

Defined by: `abi.ruby`; get_id_serial_entry() in ``symbol.c`` and rb_mod_name() in ``variable.c``.
"""

from __future__ import annotations

import struct

from prospect.abi import bpf as abi
from prospect.abi import ruby
from prospect.capture.kernel import bpf_assembler as asm
from prospect.capture.kernel.bpf_assembler import Label
from prospect.capture.runtimes.image_entry import Fields
from prospect.capture.runtimes.walk_parts import (
    CODE,
    ENTRY,
    FRAME,
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
    SCRATCH,
    probe,
    read,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prospect.capture.runtimes.elf_lookup import File
    from prospect.capture.runtimes.walk_parts import Item

TABLE, NAME_OF, CLASS_NAME = b"ruby_global_symbols", b"rb_id2str", b"rb_mod_name"
SYMBOLS = (TABLE, NAME_OF, CLASS_NAME)
AT = Fields(
    ("storage", "symbols", "path_key"),
    ("access", "offset", "class_path", *ruby.RubyLayout._fields),
)
# As much of these functions as is read, and of the one that rb_id2str() goes on with.
_MOST_NAME_CODE_BYTES = 128
_JUMP, _PADDED = 0xE9, b"\xf3\x0f\x1e\xfa"
# cmp %r32, disp32(%rip) or the other way round; mov disp32(%rip), %r64 with its prefixes.
_COMPARES, _LOADS, _REX_LOADS = (0x39, 0x3B), 0x8B, (0x48, 0x4C)
_REGISTER_MASK, _FROM_HERE = 0xC7, 0x05
# mov disp32(%rdi), %rax; mov 0x18(%rdi), %rax; mov disp32(%rip), %rsi.
_LOAD_PATH, _LOAD_EXTENSION, _LOAD_KEY = b"\x48\x8b\x87", b"\x48\x8b\x47\x18", b"\x48\x8b\x35"
_FARTHEST_PATH = 1 << 10
# Entries of a class's variables that are looked at: its path is the first one.
_LOOKED_AT = 4
# What a method entry is read to.
_METHOD = OWN[4]
_DEFINITION, _ID, _OWNER = OWN[2], OWN[1], OWN[0]
# What `find_names` leaves: the strings, 0 for no class.
NAME, SCOPE = OWN[2], OWN[3]


def find_symbols(file: File, symbols: dict[bytes, tuple[int, int]]) -> int:
    """Return where a Ruby has its table of symbols, 0 if its code is not known."""
    if TABLE in symbols:
        return symbols[TABLE][0]
    address, size = symbols.get(NAME_OF, (0, 0))
    code = file.at(address, min(size, _MOST_NAME_CODE_BYTES)) if size else b""
    target = _jumps_to(code, address)
    more = file.at(target, _MOST_NAME_CODE_BYTES) if target else b""
    return table_of(((code, address), (more, target)))


def table_of(pieces: tuple[tuple[bytes, int], ...]) -> int:
    """Return the table that pieces of code at their addresses read, 0 if that is not known.

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
    """Return where a function's first jump into another one goes, 0 without."""
    for at in range(len(code) - 4):
        if code[at] == _JUMP:
            return int(address + at + 5 + struct.unpack_from("<i", code, at + 1)[0])
    return 0


def path_place(code: bytes, address: int) -> tuple[int, int]:
    """Return how rb_mod_name() at an address finds the path of a class, zeros if not known.

    Returns:
        Where the key of the path in the table of variables is, and the offset of the path in the
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
    """Return what `path_place` does of a file."""
    address, size = symbols.get(CLASS_NAME, (0, 0))
    return path_place(file.at(address, min(size, _MOST_NAME_CODE_BYTES)) if size else b"", address)


def identify_method(shown: str, left_out: str) -> Iterator[Item]:
    """Go to a label with the C function of a frame, or to another one if it is not one's.

    `POINTER` has the frame's environment. A method entry that cannot be read has no name.
    """
    yield asm.load(abi.BPF_DW, R3, SCRATCH, POINTER)
    yield asm.alu(abi.BPF_SUB, R3, ruby.METHOD_BEFORE)
    yield from read(HEAD, 24)
    yield from probe("walk_fault")
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
    yield asm.load(abi.BPF_DW, R1, SCRATCH, _OWNER)
    yield asm.alu(abi.BPF_ADD, R2, R1)
    yield asm.load(abi.BPF_DW, R1, SCRATCH, _ID)
    yield asm.alu(abi.BPF_XOR, R2, R1)
    yield asm.store(abi.BPF_DW, SCRATCH, PAIR, R2)
    yield asm.jump(shown)


def _read_method(other: str) -> Iterator[Item]:
    """Read the method entry at `R3`, or go to a label if there is none."""
    yield from read(_METHOD, ruby.METHOD_BYTES)
    yield from probe(other)
    yield asm.load(abi.BPF_DW, R1, SCRATCH, _METHOD)
    yield asm.alu(abi.BPF_AND, R1, ruby.IMEMO_MASK)
    yield asm.jump_if(abi.BPF_JNE, R1, ruby.IMEMO_METHOD, other)


def find_names() -> Iterator[Item]:
    """Find the name of the method at `HANDLE`, and its class; go to "named" if it has no name.

    `PAIR` becomes whether it is a method of the class itself.
    """
    yield asm.load(abi.BPF_DW, R3, SCRATCH, HANDLE)
    yield from _read_method("named")
    yield asm.load(abi.BPF_DW, R3, SCRATCH, _DEFINITION)
    yield asm.alu(abi.BPF_ADD, R3, ruby.DEFINITION_NAME)
    yield from read(_ID, 8)
    yield from probe("named")
    yield from _find_name()
    yield asm.store(abi.BPF_DW, SCRATCH, SCOPE, 0)
    yield asm.store(abi.BPF_DW, SCRATCH, PAIR, 0)
    yield from _find_class()
    yield Label("has_scope")


def _find_name() -> Iterator[Item]:
    """Put the string of the name `_ID` into `NAME`."""
    yield asm.load(abi.BPF_DW, R1, SCRATCH, _ID)
    yield asm.jump_if(abi.BPF_JLT, R1, ruby.OPERATOR_END, "has_number")
    yield asm.alu(abi.BPF_RSH, R1, ruby.NAME_SHIFT)
    yield asm.store(abi.BPF_DW, SCRATCH, _ID, R1)
    yield Label("has_number")
    yield asm.load(abi.BPF_DW, R3, ENTRY, AT["symbols"])
    yield asm.jump_if(abi.BPF_JEQ, R3, 0, "named")
    yield asm.alu(abi.BPF_ADD, R3, ruby.SYMBOL_ARRAYS)
    yield from read(POINTER, 8)
    yield from probe("named")
    yield asm.load(abi.BPF_DW, R1, SCRATCH, _ID)
    yield asm.alu(abi.BPF_RSH, R1, ruby.IN_ARRAY_SHIFT)
    yield asm.store(abi.BPF_DW, SCRATCH, MARK, R1)
    yield from _element(MARK)
    yield asm.load(abi.BPF_DW, R1, SCRATCH, _ID)
    yield asm.alu(abi.BPF_AND, R1, (1 << ruby.IN_ARRAY_SHIFT) - 1)
    yield asm.alu(abi.BPF_LSH, R1, 1)
    yield asm.store(abi.BPF_DW, SCRATCH, MARK, R1)
    yield from _element(MARK)
    yield asm.load(abi.BPF_DW, R1, SCRATCH, POINTER)
    yield asm.store(abi.BPF_DW, SCRATCH, NAME, R1)


def _element(index: int) -> Iterator[Item]:
    """Replace the array at `POINTER` by one of its elements, whose number a slot has."""
    yield asm.load(abi.BPF_DW, R3, SCRATCH, POINTER)
    yield from read(LAST, 8)
    yield from probe("named")
    yield asm.load(abi.BPF_DW, R1, SCRATCH, LAST)
    yield asm.alu(abi.BPF_AND, R1, ruby.TYPE_MASK | ruby.ARRAY_INSIDE)
    yield asm.jump_if(abi.BPF_JNE, R1, ruby.TYPE_ARRAY, "named")
    yield asm.load(abi.BPF_DW, R3, SCRATCH, POINTER)
    yield asm.alu(abi.BPF_ADD, R3, ruby.ARRAY_LENGTH)
    yield from read(HEAD, 24)
    yield from probe("named")
    yield asm.load(abi.BPF_DW, R1, SCRATCH, index)
    yield asm.load(abi.BPF_DW, R2, SCRATCH, HEAD)
    yield asm.jump_if(abi.BPF_JGE, R1, R2, "named")
    yield asm.load(abi.BPF_DW, R3, SCRATCH, HEAD + 16)
    yield asm.alu(abi.BPF_LSH, R1, 3)
    yield asm.alu(abi.BPF_ADD, R3, R1)
    yield from read(POINTER, 8)
    yield from probe("named")


def _find_class() -> Iterator[Item]:
    """Put the string of the path of the class `_OWNER` into `SCOPE`; go to "has_scope" without."""
    yield asm.load(abi.BPF_DW, R3, SCRATCH, _OWNER)
    yield from read(HEAD, 8)
    yield from probe("has_scope")
    yield asm.load(abi.BPF_DW, R1, SCRATCH, HEAD)
    yield asm.move(R2, R1)
    yield asm.alu(abi.BPF_AND, R2, ruby.TYPE_MASK)
    yield asm.jump_if(abi.BPF_JNE, R2, ruby.TYPE_CLASS, "has_class")
    yield asm.load(abi.BPF_W, R2, ENTRY, AT["singleton"])
    yield asm.alu(abi.BPF_AND, R1, R2)
    yield asm.jump_if(abi.BPF_JEQ, R1, 0, "has_class")
    # The class of a class: the methods are those of the class that is attached to it.
    yield asm.store(abi.BPF_DW, SCRATCH, PAIR, 1)
    yield asm.load(abi.BPF_W, R1, ENTRY, AT["attached"])
    yield asm.jump_if(abi.BPF_JEQ, R1, 0, "attached_elsewhere")
    yield asm.load(abi.BPF_DW, R3, SCRATCH, _OWNER)
    yield asm.alu(abi.BPF_ADD, R3, R1)
    yield from read(POINTER, 8)
    yield from probe("has_scope")
    yield from _check_attached("has_scope")
    yield Label("attached_elsewhere")
    yield asm.load(abi.BPF_DW, R1, ENTRY, AT["path_key"])
    yield asm.jump_if(abi.BPF_JEQ, R1, 0, "has_scope")
    yield from _for_each_variable("not_attached", _check_value)
    yield Label("attached")
    yield asm.load(abi.BPF_DW, R1, SCRATCH, POINTER)
    yield asm.store(abi.BPF_DW, SCRATCH, _OWNER, R1)
    yield Label("has_class")
    yield from _find_path()


def _check_attached(other: str) -> Iterator[Item]:
    """Go to "attached" if the class of the object at `POINTER` is `_OWNER`, or to a label."""
    yield asm.load(abi.BPF_DW, R3, SCRATCH, POINTER)
    yield asm.alu(abi.BPF_ADD, R3, ruby.OBJECT_CLASS)
    yield from read(LAST, 8)
    yield from probe(other)
    yield asm.load(abi.BPF_DW, R1, SCRATCH, LAST)
    yield asm.load(abi.BPF_DW, R2, SCRATCH, _OWNER)
    yield asm.jump_if(abi.BPF_JEQ, R1, R2, "attached")
    yield asm.jump(other)


def _find_path() -> Iterator[Item]:
    """Put the string of the path of `_OWNER` into `SCOPE`."""
    yield asm.load(abi.BPF_W, R1, ENTRY, AT["class_path"])
    yield asm.jump_if(abi.BPF_JEQ, R1, 0, "path_elsewhere")
    yield asm.load(abi.BPF_DW, R3, SCRATCH, _OWNER)
    yield asm.alu(abi.BPF_ADD, R3, R1)
    yield from read(SCOPE, 8)
    yield from probe("no_scope")
    yield asm.jump("has_scope")
    yield Label("path_elsewhere")
    yield asm.load(abi.BPF_DW, R3, ENTRY, AT["path_key"])
    yield asm.jump_if(abi.BPF_JEQ, R3, 0, "has_scope")
    yield from read(_ID, 8)
    yield from probe("has_scope")
    yield from _for_each_variable("no_path", _take_path)
    yield Label("no_scope")
    yield asm.store(abi.BPF_DW, SCRATCH, SCOPE, 0)


def _check_value(other: str) -> Iterator[Item]:
    """Go to "attached" if a variable in `HEAD` is an object of `_OWNER`, or to a label."""
    yield asm.load(abi.BPF_DW, R1, SCRATCH, HEAD + 16)
    yield asm.store(abi.BPF_DW, SCRATCH, POINTER, R1)
    yield from _check_attached(other)


def _take_path(other: str) -> Iterator[Item]:
    """Take the value of a variable in `HEAD` as the path if its key is `_ID`, or go to a label."""
    yield asm.load(abi.BPF_DW, R1, SCRATCH, HEAD + 8)
    yield asm.load(abi.BPF_DW, R2, SCRATCH, _ID)
    yield asm.jump_if(abi.BPF_JNE, R1, R2, other)
    yield asm.load(abi.BPF_DW, R1, SCRATCH, HEAD + 16)
    yield asm.store(abi.BPF_DW, SCRATCH, SCOPE, R1)
    yield asm.jump("has_scope")


def _for_each_variable(name: str, check: Callable[[str], Iterator[Item]]) -> Iterator[Item]:
    """Check the first variables of `_OWNER`, each read into `HEAD`; go to "has_scope" after them.

    A check goes somewhere, or to the label of the next variable, which begins with `name`.
    """
    yield asm.load(abi.BPF_DW, R3, SCRATCH, _OWNER)
    for offset in (ruby.CLASS_EXTENSION, ruby.CLASS_VARIABLES):
        yield asm.alu(abi.BPF_ADD, R3, offset)
        yield from read(LAST, 8)
        yield from probe("has_scope")
        yield asm.load(abi.BPF_DW, R3, SCRATCH, LAST)
    yield asm.alu(abi.BPF_ADD, R3, ruby.TABLE_ENTRIES)
    yield from read(HEAD, 16)
    yield from probe("has_scope")
    for place, slot in ((0, FRAME), (8, MARK)):
        yield asm.load(abi.BPF_DW, R1, SCRATCH, HEAD + place)
        yield asm.store(abi.BPF_DW, SCRATCH, slot, R1)
    for number in range(_LOOKED_AT):
        other = f"{name}_{number}"
        yield asm.load(abi.BPF_DW, R1, SCRATCH, FRAME)
        yield asm.jump_if(abi.BPF_JLE, R1, number, "has_scope")
        yield asm.load(abi.BPF_DW, R3, SCRATCH, MARK)
        yield asm.alu(abi.BPF_ADD, R3, ruby.ENTRY_BYTES * number)
        yield from read(HEAD, ruby.ENTRY_BYTES)
        yield from probe("has_scope")
        yield from check(other)
        yield Label(other)
    yield asm.jump("has_scope")
