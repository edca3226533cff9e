"""Files in every form, from the builder's independent layouts, and what is said of damage."""

from __future__ import annotations

import contextlib
import os
import struct

import pytest
import zstandard

from builders.perfdata import (
    CALLCHAIN,
    ID,
    STACK_USER,
    USUAL,
    FileBuilder,
    RecordBuilder,
    build_id_record,
    feature_event_desc,
    feature_string,
    feature_strings,
    record,
)
from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr
from prospect.abi.block import EventDescription
from prospect.abi.recording import BuildId
from prospect.errors import RecordingError
from prospect.perfdata.reader import open_recording
from prospect.perfdata.tracing_data import encode_tracing_data

FLAGS = abi.FLAG_SAMPLE_ID_ALL | abi.FLAG_FREQ
CLOCK = EventDescription(EventAttr(sample_type=USUAL, flags=FLAGS), (1, 2), "cpu-clock:ppp")
DUMMY = EventDescription(EventAttr(config=9, sample_type=USUAL, flags=FLAGS), (3, 4), "dummy:HG")
RECORDS = RecordBuilder(USUAL)
USUAL_RECORDS = [
    RECORDS.comm(5, 5, "make", is_exec=True, time=1, id=1),
    RECORDS.mmap2(5, 5, 0x1000, 0x2000, "/bin/make", inode=7, time=2, id=1),
    *(RECORDS.sample(ip=0x1000 + i, pid=5, tid=5, time=10 + i, id=1) for i in range(2000)),
    RECORDS.finished_round(),
    RECORDS.exit(5, 1, time=9999, id=1),
]
DATA = b"".join(USUAL_RECORDS)


def features(order="<"):
    return {
        2: build_id_record(b"/bin/make", bytes(20), order=order)
        + build_id_record(b"[kernel.kallsyms]", b"\1" * 20, misc=1, sized=False, order=order),
        3: feature_string("host", order),
        4: feature_string("6.1", order),
        5: feature_string("6.1.0", order),
        6: feature_string("s390x", order),
        7: struct.pack(order + "II", 8, 6),
        8: feature_string("CPU", order),
        9: feature_string("1,2,3", order),
        10: struct.pack(order + "Q", 4096),
        11: feature_strings(["perf", "record", "-a"], order),
        12: feature_event_desc([CLOCK, DUMMY], order),
        13: b"topology that nobody reads",
        21: struct.pack(order + "QQ", 10, 2009),
        29: struct.pack(order + "IIQQ", 1, 1, 1_700_000_000 * 10**9, 5),
    }


BUILDER = FileBuilder([CLOCK, DUMMY], USUAL_RECORDS, features())


@pytest.fixture
def opened(tmp_path):
    def read(content):
        path = tmp_path / "perf.data"
        path.write_bytes(content)
        with open_recording(str(path)) as recording:
            blocks = list(recording.blocks())
            return recording.info, blocks, recording.damage

    return read


def bytes_of(blocks):
    return b"".join(block.data for block in blocks)


def test_a_plain_file_is_one_block_over_the_mapping(opened):
    content = BUILDER.file()
    _, blocks, damage = opened(content)
    assert damage == []
    assert len(blocks) == 1
    assert blocks[0].data == DATA
    assert blocks[0].data.readonly
    assert content[blocks[0].file_offset :].startswith(DATA)


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
    monkeypatch.setattr("prospect.perfdata.compression._FREE_BYTES", 1 << 20)
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


def test_a_cut_file_gives_what_is_whole_and_says_what_is_missing(opened):
    content = BUILDER.file()
    at = content.index(DATA) + 1003
    info, blocks, damage = opened(content[:at])
    assert bytes_of(blocks) == DATA[:1000]
    assert any(f"1003 of {len(DATA)} bytes" in sentence for sentence in damage)
    assert any("14 of 14 feature sections are missing" in sentence for sentence in damage)
    assert len(info.events) == 2


def test_a_feature_beyond_the_end_is_named_and_the_rest_read(opened):
    content = bytearray(BUILDER.file())
    table = content.index(DATA) + len(DATA)
    struct.pack_into("<Q", content, table + 16, 1 << 60)
    info, blocks, damage = opened(bytes(content))
    assert damage == ["the HOSTNAME section stands beyond the end of the file"]
    assert (info.hostname, info.os_release) == ("", "6.1")
    assert bytes_of(blocks) == DATA


def test_a_damaged_feature_is_named_and_the_rest_read(opened):
    broken = features() | {3: struct.pack("<I", 1 << 31) + b"x"}
    info, _, damage = opened(FileBuilder([CLOCK], USUAL_RECORDS, broken).file())
    assert len(damage) == 1
    assert "HOSTNAME" in damage[0]
    assert (info.hostname, info.os_release) == ("", "6.1")


@pytest.mark.parametrize("content", [b"{", b"[1]", b"[" * 100_000, b"\xff", b'{"a":' + b"9" * 5000])
def test_own_facts_that_are_no_json_object_are_damage(opened, content):
    section = b"PROSPECT" + struct.pack("<II", 1, len(content)) + content
    info, blocks, damage = opened(FileBuilder([CLOCK], USUAL_RECORDS, {255: section}).file())
    assert info.extras == {}
    assert len(damage) == 1
    assert bytes_of(blocks) == DATA


@pytest.mark.parametrize("size", [0, 4, 13])
def test_a_broken_chain_stops_there_and_names_the_offset(opened, size):
    bad = struct.pack("<IHH", 9, 0, size) + bytes(8)
    content = FileBuilder([CLOCK], [USUAL_RECORDS[0], bad, *USUAL_RECORDS]).pipe()
    _, blocks, damage = opened(content)
    assert bytes_of(blocks) == USUAL_RECORDS[0]
    assert len(damage) == 1
    assert f"byte {content.index(bad)} " in damage[0]


def test_a_stream_that_ends_within_a_record_names_the_offset(opened):
    content = FileBuilder([CLOCK], USUAL_RECORDS).pipe()
    _, blocks, damage = opened(content[:-5])
    assert bytes_of(blocks) == b"".join(USUAL_RECORDS[:-1])
    assert damage == [f"the recording ends within the record at byte {len(content) - 64}"]


def test_a_stream_that_ends_within_trace_data_says_so(opened):
    content = FileBuilder([CLOCK], [*USUAL_RECORDS, RECORDS.auxtrace(bytes(800))]).pipe()
    _, blocks, damage = opened(content[:-8])
    assert bytes_of(blocks) == DATA
    assert "payload" in damage[0]


def test_damaged_compression_loses_what_follows_but_not_what_came_before(opened):
    # Behind the flushed blocks three bytes of ones are a block header of no known kind.
    garbage = record(81, b"\xff" * 56)
    lost = RECORDS.lost(1, 5)
    packed = [*BUILDER.compress(piece=500), garbage, *BUILDER.compress(), lost]
    content = FileBuilder([CLOCK], packed, {27: struct.pack("<5I", 1, 1, 1, 1, 4096)}).file()
    _, blocks, damage = opened(content)
    assert bytes_of(blocks) == DATA + lost
    assert len(damage) == 1
    assert f"from byte {content.index(garbage)} on are lost" in damage[0]


def test_unknown_compression_is_named(opened):
    section = struct.pack("<5I", 1, 7, 1, 1, 4096)
    _, _, damage = opened(FileBuilder([CLOCK], USUAL_RECORDS, {27: section}).file())
    assert "compression 7 is unknown" in damage[0]


def test_a_compressed_record_that_lies_about_its_size_is_damage(opened):
    bad = record(83, struct.pack("<Q", 1 << 40) + bytes(16))
    _, blocks, damage = opened(FileBuilder([CLOCK], [bad, *USUAL_RECORDS]).pipe())
    assert bytes_of(blocks) == DATA
    assert len(damage) == 1


@pytest.mark.parametrize("end", [0, 7, 8, 15, 16, 71, 72, 103, 104, 120, 200, 256])
def test_a_file_cut_in_its_head_is_our_own_error(opened, end):
    with pytest.raises(RecordingError):
        opened(BUILDER.file()[:end])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"\x7fELF" + bytes(200), "not a perf.data recording"),
        (b"PERFFILE" + bytes(200), "before Linux 3.6"),
        (b"PERFILE2" + struct.pack("<12Q", 200, *[0] * 11), "header of 200 bytes"),
        (b"PERFILE2" + struct.pack("<12Q", 104, 10, *[0] * 10), "attributes of 10 bytes"),
        (b"PERFILE2" + struct.pack("<12Q", 104, 152, *[0] * 10), "describes no event"),
        (b"PERFILE2" + struct.pack("<Q", 16) + RECORDS.comm(1, 1, "x"), "describes no event"),
    ],
)
def test_what_is_no_recording_is_said_in_one_line_with_its_path(opened, tmp_path, content, words):
    with pytest.raises(RecordingError, match=words) as caught:
        opened(content)
    assert str(caught.value).startswith(f"{tmp_path / 'perf.data'}: ")
    assert "\n" not in str(caught.value)


def test_a_section_size_close_to_2_to_the_64_takes_no_memory(opened):
    for field in range(2, 8):
        content = bytearray(BUILDER.file())
        struct.pack_into("<Q", content, 8 + 8 * field, (1 << 64) - 8)
        with contextlib.suppress(RecordingError):
            opened(bytes(content))


def test_ids_shared_by_many_events_cannot_grow_beyond_the_file(opened):
    content = bytearray(FileBuilder([CLOCK] * 200, USUAL_RECORDS).file())
    for row in range(200):
        struct.pack_into("<QQ", content, 104 + 200 * 16 + row * 152 + 136, 0, len(content))
    info, _, _ = opened(bytes(content))
    assert sum(len(event.ids) for event in info.events) <= len(content) // 8


def test_paths_that_are_no_regular_file_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", tmp_path, tmp_path / "missing", "/dev/zero", "a\0b"):
        with pytest.raises(RecordingError):
            open_recording(str(path))


def test_id_instead_of_identifier_is_read_like_perf_writes_it(opened):
    sample_type = USUAL & ~(1 << 16) | ID
    event = EventDescription(EventAttr(sample_type=sample_type, flags=FLAGS), (9,), "x")
    sample = RecordBuilder(sample_type).sample(ip=5, id=9)
    _, blocks, damage = opened(FileBuilder([event], [sample] * 10).file())
    assert bytes_of(blocks) == sample * 10
    assert damage == []


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("data", "kcore_dir"), "perf record --kcore: give the file data in it"),
        (("data", "data.0", "data.1"), "perf record --threads, whose samples are in several files"),
        (("data",), "give the file data in it"),
        ((), "a directory, not a recording"),
    ],
)
def test_a_directory_says_what_it_is(tmp_path, names, words):
    for name in names:
        (tmp_path / name).mkdir()
    with pytest.raises(RecordingError, match=words), open_recording(str(tmp_path)):
        pass
