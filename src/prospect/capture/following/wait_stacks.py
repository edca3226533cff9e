"""The BPF program that records each piece of a thread's stack once for all its switches.

A thread waits in few places, and its outer callers rarely change. The program runs as a thread of a
followed process leaves its CPU (`process_programs`), and writes the sample, with the registers that
unwinding needs. The sample's raw data is u64 words:

==================  ================================================================
the stack's key     for a stack that is in the recording, nothing follows
keys of pieces      of PIECE_BYTES each, from the one with the stack pointer outwards;
                    0 where the stack ends, or could not be read
the pieces          whose key has its lowest bit set, in this order
==================  ================================================================

A key is a hash of the thread's id, the address, and all words from the stack pointer on that may be
addresses, with their places. Stacks with the same key and the same registers have the same callers:
these follow from return addresses, saved frame pointers, and sizes of frames. Counters and texts on
a stack make no difference.

Defined by: ``arch/x86/include/asm/ptrace.h`` and ``arch/arm64/include/asm/ptrace.h`` for the
registers, Linux 6.18.
"""

from __future__ import annotations

import os

from prospect.abi import bpf as abi
from prospect.abi.bpf import BPF_DW, BPF_W
from prospect.capture.kernel import bpf_assembler as asm
from prospect.capture.kernel.bpf_assembler import EXIT, REGISTERS, Label, Reg, assemble
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.capture.kernel.bpf_assembler import Instruction

    Items = Iterator[Instruction | Label]

PIECE_BYTES = 512

R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, FP = REGISTERS
_KEY, _FREE, _THREAD, _SP, _PIECE = -8, -16, -24, -32, -40
_WORD_BYTES = 8
_MULTIPLIER = 0x9E3779B97F4A7C15
_LEAST_ADDRESS = 1 << 16
_DROP = 0
# Offset of the stack pointer in a machine's struct pt_regs.
_SP_OFFSET = {"x86_64": 152, "aarch64": 248}
# How many bits an address has; 64 if some are signed.
_ADDRESS_BITS = {"x86_64": 47, "aarch64": 64}


class WaitMaps(NamedTuple):
    """The maps and numbers that the program uses.

    Attributes:
        outputs: descriptor of an array of the events of each CPU that write samples.
        seen: descriptor of a map of the keys of stacks and pieces in the recording.
        scratch: descriptor of an array with one element of `scratch_bytes` for each CPU.
        copied_bytes: the least that is copied of a stack.
    """

    outputs: int
    seen: int
    scratch: int
    copied_bytes: int


def scratch_bytes(copied_bytes: int) -> int:
    """Return the largest size of a sample's raw data, plus that of a word: length of new pieces.

    The verifier tracks numbers on a program's stack. Tracking this one would take it ten times as
    long, so it is in the memory of a map.
    """
    return _used_place(_pieces(copied_bytes)) + _WORD_BYTES


def _used_place(pieces: int) -> int:
    """Return the place of the new pieces' length, which follows the raw data."""
    return _key_place(pieces) + PIECE_BYTES * pieces


def _pieces(copied_bytes: int) -> int:
    """Return how many pieces a copy needs, wherever in the first one the stack pointer is."""
    return -(-copied_bytes // PIECE_BYTES) + 1


def switch_program(maps: WaitMaps) -> bytes:
    """Return the program at a switch, which writes its sample."""
    return assemble(tuple(_switch(maps)))


def _switch(maps: WaitMaps) -> Items:
    # R6 the context, R7 the raw data, R8 a piece of the thread's stack, R9 the stack's hash.
    pieces = _pieces(maps.copied_bytes)
    yield asm.move(R6, R1)
    yield asm.store(BPF_W, FP, _FREE, 0)
    yield from asm.look_up(maps.scratch, _FREE)
    yield asm.jump_if(abi.BPF_JEQ, R0, 0, "out")
    yield asm.move(R7, R0)
    yield from _read_stack_pointer()
    yield asm.call(abi.BPF_FUNC_get_current_pid_tgid)
    yield asm.store(BPF_DW, FP, _THREAD, R0)
    yield asm.move(R9, R0)
    yield asm.load(BPF_DW, R8, FP, _SP)
    yield asm.move(R3, R8)
    yield asm.load_imm64(R4, _MULTIPLIER)
    yield from _mix(R9)
    yield asm.alu(abi.BPF_AND, R8, -PIECE_BYTES)
    yield asm.store(BPF_DW, R7, _used_place(pieces), 0)
    for piece in range(pieces):
        yield asm.store(BPF_DW, R7, _key_place(piece), 0)
    for piece in range(pieces):
        yield from _add_piece(maps, piece, pieces)
    yield Label("all read")
    yield asm.alu(abi.BPF_OR, R9, 1)
    yield asm.store(BPF_DW, FP, _KEY, R9)
    yield asm.store(BPF_DW, R7, 0, R9)
    yield from asm.look_up(maps.seen, _KEY)
    yield asm.move(R8, _WORD_BYTES)
    yield asm.jump_if(abi.BPF_JNE, R0, 0, "known")
    yield asm.load(BPF_DW, R8, R7, _used_place(pieces))
    yield asm.jump_if(abi.BPF_JGT, R8, PIECE_BYTES * pieces, "out")
    yield asm.alu(abi.BPF_ADD, R8, _key_place(pieces))
    yield Label("known")
    yield from _write(maps)
    yield asm.jump_if(abi.BPF_JNE, R0, 0, "out")  # the ring was full
    yield asm.jump_if(abi.BPF_JEQ, R8, _WORD_BYTES, "out")
    yield from _remember(maps.seen)
    for piece in range(pieces):
        yield from _remember_piece(maps.seen, piece)
    yield Label("out")
    yield asm.move(R0, _DROP)
    yield EXIT


def _key_place(piece: int) -> int:
    return _WORD_BYTES * (1 + piece)


def _read_stack_pointer() -> Items:
    yield asm.call(abi.BPF_FUNC_get_current_task_btf)
    yield asm.move(R1, R0)
    yield asm.call(abi.BPF_FUNC_task_pt_regs)
    yield from asm.read_kernel(R0, _SP_OFFSET[os.uname().machine], _SP, _WORD_BYTES)


def _add_piece(maps: WaitMaps, piece: int, pieces: int) -> Items:
    """Append a piece to the new ones, and keep it if it is new."""
    yield asm.load(BPF_DW, R1, R7, _used_place(pieces))
    yield asm.jump_if(abi.BPF_JGT, R1, PIECE_BYTES * piece, "out")
    yield asm.alu(abi.BPF_ADD, R1, R7)
    yield asm.alu(abi.BPF_ADD, R1, _key_place(pieces))
    yield asm.store(BPF_DW, FP, _PIECE, R1)
    yield asm.move(R2, PIECE_BYTES)
    yield asm.move(R3, R8)
    yield asm.call(abi.BPF_FUNC_probe_read_user)
    yield asm.jump_if(abi.BPF_JNE, R0, 0, "all read")
    yield from _hash_piece(piece)
    yield asm.alu(abi.BPF_AND, R5, -2)
    yield asm.store(BPF_DW, FP, _KEY, R5)
    yield asm.move(R3, R5)
    yield from _mix(R9)
    yield from asm.look_up(maps.seen, _KEY)
    yield asm.load(BPF_DW, R1, FP, _KEY)
    yield asm.jump_if(abi.BPF_JNE, R0, 0, f"known {piece}")
    yield asm.alu(abi.BPF_OR, R1, 1)
    yield asm.load(BPF_DW, R2, R7, _used_place(pieces))
    yield asm.alu(abi.BPF_ADD, R2, PIECE_BYTES)
    yield asm.store(BPF_DW, R7, _used_place(pieces), R2)
    yield Label(f"known {piece}")
    yield asm.store(BPF_DW, R7, _key_place(piece), R1)
    yield asm.alu(abi.BPF_ADD, R8, PIECE_BYTES)


def _hash_piece(piece: int) -> Items:
    """Set R5 to the hash of a piece from the stack pointer on; words that are no address are 0.

    Without further jumps the verifier follows one path, and the CPU has nothing to predict.
    """
    yield asm.move(R1, 0)
    if not piece:
        yield asm.load(BPF_DW, R1, FP, _SP)
        yield asm.alu(abi.BPF_AND, R1, PIECE_BYTES - _WORD_BYTES)
    yield asm.load_imm64(R4, _MULTIPLIER)
    yield asm.load(BPF_DW, R5, FP, _THREAD)
    yield asm.move(R3, R8)
    yield asm.alu(abi.BPF_ADD, R3, R1)
    yield from _mix(R5)
    yield Label(f"word of {piece}")
    yield asm.load(BPF_DW, R2, FP, _PIECE)
    yield asm.alu(abi.BPF_ADD, R2, R1)
    yield asm.load(BPF_DW, R3, R2, 0)
    yield asm.move(R0, R3)
    address_bits = _ADDRESS_BITS[os.uname().machine]
    if address_bits < 64:
        # A number below the least address wraps around to one above the largest.
        yield asm.alu(abi.BPF_SUB, R0, _LEAST_ADDRESS)
        yield asm.alu(abi.BPF_RSH, R0, address_bits)
        yield from _to_mask(R0)
        yield asm.alu(abi.BPF_XOR, R0, -1)
    else:
        yield asm.alu(abi.BPF_RSH, R0, _LEAST_ADDRESS.bit_length() - 1)
        yield from _to_mask(R0)
    yield asm.alu(abi.BPF_AND, R3, R0)
    yield from _mix(R5)
    yield asm.alu(abi.BPF_ADD, R1, _WORD_BYTES)
    yield asm.jump_if(abi.BPF_JLT, R1, PIECE_BYTES, f"word of {piece}")


def _to_mask(register: Reg) -> Items:
    """Set all bits unless the register is 0; its highest bit is 0."""
    yield asm.alu(abi.BPF_NEG, register, 0)
    yield asm.alu(abi.BPF_ARSH, register, 63)


def _mix(hashed: Reg) -> Items:
    """Add R3 to a hash; R4 is the multiplier, which calls overwrite."""
    yield asm.alu(abi.BPF_XOR, hashed, R3)
    yield asm.alu(abi.BPF_MUL, hashed, R4)


def _write(maps: WaitMaps) -> Items:
    """Write the sample by the event of this CPU, with R8 bytes of raw data."""
    yield asm.call(abi.BPF_FUNC_get_smp_processor_id)
    yield asm.move(R3, R0)
    yield asm.move(R1, R6)
    yield asm.load_map(R2, maps.outputs)
    yield asm.move(R4, R7)
    yield asm.move(R5, R8)
    yield asm.call(abi.BPF_FUNC_perf_event_output)


def _remember_piece(seen: int, piece: int) -> Items:
    yield asm.load(BPF_DW, R1, R7, _key_place(piece))
    yield asm.move(R2, R1)
    yield asm.alu(abi.BPF_AND, R2, 1)
    yield asm.jump_if(abi.BPF_JEQ, R2, 0, f"old {piece}")
    yield asm.alu(abi.BPF_XOR, R1, 1)
    yield asm.store(BPF_DW, FP, _KEY, R1)
    yield from _remember(seen)
    yield Label(f"old {piece}")


def _remember(seen: int) -> Items:
    yield asm.store(BPF_DW, FP, _FREE, 0)
    yield from asm.update(seen, (FP, _KEY), (FP, _FREE), abi.BPF_ANY)
