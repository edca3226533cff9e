"""Records that are there and were not understood: the report whole, one line, and status 1."""

from __future__ import annotations

import io
import json
import struct
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

import prospect
from builders.perfdata import CALLCHAIN, USUAL, FileBuilder, RecordBuilder, record
from builders.perfdata_features import feature_string
from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr, EventDescription
from prospect.cli.main import main
from prospect.errors import UnreadRecordsWarning

CLOCK = EventDescription(
    EventAttr(
        type=abi.PERF_TYPE_SOFTWARE,
        sample_type=USUAL | CALLCHAIN,
        sample_period=1_000_000,
        flags=abi.FLAG_SAMPLE_ID_ALL,
    ),
    (1, 2),
    "cpu-clock",
)
RECORDS = RecordBuilder(USUAL | CALLCHAIN)
TAIL = {"pid": 5, "tid": 5, "id": 1}
BEGIN = [
    RECORDS.comm(5, 5, "work", is_exec=True, time=1, id=1),
    RECORDS.mmap2(5, 5, 0x1000, 0x2000, "/none/work", time=2, id=1),
]
SAMPLE = partial(RECORDS.sample, ip=0x1010, chain=[0x1010, 0x1020], period=1_000_000, **TAIL)
FIRST = [SAMPLE(time=10_000_000 + 1_000_000 * i) for i in range(40)]
LAST = [SAMPLE(time=90_000_000 + 1_000_000 * i) for i in range(60)]
NO_SIZE = struct.pack("<IHH", 9, 0, 0) + bytes(8)
ODD_SIZE = struct.pack("<IHH", 9, 0, 13) + bytes(8)
LONGER_THAN_ALL = struct.pack("<IHH", 9, 0, 0xFFF8)
SIZE = len(LAST[0])
REST = len(LAST) * SIZE

FEATURES = {3: feature_string("host"), 6: feature_string("x86_64")}

# What stands between the first and the last samples, the bytes that are then not read.
BREAKS = {
    "no size": ([NO_SIZE, *LAST], 16 + REST),
    "an odd size": ([ODD_SIZE, *LAST], 16 + REST),
    "a size beyond the end": ([LONGER_THAN_ALL, *LAST], 8 + REST),
}
LEFT_OUT = {
    "of an unknown type": ([record(50, bytes(16)), record(5000, bytes(8)), *LAST], 24 + 16),
    "without its fields": ([record(9, bytes(8)), record(1, bytes(8)), *LAST], 32),
}
ALL = BREAKS | LEFT_OUT


def recording(between: list[bytes], form: str = "file") -> bytes:
    built = FileBuilder([CLOCK], [*BEGIN, *FIRST, *between], FEATURES)
    if form == "walked":
        return FileBuilder([CLOCK], built.records, FEATURES | {18: b""}).file()
    return bytes(getattr(built, form)())


@pytest.fixture
def written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def write(content: bytes, name: str = "perf.data") -> str:
        (tmp_path / name).write_bytes(content)
        return name

    return write


def hits_of(out: str) -> int:
    (event,) = json.loads(out)["events"]
    return sum(part["samples"] for part in event["total"].values())


def is_line_of(err: str, unread_bytes: int, name: str = "perf.data") -> bool:
    start = f"prospect: {name}: {unread_bytes} bytes of records were not read"
    return err.startswith(start) and err.count("\n") == 1


@pytest.mark.parametrize("form", ["file", "walked"])
@pytest.mark.parametrize("what", ALL)
def test_a_report_is_of_what_was_read_and_its_status_is_1(written, capfd, what, form):
    between, unread = ALL[what]
    written(recording(between, form))
    assert main(["report", "-V4", "-m0", "-k0", "--format", "json"]) == 1
    out, err = capfd.readouterr()
    assert is_line_of(err, unread), err
    assert hits_of(out) == len(FIRST) + (len(LAST) if what in LEFT_OUT else 0)
    assert json.loads(out)["warnings"]


@pytest.mark.parametrize("what", [what for what in BREAKS if what != "a size beyond the end"])
def test_packed_records_and_those_of_a_pipe_are_counted_too(written, what):
    between, unread = BREAKS[what]
    written(recording(between, "compressed"), "packed")
    written(recording(between, "pipe"), "pipe")
    for words, stdin in ((["packed"], b""), (["-"], recording(between, "pipe")), (["pipe"], b"")):
        line = [sys.executable, "-m", "prospect", "report", "-V4", *words]
        ran = subprocess.run(line, input=stdin, capture_output=True, check=False, timeout=120)
        name = "<stdin>" if words == ["-"] else words[0]
        assert ran.returncode == 1
        assert is_line_of(ran.stderr.decode(), unread, name), ran.stderr
        assert b"Statistics of Run" in ran.stdout


def test_what_cannot_be_unpacked_is_not_read(written, capfd):
    packed = FileBuilder([CLOCK], [*BEGIN, *FIRST]).compress()
    broken = struct.pack("<IHH", 81, 0, 40) + b"\xff" * 32
    written(FileBuilder([CLOCK], [*packed, broken, broken], {27: bytes(20)}).file())
    assert main(["report", "-V4"]) == 1
    assert is_line_of(capfd.readouterr().err, 80)


@pytest.mark.parametrize(
    "words",
    [
        ["report", "-V4"],
        ["report", "-V4", "--format", "speedscope"],
        ["calls", "-V4"],
        ["annotate", "-V4"],
        ["annotate", "-V4", "--source"],
        ["archive"],
    ],
)
def test_every_command_that_reads_a_recording_says_so(written, capfd, words):
    between, unread = BREAKS["no size"]
    name = written(recording(between))
    assert main([*words, name]) == 1
    said = [line for line in capfd.readouterr().err.splitlines(keepends=True) if "bytes of" in line]
    assert is_line_of("".join(said), unread)


def test_an_archive_has_every_byte_of_the_recording(written, capfd):
    between, unread = BREAKS["no size"]
    content = recording(between)
    written(content)
    assert main(["archive", "perf.data"]) == 1
    assert b"".join([*FIRST, *between]) in Path("perf.data.archive").read_bytes()
    capfd.readouterr()
    assert main(["report", "-V4", "perf.data.archive"]) == 1
    assert is_line_of(capfd.readouterr().err, unread, "perf.data.archive")


def test_a_comparison_of_what_was_read_is_no_verdict(written, capfd):
    between, unread = BREAKS["no size"]
    written(recording(between), "a")
    written(recording(LAST), "b")
    words = ["diff", "-V4", "-f", "out", "--fail-if", "slower by 1%"]
    assert main([*words, "a", "b"]) == 1
    verdict, said = capfd.readouterr().err.splitlines(keepends=True)
    assert "slower by 1%" in verdict
    assert is_line_of(said, unread, "a")
    assert "Warning" in Path("out").read_text(encoding="utf-8")


def python_calls(name: str) -> dict[str, partial[object]]:
    return {
        "open": partial(prospect.open, name),
        "calls": partial(prospect.calls, name, detail=4),
        "annotate": partial(prospect.annotate, name, detail=4),
        "archive": partial(prospect.archive, name, output="archived"),
        "diff": partial(prospect.diff, name, name, scope=4),
    }


@pytest.mark.parametrize("function", python_calls(""))
def test_the_python_interface_warns_and_returns_what_was_read(written, function):
    between, unread = BREAKS["no size"]
    call = python_calls(written(recording(between)))[function]
    with pytest.warns(UnreadRecordsWarning, match=f"perf.data: {unread} bytes of records"):
        returned = call()
    assert returned
    if function == "open":
        assert returned.run.unread_bytes == unread
        assert returned.hits.count.sum() == len(FIRST)


@pytest.mark.parametrize("form", ["file", "walked"])
@pytest.mark.parametrize("cut_bytes", [0, 1, 8, SIZE - 4, SIZE - 8])
def test_a_recording_that_a_kill_cut_is_read_to_its_end(written, capfd, form, cut_bytes):
    """No closing section, and half a record at the end: nothing stands there unread."""
    features = {18: b""} if form == "walked" else {}
    built = FileBuilder([CLOCK], [*BEGIN, *FIRST, *LAST], features, data_size=0).file()
    end = built.index(LAST[-1]) + SIZE - cut_bytes
    written(built[:end])
    assert main(["report", "-V4", "-m0", "-k0", "--format", "json"]) == 0
    out, err = capfd.readouterr()
    assert err == ""
    assert hits_of(out) == len(FIRST) + len(LAST) - bool(cut_bytes)
    assert any("stopped before it finished" in told for told in json.loads(out)["warnings"])


@pytest.mark.parametrize("form", ["file", "pipe"])
def test_the_first_part_of_a_recording_is_read_to_its_end(written, capfd, monkeypatch, form):
    content = recording(LAST, form)
    end = content.index(LAST[-1]) + 12
    written(content[:end])
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert main(["report", "-V4"]) == 0
    assert capfd.readouterr().err == ""
