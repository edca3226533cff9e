"""Names from what runs: the kernel's own listing, the vdso, and map files of JITs."""

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from builders.waiting import wait_for
from prospect.profile.model import KIND_ANON, KIND_JIT, KIND_KERNEL, KIND_VDSO
from prospect.profile.naming import NameSource
from prospect.symbols.images.image_files import read_own_vdso
from prospect.symbols.images.image_symbols import read_symbol_table
from prospect.symbols.jit.map_files import parse_map_file
from prospect.symbols.naming_options import SymbolOptions
from prospect.symbols.objects import ObjectKey
from prospect.symbols.symbolizer import Symbolizer

pytestmark = [pytest.mark.live, pytest.mark.parallel]
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
HERE = SymbolOptions(kernel_release=os.uname().release, use_cache=False)
KERNEL = ObjectKey(b"[kernel.kallsyms]", kind=KIND_KERNEL)
ANONYMOUS = ObjectKey(b"//anon", kind=KIND_ANON)


def names(key: ObjectKey, addresses: list[int], *pids: int) -> list[str]:
    found = Symbolizer(HERE).resolve(key, pids, np.array(addresses, np.uint64)).named
    return [found.name[row] if row >= 0 else "" for row in found.function.tolist()]


@AS_ROOT
def test_every_tenth_symbol_of_the_running_kernel_has_one_of_its_names() -> None:
    known: dict[int, set[str]] = {}
    for line in Path("/proc/kallsyms").read_text().splitlines():
        address, kind, name, *module = line.split()
        # BPF programs come and go meanwhile.
        if kind in "tTwW" and module != ["[bpf]"]:
            known.setdefault(int(address, 16), set()).add(name)
    addresses = sorted(known)[::10]
    found = Symbolizer(HERE).resolve(KERNEL, (), np.array(addresses, np.uint64)).named
    raw = [found.linkage_name[row] for row in found.function]
    assert all(name in known[at] for name, at in zip(raw, addresses, strict=True))


@AS_ROOT
@pytest.mark.skipif(not shutil.which("perf"), reason="compares with perf")
def test_of_several_names_of_a_kernel_address_perf_shows_the_same(tmp_path: Path) -> None:
    data = tmp_path / "perf.data"
    load = ["dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=1000000"]
    record = ["perf", "record", "-q", "-a", "-F", "2000", "-e", "cpu-clock", "-o", data, "--"]
    subprocess.run([*record, *load], check=True, capture_output=True)
    script = ["perf", "script", "-i", data, "-F", "ip,sym,dso"]
    text = subprocess.run(script, check=True, capture_output=True, text=True).stdout
    lines = [line.split() for line in text.splitlines() if line.endswith("([kernel.kallsyms])")]
    assert len(lines) > 100
    theirs = {int(fields[0], 16): fields[1] for fields in lines}
    assert names(KERNEL, list(theirs)) == list(theirs.values())


def test_functions_of_the_vdso_are_named() -> None:
    image = read_own_vdso()
    assert image
    table = read_symbol_table(image)
    offsets = image.offset_of_svma(table.start).tolist()
    key = ObjectKey(b"[vdso]", image.build_id or b"", kind=KIND_VDSO)
    found = Symbolizer(HERE).resolve(key, (), np.array(offsets, np.uint64)).named
    assert any("clock_gettime" in name for name in found.name)
    assert set(found.source.tolist()) == {NameSource.VDSO}


@pytest.mark.skipif(not shutil.which("node"), reason="needs node")
def test_code_that_node_compiled_is_named_by_its_map_file(tmp_path: Path) -> None:
    script = "function hot(n){let s=0;for(let i=0;i<n;i++)s+=i%7;return s}for(;;)hot(1e6)"
    process = subprocess.Popen(["node", "--perf-basic-prof", "-e", script], cwd=tmp_path)
    path = Path(f"/tmp/perf-{process.pid}.map")
    try:
        wait_for(lambda: path.exists() and b"*hot" in path.read_bytes())
        table = parse_map_file(path.read_bytes())
        addresses = (table.start + np.uint64(1)).tolist()
        found = Symbolizer(HERE).resolve(
            ANONYMOUS, (process.pid,), np.array([*addresses, 16], np.uint64)
        )
    finally:
        process.kill()
        process.wait()
        path.unlink(missing_ok=True)
    assert found.kind == KIND_JIT
    assert any("*hot" in name for name in found.named.name)
    assert found.named.reason[-1] == NameSource.NO_ANONYMOUS
    assert (found.named.function[:-1] >= 0).all()


@AS_ROOT
def test_in_other_namespaces_the_map_file_is_sought_there_under_the_inner_pid() -> None:
    inner = "mount -t tmpfs none /tmp && echo 1000 10 inner > /tmp/perf-$$.map && echo && exec cat"
    outer = subprocess.Popen(
        ["unshare", "-m", "-p", "-f", "sh", "-c", inner],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        outer.stdout.readline()
        children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
        assert names(ANONYMOUS, [0x1008], int(children[0])) == ["inner"]
    finally:
        outer.stdin.close()
        outer.wait()
        outer.stdout.close()
