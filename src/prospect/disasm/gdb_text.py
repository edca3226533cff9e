"""What GDB says of instructions → rows as the library disassemblers give them.

Comes in: a result record of ``-data-disassemble``. Goes out: address, size, text, FLOW_* and target
of each instruction. Source: the GDB manual, "GDB/MI Output Syntax" and "GDB/MI Data Manipulation".
The record is a flat list of the same few strings, as the file that GDB reads has neither symbols
nor lines: one expression reads it, and a library for all of the protocol is not needed.
"""

from __future__ import annotations

import re

from prospect.profile.source import (
    FLOW_BRANCH,
    FLOW_CALL,
    FLOW_JUMP,
    FLOW_NEXT,
    FLOW_RETURN,
    FLOW_UNKNOWN,
    NO_TARGET,
)

Row = tuple[int, int, str, int, int]

_STRING = rb'"((?:[^"\\]|\\.)*)"'
_INSTRUCTION = re.compile(
    rb'address="0x([0-9a-f]+)"(?:,[a-z-]+=' + _STRING + rb")*?"
    rb',opcodes="([0-9a-f ]*)",inst=' + _STRING
)
_MESSAGE = re.compile(rb"msg=" + _STRING)
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)")
_NAMED = {b"t": b" ", b"n": b" ", b"r": b" "}
# Of machines that no library here knows: the names that most of them have in common.
_FLOWS = (
    (re.compile(r"(rep[zn]* )?ret\w*\b|blr$|rts\b|jr\s+\$?(ra|r1|lr)$|br\s+%r14$"), FLOW_RETURN),
    (re.compile(r"(call\w*|bl|jal|jalr|brasl|bras|basr|bctrl|bsr)(?![\w.+-])"), FLOW_CALL),
    (re.compile(r"(jmp\w*|j|jg|b|br|jr|bctr|bra)(?![\w.+-])"), FLOW_JUMP),
    (re.compile(r"[bj][\w.+-]*\s.*\b0x[0-9a-f]+$"), FLOW_BRANCH),
)
_LAST_NUMBER = re.compile(r"(?:^|[\s,])0x([0-9a-f]+)$")


def error_of(record: bytes) -> str:
    """Return the message of an error record, "" where it has none."""
    found = _MESSAGE.search(record)
    return _unescaped(found[1]) if found else ""


def rows_of(record: bytes, content: bytes, address: int) -> list[Row] | None:
    """Read the instructions of one piece of code.

    Args:
        record: what GDB answered.
        content: the bytes that it was asked for.
        address: of the first.

    Returns:
        Rows that cover each byte once; None where the answer does not fit the question.
    """
    end = address + len(content)
    rows: list[Row] = []
    expected = address
    for found in _INSTRUCTION.finditer(record):
        at, size = int(found[1], 16), len(found[3].replace(b" ", b"")) // 2
        if at != expected or not 0 < size < 256 or at >= end:
            return None
        if at + size > end:
            break
        text = _unescaped(found[4]).strip()
        flow, target = _flow(text)
        rows.append((at, size, text, flow, target))
        expected = at + size
    if not rows and not record.count(b"asm_insns"):
        return None
    rows.extend(
        (left, 1, f".byte 0x{content[left - address]:02x}", FLOW_UNKNOWN, NO_TARGET)
        for left in range(expected, end)
    )
    return rows


def _flow(text: str) -> tuple[int, int]:
    if text.startswith(("(bad)", ".", "<")):
        return FLOW_UNKNOWN, NO_TARGET
    flow = next((flow for pattern, flow in _FLOWS if pattern.match(text)), FLOW_NEXT)
    last = _LAST_NUMBER.search(text)
    leads = flow in (FLOW_CALL, FLOW_JUMP, FLOW_BRANCH) and last is not None
    return flow, int(last[1], 16) if leads and last else NO_TARGET


def _unescaped(text: bytes) -> str:
    def one(found: re.Match[bytes]) -> bytes:
        what = found[1]
        return bytes([int(what, 8) & 0xFF]) if len(what) == 3 else _NAMED.get(what, what)

    return _ESCAPE.sub(one, text).decode(errors="replace")
