"""Code of other machines → instructions, by capstone."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import capstone

from prospect.elf import elf_layout
from prospect.profile.optional_tables import (
    FLOW_BRANCH,
    FLOW_CALL,
    FLOW_JUMP,
    FLOW_NEXT,
    FLOW_RETURN,
    FLOW_UNKNOWN,
    NO_TARGET,
)

if TYPE_CHECKING:
    from prospect.options import Syntax

_MODES = {
    elf_layout.EM_X86_64: (capstone.CS_ARCH_X86, capstone.CS_MODE_64),
    elf_layout.EM_386: (capstone.CS_ARCH_X86, capstone.CS_MODE_32),
    elf_layout.EM_AARCH64: (capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM),
    elf_layout.EM_ARM: (capstone.CS_ARCH_ARM, capstone.CS_MODE_ARM),
    elf_layout.EM_RISCV: (
        capstone.CS_ARCH_RISCV,
        capstone.CS_MODE_RISCV64 | capstone.CS_MODE_RISCVC,
    ),
}
# Unconditional jumps.
_ALWAYS = re.compile(r"jmpq?|(c\.)?jr?|b|br|bx|br?aaz?|br?abz?")
_RETURNS = {("bx", "lr"), ("jr", "ra"), ("c.jr", "ra")}


def decode_other(
    code: bytes, address: int, machine: int, syntax: Syntax
) -> list[tuple[int, int, str, int, int]] | None:
    """Decode code; return address, size, text, FLOW_* and target of each instruction.

    Args:
        address: of the first byte.
        machine: EM_*.
        syntax: for x86.

    Returns:
        None for an unknown machine.
    """
    if machine not in _MODES:
        return None
    engine = capstone.Cs(*_MODES[machine])
    engine.skipdata = True
    engine.detail = True
    if syntax == "att" and machine in (elf_layout.EM_X86_64, elf_layout.EM_386):
        engine.syntax = capstone.CS_OPT_SYNTAX_ATT
    is_relative = machine == elf_layout.EM_RISCV
    rows = []
    for one in engine.disasm(code, address):
        operands = one.op_str
        flow = _flow(one)
        target = NO_TARGET
        if flow in (FLOW_CALL, FLOW_JUMP, FLOW_BRANCH):
            target = _target(one, is_relative=is_relative)
        if is_relative and target != NO_TARGET:
            kept, comma, _ = operands.rpartition(", ")
            operands = f"{kept}{comma}0x{target:x}"
        text = f"{one.mnemonic:<6} {operands}".rstrip()
        rows.append((one.address, one.size, text, flow, target))
    return rows


def _flow(one: capstone.CsInsn) -> int:
    if one.id == 0:  # skipped data
        return FLOW_UNKNOWN
    if one.group(capstone.CS_GRP_RET) or (one.mnemonic, one.op_str) in _RETURNS:
        return FLOW_RETURN
    if _ALWAYS.fullmatch(one.mnemonic):
        return FLOW_JUMP
    if one.group(capstone.CS_GRP_CALL):
        return FLOW_CALL
    if one.group(capstone.CS_GRP_JUMP):
        return FLOW_BRANCH
    return FLOW_NEXT


def _target(one: capstone.CsInsn, *, is_relative: bool) -> int:
    """Return the target of a direct jump: its last operand, if that is a number."""
    if not one.operands or one.operands[-1].type != capstone.CS_OP_IMM:
        return NO_TARGET
    value = one.operands[-1].imm + (one.address if is_relative else 0)
    return int(value) % 2**64
