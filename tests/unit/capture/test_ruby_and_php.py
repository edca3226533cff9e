"""Ruby and PHP in files: what their own code says of where they keep things."""

from __future__ import annotations

import os
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prospect.abi import runtime_frames as wire
from prospect.capture.machine.runtime_processes import runtime_of
from prospect.capture.runtimes import php_runtime as php
from prospect.capture.runtimes import ruby_runtime
from prospect.capture.runtimes import ruby_runtime as ruby
from prospect.capture.runtimes.known_runtimes import read_image


@pytest.mark.parametrize(
    ("name", "runtime"),
    [
        *(("ruby", wire.RUBY), ("ruby3.1", wire.RUBY), ("libruby-3.1.so.3.1.2", wire.RUBY)),
        *(("libruby.so.3.4", wire.RUBY), ("rubygems", -1), ("ruby.so", -1)),
        *(("php", wire.PHP), ("php8.2", wire.PHP), ("php-fpm8.2", wire.PHP)),
        *(("libphp8.2.so", wire.PHP), ("phpunit", -1), ("php.ini", -1)),
    ],
)
def test_names_of_files(name, runtime):
    assert runtime_of(b"/usr/bin/" + name.encode()) == runtime


@pytest.mark.parametrize(
    ("code", "place"),
    [
        # data16 lea 0x224d38(%rip), %rdi; call __tls_get_addr
        (
            "f30f1efa4883ec08 66488d3d384d2200 666648e8",
            (ruby._BY_MODULE, 0x1000 + 16 + 0x224D38, 0),
        ),
        ("64488b0425f8ffffff", (ruby._FIXED, 0, 0xFFFFFFF8)),  # mov %fs:-8, %rax
        ("488b0510000000 64488b00", (ruby._BY_OFFSET, 0x1000 + 7 + 0x10, 0)),
        ("c3", None),
        ("66488d3d3844", None),
    ],
)
def test_code_says_where_a_thread_of_ruby_has_its_context(code, place):
    assert ruby._storage(bytes.fromhex(code), 0x1000) == place


@pytest.mark.parametrize(
    ("code", "offset"),
    [
        ("488d05e1822900 4883b8e801000000 0f95c0c3", 0x1E8),  # lea; cmpq $0, 0x1e8(%rax)
        ("48833df8000000 00 0f95c0c3", 0x20 + 8 + 0xF8),  # cmpq $0, 0xf8(%rip)
        ("4883bc02e801000000 0f95c0c3", 0x1E8),  # cmpq $0, 0x1e8(%rdx,%rax), with threads
        ("4883bc02e801000001 0f95c0c3", 0),
        ("4883b8e801000001", 0),
        ("c3", 0),
    ],
)
def test_code_says_where_php_has_the_innermost_call(code, offset):
    assert php._current_offset(bytes.fromhex(code), 0x20) == offset


@pytest.mark.parametrize(
    ("code", "offset"),
    [
        ("488b82b0060000 488b82e8010000 488b5018 488b8298000000 c3", 0x98),
        ("488b82e8010000 488b82a8000000 c3", 0xA8),
        ("488b8298000000 488b82a8000000 c3", 0),  # one of two
        ("488b82e8010000 c3", 0),
    ],
)
def test_code_says_where_a_function_of_php_has_its_file(code, offset):
    assert php._file_offset(bytes.fromhex(code)) == offset


@pytest.mark.parametrize(
    ("code", "place"),
    [
        ("48c7c0e8ffffff c3", (php._FIXED, 0, 0xFFFFFFE8)),  # mov $-24, %rax
        ("f30f1efa 488b0510000000 c3", (php._BY_OFFSET, 0x1000 + 4 + 7 + 0x10, 0)),
        ("48c7c000000000 c3", None),  # there is none
        ("31c0c3", None),
        ("", None),
    ],
)
def test_code_says_where_a_thread_of_php_has_its_globals(code, place):
    assert php._block_place(bytes.fromhex(code), 0x1000) == place


@given(st.binary(max_size=200))
def test_any_code_and_any_file_is_read_or_left(content):
    ruby._storage(content, 0)
    ruby_runtime.table_of(((content, 0), (content, 50)))
    ruby_runtime.path_place(content, 0)
    php._current_offset(content, 0)
    php._file_offset(content)
    php._block_place(content, 0)
    fd = os.memfd_create("image", os.MFD_CLOEXEC)
    try:
        os.pwrite(fd, b"\x7fELF\x02\x01" + content, 0)
        for name in (b"ruby3.1", b"php8.2"):
            with suppress(ValueError):  # "it takes too much to read"
                assert read_image(fd, name) is None
    finally:
        os.close(fd)
