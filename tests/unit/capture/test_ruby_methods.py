"""C functions of Ruby: names and classes in memory, also in one that misleads their readers."""

from __future__ import annotations

import ctypes
import os
import random
import struct

import pytest

from prospect.abi import ruby
from prospect.abi import runtime_frames as wire
from prospect.capture.runtimes import ruby_runtime
from prospect.capture.runtimes import ruby_runtime as methods
from prospect.capture.runtimes.known_runtimes import walk_of
from prospect.capture.runtimes.memory_machine import MemoryMachine
from prospect.capture.runtimes.process_memory import ProcessMemory
from prospect.capture.runtimes.runtime import Placed

# Places in the played memory.
CONTEXT, STACK, METHOD, CLASS, SYMBOLS, KEY = 0x200, 0x1000, 0x2000, 0x3000, 0x4000, 0x4100
PATH_KEY = 0x77
SERIAL = 3 << ruby.IN_ARRAY_SHIFT | 5


class PlayedRuby:
    """Memory of this process in which a thread of a Ruby seems to run `Some::Name#sort!`."""

    def __init__(self, version):
        self.buffer = ctypes.create_string_buffer(1 << 16)
        self.base = ctypes.addressof(self.buffer)
        self.machine = MemoryMachine(walk_of(wire.RUBY))
        self.version = version
        layout = ruby.LAYOUTS[version]
        self.by_table = version < 0x302
        self.put(0, self.base + CONTEXT)
        self.put(CONTEXT, self.base + STACK, layout.frame_bytes // 8, self.base + STACK)
        self.put(STACK + ruby.FRAME_ENVIRONMENT, self.base + STACK + 0x210)
        self.put(STACK + 0x200, self.base + METHOD, 0, ruby.FRAME_OF_C | 0xA0)
        self.put(METHOD, ruby.IMEMO_METHOD | 1 << 5, 0, self.base + 0x2100, 0, self.base + CLASS)
        self.put(0x2100 + ruby.DEFINITION_NAME, SERIAL << ruby.NAME_SHIFT | 8)
        self.symbol(SERIAL, b"sort!", 0x5000)
        self.string(0x6000, b"Some::Name")
        self.class_at(CLASS)
        self.put(KEY, PATH_KEY)
        self.variable(CLASS, PATH_KEY, self.base + 0x6000)

    def put(self, at, *words):
        struct.pack_into(f"<{len(words)}Q", self.buffer, at, *words)

    def string(self, at, text):
        layout = ruby.LAYOUTS[self.version]
        self.put(at, ruby.TYPE_STRING | len(text) << ruby.SHORT_LENGTH_SHIFT)
        if not layout.has_short_length:
            self.put(at + ruby.STRING_LENGTH, len(text))
        self.buffer[at + layout.short_text : at + layout.short_text + len(text)] = text

    def array(self, at, length, elements):
        self.put(at, ruby.TYPE_ARRAY, 0, length, length, self.base + elements)

    def symbol(self, number, text, at):
        """A name, whose array and string are at `at`."""
        self.put(SYMBOLS + ruby.SYMBOL_ARRAYS, self.base + at)
        row, place = number >> ruby.IN_ARRAY_SHIFT, number & (1 << ruby.IN_ARRAY_SHIFT) - 1
        self.array(at, row + 1, at + 0x40)
        self.put(at + 0x40 + 8 * row, self.base + at + 0x80)
        self.array(at + 0x80, 2 * place + 1, at + 0xC0)
        self.put(at + 0xC0 + 16 * place, self.base + at + 0x800)
        self.string(at + 0x800, text)

    def class_at(self, at):
        self.put(at, ruby.TYPE_CLASS)
        if self.by_table:
            self.put(at + ruby.CLASS_EXTENSION, self.base + at + 0x100)
            self.put(at + 0x100 + ruby.CLASS_VARIABLES, self.base + at + 0x200)
            self.put(at + 0x200 + ruby.TABLE_ENTRIES, 0, self.base + at + 0x300)

    def variable(self, at, key, value):
        """One more variable of a class, or its only one."""
        if not self.by_table:
            self.put(at + 152, value)
            return
        (count,) = struct.unpack_from("<Q", self.buffer, at + 0x200 + ruby.TABLE_ENTRIES)
        self.put(at + 0x300 + ruby.ENTRY_BYTES * count, 1, key, value)
        self.put(at + 0x200 + ruby.TABLE_ENTRIES, count + 1)

    def singleton(self):
        """Make the class one that has the methods of a class, which has the path."""
        layout, other = ruby.LAYOUTS[self.version], 0x7000
        self.class_at(CLASS)
        self.put(CLASS, ruby.TYPE_CLASS | layout.singleton)
        self.class_at(other)
        self.put(other + ruby.OBJECT_CLASS, self.base + CLASS)
        self.variable(other, PATH_KEY, self.base + 0x6000)
        if self.by_table:
            self.variable(CLASS, 0x55, self.base + other)
        elif layout.attached:
            self.put(CLASS + layout.attached, self.base + other)

    def walk(self, image=1):
        """Return status and frames of the stack, and the texts by their kind."""
        fixed = ruby_runtime._FIXED, -0x100 & 0xFFFFFFFF, 0 if self.by_table else 152
        addresses = 0, self.base + SYMBOLS, self.base + KEY if self.by_table else 0
        placed = Placed(
            *(wire.RUBY, self.version, 0, addresses, (*fixed, *ruby.LAYOUTS[self.version])),
            text=(0, 1),
            loop=(0, 1),
        )
        ids, pointer = (7, 7), self.base + 0x100
        *names, stack = self.machine.walk(image, placed, ProcessMemory(os.getpid()), ids, pointer)
        _, _, status, count = struct.unpack_from("<IHHI", stack)
        frames = [wire.FRAME.unpack_from(stack, wire.STACK_BYTES + 16 * n) for n in range(count)]
        headers = [wire.HEADER.unpack_from(one) for one in names]
        texts = {
            one[1]: (text[wire.HEADER.size :], one[-1])
            for one, text in zip(headers, names, strict=True)
        }
        texts.pop(wire.KIND_IMAGE, None)
        return status, frames, texts


@pytest.fixture(params=ruby.LAYOUTS, ids=hex)
def played(request):
    return PlayedRuby(request.param)


def test_a_c_function_has_its_name_and_class(played):
    status, frames, texts = played.walk()
    assert status == wire.WALKED
    assert [(code, last, mark & 0xFF) for code, last, mark in frames] == [
        (played.base + METHOD, 0, ruby.IN_C)
    ]
    assert texts == {wire.KIND_NAME: (b"sort!", 0), wire.KIND_SCOPE: (b"Some::Name", 0)}
    assert played.walk()[2] == {}  # sent already


def test_an_operator_has_its_own_number(played):
    played.put(0x2100 + ruby.DEFINITION_NAME, ord("+"))
    played.symbol(ord("+"), b"+", 0x5000)
    assert played.walk()[2][wire.KIND_NAME] == (b"+", 0)


def test_a_method_of_a_class_itself(played):
    played.singleton()
    texts = played.walk()[2]
    if played.version == 0x302:  # not known where it has its class
        assert texts == {wire.KIND_NAME: (b"sort!", 1)}
    else:
        assert texts == {wire.KIND_NAME: (b"sort!", 1), wire.KIND_SCOPE: (b"Some::Name", 1)}


def test_what_is_attached_must_have_the_class(played):
    played.singleton()
    played.put(0x7000 + ruby.OBJECT_CLASS, played.base + 0x6000)
    assert played.walk()[2] == {wire.KIND_NAME: (b"sort!", 1)}


def test_a_class_without_a_path(played):
    played.class_at(CLASS)
    played.variable(CLASS, PATH_KEY + 1, 8)
    assert played.walk()[2] == {wire.KIND_NAME: (b"sort!", 0)}


@pytest.mark.parametrize(
    ("at", "word"),
    [
        (METHOD, ruby.IMEMO_IFUNC),  # no method entry
        (0x5000, ruby.TYPE_STRING),  # no array
        (0x5000, ruby.TYPE_ARRAY | ruby.ARRAY_INSIDE),
        (0x5000 + ruby.ARRAY_LENGTH, 3),  # too short
        (0x5800, ruby.TYPE_ARRAY),  # no string
        (SYMBOLS + ruby.SYMBOL_ARRAYS, 8),
    ],
)
def test_one_that_cannot_be_named_is_shown_without_a_name(played, at, word):
    played.put(at, word)
    status, frames, texts = played.walk()
    assert (status, len(frames), texts) == (wire.WALKED, 1, {})


def test_other_frames_without_code_are_left_out(played):
    played.put(STACK + 0x210, 0x79990001)
    assert played.walk() == (wire.WALKED, [], {})


def test_any_memory_ends_a_walk(played):
    chance = random.Random(5)
    for image in range(30):
        words = [
            played.base + chance.randrange(len(played.buffer))
            if chance.random() < 0.7
            else chance.getrandbits(64)
            for _ in range(len(played.buffer) // 8 - 0x50)
        ]
        played.put(0x280, *words)  # the stack, too
        status, frames, texts = played.walk(image)
        assert status in (wire.WALKED, wire.TRUNCATED, wire.NO_FRAME, wire.FAULT)
        assert len(frames) <= wire.MOST_FRAMES
        assert all(len(text) <= wire.MOST_LINES_BYTES for text, _ in texts.values())


# cmp %edi, disp(%rip); jb; mov disp(%rip), %rdi, as 3.1 to 3.4 have it after a jump.
AFTER_JUMP = "85ff 7402 393df0ff0000 7202 488b3df7ff0000"


@pytest.mark.parametrize(
    ("code", "more", "table"),
    [
        ("4889f8 31f6 e900000000", AFTER_JUMP, 0x2000 + 10 + 0xFFF0),
        # cmp disp(%rip), %edi in front of the jump, as 2.7 has it
        ("3b3df01f0000 7702 e900000000", "488b3dff0f0000", 0x1000 + 6 + 0x1FF0),
        ("3b3df01f0000", AFTER_JUMP.replace("f7ff", "f8ff"), 0),  # they do not belong together
        ("3b3df01f0000 488b3df91f0000", AFTER_JUMP, 0),  # one of two
        ("c3", "c3", 0),
        ("", "393d", 0),
    ],
)
def test_code_says_where_the_symbols_are(code, more, table):
    pieces = (bytes.fromhex(code), 0x1000), (bytes.fromhex(more), 0x2000)
    assert methods.table_of(pieces) == table


@pytest.mark.parametrize(
    ("code", "place"),
    [
        # mov 0x18(%rdi), %rax; mov 8(%rax), %rbx; mov 0x100(%rip), %rsi
        ("5553 488b4718 488b5808 488b3500010000", (0x1000 + 17 + 0x100, 0)),
        ("f30f1efa 488b8798000000 ba04000000", (0, 152)),
        ("488b8700100000", (0, 0)),  # too far
        ("488b3500010000", (0, 0)),
        ("488b4718 488b35", (0, 0)),
        ("", (0, 0)),
    ],
)
def test_code_says_where_a_class_has_its_path(code, place):
    assert methods.path_place(bytes.fromhex(code), 0x1000) == place
