"""x86 code → instructions, by iced-x86.

Text is as close to ``objdump -d`` as the library's formatter allows: addresses of direct calls and
jumps in hexadecimal, the meaning of a RIP-relative address after a ``#``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iced_x86 import Decoder, FlowControl, Formatter, FormatterSyntax, Instruction, OpKind

from prospect.profile.optional_tables import (
    FLOW_BRANCH,
    FLOW_CALL,
    FLOW_JUMP,
    FLOW_NEXT,
    FLOW_RETURN,
    FLOW_STOP,
    FLOW_UNKNOWN,
    NO_TARGET,
)

if TYPE_CHECKING:
    from prospect.options import Syntax

_FLOW = {
    FlowControl.NEXT: FLOW_NEXT,
    FlowControl.UNCONDITIONAL_BRANCH: FLOW_JUMP,
    FlowControl.INDIRECT_BRANCH: FLOW_JUMP,
    FlowControl.CONDITIONAL_BRANCH: FLOW_BRANCH,
    FlowControl.RETURN: FLOW_RETURN,
    FlowControl.CALL: FLOW_CALL,
    FlowControl.INDIRECT_CALL: FLOW_CALL,
    FlowControl.INTERRUPT: FLOW_NEXT,
    FlowControl.XBEGIN_XABORT_XEND: FLOW_NEXT,
    FlowControl.EXCEPTION: FLOW_STOP,
}
_NEAR = {OpKind.NEAR_BRANCH16, OpKind.NEAR_BRANCH32, OpKind.NEAR_BRANCH64}
_OPERANDS_FROM_COLUMN = 7  # as in objdump


def decode(
    code: bytes, address: int, bits: int, syntax: Syntax
) -> list[tuple[int, int, str, int, int]]:
    """Decode 32- or 64-bit code from an address on.

    Returns:
        Address, size, text, FLOW_* and target of each instruction.
    """
    text_of = _formatter(syntax)
    decoder = Decoder(bits, code, ip=address)
    instruction = Instruction()
    rows = []
    while decoder.can_decode:
        start = decoder.position
        decoder.decode_out(instruction)
        at = address + start
        if instruction.is_invalid:
            rows.append((at, 1, f".byte 0x{code[start]:02x}", FLOW_UNKNOWN, NO_TARGET))
            decoder.position = start + 1
            decoder.ip = at + 1
            continue
        flow = _FLOW.get(instruction.flow_control, FLOW_NEXT)
        target = NO_TARGET
        if flow in (FLOW_CALL, FLOW_JUMP, FLOW_BRANCH) and instruction.op0_kind in _NEAR:
            target = instruction.near_branch_target
        text = text_of.format(instruction)
        if instruction.is_ip_rel_memory_operand:
            text += f"  # 0x{instruction.ip_rel_memory_address:x}"
        rows.append((at, instruction.len, text, flow, target))
    return rows


def _formatter(syntax: Syntax) -> Formatter:
    made = Formatter(FormatterSyntax.GAS if syntax == "att" else FormatterSyntax.INTEL)
    made.first_operand_char_index = _OPERANDS_FROM_COLUMN
    made.hex_prefix, made.hex_suffix = "0x", ""
    made.uppercase_hex = False
    made.small_hex_numbers_in_decimal = False
    made.branch_leading_zeros = False
    made.rip_relative_addresses = True
    return made
