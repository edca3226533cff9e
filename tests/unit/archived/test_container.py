"""Columns come back as they went in, and nothing else comes out of a damaged section."""

import struct

import numpy as np
import pytest
import zstandard

from prospect.archived.archive_format import MAGIC, counted, pack, text_columns, texts_of, unpack
from prospect.errors import RecordingError

FACTS = {"origin": "perf.data", "owners": [["/bin/\udcff", 3]]}
COLUMNS = {
    "octet": np.array([3, 0, 255], np.uint8),
    "row": np.array([-1, 0, 70_000], np.int32),
    "number": np.array([7, 2**64 - 1, 0, 2**63], np.uint64),
    "none": np.zeros(0, np.uint32),
}


def section(content: bytes, size: int | None = None) -> bytes:
    head = struct.pack("<8sIIQ", MAGIC, 1, 0, len(content) if size is None else size)
    return head + zstandard.ZstdCompressor().compress(content)


def test_facts_and_columns_come_back():
    found = unpack(pack(FACTS, COLUMNS))
    assert found.facts == FACTS
    for name, column in COLUMNS.items():
        again = found.get(name, column.dtype.type)
        assert again.dtype == column.dtype
        assert again.tolist() == column.tolist()


def test_texts_of_any_bytes_come_back():
    texts = ["", "über", "/tmp/\udcfe", "a\0b"]
    assert texts_of(unpack(pack({}, text_columns(texts)))) == texts


def test_a_column_of_another_type_or_name_is_refused():
    found = unpack(pack(FACTS, COLUMNS))
    for name, kind in (("octet", np.int32), ("other", np.uint8)):
        with pytest.raises(RecordingError, match="column"):
            found.get(name, kind)


def test_rows_outside_of_their_table_are_refused():
    found = unpack(pack(FACTS, COLUMNS))
    assert found.index("row", 70_001).tolist() == [-1, 0, 70_000]
    with pytest.raises(RecordingError, match="outside"):
        found.index("row", 70_000)


def test_counts_that_do_not_add_up_are_refused():
    assert counted(np.array([2, 0, 3], np.uint32), 5, "parts").tolist() == [0, 2, 2, 5]
    with pytest.raises(RecordingError, match="parts"):
        counted(np.array([2**32 - 1, 6], np.uint32), 5, "parts")


def test_what_unpacks_to_too_much_is_refused_before_it_is_unpacked():
    bomb = zstandard.ZstdCompressor().compress(bytes(1 << 27))
    head = struct.pack("<8sIIQ", MAGIC, 1, 0, 1 << 27)
    with pytest.raises(RecordingError, match="more than an archive can hold"):
        unpack(head + bomb)


def test_a_size_that_the_frame_contradicts_is_refused():
    with pytest.raises(RecordingError, match="contradict"):
        unpack(section(bytes(100), size=99))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        struct.pack("<Q", 2**63),
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 26) + b'{"columns":[],"facts":[]}',
        struct.pack("<Q", 41) + b'{"columns":[["a","u8",9999]],"facts":{}}',
        struct.pack("<Q", 41) + b'{"columns":[["a","u8",  -1]],"facts":{}}',
        struct.pack("<Q", 41) + b'{"columns":[["a","f8",   1]],"facts":{}}',
        struct.pack("<Q", 200_000) + b"[" * 200_000,
    ],
)
def test_damage_is_an_error_of_ours(content):
    with pytest.raises(RecordingError):
        unpack(section(content))


@pytest.mark.parametrize("rows", ["Infinity", "-Infinity", "NaN", "1e999", "[]", "9" * 400, "-1"])
def test_an_impossible_number_of_rows_is_damage(rows):
    head = f'{{"columns":[["octet","u1",{rows}]],"facts":{{}}}}'.encode()
    with pytest.raises(RecordingError, match="damaged"):
        unpack(section(struct.pack("<Q", len(head)) + head))


def test_another_version_is_named_as_such():
    other = bytearray(pack(FACTS, COLUMNS))
    other[8] = 99
    with pytest.raises(RecordingError, match="version"):
        unpack(bytes(other))
