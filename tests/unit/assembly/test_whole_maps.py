"""Maps that the recorder read: found by process and time, whatever a file says."""

from __future__ import annotations

import base64
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prospect.assembly.tables.process_table import WholeMaps

FIRST = b"""\
00400000-00402000 r-xp 00001000 08:01 77                                 /bin/a b
00602000-00603000 rw-s 00000000 00:00 0\x20
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]
7ffc00030000-7ffc00031000 ---p 00000000 00:00 0                          [anon:guard]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
"""
SECOND = b"00400000-00401000 r--p 00000000 08:01 77       /tmp/new\\012line\n"


def document(**changes):
    whole = {
        "pid": [5, 6, 5],
        "read_ns": [100, 150, 200],
        "size_bytes": [len(FIRST), 0, len(SECOND)],
        "zlib": base64.b64encode(zlib.compress(FIRST + SECOND)).decode(),
    }
    return {"memory_maps": whole | changes}


def rows(mapped):
    columns = mapped.start, mapped.end, mapped.permissions, mapped.pgoff, mapped.path
    return list(zip(*map(list, columns), strict=True))


def test_a_map_is_that_of_its_process_and_time():
    maps = WholeMaps(document())
    first = maps.of(5, 0, 199)
    assert first.read_ns == 100
    assert rows(first) == [
        (0x400000, 0x402000, "r-x", 0x1000, "/bin/a b"),
        (0x602000, 0x603000, "rw-", 0, "//anon"),
        (0x7FFC00000000, 0x7FFC00021000, "rw-", 0, "[stack]"),
        (0x7FFC00030000, 0x7FFC00031000, "---", 0, "[anon:guard]"),
        (0xFFFFFFFFFF600000, 0xFFFFFFFFFF601000, "--x", 0, "[vsyscall]"),
    ]
    newest = maps.of(5, 0, (1 << 64) - 1)
    assert (newest.read_ns, newest.path) == (200, ["/tmp/new\nline"])
    assert maps.of(5, 101, 199) is maps.of(6, 0, 999) is maps.of(7, 0, 999) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"zlib": "?"},
        {"zlib": None},
        {"zlib": base64.b64encode(b"damaged").decode()},
        {"pid": [5]},
        {"read_ns": "100"},
        {"size_bytes": [-1, 0, 0]},
        {"size_bytes": [2**62, 2**62, 2**62], "read_ns": [1, 1, 100]},
    ],
)
def test_a_document_that_is_not_as_ours_has_no_maps(changes):
    assert WholeMaps(document(**changes)).of(5, 50, 300) is None


@pytest.mark.parametrize("extras", [{}, {"memory_maps": None}, {"memory_maps": [1]}])
def test_a_recording_without_maps_has_none(extras):
    assert WholeMaps(extras).of(5, 0, 999) is None


def test_lines_that_say_nothing_are_left_out():
    text = b"00402000-00400000 r-xp 00000000 08:01 7  /backwards\nnonsense\n" + SECOND
    packed = base64.b64encode(zlib.compress(text)).decode()
    found = WholeMaps(document(size_bytes=[0, 0, len(text)], zlib=packed)).of(5, 0, 999)
    assert found.path == ["/tmp/new\nline"]


@given(st.binary(max_size=300), st.integers(0, 400))
def test_any_text_is_read(text, size):
    packed = base64.b64encode(zlib.compress(FIRST[:130] + text)).decode()
    found = WholeMaps(document(size_bytes=[size, 0, 0], zlib=packed)).of(5, 0, 150)
    assert found is None or len(found) == len(found.permissions) > 0
