"""CPython's second part of the walker: it sends what a new code object is called, and its lines.

Defined by: `abi.cpython`; ``Include/cpython/unicodeobject.h`` for the state of a str.
"""

from __future__ import annotations

from prospect.abi import bpf as abi
from prospect.abi import runtime_frames as wire
from prospect.capture.kernel import bpf_assembler as asm
from prospect.capture.kernel.bpf_assembler import Label
from prospect.capture.python.interpreters import ENTRY as AT
from prospect.capture.runtimes.walk_names import send_bytes
from prospect.capture.runtimes.walk_parts import (
    CODE,
    ENTRY,
    FP,
    HEAD,
    POINTER,
    R1,
    R2,
    R3,
    R4,
    R5,
    follow,
)
from prospect.capture.runtimes.walk_rooms import begin_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.capture.runtimes.walk_parts import Item, Maps


def send_code(maps: Maps) -> Iterator[Item]:
    """Send name, file and lines of the code object in `CODE`."""
    # If it is no code object, or is not in memory now, nothing is sent.
    for pointer in ("name", "file", "lines"):
        yield from _read_object(AT[pointer])
    yield from begin_name("all_named")
    yield from _send_text(maps, wire.KIND_NAME, AT["name"], wire.MOST_NAME_BYTES)
    yield from _send_text(maps, wire.KIND_FILE, AT["file"], wire.MOST_FILE_BYTES)
    yield from _send_lines(maps)
    # A table that is swapped out is tried again with the next name, in minutes.
    yield Label("no_lines")


def _add_pointer() -> Iterator[Item]:
    """Turn the offset in R3 into an address in the object that was read."""
    yield asm.load(abi.BPF_DW, R1, FP, POINTER)
    yield asm.alu(abi.BPF_ADD, R3, R1)


def _send_text(maps: Maps, kind: int, pointer: int, most: int) -> Iterator[Item]:
    """Send a str of the code object."""
    yield from _read_object(pointer)
    # its state: 2 bits or more, then bytes a character in 3, compact, ascii
    label = f"compact_{kind}"
    yield asm.load(abi.BPF_W, R1, FP, HEAD + 16)
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
    yield asm.load(abi.BPF_DW, R4, FP, HEAD)
    yield asm.jump_if(abi.BPF_JLT, R4, most, label + "_fits")
    yield asm.move(R4, most)
    yield asm.alu(abi.BPF_OR, R5, wire.CUT)
    yield Label(label + "_fits")
    yield asm.alu(abi.BPF_RSH, R2, 1)
    yield asm.alu(abi.BPF_LSH, R4, R2)
    yield from _add_pointer()
    yield from send_bytes(maps, kind, most, label)


def _send_lines(maps: Maps) -> Iterator[Item]:
    """Send the code object's table of lines."""
    yield from _read_object(AT["lines"])
    yield asm.load(abi.BPF_W, R3, ENTRY, AT["bytes"])
    yield asm.move(R5, 1)
    yield asm.load(abi.BPF_DW, R4, FP, HEAD)
    yield from _add_pointer()
    yield from send_bytes(maps, wire.KIND_LINES, wire.MOST_LINES_BYTES, "lines", "no_lines")


def _read_object(pointer: int) -> Iterator[Item]:
    """Follow a pointer of the code object; read the object's length and what follows."""
    yield asm.load(abi.BPF_DW, R3, FP, CODE)
    yield from follow(pointer, POINTER, "named")
    yield asm.load(abi.BPF_DW, R3, FP, POINTER)
    yield from follow(AT["length"], HEAD, "named", 24)
