"""A recording of more than 4 GB, whose offsets need more than 32 bits, loses nothing."""

from __future__ import annotations

import os
import struct

import numpy as np
import pytest

import prospect
from builders import perfdata as build
from builders.sources import CLOCK, CLOCK_ID

SAMPLE_TYPE = build.USUAL | build.RAW
EVENT = CLOCK._replace(attr=CLOCK.attr._replace(sample_type=SAMPLE_TYPE))
RAW_BYTES = 65_000
PERIOD_NS = 1_000_000
TAIL = {"id": CLOCK_ID, "cpu": 1}
RECORDS = build.RecordBuilder(SAMPLE_TYPE)
# The part of each large sample that is written. The rest is zeros, and a hole in the file.
WRITTEN_BYTES = 128


def process(pid, name, time, ticks, raw=b""):
    """Return the records of a process that takes a CPU for so many ticks."""
    records = [
        RECORDS.comm(pid, pid, name, **TAIL, time=time),
        RECORDS.mmap(pid, pid, 0x400000, 0x1000, f"/{name}", **TAIL, time=time + 1),
    ]
    for tick in range(ticks):
        at = {"pid": pid, "tid": pid, "time": time + 1000 + tick * PERIOD_NS, "raw": raw}
        records.append(RECORDS.sample(ip=0x400000, period=PERIOD_NS, **at, **TAIL))
    return records


@pytest.fixture
def large(tmp_path):
    """Write it with holes: some hundred MB on disk."""
    *head, sample = process(11, "early", 1, 1, bytes(RAW_BYTES))
    count = (1 << 32) // len(sample) + 100
    end = b"".join(process(12, "late", 1 + (count + 1) * PERIOD_NS, 300))
    whole = build.FileBuilder([EVENT], [*head, end]).file()
    at = whole.index(end)
    begin = bytearray(whole[:at])
    (size,) = struct.unpack_from("<Q", begin, 48)  # of the data section
    struct.pack_into("<Q", begin, 48, size + count * len(sample))
    time_at = sample.index(struct.pack("<Q", 1001))
    piece = bytearray(sample[:WRITTEN_BYTES])
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.write(begin)
        file.flush()
        for number in range(count):
            struct.pack_into("<Q", piece, time_at, 1001 + number * PERIOD_NS)
            os.pwrite(file.fileno(), piece, at + number * len(sample))
        os.pwrite(file.fileno(), end, at + count * len(sample))
    yield path, count
    path.unlink()


def test_what_follows_the_first_4_gb_is_read(large):
    path, count = large
    assert path.stat().st_size > 1 << 32
    profile = prospect.open(path, use_cache=False)
    hits = np.bincount(profile.hits.process_index, profile.hits.count)
    names = profile.processes.name
    found = {names[row]: int(number) for row, number in enumerate(hits) if number}
    assert found == {"early": count, "late": 300}
    assert not profile.run.damage
