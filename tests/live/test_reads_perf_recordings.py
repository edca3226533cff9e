"""What ``perf record`` writes here and now is read whole: perf's own counts agree."""

from __future__ import annotations

import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress

import pytest

from builders.examples import nightly
from builders.perf_tool import reads_itself
from prospect.abi import constants as abi
from prospect.errors import ProspectError
from prospect.perfdata.reader import open_recording

pytestmark = [
    pytest.mark.live,
    pytest.mark.parallel,
    pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed"),
]

LOAD = ["sh", "-c", "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; true; /bin/true"]
# perf report --stats: "SAMPLE events:  504  (59.4%)"
STATS = re.compile(r"^ +([A-Z_0-9]+) events: +(\d+)", re.MULTILINE)
COUNTED = {
    "MMAP": abi.PERF_RECORD_MMAP,
    "MMAP2": abi.PERF_RECORD_MMAP2,
    "COMM": abi.PERF_RECORD_COMM,
    "FORK": abi.PERF_RECORD_FORK,
    "EXIT": abi.PERF_RECORD_EXIT,
    "SAMPLE": abi.PERF_RECORD_SAMPLE,
}


def record(path, *options, load=LOAD):
    command = ["perf", "record", "-o", str(path), *options, "--", *load]
    for _ in range(5):
        done = subprocess.run(command, capture_output=True, check=False, timeout=60)
        if done.returncode:
            pytest.skip(f"perf record {options}: {done.stderr.decode()[-200:]}")
        if path == "-" or reads_itself(path):
            return done.stdout
    pytest.fail("perf cannot read what it recorded, five times")


def count_records(blocks):
    """Count records by type, walking each block's chain with struct alone."""
    counts = Counter()
    for block in blocks:
        at = 0
        while at < len(block.data):
            type_, _, size = struct.unpack_from("<IHH", block.data, at)
            assert size >= 8
            assert at + size <= len(block.data)
            counts[type_] += 1
            at += size
    return counts


def read(path):
    with open_recording(str(path)) as recording:
        counts = count_records(recording.blocks())
        return recording.info, counts, recording.damage


def perf_counts(path):
    done = subprocess.run(
        ["perf", "report", "--stats", "-i", str(path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    # The totals come first, then the same by event.
    found = {}
    for name, count in STATS.findall(done.stdout):
        found.setdefault(name, int(count))
    return {type_: found[name] for name, type_ in COUNTED.items() if name in found}


def assert_perf_agrees(path, counts):
    theirs = perf_counts(path)
    assert theirs[abi.PERF_RECORD_SAMPLE] > 0
    assert {type_: counts[type_] for type_ in theirs} == theirs


@pytest.mark.parametrize(
    "options",
    [
        *nightly(["-a", "-F", "2000"], ["-g", "-F", "2000"]),
        ["--call-graph", "dwarf", "-F", "999"],
        *nightly(
            ["-a", "-e", "cpu-clock,task-clock,context-switches"],
            ["-a", "-e", "cpu-clock", "-e", "sched:sched_switch"],
        ),
        ["-e", "{cpu-clock,page-faults}:S"],
        *nightly(["-a", "-z", "-F", "5000"], ["-a", "--threads=cpu", "-F", "999"]),
        ["-a", "--threads=cpu", "-z", "-F", "999"],
        ["-a", "--buildid-mmap"],
        ["-k", "CLOCK_MONOTONIC", "-d", "-T", "--sample-cpu"],
        ["--switch-events", "--namespaces"],
    ],
    ids=" ".join,
)
def test_every_record_of_a_file_is_there(tmp_path, options):
    path = tmp_path / "perf.data"
    record(path, *options)
    info, counts, damage = read(path)
    assert damage == []
    assert_perf_agrees(path, counts)
    assert info.perf_version
    assert info.hostname
    assert info.cpus_online > 0
    assert info.total_memory_kib > 0
    assert info.command_line[-len(LOAD) :] == tuple(LOAD)
    assert all(event.ids for event in info.events)


def test_events_have_perfs_names_and_ids(tmp_path):
    path = tmp_path / "perf.data"
    record(path, "-a", "-e", "cpu-clock,task-clock")
    out = subprocess.run(
        ["perf", "evlist", "-i", str(path)], capture_output=True, text=True, check=True
    ).stdout
    info, _, _ = read(path)
    assert [event.name for event in info.events] == out.split()
    every_id = [i for event in info.events for i in event.ids]
    assert len(set(every_id)) == len(every_id)


def test_perf_prints_as_many_samples_as_there_are(tmp_path):
    path = tmp_path / "perf.data"
    record(path, "-a", "-z", "-e", "cpu-clock,task-clock", "-F", "3000")
    script = subprocess.run(
        ["perf", "script", "-i", str(path), "-F", "time"], capture_output=True, check=True
    )
    _, counts, _ = read(path)
    assert counts[abi.PERF_RECORD_SAMPLE] == len(script.stdout.splitlines()) > 0


@pytest.mark.parametrize(
    "options", [*nightly([]), ["-z"], ["-e", "sched:sched_switch", "-e", "cpu-clock"]]
)
def test_a_stream_is_read_from_a_pipe(options):
    recorder = subprocess.Popen(
        ["perf", "record", "-a", "-F", "2000", *options, "-o", "-", "--", *LOAD],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    code = (
        "import sys; from prospect.perfdata.reader import open_recording\n"
        "r = open_recording('-'); n = [b.data for b in r.blocks()]\n"
        "sys.stdout.buffer.write(b''.join(n))\n"
        "print(r.damage, len(r.info.events), r.info.hostname != '', file=sys.stderr)"
    )
    reader = subprocess.run(
        [sys.executable, "-c", code],
        stdin=recorder.stdout,
        capture_output=True,
        check=True,
        timeout=60,
    )
    recorder.stdout.close()
    assert recorder.wait() == 0
    events = 3 if options[:1] == ["-e"] else 2
    assert reader.stderr.decode().split() == ["[]", str(events), "True"]
    at, samples = 0, 0
    while at < len(reader.stdout):
        type_, _, size = struct.unpack_from("<IHH", reader.stdout, at)
        samples += type_ == abi.PERF_RECORD_SAMPLE
        at += size
    assert samples > 0


def test_a_stream_in_a_file_has_what_perf_counts(tmp_path):
    path = tmp_path / "perf.data"
    path.write_bytes(record("-", "-a", "-F", "2000"))
    info, counts, damage = read(path)
    assert damage == []
    assert_perf_agrees(path, counts)
    assert info.hostname


@pytest.mark.parametrize("options", [*nightly([]), ["-z"]])
def test_a_killed_recorder_leaves_what_it_had_written(tmp_path, options):
    path = tmp_path / "perf.data"
    load = ["sh", "-c", "while :; do :; done"]
    command = ["perf", "record", "-a", "-F", "10000", "-m", "4", *options, "-o", str(path)]
    recorder = subprocess.Popen(
        [*command, "--", *load], stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            time.sleep(0.2)
            # The tasks and mappings that are there already come first: a megabyte and more of
            # them where many programs run.
            with suppress(FileNotFoundError, ProspectError):  # not there, or without its header yet
                if read(path)[1][abi.PERF_RECORD_SAMPLE] > 0:
                    break
    finally:
        # perf and its command, which would loop for ever.
        os.killpg(recorder.pid, signal.SIGKILL)
        recorder.wait()
    info, counts, damage = read(path)
    assert any("stopped before it finished" in sentence for sentence in damage)
    assert counts[abi.PERF_RECORD_SAMPLE] > 0
    # What perf samples by default: the counter where there is one.
    assert info.events[0].name in ("cpu-clock", "cycles")


def test_a_cut_file_never_gives_more_than_is_whole(tmp_path):
    path = tmp_path / "perf.data"
    record(path, "-a", "-z", "-F", "5000")
    whole = path.read_bytes()
    _, all_counts, _ = read(path)
    samples = []
    # The last cut is behind the records: a busy machine has all of them in one compressed one.
    for end in (*range(2000, len(whole), max(1, len(whole) // 50)), len(whole) - 1):
        path.write_bytes(whole[:end])
        _, counts, damage = read(path)
        assert damage
        samples.append(counts[abi.PERF_RECORD_SAMPLE])
    assert samples == sorted(samples)
    assert 0 < samples[-1] <= all_counts[abi.PERF_RECORD_SAMPLE]
