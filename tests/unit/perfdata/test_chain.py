"""The chain of a stream's records: what stands between them."""

from __future__ import annotations

import struct

import pytest

from prospect.perfdata import format as fmt
from prospect.perfdata.stream import RecordChain


def with_payload(payload):
    """A record of perf that describes tracepoints, and its payload."""
    head = struct.pack("<IHH", fmt.PERF_RECORD_HEADER_TRACING_DATA, 0, 12)
    return head + struct.pack("<I", len(payload)) + payload


def fed(*pieces):
    chain = RecordChain("<", "the stream")
    for piece in pieces:
        for _ in chain.feed(piece):
            pass
    return chain


def test_payloads_of_tracepoints_are_one_whatever_pieces_they_come_in():
    stream = with_payload(b"one") + with_payload(b"two")
    assert fed(stream).tracing_data == b"onetwo"
    assert fed(*(stream[at : at + 1] for at in range(len(stream)))).tracing_data == b"onetwo"


def test_what_is_kept_of_them_is_bounded(monkeypatch):
    monkeypatch.setattr("prospect.perfdata.stream.MOST_TRACING_BYTES", 4)
    assert fed(with_payload(b"one") + with_payload(b"two")).tracing_data == b"onet"


@pytest.mark.timeout(60)
def test_many_short_payloads_cost_no_more_than_their_length():
    """Each added to a copy of all before would be a terabyte copied."""
    chain = fed(with_payload(bytes(7 << 20)), with_payload(b"x") * 150_000)
    assert len(chain.tracing_data) == (7 << 20) + 150_000
