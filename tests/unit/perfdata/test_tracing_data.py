"""The section of tracepoints, read back as trace_report() of perf reads it."""

import struct

from prospect.perfdata.tracing_data import encode_tracing_data


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
