"""Who disassembles what: the library, GDB, or GDB where the library is at a loss."""

import shutil

import numpy as np
import pytest

from prospect.assembly.code import code
from prospect.assembly.code.code import Function, decode_functions
from prospect.disasm.code_image import Piece, Target
from prospect.disasm.gdb import NO_GDB
from prospect.elf import elf_layout
from prospect.errors import UsageError
from prospect.options import DisassemblerOptions
from prospect.profile.optional_tables import FLOW_NEXT, NO_TARGET

pytest.importorskip("iced_x86")
X86_64 = Target(elf_layout.EM_X86_64)
UNKNOWN = Target(0xFFF0)
# No instruction in 64-bit mode, then a nop.
CODE = bytes.fromhex("06 90")


def function(hits, target=X86_64, code=CODE):
    return Function(Piece(code, 0x1000, target), 0, np.array(hits, np.uint64))


@pytest.fixture
def asked(monkeypatch):
    """Put a GDB in place that knows everything; give what it was asked for."""
    groups = []

    def answer(pieces, _syntax, _processes):
        groups.extend(pieces)
        return [
            [[(0x1000, len(one.content), "known", FLOW_NEXT, NO_TARGET)] for one in group]
            for group in pieces
        ]

    monkeypatch.setattr(code, "disassemble_by_gdb", answer)
    monkeypatch.setattr(code, "gdb_path", lambda: "/usr/bin/gdb")
    return groups


def texts(functions, disassembler="library"):
    found = decode_functions(functions, DisassemblerOptions(disassembler=disassembler))
    return [one if isinstance(one, str) else [text.strip() for text in one.text] for one in found]


def test_the_library_is_enough_where_hits_are_at_what_it_knows(asked):
    assert texts([function([0x1001])]) == [[".byte 0x06", "nop"]]
    assert texts([function([])]) == [[".byte 0x06", "nop"]]
    assert asked == []


def test_gdb_is_not_asked_about_a_range_larger_than_any_function(asked):
    large = CODE * (1 << 17) + CODE
    assert len(texts([function([0x1000], code=large)])[0]) == len(large)
    assert asked == []


@pytest.mark.parametrize("hit", [0x1000, 0x1005])
def test_gdb_is_asked_where_a_hit_is_at_no_instruction(asked, hit):
    found = texts([function([hit])])
    assert len(asked) == 1
    assert found == [["known"] if hit == 0x1000 else [".byte 0x06", "nop"]]


def test_gdb_is_asked_for_other_machines_and_objects_stay_together(asked):
    other = Function(*function([], UNKNOWN)[:1], 7, np.zeros(0, np.uint64))
    found = texts([function([], UNKNOWN), other, function([], UNKNOWN)])
    assert found == [["known"]] * 3
    assert [len(group) for group in asked] == [2, 1]


def test_gdb_for_everything(asked):
    none = Function("the file is gone", 0, np.zeros(0, np.uint64))
    assert texts([function([]), none], "gdb") == [["known"], "the file is gone"]


def test_what_is_missing_is_said(monkeypatch):
    monkeypatch.setattr(code, "gdb_path", lambda: None)
    monkeypatch.setattr(code, "disassemble_by_gdb", lambda *_: [[NO_GDB]])
    (reason,) = texts([function([], UNKNOWN)])
    assert "gdb is not installed: install gdb-multiarch" in reason
    assert texts([function([0x1000])]) == [[".byte 0x06", "nop"]]
    with pytest.raises(UsageError, match="gdb is not installed"):
        texts([function([])], "gdb")


@pytest.mark.skipif(not shutil.which("gdb"), reason="needs gdb")
def test_the_real_gdb_and_the_library_agree():
    code = bytes.fromhex("55 4889e5 7402 ebf4 c3 4893")
    ours, theirs = (
        decode_functions([function([], code=code)], DisassemblerOptions(disassembler=one))[0]
        for one in ("library", "gdb")
    )
    assert ours.address.tolist() == theirs.address.tolist()
    assert ours.flow.tolist() == theirs.flow.tolist()
    assert ours.target.tolist() == theirs.target.tolist()
