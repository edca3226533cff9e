"""Any bytes as a block: columns and sentences about damage, nothing else, in bounded space."""

from __future__ import annotations

import struct
import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import perfdata
from builders.perfdata import RecordBuilder
from prospect.abi.attr import EventAttr, EventDescription
from prospect.abi.recorded_facts import RecordBlock
from prospect.errors import RecordingError
from prospect.events import record_starts
from prospect.events.decode import decode
from prospect.records import asdict

_CHAINED = perfdata.USUAL | perfdata.CALLCHAIN | perfdata.READ
_SAMPLE_ID_ALL = 1 << 18


@pytest.fixture(params=["search", "walk"], autouse=True)
def path(request, monkeypatch):
    """Decode by the search, whatever the size, and by the walk."""
    monkeypatch.setattr(record_starts, "_SMALL_WORDS", 16 if request.param == "search" else 1 << 30)


@st.composite
def any_events(draw):
    """Events with any sample_type, as a hostile file may describe them."""
    events = []
    for _ in range(draw(st.integers(1, 3))):
        attr = EventAttr(
            sample_type=draw(st.integers(0, (1 << 64) - 1)) | draw(st.sampled_from([0, 1 << 16])),
            read_format=draw(st.integers(0, (1 << 64) - 1)),
            sample_period=draw(st.integers(0, (1 << 64) - 1)),
            flags=draw(st.integers(0, (1 << 64) - 1)),
        )
        ids = draw(st.lists(st.integers(0, (1 << 64) - 1), max_size=3))
        events.append(EventDescription(attr, tuple(ids)))
    return events


def any_records():
    """Headers that lead somewhere with bodies of any bytes, and bytes that do not."""
    types = st.one_of(st.integers(0, 22), st.integers(0, (1 << 32) - 1))
    whole = st.builds(
        lambda type_, body, misc: perfdata.record(type_, body, misc=misc),
        types,
        st.binary(max_size=120),
        st.integers(0, (1 << 16) - 1),
    )
    return st.lists(st.one_of(whole, st.binary(max_size=40)), max_size=30).map(b"".join)


def assert_sound(data, events):
    found = decode([RecordBlock(memoryview(data), "any")], events)
    samples = found.samples
    count = len(samples)
    for column in ("task", "time_ns", "mode", "cpu", "period", "event", "clock"):
        assert len(getattr(samples, column)) == count
    assert count <= found.counts.get(9, 0) <= len(data) // 8
    assert (samples.event < len(events)).all()
    if samples.chain_start is not None:
        assert samples.chain_start[0] == 0
        assert samples.chain_start[-1] == len(samples.chain) <= len(data) // 8
        assert (np.diff(samples.chain_start) >= 0).all()
    for table in (found.mmaps, found.tasks, found.kernel_symbols, found.losses):
        columns = list(asdict(table).values())
        assert len({len(column) for column in columns}) == 1
    for table in (found.mmaps, found.tasks, found.kernel_symbols):
        assert ((table.name >= -1) & (table.name < len(found.names))).all()
    assert (found.mmaps.build_id < len(found.build_ids)).all()
    assert sum(map(len, found.names)) <= len(data)
    return found


@given(st.binary(max_size=2000))
def test_any_bytes(data):
    assert_sound(data, [EventDescription(EventAttr(sample_type=_CHAINED), (7,))])


@given(any_records(), any_events())
def test_any_records_of_any_events(data, events):
    try:
        assert_sound(data, events)
    except RecordingError as error:
        assert "told apart" in str(error)  # noqa: PT017 - both ends of the fuzz are right


@given(st.integers(0, 1 << 30), st.integers(0, (1 << 64) - 1))
def test_one_word_of_a_recording_replaced(where, word):
    make = RecordBuilder(_CHAINED)
    parts = [make.sample(ip=row, chain=range(row % 7), id=7) for row in range(60)]
    parts[::9] = [
        make.mmap2(1, 1, 0, 9, "/lib/a", build_id=bytes(20)) + part for part in parts[::9]
    ]
    parts[::7] = [make.comm(1, 1, "name") + part for part in parts[::7]]
    data = bytearray(b"".join(parts))
    struct.pack_into("<Q", data, where % (len(data) // 8) * 8, word)
    assert_sound(bytes(data), [EventDescription(EventAttr(sample_type=_CHAINED), (7,))])


_MEGABYTE = 1 << 20
_HOSTILE = {
    "only smallest records": struct.pack("<IHH", 68, 0, 8) * (_MEGABYTE // 8),
    "only smallest samples": struct.pack("<IHH", 9, 0, 8) * (_MEGABYTE // 8),
    "zeros": bytes(_MEGABYTE),
    "samples in every word": struct.pack("<IHH", 9, 0, 1024) * (_MEGABYTE // 8),
    "largest samples in every word": struct.pack("<IHH", 9, 0, 65_528) * (_MEGABYTE // 8),
    "a name a record": b"".join(
        perfdata.record(3, bytes(8) + b"%07d\0" % row) for row in range(_MEGABYTE // 24)
    ),
    "unknown types": b"".join(
        perfdata.record(row * 65_537 % (1 << 32)) for row in range(_MEGABYTE // 8)
    ),
}


@pytest.mark.parametrize("name", _HOSTILE)
def test_time_and_memory_are_bounded_by_the_size(name):
    data = _HOSTILE[name]
    event = EventDescription(EventAttr(sample_type=_CHAINED, flags=_SAMPLE_ID_ALL), (7,))
    tracemalloc.start()
    begin = time.process_time()
    assert_sound(data, [event])
    seconds = time.process_time() - begin
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert seconds < 5
    assert peak < 100 * len(data)
