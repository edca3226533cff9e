"""The way from a frame to its caller's, as one number.

A rule is an i64 that is never negative; its fields, from the lowest bit on:

    0-14   slot of the second register    (rbx, or the link register x30 of arm64)
    15-16  its RULE_*
    17-31  slot of the frame register     (rbp, or x29)
    32-33  its RULE_*
    34-54  slot of the CFA                (its distance, in 8 bytes, from the base of `KIND_*`)
    55-59  a register by its DWARF number, a bound, or one of ABSENT_*
    60-62  KIND_*

Slots are signed and count 8 bytes: programs save registers at multiples of 8. The CFA, the
    canonical
frame address, is the caller's stack pointer. On x86-64 the return address is directly below it; on
arm64 it is the link register's value at the call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.elf import elf_layout
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from prospect.columns.array_types import I64, Bools

KIND_SP = 0  # CFA = sp + slot
KIND_FP = 1  # CFA = frame register + slot
KIND_REGISTER = 2  # CFA = that register + slot
KIND_DEREF = 3  # CFA = [register + low 15 bits of the slot] + its upper 6
KIND_PLT = 4  # CFA = sp + slot, and 8 more from the bound on: the lower 4 bits of pc are compared
KIND_SIGNAL = 5  # the kernel saved all registers; the slot leads from sp to the saved sp
KIND_END = 6  # there is no caller
KIND_ABSENT = 7  # there is no rule, because of …
ABSENT_ROW = 0  # … missing call-frame information
ABSENT_FORM = 1  # … a form that this packing, or this reader, does not have
ABSENT_MAP = 2  # … a missing mapping; rows of images never have this
ABSENT_TRAMPOLINE = 3  # … CPython's trampoline, whose frame `unwind.step` knows
ABSENT_SWITCH = 4  # … a switch to another stack, unless there is a frame record on this one
ABSENT_INTERPRETED = 5  # … HotSpot's interpreter, whose frames `unwind.step` knows
ABSENT_BYTECODE = 6  # … bytecode, the address of interpreted frames

RULE_SAME = 0  # as in the caller
RULE_AT_CFA = 1  # saved at the CFA + slot
RULE_AT_FP = 2  # saved at the frame register + slot
RULE_LOST = 3  # unknown

SECOND_BITS, FP_BITS, CFA_BITS = 15, 15, 21
FP_SHIFT, CFA_SHIFT, REGISTER_SHIFT, KIND_SHIFT = 17, 34, 55, 60
DEREF_BITS = 15
_SLOT_SHIFT = 3

NO_ROW = KIND_ABSENT << KIND_SHIFT | ABSENT_ROW << REGISTER_SHIFT
NO_FORM = KIND_ABSENT << KIND_SHIFT | ABSENT_FORM << REGISTER_SHIFT
NO_MAP = KIND_ABSENT << KIND_SHIFT | ABSENT_MAP << REGISTER_SHIFT
TRAMPOLINE = KIND_ABSENT << KIND_SHIFT | ABSENT_TRAMPOLINE << REGISTER_SHIFT
SWITCH = KIND_ABSENT << KIND_SHIFT | ABSENT_SWITCH << REGISTER_SHIFT
INTERPRETED = KIND_ABSENT << KIND_SHIFT | ABSENT_INTERPRETED << REGISTER_SHIFT
BYTECODE = KIND_ABSENT << KIND_SHIFT | ABSENT_BYTECODE << REGISTER_SHIFT
END = KIND_END << KIND_SHIFT


class MachineRegisters(NamedTuple):
    """DWARF numbers of a machine's registers.

    Attributes:
        sp, fp: stack pointer and frame register.
        second: rbx, by which glibc's lazy binder and some realigned frames find their CFA; or x30.
        return_column: of the return address.
        return_slot: its distance from the CFA, 0 if that varies.
        saved_fp, saved_second, saved_pc: bytes from the saved sp in a signal frame.
    """

    sp: int
    fp: int
    second: int
    return_column: int
    return_slot: int
    saved_fp: int
    saved_second: int
    saved_pc: int


MACHINES = {
    # struct sigcontext_64 in arch/x86/include/uapi/asm/sigcontext.h (Linux 6.18)
    elf_layout.EM_X86_64: MachineRegisters(7, 6, 3, 16, -1, -40, -32, 8),
    # struct sigcontext in arch/arm64/include/uapi/asm/sigcontext.h
    elf_layout.EM_AARCH64: MachineRegisters(31, 29, 30, 30, 0, -16, -8, 8),
}


def fits(value: I64, bits: int) -> Bools:
    """Return whether distances in bytes are slots of this many bits, bool[n]."""
    bound = 1 << (bits - 1 + _SLOT_SHIFT)
    is_slot: Bools = (value & 7 == 0) & (value >= -bound) & (value < bound)
    return is_slot


def pack_slot(value: I64, bits: int) -> I64:
    """Turn distances in bytes, which fit, into a field's lowest bits, i64[n]."""
    return value >> _SLOT_SHIFT & ((1 << bits) - 1)


def cfa_bytes(rule: I64) -> I64:
    """Return the CFA's distance of each rule in bytes, i64[n]."""
    return (rule << 9) >> 43 << _SLOT_SHIFT


def fp_bytes(rule: I64) -> I64:
    """Return the distance of the frame register's slot in bytes, i64[n]."""
    return (rule << 32) >> 49 << _SLOT_SHIFT


def second_bytes(rule: I64) -> I64:
    """Return the distance of the second register's slot in bytes, i64[n]."""
    return (rule << 49) >> 49 << _SLOT_SHIFT


def deref_bytes(rule: I64) -> tuple[I64, I64]:
    """Return the bytes that a KIND_DEREF adds before it reads, and after, i64[n] each."""
    return (rule << 15) >> 49 << _SLOT_SHIFT, (rule << 9) >> 58 << _SLOT_SHIFT
