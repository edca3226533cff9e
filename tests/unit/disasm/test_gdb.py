"""GDB as a disassembler: what it says beside the library, and what becomes of one that fails."""

import gc
import shutil
import stat
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from prospect.disasm import gdb
from prospect.disasm.code_image import (
    Piece,
    Target,
    apart,
    code_image,
    target_of,
    target_of_machine,
)
from prospect.disasm.decoders import disassemble, from_rows, with_flow_of
from prospect.disasm.gdb import disassemble_by_gdb, error_of, rows_of
from prospect.elf import elf_layout
from prospect.elf.image import ElfImage
from prospect.profile.optional_tables import FLOW_NAMES, FLOW_UNKNOWN, NO_TARGET

EM_PPC64 = 21
X86_64 = Target(elf_layout.EM_X86_64)
CODE = bytes.fromhex("55 4889e5 e8f7000000 7402 ebf4 ff10 ffe0 c3 0f0b 488d0510000000")
needs_gdb = pytest.mark.skipif(not shutil.which("gdb"), reason="needs gdb")


def piece(content=CODE, address=0x1000, target=X86_64):
    return Piece(content, address, target)


@pytest.mark.parametrize(
    "target", [X86_64, Target(elf_layout.EM_ARM, is_64=False, flags=0x5000000)]
)
def test_the_image_has_the_code_at_its_addresses_and_nothing_else(target):
    pieces = [piece(b"\x01" * 5, 0x1000, target), piece(b"\x02" * 7, 0x1005, target)]
    image = ElfImage.parse(code_image(pieces))
    assert target_of(image) == target
    assert image.type == elf_layout.ET_EXEC
    assert image.sections["addr"].tolist() == [0, 0x1000, 0x1005, 0]
    assert bytes(image.section_data(1)) == b"\x01" * 5
    assert bytes(image.section_data(2)) == b"\x02" * 7 + bytes(16)
    assert len(image.segments) == 0
    assert image.find_section(b".symtab") == -1


@pytest.mark.parametrize("machine", [1 << 31, 0xFFFFFFFF, elf_layout.EM_386, elf_layout.EM_ARM])
def test_any_machine_and_address_that_a_jitdump_says_make_an_image(machine):
    target = target_of_machine(machine)
    image = ElfImage.parse(code_image([piece(address=0x7F0000001000, target=target)]))
    assert image.sections["addr"].tolist() == [0, 0x7F0000001000, 0]
    assert image.machine == (machine if machine <= 0xFFFF else 0)


def test_pieces_that_overlap_are_kept_apart():
    pieces = [piece(bytes(16), at) for at in (32, 0, 8, 16, 24)]
    lists = apart(pieces, 100)
    assert sorted(row for members in lists for row in members) == [0, 1, 2, 3, 4]
    for members in lists:
        ends = [pieces[row].end for row in members[:-1]]
        assert all(end <= pieces[row].address for end, row in zip(ends, members[1:], strict=True))
    assert max(map(len, apart(pieces, 2))) == 2


RECORD = (
    rb'done,asm_insns=[{address="0x1000",opcodes="55",inst="push   %rbp"},'
    rb'{address="0x1001",func-name="a\"b",offset="1",opcodes="7402",inst="je     0x1005"},'
    rb'{address="0x1003",opcodes="90",inst="nop\t{%k1}"}]'
)


def test_an_answer_is_read_with_sizes_flow_and_targets():
    rows = rows_of(RECORD, bytes(5), 0x1000)
    assert rows == [
        (0x1000, 1, "push   %rbp", FLOW_NAMES.index("next"), NO_TARGET),
        (0x1001, 2, "je     0x1005", FLOW_NAMES.index("branch"), 0x1005),
        (0x1003, 1, "nop {%k1}", FLOW_NAMES.index("next"), NO_TARGET),
        (0x1004, 1, ".byte 0x00", FLOW_UNKNOWN, NO_TARGET),
    ]


def test_an_instruction_that_is_cut_off_is_none():
    assert [row[2] for row in rows_of(RECORD, bytes(2), 0x1000)] == ["push   %rbp", ".byte 0x00"]


@pytest.mark.parametrize(
    "record",
    [
        b"done",
        b"done,asm_insns=[",
        RECORD.replace(b"0x1001", b"0x1002"),
        RECORD.replace(b'"55"', b'""'),
    ],
)
def test_an_answer_to_another_question_is_none(record):
    found = rows_of(record, bytes(5), 0x1000)
    assert found is None or all(row[3] == FLOW_UNKNOWN for row in found)
    assert rows_of(RECORD, bytes(5), 0x2000) is None


def test_the_message_of_an_error_is_read():
    assert error_of(rb'error,msg="Cannot access \"memory\""') == 'Cannot access "memory"'
    assert error_of(b"error") == ""


@pytest.mark.parametrize(
    ("text", "flow"),
    [
        ("bl      0x1000", "call"),
        ("blt     0x1000", "branch"),
        ("blr", "return"),
        ("br      %r14", "return"),
        ("brasl   %r14,0x1000", "call"),
        ("jne     0x1000", "branch"),
        ("b       0x1000", "jump"),
        ("bis     $1,$2,$3", "next"),
        ("(bad)", "unknown"),
    ],
)
def test_flow_of_machines_that_only_gdb_knows(text, flow):
    record = b'done,asm_insns=[{address="0x10",opcodes="00",inst="%b"}]' % text.encode()
    ((_, _, _, found, target),) = rows_of(record, b"\0", 0x10)
    assert FLOW_NAMES[found] == flow
    assert target == (0x1000 if "0x1000" in text else NO_TARGET)


@needs_gdb
@pytest.mark.parametrize("syntax", ["att", "intel"])
def test_gdb_and_the_library_agree(syntax):
    ((answer,),) = disassemble_by_gdb([[piece()]], syntax)
    ours = disassemble(CODE, 0x1000, elf_layout.EM_X86_64, syntax)
    theirs = with_flow_of(from_rows(answer), ours)
    assert theirs.address.tolist() == ours.address.tolist()
    assert theirs.size_bytes.tolist() == ours.size_bytes.tolist()
    assert theirs.flow.tolist() == ours.flow.tolist()
    assert theirs.target.tolist() == ours.target.tolist()
    assert ("%rbp" in theirs.text[0]) == (syntax == "att")


@needs_gdb
def test_every_byte_of_any_code_is_in_one_row():
    code = np.random.default_rng(5).bytes(3000)
    ((answer,),) = disassemble_by_gdb([[piece(code)]])
    found = from_rows(answer)
    ends = found.address + found.size_bytes
    assert found.address[0] == 0x1000
    assert (found.address[1:] == ends[:-1]).all()
    assert ends[-1] == 0x1000 + len(code)


@needs_gdb
def test_groups_pieces_and_order_are_kept():
    nop, ret = piece(b"\x90", 0x100), piece(b"\xc3", 0x100)
    empty = piece(b"", 0x300)
    answers = disassemble_by_gdb([[nop, ret], [], [empty, ret, nop]], processes=1)
    texts = [[[row[2] for row in rows] for rows in group] for group in answers]
    assert texts == [[["nop"], ["ret"]], [], [[], ["ret"], ["nop"]]]


@pytest.mark.skipif(not shutil.which("gdb-multiarch"), reason="needs gdb-multiarch")
def test_a_machine_that_no_library_here_knows():
    code = bytes.fromhex("01006038 0800e041 f9ffff4b 2000804e")
    assert disassemble(code, 0x1000, EM_PPC64) is None
    ((answer,),) = disassemble_by_gdb([[piece(code, target=Target(EM_PPC64))]])
    assert [
        (at, size, " ".join(text.split()), FLOW_NAMES[flow]) for at, size, text, flow, _ in answer
    ] == [
        (0x1000, 4, "li r3,1", "next"),
        (0x1004, 4, "blt+ 0x100c", "branch"),
        (0x1008, 4, "bl 0x1000", "call"),
        (0x100C, 4, "blr", "return"),
    ]


@pytest.mark.skipif(not shutil.which("gdb-multiarch"), reason="needs gdb-multiarch")
def test_gdb_and_capstone_agree_on_where_instructions_are():
    code = bytes.fromhex("fd7bbfa93f000094c1ffff54faffff17c0035fd6")
    ((answer,),) = disassemble_by_gdb([[piece(code, target=Target(elf_layout.EM_AARCH64))]])
    ours = disassemble(code, 0x1000, elf_layout.EM_AARCH64)
    assert [row[:2] for row in answer] == list(
        zip(ours.address.tolist(), ours.size_bytes.tolist(), strict=True)
    )
    assert [row[2].split()[0] for row in answer] == [text.split()[0] for text in ours.text]


@needs_gdb
def test_a_machine_that_gdb_does_not_know_has_a_reason():
    ((answer,),) = disassemble_by_gdb([[piece(target=Target(0xFFF0))]])
    assert "does not know this machine" in answer


def fake_gdb(tmp_path, monkeypatch, script):
    path = tmp_path / "gdb"
    path.write_text(f"#!{sys.executable}\nimport os, sys, time\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(gdb, "gdb_path", lambda: str(path))


def files_of_this():
    """Return the files that this process holds, by descriptor."""
    gc.collect()  # what another test left is closed now, not in the middle of one
    held = {}
    for one in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the folder itself, which is read
            held[one.name] = one.readlink()
    return held


def children_of_this():
    """Return the processes, ended or not, that this one has started and not waited for."""
    children = set()
    for thread in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError):  # a thread that ends meanwhile
            children.update((thread / "children").read_text().split())
    return children


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("time.sleep(60)", "did not answer in time"),
        ("sys.exit(3)", "ended without an answer"),
        ("os.kill(os.getpid(), 9)", "ended without an answer"),
        ("print('x' * (1 << 24)); time.sleep(60)", "cannot be read"),
        ("input(); print('1^error,msg=\"no\"', flush=True); time.sleep(60)", "did not answer"),
        ("while True: print(input().split('-')[0] + '^done', flush=True)", "cannot be read"),
    ],
)
def test_a_gdb_that_fails_holds_nothing_up_and_leaves_nothing(tmp_path, monkeypatch, script, says):
    fake_gdb(tmp_path, monkeypatch, script)
    files, children = files_of_this(), children_of_this()
    begin = time.monotonic()
    ((answer,),) = disassemble_by_gdb([[piece()]], answer_s=2.0)
    assert says in answer
    assert time.monotonic() - begin < 30
    assert files_of_this().items() <= files.items()
    assert children_of_this() == children


def test_no_more_are_open_than_was_asked_for(tmp_path, monkeypatch):
    (tmp_path / "open").mkdir()
    fake_gdb(
        tmp_path,
        monkeypatch,
        f"mine = '{tmp_path}/open/' + str(os.getpid()); open(mine, 'w').close()\n"
        f"count = len(os.listdir('{tmp_path}/open'))\n"
        f"print(count, file=open('{tmp_path}/most', 'a'), flush=True)\n"
        "time.sleep(0.1); os.unlink(mine); sys.exit(0)",
    )
    groups = [[piece()] for _ in range(6)]
    disassemble_by_gdb(groups, processes=2)
    counts = list(map(int, (tmp_path / "most").read_text().split()))
    assert len(counts) == 6
    assert max(counts) <= 2


def test_without_gdb_it_says_so(monkeypatch):
    monkeypatch.setattr(gdb, "gdb_path", lambda: None)
    assert disassemble_by_gdb([[piece()]]) == [[gdb.NO_GDB]]


@needs_gdb
def test_gdb_is_started_without_shell_servers_or_start_up_files(tmp_path, monkeypatch):
    """Its own command line and environment, as a gdb in between writes them down."""
    fake_gdb(
        tmp_path,
        monkeypatch,
        f"print(repr((sys.argv, dict(os.environ))), file=open('{tmp_path}/seen', 'w'))",
    )
    monkeypatch.setenv("DEBUGINFOD_URLS", "http://127.0.0.1:1/")
    monkeypatch.setenv("HOME", str(tmp_path))
    disassemble_by_gdb([[piece()]])
    words, environment = eval((tmp_path / "seen").read_text())
    assert {"-nx", "-nh"} <= set(words)
    for setting in ("auto-load off", "debuginfod enabled off", "startup-with-shell off"):
        assert f"set {setting}" in words
    assert words[-1].startswith("/proc/self/fd/")
    assert not {"DEBUGINFOD_URLS", "GDBHISTFILE"} & environment.keys()
    assert environment["HOME"] != str(tmp_path)
