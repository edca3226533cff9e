"""Whoever reads what a stranger names, by any of the ways, never gets a file only root may read.

The stranger puts a file of his own and a link to the secret at the name in turn, as fast as he can.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from builders.elf import code, debug_link_section, elf_file
from prospect.capture.machine.jit_file_holder import JitFileHolder
from prospect.files.child import Progress
from prospect.files.untrusted_open import OpenFile
from prospect.lines import split_lines
from prospect.lines.lines_limits import LARGEST_SOURCE_BYTES
from prospect.lines.source_files import open_named
from prospect.symbols.images import image_files
from prospect.symbols.images.image_files import find_debug_image, open_image
from prospect.symbols.jit.map_files import open_jit_file

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root has others' rights to give")

STRANGER = 23001
ID = bytes(range(1, 21))
TRIES = 50


@pytest.fixture
def place():
    """A directory of the stranger's, which pytest's are not."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o711)
        place = Path(directory, "place")
        place.mkdir()
        os.chown(place, STRANGER, STRANGER)
        yield place


@contextmanager
def swapped(path, harmless):
    """Let the name be the harmless file's and a link to the secret in turn."""
    secret, spare = path.parent.parent / "secret", path.parent / "spare"
    ends = threading.Event()

    def swap():
        while not ends.is_set():
            os.link(harmless, spare)
            spare.replace(path)
            spare.symlink_to(secret)
            os.chown(spare, STRANGER, STRANGER, follow_symlinks=False)
            spare.replace(path)

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        yield
    finally:
        ends.set()
        swapper.join()


def each_try(seen):
    """Yield for each try; more than that until something was seen."""
    until_s, tries = time.monotonic() + 30, 0
    while tries < TRIES or (not seen and time.monotonic() < until_s):
        tries += 1
        yield


def image(note: bytes) -> bytes:
    """Return a file that is as good as any other of its build id."""
    return elf_file(sections=[code(), debug_link_section("named", 0)], build_id=ID) + note


def data_of(file) -> bytes:
    return bytes(file.data) if isinstance(file, OpenFile) else b""


def source_text(path, _program):
    return data_of(open_named(os.fsencode(path), STRANGER, largest_bytes=LARGEST_SOURCE_BYTES))


def debug_link(path, program):
    found = find_debug_image(open_image(os.fsencode(program)), os.fsencode(path.parent))
    return data_of(found.file) if found else b""


def split_unit(path, program):
    found = open_image(os.fsencode(program)).file
    unit = SimpleNamespace(directory=os.fsencode(path.parent), dwo_name=b"named")
    return data_of(split_lines.SplitFiles(found, found.speaks_for).find(unit))


def jit_file(path, _program):
    return data_of(open_jit_file(os.fsencode(path), None, 1 << 20, STRANGER))


@pytest.mark.parametrize("read", [source_text, debug_link, split_unit, jit_file])
def test_a_name_that_is_swapped_in_time_leads_to_no_secret(place, monkeypatch, read):
    monkeypatch.setattr(image_files, "DEBUG_ROOT", os.fsencode(place / "debug"))
    monkeypatch.setattr(split_lines, "_in_object", lambda file, *_: file)
    harmless, secret, program = place / "harmless", place.parent / "secret", place / "program"
    for path, note, mode in ((harmless, b"harmless", 0o644), (secret, b"secret", 0o600)):
        path.write_bytes(image(note))
        path.chmod(mode)
    program.write_bytes(image(b"program"))
    for path in (harmless, program):
        os.chown(path, STRANGER, STRANGER)
    seen = set()
    with swapped(place / "named", harmless):
        for _ in each_try(seen):
            seen |= {read(place / "named", program)[-6:]} - {b""}
    assert seen == {b"rmless"}


def test_a_recorder_holds_no_file_that_a_link_leads_to(place):
    harmless, secret = place / "harmless", place.parent / "secret"
    for path in (harmless, secret):
        path.write_text("1 1 name\n")
    inodes = set()
    with swapped(place / f"perf-{os.getpid()}.map", harmless):
        for _ in each_try(inodes):
            holder = JitFileHolder(Progress(), own_tmp=os.fsencode(place))
            holder.look()
            inodes |= {inode for _, inode in holder._held}
            holder.close()
    assert inodes == {harmless.stat().st_ino}
