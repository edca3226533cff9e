"""Bounds on the bytes of names that the walker sends: a room for each image and each user.

A room fills with each name that is sent and empties at a fixed rate. If the room of a runtime or of
its user is full, the walker sends none of its names and counts them. So a process that makes up
code objects fills neither the rings nor the memory of their readers.
"""

from __future__ import annotations

import struct

from prospect.abi import bpf as abi
from prospect.capture.capture_limits import MOST_A_SAMPLE
from prospect.capture.kernel import bpf_assembler as asm
from prospect.capture.kernel import bpf_objects
from prospect.capture.kernel.bpf_assembler import Label
from prospect.capture.runtimes import image_entry as entry
from prospect.capture.runtimes.name_bounds import NAME_COST, OF_CPU, OF_IMAGE, OF_USER, Bound
from prospect.capture.runtimes.walk_parts import (
    CPU_ROOM_AT,
    ENTRY,
    FP,
    KEY,
    NEW_AT,
    R0,
    R1,
    R2,
    R3,
    R4,
    ROOMS,
    SCRATCH,
    SENT_AT,
    jump_if_slot,
    look_up,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prospect.capture.runtimes.walk_parts import Item, Maps

# A room of the map: its level, the time of the last look, and the number of refused names.
ROOM = struct.Struct("=QQQ")
_LEVEL, _LOOKED, _REFUSED = 0, 8, 16
# Rooms of runtimes, by their numbers modulo this; then rooms of users, of which the last is shared.
IMAGES = 1 << 13
USERS = 1 << 10
ROOM_COUNT = IMAGES + USERS


def refused_names(rooms: int, numbers: Iterable[int]) -> dict[int, int]:
    """Return the number of refused names of each of some rooms.

    Raises:
        OSError: the kernel refused.
    """
    return {one: ROOM.unpack(bpf_objects.read_element(rooms, one, ROOM.size))[2] for one in numbers}


def open_rooms(maps: Maps, closed: str) -> Iterator[Item]:
    """Find the rooms of the runtime and of its user; go to a label if one is full."""
    yield asm.store(abi.BPF_DW, SCRATCH, SENT_AT, 0)
    for slot, field in zip(ROOMS, (entry.ROOM, entry.USER_ROOM), strict=True):
        yield asm.load(abi.BPF_W, R1, ENTRY, field)
        yield asm.store(abi.BPF_DW, FP, KEY, R1)
        yield from look_up(maps.rooms, KEY, R0)
        yield asm.store(abi.BPF_DW, FP, slot, R0)
    yield asm.call(abi.BPF_FUNC_ktime_get_ns)
    for number, (slot, bound) in enumerate(zip(ROOMS, (OF_IMAGE, OF_USER), strict=True)):
        yield asm.load(abi.BPF_DW, R1, FP, slot)
        yield from _empty(bound, f"room_{number}")
        yield asm.jump_if(abi.BPF_JLT, R4, bound.most_bytes, f"room_{number}_open")
        yield asm.load(abi.BPF_DW, R2, SCRATCH, NEW_AT)
        yield asm.atomic_add(R1, _REFUSED, R2)
        yield asm.jump(closed)
        yield Label(f"room_{number}_open")
    # Another sample soon tries again.
    yield asm.move(R1, SCRATCH)
    yield asm.alu(abi.BPF_ADD, R1, CPU_ROOM_AT)
    yield from _empty(OF_CPU, "cpu_room")
    yield asm.jump_if(abi.BPF_JGE, R4, OF_CPU.most_bytes, closed)


def _empty(bound: Bound, label: str) -> Iterator[Item]:
    """Empty the room at R1 for the time until R0; leave its level in R4."""
    yield asm.load(abi.BPF_DW, R2, R1, _LOOKED)
    yield asm.load(abi.BPF_DW, R4, R1, _LEVEL)
    # Another CPU may have looked a moment later.
    yield asm.jump_if(abi.BPF_JLE, R0, R2, label)
    yield asm.move(R3, R0)
    yield asm.alu(abi.BPF_SUB, R3, R2)
    yield asm.alu(abi.BPF_RSH, R3, bound.shift)
    yield asm.jump_if(abi.BPF_JEQ, R3, 0, label)
    yield asm.store(abi.BPF_DW, R1, _LOOKED, R0)
    yield asm.jump_if(abi.BPF_JLE, R3, R4, f"{label}_emptier")
    yield asm.move(R3, R4)
    yield Label(f"{label}_emptier")
    yield asm.alu(abi.BPF_SUB, R4, R3)
    yield asm.store(abi.BPF_DW, R1, _LEVEL, R4)
    yield Label(label)


def begin_name(enough: str) -> Iterator[Item]:
    """Count a name before it is sent, or go to a label if this sample has sent enough."""
    yield from jump_if_slot(abi.BPF_JGT, SENT_AT, MOST_A_SAMPLE, enough)
    yield asm.alu(abi.BPF_ADD, R1, NAME_COST)
    yield asm.store(abi.BPF_DW, SCRATCH, SENT_AT, R1)


def fill_rooms() -> Iterator[Item]:
    """Add the bytes that this sample has sent to the rooms."""
    yield asm.load(abi.BPF_DW, R2, SCRATCH, SENT_AT)
    for slot in ROOMS:
        yield asm.load(abi.BPF_DW, R1, FP, slot)
        yield asm.atomic_add(R1, _LEVEL, R2)
    yield asm.load(abi.BPF_DW, R1, SCRATCH, CPU_ROOM_AT + _LEVEL)
    yield asm.alu(abi.BPF_ADD, R1, R2)
    yield asm.store(abi.BPF_DW, SCRATCH, CPU_ROOM_AT + _LEVEL, R1)
