"""What a stripped twin says of its code, against the symbols of the whole image.

Images are built here, and numpy's own, which wheels bring unstripped. Of every address that the
whole image names, the twin must know the function's bounds, or at least the bracket that it is in.
"""

import platform
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from prospect.elf.image import ElfImage
from prospect.profile.naming import NameSource
from prospect.symbols.images.image_symbols import find_function_bounds, read_symbol_table

LEAST_AGREEMENT = 0.99
SAMPLES = 20000
MOST_BETWEEN = 500
EXACT = [
    *(NameSource.DYNSYM, NameSource.PLT, NameSource.BOUNDS, NameSource.NO_NAME_BOUNDS),
    NameSource.ENTRY_POINT,
]

C_SOURCE = (
    "\n".join(
        f"""
__attribute__((noinline)) static int hidden{n}(int x)
{{ for (int i = 0; i < x; i++) {{ x ^= i * {n + 3}; {"x = x * 5 ^ i; " * (n % 40)} }}
  asm volatile("" : "+r"(x)); return x; }}
__attribute__((noinline, cold)) static int rare{n}(int x) {{ asm volatile(""); return x + {n}; }}
int exported{n}(int x) {{ return x > 9 ? rare{n}(hidden{n}(x)) : hidden{n}(x + {n}); }}
"""
        for n in range(150)
    )
    + "int main(int argc, char **argv) { (void)argv; return exported0(argc) + exported7(argc); }\n"
)

CXX_SOURCE = r"""
#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>
namespace {
template <int N> __attribute__((noinline)) int step(std::vector<int> &v) {
  for (int i = 0; i < N; i++) v.push_back(i * N);
  if (v.size() > 1000) throw std::runtime_error("many");
  return v.back();
}
template <int N> int run(std::map<std::string, int> &m) {
  std::vector<int> v;
  try { m["a"] += step<N>(v); } catch (const std::exception &e) { std::puts(e.what()); }
  if constexpr (N > 1) return run<N - 1>(m);
  return m.size();
}
struct Base { virtual ~Base() = default; virtual int f(int) = 0; };
template <int N> struct Leaf : Base {
  std::string s = "leaf";
  int f(int x) override { return x * N; }
};
}
int visible(int n) {
  std::map<std::string, int> m;
  Leaf<3> a; Leaf<5> b; Base *both[] = {&a, &b};
  return run<90>(m) + both[n & 1]->f(n);
}
int main(int argc, char **) { return visible(argc); }
"""

BUILDS = {
    "C library": (C_SOURCE, ["gcc", "-x", "c", "-O2", "-shared", "-fPIC"]),
    "C program": (C_SOURCE, ["gcc", "-x", "c", "-O2"]),
    "C program without relocation": (C_SOURCE, ["gcc", "-x", "c", "-O1", "-no-pie"]),
    "C++ program": (CXX_SOURCE, ["g++", "-x", "c++", "-O2"]),
    "C++ library": (CXX_SOURCE, ["g++", "-x", "c++", "-O1", "-shared", "-fPIC"]),
    "static C program": (C_SOURCE, ["gcc", "-x", "c", "-O2", "-static"]),
}


def build(directory: Path, case: str) -> Path:
    source, command = BUILDS[case]
    if not shutil.which(command[0]) or not shutil.which("strip"):
        pytest.skip(f"needs {command[0]} and binutils")
    path = directory / "whole"
    subprocess.run([*command, "-o", path, "-"], input=source, text=True, check=True)
    return path


def both(path: Path, twin: Path):
    subprocess.run(["strip", "-o", twin, path], check=True)
    return ElfImage.parse(path.read_bytes()), ElfImage.parse(twin.read_bytes())


def agreement(path: Path, directory: Path):
    """Return the share of addresses that agree, and how many there are of each source."""
    whole, twin = both(path, directory / "twin")
    truth, table = read_symbol_table(whole), read_symbol_table(twin)
    text = whole.sections[whole.find_section(b".text")]
    first, last = int(text["addr"]), int(text["addr"] + text["size"])
    address = np.random.default_rng(5).integers(first, last, SAMPLES, np.uint64)
    true = truth.lookup(address)
    named = true >= 0
    address, true = address[named], true[named]
    total = len(address)
    row = table.lookup(address)
    true, row = true[row >= 0], row[row >= 0]
    source = table.source.take(row)
    start, end = truth.start.take(true), truth.end.take(true)
    same = (table.start.take(row) == start) & (table.end.take(row) == end)
    # A bracket says: in a function that begins with or after the first name, before the second.
    names = table.start[np.isin(table.source, [NameSource.DYNSYM])]
    before = np.append(0, names).take(np.searchsorted(names, table.start.take(row), side="right"))
    after = np.append(names, last).take(np.searchsorted(names, table.end.take(row)))
    inside = (start >= before) & (start < after)
    agrees = np.where(np.isin(source, EXACT), same, inside)
    counts = Counter(NameSource(int(one)) for one in source)
    return agrees.sum() / total, counts


def most_in_a_bracket(twin: ElfImage):
    """Return how many functions lie between the two names of a bracket, at most."""
    table = read_symbol_table(twin)
    names = table.start[table.source == NameSource.DYNSYM]
    functions = find_function_bounds(twin).start
    brackets = table.start[table.source == NameSource.BRACKET]
    after = np.searchsorted(names, brackets, side="right")
    limits = np.concatenate(([0], names, [2**63])).astype(np.uint64)
    between = np.searchsorted(functions, limits.take(after + 1)) - np.searchsorted(
        functions, limits.take(after), side="right"
    )
    return int(between.max(initial=0))


@pytest.mark.parametrize("case", BUILDS)
def test_bounds_are_those_of_the_true_symbols(case, tmp_path):
    share, counts = agreement(build(tmp_path, case), tmp_path)
    assert share >= LEAST_AGREEMENT
    assert counts[NameSource.BOUNDS] + counts[NameSource.NO_NAME_BOUNDS] > SAMPLES / 10


@pytest.mark.skipif(platform.machine() != "x86_64", reason="elsewhere nothing is looked for")
@pytest.mark.parametrize("case", BUILDS)
def test_main_is_the_only_function_that_the_entry_point_names(case, tmp_path):
    whole, twin = both(build(tmp_path, case), tmp_path / "twin")
    truth, table = read_symbol_table(whole), read_symbol_table(twin)
    rows = np.flatnonzero(table.source == NameSource.ENTRY_POINT).tolist()
    if case.endswith("library"):
        assert not rows
        return
    assert table.names(rows) == [b"main"]
    mains = [row for row, name in enumerate(truth.names(range(len(truth)))) if name == b"main"]
    assert table.start[rows].tolist() == truth.start[mains].tolist()


def test_bounds_in_a_library_of_others_are_those_of_its_true_symbols(tmp_path):
    found = sorted(Path(np.__file__).parent.glob("_core/_multiarray_umath*.so"))
    if not found or not shutil.which("strip"):
        pytest.skip("needs numpy from a wheel, and binutils")
    if ElfImage.parse(found[0].read_bytes()).find_section(b".symtab") < 0:
        pytest.skip("numpy is stripped")
    share, counts = agreement(found[0], tmp_path)
    assert share >= LEAST_AGREEMENT
    # It exports little: two names around most of its functions would not say where to look.
    assert counts[NameSource.NO_NAME_BOUNDS] > SAMPLES / 2
    _, twin = both(found[0], tmp_path / "twin")
    assert most_in_a_bracket(twin) <= MOST_BETWEEN


def test_two_names_around_too_many_functions_are_no_bracket(tmp_path):
    source = "int first(void) { return 1; }\n"
    source += "".join(f"static int f{n}(int x) {{ return x * {n}; }}\n" for n in range(700))
    source += "int (*const all[])(int) = {" + ", ".join(f"f{n}" for n in range(700)) + "};\n"
    source += "int last(void) { return 2; }\n"
    if not shutil.which("gcc") or not shutil.which("strip"):
        pytest.skip("needs gcc and binutils")
    path = tmp_path / "whole"
    command = ["gcc", "-x", "c", "-O1", "-fno-toplevel-reorder", "-shared", "-fPIC", "-o", path]
    subprocess.run([*command, "-"], input=source, text=True, check=True)
    _, twin = both(path, tmp_path / "twin")
    table = read_symbol_table(twin)
    assert np.count_nonzero(table.source == NameSource.NO_NAME_BOUNDS) >= 700
    assert most_in_a_bracket(twin) <= MOST_BETWEEN


def test_functions_between_two_exported_ones_are_counted(tmp_path):
    whole, twin = both(build(tmp_path, "C library"), tmp_path / "twin")
    truth, table = read_symbol_table(whole), read_symbol_table(twin)
    names = [name.decode() for name in truth.names(range(len(truth)))]
    start_of = dict(zip(names, truth.start.tolist(), strict=True))
    # What the C runtime adds was compiled without entries.
    ours = np.array([start_of[name] for name in names if name.startswith(("hidden", "rare"))])
    rows = np.flatnonzero(table.source == NameSource.BOUNDS).tolist()
    counted = 0
    for row, name in zip(rows, table.names(rows), strict=True):
        bracket, _, position = name.decode().partition(" [fn ")
        before, after = (start_of.get(end) for end in bracket.split("->"))
        if before is None or after is None:
            continue
        between = ours[(ours > before) & (ours < after)]
        number = int(np.searchsorted(between, table.start[row])) + 1
        assert position == f"{number} of {len(between)}]"
        counted += 1
    assert counted > 10
