"""The reader of frames from memory, on rings and processes that are played."""

from __future__ import annotations

import mmap
import os
import struct
import sys
from types import SimpleNamespace

import pytest

from builders import perfdata
from builders.runtime_frames import CLOCK, FRAMES, SAMPLES, image
from prospect.abi import constants as abi
from prospect.abi import runtime_frames as wire
from prospect.abi.record_layout import layout_of
from prospect.abi.recorded_facts import RecordBlock
from prospect.capture.kernel import own_process
from prospect.capture.kernel.rings import Ring
from prospect.capture.machine.runtime_processes import READ_FROM_MEMORY, run_from_memory
from prospect.capture.python import memory_reader, sampled_processes
from prospect.capture.python.memory_reader import MemoryFrames
from prospect.capture.python.memory_walk import Walk
from prospect.capture.python.sampled_processes import SampledProcess, SampledProcesses
from prospect.capture.runtimes.walk_state import WalkState
from prospect.events.decode import decode

SIZE = 16 * mmap.PAGESIZE
STACK = Walk(wire.WALKED, (wire.FRAME.pack(0x1000, 6, 7 << wire.SIGNATURE_SHIFT),))


class Played:
    """One CPU's ring, and one Python process whose frames are always the same."""

    def __init__(self, monkeypatch):
        self.fd = os.memfd_create("ring")
        os.ftruncate(self.fd, mmap.PAGESIZE + SIZE)
        self.ring = Ring(self.fd, SIZE)
        self.head = 0
        self.now_ns = 1 << 40
        self.walks, self.refused = [], []
        self.stack = STACK
        self.process = SimpleNamespace(
            pid=5,
            image=3,
            before={},
            memory=None,
            own_tid=lambda tid: tid,
            runs=lambda _: self.runs,
            note=lambda tid, *fact: self.process.before.update({tid: fact}),
            v8=None,
            python=SimpleNamespace(walk=self.walk),
            placed=SimpleNamespace(runtime=wire.CPYTHON),
        )
        self.runs = True
        events = SimpleNamespace(
            plan=SimpleNamespace(wakes_at_samples=True),
            rings=lambda: [(0, self.ring)],
            python_id=lambda _: 9,
            frames_type=abi.PERF_RECORD_HIDDEN_SAMPLE,
            descriptions=lambda: (CLOCK, FRAMES),
        )
        names = SimpleNamespace(read=lambda *_: [], forget=lambda: None, refused=0)
        monkeypatch.setattr(memory_reader, "NameReader", lambda *_: names)
        monkeypatch.setattr(memory_reader, "layouts_of", lambda _: SimpleNamespace(code=None))
        monkeypatch.setattr(memory_reader, "image_record", lambda *_: image(11, 3))
        monkeypatch.setattr(memory_reader, "ask_for_slice", lambda _: None)
        monkeypatch.setattr(memory_reader, "monotonic_ns", lambda: self.now_ns)
        self.frames = MemoryFrames(events)
        self.frames._processes = SimpleNamespace(
            of=lambda pid: self.process if pid == 5 else None,
            may_be_runtime=lambda pid: pid == 5,
            refusals=[],
            refused=self.refused.append,
            pid_of=lambda _: 5,
            close=lambda: None,
        )

    def walk(self, tid):
        self.walks.append(tid)
        return self.stack._replace(read_ns=self.now_ns)

    def sample(self, tid=5, pid=5, age_ns=0):
        record = SAMPLES.sample(pid=pid, tid=tid, id=7, time=self.now_ns - age_ns)
        os.pwrite(self.fd, record, mmap.PAGESIZE + self.head)
        self.head += len(record)
        os.pwrite(self.fd, struct.pack("<Q", self.head), 1024)

    def written(self):
        parts = []
        self.ring.release(self.ring.pending(parts))
        return b"".join(parts)

    def drained(self):
        return decode([RecordBlock(memoryview(self.written()))], [CLOCK, FRAMES], [])

    def close(self):
        self.frames.close()
        self.ring.close()
        os.close(self.fd)


@pytest.fixture
def played(monkeypatch):
    found = Played(monkeypatch)
    yield found
    found.close()


def test_a_stack_is_before_its_sample(played):
    for tid, pid in ((5, 5), (9, 8), (6, 5)):
        played.sample(tid, pid)
    played.frames.look()
    found = played.drained()
    assert played.walks == [5, 6]
    assert len(found.samples) == 3
    assert found.runtimes.sample.tolist() == [0, 2]
    assert found.runtimes.task.tolist() == [5 | 5 << 32, 5 | 6 << 32]
    assert found.runtimes.image.tolist() == [3, 3]
    assert found.runtimes.code.tolist() == [0x1000, 0x1000]
    assert found.runtimes.damaged == 0


def test_perf_7_finds_no_record_too_short_for_its_type(played):
    played.stack = Walk(wire.NO_FRAME, ())
    played.sample()
    played.frames.look()
    written = played.written()
    sizes, at = [], 0
    while at < len(written):
        type_, _, size = struct.unpack_from("<IHH", written, at)
        sizes += [size] if type_ == abi.PERF_RECORD_HIDDEN_SAMPLE else []
        at += size
    assert min(sizes) == wire.LEAST_RECORD_BYTES
    found = decode([RecordBlock(memoryview(written))], [CLOCK, FRAMES], []).runtimes
    assert found.status.tolist() == [wire.NO_FRAME]
    assert len(found.code) == found.damaged == 0


def test_samples_of_one_thread_are_read_once(played):
    for _ in range(4):
        played.sample()
    played.frames.look()
    assert played.walks == [5]
    assert played.drained().runtimes.sample.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("runs", [True, False])
def test_a_late_reading_is_used_only_without_an_earlier_one(played, runs):
    age_ns = 10_000_000 if runs else 0
    played.runs = runs
    played.sample(age_ns=age_ns)
    played.frames.look()
    assert len(played.drained().runtimes) == 1
    played.runs = True
    played.sample()
    played.frames.look()
    played.drained()
    before = played.process.before[5][1]
    played.process.python.walk = lambda _: STACK._replace(
        rows=STACK.rows * 2, read_ns=played.now_ns
    )
    played.runs = runs
    played.sample(age_ns=age_ns)
    played.frames.look()
    assert len(played.drained().runtimes.code) == 1
    assert played.process.before[5][1] == before


def test_a_reading_that_is_much_too_late_is_counted(played):
    played.sample(age_ns=1_000_000_000)
    played.frames.look()
    found = played.drained()
    assert len(found.runtimes) == 0
    assert found.runtimes.images  # names and interpreters are kept all the same
    assert played.frames.counts["unread"] == 1
    (limit,) = played.frames.limits
    assert "less exact" in limit
    for _ in range(10):
        played.sample(age_ns=1_000_000_000)
    played.frames.look()
    assert played.frames.limits[-1].endswith("may be used: 11 (at most 10% of a CPU).")


def test_cpu_time_is_bounded(played, monkeypatch):
    monkeypatch.setattr(memory_reader, "MOST_READING_NS", 0)
    played.frames._budget.use(10**9)
    for _ in range(5):
        played.sample()
    played.frames.look()
    assert played.walks == []
    assert played.frames.counts["unread"] == 5
    slept = []
    monkeypatch.setattr(memory_reader.time, "sleep", slept.append)
    played.frames.rest()
    assert slept == [memory_reader._LONGEST_REST_S]


def test_a_process_that_may_not_be_read_is_noted(played):
    def refuse(_):
        raise PermissionError(1, "no")

    played.process.python.walk = refuse
    played.sample()
    played.frames.look()
    assert played.refused == [5]


def test_how_exact_it_is_is_said(played):
    assert played.frames.limits == []
    played.sample(age_ns=3_000_000)
    played.frames.look()
    (limit,) = played.frames.limits
    assert "less exact" in limit
    assert " ms after each sample" in limit


def test_processes_are_followed_by_their_records(played):
    seen = []
    played.frames._processes = SimpleNamespace(
        **{
            name: lambda *facts, name=name: seen.append((name, *facts[:2]))
            for name in ("forked", "ended", "executed", "mapped", "close")
        }
    )
    task = struct.pack("<IIIIQ", 7, 5, 7, 5, 0)
    records = [
        perfdata.record(abi.PERF_RECORD_FORK, task),
        perfdata.record(abi.PERF_RECORD_COMM, struct.pack("<II", 7, 7) + bytes(8), misc=1 << 13),
        perfdata.record(abi.PERF_RECORD_EXIT, task),
    ]
    os.pwrite(played.fd, b"".join(records), mmap.PAGESIZE)
    os.pwrite(played.fd, struct.pack("<Q", sum(map(len, records))), 1024)
    played.frames.look()
    assert seen == [("forked", 7, 5), ("executed", 7), ("ended", 7, 7)]


def known(monkeypatch, of):
    monkeypatch.setattr(SampledProcesses, "_found", lambda _, pid: of.get(pid))
    return SampledProcesses(WalkState())


def test_what_is_not_python_forks_none(monkeypatch):
    process = SimpleNamespace(pid=1)
    with_runtimes = {2: process, 3: process}
    found = known(monkeypatch, with_runtimes)
    assert found.of(1) is None
    found.forked(2, 1)
    assert found.of(2) is None
    found.mapped(2, b"... /usr/lib/libc.so.6")
    assert found.of(2) is None
    found.mapped(2, b"... /usr/lib/libpython3.13.so.1.0")
    assert found.of(2) is process
    found.executed(2)
    del with_runtimes[2]
    assert found.of(2) is None
    assert found.of(3) is process
    found.ended(3, 3)
    del with_runtimes[3]
    assert found.of(3) is None
    found.close()


def test_as_many_processes_are_known_as_may_be(monkeypatch):
    monkeypatch.setattr(sampled_processes, "MOST_KNOWN_PROCESSES", 4)
    found = known(monkeypatch, {})
    for pid in range(20):
        found.of(pid)
    assert list(found._known) == [16, 17, 18, 19]
    found.close()


def test_numbers_of_threads_are_those_of_their_namespace(monkeypatch):
    process = SampledProcess.__new__(SampledProcess)
    process.pid, process._own, process._shares_numbers = 5, {}, False
    status = b"Name:\tx\nNSpid:\t6\t2\nUid:\t0\n"
    monkeypatch.setattr(sampled_processes, "read_if_there", lambda _: status)
    assert process.own_tid(6) == 2
    process._shares_numbers = True
    assert process.own_tid(6) == 6


def test_commands_that_runtimes_run_are_known(tmp_path, monkeypatch):
    for name, line in (("tool", "env python3"), ("other", "sh"), ("app", "env node")):
        script = tmp_path / name
        script.write_text(f"#!/usr/bin/{line}\nexit 0 # python\n")
        script.chmod(0o755)
    (tmp_path / "python3.15").symlink_to(tmp_path / "other")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert run_from_memory(["tool"]) == {wire.CPYTHON}
    assert run_from_memory([str(tmp_path / "tool")]) == {wire.CPYTHON}
    assert run_from_memory(["app"]) == {wire.V8} & set(READ_FROM_MEMORY)
    assert not run_from_memory(["other"])
    assert not run_from_memory(["python3.15"])  # which is another program
    assert not run_from_memory(["no such command"])
    assert not run_from_memory([])
    is_python = "python3" in os.path.realpath(sys.executable)
    assert run_from_memory([], [os.getpid()]) == ({wire.CPYTHON} if is_python else set())


def test_a_shorter_slice_is_asked_for_and_given_back():
    own_process.ask_for_slice(own_process.SHORTEST_SLICE_NS)
    own_process.ask_for_slice(0)
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


def test_the_sample_type_has_what_is_read_of_it():
    assert {"tid", "time"} <= layout_of(CLOCK.attr).sample.keys()
