"""decode() against its definition: follow the headers one by one and unpack each record."""

from __future__ import annotations

import itertools
import struct
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import perfdata
from builders.examples import examples
from builders.perfdata import RecordBuilder
from prospect.abi.attr import EventAttr, EventDescription
from prospect.abi.recorded_facts import RecordBlock
from prospect.events import record_starts
from prospect.events.decode import decode

_FREQ, _SAMPLE_ID_ALL = 1 << 10, 1 << 18
_IDS = (70, 71, 75, 90, 91)
_GROUP = 1 << 3
_ID = 1 << 2
_INHERIT = 1 << 1


@dataclass
class Told:
    """What the definition finds in a block."""

    samples: list[tuple] = field(default_factory=list)
    fork_times: list[int] = field(default_factory=list)
    counts: dict[int, int] = field(default_factory=dict)
    counters: dict[tuple[int, int], int] = field(default_factory=dict)
    is_damaged: bool = False


def event_of(id_, events):
    for row, event in enumerate(events):
        if id_ in event.ids:
            return row
    return 0 if len(events) == 1 or id_ == 0 or not any(e.ids for e in events) else None


def fields_of_sample(body, event):
    """Unpack a sample's fixed part, read part and call chain; None if it is too short."""
    sample_type, at, found = event.attr.sample_type, 0, {}
    order = ("IDENTIFIER", "IP", "TID", "TIME", "ADDR", "ID", "STREAM_ID", "CPU", "PERIOD")
    for name in order:
        if sample_type & getattr(perfdata, name):
            if at + 8 > len(body):
                return None
            found[name] = int.from_bytes(body[at : at + 8], "little")
            at += 8
    chain, members = [], []
    words = [w for (w,) in struct.iter_unpack("<Q", body[at:])]
    if sample_type & perfdata.READ:
        kinds = event.attr.read_format
        times, each = (kinds & 3).bit_count(), 1 + (kinds & 20).bit_count()
        nr = (words[0] if words else 1 << 60) if kinds & _GROUP else 1
        if kinds & _GROUP and kinds & _ID and nr <= 64 and 1 + times + nr * each <= len(words):
            firsts = range(1 + times, 1 + times + nr * each, each)
            members = [(words[first + 1], words[first]) for first in firsts]
        words = words[(1 if kinds & _GROUP else 0) + times + nr * each :]
    if sample_type & perfdata.CALLCHAIN and words and words[0] < len(words):
        chain = words[1 : 1 + words[0]]
    return found, chain, members


def tell_sample(told, header, body, events):
    misc, sample_type = header[1], events[0].attr.sample_type
    offset = 0
    if not sample_type & perfdata.IDENTIFIER:
        before = perfdata.IP | perfdata.TID | perfdata.TIME | perfdata.ADDR
        offset = 8 * (sample_type & before).bit_count()
    row = 0
    if sample_type & (perfdata.IDENTIFIER | perfdata.ID):
        row = event_of(int.from_bytes(body[offset : offset + 8], "little"), events)
    if row is None:
        return
    event = events[row]
    unpacked = fields_of_sample(body, event)
    if unpacked is None:
        return
    found, chain, members = unpacked
    attr = event.attr
    fixed_period = 1 if attr.flags & _FREQ else attr.sample_period
    told.samples.append(
        (
            found.get("IP", 0),
            found.get("TID", (1 << 64) - 1),
            found.get("TIME", 0),
            misc & 7,
            found.get("CPU", 0xFFFF) & 0xFFFF,
            found.get("PERIOD", fixed_period),
            row,
            tuple(chain),
        )
    )
    if len(events) > 1 and sample_type & (perfdata.IDENTIFIER | perfdata.ID):
        tell_members(told, members, row, events)


def tell_members(told, members, leader, events):
    """Append a sample of each other member of a group that counted since it was last read."""
    sample = told.samples[-1]
    is_inherited = events[leader].attr.flags & _INHERIT
    for id_, value in members:
        counter = (id_, sample[1] if is_inherited else 0)
        before = told.counters.get(counter, 0)
        told.counters[counter] = value
        gained = value - before if value >= before else value
        row = next((row for row, event in enumerate(events) if id_ in event.ids), leader)
        if row != leader and gained:
            told.samples.append((*sample[:5], gained, row, sample[7]))


def tell(blocks, events):
    """Decode `blocks` record by record."""
    told = Told()
    for data in blocks:
        at = 0
        while at < len(data):
            header = struct.unpack_from("<IHH", data, at)
            size = header[2]
            if size < 8 or size % 8 or at + size > len(data):
                told.is_damaged = True
                break
            body = data[at + 8 : at + size]
            told.counts[header[0]] = told.counts.get(header[0], 0) + 1
            if header[0] == 9:
                tell_sample(told, header, body, events)
            elif header[0] == 7 and len(body) >= 24:
                told.fork_times.append(int.from_bytes(body[16:24], "little"))
            at += size
    told.fork_times.sort()
    return told


@st.composite
def recordings(draw):
    """Events, and records whose payloads look like records."""
    bits = st.sets(st.sampled_from([1, 2, 4, 8, 16, 32, 64, 128, 256, 512]))
    common = sum(draw(bits)) | draw(st.sampled_from([0, perfdata.IDENTIFIER]))
    count = draw(st.integers(1, 3))
    ids = draw(st.sampled_from([_IDS[:count], (), (5, 1 << 40, (1 << 64) - 1)[:count]]))
    if count > 1 and ids and common & perfdata.IDENTIFIER and draw(st.booleans()):
        types = [sum(draw(bits)) | perfdata.IDENTIFIER for _ in range(count)]
    else:
        types = [common] * count
    can_differ = common & (perfdata.IDENTIFIER | perfdata.ID) and ids
    read_formats = [draw(st.integers(0, 31)) for _ in range(count)]
    events = []
    for row, sample_type in enumerate(types):
        attr = EventAttr(
            sample_type=sample_type,
            read_format=read_formats[row if can_differ else 0],
            sample_period=draw(st.integers(1, 1 << 40)),
            flags=_SAMPLE_ID_ALL | draw(st.sampled_from([0, _FREQ])),
        )
        events.append(EventDescription(attr, ids[row : row + 1], f"event{row}"))
    return events, draw(st.lists(one_record(events), max_size=40))


def one_record(events):
    known = [id_ for event in events for id_ in event.ids] or [0]
    look_alike = st.builds(
        lambda size, misc: 9 | misc << 32 | 8 * size << 48, st.integers(0, 12), st.integers(0, 7)
    )
    word = st.one_of(
        st.integers(0, (1 << 64) - 1), look_alike, st.sampled_from([*known, 0, 1, 2, 3])
    )
    raw = st.lists(word, max_size=14).map(lambda words: struct.pack(f"<{len(words)}Q", *words))
    id_ = st.sampled_from([*known, *known, 0, 72, 1 << 63])

    @st.composite
    def built(draw):
        event = draw(st.sampled_from(events))
        attr = event.attr
        make = RecordBuilder(attr.sample_type, read_format=attr.read_format)
        kind = draw(st.sampled_from(["sample", "sample", "sample", "any", "round", "fork"]))
        if kind == "any":
            type_ = draw(st.sampled_from([8, 9, 9, 14, 68, 1 << 31]))
            return perfdata.record(type_, draw(raw), misc=draw(st.integers(0, 7)))
        if kind == "round":
            return make.finished_round()
        if kind == "fork":
            return make.fork(5, 1, time=draw(word), id=draw(id_))
        read = None
        if attr.read_format & _GROUP:
            values = draw(st.integers(0, 2))
            rest = (attr.read_format & 3).bit_count()
            rest += values * (1 + (attr.read_format & 20).bit_count())
            read = [values, *draw(st.lists(word, min_size=rest, max_size=rest))]
        return make.sample(
            ip=draw(word),
            tid=draw(st.integers(0, 9)),
            time=draw(word),
            addr=draw(word),
            id=draw(id_),
            stream_id=draw(word),
            cpu=draw(st.integers(0, 3)),
            period=draw(st.sampled_from([1, 1, 1, 7])),
            read=read,
            chain=draw(st.lists(word, max_size=8)),
            raw=draw(raw),
            misc=draw(st.integers(0, 7)),
        )

    return built()


@pytest.fixture(autouse=True)
def small_windows(monkeypatch):
    """Bring every path of the search within the reach of a few records."""
    monkeypatch.setattr(record_starts, "WINDOW_WORDS", 64)
    monkeypatch.setattr(record_starts, "BATCH_WORDS", 256)
    monkeypatch.setattr(record_starts, "_SMALL_WORDS", 16)
    monkeypatch.setattr(record_starts, "_LEAST_RUN", 3)
    monkeypatch.setattr(record_starts, "_FEW_LANES", 1)


def columns(samples):
    chains = [()] * len(samples)
    if samples.chain_start is not None:
        bounds = samples.chain_start.tolist()
        chains = [tuple(samples.chain[a:b].tolist()) for a, b in itertools.pairwise(bounds)]
    names = ("ip", "task", "time_ns", "mode", "cpu", "period", "event")
    return list(zip(*(getattr(samples, name).tolist() for name in names), chains, strict=True))


def assert_as_defined(blocks, events):
    told = tell(blocks, events)
    found = decode([RecordBlock(memoryview(data)) for data in blocks], events)
    assert columns(found.samples) == told.samples
    assert found.counts == told.counts
    assert found.tasks.time_ns.tolist() == told.fork_times
    assert bool(found.damage) >= told.is_damaged
    return found


@given(recordings())
def test_decode_is_the_walk_of_the_chain(recording):
    events, parts = recording
    assert_as_defined([b"".join(parts)], events)


@given(recordings(), st.lists(st.integers(0, 40), max_size=6))
def test_decode_does_not_depend_on_where_blocks_end(recording, cuts):
    events, parts = recording
    bounds = sorted({0, len(parts), *(min(cut, len(parts)) for cut in cuts)})
    blocks = [b"".join(parts[a:b]) for a, b in itertools.pairwise(bounds)]
    assert_as_defined(blocks, events)


@given(recordings(), st.integers(0, 1 << 20), st.integers(0, 1 << 16))
def test_a_damaged_size_keeps_what_stands_before_it(recording, where, size):
    events, parts = recording
    data = bytearray(b"".join(parts))
    if not data:
        return
    word = where % (len(data) // 8)
    struct.pack_into("<H", data, 8 * word + 6, size & 0xFFFF)
    assert_as_defined([bytes(data)], events)


@given(recordings(), st.integers(1, 1 << 16))
def test_a_block_cut_short_keeps_its_whole_records(recording, missing):
    events, parts = recording
    data = b"".join(parts)
    data = data[: max(0, len(data) - 8 * missing % (len(data) + 8))]
    assert_as_defined([data], events)


@settings(max_examples=examples(30))
@given(st.integers(2, 1000), st.integers(0, 30), st.data())
def test_long_runs_with_look_alikes_between(count, others, data):
    make = RecordBuilder(perfdata.USUAL)
    events = [EventDescription(EventAttr(sample_type=perfdata.USUAL, flags=_SAMPLE_ID_ALL), (7,))]
    like = struct.unpack("<Q", make.sample(id=7)[:8])[0]
    parts = [make.sample(ip=row, time=row, id=7) for row in range(count)]
    for _ in range(others):
        row = data.draw(st.integers(0, count - 1))
        parts[row] += make.fork(row, 1, time=like, id=7)
        parts[row] += perfdata.record(84, struct.pack("<3Q", like, 7, like))
    found = assert_as_defined([b"".join(parts)], events)
    assert np.array_equal(found.samples.ip, np.arange(count))
    assert found.damage == ()
