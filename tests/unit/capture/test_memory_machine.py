"""Walks of runtimes outside the kernel, on memory that misleads them."""

from __future__ import annotations

import ctypes
import itertools
import os
import random
import struct
import threading
import time

import pytest

from prospect.abi import php
from prospect.abi import runtime_frames as wire
from prospect.capture.python.sampled_processes import ThreadPointers
from prospect.capture.runtimes import memory_machine
from prospect.capture.runtimes.known_runtimes import walk_of
from prospect.capture.runtimes.memory_machine import MemoryMachine
from prospect.capture.runtimes.process_memory import ProcessMemory, UnreadableError
from prospect.capture.runtimes.runtime import Placed

FILE = 0x98
IDS = (7, 7)


class PlayedPhp:
    """Memory of this process in which there seems to be a PHP."""

    def __init__(self):
        self.buffer = ctypes.create_string_buffer(1 << 16)
        self.base = ctypes.addressof(self.buffer)
        self.machine = MemoryMachine(walk_of(wire.PHP))

    def put(self, at, *words):
        struct.pack_into(f"<{len(words)}Q", self.buffer, at, *words)

    def text(self, at, text):
        self.put(at + php.STRING_LENGTH, len(text))
        self.buffer[at + php.STRING_TEXT : at + php.STRING_TEXT + len(text)] = text

    def function(self, at, name):
        """A function of PHP's own code at `at`, whose name and file are behind it."""
        self.put(at, php.KIND_USER)
        self.put(at + php.NAME, self.base + at + 0x200)
        self.put(at + FILE, self.base + at + 0x300, 1)
        self.text(at + 0x200, name)
        self.text(at + 0x300, b"/a.php")

    def frame(self, at, function, caller):
        self.put(at + php.FUNCTION, self.base + function)
        self.put(at + php.CALLER, self.base + caller if caller else 0)

    def walk(self, image=1):
        placed = Placed(
            *(wire.PHP, 0, 0, (self.base,), (php.FRAME_BYTES, FILE)), text=(0, 1), loop=(0, 1)
        )
        return self.machine.walk(image, placed, ProcessMemory(os.getpid()), IDS, 0)


@pytest.fixture
def played():
    return PlayedPhp()


def parts(records):
    """Return status and frames of the stack, and the texts by their kind."""
    *names, stack = records
    magic, kind, status, count = struct.unpack_from("<IHHI", stack)
    assert (magic, kind) == (wire.MAGIC, wire.KIND_STACK)
    frames = [wire.FRAME.unpack_from(stack, wire.STACK_BYTES + 16 * n) for n in range(count)]
    texts = [(wire.HEADER.unpack_from(one)[1], one[wire.HEADER.size :]) for one in names]
    return status, frames, [one for one in texts if one[0] != wire.KIND_IMAGE]


def test_frames_and_names_are_read(played):
    played.put(0, played.base + 0x1000)
    played.frame(0x1000, 0x3000, caller=0x2000)
    played.frame(0x2000, 0x4000, caller=0)
    played.function(0x3000, b"inner")
    played.function(0x4000, b"outer")
    status, frames, texts = parts(played.walk())
    assert status == wire.WALKED
    assert [code for code, _, _ in frames] == [played.base + 0x3000, played.base + 0x4000]
    assert texts == [
        (wire.KIND_NAME, b"inner"),
        (wire.KIND_FILE, b"/a.php"),
        (wire.KIND_NAME, b"outer"),
        (wire.KIND_FILE, b"/a.php"),
    ]
    assert parts(played.walk())[2] == []  # sent already
    played.machine.forget()
    assert len(parts(played.walk())[2]) == 4


def test_a_cycle_of_frames_ends(played):
    played.put(0, played.base + 0x1000)
    played.frame(0x1000, 0x3000, caller=0x1000)
    played.function(0x3000, b"endless")
    played.walk()  # which sends the name
    begun = time.thread_time()
    status, frames, _ = parts(played.walk())
    assert status == wire.TRUNCATED
    assert len(frames) == wire.MOST_FRAMES
    assert time.thread_time() - begun < 0.1


def test_a_walk_has_a_bound_of_steps(played, monkeypatch):
    played.put(0, played.base + 0x1000)
    played.frame(0x1000, 0x3000, caller=0x1000)
    played.function(0x3000, b"endless")
    monkeypatch.setattr(memory_machine, "MOST_STEPS", 2_000)
    with pytest.raises(UnreadableError):
        played.walk()


def test_any_memory_ends_a_walk(played):
    chance = random.Random(5)
    for image in range(100):
        words = [
            played.base + chance.randrange(len(played.buffer))
            if chance.random() < 0.7
            else chance.getrandbits(64)
            for _ in range(len(played.buffer) // 8)
        ]
        played.put(0, *words)
        status, frames, texts = parts(played.walk(image))
        assert status in (wire.WALKED, wire.TRUNCATED, wire.NO_FRAME, wire.NO_KEY, wire.FAULT)
        assert len(frames) <= wire.MOST_FRAMES
        assert all(len(text) <= wire.MOST_LINES_BYTES for _, text in texts)


def test_a_process_that_makes_up_functions_has_room_for_some_names(played, monkeypatch):
    clock = itertools.count(1 << 40, 500_000)  # read twice by each walk, 1 ms
    monkeypatch.setattr(memory_machine, "monotonic_ns", lambda: next(clock))
    played.put(0, played.base + 0x1000)
    played.frame(0x1000, 0x3000, caller=0)
    played.function(0x3000, b"")
    played.text(0x3300, b"/" * 1000)
    sent = 0
    for number in range(2_500):
        # The address of another name: another function.
        played.put(0x3000 + php.NAME, played.base + 0x5000 + 8 * number)
        sent += len(parts(played.walk())[2])
    assert played.machine.refused(1) > 500
    assert 2_000 < sent < 4_500
    assert parts(played.walk(image=2))[2]


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="of glibc on x86-64")
@pytest.mark.skipif(os.confstr("CS_GNU_LIBC_VERSION") is None, reason="of glibc")
def test_thread_pointers_are_found():
    pointers = ThreadPointers(ProcessMemory(os.getpid()))
    found = []

    def look():
        found.append((threading.get_ident(), pointers.of(threading.get_native_id())))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    look()
    assert found[0][0] == found[0][1]
    assert found[1][0] == found[1][1]
    assert pointers.of(1 << 30) == 0


def test_a_thread_is_found_by_another_ones_list(monkeypatch):
    # Two stacks in one mapping, as since glibc 2.42: only the upper thread is at its end.
    size, tid = 1 << 18, 1 << 23
    buffer = ctypes.create_string_buffer(size + 64)
    shift = -ctypes.addressof(buffer) % 64
    base = ctypes.addressof(buffer) + shift
    upper, lower, head = size - 0x1000, size // 2, 0x100
    for at, number in ((upper, tid), (lower, tid + 1)):
        struct.pack_into("<QQQ", buffer, shift + at, base + at, 0, base + at)
        struct.pack_into("<I", buffer, shift + at + 720, number)
    for at, after in ((upper, head), (head, lower), (lower, upper)):
        struct.pack_into("<Q", buffer, shift + at + 704, base + after + 704)
    monkeypatch.setattr(ThreadPointers, "_mappings", lambda _: [(base, base + size)])
    pointers = ThreadPointers(ProcessMemory(os.getpid()))
    assert pointers.of(tid + 1) == base + lower
    assert pointers.of(tid) == base + upper
    assert pointers.of(tid + 2) == 0
