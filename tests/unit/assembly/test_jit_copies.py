"""Copies of JITs' files in a recording, which anybody may have written."""

import base64
import zlib

import pytest

from builders.jitdump import DumpBuilder
from builders.jvm import CODE
from prospect.assembly.placing import jit
from prospect.assembly.placing.jit import read_jvms, recorded_copies
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


def jvm(pid, *names):
    dump = DumpBuilder()
    for place, name in enumerate(names, 1):
        dump.load(place, 0x1000 * place, CODE, name)
    return pid, entry(bytes(dump.content))["zlib"]


def test_the_code_of_a_jvm_is_read_again_only_if_there_is_more():
    first, other = jvm(7, b"A.run"), jvm(8, b"B.run")
    (pid, code), (other_pid, other_code) = read_jvms([first, other])
    assert (pid, other_pid) == (7, 8)
    assert len(code.dump) == len(other_code.dump) == 1
    (_, same), (_, grown) = read_jvms([first, jvm(8, b"B.run", b"C.run")])
    assert same is code
    assert len(grown.dump) == 2
    # What was not asked for is forgotten, and what is damaged is nobody's.
    assert read_jvms([(7, "*not base64*")]) == []
    ((_, again),) = read_jvms([first])
    assert again is not code
    assert len(again.dump) == 1


def test_jvms_that_unpack_to_more_than_all_may_have_are_left_out(monkeypatch):
    both = [jvm(7, b"A.run"), jvm(8, b"B.run")]
    monkeypatch.setattr(jit, "MOST_COPIED_FILE_BYTES", 1)
    assert read_jvms(both) == []
    size = len(zlib.decompress(base64.b64decode(both[0][1])))
    monkeypatch.setattr(jit, "MOST_COPIED_FILE_BYTES", size)
    for _ in range(2):  # known or not
        assert [pid for pid, _ in read_jvms(both)] == [7]
