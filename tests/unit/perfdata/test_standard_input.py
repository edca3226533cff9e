"""``-``: a stream through a pipe, a file redirected, and what cannot be read there."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from builders.perfdata import USUAL, FileBuilder, RecordBuilder
from builders.perfdata_features import feature_string
from prospect.abi.attr import EventAttr, EventDescription

SAMPLES = [RecordBuilder().sample(ip=i, id=1) for i in range(1000)]
EVENT = EventDescription(EventAttr(sample_type=USUAL), (1,), "cpu-clock")
BUILDER = FileBuilder([EVENT], SAMPLES, {3: feature_string("host")})
READER = """
import sys
from prospect.errors import RecordingError
from prospect.perfdata.reader import open_recording
try:
    with open_recording("-") as recording:
        print(recording.info.hostname, file=sys.stderr, flush=True)
        for block in recording.blocks():
            sys.stdout.buffer.write(block.data)
    print(*recording.damage, sep="; ", file=sys.stderr)
except RecordingError as error:
    print("refused:", error, file=sys.stderr)
"""


def read(**stdin):
    done = subprocess.run(
        [sys.executable, "-c", READER], capture_output=True, check=True, timeout=60, **stdin
    )
    return done.stdout, done.stderr.decode()


def test_a_stream_comes_through_a_pipe():
    assert read(input=BUILDER.pipe()) == (b"".join(SAMPLES), "host\n\n")


def test_a_redirected_file_is_mapped(tmp_path):
    path = tmp_path / "perf.data"
    path.write_bytes(BUILDER.file())
    with path.open("rb") as stream:
        assert read(stdin=stream) == (b"".join(SAMPLES), "host\n\n")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"PERFILE2", "ends within its header"),
        (b"x" * 1000, "not a perf.data recording"),
        (BUILDER.file(), "cannot be read from a pipe; give its path"),
    ],
)
def test_what_cannot_be_read_from_a_pipe_is_said(content, words):
    out, err = read(input=content)
    assert out == b""
    assert err.startswith("refused: <stdin>: ")
    assert words in err


def test_the_facts_are_known_before_a_slow_writer_ends():
    stream = BUILDER.pipe()
    cut = len(stream) - len(SAMPLES[0])
    reader = subprocess.Popen(
        [sys.executable, "-c", READER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with reader:
        # Byte by byte at first: a pipe promises no more.
        for at in range(20):
            os.write(reader.stdin.fileno(), stream[at : at + 1])
        os.write(reader.stdin.fileno(), stream[20:cut])
        assert reader.stderr.readline() == b"host\n"
        reader.stdin.write(stream[cut:])
        reader.stdin.close()
        assert reader.stdout.read() == b"".join(SAMPLES)
