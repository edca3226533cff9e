"""All mangled names of real images, against c++filt of binutils."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from prospect.elf.image import ElfImage
from prospect.elf.symbols import read_symbols
from prospect.symbols.demangling.cxx_names import available
from prospect.symbols.demangling.demangle import demangle

RUST_SOURCE = """
use std::collections::HashMap;
use std::fmt::Display;
struct Größe<const N: usize>([u8; N]);
trait Visitor<'a> { fn visit(&self, text: &'a str) -> Option<&'a dyn Display>; }
impl<'a, const N: usize> Visitor<'a> for Größe<N> {
    #[inline(never)]
    fn visit(&self, text: &'a str) -> Option<&'a dyn Display> {
        let each = |c: char| c.is_alphabetic() && N > self.0.len();
        if text.chars().any(each) { None } else { Some(&'x') }
    }
}
#[inline(never)]
fn call<T>(f: for<'b> fn(&'b T) -> *const T, t: (T,)) -> *const T { f(&t.0) }
fn main() {
    let mut map: HashMap<String, Vec<Box<dyn Fn(i32) -> i32 + Send>>> = HashMap::new();
    map.entry("a".into()).or_default().push(Box::new(|x| x + 1));
    for (k, v) in &map { println!("{} {}", k, v[0](1)); }
    println!("{:?} {}", call(|t| t as *const _, (5u8,)), Größe([0; 3]).visit("b").is_some());
}
"""


def mangled_names(path, section, prefix):
    symbols = read_symbols(ElfImage.parse(path.read_bytes()), section)
    strings = bytes(symbols.strings)
    names = {strings[start : strings.index(0, start)] for start in symbols.name.tolist()}
    return sorted(name for name in names if name.startswith(prefix))


def filtered(names):
    program = shutil.which("c++filt")
    if not program:
        pytest.skip("needs binutils")
    # Without hashes, as ours; c++filt drops some suffixes of LLVM, which is no matter here.
    command = [program, "--no-verbose"]
    out = subprocess.run(command, input=b"\n".join(names), capture_output=True, check=True)
    return out.stdout.decode().split("\n")[: len(names)]


@pytest.mark.skipif(not available(), reason="needs libstdc++")
def test_names_of_the_cxx_runtime_are_those_of_cxxfilt():
    maps = Path("/proc/self/maps").read_text().splitlines()
    path = next(Path(line.split()[-1]) for line in maps if "libstdc++" in line)
    names = mangled_names(path, b".dynsym", b"_Z")
    assert len(names) > 1000
    assert demangle(names) == filtered(names)


@pytest.fixture(scope="module", params=["v0", "legacy"])
def rust_names(request, tmp_path_factory):
    compiler = shutil.which("rustc")
    if not compiler:
        pytest.skip("needs rustc")
    source = tmp_path_factory.mktemp(request.param) / "main.rs"
    # c++filt does not unescape what is not ASCII in the legacy scheme.
    is_legacy = request.param == "legacy"
    source.write_text(RUST_SOURCE.replace("Größe", "Size") if is_legacy else RUST_SOURCE)
    program = source.with_suffix("")
    scheme = ["-Zunstable-options"] if is_legacy else []
    command = [compiler, *scheme, f"-Csymbol-mangling-version={request.param}", "-o", program]
    environment = {"RUSTC_BOOTSTRAP": "1", "PATH": "/usr/bin:/bin", "HOME": str(Path.home())}
    subprocess.run([*command, source], check=True, env=environment)
    prefix = b"_R" if request.param == "v0" else b"_ZN"
    names = {re.sub(rb"\.[a-z0-9.]+$", b"", n) for n in mangled_names(program, b".symtab", prefix)}
    return sorted(names)


def test_names_of_a_rust_program_are_those_of_cxxfilt(rust_names):
    assert len(rust_names) > 50
    assert demangle(rust_names) == filtered(rust_names)
