"""Functions of Ruby and PHP in a recording: names, lines, and code that was compiled meanwhile."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import runtime_frames as make
from prospect.abi import ruby
from prospect.abi import runtime_frames as wire
from prospect.abi.recorded_facts import RecordBlock
from prospect.assembly.runtimes.code_objects import RubyLines
from prospect.assembly.runtimes.runtime_stacks import MadeCode, with_runtimes
from prospect.events.decode import decode
from prospect.profile.model import KIND_PHP, KIND_RUBY

CODE = 0x1000
UTF8 = wire.IS_UTF8


def succinct(positions, size):
    """The table that Ruby makes of the positions at which its entries of lines begin."""
    begins = np.zeros(max(size, ruby.NEAR_POSITIONS + 1), np.int64)
    begins[list(positions)] = 1
    ranks = np.cumsum(begins)
    words = [0] * 6
    for place in range(ruby.NEAR_POSITIONS):
        words[place // 9] |= int(ranks[place]) << place % 9 * 7
    table = struct.pack("<6Q", *words)
    for at in range(ruby.NEAR_POSITIONS, size, ruby.BLOCK_POSITIONS):
        block = begins[at : at + ruby.BLOCK_POSITIONS]
        block = np.pad(block, (0, ruby.BLOCK_POSITIONS - len(block))).reshape(8, 64)
        counts = np.cumsum(block.sum(axis=1))
        small = sum(int(counts[row]) << 9 * row for row in range(7))
        bits = [sum(int(one) << bit for bit, one in enumerate(row)) for row in block]
        table += struct.pack("<I4xQ8Q", int(ranks[at - 1]), small, *bits)
    return table


@given(st.data())
def test_lines_of_ruby_are_those_of_the_entry_before_a_position(data):
    size = data.draw(st.integers(1, 1400))
    most = min(size, 120)
    positions = data.draw(st.sets(st.integers(1, size - 1), max_size=most)) if size > 1 else set()
    positions = sorted({0, *positions})
    # 7 bits of a rank are enough for the first positions.
    lines = [10 + row for row in range(len(positions))]
    packed = b"".join(struct.pack("<Iii", line, 0, 0) for line in lines)
    found = RubyLines(10, packed, 12, succinct(positions, size))
    for position in range(size):
        row = np.searchsorted(positions, position, side="right") - 1
        assert found.at(position + 1) == lines[row]
    assert found.at(0) == 10


@given(st.binary(min_size=48, max_size=400), st.binary(max_size=100), st.integers(0, 1 << 32))
def test_any_table_of_ruby_gives_lines(table, lines, last):
    found = RubyLines(3, lines, 12, table)
    assert 0 <= found.at(last) <= max(found.last, 3)


def runtime_image(runtime, version, described, number=1):
    version |= runtime << wire.RUNTIME_SHIFT
    payload = wire.IMAGE.pack(version, described, *make.TEXT, *make.LOOP)
    return make.blob(wire.KIND_IMAGE, 0, payload, image=number)


def functions(image, texts, frames, ip=make.LOOP[0]):
    blobs = [
        make.blob(kind, CODE, text, status=UTF8, beginning=first) for kind, text, first in texts
    ]
    sample = make.SAMPLES.sample(ip=ip, pid=5, tid=5, time=10, id=7, misc=2, chain=[])
    data = b"".join(map(make.raw, [image, *blobs, make.stack(*frames)])) + sample
    events = decode([RecordBlock(memoryview(data))], [make.CLOCK, make.FRAMES])
    found, runtimes = with_runtimes(events)
    code = runtimes.stacks.code
    places = code.lines_of(runtimes.stacks.address - np.uint64(0xFFFF800000000000))
    return code.functions, places, found.samples.ip[0] != ip


@pytest.mark.parametrize(("described", "first"), [(12, 7), (12 | 1 << 8, 15)])
def test_a_function_of_ruby(described, first):
    lines = struct.pack("<Iii", 8, 0, 0)
    texts = [
        (wire.KIND_NAME, "größe".encode(), first),
        (wire.KIND_FILE, b"/a.rb", first),
        (wire.KIND_LINES, lines, first),
        (wire.KIND_POSITIONS, succinct([0], 5), first),
    ]
    image = runtime_image(wire.RUBY, 0x301, described)
    code, places, is_own = functions(image, texts, [(CODE, 3, 0, 0)])
    assert code == [("/a.rb", "größe", 7, KIND_RUBY)]
    assert places == [("/a.rb", 8)]
    assert is_own


@pytest.mark.parametrize(
    ("scope", "is_of_class", "name"),
    [
        (b"Some::Name", 0, "Some::Name#sort!"),
        (b"Integer", 1, "Integer.sort!"),
        (b"#<Class:0x00007f>", 0, "sort!"),  # differs in each run
        (None, 1, "sort!"),
    ],
)
def test_a_c_function_of_ruby(scope, is_of_class, name):
    texts = [(wire.KIND_NAME, b"sort!", is_of_class)]
    texts += [(wire.KIND_SCOPE, scope, is_of_class)] if scope else []
    image = runtime_image(wire.RUBY, 0x301, 12)
    code, places, is_own = functions(image, texts, [(CODE, 0, ruby.IN_C, 0)])
    assert code == [("[ruby]", name, 0, KIND_RUBY)]
    assert places == [("[ruby]", 0)]
    assert is_own


def test_a_method_of_php_and_what_is_written_in_c():
    first = 7 | 9 << 32
    texts = [
        (wire.KIND_NAME, b"fail", first),
        (wire.KIND_SCOPE, b"Thrower", first),
        (wire.KIND_FILE, b"/a.php", first),
    ]
    image = runtime_image(wire.PHP, 0, 0)
    code, places, _ = functions(image, texts, [(CODE, 8, 1, 0), (CODE, 10, 1, 0)])
    assert code == [("/a.php", "Thrower::fail", 7, KIND_PHP)]
    assert places == [("/a.php", 8), ("/a.php", 0)]
    code, places, _ = functions(image, [(wire.KIND_NAME, b"usort", 0)], [(CODE, 0, 0, 0)])
    assert code == [("[php]", "usort", 0, KIND_PHP)]
    code, _, _ = functions(image, [(wire.KIND_NAME, b"", first)], [(CODE, 8, 1, 0)])
    assert code[0].name == "{main}"


def test_a_runtime_that_is_not_known_has_functions_without_names():
    image = runtime_image(99, 0, 0)
    code, _, _ = functions(image, [(wire.KIND_NAME, b"f", 1)], [(CODE, 8, 1, 0)])
    assert [one.name for one in code] == ["[not read]"]


def test_compiled_code_is_found_by_process_and_address():
    def key(row, address):
        return row << 47 | address

    made = MadeCode(
        np.array([5, 9]),
        np.array([key(0, 100), key(0, 150), key(1, 100)], np.uint64),
        np.array([key(0, 300), key(0, 300), key(1, 200)], np.uint64),
    )
    pid = np.array([5, 5, 5, 9, 9, 7, 5])
    address = np.array([100, 299, 300, 199, 200, 150, 1 << 63], np.uint64)
    assert made.covers(pid, address).tolist() == [True, True, False, True, False, False, False]
