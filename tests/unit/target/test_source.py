"""What arrives from a sampler on a target: whole parts, whatever its pieces, and never trusted."""

from __future__ import annotations

import json
import struct

import pytest

from prospect.errors import CaptureError
from prospect.live.chosen import Whom
from prospect.live.source import Mark
from prospect.target.relay_stream import FrameError
from prospect.target.serving import CHUNK, ENDED, MARK, RECORDS, WHOM
from prospect.target.target_source import _Arrived, _mark_in, _over

AT = struct.Struct("<Q")
HOUR = 3600.0
TIMES = {"cpu": [1, 2, 3]}
BEGIN = Mark(10**9, 1000.0 - HOUR, TIMES, {7: 2, 8: 0}, {}, {0: 10**9 - 7})
END = Mark(3 * 10**9, 1002.0 - HOUR, {"cpu": [5, 6, 7]}, {7: 5, 8: 1}, {}, {0: 2, 1: 3})
EXTRAS = {
    "clocks": [{"period_ns": 1, "ids": [7, 8], "cpus": [0, 1]}],
    "proc_stat": {"hz": 250, "start": {}, "end": {}},
    "interval_ns": [0, 1],
}


def chunk(letter, content):
    return CHUNK.pack(letter, len(content)) + content


def said(mark, **extras):
    return chunk(MARK, json.dumps({"mark": mark, "extras": extras}).encode())


@pytest.mark.parametrize("size", [1, 13, 1 << 16])
def test_parts_come_whole_in_pieces_of_any_size(size):
    stream = said(BEGIN) + chunk(RECORDS, b"first") + said(END, a=1) + chunk(RECORDS, b"not yet")
    arrived = _Arrived()
    for at in range(0, len(stream), size):
        arrived.write(AT.pack(at) + stream[at : at + size])
    assert arrived.take() == (b"first", [(BEGIN, {}, None), (END, {"a": 1}, None)])
    arrived.write(AT.pack(len(stream)) + said(END))
    assert arrived.take()[0] == b"not yet"
    arrived.end("it was lost")
    with pytest.raises(CaptureError, match="it was lost"):
        arrived.wait_for_mark(1)


@pytest.mark.parametrize("members", [(7, 9), None])
def test_whom_a_session_follows_is_said_there(members):
    whom = Whom("process 7 (it)", (7,), members)
    arrived = _Arrived()
    stream = chunk(WHOM, json.dumps(whom).encode())
    arrived.write(AT.pack(0) + stream)
    assert (arrived.whom, arrived.has_ended) == (whom, False)
    arrived.write(AT.pack(len(stream)) + chunk(ENDED, b""))
    assert arrived.has_ended


@pytest.mark.parametrize(
    "content",
    [
        AT.pack(5) + b"not the beginning",
        AT.pack(0) + CHUNK.pack(RECORDS, 1 << 40),
        AT.pack(0) + chunk(MARK, b"{}"),
        AT.pack(0) + chunk(MARK, b"["),
        AT.pack(0) + chunk(MARK, b'{"mark": [1, 2, {"cpu": "x"}, {}]}'),
        AT.pack(0) + chunk(MARK, b'{"mark": [1, 2, {}, {}], "extras": 5}'),
        AT.pack(0) + chunk(MARK, b'{"mark": [1, 2, {}, {}], "running": 5}'),
        AT.pack(0) + chunk(MARK, b'{"mark": [1, 2, {}, {}], "running": ["x"]}'),
        AT.pack(0) + chunk(MARK, b'{"mark": [Infinity, 2, {}, {}]}'),
        AT.pack(0) + chunk(MARK, b"[" * 200_000),
        AT.pack(0) + chunk(WHOM, b"[]"),
        AT.pack(0) + chunk(WHOM, b'["nobody", [], null]'),
        AT.pack(0) + chunk(WHOM, b'["it", [-7], null]'),
        AT.pack(0) + chunk(WHOM, b'["it", [7], [1e999]]'),
        AT.pack(0) + chunk(WHOM, b'["it", [7], [18446744073709551616]]'),
    ],
)
def test_what_is_no_part_is_refused(content):
    with pytest.raises(FrameError, match="damaged"):
        _Arrived().write(content)


def test_who_runs_is_said_where_records_were_lost():
    said = json.dumps({"mark": END, "running": [1, 7]}).encode()
    assert _mark_in(said).running == (END.time_ns, {1, 7})


def test_what_is_said_of_several_parts_is_of_all_of_them():
    found = _over(EXTRAS, BEGIN, END)
    assert found["lost"] == {"7": 3, "8": 1}
    assert found["lost_by_cpu"] == {"0": 3, "1": 1}
    assert found["buffers_read_ns"] == [{"0": 10**9 - 7}, {"0": 2, "1": 3}]
    assert found["interval_ns"] == [BEGIN.time_ns, END.time_ns]
    assert found["proc_stat"] == {"hz": 250, "start": TIMES, "end": {"cpu": [5, 6, 7]}}


def test_times_are_those_of_the_clock_there_whatever_it_is_here():
    mark, *_ = _mark_in(json.dumps({"mark": BEGIN}).encode())
    assert mark == BEGIN
    assert _over(EXTRAS, mark, END)["started_at"] == 1000.0 - HOUR


@pytest.mark.parametrize("extras", [{}, {"proc_stat": 1}, EXTRAS | {"clocks": [{"ids": [1]}]}])
def test_what_says_nothing_of_itself_is_refused(extras):
    with pytest.raises(FrameError, match="damaged"):
        _over(extras, BEGIN, END)
