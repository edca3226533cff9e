"""Places in the walker's memory, and the steps that its parts share."""

from __future__ import annotations

from prospect.abi import bpf as abi
from prospect.abi import cpython
from prospect.abi import python_frames as wire
from prospect.capture.kernel import bpf_assembler as asm
from prospect.capture.kernel.bpf_assembler import Instruction, Label, Reg
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    Item = Instruction | Label

R0, R1, R2, R3, R4, R5 = Reg.R0, Reg.R1, Reg.R2, Reg.R3, Reg.R4, Reg.R5
# All through the program: its context, its scratch, the process's entry, a frame's number.
CTX, SCRATCH, ENTRY, ROW, FP = Reg.R6, Reg.R7, Reg.R8, Reg.R9, Reg.FP

# On the stack, from its top.
KEY = -24  # of the map of images
THREAD_POINTER = -32
BEGUN = -40
PAIR = -48  # 8 bytes just read
FRAME = -56
SEEN = -64
TAG = -72
SLOT = -80
HEAD = -104  # 24 bytes of an object just read
SIZE = -112
CODE = -120
POINTER = -128
ZERO = -136
ROOMS = (-144, -152)  # of the interpreter and its user, see `walk_rooms`
# Fields written for a new code object.
NEW_ROW = (CODE, TAG, SLOT, PAIR)

# In the scratch of a CPU: a STACK record, then a frame as it was read.
FRAMES_AT = wire.STACK_BYTES
BUFFER_AT = FRAMES_AT + wire.MOST_FRAMES * wire.FRAME.size
LAST_FIELD = cpython.MOST_FRAME_BYTES - 8
# Then which code objects are new: how many, and of each `NEW_ROW`. In one run, which holds its
# CPU up meanwhile, few are sent.
NEW_AT = BUFFER_AT + cpython.MOST_FRAME_BYTES
NEW_ROWS_AT = NEW_AT + 8
NEW_BITS = 5
MOST_NEW = 16
# Then numbers that the verifier must not take for constants: the bytes of names that this sample
# has sent, and whether a thread was found that runs nothing.
SENT_AT = NEW_ROWS_AT + (MOST_NEW << NEW_BITS)
FOUND_AT = SENT_AT + 8
# Then the bytes of names that this CPU has sent, kept between samples, see `walk_rooms`.
CPU_ROOM_AT = FOUND_AT + 8
# Then a record with a name.
BLOB_AT = CPU_ROOM_AT + 24
SCRATCH_BYTES = BLOB_AT + wire.HEADER.size + wire.MOST_LINES_BYTES
# Code objects already sent: a hash of 4 places for each, for all CPUs.
SEEN_BITS = 16
SEEN_BYTES = 8 << SEEN_BITS
PLACES = 4
MOST_KEYS = 1024
KEYS_A_BLOCK = 32
MOST_COPIES = 1 << 16
KEY_BYTES = 16
BLOCKS_OFFSET = cpython.GLIBC_KEYS_OFFSET + KEYS_A_BLOCK * KEY_BYTES
MIX_CODE = 0x9E3779B97F4A7C15
FIRST_WORD = wire.MAGIC | wire.KIND_STACK << 32


class Maps(NamedTuple):
    """Descriptors of the program's maps."""

    images: int
    output: int
    scratch: int
    seen: int
    rooms: int
    threads: int


def frame_row(dst: Reg) -> Iterator[Item]:
    """Set a register to where row `ROW` is, but for `FRAMES_AT`."""
    yield asm.move(dst, ROW)
    yield asm.alu(abi.BPF_LSH, dst, 4)
    yield asm.alu(abi.BPF_ADD, dst, SCRATCH)


def output(maps: Maps, base: Reg, offset: int, size: int | None) -> Iterator[Item]:
    """Write a record of R5 bytes, or of `size`, into the ring of this CPU."""
    yield asm.move(R1, CTX)
    yield asm.load_map(R2, maps.output)
    yield asm.load_imm64(R3, abi.BPF_F_CURRENT_CPU)
    yield asm.move(R4, base)
    yield asm.alu(abi.BPF_ADD, R4, offset)
    if size is not None:
        yield asm.move(R5, size)
    yield asm.call(abi.BPF_FUNC_perf_event_output)


def look_up(map_fd: int, key: int, dst: Reg) -> Iterator[Item]:
    """Set a register to a map's element, or leave."""
    yield asm.load_map(R1, map_fd)
    yield asm.move(R2, FP)
    yield asm.alu(abi.BPF_ADD, R2, key)
    yield asm.call(abi.BPF_FUNC_map_lookup_elem)
    yield asm.jump_if(abi.BPF_JEQ, R0, 0, "out")
    if dst != R0:
        yield asm.move(dst, R0)


def read(slot: int, size: int) -> Iterator[Item]:
    """Prepare to read so many bytes into the stack."""
    yield asm.move(R1, FP)
    yield asm.alu(abi.BPF_ADD, R1, slot)
    yield asm.move(R2, size)


def probe(failed: str) -> Iterator[Item]:
    """Read R2 bytes of the process at R3 to R1, or go to a label."""
    yield asm.call(abi.BPF_FUNC_probe_read_user)
    yield asm.jump_if(abi.BPF_JNE, R0, 0, failed)


def follow(offset_of: int, slot: int, failed: str, size: int = 8) -> Iterator[Item]:
    """Read 8 bytes, or `size`, at R3 and an offset of the entry into a slot, or go to a label."""
    yield asm.load(abi.BPF_W, R1, ENTRY, offset_of)
    yield asm.alu(abi.BPF_ADD, R3, R1)
    yield from read(slot, size)
    yield from probe(failed)
