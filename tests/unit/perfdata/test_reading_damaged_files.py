"""What of a damaged perf.data file is read, and what is said of the rest."""

from __future__ import annotations

import contextlib
import os
import struct

import pytest

from builders.perfdata import FileBuilder, record
from builders.usual_file import (
    BUILDER,
    CLOCK,
    DATA,
    RECORDS,
    USUAL_RECORDS,
    bytes_of,
    features,
)
from prospect.errors import RecordingError
from prospect.perfdata.reader import open_recording


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
    assert damage == ["the HOSTNAME section is beyond the end of the file"]
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


def test_a_last_sample_without_a_time_is_no_end(opened):
    # perf record --off-cpu ends with waits whose times only sort them.
    section = struct.pack("<QQ", 10, (0xFFFF_FFFF << 32) + 4)
    info, _, damage = opened(FileBuilder([CLOCK], USUAL_RECORDS, {21: section}).file())
    assert (info.first_sample_ns, info.last_sample_ns) == (0, 0)
    assert damage == []


def test_unknown_compression_is_named(opened):
    section = struct.pack("<5I", 1, 7, 1, 1, 4096)
    _, _, damage = opened(FileBuilder([CLOCK], USUAL_RECORDS, {27: section}).file())
    assert "compression 7 is unknown" in damage[0]


def test_counts_of_perf_stat_are_said_to_be_no_samples(opened):
    # perf stat sets every feature's bit, and leaves COMPRESSED empty.
    content = FileBuilder([CLOCK], [], {19: b"", 27: bytes(20)}).file()
    with pytest.raises(RecordingError, match="no samples: perf stat report shows them"):
        opened(content)
    counts = [record(75, bytes(24)), record(76, bytes(40)), record(75, bytes(24))]
    _, _, damage = opened(FileBuilder([CLOCK], counts).pipe())
    assert damage == ["it has counts and no samples: perf stat report shows them"]


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
        (
            b"PERFILE2"
            + struct.pack("<12Q", 104, 152, 104, 0, 104, 16, *[0] * 6)
            + record(85, bytes(8)),
            "no samples: perf sched stats report shows them",
        ),
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
