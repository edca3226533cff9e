"""Names of inlined functions of internal linkage: qualified where one fits."""

import os
import shutil
import subprocess

import numpy as np
import pytest

from builders.dwarf_package import package
from prospect.elf.image import ElfImage
from prospect.lines.finder import LineFinder
from prospect.lines.scoped_names import ScopedNames, SearchBudget
from prospect.symbols.images.image_files import open_image
from prospect.symbols.images.image_symbols import read_symbol_table
from prospect.symbols.table_cache import SymbolCache

pytest.importorskip("symbolic")
pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="builds small C++ programs")

SOURCE = """
static volatile unsigned long sink;
#define INLINE inline __attribute__((always_inline))
#define SPIN(step) for (unsigned long i = 0; i < n; i++) sink = sink step
namespace {
INLINE void anon_spin(unsigned long n) { SPIN(+ i); }
INLINE void twice(unsigned long n) { SPIN(^ i); }
INLINE void hop(unsigned long n) { SPIN(* 9 + i); }
struct Worker { INLINE void turn(unsigned long n) { SPIN(* 3 + i); } };
template <typename T> INLINE void typed(T n) { SPIN(* 5 + i); }
struct Caller { INLINE void operator()(unsigned long n) { SPIN(* 8 + i); } };
}
namespace outer { namespace inner {
static INLINE void stat_spin(unsigned long n) { SPIN(- i); }
static INLINE void twice(unsigned long n) { SPIN(| i); }
static INLINE void ab(unsigned long n) { SPIN(- 3 * i); }
INLINE void linked(unsigned long n) { SPIN(+ 7 * i); }
namespace { INLINE void deep(unsigned long n) { SPIN(+ 17 * i); } }
}}
static INLINE void plain(unsigned long n) { SPIN(+ 9 * i); }
extern "C" void in_c(unsigned long n);
extern "C" __attribute__((noinline)) void work(unsigned long n) {
    auto lambda = [](unsigned long n) __attribute__((always_inline)) { SPIN(+ 11 * i); };
    struct Local { INLINE void local(unsigned long n) { SPIN(+ 13 * i); } };
    anon_spin(n), twice(n), hop(n), Worker().turn(n), typed(n), Caller()(n), lambda(n);
    outer::inner::stat_spin(n), outer::inner::twice(n), outer::inner::ab(n);
    outer::inner::linked(n), outer::inner::deep(n), plain(n), Local().local(n);
}
int main(int n, char **) { work(n); in_c(n); }
"""
C_SOURCE = """
static volatile unsigned long sink;
static inline void anon_spin(unsigned long n) { for (unsigned long i = 0; i < n; i++) sink += i; }
__attribute__((noinline)) void in_c(unsigned long n) { anon_spin(n); }
"""
# `twice` is of two namespaces; `operator()` of a class and of a lambda, which is in a function.
EXPECTED = {
    *("(anonymous namespace)::anon_spin", "(anonymous namespace)::hop"),
    *("(anonymous namespace)::Worker::turn", "outer::inner::stat_spin"),
    "(anonymous namespace)::typed<long unsigned int>",
    *("outer::inner::ab", "outer::inner::(anonymous namespace)::deep", "_ZN5outer5inner6linkedEm"),
    *("twice", "plain", "local", "operator()", "work"),
}


def build(directory, *flags, compilers=("g++", "gcc")):
    (directory / "main.cc").write_text(SOURCE)
    (directory / "c.c").write_text(C_SOURCE)
    for compiler, source in zip(compilers, ("main.cc", "c.c"), strict=True):
        command = [compiler, "-g", "-O2", *flags, "-c", source]
        subprocess.run(command, check=True, cwd=directory)
    command = [compilers[0], *flags, "-o", "program", "main.o", "c.o"]
    subprocess.run(command, check=True, cwd=directory)
    return open_image(os.fsencode(directory / "program"))


def names_in(found, function, finder=None):
    table = read_symbol_table(found.image)
    row = table.names(range(len(table))).index(function)
    address = np.arange(table.start[row], table.end[row], dtype=np.uint64)
    frames, note = (finder or LineFinder(None)).frames(found, lambda: None, address)
    assert note == ""
    return {name.decode() for name in frames.names}


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return build(tmp_path_factory.mktemp("scoped"))


@pytest.mark.parametrize(
    "flags",
    [
        *[(f"-gdwarf-{version}",) for version in (2, 3, 4, 5)],
        *[(f"-gdwarf-{version}", "-gsplit-dwarf") for version in (4, 5)],
        ("-gz",),
    ],
    ids=str,
)
def test_inlined_functions_without_a_linkage_name_have_their_namespaces(tmp_path, flags):
    found = build(tmp_path, *flags)
    assert names_in(found, b"work") == EXPECTED
    assert names_in(found, b"in_c") == {"in_c", "anon_spin"}


@pytest.mark.parametrize("version", [4, 5])
def test_those_of_split_units_in_a_package_have_them_too(tmp_path, version):
    found = build(tmp_path, f"-gdwarf-{version}", "-gsplit-dwarf")
    objects = [tmp_path / "main.dwo", tmp_path / "c.dwo"]
    if version == 5:  # llvm-dwp 14 does not come to an end with those of g++
        (tmp_path / "program.dwp").write_bytes(package(objects))
    elif shutil.which("llvm-dwp"):
        command = ["llvm-dwp", *objects, "-o", tmp_path / "program.dwp"]
        subprocess.run(command, check=True, timeout=20)
    else:
        pytest.skip("needs llvm-dwp")
    for path in objects:
        path.unlink()
    assert names_in(found, b"work") == EXPECTED
    assert names_in(found, b"in_c") == {"in_c", "anon_spin"}


def test_names_of_split_units_are_found_when_their_lines_are_kept_on_disk(tmp_path):
    found = build(tmp_path, "-gsplit-dwarf", "-Wl,--build-id")
    cache = SymbolCache(tmp_path / "cache")
    for _ in range(2):
        assert names_in(found, b"work", LineFinder(cache)) == EXPECTED


@pytest.mark.skipif(not shutil.which("clang++"), reason="needs clang")
@pytest.mark.parametrize("flags", [(), ("-gsplit-dwarf",), ("-gdwarf-4",), ("-gdwarf-3",)], ids=str)
def test_clang_gives_them_linkage_names(tmp_path, flags):
    found = build(tmp_path, *flags, compilers=("clang++", "clang"))
    names = names_in(found, b"work")
    assert "_ZN12_GLOBAL__N_19anon_spinEm" in names
    assert names.isdisjoint({"anon_spin", "stat_spin", "ab", "deep"})


def test_a_c_function_keeps_the_name_that_a_c_plus_plus_function_has_too(program):
    finder = LineFinder(None)
    assert "(anonymous namespace)::anon_spin" in names_in(program, b"work", finder)
    assert names_in(program, b"in_c", finder) == {"in_c", "anon_spin"}


@pytest.mark.parametrize("budget", [SearchBudget(entries=100), SearchBudget(section_bytes=100)])
def test_beyond_the_budget_names_stay_as_they_are(program, budget):
    assert ScopedNames(program.image, budget).qualified({b"anon_spin"}) == {}
    assert ScopedNames(program.image, SearchBudget()).qualified({b"anon_spin"}) == {
        b"anon_spin": b"(anonymous namespace)::anon_spin"
    }


def test_a_name_is_searched_once_and_the_budget_is_of_all_images(program):
    budget = SearchBudget()
    names = ScopedNames(program.image, budget)
    assert names.qualified({b"anon_spin", b"nowhere"})
    left = budget.entries, budget.section_bytes
    assert left < (SearchBudget().entries, SearchBudget().section_bytes)
    assert names.qualified({b"anon_spin", b"nowhere"})
    assert (budget.entries, budget.section_bytes) == left
    assert ScopedNames(program.image, budget).qualified({b"ab"})
    assert budget.section_bytes < left[1]


def test_damaged_dwarf_gives_names_or_none_but_no_error(program):
    content = bytearray(program.image.data)
    image = program.image
    places = []
    for name in (b".debug_info", b".debug_abbrev", b".debug_str"):
        section = image.sections[image.find_section(name)]
        places.append((int(section["offset"]), int(section["size"])))
    random = np.random.default_rng(5)
    given = 0
    for _ in range(300):
        damaged = content.copy()
        for _ in range(random.integers(1, 8)):
            start, size = places[random.integers(len(places))]
            damaged[start + int(random.integers(size))] = random.choice([0, 1, 0x7F, 0x80, 0xFF])
        names = ScopedNames(ElfImage.parse(damaged), SearchBudget(entries=50_000))
        found = names.qualified({b"anon_spin", b"stat_spin", b"ab"})
        assert all(isinstance(name, bytes) for name in found.values())
        given += bool(found)
    assert given
