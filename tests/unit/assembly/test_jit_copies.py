"""Copies of JITs' files in a recording, which anybody may have written."""

import base64
import zlib

import pytest

from prospect.assembly.placing import jit
from prospect.assembly.placing.jit import recorded_copies
from prospect.symbols.naming_options import MapCopy


def entry(content, **changed):
    packed = base64.b64encode(zlib.compress(content)).decode()
    return {"pid": 7, "kind": "map", "zlib": packed} | changed


def test_maps_and_dumps_by_process():
    listed = [
        entry(b"1 1 a\n"),
        entry(b"2 1 b\n", modified_ns=5),
        entry(b"3 1 c\n", modified_ns="5"),
        entry(b"dump", kind="dump", pid=8),
    ]
    found = recorded_copies({"jit_files": listed})
    assert found.maps == {
        7: (MapCopy(0, b"1 1 a\n"), MapCopy(5, b"2 1 b\n"), MapCopy(0, b"3 1 c\n"))
    }
    assert found.dumps == {8: b"dump"}


@pytest.mark.parametrize(
    "value",
    [
        None,
        {},
        "text",
        [None, 5, [], {}],
        [entry(b"x", pid="7")],
        [entry(b"x", pid=1 << 40)],
        [entry(b"x", kind="other")],
        [entry(b"x", zlib=5)],
        [entry(b"x", kind="dump", zlib="*not base64*")],
        [entry(b"x", kind="dump", zlib="AAAA")],
    ],
)
def test_what_is_no_copy_is_left_out(value):
    found = recorded_copies({"jit_files": value})
    assert (found.maps, found.dumps) == ({}, {})


def test_a_copy_that_unpacks_to_more_than_was_recorded(monkeypatch):
    monkeypatch.setattr(jit, "LARGEST_COPY_BYTES", 1000)
    found = recorded_copies({"jit_files": [entry(bytes(1 << 24))]})
    assert len(found.maps[7][0].text) == 1000
