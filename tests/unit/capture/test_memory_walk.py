"""Frames read from memory: of played processes of each layout, of hostile ones, of a real one."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.examples import examples
from prospect.abi import cpython
from prospect.abi import runtime_frames as wire
from prospect.capture.python.interpreters import layouts_of
from prospect.capture.python.memory_reader import NameReader
from prospect.capture.python.memory_walk import FrameReader
from prospect.capture.runtimes import process_memory
from prospect.capture.runtimes.first_runtime import mappings_of
from prospect.capture.runtimes.known_runtimes import read_image
from prospect.capture.runtimes.process_memory import PAGE, ProcessMemory, Snapshot, UnreadableError
from prospect.capture.runtimes.runtime import Placed
from unit.capture.test_python_layouts import described

BASE = 0x10000
FIRST, INTERPRETER, STATE, CFRAME = (BASE + one for one in (0, 0x1000, 0x6000, 0x7000))
PTHREAD, FRAMES, CODES = (BASE + one for one in (0x8000, 0x9000, 0xA000))
SIZE = 0x10000
TID = 4711
DESCRIBED = [cpython.described_layouts(described(minor)) for minor in (13, 14, 15, 16)]
LAYOUTS = [*map(cpython.known_layouts, range(8, 13)), *DESCRIBED]


class PlayedMemory(ProcessMemory):
    """One mapping of a process that a test fills."""

    def __init__(self):
        super().__init__(1)
        self.content = bytearray(SIZE)
        self.reads = 0

    def put(self, address, value):
        struct.pack_into("<Q", self.content, address - BASE, value)

    def read(self, address, size):
        self.reads += 1
        if not BASE <= address <= BASE + SIZE - size:
            raise UnreadableError
        return bytes(self.content[address - BASE : address - BASE + size])

    def read_pieces(self, pieces):
        return [self.read(*piece) for piece in pieces]


def played(layouts, depth=3):
    """A process with one thread in frames of as many code objects, the innermost the last one."""
    memory = PlayedMemory()
    _, frame, code, threads = layouts
    memory.put(FIRST, INTERPRETER)
    memory.put(INTERPRETER + threads.threads, STATE)
    if threads.native == cpython.NO_OFFSET:
        memory.put(STATE + threads.number, PTHREAD)
        struct.pack_into("<I", memory.content, PTHREAD + 720 - BASE, TID)
    else:
        memory.put(STATE + threads.native, TID)
    places = [FRAMES + 128 * number for number in range(depth)]
    innermost = places[-1]
    if frame.cframe != cpython.NO_OFFSET:
        memory.put(CFRAME + frame.cframe, innermost)
        innermost = CFRAME
    memory.put(STATE + frame.thread_frame, innermost)
    for number, place in enumerate(places):
        body = place + frame.base
        own = CODES + 512 * number
        memory.put(body + frame.code, own | (1 if layouts.minor >= 14 else 0))
        memory.put(body + frame.back, places[number - 1] if number else 0)
        last = own + code.instructions + 6 if frame.last_is_address else 6
        memory.put(body + frame.last, last)
        memory.put(own + code.signature, number + 1)
    words = *layouts.frame, *layouts.code, *layouts.threads
    facts = wire.CPYTHON, 0x300 | layouts.minor, 0, (0, FIRST), words
    return memory, Placed(*facts, (0, 0), (0, 0))


def rows(walk):
    return [wire.FRAME.unpack(row) for row in walk.rows]


@pytest.mark.parametrize("layouts", LAYOUTS, ids=lambda one: f"3.{one.minor}")
def test_frames_are_found_from_the_inside_out(layouts):
    memory, interpreter = played(layouts)
    reader = FrameReader(memory, interpreter)
    for _ in range(2):  # searched for, then where it was before
        walk = reader.walk(TID)
        assert walk.status == wire.WALKED
        assert [code for code, _, _ in rows(walk)] == [CODES + 512 * one for one in (2, 1, 0)]
        begin = layouts.code.instructions if layouts.frame.last_is_address else 0
        assert {last - begin for _, last, _ in rows(walk)} == {6}
        assert len({mark >> wire.SIGNATURE_SHIFT for _, _, mark in rows(walk)}) == 3
    assert reader.walk(TID + 1).status == wire.NO_THREAD


@pytest.mark.parametrize("layouts", DESCRIBED[-2:], ids=lambda one: f"3.{one.minor}")
def test_a_thread_that_runs_nothing_has_no_frame(layouts):
    memory, interpreter = played(layouts)
    memory.put(STATE + layouts.frame.thread_frame, 0)
    assert FrameReader(memory, interpreter).walk(TID).status == wire.NO_FRAME


def test_the_newest_interpreter_in_which_a_thread_runs_is_read():
    layouts = DESCRIBED[2]
    memory, interpreter = played(layouts)
    newer, its_state = BASE + 0xC000, BASE + 0xF000
    memory.put(FIRST, newer)
    memory.put(newer + layouts.threads.next_interpreter, INTERPRETER)
    memory.put(newer + layouts.threads.threads, its_state)
    memory.put(its_state + layouts.threads.native, TID)
    reader = FrameReader(memory, interpreter)
    assert len(reader.walk(TID).rows) == 3
    memory.put(its_state + layouts.frame.thread_frame, FRAMES)
    assert len(reader.walk(TID).rows) == 1


def test_frames_that_lead_in_a_circle_end():
    memory, interpreter = played(DESCRIBED[2])
    memory.put(FRAMES + DESCRIBED[2].frame.back, FRAMES + 128)
    walk = FrameReader(memory, interpreter).walk(TID)
    assert (walk.status, len(walk.rows)) == (wire.TRUNCATED, wire.MOST_FRAMES)


@pytest.mark.parametrize("field", ["next_interpreter", "next_thread"])
def test_lists_that_lead_in_a_circle_end(field):
    layouts = DESCRIBED[2]
    memory, interpreter = played(layouts)
    place = INTERPRETER if field == "next_interpreter" else STATE
    memory.put(place + getattr(layouts.threads, field), place)
    assert FrameReader(memory, interpreter).walk(TID + 1).status == wire.NO_THREAD
    assert memory.reads < 10_000


@settings(max_examples=examples(200))
@given(st.sampled_from(LAYOUTS), st.lists(st.tuples(st.integers(0, SIZE // 8 - 1), st.data())))
def test_any_memory_costs_a_bounded_number_of_reads(layouts, changes):
    memory, interpreter = played(layouts)
    words = st.one_of(st.integers(0, 2**64 - 1), st.integers(BASE, BASE + SIZE))
    for place, data in changes:
        memory.put(BASE + 8 * place, data.draw(words))
    try:
        walk = FrameReader(memory, interpreter).walk(TID)
    except UnreadableError:
        return
    assert len(walk.rows) <= wire.MOST_FRAMES
    assert memory.reads < 100_000


def test_a_snapshot_reads_each_page_once_and_not_too_many():
    memory = PlayedMemory()
    snapshot = Snapshot(memory, 3)
    for at in (BASE, BASE + 8, BASE + PAGE - 4):
        content, begin = snapshot.at(at, 8)
        assert content[begin : begin + 8] == bytes(8)
    assert memory.reads == 2
    snapshot.at(BASE + 2 * PAGE, 8)
    with pytest.raises(UnreadableError):
        snapshot.at(BASE + 3 * PAGE, 8)


PROGRAM = """
import sys, threading, time
def déjà(n):
    if n:
        return déjà(n - 1)
    print(threading.get_native_id(), flush=True)
    while True:
        time.sleep(0.01)
threading.Thread(target=déjà, args=(5,), daemon=True).start()
time.sleep(3600)
"""


@pytest.fixture
def process():
    line = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as started:
        yield started
        started.kill()


def own_interpreter(pid):
    for mapping in mappings_of(pid):
        with Path(os.fsdecode(mapping.path)).open("rb") as file:
            image = read_image(file.fileno(), mapping.path)
        if image and (found := image.placed(mapping.start, mapping.offset)):
            return found
    return None


@pytest.mark.skipif(
    os.uname().machine not in {"x86_64", "aarch64"}
    or sysconfig.get_config_var("Py_ENABLE_SHARED") is None,
    reason="reads CPython on x86-64 and arm64",
)
def test_a_real_thread_is_in_its_functions(process):
    tid = int(process.stdout.readline())
    interpreter = own_interpreter(process.pid)
    memory = ProcessMemory(process.pid)
    reader = FrameReader(memory, interpreter)
    until = time.monotonic() + 30
    names: dict[int, str] = {}
    while time.monotonic() < until:
        walk = reader.walk(tid)
        namer = NameReader(1, layouts_of(interpreter).code)
        for record in namer.read(memory, walk.codes):
            _, kind, status, count, _, image, code, _ = wire.HEADER.unpack_from(record)
            text = record[wire.HEADER.size :]
            assert (count, image) == (len(text), 1)
            if kind == wire.KIND_NAME:
                names[code] = text.decode("ascii" if status & wire.IS_ASCII else "latin-1")
        found = [names.get(code, "") for code, _, _ in rows(walk)]
        if found.count("déjà") == 6:
            break
    assert found.count("déjà") == 6
    assert found[-1] in {"Thread._bootstrap", ""}  # "": what stands for the call from C


def test_names_have_a_bounded_room():
    layouts = DESCRIBED[2]
    memory, _ = played(layouts)
    code = layouts.code
    text, table = BASE + 0xE000, BASE + 0xE100
    struct.pack_into("<QQQ", memory.content, text + code.length - BASE, 5, 0, 64 | 32 | 1 << 2)
    memory.put(table + code.length, 1 << 40)
    for field, place in ((code.name, text), (code.file, text), (code.lines, table)):
        memory.put(CODES + field, place)
    reader = NameReader(1, code)
    assert reader.read(memory, {CODES: (1, bytes(8))}) == []  # its table is not in memory
    memory.put(table + code.length, 4)
    assert len(reader.read(memory, {CODES: (1, bytes(8))})) == 3
    assert reader.read(memory, {CODES: (1, bytes(8))}) == []
    for tag in range(2, 6000):
        reader.read(memory, {CODES: (tag, bytes(8))})
    assert reader.refused > 0


@pytest.mark.parametrize(
    ("scope", "words"),
    [
        (0, "does not let"),
        (1, "sysctl kernel.yama.ptrace_scope=0"),
        (2, "CAP_SYS_PTRACE"),
        (3, "no process may"),
    ],
)
def test_it_is_said_why_memory_may_not_be_read(scope, words, tmp_path, monkeypatch):
    setting = tmp_path / "ptrace_scope"
    setting.write_text(f"{scope}\n")
    monkeypatch.setattr(process_memory, "_YAMA", str(setting))
    monkeypatch.setattr(process_memory, "_is_own", lambda _: True)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert words in process_memory.refusal(os.getpid())
    assert bool(process_memory.obstacle()) == (scope > 1)
    assert process_memory.reads_descendants_only() == (scope == 1)
