"""Functions and code of V8, read from played processes of each version, and from hostile ones."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.examples import examples
from builders.v8_heap import BASE, SIZE, VERSIONS, Heap, exported, layout_of
from prospect.abi import runtime_frames as wire
from prospect.abi import v8
from prospect.capture.runtimes.process_memory import UnreadableError
from prospect.capture.v8 import function_records
from prospect.capture.v8.function_records import CodeReader, FunctionRecords
from prospect.capture.v8.functions import MODULE, FunctionReader
from prospect.capture.v8.images import FRAME_BYTES

SOURCE = "one\ntwo\nfunction three() {\n  four;\n  five;\n}\n"
every_version = pytest.mark.parametrize("version", VERSIONS, ids=str)


def reader_of(heap):
    return FunctionReader(heap, heap.layout)


def a_function(heap, name="three", inferred="", place=17, rows=((0, 17), (6, 29), (9, 37)), **more):
    script = heap.script(heap.string("/srv/app.js"), heap.string(SOURCE))
    inferred_name = heap.string(inferred) if inferred else 0
    scope = heap.scope(heap.string(name), place, inferred=inferred_name, **more)
    return heap.shared(scope, script, heap.bytecode(rows))


@every_version
def test_name_file_and_lines(version):
    heap = Heap(version)
    found = reader_of(heap).read(a_function(heap))
    assert found == ("three", "/srv/app.js", 3, ((0, 3), (6, 4), (9, 5)))


@every_version
@pytest.mark.parametrize("variables", [0, 3, 74, 75, 200])
def test_variables_precede_the_name(version, variables):
    heap = Heap(version)
    assert reader_of(heap).read(a_function(heap, variables=variables))[:3] == (
        *("three", "/srv/app.js"),
        3,
    )


@every_version
def test_a_word_of_a_class_precedes_the_name(version):
    heap = Heap(version)
    assert reader_of(heap).read(a_function(heap, before=(5 << 32,))).name == "three"


@every_version
def test_names_that_are_inferred_or_missing(version):
    heap = Heap(version)
    reader = reader_of(heap)
    assert reader.read(a_function(heap, "", "Cart.total")).name == "Cart.total"
    assert reader.read(a_function(heap, "")).name == ""
    assert reader.read(a_function(heap, "", place=0)).name == MODULE


@every_version
def test_a_builtin_has_a_name_only(version):
    heap = Heap(version)
    shared = heap.shared(heap.string("map"), heap.oddball())
    assert reader_of(heap).read(shared) == ("map", "", 0, ())


@every_version
def test_bytecode_behind_other_objects(version):
    heap = Heap(version)
    layout = heap.layout
    shared = a_function(heap)
    bytecode = heap.number(shared - 1 + v8.SHARED_DATA)
    data = heap.object(layout.interpreter_type, bytecode, 0)
    code = heap.object(layout.code_type, *[0] * 8)
    heap.put(code - 1 + layout.code_bytecode, data)
    heap.put(shared - 1 + v8.SHARED_DATA, code)
    assert len(reader_of(heap).read(shared).lines) == 3


def test_how_strings_are_stored():
    heap = Heap((13, 6))
    cons = heap.made_of(v8.CONS, 10, heap.string("first"), heap.string("second"[:5]))
    sliced = heap.made_of(v8.SLICED, 4, heap.string("a sliced one"), 2 << 32)
    thin = heap.made_of(v8.THIN, 4, heap.string("thin"))
    of_sliced = heap.made_of(v8.CONS, 6, sliced, heap.string("!!"))
    external = heap.string("outside", v8.EXTERNAL)
    for string, text in (
        (cons, "firstsecon"),
        (sliced, "slic"),
        (thin, "thin"),
        (of_sliced, "slic!!"),
        (external, "outside"),
        (heap.string("größer 🎉"), "größer 🎉"),
        (heap.string("x" * 600), "x" * 512 + "…"),
    ):
        assert reader_of(heap).read(heap.shared(string, heap.oddball())).name == text


def test_strings_without_end():
    heap = Heap((13, 6))
    endless = heap.made_of(v8.CONS, 1 << 20, heap.string("a"), 0)
    heap.put(endless - 1 + v8.STRING_SECOND, endless)
    with pytest.raises(UnreadableError):
        reader_of(heap).read(heap.shared(endless, heap.oddball()))


def test_lines_of_a_source_of_two_bytes():
    heap = Heap((13, 6))
    script = heap.script(heap.string("/srv/app.js"), heap.string("é\n\nfunction"))
    shared = heap.shared(heap.scope(heap.string("f"), 3), script)
    assert reader_of(heap).read(shared).first == 3


def test_what_is_no_function_any_more():
    heap = Heap((13, 6))
    reader = reader_of(heap)
    for one in (heap.oddball(), heap.string("text"), BASE + SIZE - 7, 5 << 32):
        with pytest.raises(UnreadableError):
            reader.read(one)


@every_version
def test_inlined_calls(version):
    heap = Heap(version)
    outer, inner, leaf = (a_function(heap, name) for name in ("outer", "inner", "leaf"))
    begin = heap.code(
        outer,
        rows=((0, 17, -1), (0x20, 29, 0), (0x40, 37, 1), (0x60, 37, 1), (0x80, 37, -1)),
        calls=((29, -1, 0), (37, 0, 1)),
        inlined=(inner, leaf),
    )
    reader = CodeReader(heap, heap.layout, reader_of(heap))
    code = reader.read(begin + 0x44)
    assert code.start == begin
    assert code.shared == outer
    assert [offset for offset, _ in code.rows] == [0, 0x20, 0x40, 0x80]
    chains = []
    for _, innermost in code.rows:
        chain, at = [], innermost
        while at >= 0:
            function, line, at = code.nodes[at]
            chain.append((code.functions[function], line))
        chains.append(chain)
    assert chains == [
        [(outer, 3)],
        [(inner, 4), (outer, 4)],
        [(leaf, 5), (inner, 5), (outer, 4)],
        [(outer, 5)],
    ]
    assert reader.read(begin + 0x400) is None


@every_version
def test_code_that_is_not_optimized(version):
    heap = Heap(version)
    begin = heap.code(a_function(heap), rows=((0, 17),))
    reader = CodeReader(heap, heap.layout, reader_of(heap))
    layout = heap.layout
    code = heap.number(begin - layout.code_begin + 8) if layout.code_start else begin
    code = code if layout.code_start else begin - layout.code_begin + 1
    heap.content[code - 1 + layout.code_flags - BASE] = layout.baseline
    assert reader.read(begin) is None


def test_records(monkeypatch):
    heap = Heap((13, 6))
    monkeypatch.setattr(function_records, "ProcessMemory", lambda _pid: heap)
    outer, leaf = a_function(heap, "outer"), a_function(heap, "leaf")
    begin = heap.code(outer, rows=((0, 29, 0),), calls=((37, -1, 0),), inlined=(leaf,))
    signed = reader_of(heap).signature(outer)
    words = (FRAME_BYTES, 1, *heap.layout)
    met = [(outer, signed, 0), (outer, signed ^ 1, 0), (leaf, signed, begin), (outer, 0, begin + 9)]
    looked_at, records, failed = FunctionRecords().of(4711, 7, words, met)
    assert looked_at == len(met)
    assert failed == (1,)
    heads = [wire.HEADER.unpack_from(record) for record in records]
    assert all(head[0] == wire.MAGIC and head[5] == 7 for head in heads)
    assert [head[1] for head in heads[:3]] == [wire.KIND_NAME, wire.KIND_FILE, wire.KIND_LINES]
    assert {head[4] for head in heads[:3]} == {wire.signature_of(signed)}
    assert heads[3][6:] == (begin, outer)
    names = [
        record[wire.HEADER.size :]
        for record in records
        if wire.HEADER.unpack_from(record)[1] == wire.KIND_NAME
    ]
    assert names == [b"outer", b"outer", b"leaf"]


@every_version
def test_layouts_are_checked(version):
    numbers = exported(version)
    assert layout_of(version) is not None
    assert v8.layout_for((99, 0), numbers) is None
    for name in numbers:
        for value in (-1, 1 << 30):
            if not name.startswith((b"v8dbg_type_Instruc", b"v8dbg_type_Trusted")):
                assert v8.layout_for(version, numbers | {name: value}) is None, (name, value)
    assert v8.layout_for(version, {}) is None


@settings(max_examples=examples(200), deadline=None)
@given(
    st.sampled_from(VERSIONS),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 1 << 64)), max_size=40),
)
def test_hostile_memory(version, changes):
    heap = Heap(version)
    shared = a_function(heap)
    begin = heap.code(shared, rows=((0, 17, 0),), calls=((29, -1, 0),), inlined=(shared,))
    used = range(0x100, heap.room(0) - BASE, 8)
    for place, value in changes:
        word = value if value & 1 else BASE + 1 + 8 * (value % (SIZE // 8))
        heap.put(BASE + used[place % len(used)], word & (1 << 64) - 1)
    functions = reader_of(heap)
    for read in (functions.read, functions.signature):
        with suppress(UnreadableError):
            read(shared)
    with suppress(UnreadableError):
        CodeReader(heap, heap.layout, functions).read(begin + 8)
