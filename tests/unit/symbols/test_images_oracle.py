"""Real images of this machine, against pyelftools and binutils."""

import ctypes.util
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

from prospect.elf.elf_layout import SHF_EXECINSTR
from prospect.elf.image import ElfImage
from prospect.elf.symbols import read_symbols
from prospect.profile.naming import NameSource
from prospect.symbols.images.image_symbols import read_symbol_table

SOURCE = r"""
#include <cstdlib>
#include <cstdio>
#include <vector>
namespace { int hidden(int x) { return x * 3; } }
template <class T> __attribute__((noinline)) T twice(T x) { return x + x; }
struct Shape { Shape(); virtual ~Shape(); virtual int sides() const; };
Shape::Shape() {} Shape::~Shape() {} int Shape::sides() const { return hidden(std::rand()); }
extern "C" int plain(int argc) { std::vector<int> v(argc); return v.size() + twice(argc); }
int main(int argc, char **) { Shape s; std::printf("%d", plain(argc) + s.sides()); return 0; }
"""


LARGE_BYTES = 4 << 20


def mapped_images():
    """Files of ELF code that this very process has mapped."""
    paths = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines()}
    # Other tests of this process may still have their made-up images mapped.
    real = (p for p in paths if p.startswith("/") and "/pytest-of-" not in p)
    # Large ones have more of the same: pyelftools takes a second for the symbols of one.
    images = {p for p in map(Path, real) if p.is_file() and p.stat().st_size < LARGE_BYTES}
    own = {Path(sys.executable).resolve()}
    return sorted(p for p in images | own if p.read_bytes()[:4] == b"\x7fELF")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    compiler = shutil.which("g++")
    if not compiler:
        pytest.skip("needs g++")
    source = tmp_path_factory.mktemp("program") / "shapes.cc"
    source.write_text(SOURCE)
    output = source.with_suffix("")
    subprocess.run([compiler, "-O1", "-o", output, source], check=True)
    return output


def test_headers_and_dynamic_symbols_are_what_pyelftools_reads():
    checked = 0
    for path in mapped_images():
        image = ElfImage.parse(path.read_bytes())
        with path.open("rb") as file:
            oracle = ELFFile(file)
            assert [s["sh_addr"] for s in oracle.iter_sections()] == image.sections["addr"].tolist()
            assert [s["p_vaddr"] for s in oracle.iter_segments()] == image.segments[
                "vaddr"
            ].tolist()
            table = oracle.get_section_by_name(".dynsym")
            symbols = read_symbols(image, b".dynsym")
            if table is None:
                assert symbols is None
                continue
            expected = [(s["st_value"], s["st_size"], s.name) for s in table.iter_symbols()]
        strings = bytes(symbols.strings)
        names = [strings[n : strings.index(0, n)].decode() for n in symbols.name.tolist()]
        rows = zip(symbols.value.tolist(), symbols.size.tolist(), names, strict=True)
        assert list(rows) == expected
        checked += 1
    assert checked


def test_build_ids_are_what_readelf_prints():
    if not shutil.which("readelf"):
        pytest.skip("needs binutils")
    for path in mapped_images():
        build_id = ElfImage.parse(path.read_bytes()).build_id
        out = subprocess.run(["readelf", "-n", path], capture_output=True, text=True, check=True)
        ids = [line.split()[-1] for line in out.stdout.splitlines() if "Build ID" in line]
        assert ids == ([build_id.hex()] if build_id else [])


def test_every_function_that_nm_lists_is_named_at_its_address(program):
    image = ElfImage.parse(program.read_bytes())
    table = read_symbol_table(image)
    out = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    listed = [line.split() for line in out.splitlines() if len(line.split()) == 3]
    code = [(int(value, 16), name) for value, kind, name in listed if kind in "tTwWi"]
    # Weak labels of data are of kind W too, and what marks a section's end covers nothing.
    last = max(s["addr"] + s["size"] for s in image.sections if s["flags"] & SHF_EXECINSTR)
    functions = [(value, name) for value, name in code if value < last]
    assert len(functions) > 10
    rows = table.lookup(np.array([value for value, _ in functions], np.uint64)).tolist()
    for (value, name), row in zip(functions, rows, strict=True):
        assert int(table.start[row]) == value
        assert name.encode() in {table.name(row), *table.alias_names(row)}


def test_stubs_are_those_that_objdump_names(program):
    table = read_symbol_table(ElfImage.parse(program.read_bytes()))
    command = ["objdump", "-d", "-j", ".plt", "-j", ".plt.sec", "-j", ".plt.got", program]
    out = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    labels = [line.split() for line in out.splitlines() if line.endswith("@plt>:")]
    expected = {int(value, 16): label[1:-2].encode() for value, label in labels}
    stubs = np.flatnonzero(table.source == NameSource.PLT).tolist()
    ours = {int(table.start[row]): table.name(row) for row in stubs}
    plain = {value: name.split(b"@")[0] for value, name in expected.items()}
    assert {value: name.removesuffix(b"@plt") for value, name in ours.items()} == plain
    assert len(ours) >= 2


def test_a_stripped_program_and_its_debug_file_name_what_the_whole_one_named(program, tmp_path):
    stripped, debug = tmp_path / "stripped", tmp_path / "debug"
    subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
    subprocess.run(["strip", "-o", stripped, program], check=True)
    whole, image, debug_image = (
        ElfImage.parse(path.read_bytes()) for path in (program, stripped, debug)
    )
    expected, table = read_symbol_table(whole), read_symbol_table(image, debug_image)
    rows = range(len(expected))
    assert table.names(range(len(table))) == expected.names(rows)
    assert table.end.tolist() == expected.end.tolist()
    assert NameSource.DEBUG_FILE in table.source
    assert NameSource.DEBUG_FILE not in read_symbol_table(image).source


def test_the_c_librarys_code_is_named_without_a_gap():
    name = ctypes.util.find_library("c") or ""
    path = next((p for p in mapped_images() if p.name == name), None)
    if path is None:
        pytest.skip("no C library of that name mapped")
    image = ElfImage.parse(path.read_bytes())
    table = read_symbol_table(image)
    text = image.sections[image.find_section(b".text")]
    address = np.arange(int(text["addr"]), int(text["addr"] + text["size"]), 7, np.uint64)
    share = (table.lookup(address) >= 0).mean()
    assert share == 1 if NameSource.BRACKET in table.source else share > 0.9
