"""Bytes of code → columns of instructions, by the library that knows the machine best.

iced-x86 decodes x86. Capstone decodes all other machines, and x86 if iced-x86 has no build for this
machine. Each is imported when code needs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.elf import elf_layout
from prospect.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prospect.columns.array_types import U8, U64
    from prospect.options import Syntax

_X86_BITS = {elf_layout.EM_386: 32, elf_layout.EM_X86_64: 64}


class Instructions(Record):
    """Consecutive instructions; bytes that are no instruction have rows too.

    Attributes:
        address: ascending.
        text: mnemonic and operands.
        flow: FLOW_* of `profile.optional_tables`.
        target: the target of a direct call or jump, else NO_TARGET.
    """

    address: U64
    size_bytes: U8
    text: list[str]
    flow: U8
    target: U64

    def __len__(self) -> int:
        return len(self.address)


def disassemble(
    code: bytes | memoryview, address: int, machine: int, syntax: Syntax = "att"
) -> Instructions | None:
    """Decode code from its first byte to its last.

    Args:
        code: the bytes; a truncated instruction at their end counts as no instruction.
        address: of the first byte.
        machine: EM_*.
        syntax: for x86; other machines have one.

    Returns:
        The instructions, None for a machine that no library here knows.
    """
    bits = _X86_BITS.get(machine)
    if bits:
        try:
            from prospect.disasm.x86 import decode  # noqa: PLC0415 - 50 ms, if it is needed
        except ImportError:  # no build of iced-x86 for this machine
            pass
        else:
            return from_rows(decode(bytes(code), address, bits, syntax))
    from prospect.disasm.other_machines import decode_other  # noqa: PLC0415 - 120 ms

    rows = decode_other(bytes(code), address, machine, syntax)
    return None if rows is None else from_rows(rows)


def from_rows(rows: Iterable[tuple[int, int, str, int, int]]) -> Instructions:
    """Make columns of address, size, text, FLOW_* and target of each instruction."""
    address, size, text, flow, target = zip(*rows, strict=True) if rows else ((),) * 5
    return Instructions(
        address=np.array(address, np.uint64),
        size_bytes=np.array(size, np.uint8),
        text=list(text),
        flow=np.array(flow, np.uint8),
        target=np.array(target, np.uint64),
    )


def with_flow_of(shown: Instructions, known: Instructions) -> Instructions:
    """Return instructions with flow and targets from another disassembler's rows of the same code.

    Args:
        shown: the instructions.
        known: the same code, by a disassembler that knows the flow of instructions.
    """
    if not len(shown) or not len(known):
        return shown
    row = np.minimum(np.searchsorted(known.address, shown.address), len(known) - 1)
    same = (known.address.take(row) == shown.address) & (
        known.size_bytes.take(row) == shown.size_bytes
    )
    return replace(
        shown,
        flow=np.where(same, known.flow.take(row), shown.flow),
        target=np.where(same, known.target.take(row), shown.target),
    )
