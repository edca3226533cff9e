"""Split debug information of g++, in .dwo files and packages, beside llvm-symbolizer's answers."""

import functools
import itertools
import os
import shutil
import subprocess

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

from builders.dwarf_package import package
from builders.llvm_frames import llvm_frames
from prospect.files.budget import of_others
from prospect.lines import debug_info, split_lines
from prospect.lines.debug_info import unpacked_bytes
from prospect.lines.finder import LineFinder
from prospect.symbols.images.image_files import open_image
from prospect.symbols.table_cache import SymbolCache

pytest.importorskip("symbolic")
pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="builds small C++ programs")

MAIN = """
#include <algorithm>
#include <map>
#include <string>
#include <vector>
struct Work {
    std::vector<int> numbers;
    std::map<std::string, int> counts;
    int run(int n) {
        for (int i = 0; i < n; i++) {
            numbers.push_back(i * i);
            counts["k" + std::to_string(i % 17)] += i;
        }
        std::sort(numbers.begin(), numbers.end(), [](int a, int b) { return a % 7 > b % 7; });
        int sum = 0;
        for (auto &[name, count] : counts) sum += count + name.size();
        return sum + numbers[n / 2];
    }
};
int other(int);
int main(int n, char **) { return Work().run(1000 * n) + other(n); }
"""
OTHER = """
#include <vector>
static inline int mix(int x) { return x * 31 ^ x >> 7; }
int other(int n) {
    std::vector<int> v(n * 10);
    int s = 0;
    for (auto &x : v) s += mix(x + s);
    return s;
}
"""


def build(directory, version, *flags, compiler="g++"):
    """Build `program` of two split units."""
    for name, source in (("main", MAIN), ("other", OTHER)):
        (directory / f"{name}.cc").write_text(source)
        options = ["-g", f"-gdwarf-{version}", "-gsplit-dwarf", "-O2", *flags]
        command = [compiler, *options, "-c", f"{name}.cc", "-o", f"{name}.o"]
        subprocess.run(command, check=True, cwd=directory)
    command = [compiler, "-Wl,--build-id", "-o", "program", "main.o", "other.o"]
    subprocess.run(command, check=True, cwd=directory)
    return directory / "program"


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    return build(tmp_path_factory.mktemp("packed"), 5, "-gz")


@pytest.fixture(scope="module", params=[4, 5])
def program(request, tmp_path_factory):
    return build(tmp_path_factory.mktemp(f"split{request.param}"), request.param)


def has_no_functions(found):
    """Whether the frames have lines from the line table alone, which stays in the image."""
    known = [frames for frames in found if frames]
    assert len(known) > 0.97 * len(found)
    return all(len(frames) == 1 and not frames[0][0] for frames in known)


@functools.cache
def table_addresses(path):
    """Return all addresses of the line tables, by pyelftools."""
    with path.open("rb") as file:
        dwarf = ELFFile(file).get_dwarf_info()
        found = set()
        for unit in dwarf.iter_CUs():
            entries = dwarf.line_program_for_CU(unit).get_entries()
            states = [entry.state for entry in entries if entry.state is not None]
            found |= {state.address for state in states if not state.end_sequence}
    return sorted(address for address in found if address > 0x1000)


def frames_of(path, addresses, cache=None):
    found = open_image(os.fsencode(path))
    finder = LineFinder(cache)
    frames, note = finder.frames(found, lambda: None, np.array(addresses, np.uint64))
    rows = [
        (
            frames.names[name].decode() if name >= 0 else "",
            frames.files[file] if file >= 0 else "",
            line,
        )
        for name, file, line in zip(
            frames.name_index.tolist(),
            frames.file_index.tolist(),
            frames.line.tolist(),
            strict=True,
        )
    ]
    pieces = (rows[a:b] for a, b in itertools.pairwise(frames.start.tolist()))
    # As in the oracle's answers.
    return [piece if any(line for *_, line in piece) else [] for piece in pieces], note


NEEDS_LLVM = pytest.mark.skipif(not shutil.which("llvm-symbolizer"), reason="needs llvm")


@NEEDS_LLVM
def test_every_address_of_the_line_tables_agrees_with_llvm_symbolizer(program):
    assert_agrees_with_llvm_symbolizer(program)


# Skeletons have inlined functions without namespaces; the .o files serve as .dwo files; functions
# without inlined ones are not described.
@NEEDS_LLVM
@pytest.mark.skipif(not shutil.which("clang++"), reason="needs clang++")
@pytest.mark.parametrize("flag", ["-fsplit-dwarf-inlining", "-gsplit-dwarf=single", "-g1"])
def test_what_clang_writes_agrees_too(tmp_path, flag):
    assert_agrees_with_llvm_symbolizer(build(tmp_path, 5, flag, "-std=c++17", compiler="clang++"))


def assert_agrees_with_llvm_symbolizer(program):
    addresses = table_addresses(program)
    assert len(addresses) > 400
    mine, note = frames_of(program, addresses)
    other = llvm_frames(program, addresses)
    assert note == ""
    assert sum(len(frames) > 1 for frames in other) > 200
    # The outermost function has the symbol's name in one and DWARF's in the other.
    different = [
        (hex(address), a, b)
        for address, a, b in zip(addresses, mine, other, strict=True)
        if [one[1:] for one in a] != [one[1:] for one in b]
        or [one[0] for one in a[1:]] != [one[0] for one in b[1:]]
    ]
    # LLVM 14 leaves some inlined functions out; LLVM 22 agrees everywhere.
    assert len(different) <= 0.02 * len(addresses), different[:5]
    assert all(not b or (len(b) == 1 and a[-1][1:] == b[0][1:]) for _, a, b in different)


# With -fdebug-types-section, a .dwo file has many sections .debug_info.dwo.
@pytest.mark.parametrize("is_packed", [True, False])
def test_debug_information_in_other_sections_is_read_too(tmp_path, packed, is_packed):
    program = packed if is_packed else build(tmp_path, 5, "-fdebug-types-section")
    found, note = frames_of(program, table_addresses(program))
    assert note == ""
    assert sum(map(bool, found)) > 0.97 * len(found)  # padding between functions has none


NO_MEMORY = "compressed files take all the memory that they may; PROSPECT_MEMORY=4G allows more"


def test_a_packed_section_that_there_is_no_memory_for_is_said_to_be_that(packed, monkeypatch):
    program = packed
    addresses = table_addresses(program)
    before = of_others.bytes
    sizes = [unpacked_bytes(open_image(bytes(path)).image) for path in program.parent.glob("*.dwo")]
    monkeypatch.setenv("PROSPECT_MEMORY", str(before + min(sizes)))
    found, note = frames_of(program, addresses)
    assert any(found)
    assert "was not read: main.dwo; " in note
    assert NO_MEMORY in note
    assert "keep these files" not in note
    monkeypatch.setenv("PROSPECT_MEMORY", str(before + 2 * sum(sizes)))
    found, note = frames_of(program, addresses)
    assert sum(map(bool, found)) > 0.97 * len(found)
    assert note == ""
    assert of_others.bytes == before
    # What the image itself has packed leaves half of the memory to the files of its units.
    monkeypatch.setattr(debug_info, "unpacked_bytes", lambda _: sum(sizes) + 1)
    found, note = frames_of(program, addresses)
    assert has_no_functions(found)
    assert NO_MEMORY in note


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of others")
def test_a_file_of_another_user_that_there_is_no_memory_for_is_said_to_be_that(
    program, hidden, tmp_path, monkeypatch
):
    image = copied(program, tmp_path)
    for path in hidden.iterdir():
        shutil.copy2(path, tmp_path)
        os.chown(tmp_path / path.name, 4242, 4242)
    monkeypatch.setenv("PROSPECT_MEMORY", str(of_others.bytes + 100))
    found, note = frames_of(image, table_addresses(program))
    assert has_no_functions(found)
    assert "was not read: main.dwo, other.dwo; " in note
    assert NO_MEMORY in note
    monkeypatch.delenv("PROSPECT_MEMORY")
    monkeypatch.setattr(debug_info, "ALL_READING_S", 0.0)
    found, note = frames_of(image, table_addresses(program))
    assert has_no_functions(found)
    assert "takes more time or memory than files of other users may" in note


def copied(program, directory, *names):
    for name in ("program", *names):
        shutil.copy2(program.parent / name, directory / name)
    return directory / "program"


@pytest.fixture
def hidden(program):
    """Take the .dwo files away from where they were compiled."""
    away = program.parent / "away"
    away.mkdir()
    for path in list(program.parent.glob("*.dwo")):
        path.rename(away / path.name)
    yield away
    for path in list(away.iterdir()):
        path.rename(program.parent / path.name)
    away.rmdir()


def test_files_beside_the_image_serve_and_missing_ones_are_named(program, hidden, tmp_path):
    image = copied(program, tmp_path)
    addresses = table_addresses(program)
    found, note = frames_of(image, addresses)
    assert has_no_functions(found)
    assert "main.dwo, other.dwo; keep these files" in note
    shutil.copy2(hidden / "other.dwo", tmp_path)
    found, note = frames_of(image, addresses)
    named = {name for frames in found for name, _, _ in frames}
    assert "_Z5otheri" in named
    assert "main" not in named
    assert "not found or could not be read: main.dwo;" in note


def test_a_file_of_another_unit_is_not_believed(program, hidden, tmp_path):
    image = copied(program, tmp_path)
    shutil.copy2(hidden / "main.dwo", tmp_path / "other.dwo")
    shutil.copy2(hidden / "other.dwo", tmp_path / "main.dwo")
    found, note = frames_of(image, table_addresses(program))
    assert has_no_functions(found)
    assert "main.dwo" in note


def test_a_package_serves_for_all_its_units(program, hidden, tmp_path):
    image = copied(program, tmp_path)
    objects = [hidden / "main.dwo", hidden / "other.dwo"]
    is_4 = (
        b"GNU_dwo"
        in subprocess.run(
            ["readelf", "--debug-dump=info", program], capture_output=True, check=True
        ).stdout
    )
    if is_4:
        if not shutil.which("llvm-dwp"):
            pytest.skip("needs llvm-dwp")
        command = ["llvm-dwp", *objects, "-o", tmp_path / "program.dwp"]
        subprocess.run(command, check=True, timeout=20)
    else:
        (tmp_path / "program.dwp").write_bytes(package(objects))
    addresses = table_addresses(program)
    found, note = frames_of(image, addresses)
    assert note == ""
    assert sum(map(bool, found)) > 0.97 * len(found)  # padding between functions has none
    for path in objects:
        shutil.copy2(path, tmp_path)
    (tmp_path / "program.dwp").unlink()
    assert frames_of(image, addresses) == (found, "")


def test_each_unit_is_read_once_and_then_kept_on_disk(program, tmp_path, monkeypatch):
    addresses = table_addresses(program)
    cache = SymbolCache(tmp_path / "cache")
    expected = frames_of(program, addresses, cache)
    monkeypatch.setattr(split_lines, "convert", lambda _: pytest.fail("read again"))
    assert frames_of(program, addresses, cache) == expected


@pytest.mark.parametrize("seed", range(4))
def test_damage_gives_other_frames_or_none_and_no_error(program, tmp_path, seed):
    random = np.random.default_rng(seed)
    addresses = table_addresses(program)[::7]
    names = ("main.dwo", "other.dwo", "program")
    whole = {name: (program.parent / name).read_bytes() for name in names}
    with program.open("rb") as file:
        kept = [
            (section["sh_offset"], section["sh_size"])
            for section in ELFFile(file).iter_sections()
            if section.name in {".debug_info", ".debug_abbrev", ".debug_addr", ".debug_rnglists"}
        ]
    for _ in range(12):
        for name, content in whole.items():
            damaged = bytearray(content)
            for _ in range(int(random.integers(1, 12))):
                at = int(random.integers(64, len(damaged)))
                if name == "program":
                    offset, size = kept[random.integers(len(kept))]
                    at = offset + int(random.integers(size))
                damaged[at] = int(random.integers(256))
            end = len(damaged) if random.random() < 0.8 else int(random.integers(len(damaged)))
            (tmp_path / name).write_bytes(damaged if name == "program" else damaged[:end])
        found, _ = frames_of(tmp_path / "program", addresses)
        assert len(found) == len(addresses)
