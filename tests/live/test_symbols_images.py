"""Names of real binaries: stripped, deleted, replaced, and in other namespaces."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from prospect.elf.image import ElfImage
from prospect.profile.naming import NameSource
from prospect.symbols.images.image_symbols import read_symbol_table
from prospect.symbols.naming_options import SymbolOptions
from prospect.symbols.objects import ObjectKey
from prospect.symbols.resolution import Resolution
from prospect.symbols.symbolizer import Symbolizer

pytestmark = [
    pytest.mark.live,
    pytest.mark.parallel,
    pytest.mark.skipif(not shutil.which("gcc"), reason="builds small C programs"),
]
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

LIBRARY = """
__attribute__((noinline)) int first(int x) { return x * 3; }
__attribute__((noinline)) static int hidden(int x) { asm volatile(""); return x * 7; }
__attribute__((noinline)) int last(int x) { return hidden(x) + 1; }
"""
PROGRAM = """
#include <unistd.h>
__attribute__((noinline)) void waiting(void) { pause(); }
int main(void) { write(1, "\\n", 1); for (;;) waiting(); }
"""


def build(path: Path, source: str, *flags: str) -> Path:
    options = ["-O1", "-g", "-fno-toplevel-reorder", "-Wl,--build-id", *flags]
    command = ["gcc", *options, "-o", path, "-x", "c", "-"]
    subprocess.run(command, input=source, text=True, check=True)
    return path


def parsed(path: Path) -> ElfImage:
    return ElfImage.parse(path.read_bytes())


def offset_of(path: Path, function: str) -> int:
    """Return the offset in a file of a byte within one of its functions."""
    image = parsed(path)
    table = read_symbol_table(image)
    row = table.names(range(len(table))).index(function.encode())
    return int(image.offset_of_svma(table.start[row : row + 1] + np.uint64(1))[0])


def resolve(key: ObjectKey, offset: int, *pids: int, recorded_until: float = 0.0) -> Resolution:
    options = SymbolOptions(use_cache=False, recorded_until=recorded_until)
    return Symbolizer(options).resolve(key, pids, np.array([offset], np.uint64))


def outcome(found: Resolution) -> tuple[str, NameSource]:
    row = int(found.named.function[0])
    return (found.named.name[row] if row >= 0 else ""), NameSource(int(found.named.reason[0]))


def key_of(path: Path) -> ObjectKey:
    return ObjectKey(os.fsencode(path), parsed(path).build_id or b"")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return build(tmp_path / "program", PROGRAM)


@pytest.fixture
def running(program: Path) -> Iterator[subprocess.Popen[bytes]]:
    with running_program([program]) as process:
        yield process


class running_program:  # noqa: N801 - used as a context manager
    """A child that has written a line, ended with the block."""

    def __init__(self, command: list[object]) -> None:
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE)

    def __enter__(self) -> subprocess.Popen[bytes]:
        self.process.stdout.readline()
        return self.process

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def test_a_stripped_twin_has_brackets_where_the_whole_one_has_local_names(tmp_path: Path) -> None:
    whole = build(tmp_path / "whole.so", LIBRARY, "-shared", "-fPIC")
    twin = tmp_path / "twin.so"
    subprocess.run(["strip", "-o", twin, whole], check=True)
    seen = {
        (path.name, name): outcome(resolve(key_of(path), offset_of(whole, name)))
        for path in (whole, twin)
        for name in ("first", "hidden", "last")
    }
    assert seen["whole.so", "first"] == ("first", NameSource.SYMTAB)
    assert seen["whole.so", "hidden"] == ("hidden", NameSource.SYMTAB)
    assert seen["twin.so", "first"] == ("first", NameSource.DYNSYM)
    assert seen["twin.so", "last"] == ("last", NameSource.DYNSYM)
    assert seen["twin.so", "hidden"] == ("first->last [fn 1 of 1]", NameSource.BOUNDS)


def test_a_debug_file_beside_a_stripped_library_names_all(tmp_path: Path) -> None:
    whole = build(tmp_path / "whole.so", LIBRARY, "-shared", "-fPIC")
    twin, debug = tmp_path / "twin.so", tmp_path / ".debug" / "twin.debug"
    debug.parent.mkdir()
    subprocess.run(["objcopy", "--only-keep-debug", whole, debug], check=True)
    subprocess.run(["strip", "-o", twin, whole], check=True)
    subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", twin], check=True)
    found = outcome(resolve(key_of(twin), offset_of(whole, "hidden")))
    assert found == ("hidden", NameSource.DEBUG_FILE)


@pytest.mark.skipif(not shutil.which("dwz"), reason="needs dwz")
def test_what_debug_files_share_by_dwz_holds_no_symbols_of_theirs(tmp_path: Path) -> None:
    wholes = [build(tmp_path / f"{n}.so", LIBRARY, "-shared", "-fPIC") for n in ("one", "two")]
    debugs, twins = [], []
    for whole in wholes:
        twins.append(tmp_path / f"twin-{whole.name}")
        debugs.append(tmp_path / ".debug" / f"{whole.stem}.debug")
        debugs[-1].parent.mkdir(exist_ok=True)
        subprocess.run(["objcopy", "--only-keep-debug", whole, debugs[-1]], check=True)
    shared = tmp_path / ".debug" / "shared.dwz"
    subprocess.run(["dwz", "-m", shared, *debugs], check=True, capture_output=True)
    assert parsed(debugs[0]).find_section(b".gnu_debugaltlink") >= 0
    assert parsed(shared).find_section(b".symtab") < 0
    for whole, debug, twin in zip(wholes, debugs, twins, strict=True):
        subprocess.run(["strip", "-o", twin, whole], check=True)
        subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", twin], check=True)
        found = outcome(resolve(key_of(twin), offset_of(whole, "hidden")))
        assert found == ("hidden", NameSource.DEBUG_FILE)


@pytest.mark.parametrize("identity", ["build id", "inode"])
def test_a_deleted_program_is_read_from_its_process(
    program: Path, running: subprocess.Popen[bytes], identity: str
) -> None:
    offset, key = offset_of(program, "waiting"), key_of(program)
    if identity == "inode":
        key = ObjectKey(key.path, inode=program.stat().st_ino)
    program.unlink()
    for path in (key.path, key.path + b" (deleted)"):
        found = resolve(key._replace(path=path), offset, running.pid)
        assert outcome(found) == ("waiting", NameSource.SYMTAB)
        assert outcome(resolve(key._replace(path=path), offset)) == ("", NameSource.NO_FILE)


@AS_ROOT
def test_a_deleted_library_is_read_from_a_process_that_maps_it(tmp_path: Path) -> None:
    library = build(tmp_path / "library.so", LIBRARY, "-shared", "-fPIC")
    offset, key = offset_of(library, "hidden"), key_of(library)
    program = build(tmp_path / "program", PROGRAM)
    with running_program(["env", f"LD_PRELOAD={library}", program]) as process:
        library.unlink()
        found = resolve(key, offset, process.pid)
        assert outcome(found) == ("hidden", NameSource.SYMTAB)
    assert outcome(resolve(key, offset, process.pid)) == ("", NameSource.NO_FILE)


def test_a_program_replaced_since_is_no_match(program: Path) -> None:
    offset, key = offset_of(program, "waiting"), key_of(program)
    build(program, PROGRAM.replace("waiting", "another"))
    assert outcome(resolve(key, offset)) == ("", NameSource.NO_MATCH)


def test_a_replaced_program_is_still_read_from_its_process(
    program: Path, running: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    offset, key = offset_of(program, "waiting"), key_of(program)
    build(tmp_path / "new", PROGRAM.replace("waiting", "another")).rename(program)
    assert outcome(resolve(key, offset, running.pid)) == ("waiting", NameSource.SYMTAB)


def test_a_program_overwritten_in_place_is_told_by_its_time(program: Path) -> None:
    offset = offset_of(program, "waiting")
    key = ObjectKey(os.fsencode(program), inode=program.stat().st_ino)
    recorded_until = time.time()
    changed = build(program.parent / "new", PROGRAM.replace("waiting", "another"))
    time.sleep(0.05)
    program.write_bytes(changed.read_bytes())
    assert program.stat().st_ino == key.inode
    found = resolve(key, offset, recorded_until=recorded_until)
    assert outcome(found) == ("", NameSource.NO_MATCH)


def test_a_process_that_started_after_the_recording_is_not_asked(
    program: Path, running: subprocess.Popen[bytes]
) -> None:
    offset, key = offset_of(program, "waiting"), key_of(program)
    program.unlink()
    found = resolve(key, offset, running.pid, recorded_until=time.time() - 100)
    assert outcome(found) == ("", NameSource.NO_FILE)


@pytest.mark.timeout(20)
def test_a_fifo_in_place_of_a_program_does_not_block(program: Path) -> None:
    offset, key = offset_of(program, "waiting"), key_of(program)
    program.unlink()
    os.mkfifo(program)
    assert outcome(resolve(key, offset)) == ("", NameSource.NO_ELF)


@AS_ROOT
def test_a_program_in_another_mount_namespace_is_found(program: Path, tmp_path: Path) -> None:
    offset, key = offset_of(program, "waiting"), key_of(program)
    inside = tmp_path / "inside"
    inside.mkdir()
    script = f"mount -t tmpfs none {inside} && cp {program} {inside}/p && exec {inside}/p"
    key = key._replace(path=os.fsencode(inside / "p"))
    with running_program(["unshare", "-m", "sh", "-c", script]) as process:
        assert not (inside / "p").exists()
        assert outcome(resolve(key, offset, process.pid)) == ("waiting", NameSource.SYMTAB)
        assert outcome(resolve(key, offset)) == ("", NameSource.NO_FILE)


@AS_ROOT
def test_in_another_root_the_same_path_is_another_program(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    program = build(root / "waiter", PROGRAM, "-static")
    offset = offset_of(program, "waiting")
    key = ObjectKey(b"/waiter", inode=program.stat().st_ino)
    with running_program(["chroot", root, "/waiter"]) as process:
        assert outcome(resolve(key, offset, process.pid)) == ("waiting", NameSource.SYMTAB)
