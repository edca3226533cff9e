"""The walker's second part: it gives each frame its signature, and sends names of new code objects.

They go out as a NAME, a FILE and LINES.
"""

from __future__ import annotations

from prospect.abi import bpf as abi
from prospect.abi import python_frames as wire
from prospect.capture.kernel import bpf_assembler as asm
from prospect.capture.kernel.bpf_assembler import Label, Reg
from prospect.capture.python import image_entry as entry
from prospect.capture.python.walk_parts import (
    BLOB_AT,
    CODE,
    ENTRY,
    FP,
    FRAMES_AT,
    HEAD,
    MIX_CODE,
    MOST_NEW,
    NEW_AT,
    NEW_BITS,
    NEW_ROW,
    NEW_ROWS_AT,
    PAIR,
    PLACES,
    POINTER,
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    ROW,
    SCRATCH,
    SEEN,
    SEEN_BITS,
    SENT_AT,
    SIZE,
    SLOT,
    TAG,
    ZERO,
    follow,
    frame_row,
    look_up,
    output,
    probe,
)
from prospect.capture.python.walk_rooms import begin_name, fill_rooms, open_rooms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.capture.python.walk_parts import Item, Maps


def find_new(maps: Maps) -> Iterator[Item]:
    """Give the frames their signatures; put down the code objects that nobody has sent before."""
    yield from look_up(maps.seen, ZERO, R0)
    yield asm.store(abi.BPF_DW, FP, SEEN, R0)
    yield from _send_entry(maps)
    # After the loop the verifier has many states of the number of frames: in memory it is just a
    # number.
    yield asm.move(ROW, 0)
    yield Label("look")
    yield asm.load(abi.BPF_W, R1, SCRATCH, 8)
    yield asm.jump_if(abi.BPF_JGE, ROW, R1, "looked")
    yield from frame_row(R1)
    yield asm.load(abi.BPF_DW, R3, R1, FRAMES_AT)
    yield asm.store(abi.BPF_DW, FP, CODE, R3)
    yield from follow(entry.SIGNATURE, PAIR, "known")
    yield from _mix_signature()
    yield from _search("known")
    yield asm.load(abi.BPF_DW, R1, SCRATCH, NEW_AT)
    yield asm.jump_if(abi.BPF_JGE, R1, MOST_NEW, "known")
    yield asm.move(R3, R1)
    yield asm.alu(abi.BPF_ADD, R3, 1)
    yield asm.store(abi.BPF_DW, SCRATCH, NEW_AT, R3)
    yield asm.alu(abi.BPF_LSH, R1, NEW_BITS)
    yield asm.alu(abi.BPF_ADD, R1, SCRATCH)
    for number, slot in enumerate(NEW_ROW):
        yield asm.load(abi.BPF_DW, R3, FP, slot)
        yield asm.store(abi.BPF_DW, R1, NEW_ROWS_AT + 8 * number, R3)
    yield Label("known")
    yield asm.alu(abi.BPF_ADD, ROW, 1)
    yield asm.jump_if(abi.BPF_JLT, ROW, wire.MOST_FRAMES, "look")
    yield Label("looked")


def send_names(maps: Maps) -> Iterator[Item]:
    """Send what the new code objects are called and where they come from."""
    yield asm.load(abi.BPF_DW, R1, SCRATCH, NEW_AT)
    yield asm.jump_if(abi.BPF_JEQ, R1, 0, "sent")
    yield from open_rooms(maps, "sent")
    yield asm.move(ROW, 0)
    yield Label("name")
    yield asm.load(abi.BPF_DW, R1, SCRATCH, NEW_AT)
    yield asm.jump_if(abi.BPF_JGE, ROW, R1, "all_named")
    yield asm.move(R1, ROW)
    yield asm.alu(abi.BPF_LSH, R1, NEW_BITS)
    yield asm.alu(abi.BPF_ADD, R1, SCRATCH)
    for number, slot in enumerate(NEW_ROW):
        yield asm.load(abi.BPF_DW, R3, R1, NEW_ROWS_AT + 8 * number)
        yield asm.store(abi.BPF_DW, FP, slot, R3)
    yield from _search("named")  # a recursion's is there more than once
    # If it is no code object, or is not in memory now, nothing is sent.
    for pointer in (entry.NAME, entry.FILE, entry.LINES):
        yield from _read_object(pointer)
    yield from begin_name("all_named")
    yield from _send_text(maps, wire.KIND_NAME, entry.NAME, wire.MOST_NAME_BYTES)
    yield from _send_text(maps, wire.KIND_FILE, entry.FILE, wire.MOST_FILE_BYTES)
    yield from _send_lines(maps)
    # A table that is swapped out is tried again with the next name, in minutes.
    yield Label("no_lines")
    yield from _remember("name_room")
    yield Label("named")
    yield asm.alu(abi.BPF_ADD, ROW, 1)
    yield asm.jump_if(abi.BPF_JLT, ROW, MOST_NEW, "name")
    yield Label("all_named")
    yield from fill_rooms()
    yield Label("sent")


def _send_entry(maps: Maps) -> Iterator[Item]:
    yield asm.load(abi.BPF_DW, R1, ENTRY, entry.ID)
    yield asm.load_imm64(R2, MIX_CODE)
    yield asm.alu(abi.BPF_MUL, R1, R2)
    yield asm.store(abi.BPF_DW, FP, TAG, R1)
    yield from _search("entry_sent")
    yield from output(maps, ENTRY, 0, wire.HEADER.size + wire.IMAGE.size)
    yield asm.jump_if(abi.BPF_JNE, R0, 0, "entry_sent")
    yield from _remember("entry_room")
    yield Label("entry_sent")


def _mix_signature() -> Iterator[Item]:
    """Put the frame's signature into its row, and the code object's tag on the stack."""
    yield asm.load(abi.BPF_DW, R2, FP, PAIR)
    yield asm.load_imm64(R3, wire.SIGNATURE_MIX)
    yield asm.alu(abi.BPF_MUL, R2, R3)
    yield asm.move(R4, R2)
    yield asm.alu(abi.BPF_RSH, R4, 40)
    yield asm.store(abi.BPF_DW, FP, SLOT, R4)  # kept for the names until the search
    yield asm.alu(abi.BPF_LSH, R4, wire.SIGNATURE_SHIFT)
    yield from frame_row(R1)
    yield asm.load(abi.BPF_B, R5, R1, FRAMES_AT + 12)
    yield asm.alu(abi.BPF_OR, R5, R4)
    yield asm.store(abi.BPF_W, R1, FRAMES_AT + 12, R5)
    yield asm.load(abi.BPF_DW, R3, FP, CODE)
    yield asm.alu(abi.BPF_ADD, R2, R3)
    yield asm.load(abi.BPF_DW, R3, ENTRY, entry.ID)
    yield asm.alu(abi.BPF_ADD, R2, R3)
    yield asm.load_imm64(R3, MIX_CODE)
    yield asm.alu(abi.BPF_MUL, R2, R3)
    yield asm.store(abi.BPF_DW, FP, TAG, R2)


def _search(found: str) -> Iterator[Item]:
    """Go to a label if the tag is among those that were sent."""
    yield asm.load(abi.BPF_DW, R2, FP, TAG)
    yield asm.load(abi.BPF_DW, R4, FP, SEEN)
    for place in range(PLACES):
        yield from _place(R1, R2, R4, place)
        yield asm.load(abi.BPF_DW, R3, R1, 0)
        yield asm.jump_if(abi.BPF_JEQ, R3, R2, found)


def _remember(free: str) -> Iterator[Item]:
    """Put the tag where there is room, or replace another one."""
    yield asm.load(abi.BPF_DW, R2, FP, TAG)
    yield asm.load(abi.BPF_DW, R4, FP, SEEN)
    for place in range(PLACES):
        yield from _place(R1, R2, R4, place)
        if place + 1 < PLACES:
            yield asm.load(abi.BPF_DW, R3, R1, 0)
            yield asm.jump_if(abi.BPF_JEQ, R3, 0, free)
    yield Label(free)
    yield asm.store(abi.BPF_DW, R1, 0, R2)


def _place(dst: Reg, tag: Reg, seen: Reg, number: int) -> Iterator[Item]:
    """Set a register to one of the places that a tag may be at."""
    yield asm.move(dst, tag)
    yield asm.alu(abi.BPF_RSH, dst, 64 - SEEN_BITS)
    yield asm.alu(abi.BPF_XOR, dst, number)
    yield asm.alu(abi.BPF_LSH, dst, 3)
    yield asm.alu(abi.BPF_ADD, dst, seen)


def _send_text(maps: Maps, kind: int, pointer: int, most: int) -> Iterator[Item]:
    """Send a str of the code object."""
    yield from _read_object(pointer)
    # its state: 2 bits or more, then bytes a character in 3, compact, ascii
    label = f"compact_{kind}"
    yield asm.load(abi.BPF_W, R1, FP, HEAD + 16)
    yield asm.load(abi.BPF_W, R2, ENTRY, entry.STATE_SHIFT)
    yield asm.alu(abi.BPF_AND, R2, 31)
    yield asm.alu(abi.BPF_RSH, R1, R2)
    yield asm.move(R2, R1)
    yield asm.alu(abi.BPF_RSH, R2, 2)
    yield asm.alu(abi.BPF_AND, R2, 7)
    yield asm.move(R5, R2)
    yield asm.load(abi.BPF_W, R3, ENTRY, entry.COMPACT)
    yield asm.alu(abi.BPF_AND, R1, 64)
    yield asm.jump_if(abi.BPF_JEQ, R1, 0, label)
    yield asm.load(abi.BPF_W, R3, ENTRY, entry.ASCII)
    yield asm.alu(abi.BPF_OR, R5, wire.IS_ASCII)
    yield Label(label)
    yield asm.load(abi.BPF_DW, R4, FP, HEAD)
    yield asm.jump_if(abi.BPF_JLT, R4, most, label + "_fits")
    yield asm.move(R4, most)
    yield asm.alu(abi.BPF_OR, R5, wire.CUT)
    yield Label(label + "_fits")
    yield asm.alu(abi.BPF_RSH, R2, 1)
    yield asm.alu(abi.BPF_LSH, R4, R2)
    yield from _send_bytes(maps, kind, most, label)


def _send_lines(maps: Maps) -> Iterator[Item]:
    """Send the code object's table of lines."""
    yield from _read_object(entry.LINES)
    yield asm.load(abi.BPF_W, R3, ENTRY, entry.BYTES)
    yield asm.move(R5, 1)
    yield asm.load(abi.BPF_DW, R4, FP, HEAD)
    yield from _send_bytes(maps, wire.KIND_LINES, wire.MOST_LINES_BYTES, "lines", "no_lines")


def _read_object(pointer: int) -> Iterator[Item]:
    """Follow a pointer of the code object; read the object's length and what follows."""
    yield asm.load(abi.BPF_DW, R3, FP, CODE)
    yield from follow(pointer, POINTER, "named")
    yield asm.load(abi.BPF_DW, R3, FP, POINTER)
    yield from follow(entry.LENGTH, HEAD, "named", 24)


def _send_bytes(
    maps: Maps, kind: int, most: int, label: str, failed: str = "named"
) -> Iterator[Item]:
    """Send R4 bytes, from offset R3 of the object on, as a record with the status R5.

    Args:
        maps: of the program.
        kind: of the record.
        most: bytes of it.
        label: begins the labels of these instructions.
        failed: where to go if the bytes are not in memory now.
    """
    yield asm.jump_if(abi.BPF_JLE, R4, most, label + "_short")
    yield asm.move(R4, most)
    yield asm.alu(abi.BPF_OR, R5, wire.CUT)
    yield Label(label + "_short")
    yield asm.store(abi.BPF_DW, FP, SIZE, R4)
    yield asm.load_imm64(R1, wire.MAGIC | kind << 32)
    yield asm.store(abi.BPF_DW, SCRATCH, BLOB_AT, R1)
    yield asm.store(abi.BPF_H, SCRATCH, BLOB_AT + 6, R5)
    yield asm.store(abi.BPF_W, SCRATCH, BLOB_AT + 8, R4)
    yield asm.load(abi.BPF_DW, R1, FP, SLOT)
    yield asm.store(abi.BPF_W, SCRATCH, BLOB_AT + 12, R1)
    yield asm.load(abi.BPF_DW, R1, ENTRY, entry.ID)
    yield asm.store(abi.BPF_DW, SCRATCH, BLOB_AT + 16, R1)
    yield asm.load(abi.BPF_DW, R1, FP, CODE)
    yield asm.store(abi.BPF_DW, SCRATCH, BLOB_AT + 24, R1)
    yield asm.load(abi.BPF_DW, R1, FP, PAIR)
    yield asm.store(abi.BPF_DW, SCRATCH, BLOB_AT + 32, R1)
    yield asm.load(abi.BPF_DW, R1, FP, POINTER)
    yield asm.alu(abi.BPF_ADD, R3, R1)
    yield asm.move(R2, R4)
    yield asm.move(R1, SCRATCH)
    yield asm.alu(abi.BPF_ADD, R1, BLOB_AT + wire.HEADER.size)
    yield from probe(failed)
    yield asm.load(abi.BPF_DW, R5, FP, SIZE)
    yield asm.alu(abi.BPF_ADD, R5, wire.HEADER.size)
    yield from output(maps, SCRATCH, BLOB_AT, None)
    # Without room in the ring another sample tries it.
    yield asm.jump_if(abi.BPF_JNE, R0, 0, "named")
    yield asm.load(abi.BPF_DW, R1, FP, SIZE)
    yield asm.load(abi.BPF_DW, R2, SCRATCH, SENT_AT)
    yield asm.alu(abi.BPF_ADD, R2, R1)
    yield asm.store(abi.BPF_DW, SCRATCH, SENT_AT, R2)
