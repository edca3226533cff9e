"""Instructions against their encodings, as other assemblers write them."""

from __future__ import annotations

import sys

import pytest

from prospect.abi import bpf as abi
from prospect.capture.kernel.bpf_assembler import (
    EXIT,
    Label,
    Reg,
    alu,
    assemble,
    atomic_add,
    bounded,
    call,
    jump,
    jump_if,
    load,
    load_imm64,
    load_map,
    may_go,
    move,
    store,
)

pytestmark = pytest.mark.skipif(sys.byteorder != "little", reason="encodings of little endian")

# What `llvm-objdump -d` shows for these; RFC 9669 defines them.
ENCODINGS = {
    "r6 = r1": (move(Reg.R6, Reg.R1), "bf 16 00 00 00 00 00 00"),
    "r0 = 0": (move(Reg.R0, 0), "b7 00 00 00 00 00 00 00"),
    "r1 = -1": (move(Reg.R1, -1), "b7 01 00 00 ff ff ff ff"),
    "r2 += -16": (alu(abi.BPF_ADD, Reg.R2, -16), "07 02 00 00 f0 ff ff ff"),
    "r8 -= r1": (alu(abi.BPF_SUB, Reg.R8, Reg.R1), "1f 18 00 00 00 00 00 00"),
    "r1 &= 255": (alu(abi.BPF_AND, Reg.R1, 255), "57 01 00 00 ff 00 00 00"),
    "r8 |= r0": (alu(abi.BPF_OR, Reg.R8, Reg.R0), "4f 08 00 00 00 00 00 00"),
    "r0 <<= 24": (alu(abi.BPF_LSH, Reg.R0, 24), "67 00 00 00 18 00 00 00"),
    "r1 >>= 32": (alu(abi.BPF_RSH, Reg.R1, 32), "77 01 00 00 20 00 00 00"),
    "r1 = *(u64 *)(r6 + 8)": (load(abi.BPF_DW, Reg.R1, Reg.R6, 8), "79 61 08 00 00 00 00 00"),
    "r1 = *(u32 *)(r7 + 12)": (load(abi.BPF_W, Reg.R1, Reg.R7, 12), "61 71 0c 00 00 00 00 00"),
    "r1 = *(u8 *)(r10 - 32)": (load(abi.BPF_B, Reg.R1, Reg.FP, -32), "71 a1 e0 ff 00 00 00 00"),
    "*(u64 *)(r7 + 0) = r0": (store(abi.BPF_DW, Reg.R7, 0, Reg.R0), "7b 07 00 00 00 00 00 00"),
    "*(u32 *)(r7 + 8) = r1": (store(abi.BPF_W, Reg.R7, 8, Reg.R1), "63 17 08 00 00 00 00 00"),
    "*(u64 *)(r10 - 8) = 1": (store(abi.BPF_DW, Reg.FP, -8, 1), "7a 0a f8 ff 01 00 00 00"),
    "lock *(u64 *)(r0 + 8) += r1": (atomic_add(Reg.R0, 8, Reg.R1), "db 10 08 00 00 00 00 00"),
    "call 14": (call(abi.BPF_FUNC_get_current_pid_tgid), "85 00 00 00 0e 00 00 00"),
    "r1 = map 5": (load_map(Reg.R1, 5), "18 11 00 00 05 00 00 00 00 00 00 00 00 00 00 00"),
    "r1 = 0x1122334455667788 ll": (
        load_imm64(Reg.R1, 0x1122334455667788),
        "18 01 00 00 88 77 66 55 00 00 00 00 44 33 22 11",
    ),
    "exit": (EXIT, "95 00 00 00 00 00 00 00"),
}


@pytest.mark.parametrize("text", ENCODINGS)
def test_an_instruction_is_encoded_as_the_kernel_reads_it(text):
    instruction, encoding = ENCODINGS[text]
    assert assemble([instruction]).hex(" ") == encoding


def test_a_jump_counts_slots_behind_itself():
    program = [
        jump_if(abi.BPF_JEQ, Reg.R0, 0, "end"),
        load_map(Reg.R1, 5),  # two slots
        jump("end"),
        move(Reg.R0, 1),
        Label("end"),
        EXIT,
    ]
    code = assemble(program)
    assert code[:8].hex(" ") == "15 00 04 00 00 00 00 00"
    assert code[24:32].hex(" ") == "05 00 01 00 00 00 00 00"
    assert len(code) == 6 * 8


def test_a_jump_can_go_back_and_compare_registers():
    code = assemble([Label("again"), jump_if(abi.BPF_JLT, Reg.R8, Reg.R1, "again"), EXIT])
    assert code[:8].hex(" ") == "ad 18 ff ff 00 00 00 00"
    assert assemble([jump_if(abi.BPF_JNE, Reg.R1, 35, "x"), Label("x"), EXIT])[0] == 0x55


def test_a_loop_may_go_or_is_bounded_by_itself():
    loop = [Label("again"), may_go("end"), jump("again"), Label("end"), EXIT]
    assert assemble(loop)[:16].hex(" ") == "e5 00 01 00 00 00 00 00 05 00 fe ff 00 00 00 00"
    assert assemble(bounded(loop)) == assemble([Label("again"), jump("again"), EXIT])


def test_a_label_that_is_not_there_is_a_defect():
    with pytest.raises(KeyError):
        assemble([jump("nowhere"), EXIT])
