"""Files of a target, as the pump sends them: of hostile ones nothing, and no word about it."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from builders.elf import Symbol, code, elf_file
from prospect.elf.image import ElfImage
from prospect.target import relay

SYMBOLS = [Symbol("somewhere", 0x1000, 16)]
PLAIN = elf_file(sections=[code()], symbols=SYMBOLS, build_id=b"12345678")
# Prints the letters of the frames, and whether that was all.
RELAY = """
class Letters:
    def frame(self, letter, *parts):
        os.write(1, letter)

is_whole = relay(json.loads(sys.argv[1]), Letters())
os.write(1, b" %d" % is_whole)
"""


def changed(**fields: int) -> bytes:
    """Return the plain file but for these fields of the section that has the names."""
    data = bytearray(PLAIN)
    (table,) = struct.unpack_from("<Q", data, 40)
    (names,) = struct.unpack_from("<H", data, 62)
    for name, value in fields.items():
        struct.pack_into("<Q", data, table + 64 * names + {"offset": 24, "size": 32}[name], value)
    return bytes(data)


def with_head(at: int, value: int) -> bytes:
    return PLAIN[:at] + struct.pack("<H", value) + PLAIN[at + 2 :]


def relayed(path: Path) -> subprocess.CompletedProcess[str]:
    """Send a file as on a target: this source alone, run by a bare Python."""
    source = Path(relay.__file__).read_text() + RELAY
    words = [sys.executable, "-IS", "-c", source, json.dumps({"file": str(path)})]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


def sent(path: Path, data: bytes) -> bytes:
    """Return what arrives of a file: holes where nothing is sent."""
    path.write_bytes(data)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        arrived = bytearray(len(data))
        for start, size in relay.elf_parts(descriptor, len(data)):
            arrived[start : start + size] = data[start : start + size]
        return bytes(arrived)
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("is_64", [True, False])
@pytest.mark.parametrize("extended", [True, False])
def test_names_arrive_and_code_does_not(tmp_path, is_64, extended):
    data = elf_file(
        sections=[code()], symbols=SYMBOLS, is_64=is_64, extended_indexes=extended, segments=()
    )
    whole, arrived = ElfImage.parse(data), ElfImage.parse(sent(tmp_path / "file", data))
    for name in (b".symtab", b".strtab", b".shstrtab"):
        row = whole.find_section(name)
        assert row == arrived.find_section(name) > 0
        assert bytes(arrived.section_data(row)) == bytes(whole.section_data(row))
    assert not any(arrived.section_data(whole.find_section(b".text")))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x7fELF", id="four bytes"),
        pytest.param(PLAIN[:63], id="half a head"),
        pytest.param(with_head(62, 0xFFFF)[:-64], id="names in a section that is not there"),
        pytest.param(with_head(62, 0xFF00), id="names in no section"),
        pytest.param(elf_file(sections=[code()], with_section_headers=False), id="no sections"),
    ],
)
def test_of_what_is_damaged_nothing_is_sent_and_nothing_said(tmp_path, data):
    (tmp_path / "file").write_bytes(data)
    ran = relayed(tmp_path / "file")
    assert (ran.stdout, ran.stderr) == (" 0", "")


@pytest.mark.parametrize("fields", [{"size": 1 << 63}, {"size": 1 << 50}, {"offset": 1 << 63}])
def test_a_size_is_that_of_the_file_at_most(tmp_path, fields):
    (tmp_path / "file").write_bytes(changed(**fields))
    ran = relayed(tmp_path / "file")
    assert ran.stdout.endswith("TE 1")
    assert ran.stderr == ""


def test_a_giant_of_holes_takes_no_memory(tmp_path, monkeypatch):
    real, asked = os.pread, []

    def pread(descriptor, size, at):
        asked.append(size)
        return real(descriptor, size, at)

    (tmp_path / "file").write_bytes(changed(size=1 << 40))
    os.truncate(tmp_path / "file", 1 << 40)
    descriptor = os.open(tmp_path / "file", os.O_RDONLY)
    monkeypatch.setattr(os, "pread", pread)
    try:
        relay.elf_parts(descriptor, 1 << 40)
    finally:
        os.close(descriptor)
    assert max(asked) == relay.MOST_NAMES_BYTES


def test_whatever_a_file_raises_the_child_ends_without_a_word(tmp_path):
    (tmp_path / "file").write_bytes(PLAIN)
    source = Path(relay.__file__).read_text()
    source += "\ndef elf_parts(descriptor, size):\n    return [][0]\n" + RELAY
    words = [sys.executable, "-IS", "-c", source, json.dumps({"file": str(tmp_path / "file")})]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.stdout, ran.stderr) == (" 0", "")
