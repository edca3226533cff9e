"""How frames of a JVM's code are laid out on x86-64, as rows of rules for the unwinder.

A compiled method pushes the frame register, and makes its frame as long as the JVM says: from then
on the caller is found by the stack pointer. The instructions around that are found by their bytes,
at the method's beginning, at its entry from an interpreted loop, and at each of its ends.

Defined by: ``src/hotspot/cpu/x86``: MachPrologNode and MachEpilogNode in x86_64.ad, build_frame()
and remove_frame() in c1_MacroAssembler_x86.cpp, and enter() (OpenJDK 8 to 25).
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING

import numpy as np

from prospect.abi import hotspot as wire
from prospect.elf import frame_rules as rules
from prospect.elf.frame_rows import FrameRows, rows_in_order
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_WORD = 8
_SAVED_FP = rules.RULE_AT_CFA << rules.FP_BITS


def _rule(words: int, *, saved: bool) -> int:
    """Return the rule of a frame of so many words, the return address and maybe fp among them."""
    how = (_SAVED_FP | -2 & (1 << rules.FP_BITS) - 1) << rules.FP_SHIFT if saved else 0
    return rules.KIND_SP << rules.KIND_SHIFT | words << rules.CFA_SHIFT | how


_BARE = _rule(1, saved=False)
_PUSHED = _rule(2, saved=True)
_RECORD = (
    rules.KIND_FP << rules.KIND_SHIFT
    | 2 << rules.CFA_SHIFT
    | (_SAVED_FP | -2 & (1 << rules.FP_BITS) - 1) << rules.FP_SHIFT
)
_SUBTRACT_BYTES = 7
_LONGEST_FRAME_WORDS = 1 << rules.CFA_BITS - 1

# push %rbp; maybe mov %rsp,%rbp; sub $n,%rsp
_PUSH = re.compile(
    rb"\x55(\x48\x8b\xec|\x48\x89\xe5)?\x48(?:\x83\xec(.)|\x81\xec(.{4}))", re.DOTALL
)
# sub $n,%rsp; mov %rbp,n(%rsp), in frames that need no check of the stack's end
_SUBTRACT = re.compile(rb"\x48\x81\xec(.{4})\x48\x89(?:\x6c\x24.|\xac\x24.{4})", re.DOTALL)
# add $n,%rsp; pop %rbp; maybe the check for a safepoint; then ret or a jump. The check
# is cmp d(%r15),%rsp; ja since 15, mov d(%r15),%r10; test %eax,(%r10) since 10, and
# test %eax,d(%rip) before.
_POP = re.compile(
    rb"(?:\x48(?:\x83\xc4.|\x81\xc4.{4}))\x5d"
    rb"(?:\x49\x3b(?:\x67.|\xa7.{4})\x0f\x87.{4}"
    rb"|\x4d\x8b(?:\x57.|\x97.{4})\x41\x85\x02|\x85\x05.{4})?"
    rb"(?:\xc3|\xe9.{4}|\xff[\xe0-\xe7])?",
    re.DOTALL,
)
_LEAVE = re.compile(rb"\xc9(?:\xc3|\xe9.{4})", re.DOTALL)


class PieceFrame(NamedTuple):
    """A piece of code: its addresses in the object, CODE_*, and what the JVM says of its frame."""

    begin: int
    end: int
    kind: int
    frame_words: int = 0
    complete: int = -1
    entry: int = -1
    code: bytes = b""
    is_bytecode: bool = False


def frame_rows(pieces: Iterable[PieceFrame]) -> FrameRows | None:
    """Return the rules of code; None if there is none."""
    start: list[int] = []
    rule: list[int] = []
    for piece in sorted(pieces, key=lambda one: one.begin):
        # The end of one piece may be the beginning of another one, which then holds.
        start.append(piece.end)
        rule.append(rules.NO_ROW)
        last = -1
        for offset, one in sorted(_rules_of(piece)):
            if offset != last or one != rules.NO_ROW:
                start.append(piece.begin + offset)
                rule.append(one)
            last = offset
    return rows_in_order(np.array(start, np.uint64), np.array(rule, np.int64)) if start else None


def _rules_of(piece: PieceFrame) -> Iterator[tuple[int, int]]:
    """Give offsets in a piece, and the rule that holds from each one on."""
    if piece.is_bytecode:
        yield 0, rules.BYTECODE
    elif piece.kind == wire.CODE_INTERPRETER:
        yield 0, rules.INTERPRETED
    elif piece.kind == wire.CODE_BARE:
        yield 0, _BARE
    elif 1 < piece.frame_words < _LONGEST_FRAME_WORDS and piece.kind != wire.CODE_STUB:
        yield from _of_frame(piece)
    else:
        yield 0, rules.NO_ROW


def _of_frame(piece: PieceFrame) -> Iterator[tuple[int, int]]:
    """Give the rules of code whose frame has one size."""
    body = _rule(piece.frame_words, saved=True)
    begins = [*_begins(piece)]
    if not begins and 0 < piece.complete < len(piece.code):
        begins = [([], piece.complete)]
    yield 0, _BARE if begins else body
    if 0 <= piece.entry < len(piece.code) and begins:
        yield piece.entry, _BARE
    for steps, complete in begins:
        yield from steps
        yield complete, body
    first = min((complete for _, complete in begins), default=0)
    for found in _POP.finditer(piece.code, first):
        popped = found.start() + (4 if piece.code[found.start() + 1] == 0x83 else 7)
        yield popped, _PUSHED
        yield popped + 1, _BARE
        yield found.end(), body
    for found in _LEAVE.finditer(piece.code, first) if piece.kind == wire.CODE_NATIVE else ():
        yield found.start() + 1, _BARE
        yield found.end(), body


def _begins(piece: PieceFrame) -> Iterator[tuple[list[tuple[int, int]], int]]:
    """Give the rules while a frame is made, and the offset from which on it is whole."""
    for found in _PUSH.finditer(piece.code):
        if _immediate(found[2], found[3]) == _WORD * (piece.frame_words - 2):
            pushed = found.start() + 1
            steps = [(pushed, _PUSHED)] + [(pushed + 3, _RECORD)] * bool(found[1])
            yield steps, found.end()
    for found in _SUBTRACT.finditer(piece.code):
        if _immediate(None, found[1]) == _WORD * (piece.frame_words - 1):
            unsaved = _rule(piece.frame_words, saved=False)
            yield [(found.start() + _SUBTRACT_BYTES, unsaved)], found.end()


def _immediate(short: bytes | None, long: bytes | None) -> int:
    if short:
        return int.from_bytes(short, "little", signed=True)
    return int(struct.unpack("<i", long or b"\0\0\0\0")[0])
