"""BPF instructions → the bytes that the kernel loads: an assembler for programs of a page.

It does not optimise, and leaves all checks to the kernel's verifier.

Defined by: RFC 9669 (BPF Instruction Set Architecture), ``include/uapi/linux/bpf.h``.
"""

from __future__ import annotations

import struct

from prospect.abi import bpf as abi
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import ClassVar

    Steps = tuple["Instruction", ...]

_SLOT = struct.Struct("=BBhi")
# A 64-bit immediate takes two slots: opcode 0x18.
_LOAD_IMM64 = abi.BPF_LD | abi.BPF_DW | abi.BPF_IMM
_MAY_GO = abi.BPF_JMP | abi.BPF_JCOND


class Reg(int):
    """Registers: R0 results, R1 to R5 arguments, R6 to R9 preserved by calls, FP the stack's top.

    It is no enum: the module of that name takes longer to load than this one.
    """

    R0: ClassVar[Reg]
    R1: ClassVar[Reg]
    R2: ClassVar[Reg]
    R3: ClassVar[Reg]
    R4: ClassVar[Reg]
    R5: ClassVar[Reg]
    R6: ClassVar[Reg]
    R7: ClassVar[Reg]
    R8: ClassVar[Reg]
    R9: ClassVar[Reg]
    FP: ClassVar[Reg]


REGISTERS = tuple(map(Reg, range(11)))
Reg.R0, Reg.R1, Reg.R2, Reg.R3, Reg.R4, Reg.R5 = REGISTERS[:6]
Reg.R6, Reg.R7, Reg.R8, Reg.R9, Reg.FP = REGISTERS[6:]


class Instruction(NamedTuple):
    """One instruction.

    Attributes:
        target: the label that a jump goes to.
        field: of a task, whose offset the kernel makes the immediate (`kernel_types`).
    """

    opcode: int
    dst: int = 0
    src: int = 0
    offset: int = 0
    immediate: int = 0
    target: str = ""
    field: str = ""


class Label(NamedTuple):
    """The place of the next instruction."""

    name: str


EXIT = Instruction(abi.BPF_JMP | abi.BPF_EXIT)


def alu(operation: int, dst: Reg, operand: Reg | int) -> Instruction:
    """Compute ``dst = dst OPERATION operand`` in 64 bits, for an `operation` such as BPF_ADD."""
    return _with_operand(abi.BPF_ALU64 | operation, dst, operand)


def move(dst: Reg, operand: Reg | int) -> Instruction:
    """Set ``dst = operand``; an immediate is 32 bits, sign-extended."""
    return alu(abi.BPF_MOV, dst, operand)


def load(size: int, dst: Reg, base: Reg, offset: int) -> Instruction:
    """Set dst to the BPF_B, BPF_W or BPF_DW at base + offset, zero-extended."""
    return Instruction(abi.BPF_LDX | abi.BPF_MEM | size, dst, base, offset)


def store(size: int, base: Reg, offset: int, operand: Reg | int) -> Instruction:
    """Write a register or an immediate to base + offset."""
    if isinstance(operand, Reg):
        return Instruction(abi.BPF_STX | abi.BPF_MEM | size, base, operand, offset)
    return Instruction(abi.BPF_ST | abi.BPF_MEM | size, base, 0, offset, operand)


def atomic_add(base: Reg, offset: int, src: Reg) -> Instruction:
    """Add src atomically to the 64 bits at base + offset."""
    opcode = abi.BPF_STX | abi.BPF_ATOMIC | abi.BPF_DW
    return Instruction(opcode, base, src, offset, abi.BPF_ADD)


def load_map(dst: Reg, map_fd: int) -> Instruction:
    """Set dst to a map, for a helper's argument."""
    return Instruction(_LOAD_IMM64, dst, abi.BPF_PSEUDO_MAP_FD, 0, map_fd)


def load_imm64(dst: Reg, value: int) -> Instruction:
    """Set dst to a number of 64 bits."""
    return Instruction(_LOAD_IMM64, dst, 0, 0, value)


def call(helper: int) -> Instruction:
    """Call a helper function, BPF_FUNC_*: it takes R1 to R5 and leaves only R0 defined of R0-R5."""
    return Instruction(abi.BPF_JMP | abi.BPF_CALL, immediate=helper)


def address(dst: Reg, place: int, base: Reg = Reg.FP) -> Steps:
    """Set dst to the address of a place on the stack, or at another register."""
    return (move(dst, base), alu(abi.BPF_ADD, dst, place))


def look_up(map_fd: int, key: int, base: Reg = Reg.FP) -> Steps:
    """Set R0 to the entry of a map whose key is at a place, 0 if there is none."""
    keyed = load_map(Reg.R1, map_fd), *address(Reg.R2, key, base)
    return (*keyed, call(abi.BPF_FUNC_map_lookup_elem))


def update(map_fd: int, key: tuple[Reg, int], value: tuple[Reg, int], flags: int) -> Steps:
    """Set the entry of a map; its key and its value are at places of registers."""
    return (
        load_map(Reg.R1, map_fd),
        *address(Reg.R2, key[1], key[0]),
        *address(Reg.R3, value[1], value[0]),
        move(Reg.R4, flags),
        call(abi.BPF_FUNC_map_update_elem),
    )


def read_kernel(base: Reg, offset: int, place: int, size: int) -> Steps:
    """Copy bytes of the kernel at a register and an offset to the stack."""
    return (
        *address(Reg.R3, offset, base),
        *address(Reg.R1, place),
        move(Reg.R2, size),
        call(abi.BPF_FUNC_probe_read_kernel),
    )


def jump(target: str) -> Instruction:
    """Go to a label."""
    return Instruction(abi.BPF_JMP | abi.BPF_JA, target=target)


def jump_if(comparison: int, dst: Reg, operand: Reg | int, target: str) -> Instruction:
    """Go to a label if ``dst COMPARISON operand``, in 64 bits; BPF_JLT is unsigned."""
    return _with_operand(abi.BPF_JMP | comparison, dst, operand)._replace(target=target)


def may_go(target: str) -> Instruction:
    """Continue a loop, or go to a label after millions of steps: a may_goto of Linux 6.9.

    So the verifier knows that the loop ends. It skips a step whose registers and stack are the
    same as those of an earlier one; numbers that are unknown to it may differ.
    """
    return Instruction(_MAY_GO, target=target)


def bounded(program: Sequence[Instruction | Label]) -> list[Instruction | Label]:
    """Return a program for kernels before 6.9, which verify each step of its loops."""
    return [one for one in program if isinstance(one, Label) or one.opcode != _MAY_GO]


def assemble(program: Sequence[Instruction | Label]) -> bytes:
    """Encode a program.

    Raises:
        KeyError: the program jumps to a label that it does not have.
    """
    placed, labels = _placed(program)
    return b"".join(
        _encode(item._replace(offset=labels[item.target] - slot - 1) if item.target else item)
        for slot, item in placed
    )


def fields_of(program: Sequence[Instruction | Label]) -> list[tuple[int, str]]:
    """Return (byte of the instruction, field) for each use of a field's offset."""
    return [(slot * _SLOT.size, item.field) for slot, item in _placed(program)[0] if item.field]


def _placed(
    program: Sequence[Instruction | Label],
) -> tuple[list[tuple[int, Instruction]], dict[str, int]]:
    """Return (slot, instruction) pairs, and the slot of each label."""
    slots = 0
    labels: dict[str, int] = {}
    placed: list[tuple[int, Instruction]] = []
    for item in program:
        if isinstance(item, Label):
            labels[item.name] = slots
        else:
            placed.append((slots, item))
            slots += 2 if item.opcode == _LOAD_IMM64 else 1
    return placed, labels


def _with_operand(opcode: int, dst: Reg, operand: Reg | int) -> Instruction:
    if isinstance(operand, Reg):
        return Instruction(opcode | abi.BPF_X, dst, operand)
    return Instruction(opcode | abi.BPF_K, dst, 0, 0, operand)


def _encode(item: Instruction) -> bytes:
    # struct bpf_insn has two bit fields of 4 bits, the first in the low half on little endian.
    registers = item.dst | item.src << 4
    if item.opcode != _LOAD_IMM64:
        return _SLOT.pack(item.opcode, registers, item.offset, item.immediate)
    low, high = struct.unpack("=ii", struct.pack("=Q", item.immediate & (1 << 64) - 1))
    return _SLOT.pack(item.opcode, registers, 0, low) + _SLOT.pack(0, 0, 0, high)
