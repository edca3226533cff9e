"""Which mapped files are CPython, and that a file may hold anything."""

from __future__ import annotations

import os
import struct
import sys
import sysconfig
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prospect.abi import cpython
from prospect.capture.machine.python_processes import KEY, image_key, may_be_python
from prospect.capture.python.image_entry import ENTRY_BYTES, encode
from prospect.capture.python.interpreters import (
    _is_free_threaded,
    _loaded_offsets,
    read_image,
)


@pytest.mark.parametrize(
    "name",
    ["python3", "python3.11", "libpython3.12.so.1.0", "python3.9 (deleted)", "libpython3.8.so"],
)
def test_names_of_cpython(name):
    assert may_be_python(b"/usr/bin/" + name.encode())


@pytest.mark.parametrize(
    "name", ["python2.7", "python3.13t", "libpython3.11d.so.1.0", "bash", "python3.11.so", ""]
)
def test_names_of_others(name):
    assert not may_be_python(b"/usr/bin/" + name.encode())


def own_image():
    """The file that this interpreter's own code is in."""
    libraries = sysconfig.get_config_var("LIBDIR"), sysconfig.get_config_var("INSTSONAME")
    shared = Path(*filter(None, libraries))
    return shared if shared.is_file() and shared.suffix != ".a" else Path(sys.executable).resolve()


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="reads x86-64 only")
@pytest.mark.skipif(sys.version_info[1] not in cpython.FRAMES, reason="a version not known yet")
def test_this_interpreter_is_known():
    with own_image().open("rb") as file:
        image = read_image(file.fileno(), own_image().name.encode())
    assert image is not None
    assert image.minor == sys.version_info[1]
    assert image.text[0] < image.loop[0] < image.loop[1] <= image.text[1]
    placed = image.placed(0x7F0000000000, image.segments[0][0])
    assert placed is not None
    assert len(encode(1, placed)) == ENTRY_BYTES


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


@pytest.mark.parametrize(("free_threaded", "is_read"), [(0, True), (1, False)])
def test_a_build_without_the_lock_is_not_read(free_threaded, is_read, tmp_path):
    head = struct.pack("<8sQQ", b"xdebugpy", 0x030D0000, free_threaded)
    with (tmp_path / "libpython3.13.so.1.0").open("wb+") as file:
        file.write(head)
        file.flush()
        symbols = {b"_PyRuntime": (0x1000, 24)}
        segments = ((0, 0x1000, 24),)
        assert _is_free_threaded(file.fileno(), symbols, segments) is not is_read


@given(st.binary(max_size=300))
def test_any_file_is_read_or_left(content):
    fd = os.memfd_create("image", os.MFD_CLOEXEC)
    try:
        for head in (b"", b"\x7fELF\x02\x01"):
            os.pwrite(fd, head + content, 0)
            assert read_image(fd, b"python3.11") is None
    finally:
        os.close(fd)


def test_the_key_of_a_process_is_of_its_memory():
    fields = [b"1", b"(a) b)", *(b"%d" % number for number in range(3, 53))]
    assert image_key(b" ".join(fields)) == KEY.pack(26, 28, 47)
    assert image_key(b"") == b""
    assert image_key(b"1 (a) S x") == b""
