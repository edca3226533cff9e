"""Which mapped files are CPython, and that a file may hold anything."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import sysconfig
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prospect.capture.machine.runtime_processes import KEY, image_key, may_be_runtime
from prospect.capture.python.interpreters import _loaded_offsets, layouts_of
from prospect.capture.runtimes import elf_lookup
from prospect.capture.runtimes.image_entry import ENTRY_BYTES, encode
from prospect.capture.runtimes.known_runtimes import read_image


@pytest.mark.parametrize(
    "name",
    [
        *("python3", "python3.11", "libpython3.12.so.1.0", "python3.9 (deleted)"),
        *(
            "libpython3.8.so",
            "python3.13t",
            "libpython3.11d.so.1.0",
            "python3.14td",
            "libpython3.7m.so.1.0",
        ),
    ],
)
def test_names_of_cpython(name):
    assert may_be_runtime(b"/usr/bin/" + name.encode())


@pytest.mark.parametrize(
    "name", ["python2.7", "python3.13x", "bash", "python3.11.so", "python3-config", ""]
)
def test_names_of_others(name):
    assert not may_be_runtime(b"/usr/bin/" + name.encode())


def own_image():
    """The file that this interpreter's own code is in."""
    libraries = sysconfig.get_config_var("LIBDIR"), sysconfig.get_config_var("INSTSONAME")
    shared = Path(*filter(None, libraries))
    return shared if shared.is_file() and shared.suffix != ".a" else Path(sys.executable).resolve()


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="reads x86-64 only")
def test_this_interpreter_is_known():
    with own_image().open("rb") as file:
        image = read_image(file.fileno(), own_image().name.encode())
    assert image is not None
    assert image.version == 0x300 | sys.version_info[1]
    assert image.text[0] < image.loop[0] < image.loop[1] <= image.text[1]
    placed = image.placed(0x7F0000000000, image.segments[0].offset)
    assert placed is not None
    assert layouts_of(placed).minor == sys.version_info[1]
    assert len(encode(1, placed, (1, 2))) == ENTRY_BYTES


@pytest.mark.parametrize(
    ("code", "offset"),
    [
        ("488dbf 50020000", 0x250),  # lea 0x250(%rdi), %rdi: 3.9 behind a pointer
        ("488d3d f9fe0f00", 0x100000 + 7 - 0x107),  # lea 0xffef9(%rip), %rdi
        ("8b3d fafe0f00", 0x100000 + 6 - 0x106 - 4),  # mov 0xffefa(%rip), %edi: the key itself
        ("833d f9fe0f00 00", 0x100000 + 7 - 0x107),  # cmpl $0, 0xffef9(%rip): 3.14
    ],
)
def test_code_says_where_the_key_is(code, offset):
    found = list(_loaded_offsets(b"\xf3\x0f\x1e\xfa" + bytes.fromhex(code) + bytes(8), -4))
    assert offset in found


def test_a_pointer_that_is_compared_is_no_key():
    code = bytes.fromhex("48833df9fe0f0000") + bytes(8)
    assert list(_loaded_offsets(code, 0)) == []


@given(st.binary(max_size=300))
def test_any_file_is_read_or_left(content):
    fd = os.memfd_create("image", os.MFD_CLOEXEC)
    try:
        for head in (b"", b"\x7fELF\x02\x01"):
            os.pwrite(fd, head + content, 0)
            with suppress(ValueError):  # "it takes too much to read"
                assert read_image(fd, b"python3.11") is None
    finally:
        os.close(fd)


def test_the_key_of_a_process_is_of_its_memory():
    fields = [b"1", b"(a) b)", *(b"%d" % number for number in range(3, 53))]
    assert image_key(b" ".join(fields)) == KEY.pack(26, 28, 47)
    assert image_key(b"") == b""
    assert image_key(b"1 (a) S x") == b""


SYMBOLS = (b"_PyRuntime", b"_PyEval_EvalFrameDefault", b"no_such_symbol")


@pytest.mark.parametrize("style", ["gnu", "sysv"])
def test_symbols_are_looked_up_in_the_hash_table(style, tmp_path):
    source, library = tmp_path / "x.c", tmp_path / "x.so"
    many = "".join(f"int symbol_{number};\n" for number in range(3000))
    many += "int getpid(void); char _PyRuntime[40];"
    source.write_text(many + "int _PyEval_EvalFrameDefault(void) {return getpid();}")
    line = ["gcc", "-shared", "-fPIC", f"-Wl,--hash-style={style}", "-o", str(library), str(source)]
    subprocess.run(line, check=True, timeout=60)
    subprocess.run(["strip", str(library)], check=True, timeout=60)
    with library.open("rb") as file:
        found = elf_lookup.File(file.fileno())
        symbols = found.find(SYMBOLS)
        assert symbols.keys() == set(SYMBOLS[:2])
        assert symbols[b"_PyRuntime"][1] == 40
        assert b"libc.so.6" in found.libraries()
        assert elf_lookup.MOST_READ_BYTES - found._bytes_left < 1 << 14


def test_a_program_that_is_linked_statically_has_its_table_read(tmp_path):
    source, program = tmp_path / "x.c", tmp_path / "x"
    source.write_text(
        '__attribute__((section(".PyRuntime"))) char _PyRuntime[40] = "x";'
        "int main(void) {return _PyRuntime[0];}"
    )
    line = ["gcc", "-static", "-no-pie", "-o", str(program), str(source)]
    subprocess.run(line, check=True, timeout=60)
    with program.open("rb") as file:
        found = elf_lookup.File(file.fileno())
        address, size = found.find(SYMBOLS)[b"_PyRuntime"]
        assert (address, size) == found.section(b".PyRuntime")
        assert size == 40


def sparse_file(path, sections):
    """A file of a few KB on disk, with 1,022 tables of 16 MB each: of symbols, strings, notes."""
    rows = b"".join(
        struct.pack("<IIQQQQIIQQ", 0, kind, 0, 0, 0x2000000, 1 << 24, 0, 0, 8, 24)
        for kind in sections * (1022 // len(sections))
    )
    segments = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, 1 << 24, 1 << 24, 4096)
    segments += struct.pack("<IIQQQQQQ", 2, 4, 0x3000000, 0x3000000, 0, 1 << 24, 1 << 24, 8)
    counts = 64, 56, 2, 64, len(rows) // 64, 1
    head = struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0x1000, 64, 4096, 0, *counts)
    with path.open("wb") as file:
        file.write(b"\x7fELF" + bytes([2, 1, 1, 0]) + bytes(8) + head + segments)
        file.seek(4096)
        file.write(rows)
        file.truncate(0x3000000)


@pytest.mark.parametrize("sections", [[11], [2], [3], [7], [2, 3]])
def test_a_sparse_file_costs_no_more_than_another(sections, tmp_path, monkeypatch):
    path = tmp_path / "python3.11"
    sparse_file(path, sections)
    read = []
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda *one: read.append(one[1]) or pread(*one))
    begun = time.process_time()
    with path.open("rb") as file, suppress(ValueError):
        assert read_image(file.fileno(), b"python3.11") is None
    assert sum(read) <= elf_lookup.MOST_READ_BYTES
    assert len(read) <= elf_lookup.MOST_READS
    assert time.process_time() - begun < 0.5
