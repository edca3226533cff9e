"""Which functions patterns mean: in images made in memory, and in the loader's cache."""

from __future__ import annotations

import os
import struct
import sys

import pytest

from prospect.announcing import silent
from prospect.errors import CaptureError, UsageError
from prospect.recording import counted_functions as module
from prospect.recording.counted_functions import CallPattern, counted_functions
from prospect.recording.exact_counters import exact_counters
from prospect.recording.opened_events import RecordOptions

X86_64, I386 = 0x0303, 0x0003


def cache_of(*entries, lead=b""):
    """Make an ld.so.cache of (name, path, flags, hardware)."""
    strings, rows = b"", b""
    begin = 48 + 24 * len(entries)
    for name, path, flags, hardware in entries:
        places = []
        for text in (name, path):
            places.append(begin + len(strings))
            strings += text.encode() + b"\0"
        rows += struct.pack("=iIIIQ", flags, *places, 0, hardware)
    header = struct.pack("=20sII20x", b"glibc-ld.so.cache1.1", len(entries), len(strings))
    return lead + header + rows + strings


@pytest.fixture
def use_cache(monkeypatch):
    def use(content):
        monkeypatch.setattr(module, "read_system_file", lambda _: content)

    return use


def refusal(image, name="*"):
    with (
        pytest.raises(UsageError) as error,
        counted_functions([CallPattern(image, name)], [sys.executable]),
    ):
        pass
    return str(error.value)


@pytest.mark.parametrize("lead", [b"", b"ld.so-1.7.0\0" + bytes(20)])
def test_libraries_are_found_with_and_without_their_version(use_cache, lead):
    rows = [
        ("libz.so.1", "/lib32/libz.so.1", I386, 0),
        ("libz.so.1", "/lib/fast/libz.so.1", X86_64, 1 << 62),
        ("libz.so.1", "/none/libz.so.1", X86_64, 0),
    ]
    use_cache(cache_of(*rows, lead=lead))
    for name in ("libz", "libz.so.1"):
        assert refusal(name) == "--count-calls: /none/libz.so.1: No such file or directory"
    assert "no library libzz is installed" in refusal("libzz")


@pytest.mark.parametrize("size", [0, 10, 30, 47, 60, 100, 130])
def test_a_damaged_cache_has_no_libraries_or_fewer(use_cache, size):
    use_cache(cache_of(("libz.so.1", "/none/libz.so.1", X86_64, 0))[:size])
    assert refusal("libz").startswith("--count-calls: ")


def test_what_is_no_program_is_refused(tmp_path):
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    assert "is not a program for this machine" in refusal(str(script))
    assert "is not a regular file" in refusal(str(tmp_path))
    assert "No such file" in refusal(str(tmp_path / "none"))


def test_the_loader_is_refused(tmp_path):
    loader = tmp_path / "ld-linux-x86-64.so.2"
    loader.write_bytes(b"")
    assert "is the dynamic loader, which is not counted" in refusal(str(loader))


@pytest.mark.parametrize("calls", ["*", "libzz.so.9:*", "/none:*", "a:b:c"])
def test_another_machine_is_refused_before_anything_is_looked_up(monkeypatch, calls):
    other = os.uname_result(("Linux", "host", "6.1.0", "#1", "aarch64"))
    monkeypatch.setattr(os, "uname", lambda: other)
    options = RecordOptions(command=(sys.executable,), count_calls=calls)
    with (
        pytest.raises(CaptureError, match=r"^--count-calls works on x86_64, not on aarch64$"),
        exact_counters(options, 1, warn=silent),
    ):
        pass
