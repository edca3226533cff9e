"""Frame entries of real images of this machine, against readelf."""

import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest

from prospect.elf.frame_entries import read_frames, walk_entries
from prospect.elf.image import ElfImage

FDE = re.compile(r"^[0-9a-f]+ [0-9a-f]+ [0-9a-f]+ FDE cie=\w+ pc=(\w+)\.\.(\w+)", re.MULTILINE)
CIE = re.compile(
    r"^(?P<at>[0-9a-f]+) [0-9a-f]+ [0-9a-f]+ CIE\n"
    r"  Version: +\d\n"
    r'  Augmentation: +"(?P<letters>\w*)"\n'
    r"  Code alignment factor: (?P<code>\d+)\n"
    r"  Data alignment factor: (?P<data>-?\d+)\n"
    r"  Return address column: (?P<register>\d+)",
    re.MULTILINE,
)
LARGEST_BYTES = 8 << 20
WANTED = 14

pytestmark = pytest.mark.skipif(not shutil.which("readelf"), reason="needs binutils")


def candidates():
    """The C library and its like, programs, and libraries that came from elsewhere."""
    yield Path(sys.executable).resolve()
    for directory in ("/lib", "/usr/lib"):
        for name in ("libc.so.6", "libm.so.6", "libstdc++.so.6", "ld-linux*.so.*", "libgcc_s.so.1"):
            yield from Path(directory).glob(f"*-linux-gnu*/{name}")
    for name in ("bash", "ls", "gcc", "ld", "perf", "perl", "make", "tar", "sort"):
        found = shutil.which(name)
        if found:
            yield Path(found).resolve()
    yield from sorted(Path(sysconfig.get_paths()["platlib"]).glob("numpy/_core/*.so"))
    yield from sorted(Path("/usr/lib").glob("*-linux-gnu*/lib*.so.?"))


def images():
    found = []
    for path in dict.fromkeys(path.resolve() for path in candidates()):
        if path.is_file() and path.stat().st_size <= LARGEST_BYTES:
            content = path.read_bytes()
            if content[:4] == b"\x7fELF" and b".eh_frame\0" in content:
                found.append((path, ElfImage.parse(content)))
    return found[:WANTED]


def dumped(path):
    command = ["readelf", "--debug-dump=frames", path]
    out = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return out.partition(".debug_frame")[0]


def test_entries_are_those_that_readelf_dumps():
    checked = 0
    for path, image in images():
        text = dumped(path)
        expected = {(int(start, 16), int(end, 16)) for start, end in FDE.findall(text)}
        frames = read_frames(image)
        assert {(s, e) for s, e in expected if e > s} == set(
            zip(frames.start.tolist(), frames.end.tolist(), strict=True)
        ), path
        stated = {
            int(one["at"], 16): (one["letters"], one["code"], one["data"], one["register"])
            for one in CIE.finditer(text)
        }
        for cie in frames.cies:
            assert stated[cie.offset] == (
                cie.augmentation.decode(),
                *map(str, (cie.code_alignment, cie.data_alignment, cie.return_register)),
            ), path
        checked += 1
    assert checked >= 10


def test_the_walk_finds_what_the_header_lists():
    for path, image in images():
        frames = read_frames(image)
        walked = walk_entries(frames.data)
        assert np.isin(frames.offset, walked).all(), path
        assert np.isin([cie.offset for cie in frames.cies], walked).all(), path
