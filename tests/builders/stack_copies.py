"""Stack copies in memory, with frames of known layout, and a finder of the code that made them."""

from __future__ import annotations

import itertools

import numpy as np

from prospect.elf import elf_layout
from prospect.elf import frame_rules as rules
from prospect.elf.frame_rows import FrameRows
from prospect.unwind.interface import UnwindInput

CODE = 0x40_0000
CODE_BYTES = 0x10_0000
JIT = 0x70_0000
STACK = 0x7FFE_0000_0000


def rule(kind, cfa=0, *, fp=None, second=None, number=0, fp_how=rules.RULE_AT_CFA):
    """Pack a rule from bytes, as the program of a function would state it."""
    packed = kind << rules.KIND_SHIFT | number << rules.REGISTER_SHIFT
    packed |= (cfa >> 3 & (1 << rules.CFA_BITS) - 1) << rules.CFA_SHIFT
    for value, how, shift in ((fp, fp_how, rules.FP_SHIFT), (second, rules.RULE_AT_CFA, 0)):
        if value is not None:
            packed |= (how << 15 | value >> 3 & 0x7FFF) << shift
    return packed


class OneImage:
    """`CodeFinder` of one image at CODE, loaded at its SVMA + 0x1000, and of a JIT's code at JIT.

    Args:
        functions: address in the image → the rule from there on.
    """

    def __init__(self, functions):
        starts = sorted(functions)
        self.rows = FrameRows(
            np.array(starts, np.uint64), np.array([functions[s] for s in starts], np.int64)
        )
        self.asked = 0

    def locate(self, context, address):
        assert len(context) == len(address)
        self.asked += len(address)
        in_image = (address >= CODE) & (address < CODE + CODE_BYTES)
        in_jit = (address >= JIT) & (address < JIT + CODE_BYTES)
        found = np.where(in_image, 0, -1).astype(np.int32)
        return found, address - np.uint64(0x1000), in_image | in_jit

    def rows_of(self, object_row):
        assert object_row == 0
        return self.rows


def samples(states, *, machine=elf_layout.EM_X86_64, blocks=1, registers=()):
    """The input of samples, each a dict of pc, words from sp on, and what else it has.

    Keys: pc, words; sp, fp, context, cut (bytes that are missing), and DWARF numbers.
    """
    content = [[0x5555] for _ in range(blocks)]
    columns = {name: [] for name in ("context", "pc", "sp", "fp", "block", "begin", "bytes")}
    held = {number: [] for number in registers}
    for index, state in enumerate(states):
        block = index % blocks
        words = state["words"]
        columns["context"].append(state.get("context", 0))
        columns["pc"].append(state["pc"])
        columns["sp"].append(state.get("sp", STACK))
        columns["fp"].append(state.get("fp", 0))
        columns["block"].append(block)
        columns["begin"].append(8 * len(content[block]))
        columns["bytes"].append(8 * len(words))
        content[block] += [word % 2**64 for word in words]
        for number, column in held.items():
            column.append(state.get(number, 0))
    u64 = {name: np.array(columns[name], np.uint64) for name in ("pc", "sp", "fp")}
    return UnwindInput(
        machine=machine,
        context=np.array(columns["context"], np.int32),
        **u64,
        stack_block=np.array(columns["block"], np.int32),
        stack_begin=np.array(columns["begin"], np.int64),
        stack_bytes=np.array(columns["bytes"], np.int64),
        blocks=[np.array(each, np.uint64).view(np.uint8) for each in content],
        registers={number: np.array(column, np.uint64) for number, column in held.items()},
    )


def chains(unwound):
    """The addresses of each sample's frames."""
    start, _, address = unwound.chains()
    return [address[low:high].tolist() for low, high in itertools.pairwise(start.tolist())]
