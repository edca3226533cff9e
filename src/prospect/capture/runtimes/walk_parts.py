"""Places in the walker's memory, and the steps that the engine and its runtimes share."""

from __future__ import annotations

from prospect.abi import bpf as abi
from prospect.abi import runtime_frames as wire
from prospect.capture.capture_limits import MOST_NEW
from prospect.capture.kernel import bpf_assembler as asm
from prospect.capture.kernel.bpf_assembler import Instruction, Label, Reg
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    Item = Instruction | Label

R0, R1, R2, R3, R4, R5 = Reg.R0, Reg.R1, Reg.R2, Reg.R3, Reg.R4, Reg.R5
PAGE = 4096
_ID = 16  # of an entry, its image's number: see `image_entry`
# Registers with the same use in the whole program: its context, its scratch, the process's entry,
# and the number of a frame.
CTX, SCRATCH, ENTRY, ROW, FP = Reg.R6, Reg.R7, Reg.R8, Reg.R9, Reg.FP

# On the stack, from its top: keys of maps, constants, and pointers into maps.
KEY = -24
THREAD_POINTER = -32
BEGUN = -40
SEEN = -48
ZERO = -56
ROOMS = (-64, -72)  # of the image and its user, see `walk_rooms`
MINE = -80  # the thread's element of `Maps.threads`
ROW_AT = -88  # the row of the current frame
# Earlier results, and the place that `recall` has searched.
RECALLED = -96
PLACE = -104

# Labels to which `start` goes if there is no frame, and the statuses.
FAILURES = {
    "no_key": wire.NO_KEY,
    "no_thread": wire.NO_THREAD,
    "no_frame": wire.NO_FRAME,
    "fault": wire.FAULT,
}

# In the scratch of a CPU: a STACK record, then a piece of memory with frames.
FRAMES_AT = wire.STACK_BYTES
COUNT_AT = 8
WINDOW_AT = FRAMES_AT + wire.MOST_FRAMES * wire.FRAME.size
WINDOW_BYTES = 1024
LAST_FIELD = wire.MOST_FRAME_BYTES - 8
# Then the address of that piece; NOWHERE, which no process has, for none.
WINDOW_FROM_AT = WINDOW_AT + WINDOW_BYTES
NOWHERE = 1 << 62
# Then slots. To the verifier, a word that is loaded from a map may be any number, so these add no
# states to verify. Slots on the stack would.
_SLOTS_AT = WINDOW_FROM_AT + 8
FRAME, CODE, LAST, MARK, TAG, SIGNATURE, SIZE, POINTER = range(_SLOTS_AT, _SLOTS_AT + 64, 8)
PAIR = _SLOTS_AT + 64  # 8 bytes just read
HANDLE = _SLOTS_AT + 72  # the object that a name is read from, if it is not `CODE`
HEAD = _SLOTS_AT + 80  # 24 bytes of an object just read
# A runtime's own slots, for one step, in descending order of addresses.
OWN = tuple(range(_SLOTS_AT + 136, _SLOTS_AT + 96, -8))
# The slots that are kept for a new function.
NEW_ROW = (CODE, TAG, SIGNATURE, PAIR, HANDLE)
# Then the number of new functions, and `NEW_ROW` of each. A run holds up its CPU, so it sends few.
NEW_AT = _SLOTS_AT + 144
NEW_ROWS_AT = NEW_AT + 8
NEW_BITS = 6
# Then the bytes of names that this sample has sent, and a number of the runtime's.
SENT_AT = NEW_ROWS_AT + (MOST_NEW << NEW_BITS)
FOUND_AT = SENT_AT + 8
# Then the room of this CPU, kept between samples, see `walk_rooms`.
CPU_ROOM_AT = FOUND_AT + 8
# Then a record with a name.
BLOB_AT = CPU_ROOM_AT + 24
SCRATCH_BYTES = BLOB_AT + wire.HEADER.size + wire.MOST_LINES_BYTES
# The results of a CPU about frames, see `recall`: two words and an image, `LAST` and `PAIR`.
RECALLED_BITS, RECALLED_ROW_BITS = 8, 6
RECALLED_BYTES = 1 << RECALLED_BITS + RECALLED_ROW_BITS
# The tags of sent functions, of all CPUs: a hash table with 4 places for each.
SEEN_BITS = 16
SEEN_BYTES = 8 << SEEN_BITS
PLACES = 4
# A runtime's notes on threads, kept from sample to sample: an element for the lowest bits of a
# thread's number. Other threads with the same bits overwrite it.
THREAD_BYTES = 40
THREADS_BITS = 12
NEWS_BYTES = 1 << 16
MIX_CODE = 0x9E3779B97F4A7C15
FIRST_WORD = wire.MAGIC | wire.KIND_STACK << 32


class Maps(NamedTuple):
    """Descriptors of the programs' maps.

    `walks` has the program of each runtime, `news` the messages of a walk to the watcher.
    """

    images: int
    walks: int
    output: int
    scratch: int
    recalled: int
    seen: int
    rooms: int
    threads: int
    news: int


def output(maps: Maps, base: Reg, offset: int, size: int | None) -> Iterator[Item]:
    """Write a record of R5 bytes, or of `size`, into the ring of this CPU."""
    yield asm.move(R1, CTX)
    yield asm.load_map(R2, maps.output)
    yield asm.load_imm64(R3, abi.BPF_F_CURRENT_CPU)
    yield from asm.address(R4, offset, base)
    if size is not None:
        yield asm.move(R5, size)
    yield asm.call(abi.BPF_FUNC_perf_event_output)


def look_up(map_fd: int, key: int, dst: Reg) -> Iterator[Item]:
    """Set a register to a map's element, or go to "out"."""
    yield from asm.look_up(map_fd, key)
    yield asm.jump_if(abi.BPF_JEQ, R0, 0, "out")
    if dst != R0:
        yield asm.move(dst, R0)


def probe(failed: str) -> Iterator[Item]:
    """Read R2 bytes of the process at R3 to R1, or go to a label."""
    yield asm.call(abi.BPF_FUNC_probe_read_user)
    yield asm.jump_if(abi.BPF_JNE, R0, 0, failed)


def read(slot: int, size: int, failed: str) -> Iterator[Item]:
    """Read bytes of the process at R3 into a slot, or go to a label."""
    yield from asm.address(R1, slot, SCRATCH)
    yield asm.move(R2, size)
    yield from probe(failed)


def read_at(pointer: int, offset: int, slot: int, failed: str, size: int = 8) -> Iterator[Item]:
    """Read bytes at an offset from a slot's address into another slot, or go to a label."""
    yield asm.load(abi.BPF_DW, R3, SCRATCH, pointer)
    if offset:
        yield asm.alu(abi.BPF_ADD, R3, offset)
    yield from read(slot, size, failed)


def follow(offset_of: int, slot: int, failed: str, size: int = 8) -> Iterator[Item]:
    """Read bytes at R3 plus an offset of the entry into a slot, or go to a label."""
    yield from add_word(R3, offset_of)
    yield from read(slot, size, failed)


def read_field(
    pointer: int, offset_of: int, slot: int, failed: str, size: int = 8
) -> Iterator[Item]:
    """Read bytes at an offset of the entry from a slot's address into a slot, or go to a label."""
    yield asm.load(abi.BPF_DW, R3, SCRATCH, pointer)
    yield from follow(offset_of, slot, failed, size)


def jump_if_slot(operation: int, slot: int, value: int, label: str) -> Iterator[Item]:
    """Go to a label if the word of a slot, which is left in R1, compares so with a constant."""
    yield asm.load(abi.BPF_DW, R1, SCRATCH, slot)
    yield asm.jump_if(operation, R1, value, label)


def jump_if_word(operation: int, offset_of: int, value: int, label: str) -> Iterator[Item]:
    """Go to a label if 32 bits of the entry, which are left in R1, compare so with a constant."""
    yield asm.load(abi.BPF_W, R1, ENTRY, offset_of)
    yield asm.jump_if(operation, R1, value, label)


def add_slot(dst: Reg, slot: int) -> Iterator[Item]:
    """Add the word of a slot to a register, and leave it in R1."""
    yield asm.load(abi.BPF_DW, R1, SCRATCH, slot)
    yield asm.alu(abi.BPF_ADD, dst, R1)


def add_word(dst: Reg, offset_of: int) -> Iterator[Item]:
    """Add 32 bits of the entry to a register, and leave them in R1."""
    yield asm.load(abi.BPF_W, R1, ENTRY, offset_of)
    yield asm.alu(abi.BPF_ADD, dst, R1)


def copy(source: int, slot: int) -> Iterator[Item]:
    """Copy the word of a slot to another one, and leave it in R1."""
    yield asm.load(abi.BPF_DW, R1, SCRATCH, source)
    yield asm.store(abi.BPF_DW, SCRATCH, slot, R1)


def read_window(size_of: int, failed: str, *, down: bool) -> Iterator[Item]:
    """Set R5 to the address of the copy of the frame at R3, less `WINDOW_AT`, or go to a label.

    The frames of a thread are next to each other, so one reading has several.

    Args:
        size_of: offset in the entry of the size of a frame.
        failed: label to go to if it cannot be read.
        down: whether the next frames are at lower addresses.
    """
    label = "window_down" if down else "window_up"
    yield asm.load(abi.BPF_DW, R1, SCRATCH, WINDOW_FROM_AT)
    yield asm.move(R5, R3)
    yield asm.alu(abi.BPF_SUB, R5, R1)
    yield asm.jump_if(abi.BPF_JLE, R5, WINDOW_BYTES - wire.MOST_FRAME_BYTES, label + "_there")
    yield asm.store(abi.BPF_DW, SCRATCH, SIZE, R3)
    # The window is in one page, except for a frame across its end.
    yield asm.move(R1, R3)
    if down:
        yield asm.alu(abi.BPF_ADD, R1, wire.MOST_FRAME_BYTES - WINDOW_BYTES)
        yield asm.alu(abi.BPF_AND, R3, -PAGE)
        yield asm.jump_if(abi.BPF_JGE, R1, R3, label + "_begin")
        yield asm.move(R1, R3)
    else:
        yield asm.alu(abi.BPF_OR, R3, PAGE - 1)
        yield asm.alu(abi.BPF_ADD, R3, 1 - WINDOW_BYTES)
        yield asm.jump_if(abi.BPF_JLE, R1, R3, label + "_begin")
        yield asm.move(R2, R3)
        yield asm.alu(abi.BPF_ADD, R2, WINDOW_BYTES - wire.MOST_FRAME_BYTES)
        yield asm.jump_if(abi.BPF_JGT, R1, R2, label + "_begin")
        yield asm.move(R1, R3)
    yield Label(label + "_begin")
    yield asm.move(R3, R1)
    yield asm.store(abi.BPF_DW, SCRATCH, WINDOW_FROM_AT, R3)
    yield from asm.address(R1, WINDOW_AT, SCRATCH)
    yield asm.move(R2, WINDOW_BYTES)
    yield asm.call(abi.BPF_FUNC_probe_read_user)
    yield asm.load(abi.BPF_DW, R3, SCRATCH, SIZE)
    yield asm.load(abi.BPF_DW, R1, SCRATCH, WINDOW_FROM_AT)
    yield asm.move(R5, R3)
    yield asm.alu(abi.BPF_SUB, R5, R1)
    yield asm.jump_if(abi.BPF_JNE, R0, 0, label + "_alone")
    yield asm.jump_if(abi.BPF_JLE, R5, WINDOW_BYTES - wire.MOST_FRAME_BYTES, label + "_there")
    yield Label(label + "_alone")
    yield from read_frame(size_of, failed)
    yield Label(label + "_there")
    yield asm.alu(abi.BPF_ADD, R5, SCRATCH)


def read_frame(size_of: int, failed: str) -> Iterator[Item]:
    """Read the frame at R3, whose size the entry has, or go to a label; leave 0 in R5."""
    yield asm.load(abi.BPF_W, R2, ENTRY, size_of)
    yield asm.jump_if(abi.BPF_JGT, R2, wire.MOST_FRAME_BYTES, failed)
    yield asm.load_imm64(R1, NOWHERE)
    yield asm.store(abi.BPF_DW, SCRATCH, WINDOW_FROM_AT, R1)
    yield from asm.address(R1, WINDOW_AT, SCRATCH)
    yield from probe(failed)
    yield asm.move(R5, 0)


def find_recalled(maps: Maps) -> Iterator[Item]:
    """Find this CPU's results about frames, for `recall`."""
    yield from look_up(maps.recalled, ZERO, R0)
    yield asm.store(abi.BPF_DW, FP, RECALLED, R0)


def recall(first: int, second: int, found: str) -> Iterator[Item]:
    """Set `LAST` and `PAIR` to their earlier values for two words, and go to a label.

    Reading memory of the process takes longer. The values must depend on nothing but these words.
    """
    yield asm.load(abi.BPF_DW, R2, SCRATCH, first)
    yield asm.load_imm64(R1, MIX_CODE)
    yield asm.alu(abi.BPF_MUL, R1, R2)
    yield asm.alu(abi.BPF_RSH, R1, 64 - RECALLED_BITS)
    yield asm.alu(abi.BPF_LSH, R1, RECALLED_ROW_BITS)
    yield asm.load(abi.BPF_DW, R3, FP, RECALLED)
    yield asm.alu(abi.BPF_ADD, R1, R3)
    yield asm.store(abi.BPF_DW, FP, PLACE, R1)
    yield asm.load(abi.BPF_DW, R3, R1, 0)
    yield asm.jump_if(abi.BPF_JNE, R2, R3, "not_recalled")
    yield asm.load(abi.BPF_DW, R2, SCRATCH, second)
    yield asm.load(abi.BPF_DW, R3, R1, 8)
    yield asm.jump_if(abi.BPF_JNE, R2, R3, "not_recalled")
    yield asm.load(abi.BPF_DW, R2, ENTRY, _ID)
    yield asm.load(abi.BPF_DW, R3, R1, 16)
    yield asm.jump_if(abi.BPF_JNE, R2, R3, "not_recalled")
    for number, slot in enumerate((LAST, PAIR)):
        yield asm.load(abi.BPF_DW, R2, R1, 24 + 8 * number)
        yield asm.store(abi.BPF_DW, SCRATCH, slot, R2)
    yield asm.jump(found)
    yield Label("not_recalled")


def keep(first: int, second: int) -> Iterator[Item]:
    """Keep `LAST` and `PAIR` for `recall`, which has searched for the same words."""
    yield asm.load(abi.BPF_DW, R1, FP, PLACE)
    for number, slot in enumerate((first, second)):
        yield asm.load(abi.BPF_DW, R2, SCRATCH, slot)
        yield asm.store(abi.BPF_DW, R1, 8 * number, R2)
    yield asm.load(abi.BPF_DW, R2, ENTRY, _ID)
    yield asm.store(abi.BPF_DW, R1, 16, R2)
    for number, slot in enumerate((LAST, PAIR)):
        yield asm.load(abi.BPF_DW, R2, SCRATCH, slot)
        yield asm.store(abi.BPF_DW, R1, 24 + 8 * number, R2)


def field(size: int, dst: Reg, offset_of: int, failed: str = "walk_fault") -> Iterator[Item]:
    """Load a field of the frame at R5, at an offset of the entry."""
    yield from jump_if_word(abi.BPF_JGT, offset_of, LAST_FIELD, failed)
    yield asm.alu(abi.BPF_ADD, R1, R5)
    yield asm.load(size, dst, R1, WINDOW_AT)
