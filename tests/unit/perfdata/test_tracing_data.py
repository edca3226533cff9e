"""The section of tracepoints, read back as trace_report() of perf reads it."""

import struct

import pytest

from prospect.errors import RecordingError
from prospect.perfdata.tracing_data import described_tracepoints, encode_tracing_data


def take(data, at, form):
    return struct.unpack_from(form, data, at)[0], at + struct.calcsize(form)


def sized(data, at):
    size, at = take(data, at, "<Q")
    return data[at : at + size], at + size


def word(data, at):
    end = data.index(b"\0", at)
    return data[at:end], end + 1


def test_it_reads_back():
    formats = {"sched": [b"one", b"two"], "irq": [b"three"]}
    data = encode_tracing_data(b"page", b"event", formats)
    assert data[:10] == b"\x17\x08\x44tracing"
    version, at = word(data, 10)
    assert version == b"0.6"
    assert data[at : at + 2] == b"\0\x08"
    at += 6
    for name, content in ((b"header_page", b"page"), (b"header_event", b"event")):
        found, at = word(data, at)
        assert found == name
        found, at = sized(data, at)
        assert found == content
    own, at = take(data, at, "<I")
    groups, at = take(data, at, "<I")
    assert (own, groups) == (0, 2)
    read = {}
    for _ in range(groups):
        group, at = word(data, at)
        count, at = take(data, at, "<I")
        files = []
        for _ in range(count):
            file, at = sized(data, at)
            files.append(file)
        read[group.decode()] = files
    assert read == formats
    assert data[at:] == bytes(16)


SCHED = b"name: sched_switch\nID: 372\nformat:\n\tfield:unsigned short common_type;\n"
SECTION = encode_tracing_data(
    b"page", b"event", {"sched": [SCHED], "irq": [b"name: softirq_entry\nID: 5\n", b"odd"]}
)


def test_names_of_tracepoints_are_read_by_their_numbers():
    described = described_tracepoints(memoryview(SECTION))
    assert {number: one.name for number, one in described.items()} == {
        372: "sched:sched_switch",
        5: "irq:softirq_entry",
    }


WAKING = b"""name: sched_waking
ID: 371
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:char comm[16];\toffset:12;\tsize:16;\tsigned:0;
\tfield:pid_t pid;\toffset:%d;\tsize:4;\tsigned:1;
"""


@pytest.mark.parametrize(("offset", "fields"), [(28, ((28, 4), (0, 2))), (27, ())])
def test_fields_stand_where_the_kernel_of_the_recording_put_them(offset, fields):
    section = encode_tracing_data(b"page", b"event", {"sched": [WAKING % offset, SCHED]})
    described = described_tracepoints(memoryview(section))
    assert described[371].fields == fields
    assert described[372].fields == ()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("line", [b"\tfield:", b"\tfield:\n", b"\n\tfield:" + b" next_pid" * 100])
def test_formats_of_fields_without_an_end_cost_no_more_than_their_length(line):
    head = b"name: sched_switch\nID: 372\n"
    hostile = head + line * (70_000 // len(line))
    section = encode_tracing_data(b"page", b"event", {"sched": [hostile] * 100})
    assert described_tracepoints(memoryview(section))[372].fields == ()


@pytest.mark.parametrize("size", [0, 9, 10, 20, 60, 120, len(SECTION) - 60])
def test_a_cut_section_is_our_own_error(size):
    with pytest.raises(RecordingError):
        described_tracepoints(memoryview(SECTION[:size]))
