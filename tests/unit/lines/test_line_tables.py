"""Code that no function of the DWARF covers: its lines are in the line tables."""

import itertools
import os
import shutil
import struct
import subprocess

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

from prospect.files.budget import of_others
from prospect.lines import debug_info, line_tables
from prospect.lines.dwarf import elf_of_sections
from prospect.lines.finder import LineFinder
from prospect.symbols.images.image_files import open_image

pytest.importorskip("symbolic")
pytestmark = pytest.mark.skipif(not shutil.which("gcc"), reason="builds small programs")

# Without a type, an assembler describes no function.
ASSEMBLY = """\
    .text
    .globl bare
bare:
    nop
    nop
    ret
    .section .text.more, "ax"
    .globl more
more:
    nop
    ret
"""
LINES = {"bare": [4, 5, 6], "more": [10, 11]}
MAIN = """\
void bare(void);
void more(void);
int main(void) {
    bare();
    more();
    return 0;
}
"""


def build(directory, *flags):
    (directory / "bare.s").write_text(ASSEMBLY)
    (directory / "main.c").write_text(MAIN)
    command = ["gcc", "-g", "-Wl,--build-id", *flags, "-o", "program", "bare.s", "main.c"]
    subprocess.run(command, check=True, cwd=directory)
    return directory / "program"


def address_of(program, name):
    with program.open("rb") as file:
        symbols = ELFFile(file).get_section_by_name(".symtab")
        return symbols.get_symbol_by_name(name)[0]["st_value"]


def frames_of(program, addresses):
    found = open_image(os.fsencode(program))
    frames, note = LineFinder(None).frames(found, lambda: None, np.array(addresses, np.uint64))
    rows = [
        (frames.files[file].rpartition("/")[2] if file >= 0 else "", line)
        for file, line in zip(frames.file_index.tolist(), frames.line.tolist(), strict=True)
    ]
    return [rows[a:b] for a, b in itertools.pairwise(frames.start.tolist())], note


def addresses_of(program):
    """Return the addresses of the assembler's instructions, of a byte each, and one of C."""
    return [
        address_of(program, name) + at for name, lines in LINES.items() for at in range(len(lines))
    ] + [address_of(program, "main")]


EXPECTED = [[("bare.s", line)] for lines in LINES.values() for line in lines] + [[("main.c", 3)]]


@pytest.mark.parametrize("flags", [("-gdwarf-4",), ("-gdwarf-5",), ("-gz",), ("-no-pie",)])
def test_instructions_of_an_assembler_have_their_lines(tmp_path, flags):
    program = build(tmp_path, *flags)
    assert frames_of(program, addresses_of(program)) == (EXPECTED, "")


def test_those_of_a_32_bit_program_have_them_too(tmp_path):
    if subprocess.run(
        ["gcc", "-m32", "-xc", "-", "-o", tmp_path / "a"],
        input=b"int main(){}",
        check=False,
        capture_output=True,
    ).returncode:
        pytest.skip("needs gcc-multilib")
    for version in (4, 5):
        program = build(tmp_path, "-m32", f"-gdwarf-{version}")
        assert frames_of(program, addresses_of(program)) == (EXPECTED, "")


def sequence(address, line):
    """Return a sequence of 16 bytes of code from a line, of a line program without file changes."""
    set_address = b"\0\x09\x02" + address.to_bytes(8, "little")
    advance_line, copy, advance_pc = bytes([3, line - 1]), b"\x01", b"\x02\x10"
    return set_address + advance_line + copy + advance_pc + b"\0\x01\x01"


def line_table_of(*sequences):
    """Return a line table of version 4 for a.go, of sequences in any order."""
    numbers = bytes([1, 1, 1, 251, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1])
    header = numbers + b"\0" + b"a.go\0\0\0\0" + b"\0"
    body = struct.pack("<HI", 4, len(header)) + header + b"".join(sequences)
    return struct.pack("<I", len(body)) + body


def test_a_range_of_many_sequences_has_the_lines_of_each(tmp_path):
    """As in programs by Go, where each function is a sequence and a unit is one range."""
    attributes = bytes([0x11, 0x01, 0x12, 0x07, 0x10, 0x17, 0, 0])  # low and high pc, line table
    entry = b"\x01" + struct.pack("<QQI", 0x1000, 0x60, 0)
    unit = struct.pack("<IHIB", 7 + len(entry), 4, 0, 8) + entry
    image = elf_of_sections(
        0,
        {
            b".debug_info": unit,
            b".debug_abbrev": b"\x01\x11\0" + attributes + b"\0",
            b".debug_line": line_table_of(
                *(sequence(0x1000 + 32 * at, 10 * (at + 1)) for at in (2, 0, 1))
            ),
        },
    )
    (tmp_path / "program").write_bytes(image)
    found, note = frames_of(tmp_path / "program", [0x1000, 0x100F, 0x1020, 0x1044, 0x1060])
    assert found == [[("a.go", line)] for line in (10, 10, 20, 30)] + [[]]
    assert note == ""


def test_addresses_outside_of_the_tables_have_none(tmp_path):
    program = build(tmp_path)
    others = [address_of(program, name) for name in ("_init", "_start")] + [1, 1 << 40]
    assert not any(file for frames in frames_of(program, others)[0] for file, _ in frames)


def test_each_unit_is_read_once(tmp_path, monkeypatch):
    program = build(tmp_path)
    finder, found = LineFinder(None), open_image(os.fsencode(program))
    addresses = np.array(addresses_of(program), np.uint64)
    first, _ = finder.frames(found, lambda: None, addresses)
    monkeypatch.setattr(line_tables, "convert", lambda _: pytest.fail("read again"))
    again, _ = finder.frames(found, lambda: None, addresses[::-1].copy())
    assert first.line.tolist() == again.line.tolist()[::-1]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of others")
def test_a_file_of_another_user_is_read_in_a_child(tmp_path, monkeypatch):
    program = build(tmp_path)
    os.chown(program, 4242, 4242)
    monkeypatch.setattr(line_tables, "convert", lambda _: pytest.fail("read here"))
    assert frames_of(program, addresses_of(program)) == (EXPECTED, "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of others")
# In version 4, the tables have the names of files; in version 5, they are in another section.
@pytest.mark.parametrize("version", [4, 5])
def test_those_of_another_user_take_a_part_of_what_is_left(tmp_path, monkeypatch, version):
    program = build(tmp_path, f"-gdwarf-{version}")
    os.chown(program, 4242, 4242)
    monkeypatch.setattr(debug_info.BoundedReader, "left_bytes", 40)
    found, note = frames_of(program, addresses_of(program))
    assert not any(file for frames in found[:-1] for file, _ in frames)
    assert note == debug_info.COSTLY
    monkeypatch.setattr(debug_info.BoundedReader, "left_bytes", 40_000)
    assert frames_of(program, addresses_of(program)) == (EXPECTED, "")


def test_without_memory_for_what_is_packed_there_are_none_and_a_note(tmp_path, monkeypatch):
    program = build(tmp_path, "-gz")
    monkeypatch.setenv("PROSPECT_MEMORY", str(of_others.bytes))
    found, note = frames_of(program, addresses_of(program))
    assert found[-1] == EXPECTED[-1]
    assert not any(file for frames in found[:-1] for file, _ in frames)
    assert note == debug_info.NO_MEMORY


@pytest.mark.parametrize("seed", range(4))
def test_damage_gives_other_lines_or_none_and_no_error(tmp_path, seed):
    random = np.random.default_rng(seed)
    program = build(tmp_path)
    addresses, whole = addresses_of(program), program.read_bytes()
    with program.open("rb") as file:
        parts = [
            (section["sh_offset"], section["sh_size"])
            for section in ELFFile(file).iter_sections()
            if section.name in {".debug_info", ".debug_abbrev", ".debug_line", ".debug_rnglists"}
        ]
    for _ in range(25):
        damaged = bytearray(whole)
        for _ in range(int(random.integers(1, 12))):
            offset, size = parts[random.integers(len(parts))]
            damaged[offset + int(random.integers(size))] = int(random.integers(256))
        (tmp_path / "damaged").write_bytes(damaged)
        found, _ = frames_of(tmp_path / "damaged", addresses)
        assert len(found) == len(addresses)
