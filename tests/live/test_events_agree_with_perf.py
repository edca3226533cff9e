"""What decode() finds in recordings made here and now is what perf finds in the same files."""

from __future__ import annotations

import functools
import itertools
import re
import shutil
import subprocess
from collections import Counter

import numpy as np
import pytest

from builders.perf_tool import reads_itself
from prospect.abi import constants as abi
from prospect.events.decode import decode
from prospect.events.record_columns import TASK_COMM, TASK_EXEC, TASK_EXIT, TASK_FORK
from prospect.perfdata.reader import open_recording

pytestmark = [
    pytest.mark.live,
    pytest.mark.parallel,
    pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed"),
]

_LOAD = [
    "sh",
    "-c",
    "for i in 1 2 3; do ls -R /usr/lib >/dev/null; ls -R /proc/self >/dev/null; done; true",
]
_FORMS = {
    "whole system": ["-a", "-F", "4000"],
    "call chains": ["-a", "-g", "-F", "2000"],
    "one command": ["--sample-cpu", "-F", "4000"],
    "two events": ["-a", "-e", "cpu-clock,task-clock", "-F", "4000"],
    "fixed period": ["-a", "-e", "cpu-clock", "-c", "500000"],
    "different sample types": [
        "-a",
        "-e",
        "cpu-clock/freq=999/,cpu-clock/period=900000,call-graph=fp/",
    ],
    "data addresses": ["-a", "-d", "-F", "2000"],
    "user stacks": ["--sample-cpu", "--call-graph", "dwarf,1024", "-F", "999"],
    "context switches": ["-a", "--switch-events", "-F", "999"],
    "compressed": ["-a", "-z", "-F", "2000"],
}
# pid/tid [cpu] seconds.nanoseconds: period event: ip
_SCRIPT = re.compile(
    r"^ *(-?\d+)/(-?\d+) +\[(\d+)\] +(\d+)\.(\d{9}): +(\d+) +(.+?): +([0-9a-f]+)$", re.MULTILINE
)
# cpu time offset [size]: PERF_RECORD_x...
_DUMP = re.compile(r"^(?:-1|\d+) (\d+) 0x[0-9a-f]+ \[0x[0-9a-f]+\]: PERF_RECORD_(\w+)(.*)$")
_MMAP = re.compile(r" (-?\d+)/(-?\d+): \[(\w+)\((\w+)\) @ (\w+)(?: \S+ \d+ \d+)?\]: (\S+) (.*)$")
_FORK = re.compile(r"\((-?\d+):(-?\d+)\):\((-?\d+):(-?\d+)\)")
_COMM = re.compile(r"^( exec)?: (.*):(-?\d+)/(-?\d+)$")
_STATS = re.compile(r"^ +([A-Z_0-9]+) events: +(\d+)", re.MULTILINE)


# What these have, one of the others has too: of different sample types, or with user stacks.
_NIGHTLY = (
    *("whole system", "two events", "fixed period", "data addresses", "call chains"),
    "one command",
)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=pytest.mark.nightly if name in _NIGHTLY else ()) for name in _FORMS
    ],
)
def recording(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("recording") / "perf.data"
    command = ["perf", "record", "-o", str(path), *_FORMS[request.param], "--", *_LOAD]
    for _ in range(5):
        # perf 6.1 now and then dies of a buffer overflow when it ends.
        done = subprocess.run(command, capture_output=True, check=False, timeout=120)
        if not done.returncode and reads_itself(path):
            break
    else:
        pytest.fail(f"perf: {done.stderr.decode()[-200:]}")
    with open_recording(str(path)) as opened:
        found = decode(opened.blocks(), opened.info.events, opened.damage)
        info = opened.info
    assert found.damage == ()
    assert len(found.samples) > 100
    return path, found, info


@functools.cache
def perf(path, *command):
    done = subprocess.run(
        ["perf", *command, "-i", str(path)],
        capture_output=True,
        check=True,
        timeout=300,
        env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "DEBUGINFOD_URLS": "", "LC_ALL": "C"},
    )
    return done.stdout.decode(errors="surrogateescape")


def test_records_of_each_type_are_as_many(recording):
    path, found, _ = recording
    whole = perf(path, "report", "--stats").split(" stats:")[1]
    counted = {name: int(number) for name, number in _STATS.findall(whole)}
    names = {
        name.removeprefix("PERF_RECORD_"): getattr(abi, name)
        for name in dir(abi)
        if re.fullmatch(r"PERF_RECORD_(?!MISC)[A-Z0-9_]+", name)
    }
    told = {name: found.counts.get(names[name], 0) for name in counted if name in names}
    assert told == {name: counted[name] for name in told}
    assert told["SAMPLE"] == len(found.samples)


def test_samples_are_the_same(recording):
    path, found, info = recording
    # -G: one line a sample, its own address, whatever the chain.
    text = perf(path, "script", "-G", "--ns", "-F", "pid,tid,cpu,time,period,event,ip")
    theirs = Counter(
        (
            int(pid),
            int(tid),
            int(cpu),
            int(s) * 10**9 + int(ns),
            int(period),
            event.strip(": "),
            int(ip, 16),
        )
        for pid, tid, cpu, s, ns, period, event, ip in _SCRIPT.findall(text)
    )
    samples = found.samples
    names = [event.name.strip(": ") for event in info.events]
    task = samples.task.view(np.int32)
    ours = Counter(
        zip(
            task[0::2].tolist(),
            task[1::2].tolist(),
            samples.cpu.tolist(),
            samples.time_ns.tolist(),
            samples.period.tolist(),
            [names[row] for row in samples.event.tolist()],
            samples.ip.tolist(),
            strict=True,
        )
    )
    assert ours == theirs


def dumped(path):
    """Yield (time, type, rest of the line, chain) of every record, in the order perf handles it."""
    lines = perf(path, "script", "-D").splitlines()
    for at, line in enumerate(lines):
        head = _DUMP.match(line)
        if head:
            # An `islice` from there would step over all lines before.
            behind = (lines[row] for row in range(at + 1, len(lines)))
            yield int(head[1]), head[2], head[3], behind


def test_call_chains_are_the_same(recording):
    path, found, _ = recording
    samples = found.samples
    if samples.chain_start is None:
        pytest.skip("recorded without call chains")
    theirs = Counter()
    for time_ns, kind, _, behind in dumped(path):
        if kind != "SAMPLE":
            continue
        chain = []
        for line in behind:
            if line.startswith("....."):
                chain.append(int(line.split()[-1], 16))
            elif not line.startswith("..."):
                break
        theirs[time_ns, tuple(chain)] += 1
    bounds = samples.chain_start.tolist()
    chains = [tuple(samples.chain[a:b].tolist()) for a, b in itertools.pairwise(bounds)]
    assert Counter(zip(samples.time_ns.tolist(), chains, strict=True)) == theirs


def test_mappings_are_the_same(recording):
    path, found, _ = recording
    theirs = Counter()
    for time_ns, kind, rest, _ in dumped(path):
        if kind in {"MMAP", "MMAP2"}:
            pid, tid, start, length, pgoff, prot, name = _MMAP.match(rest).groups()
            if "x" in prot:
                numbers = (int(start, 16), int(length, 16), int(pgoff, 16))
                theirs[time_ns, int(pid), int(tid), *numbers, name] += 1
    table = found.mmaps
    columns = (table.time_ns, table.pid, table.tid, table.start, table.length, table.pgoff)
    names = [found.names[row].decode(errors="surrogateescape") for row in table.name.tolist()]
    rows = zip(*(column.tolist() for column in columns), names, strict=True)
    # What is only read is kept too: interpreters have frames there.
    is_executable = (table.prot & 4 != 0).tolist()
    ours = Counter(row for row, runs in zip(rows, is_executable, strict=True) if runs)
    assert ours == theirs


def test_tasks_are_the_same(recording):
    path, found, _ = recording
    theirs = Counter()
    for time_ns, kind, rest, _ in dumped(path):
        if kind in {"FORK", "EXIT"}:
            pid, tid, parent_pid, parent_tid = map(int, _FORK.match(rest).groups())
            kind_ = TASK_FORK if kind == "FORK" else TASK_EXIT
            theirs[0, kind_, pid, tid, parent_pid, parent_tid, ""] += 1
        elif kind == "COMM":
            is_exec, name, pid, tid = _COMM.match(rest).groups()
            kind_ = TASK_EXEC if is_exec else TASK_COMM
            theirs[time_ns, kind_, int(pid), int(tid), -1, -1, name] += 1
    tasks = found.tasks
    # perf shows the tail's time; the kernel takes the one in the body of FORK and EXIT later.
    columns = (
        np.where(tasks.name >= 0, tasks.time_ns, 0),
        tasks.kind,
        tasks.pid,
        tasks.tid,
        tasks.parent_pid,
        tasks.parent_tid,
    )
    names = [found.names[row].decode() if row >= 0 else "" for row in tasks.name.tolist()]
    ours = Counter(zip(*(column.tolist() for column in columns), names, strict=True))
    assert ours == theirs
