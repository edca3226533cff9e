"""Instructions of small pieces of code whose meaning the processors' manuals give."""

import sys

import numpy as np
import pytest

from prospect.disasm.decoders import disassemble
from prospect.elf import elf_layout
from prospect.profile.optional_tables import FLOW_NAMES, NO_TARGET

pytest.importorskip("capstone")
HAS_ICED = pytest.mark.skipif(
    pytest.importorskip("importlib.util").find_spec("iced_x86") is None, reason="needs iced-x86"
)


def rows(code, machine, address=0x1000, syntax="att"):
    found = disassemble(bytes.fromhex(code), address, machine, syntax)
    return [
        (at - address, size, " ".join(text.split()), FLOW_NAMES[flow], target)
        for at, size, text, flow, target in zip(
            found.address.tolist(),
            found.size_bytes.tolist(),
            found.text,
            found.flow.tolist(),
            [None if target == NO_TARGET else target for target in found.target.tolist()],
            strict=True,
        )
    ]


X86_64 = "55 4889e5 e8f7000000 7402 ebf4 ff10 ffe0 c3 0f0b 488d0510000000"


@HAS_ICED
def test_x86_64_in_the_syntax_of_att():
    assert rows(X86_64, elf_layout.EM_X86_64) == [
        (0, 1, "push %rbp", "next", None),
        (1, 3, "mov %rsp,%rbp", "next", None),
        (4, 5, "call 0x1100", "call", 0x1100),
        (9, 2, "je 0x100d", "branch", 0x100D),
        (11, 2, "jmp 0x1001", "jump", 0x1001),
        (13, 2, "callq *(%rax)", "call", None),
        (15, 2, "jmp *%rax", "jump", None),
        (17, 1, "ret", "return", None),
        (18, 2, "ud2", "stop", None),
        (20, 7, "lea 0x10(%rip),%rax # 0x102b", "next", None),
    ]


@HAS_ICED
def test_x86_64_in_the_syntax_of_intel():
    texts = [text for _, _, text, _, _ in rows(X86_64, elf_layout.EM_X86_64, syntax="intel")]
    assert texts[:3] == ["push rbp", "mov rbp,rsp", "call 0x1100"]
    assert texts[-1] == "lea rax,[rip+0x10] # 0x102b"


@HAS_ICED
def test_x86_of_32_bits():
    assert rows("e8fb000000 40 c3", elf_layout.EM_386)[:2] == [
        (0, 5, "call 0x1100", "call", 0x1100),
        (5, 1, "inc %eax", "next", None),
    ]


@HAS_ICED
def test_bytes_that_are_no_instruction_are_shown_and_stepped_over():
    assert rows("06 90 0f", elf_layout.EM_X86_64) == [
        (0, 1, ".byte 0x06", "unknown", None),
        (1, 1, "nop", "next", None),
        (2, 1, ".byte 0x0f", "unknown", None),
    ]


@HAS_ICED
def test_every_byte_of_any_code_is_in_one_row():
    code = np.random.default_rng(3).bytes(20_000)
    for machine in (elf_layout.EM_X86_64, elf_layout.EM_386):
        found = disassemble(code, 0x1000, machine)
        ends = found.address + found.size_bytes
        assert found.address[0] == 0x1000
        assert (found.address[1:] == ends[:-1]).all()
        assert ends[-1] == 0x1000 + len(code)


def test_aarch64():
    code = "fd7bbfa9 3f000094 c1ffff54 faffff17 80ffffb4 20003fd6 00001fd6 c0035fd6 00000000"
    assert rows(code, elf_layout.EM_AARCH64) == [
        (0, 4, "stp x29, x30, [sp, #-0x10]!", "next", None),
        (4, 4, "bl #0x1100", "call", 0x1100),
        (8, 4, "b.ne #0x1000", "branch", 0x1000),
        (12, 4, "b #0xff4", "jump", 0xFF4),
        (16, 4, "cbz x0, #0x1000", "branch", 0x1000),
        (20, 4, "blr x1", "call", None),
        (24, 4, "br x0", "jump", None),
        (28, 4, "ret", "return", None),
        (32, 4, "udf #0", "next", None),
    ]


def test_arm():
    assert rows("3e0000eb fdffff0a fcffffea 1eff2fe1", elf_layout.EM_ARM) == [
        (0, 4, "bl #0x1100", "call", 0x1100),
        (4, 4, "beq #0x1000", "branch", 0x1000),
        (8, 4, "b #0x1000", "jump", 0x1000),
        (12, 4, "bx lr", "return", None),
    ]


def test_riscv():
    assert rows("ef000010 e31e05fe 6ff09fff 8280 1105", elf_layout.EM_RISCV) == [
        (0, 4, "jal 0x1100", "call", 0x1100),
        (4, 4, "bnez a0, 0x1000", "branch", 0x1000),
        (8, 4, "j 0x1000", "jump", 0x1000),
        (12, 2, "c.jr ra", "return", None),
        (14, 2, "c.addi a0, 4", "next", None),
    ]


def test_x86_without_iced_is_decoded_by_capstone(monkeypatch):
    monkeypatch.setitem(sys.modules, "prospect.disasm.x86", None)
    found = rows(X86_64, elf_layout.EM_X86_64)
    assert [row[0] for row in found] == [0, 1, 4, 9, 11, 13, 15, 17, 18, 20]
    assert found[2][3:] == ("call", 0x1100)
    assert found[3][3:] == ("branch", 0x100D)
    assert found[4][3:] == ("jump", 0x1001)
    assert found[7][3] == "return"
    assert found[1][2] == "movq %rsp, %rbp"


def test_a_machine_that_nobody_knows_has_none():
    assert disassemble(b"\0" * 8, 0, 0xFFFF) is None


def test_no_code_has_no_instructions():
    assert len(disassemble(b"", 0, elf_layout.EM_X86_64)) == 0
    assert len(disassemble(b"", 0, elf_layout.EM_AARCH64)) == 0
