"""The engine's second part: signatures of frames, and names of new functions."""

from __future__ import annotations

from prospect.abi import bpf as abi
from prospect.abi import runtime_frames as wire
from prospect.capture.capture_limits import MOST_NEW
from prospect.capture.kernel import bpf_assembler as asm
from prospect.capture.kernel.bpf_assembler import Label, Reg
from prospect.capture.runtimes import image_entry as entry
from prospect.capture.runtimes.walk_parts import (
    BLOB_AT,
    CODE,
    ENTRY,
    FP,
    FRAMES_AT,
    MARK,
    MIX_CODE,
    NEW_AT,
    NEW_BITS,
    NEW_ROW,
    NEW_ROWS_AT,
    PAIR,
    PLACES,
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    ROW,
    ROW_AT,
    SCRATCH,
    SEEN,
    SEEN_BITS,
    SENT_AT,
    SIGNATURE,
    TAG,
    ZERO,
    copy,
    jump_if_slot,
    look_up,
    output,
    probe,
)
from prospect.capture.runtimes.walk_rooms import fill_rooms, open_rooms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.capture.runtimes.walk_parts import Item, Maps


def find_seen(maps: Maps) -> Iterator[Item]:
    """Find the tags of sent names; send the runtime's IMAGE if it was not sent yet."""
    yield from look_up(maps.seen, ZERO, R0)
    yield asm.store(abi.BPF_DW, FP, SEEN, R0)
    yield asm.load(abi.BPF_DW, R1, ENTRY, entry.ID)
    yield asm.load_imm64(R2, MIX_CODE)
    yield asm.alu(abi.BPF_MUL, R1, R2)
    yield asm.store(abi.BPF_DW, SCRATCH, TAG, R1)
    yield from search_seen("entry_sent")
    yield from output(maps, ENTRY, 0, wire.HEADER.size + wire.IMAGE.size)
    yield asm.jump_if(abi.BPF_JNE, R0, 0, "entry_sent")
    yield from remember_seen("entry_room")
    yield Label("entry_sent")


def note_function() -> Iterator[Item]:
    """Give a frame its signature, from `PAIR`; note its function if it was not sent yet."""
    yield asm.load(abi.BPF_DW, R2, SCRATCH, PAIR)
    yield asm.load_imm64(R3, wire.SIGNATURE_MIX)
    yield asm.alu(abi.BPF_MUL, R2, R3)
    yield asm.move(R4, R2)
    yield asm.alu(abi.BPF_RSH, R4, 40)
    yield asm.store(abi.BPF_DW, SCRATCH, SIGNATURE, R4)
    yield asm.alu(abi.BPF_LSH, R4, wire.SIGNATURE_SHIFT)
    yield asm.load(abi.BPF_DW, R1, FP, ROW_AT)
    yield asm.load(abi.BPF_B, R5, SCRATCH, MARK)
    yield asm.alu(abi.BPF_OR, R5, R4)
    yield asm.store(abi.BPF_W, R1, FRAMES_AT + 12, R5)
    yield asm.load(abi.BPF_DW, R3, SCRATCH, CODE)
    yield asm.alu(abi.BPF_ADD, R2, R3)
    yield asm.load(abi.BPF_DW, R3, ENTRY, entry.ID)
    yield asm.alu(abi.BPF_ADD, R2, R3)
    yield asm.load_imm64(R3, MIX_CODE)
    yield asm.alu(abi.BPF_MUL, R2, R3)
    yield asm.store(abi.BPF_DW, SCRATCH, TAG, R2)
    yield from search_seen("next")
    yield from jump_if_slot(abi.BPF_JGE, NEW_AT, MOST_NEW, "next")
    yield asm.move(R3, R1)
    yield asm.alu(abi.BPF_ADD, R3, 1)
    yield asm.store(abi.BPF_DW, SCRATCH, NEW_AT, R3)
    yield asm.alu(abi.BPF_LSH, R1, NEW_BITS)
    yield asm.alu(abi.BPF_ADD, R1, SCRATCH)
    for number, slot in enumerate(NEW_ROW):
        yield asm.load(abi.BPF_DW, R3, SCRATCH, slot)
        yield asm.store(abi.BPF_DW, R1, NEW_ROWS_AT + 8 * number, R3)


def send_names(maps: Maps, send: Iterator[Item]) -> Iterator[Item]:
    """Send the names of new functions; `send` are the runtime's instructions for one of them."""
    yield from jump_if_slot(abi.BPF_JEQ, NEW_AT, 0, "sent")
    yield from open_rooms(maps, "sent")
    yield asm.load(abi.BPF_DW, ROW, SCRATCH, SENT_AT)
    yield Label("name")
    yield asm.may_go("all_named")
    yield asm.jump_if(abi.BPF_JGE, ROW, MOST_NEW, "all_named")
    yield asm.load(abi.BPF_DW, R1, SCRATCH, NEW_AT)
    yield asm.jump_if(abi.BPF_JGE, ROW, R1, "all_named")
    yield asm.move(R1, ROW)
    yield asm.alu(abi.BPF_LSH, R1, NEW_BITS)
    yield asm.alu(abi.BPF_ADD, R1, SCRATCH)
    for number, slot in enumerate(NEW_ROW):
        yield asm.load(abi.BPF_DW, R3, R1, NEW_ROWS_AT + 8 * number)
        yield asm.store(abi.BPF_DW, SCRATCH, slot, R3)
    yield from search_seen("named")  # a recursive function is there more than once
    yield from send
    yield from remember_seen("name_room")
    yield Label("named")
    yield asm.alu(abi.BPF_ADD, ROW, 1)
    yield asm.jump("name")
    yield Label("all_named")
    yield from fill_rooms()
    yield Label("sent")


def search_seen(found: str) -> Iterator[Item]:
    """Go to a label if the tag was sent."""
    yield asm.load(abi.BPF_DW, R2, SCRATCH, TAG)
    yield asm.load(abi.BPF_DW, R4, FP, SEEN)
    for place in range(PLACES):
        yield from _place(R1, R2, R4, place)
        yield asm.load(abi.BPF_DW, R3, R1, 0)
        yield asm.jump_if(abi.BPF_JEQ, R3, R2, found)


def remember_seen(free: str) -> Iterator[Item]:
    """Put the tag into a free place, or replace another one."""
    yield asm.load(abi.BPF_DW, R2, SCRATCH, TAG)
    yield asm.load(abi.BPF_DW, R4, FP, SEEN)
    for place in range(PLACES):
        yield from _place(R1, R2, R4, place)
        if place + 1 < PLACES:
            yield asm.load(abi.BPF_DW, R3, R1, 0)
            yield asm.jump_if(abi.BPF_JEQ, R3, 0, free)
    yield Label(free)
    yield asm.store(abi.BPF_DW, R1, 0, R2)


def _place(dst: Reg, tag: Reg, seen: Reg, number: int) -> Iterator[Item]:
    """Set a register to one of the places for a tag."""
    yield asm.move(dst, tag)
    yield asm.alu(abi.BPF_RSH, dst, 64 - SEEN_BITS)
    yield asm.alu(abi.BPF_XOR, dst, number)
    yield asm.alu(abi.BPF_LSH, dst, 3)
    yield asm.alu(abi.BPF_ADD, dst, seen)


def send_bytes(
    maps: Maps, kind: int, most: int, label: str, failed: str = "named"
) -> Iterator[Item]:
    """Send R4 bytes at R3 as a record with the status R5.

    Args:
        most: the most bytes of the record.
        label: prefix of the labels of these instructions.
        failed: label to go to if the bytes are not in memory now.
    """
    yield asm.jump_if(abi.BPF_JLE, R4, most, label + "_short")
    yield asm.move(R4, most)
    yield asm.alu(abi.BPF_OR, R5, wire.CUT)
    yield Label(label + "_short")
    yield asm.load_imm64(R1, wire.MAGIC | kind << 32)
    yield asm.store(abi.BPF_DW, SCRATCH, BLOB_AT, R1)
    yield asm.store(abi.BPF_H, SCRATCH, BLOB_AT + 6, R5)
    yield asm.store(abi.BPF_W, SCRATCH, BLOB_AT + 8, R4)
    yield asm.load(abi.BPF_DW, R1, SCRATCH, SIGNATURE)
    yield asm.store(abi.BPF_W, SCRATCH, BLOB_AT + 12, R1)
    yield asm.load(abi.BPF_DW, R1, ENTRY, entry.ID)
    yield asm.store(abi.BPF_DW, SCRATCH, BLOB_AT + 16, R1)
    yield from copy(CODE, BLOB_AT + 24)
    yield from copy(PAIR, BLOB_AT + 32)
    yield asm.move(R2, R4)
    yield asm.move(R1, SCRATCH)
    yield asm.alu(abi.BPF_ADD, R1, BLOB_AT + wire.HEADER.size)
    yield from probe(failed)
    yield asm.load(abi.BPF_W, R5, SCRATCH, BLOB_AT + 8)
    yield asm.jump_if(abi.BPF_JGT, R5, most, failed)
    yield asm.alu(abi.BPF_ADD, R5, wire.HEADER.size)
    yield from output(maps, SCRATCH, BLOB_AT, None)
    # If the ring has no room, another sample tries again.
    yield asm.jump_if(abi.BPF_JNE, R0, 0, "named")
    yield asm.load(abi.BPF_W, R1, SCRATCH, BLOB_AT + 8)
    yield asm.load(abi.BPF_DW, R2, SCRATCH, SENT_AT)
    yield asm.alu(abi.BPF_ADD, R2, R1)
    yield asm.store(abi.BPF_DW, SCRATCH, SENT_AT, R2)
