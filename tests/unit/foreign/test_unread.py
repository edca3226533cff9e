"""Files that are not read say what they are."""

from __future__ import annotations

import gzip
import struct

import pytest

from builders.perfdata import USUAL, FileBuilder
from prospect.abi.attr import EventAttr, EventDescription
from prospect.analysis.reading import read_profile
from prospect.errors import RecordingError
from prospect.foreign.detection import foreign_kind, unread_format
from prospect.options import NamingOptions

FILES = {
    "speedscope": (
        b'{"exporter":"speedscope@1.0","$schema":"https://www.speedscope.app/file-format-schema.json"',
        "a speedscope file",
    ),
    "firefox": (
        b'{"meta": {"interval": 1, "product": "x", "preprocessedProfileVersion": 57}, "libs": []}',
        "Firefox Profiler",
    ),
    "gecko": (b'{"meta":{"version":30,"interval":1,"product":"Firefox"},"threads":[', "Firefox"),
    "chrome": (b'{"traceEvents":[{"pid":1,"ph":"X"', "trace of Chrome's format"),
    "chrome array": (b'[{"name": "a", "ph": "M", "pid": 1}', "trace of Chrome's format"),
    "v8": (b'{"nodes":[{"id":1,"callFrame":{"functionName":"(root)"', "CPU profile of V8"),
    "json": (b'{"answer": 42}', "JSON, and no profile that is read"),
    "callgrind": (b"# callgrind format\nversion: 1\n", "kcachegrind"),
    "old callgrind": (b"version: 1\ncreator: callgrind-3.19\npid: 1\nevents: Ir\n", "kcachegrind"),
    "gperftools": (struct.pack("<5Q", 0, 3, 0, 10000, 0) + bytes(100), "pprof -proto"),
    "gperftools 32": (struct.pack(">5I", 0, 3, 0, 10000, 0) + bytes(100), "pprof -proto"),
    "java": (struct.pack("<5I", 0, 3, 1, 10000, 0) + bytes(100), "pprof -proto"),
    "heap": (b"heap profile:    1:  2 [ 1: 2] @ heapprofile\n", "heap profile of gperftools"),
    "pprof's text": (
        b"PeriodType: cpu nanoseconds\nPeriod: 1000\nSamples:\na/count\n 3: 1\n",
        "pprof -raw",
    ),
    "pprof's text of no type": (b"PeriodType:  \nPeriod: 0\nSamples:\na/count\n 1: 1\n", "-raw"),
    "contention": (b"--- contentionz 1 ---\ncycles/second = 1\n 1 2 @ 0x1\n", "pprof -proto FILE"),
    "go mutex": (b"--- mutex:\ncycles/second=1\nsampling period=1\n", "pprof -proto FILE"),
    "old heap": (b"--- heapz 1 ---\nformat = java\n", "pprof -proto FILE"),
    "threads": (b"--- threadz 1 ---\n\n--- Thread 7f (name: a/1) stack: ---\n", "older formats"),
    "elf": (b"\x7fELF\x02\x01\x01" + bytes(60), "to profile it: prospect PROGRAM"),
    "zstd": (b"\x28\xb5\x2f\xfd" + bytes(20), "unpack it with zstd -d"),
    "llvm samples": (b"main:1000:0\n 0: 10\n 1.2: 30 foo:12\n 3: bar:300\n  1: 300\n", "of LLVM"),
    "llvm samples in context": (b"[main:3 @ _Z3foov]:100:5\n 1: 20\n 2: 80\n", "of LLVM"),
    "llvm counts": (b"\xfflprofi\x81" + bytes(40), "llvm-profdata"),
    "packed recording": (gzip.compress(b"PERFILE2" + bytes(96)), "gunzip"),
    "packed speedscope": (gzip.compress(b'{"exporter":"speedscope@1.0"}'), "a speedscope file"),
    "packed nothing": (gzip.compress(b"hello\nyou\n"), "compressed by gzip"),
    "svg": (b"<svg xmlns=", "a picture"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_not_read_says_what_it_is(tmp_path, name):
    data, words = FILES[name]
    assert foreign_kind(data) == ""
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(RecordingError) as refusal:
        read_profile(str(path), NamingOptions())
    assert str(refusal.value).startswith(f"{path} is ")
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "data",
    [
        b"[main];b 12\n",
        b"{lambda};c 3\n",
        b"",
        b"\0" * 40,
        b"PERFILE2",
        b"version;a 1\n",
        b"a:1:2;b 3\n",
    ],
)
def test_what_is_read_is_not_taken_for_another_format(data):
    assert unread_format(data) == ""


@pytest.mark.parametrize(
    "head", [b"{" * 65536, b"\n" * 65536, b'{"meta":{' * 7000, b'"nodes":[{' * 6000]
)
def test_looking_costs_little(head):
    unread_format(b"{" + head[:65535])
    unread_format(head)


def test_a_recording_without_a_sample_that_can_be_read_is_named_once(tmp_path):
    event = EventDescription(EventAttr(sample_type=USUAL), (1,))
    path = tmp_path / "perf.data"
    path.write_bytes(FileBuilder([event], [struct.pack("<IHH", 9, 0, 4) + bytes(24)]).file())
    with pytest.raises(RecordingError, match="no sample could be read: the record at") as refusal:
        read_profile(str(path), NamingOptions())
    assert str(refusal.value).count(str(path)) == 1
