"""Samples in functions of V8: which function a sample hits, inlined ones, and native frames."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from builders import runtime_frames as make
from builders.v8_heap import a_number
from prospect.abi import runtime_frames as wire
from prospect.abi import v8
from prospect.abi.recorded_facts import RecordBlock
from prospect.assembly.runtimes.runtime_callers import with_runtime_callers
from prospect.assembly.runtimes.runtime_stacks import find_runtime_stacks, with_runtimes
from prospect.assembly.stacks.user_stacks import no_user_stacks
from prospect.events.decode import decode
from prospect.symbols.objects import RUNTIME_BASE

USER, KERNEL = (1 << 64) - 512, (1 << 64) - 128
NODE, LIBC = 0x400000, 0x7F00_0070_0000
VERSION = 0x0B03
BYTES, ENTERED = v8.builtins_place(VERSION)
BUILTINS = NODE + 0x100000
ENTRY = BUILTINS + ENTERED
HANDLER, MAIN, IN_LIBC = BUILTINS + 0x8000, NODE + 0x900, LIBC + 0x40
JIT = 0x7F12_3456_7000
OUTER, INNER, LEAF = 0x2001, 0x3001, 0x4001
FIRST = {"outer": 10, "inner": 20, "leaf": 30}
SHARED = {"outer": OUTER, "inner": INNER, "leaf": LEAF}
SIGNED = {one: number for number, one in enumerate(FIRST, 1)}


def parts(*, code=True):
    image = wire.IMAGE.pack(wire.V8 << wire.RUNTIME_SHIFT | VERSION, 0, NODE, NODE + 0x10, 0, 0)
    found = [
        make.SAMPLES.mmap2(5, 5, NODE, 0x800000, "/usr/bin/node"),
        make.SAMPLES.mmap2(5, 5, LIBC, 0x1000, "/usr/lib/libc.so.6"),
        make.raw(make.blob(wire.KIND_IMAGE, 0, image)),
    ]
    for name, first in FIRST.items():
        lines = b"".join(map(a_number, (54, first, 60, first + 1, 70, first + 5)))
        facts = {"signature": SIGNED[name]}
        found += map(make.raw, make.names(SHARED[name], name, "/app.js", lines, first, **facts))
    if code:
        # outer calls inner in its 11th line, which calls leaf in its 21st.
        table = v8.CODE.pack(0x100, 3, 3, 3)
        for row in ((0, 0), (0x20, 2), (0x80, 0)):
            table += v8.CODE_ROW.pack(*row)
        for node in ((0, 11, -1), (1, 21, 0), (2, 31, 1)):
            table += v8.CODE_NODE.pack(*node)
        for name in FIRST:
            table += v8.CODE_FUNCTION.pack(SHARED[name], SIGNED[name], 0)
        found.append(make.raw(make.blob(wire.KIND_LINES, JIT, table, beginning=OUTER)))
    return found


def frame(name, kind, last):
    return SHARED[name], last, kind, SIGNED[name]


def interpreted(name, *, runs=False):
    return frame(name, v8.INTERPRETED | v8.RUNS * runs, 60)


def compiled(name, address, *, runs=False):
    return frame(name, v8.COMPILED | v8.RUNS * runs, address & 0xFFFFFFFF)


ENTRY_ROW = (ENTRY, 0, v8.ENTRY, 0)


def sample(ip, chain=(), mode=2):
    return make.SAMPLES.sample(ip=ip, pid=5, tid=5, time=10, id=7, misc=mode, chain=list(chain))


def told(*rows, native=False, code=True, **of_sample):
    stack = make.raw(make.stack(*rows))
    block = RecordBlock(memoryview(b"".join([*parts(code=code), stack, sample(**of_sample)])))
    events = decode([block], [make.CLOCK, make.FRAMES])
    found, runtimes = with_runtimes(events, native=native)
    functions = runtimes.stacks.code

    def text(address):
        if not functions.covers(np.array([address], np.uint64))[0]:
            return hex(address)
        row = np.array([address - RUNTIME_BASE], np.uint64)
        function = functions.functions[int(functions.row_of(row)[0])]
        return f"{function.name}:{functions.lines_of(row)[0][1]}"

    nothing = no_user_stacks(len(found.samples))
    chained, _ = with_runtime_callers(found.samples, nothing, runtimes)
    begin, end = next(itertools.pairwise(chained.chain_start.tolist()))
    words, shown = chained.chain[begin:end].tolist(), []
    for before, word in itertools.pairwise([USER, *words]):
        is_exact = before in {USER, KERNEL}
        shown += [] if word in {USER, KERNEL} else [text(word if is_exact else word - 1)]
    return text(found.samples.ip.tolist()[0]), shown


def test_a_bytecode_handler_is_the_function_that_it_runs():
    hit, chain = told(interpreted("leaf", runs=True), interpreted("outer"), ENTRY_ROW, ip=HANDLER)
    assert hit == "leaf:31"
    assert chain == ["leaf:31", "outer:11"]


def test_compiled_code_is_the_functions_that_are_inlined_there():
    hit, chain = told(compiled("outer", JIT + 0x44, runs=True), ENTRY_ROW, ip=JIT + 0x44)
    assert hit == "leaf:31"
    assert chain == ["leaf:31", "inner:21", "outer:11"]


def test_a_caller_is_at_the_instruction_before_the_one_that_it_returns_to():
    rows = interpreted("leaf", runs=True), compiled("outer", JIT + 0x20), ENTRY_ROW
    _, chain = told(*rows, ip=HANDLER)
    assert chain == ["leaf:31", "outer:11"]


def test_compiled_code_without_a_table_is_its_function():
    rows = compiled("outer", JIT + 0x44, runs=True), ENTRY_ROW
    assert told(*rows, ip=JIT + 0x44, code=False) == ("outer:0", ["outer:0"])
    rows = compiled("outer", JIT + 0x444, runs=True), ENTRY_ROW
    assert told(*rows, ip=JIT + 0x444) == ("outer:0", ["outer:0"])


def test_a_process_with_a_map_file_is_named_by_that():
    stack = make.raw(make.stack(interpreted("leaf", runs=True), ENTRY_ROW))
    rows = [*parts(), stack, sample(HANDLER)]
    events = decode([RecordBlock(memoryview(b"".join(rows)))], [make.CLOCK, make.FRAMES])
    assert with_runtimes(events, named={5})[1] is None
    assert with_runtimes(events, named={6})[1] is not None


def test_what_javascript_calls_stays_where_it_is():
    hit, chain = told(compiled("outer", JIT + 4), ENTRY_ROW, ip=IN_LIBC)
    assert hit == hex(IN_LIBC)
    assert chain == [hex(IN_LIBC), "outer:11"]


def test_native_frames_around_javascript():
    rows = interpreted("leaf", runs=True), ENTRY_ROW, compiled("outer", JIT + 0x90), ENTRY_ROW
    chain = [USER, HANDLER, ENTRY, IN_LIBC + 1, JIT + 0x90, HANDLER + 4, ENTRY, MAIN + 1]
    _, shown = told(*rows, ip=HANDLER, chain=chain)
    assert shown == ["leaf:31", hex(IN_LIBC), "outer:11", hex(MAIN)]
    hit, shown = told(*rows, ip=HANDLER, chain=chain, native=True)
    assert hit == hex(HANDLER)
    assert shown[0] == hex(HANDLER)
    assert [one for one in shown if ":" in one] == ["leaf:31", "outer:11"]


@pytest.mark.parametrize("cut", [1, 8, 20, 30, 60])
def test_tables_that_are_cut(cut):
    table = make.blob(wire.KIND_LINES, JIT, bytes([255] * cut), beginning=OUTER)
    stack = make.raw(make.stack(compiled("outer", JIT + 0x44, runs=True), ENTRY_ROW))
    rows = [*parts(code=False), make.raw(table), stack, sample(JIT + 0x44)]
    events = decode([RecordBlock(memoryview(b"".join(rows)))], [make.CLOCK, make.FRAMES])
    found = find_runtime_stacks(events)
    assert np.diff(found.start).tolist() == [1]


def test_nodes_that_go_round():
    table = v8.CODE.pack(0x100, 1, 2, 1) + v8.CODE_ROW.pack(0, 0)
    table += v8.CODE_NODE.pack(0, 11, 1) + v8.CODE_NODE.pack(0, 12, 0)
    table += v8.CODE_FUNCTION.pack(OUTER, SIGNED["outer"], 0)
    record = make.raw(make.blob(wire.KIND_LINES, JIT, table, beginning=OUTER))
    stack = make.raw(make.stack(compiled("outer", JIT + 0x44, runs=True), ENTRY_ROW))
    rows = [*parts(code=False), record, stack, sample(JIT + 0x44)]
    events = decode([RecordBlock(memoryview(b"".join(rows)))], [make.CLOCK, make.FRAMES])
    found = find_runtime_stacks(events)
    assert np.diff(found.start).tolist() == [32]
