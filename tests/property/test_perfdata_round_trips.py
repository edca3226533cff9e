"""Decode after encode is the identity: byte order, pieces of a stream, features, compression."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from builders import perfdata as build
from builders.examples import examples
from builders.perfdata_features import feature_string
from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr, EventDescription
from prospect.abi.recorded_facts import BuildId, RecordingInfo
from prospect.perfdata.byteorder import to_little_endian
from prospect.perfdata.feature_encoding import encode_features
from prospect.perfdata.metadata import decode_feature
from prospect.perfdata.reader import open_recording
from prospect.perfdata.stream import RecordChain
from prospect.perfdata.writer import RecordingWriter

U16 = st.integers(0, 2**16 - 1)
I32 = st.integers(-(2**31), 2**31 - 1)
U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)
NAME = st.binary(max_size=40).map(lambda name: name.replace(b"\0", b"."))
TEXT = st.text(st.characters(blacklist_characters="\0", blacklist_categories=("Cs",)), max_size=80)
FLAGS = abi.FLAG_SAMPLE_ID_ALL
# What a sample can hold and the byte order is mended for.
SWAPPED = (
    build.IP | build.TID | build.TIME | build.ADDR | build.READ | build.CALLCHAIN | build.ID
    | build.CPU | build.PERIOD | build.STREAM_ID | build.RAW | build.BRANCH_STACK
    | build.REGS_USER | build.STACK_USER | build.IDENTIFIER
)  # fmt: skip
USER_REGISTERS = 0b1011

SAMPLE = st.fixed_dictionaries(
    {
        "ip": U64,
        "pid": I32,
        "tid": I32,
        "time": U64,
        "addr": U64,
        "stream_id": U64,
        "cpu": U32,
        "period": U64,
        "chain": st.lists(U64, max_size=5),
        "raw": st.binary(max_size=30),
        "branches": st.lists(st.tuples(U64, U64, U64), max_size=3),
        "regs_user": st.none() | st.lists(U64, min_size=3, max_size=3),
        "stack_user": st.none() | st.binary(max_size=40),
    }
)
TAIL = st.fixed_dictionaries({"time": U64, "stream_id": U64, "cpu": U32})


def make(name, *positional, **named):
    """A strategy of functions that call RecordBuilder's method with drawn arguments."""
    return st.tuples(st.tuples(*positional), st.fixed_dictionaries(named), TAIL).map(
        lambda drawn: (
            lambda records, id: getattr(records, name)(  # noqa: A006 - the record's own word
                *drawn[0], **drawn[2] | drawn[1], id=id
            )
        )
    )


SIDE = st.one_of(
    make("comm", I32, I32, NAME, is_exec=st.booleans()),
    make("mmap", I32, I32, U64, U64, NAME, pgoff=U64),
    make("mmap2", I32, I32, U64, U64, NAME, inode=U64, prot=U32, device=st.tuples(U32, U32)),
    make("mmap2", I32, I32, U64, U64, NAME, build_id=st.binary(min_size=20, max_size=20)),
    make("fork", I32, I32, I32, I32),
    make("exit", I32, I32, I32, I32),
    make("lost", U64, U64),
    make("lost_samples", U64),
    make("read", I32, I32, U64, U64),
    make("aux", U64, U64, U64),
    make("itrace_start", I32, I32),
    make("switch", other=st.none() | st.tuples(I32, I32)),
    make("namespaces", I32, I32, st.lists(st.tuples(U64, U64), max_size=3)),
    make("ksymbol", U64, U32, NAME, kind=U16, flags=U16),
    make("cgroup", U64, NAME),
    make("text_poke", U64, st.binary(max_size=9), st.binary(max_size=9)),
    make("aux_output_hw_id", U64),
)


def read_group(read_format, members):
    """struct read_format of a group: its size, the times, then each member's words."""
    times = (read_format & 3).bit_count()
    words = 1 + (read_format & 4 == 4) + (read_format & 16 == 16)
    return [members, *[5] * times, *[6] * (words * members)] if read_format & 8 else None


def make_sample(fields, members):
    return lambda records, id: records.sample(  # noqa: A006 - the record's own word
        **fields, id=id, read=read_group(records.read_format, members)
    )


RECORD = SIDE | st.builds(make_sample, SAMPLE, st.integers(0, 4))


def event(sample_type, row, **attr):
    attr |= {"sample_type": sample_type, "flags": FLAGS, "sample_regs_user": USER_REGISTERS}
    return EventDescription(EventAttr(**attr), (10 + row, 20 + row))


def both_orders(drawn, builders):
    """The same records as machines of both byte orders write them."""
    return tuple(
        [
            make_record(
                replace(builders[row % len(builders)], order=order), 10 + row % len(builders)
            )
            for row, make_record in drawn
        ]
        for order in "<>"
    )


@given(st.integers(0, 2**17 - 1), st.integers(0, 31), st.lists(st.tuples(st.just(0), RECORD)))
def test_big_endian_records_become_the_little_endian_ones(sample_type, read_format, drawn):
    sample_type &= SWAPPED
    described = event(sample_type, 0, read_format=read_format)
    builder = build.RecordBuilder(sample_type, read_format=read_format)
    little, big = both_orders(drawn, [builder])
    assert to_little_endian(b"".join(big), [described]) == b"".join(little)


@given(
    st.lists(st.integers(0, 2**17 - 1), min_size=2, max_size=3),
    st.lists(st.tuples(st.integers(0, 5), RECORD), max_size=20),
)
def test_each_big_endian_record_is_read_by_its_own_events_layout(sample_types, drawn):
    sample_types = [bits & SWAPPED | build.IDENTIFIER for bits in sample_types]
    events = [event(bits, row) for row, bits in enumerate(sample_types)]
    builders = [build.RecordBuilder(bits) for bits in sample_types]
    little, big = both_orders(drawn, builders)
    assert to_little_endian(b"".join(big), events) == b"".join(little)


@settings(max_examples=examples(40))
@given(st.lists(st.tuples(st.just(0), RECORD), min_size=1), st.sampled_from(["file", "pipe", "z"]))
def test_a_recording_reads_the_same_whatever_machine_wrote_it(drawn, form):
    described = event(build.USUAL, 0)
    contents = []
    for order, records in zip("<>", both_orders(drawn, [build.RecordBuilder()]), strict=True):
        features = {3: feature_string("host", order)}
        builder = build.FileBuilder([described], records, features, order)
        forms = {"file": builder.file, "pipe": builder.pipe, "z": builder.compressed}
        contents.append(read(forms[form]()))
    little, big = contents
    assert little == big
    assert little[0].hostname == "host"
    assert little[0].events[0].attr == described.attr
    assert little[2] == []


@given(st.lists(SIDE, min_size=1), st.lists(st.integers(1, 300)), st.sampled_from("<>"))
def test_records_do_not_depend_on_the_pieces_they_arrive_in(drawn, sizes, order):
    records = build.RecordBuilder(order=order)
    parts = [make_record(records, 1) for make_record in drawn]
    parts[len(parts) // 2 : 0] = [records.auxtrace(b"\1" * 77), records.finished_round()]
    stream = b"".join(parts)

    def split(cuts):
        chain = RecordChain(order, "the stream")
        pieces = [
            (piece.type, bytes(piece.data))
            for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)
            for piece in chain.feed(stream[begin:end])
        ]
        assert chain.finish() == ""
        return b"".join(data for type_, data in pieces if not type_), [p for p in pieces if p[0]]

    cuts = sorted({min(sum(sizes[:count]), len(stream)) for count in range(1, len(sizes) + 1)})
    assert split(cuts) == split([])


INFO = st.builds(
    RecordingInfo,
    origin=st.just(""),
    events=st.just(()),
    recorded_at=st.just(0.0),
    hostname=TEXT,
    os_release=TEXT,
    arch=TEXT,
    cpus_online=U32,
    cpus_available=U32,
    cpu_description=TEXT,
    cpuid=TEXT,
    total_memory_kib=U64,
    command_line=st.lists(TEXT).map(tuple),
    perf_version=TEXT,
    build_ids=st.lists(
        st.builds(BuildId, NAME, st.binary(max_size=20), I32, st.integers(0, 7))
    ).map(tuple),
    first_sample_ns=U64,
    last_sample_ns=st.integers(0, abi.PERF_OFF_CPU_TIMESTAMP - 1),
    extras=st.dictionaries(TEXT, st.recursive(U64 | TEXT | st.booleans(), st.lists, max_leaves=5)),
)


@given(INFO)
def test_features_decode_to_what_was_encoded(info):
    facts = {}
    for bit, content in encode_features(info, []):
        facts |= decode_feature(bit, content, "<")
    facts.pop("events", None)
    assert RecordingInfo(**facts) == info


@settings(max_examples=examples(40))
@given(
    st.lists(st.tuples(st.lists(U64, max_size=4, unique=True), TEXT), min_size=1, max_size=4),
    st.lists(U64, max_size=30),
    INFO,
)
def test_a_written_recording_reads_back(named_ids, more_ids, info):
    events = [
        EventDescription(
            EventAttr(config=row, sample_type=build.USUAL), tuple(ids), f"{row} {name}"
        )
        for row, (ids, name) in enumerate(named_ids)
    ]
    with tempfile.TemporaryFile() as file:
        writer = RecordingWriter(file.fileno(), events)
        os.write(file.fileno(), build.RecordBuilder().sample())
        events[-1] = events[-1]._replace(ids=tuple(more_ids) or events[-1].ids)
        writer.finish(info, events)
        file.seek(0)
        content = file.read()
    got, data, damage = read(content)
    first_ids = [e.ids[0] for e in events if e.ids]
    if len(set(first_ids)) == len(first_ids):
        assert got.events == tuple(events)
    assert got._replace(events=()) == info._replace(
        origin=got.origin, recorded_at=got.recorded_at, events=()
    )
    assert (data, damage) == (build.RecordBuilder().sample(), [])


def read(content):
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "perf.data")
        path.write_bytes(content)
        os.utime(path, (0, 0))
        with open_recording(str(path)) as recording:
            data = b"".join(block.data for block in recording.blocks())
            return recording.info._replace(origin=""), data, recording.damage
