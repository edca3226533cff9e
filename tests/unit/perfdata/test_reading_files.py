"""Files in every form, from the builder's independent layouts, and what is said of damage."""

from __future__ import annotations

import gc
import os
import struct

import pytest
import zstandard

from builders.perfdata import CALLCHAIN, ID, STACK_USER, USUAL, FileBuilder, RecordBuilder, record
from builders.perfdata_features import (
    build_id_record,
    feature_event_desc,
    feature_strings,
)
from builders.usual_file import (
    BUILDER,
    CLOCK,
    DATA,
    DUMMY,
    FLAGS,
    RECORDS,
    USUAL_RECORDS,
    bytes_of,
    features,
)
from prospect.abi.attr import EventAttr, EventDescription
from prospect.abi.recorded_facts import BuildId
from prospect.events.decode import decode
from prospect.files.held_files import MAPPED_FROM_BYTES
from prospect.perfdata.reader import open_recording
from prospect.perfdata.tracing_data import encode_tracing_data
from prospect.records import replace


def test_a_plain_file_is_one_block_over_the_mapping(opened):
    content = BUILDER.file()
    _, blocks, damage = opened(content)
    assert damage == []
    assert len(blocks) == 1
    assert blocks[0].data == DATA
    assert blocks[0].data.readonly
    assert content[blocks[0].file_offset :].startswith(DATA)


def test_a_file_can_be_written_to_as_soon_as_it_was_read(tmp_path):
    """A mapping that only the garbage collector frees keeps its lease: writers wait 45 s."""
    path = tmp_path / "perf.data"
    path.write_bytes(BUILDER.file() + bytes(MAPPED_FROM_BYTES))
    gc.disable()
    try:
        with open_recording(str(path)) as recording:
            assert [block.data for block in recording.blocks()] == [DATA]
        del recording
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
    finally:
        gc.enable()


def check_info(info):
    assert [event.name for event in info.events] == ["cpu-clock:ppp", "dummy:HG"]
    assert [event.ids for event in info.events] == [(1, 2), (3, 4)]
    assert info.events[0].attr == CLOCK.attr
    assert (info.hostname, info.os_release, info.perf_version) == ("host", "6.1", "6.1.0")
    assert (info.arch, info.cpus_available, info.cpus_online) == ("s390x", 8, 6)
    assert (info.cpu_description, info.cpuid, info.total_memory_kib) == ("CPU", "1,2,3", 4096)
    assert info.command_line == ("perf", "record", "-a")
    assert info.build_ids == (
        BuildId(b"/bin/make", bytes(20), -1, 2),
        BuildId(b"[kernel.kallsyms]", b"\1" * 20, -1, 1),
    )
    assert (info.first_sample_ns, info.last_sample_ns) == (10, 2009)
    assert info.started_at == 1_700_000_000


def test_features_are_read(opened):
    check_info(opened(BUILDER.file())[0])


def test_a_stream_gives_the_same_facts(opened):
    stream = {bit: content for bit, content in features().items() if bit != 2}
    build_ids = [
        build_id_record(b"/bin/make", bytes(20), type_=67),
        build_id_record(b"[kernel.kallsyms]", b"\1" * 20, misc=1, sized=False, type_=67),
    ]
    content = FileBuilder([CLOCK, DUMMY], USUAL_RECORDS, stream).pipe(build_ids=build_ids)
    info, blocks, damage = opened(content)
    check_info(info)
    assert bytes_of(blocks) == DATA
    assert damage == []


@pytest.mark.parametrize("attr_size", [64, 72, 112, 120, 136, 144])
def test_attrs_of_every_published_size_are_read(opened, attr_size):
    info, _, _ = opened(FileBuilder([CLOCK], USUAL_RECORDS, attr_size=attr_size).file())
    assert info.events == (CLOCK._replace(name="cpu-clock"),)


@pytest.mark.parametrize("two", [False, True])
@pytest.mark.parametrize("piece", [7, 1000, 60_000])
def test_compressed_records_are_unpacked_across_their_cuts(opened, two, piece):
    info, blocks, damage = opened(BUILDER.compressed(two=two, piece=piece))
    assert bytes_of(blocks) == DATA
    assert damage == []
    assert info.hostname == "host"


@pytest.mark.parametrize("level", [1, 22])
@pytest.mark.parametrize("samples", [8, 15, 16, 17, 539])
def test_the_end_of_a_compressed_recording_is_read(opened, samples, level):
    # Zstandard holds back what does not fit into its output buffer of 128 KiB.
    content, data = with_stacks(samples, level)
    _, blocks, damage = opened(content)
    assert damage == []
    assert bytes_of(blocks) == data


def test_stack_copies_are_unpacked_at_the_ratio_that_they_reach(opened, monkeypatch):
    monkeypatch.setattr("prospect.perfdata.stream.FREE_BYTES", 1 << 20)
    content, data = with_stacks(539, 22)
    assert len(data) > 600 * len(content)
    _, blocks, damage = opened(content)
    assert damage == []
    assert bytes_of(blocks) == data


def with_stacks(samples, level):
    """A compressed recording of samples with equal copies of the stack, and its records."""
    clock = CLOCK._replace(attr=EventAttr(sample_type=USUAL | STACK_USER, flags=FLAGS))
    build = RecordBuilder(USUAL | STACK_USER)
    stack = bytes(range(256)) * 32
    records = [build.sample(ip=i, time=i, id=1, stack_user=stack) for i in range(samples)]
    return FileBuilder([clock], records).compressed(level=level), b"".join(records)


def test_each_compressed_record_may_be_a_frame_of_its_own(opened):
    packed = [
        zstandard.compress(b"".join(USUAL_RECORDS[at : at + 500]))
        for at in range(0, len(USUAL_RECORDS), 500)
    ]
    content = FileBuilder([CLOCK], [record(83, struct.pack("<Q", len(p)) + p) for p in packed])
    _, blocks, damage = opened(content.pipe())
    assert damage == []
    assert bytes_of(blocks) == DATA


def test_plain_records_between_compressed_ones_stay(opened):
    packed = BUILDER.compress(piece=500)
    lost = RECORDS.lost(1, 77)
    mixed = [packed[0], lost, *packed[1:], lost]
    content = FileBuilder([CLOCK], mixed, {27: struct.pack("<5I", 1, 1, 1, 1, 4096)}).file()
    _, blocks, damage = opened(content)
    assert damage == []
    assert bytes_of(blocks).count(lost) == 2
    assert bytes_of(blocks).replace(lost, b"") == DATA


SIMPLEPERF = {
    11: feature_strings(["simpleperf", "record", "-a"]),
    129: b"simpleperf_version\x001.build.7848450\0timestamp\x001696864401\0"
    b"event_type_info\0cpu-clock,1,0\nsched:sched_switch,2,45\nodd,,x\n\xff\0",
}
TRACING = encode_tracing_data(b"page", b"event", {"sched": [b"name: sched_switch\nID: 45\n"]})
SWITCH = EventDescription(EventAttr(type=2, config=45, sample_type=USUAL, flags=FLAGS), (5,))


def simpleperf_record(type_, body):
    """A record with a size of 32 bits, the upper half in the place of `misc`."""
    size = 8 + len(body)
    return struct.pack("<IHH", type_, size >> 16, size & 0xFFFF) + body


def of_simpleperf():
    """Records as simpleperf writes them: its own before, between and behind the kernel's."""
    kallsyms = simpleperf_record(32769, struct.pack("<I", 300_000) + b"k" * 300_000)
    event_ids = simpleperf_record(32774, struct.pack("<QQQ", 1, 0, 1))
    # Its size in 16 bits alone is that of a possible record.
    large = simpleperf_record(32777, b"\0\0\1\0" + struct.pack("<IHH", 9, 0, 16) + bytes(0x20000))
    first, *others = USUAL_RECORDS
    return [kallsyms, first, event_ids, *others[:999], large, *others[999:]]


@pytest.mark.parametrize("features", [SIMPLEPERF, {}], ids=["named", "its first version"])
def test_records_of_simpleperf_are_passed_over(opened, features):
    content = FileBuilder([CLOCK, SWITCH], of_simpleperf(), features).file()
    _, blocks, damage = opened(content)
    assert bytes_of(blocks) == DATA
    assert damage == []


def test_a_record_of_simpleperf_that_is_cut_is_damage(opened):
    content = FileBuilder([CLOCK], [*USUAL_RECORDS, simpleperf_record(32769, bytes(70_000))]).pipe()
    _, blocks, damage = opened(content[:-1])
    assert bytes_of(blocks) == DATA
    assert len(damage) == 1


def test_simpleperf_tells_its_version_its_events_and_when_it_ended(opened):
    info, _, _ = opened(FileBuilder([CLOCK, SWITCH], of_simpleperf(), SIMPLEPERF).file())
    assert info.perf_version == "simpleperf-1.build.7848450"
    assert [event.name for event in info.events] == ["cpu-clock", "sched:sched_switch"]
    assert info.ended_at == 1_696_864_401


@pytest.mark.parametrize("piece_bytes", [1 << 20, 40])
def test_piped_tracepoints_have_the_names_of_their_formats(opened, monkeypatch, piece_bytes):
    monkeypatch.setattr("prospect.perfdata.reader._PIECE_BYTES", piece_bytes)
    content = FileBuilder([SWITCH], [RECORDS.comm(5, 5, "make", id=5)]).pipe(
        names=False, tracing=TRACING
    )
    info, _, damage = opened(content)
    assert [event.name for event in info.events] == ["sched:sched_switch"]
    assert damage == []
    of_file = FileBuilder([SWITCH], [RECORDS.comm(5, 5, "make", id=5)], {1: TRACING}).file()
    assert [event.name for event in opened(of_file)[0].events] == ["sched:sched_switch"]


def test_trace_data_outside_the_chain_is_taken_out(opened):
    trace = RECORDS.auxtrace(b"\xff" * 3_000_000)
    cut = [USUAL_RECORDS[0], trace, *USUAL_RECORDS[1:]]
    _, blocks, damage = opened(FileBuilder([CLOCK], cut, {18: b""}).file())
    assert bytes_of(blocks) == DATA
    assert damage == []


def test_tracing_data_of_a_stream_is_taken_out(opened):
    content = FileBuilder([CLOCK], USUAL_RECORDS).pipe(tracing=TRACING + b"\x09" * 4001)
    _, blocks, damage = opened(content)
    assert bytes_of(blocks) == DATA
    assert damage == []


def cpu_map(size=38):
    """Return a CPU_MAP as perf 4.17 writes it: its size follows its mask, not whole words."""
    return struct.pack("<IHH", 74, 0, size) + bytes(size - 8)


FORMS = {
    "file": lambda builder: builder.file(),
    "pipe": lambda builder: builder.pipe(),
    "compressed": lambda builder: builder.compressed(piece=500),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("places", [[0], [1, 700], [len(USUAL_RECORDS)]])
def test_records_of_perf_may_have_any_size_anywhere(tmp_path, form, places):
    records = list(USUAL_RECORDS)
    for place in reversed(places):
        records[place:place] = [cpu_map(38), cpu_map(41)]
    expected = decoded(tmp_path, form(FileBuilder([CLOCK], USUAL_RECORDS)))
    found = decoded(tmp_path, form(FileBuilder([CLOCK], records)))
    assert len(found.samples.time_ns) == len(expected.samples.time_ns) > 1000
    assert (found.samples.time_ns == expected.samples.time_ns).all()
    assert (found.damage, found.unread_bytes) == ((), 0)


@pytest.mark.parametrize("left", [1, 41, 45, 60])
def test_a_file_cut_behind_such_a_record_keeps_what_is_whole(tmp_path, left):
    whole = FileBuilder([CLOCK], [*USUAL_RECORDS, cpu_map(38), *USUAL_RECORDS]).file()
    found = decoded(tmp_path, whole[: whole.index(cpu_map(38)) + left])
    expected = decoded(tmp_path, FileBuilder([CLOCK], USUAL_RECORDS).file())
    assert len(found.samples.time_ns) == len(expected.samples.time_ns)
    assert found.unread_bytes == 0


def test_only_records_of_perf_may_have_any_size(tmp_path):
    broken = struct.pack("<IHH", 3, 0, 38) + bytes(30)
    found = decoded(tmp_path, FileBuilder([CLOCK], [broken, *USUAL_RECORDS]).file())
    assert "claims 38 bytes" in found.damage[0]
    assert found.unread_bytes == 38 + len(DATA)


def decoded(tmp_path, content):
    path = tmp_path / "perf.data"
    path.write_bytes(content)
    with open_recording(str(path)) as recording:
        found = decode(recording.blocks(), recording.info.events, recording.damage)
        return replace(found, unread_bytes=found.unread_bytes + recording.unread_bytes)


def test_tracing_data_inside_its_record_is_not_skipped_twice(opened):
    """simpleperf's record has it inside, rounded up to a multiple of 64."""
    record_66 = struct.pack("<IHHI", 66, 0, 12 + 128, 100) + bytes(128)
    _, blocks, damage = opened(FileBuilder([CLOCK], [record_66, *USUAL_RECORDS], SIMPLEPERF).file())
    assert bytes_of(blocks) == DATA
    assert damage == []


def test_records_of_perf_stay_in_a_stream_except_its_metadata(opened):
    others = [RECORDS.id_index([(1, 0, 0, 0)]), RECORDS.time_conv(), RECORDS.finished_round()]
    _, blocks, _ = opened(FileBuilder([CLOCK], [*others, *USUAL_RECORDS]).pipe())
    assert bytes_of(blocks) == b"".join(others) + DATA


def test_a_long_stream_comes_in_several_blocks_of_whole_records(opened):
    sample = RecordBuilder(USUAL | CALLCHAIN).sample(chain=range(1000), id=1)
    _, blocks, damage = opened(FileBuilder([CLOCK], [sample] * 3000).pipe())
    assert len(blocks) > 1
    assert all(len(block.data) % len(sample) == 0 for block in blocks)
    assert bytes_of(blocks) == sample * 3000
    assert damage == []


def test_names_follow_the_ids_when_the_descriptions_do_not_fit(opened):
    section = {12: feature_event_desc([DUMMY, CLOCK])}
    info, _, _ = opened(FileBuilder([CLOCK, DUMMY], USUAL_RECORDS, section).file())
    assert [event.name for event in info.events] == ["cpu-clock:ppp", "dummy:HG"]


def test_nothing_is_read_into_the_feature_bits_of_old_files(opened):
    content = bytearray(FileBuilder([CLOCK], USUAL_RECORDS).file())
    struct.pack_into("<Q", content, 8, 72)
    content[72:104] = b"\xff" * 32
    info, blocks, damage = opened(bytes(content))
    assert bytes_of(blocks) == DATA
    assert damage == []
    assert info.hostname == ""


# Damage ----------------------------------------------------------------------------------------


def test_a_size_of_zero_reads_up_to_the_end_of_the_file(opened):
    content = FileBuilder([CLOCK], USUAL_RECORDS, data_size=0).file()
    _, blocks, damage = opened(content)
    assert bytes_of(blocks) == DATA
    assert len(damage) == 1


def test_id_instead_of_identifier_is_read_like_perf_writes_it(opened):
    sample_type = USUAL & ~(1 << 16) | ID
    event = EventDescription(EventAttr(sample_type=sample_type, flags=FLAGS), (9,), "x")
    sample = RecordBuilder(sample_type).sample(ip=5, id=9)
    _, blocks, damage = opened(FileBuilder([event], [sample] * 10).file())
    assert bytes_of(blocks) == sample * 10
    assert damage == []
