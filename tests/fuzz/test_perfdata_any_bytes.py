"""Any bytes parse or raise RecordingError, in bounded time and memory."""

from __future__ import annotations

import random
import struct
import time
import tracemalloc

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import perfdata as build
from builders.examples import examples, nightly
from builders.perfdata_features import (
    build_id_record,
    feature_event_desc,
    feature_string,
    feature_strings,
)
from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr, EventDescription
from prospect.errors import RecordingError
from prospect.perfdata.reader import open_recording

SAMPLE_TYPE = (
    build.USUAL | build.READ | build.CALLCHAIN | build.RAW | build.REGS_USER | build.STACK_USER
)
ATTR = EventAttr(
    sample_type=SAMPLE_TYPE,
    flags=abi.FLAG_SAMPLE_ID_ALL,
    read_format=abi.PERF_FORMAT_GROUP | abi.PERF_FORMAT_ID,
    sample_regs_user=0xFF,
)
EVENTS = [
    EventDescription(ATTR, (1, 2), "cpu-clock"),
    EventDescription(ATTR._replace(sample_type=build.USUAL), (3,), "dummy"),
]


def forms(order):
    records = build.RecordBuilder(SAMPLE_TYPE, order)
    side = build.RecordBuilder(build.USUAL, order)
    content = [
        records.comm(1, 1, "name", id=1),
        side.mmap2(1, 1, 0x1000, 0x1000, "/bin/name", build_id=bytes(20), id=3),
        records.auxtrace(b"trace---"),
        *(
            records.sample(
                ip=i,
                id=1 + i % 2,
                read=[2, 1, 1, 2, 2],
                chain=range(i),
                raw=bytes(i),
                regs_user=range(8),
                stack_user=bytes(8 * i),
            )
            for i in range(8)
        ),
        side.sample(id=3),
        records.ksymbol(1, 2, "symbol", id=1),
        records.text_poke(1, b"12345", b"123", id=1),
        records.finished_round(),
    ]
    features = {
        2: build_id_record(b"/bin/name", bytes(20), order=order),
        3: feature_string("host", order),
        7: struct.pack(order + "II", 2, 2),
        11: feature_strings(["a", "b"], order),
        12: feature_event_desc(EVENTS, order),
        18: b"",
        21: bytes(16),
        29: bytes(24),
        255: b"PROSPECT" + struct.pack(order + "II", 1, 9) + b'{"a": []}',
    }
    builder = build.FileBuilder(EVENTS, content, features, order)
    pipe = builder.pipe(build_ids=[build_id_record(b"x", b"id", type_=67, order=order)])
    packed = build.FileBuilder(EVENTS, builder.compress(piece=200), order=order).pipe()
    return [builder.file(), pipe, packed, builder.compressed(), builder.compressed(two=True)]


VALID = [content for order in "<>" for content in forms(order)]


def consume(path, content):
    """Read everything; return the damage, or the refusal, and the number of record bytes."""
    path.write_bytes(content)
    sentences, size = _read(path)
    assert all("\n" not in sentence for sentence in sentences)
    return sentences, size


def _read(path):
    try:
        with open_recording(str(path)) as recording:
            size = 0
            for block in recording.blocks():
                assert len(block.data) % 8 == 0
                size += len(block.data)
            assert recording.info.events
            return recording.damage, size
    except RecordingError as error:
        return [str(error)], 0


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz") / "perf.data"


@pytest.mark.parametrize("content", VALID)
def test_the_seeds_are_valid(path, content):
    damage, size = consume(path, content)
    assert damage == []
    assert size > 2000


def mutated(content, draw):
    content = bytearray(content)
    for _ in range(draw.choice((1, 1, 2, 8))):
        at = draw.randrange(len(content))
        match draw.randrange(6):
            case 0:
                content[at] ^= 1 << draw.randrange(8)
            case 1:
                content[at] = draw.choice((0, 1, 0x7F, 0x80, 0xFF))
            case 2:
                del content[at : at + draw.choice((1, 4, 8, 100))]
            case 3:
                content[at:at] = draw.randbytes(draw.choice((1, 8, 50)))
            case 4:
                word = draw.choice((0, 8, 1 << 31, 1 << 32, (1 << 63) - 1, (1 << 64) - 8))
                at &= ~7
                content[at : at + 8] = word.to_bytes(8, draw.choice(("little", "big")))
            case 5:
                del content[at:]
        content = content or bytearray(1)
    return bytes(content)


@pytest.mark.parametrize("seed", [*range(4), *nightly(*range(4, 8))])
def test_mutated_recordings_are_read_or_refused(path, seed):
    draw = random.Random(seed)
    began = time.process_time()
    tracemalloc.start()
    try:
        for _ in range(250):
            content = mutated(draw.choice(VALID), draw)
            size = consume(path, content)[1]
            # Only compression can make records of nothing.
            assert size <= max(len(content), 1 << 16)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 32 << 20
    assert time.process_time() - began < 60


@settings(max_examples=examples(300))
@given(
    st.sampled_from([b"", b"PERFILE2", b"2ELIFREP", *(content[:104] for content in VALID)]),
    st.binary(max_size=600),
)
def test_any_bytes_are_read_or_refused(path, head, tail):
    consume(path, head + tail)


@settings(max_examples=examples(200))
@given(
    st.sampled_from("<>"),
    st.lists(
        st.tuples(
            st.sampled_from([1, 3, 7, 9, 10, 64, 66, 67, 69, 71, 78, 80, 81, 83, 2**32 - 1]),
            st.binary(max_size=80),
        )
    ),
)
def test_any_records_behind_a_streams_events_are_read_or_refused(path, order, records):
    stream = build.FileBuilder(EVENTS, order=order).pipe()
    consume(path, stream + b"".join(build.record(t, body, order=order) for t, body in records))


@pytest.mark.parametrize(
    "content", [bytes(8), build.record(9, bytes(32_000))], ids=["0", "records"]
)
@pytest.mark.parametrize("piece_bytes", [500, 60_000])
def test_a_zip_bomb_is_refused_in_little_time_and_memory(path, content, piece_bytes):
    compressor = zstandard.ZstdCompressor().compressobj()
    piece = content * (4_000_000 // len(content))
    packed = b"".join(compressor.compress(piece) for _ in range(100))
    packed += compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    records = [build.record(83, struct.pack("<Q", len(p)) + p) for p in _cut(packed, piece_bytes)]
    bomb = build.FileBuilder(EVENTS, records).pipe()
    tracemalloc.start()
    began = time.process_time()
    try:
        damage, _ = consume(path, bomb)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert damage
    assert peak < 200 << 20
    assert time.process_time() - began < 10


def _cut(data, size):
    return [data[at : at + size] for at in range(0, len(data), size)]
