"""V8's frames from what samples copied, of played processes of each version and of hostile ones."""

from __future__ import annotations

import random
import struct

import pytest

from builders.v8_heap import BASE, VERSIONS, Heap
from prospect.abi import constants as abi
from prospect.abi import runtime_frames as wire
from prospect.abi import v8
from prospect.abi.attr import EventAttr
from prospect.capture.runtimes.process_memory import UnreadableError
from prospect.capture.runtimes.runtime import Placed
from prospect.capture.v8 import sampled_stacks
from prospect.capture.v8.images import FRAME_BYTES
from prospect.capture.v8.sampled_stacks import Sampled, SampleReader, StackWalker, copies_of

TEXT = range(0x40_0000, 0x200_0000)
LIBRARY = range(0x6000_0000, 0x6010_0000)
COMPILED = range(0x7E00_0000_0000, 0x7E00_0800_0000)
IN_CODE, IN_LIBRARY = COMPILED.start + 0x1234, LIBRARY.start + 8
STACK, ISOLATE, IN_FILE = BASE + 0x20000, BASE + 0x30000, TEXT.start + 0x10000
TID, CONTEXT = 7, 0x7F00_0000_0201
EXIT = 2 * v8.EXIT_TYPE
every_version = pytest.mark.parametrize("version", VERSIONS, ids=str)


class PlayedHeap(Heap):
    def read_pieces(self, pieces):
        return [self.read(*one) for one in pieces]


class Played:
    """A thread of a process with V8, whose stack is in the memory as well."""

    def __init__(self, monkeypatch, version=(13, 6)):
        self.heap = heap = PlayedHeap(version)
        self.layout = layout = heap.layout
        placed = Placed(
            *(wire.V8, layout.version, 0, (), (FRAME_BYTES, layout.version >= 0x0C09, *layout)),
            text=(TEXT.start, TEXT.stop),
            loop=(0, 0),
        )
        self.builtins = COMPILED.stop - layout.builtins_bytes - 0x1000
        heap.put(ISOLATE + layout.builtins, self.builtins, self.builtins + layout.first_bytes)
        self.put_isolate(outermost=STACK + 0x800)
        files = [0, 0, TEXT.start, TEXT.stop, LIBRARY.start, LIBRARY.stop]
        monkeypatch.setattr(sampled_stacks, "_mapped_code", lambda _: (files, COMPILED))
        self.walker = StackWalker(heap, 3, placed)

    def put_isolate(self, entered=0, called=0, outermost=0):
        layout = self.layout
        places = {layout.entered: entered, layout.called: called, layout.outermost: outermost}
        for at, word in places.items():
            self.heap.put(ISOLATE + at, word)

    def function(self, name, number=1):
        """A closure of a function: it, the function's address, and the bytes that are signed."""
        heap, layout = self.heap, self.layout
        script = heap.script(heap.string("/srv/app.js"), heap.string("one\ntwo\n"))
        shared = heap.shared(heap.scope(heap.string(name), 4), script, number=number)
        closure = heap.object(layout.function_type, *[shared] * 8)
        return closure, shared, script + (number << 32)

    def frame(self, at, caller, back, function=0, *, context=CONTEXT, bytecode=0, offset=0):
        """A frame of the stack."""
        words = {
            v8.FRAME_FUNCTION: function,
            v8.FRAME_CONTEXT: context,
            v8.FRAME_CALLER: caller,
            v8.FRAME_RETURN: back,
            v8.FRAME_BYTECODE: bytecode,
            v8.FRAME_OFFSET: offset,
        }
        for offset_of, word in words.items():
            self.heap.put(at + offset_of, word)

    def entry(self, at, outer=0):
        self.frame(at, 0x7000, 0x7000, context=2 * v8.ENTRY_TYPES[0])
        self.heap.put(at + v8.ENTRY_CALLED, 0, outer)

    def sampled(self, frame, instruction, *, size=0x1000, r12=0, r9=0, r13=None):
        root = ISOLATE + v8.ISOLATE_REGISTER_BIAS if r13 is None else r13
        stack = self.heap.read(STACK, size)
        return Sampled(frame, STACK, instruction, r9, r12, root, stack)

    def walk(self, *args, **kwargs):
        """Status, (code, last, mark, signature) of each frame, and what there is to tell."""
        record, met = self.walker.walk(TID, self.sampled(*args, **kwargs))
        _, kind, status, count = struct.unpack_from("<IHHI", record)
        assert kind == wire.KIND_STACK
        rows = [wire.FRAME.unpack_from(record, wire.STACK_BYTES + 16 * n) for n in range(count)]
        return status, [(*row[:2], row[2] & 0xFF, row[2] >> 8) for row in rows], met


@pytest.fixture
def played(monkeypatch):
    return Played(monkeypatch)


@every_version
def test_compiled_and_interpreted_frames(version, monkeypatch):
    played = Played(monkeypatch, version)
    inner, inner_shared, inner_signed = played.function("inner")
    outer, outer_shared, outer_signed = played.function("outer", 2)
    bytecode = played.heap.bytecode(())
    handler = played.builtins + 64
    entered = IN_FILE + played.layout.entry
    played.frame(STACK + 0x100, STACK + 0x200, handler, inner)
    played.frame(STACK + 0x200, STACK + 0x300, entered, outer, bytecode=bytecode, offset=9 << 32)
    played.entry(STACK + 0x300)
    status, frames, met = played.walk(STACK + 0x100, IN_CODE)
    assert status == wire.WALKED
    assert frames == [
        (
            inner_shared,
            IN_CODE & 0xFFFFFFFF,
            v8.COMPILED | v8.RUNS,
            wire.signature_of(inner_signed),
        ),
        (outer_shared, 9, v8.INTERPRETED, wire.signature_of(outer_signed)),
        (entered, 0, v8.ENTRY, 0),
    ]
    told = (inner_shared, inner_signed), (outer_shared, outer_signed)
    assert met == [(*told[0], 0), (*told[0], IN_CODE), (*told[1], 0)]


def test_registers_have_the_offset_while_bytecode_runs(played):
    function, shared, _ = played.function("runs")
    bytecode = played.heap.bytecode(())
    played.frame(STACK + 0x100, STACK + 0x300, 0, function, bytecode=bytecode, offset=9 << 32)
    played.entry(STACK + 0x300)
    registers = {"r12": bytecode, "r9": 77}
    _, frames, _ = played.walk(STACK + 0x100, played.builtins + 64, **registers)
    assert frames[0][:3] == (shared, 77, v8.INTERPRETED | v8.RUNS)
    _, frames, _ = played.walk(STACK + 0x100, played.builtins + 64, r12=bytecode + 8, r9=77)
    assert frames[0][1] == 9


def cxx(played, **isolate):
    """C++ that a function called: walk once while JavaScript runs, then from there."""
    function, shared, _ = played.function("caller")
    played.frame(STACK + 0x100, STACK + 0x200, played.builtins + 8, context=EXIT)
    played.frame(STACK + 0x200, STACK + 0x300, IN_FILE + played.layout.entry, function)
    played.entry(STACK + 0x300)
    played.walk(STACK + 0x200, IN_CODE)  # by which the thread's Isolate is known
    played.put_isolate(**{"outermost": STACK + 0x300} | isolate)
    return shared


@pytest.mark.parametrize("entered", [0, STACK + 0x100, STACK + 0x180])
def test_the_frame_that_called_c_plus_plus_is_found(played, entered):
    # V8 has noted the frame, has forgotten it, or notes one of a later call.
    shared = cxx(played, entered=entered)
    status, frames, _ = played.walk(0x1234, IN_LIBRARY, r13=0x5678)
    assert status == wire.WALKED
    assert [one[0] for one in frames[:1]] == [shared]
    assert not frames[0][2] & v8.RUNS


def test_the_outer_part_of_a_stack_is_read_from_memory(played):
    cxx(played, entered=STACK + 0x100)
    status, frames, _ = played.walk(0x1234, IN_LIBRARY, size=0x40)
    assert (status, len(frames)) == (wire.WALKED, 2)


def test_threads_that_run_no_javascript(played):
    assert played.walk(STACK + 0x100, IN_LIBRARY, r13=0x5678)[:2] == (wire.NO_THREAD, [])
    cxx(played, outermost=0)
    assert played.walk(STACK + 0x100, IN_LIBRARY)[:2] == (wire.NO_FRAME, [])


def test_c_plus_plus_is_entered_from_where_javascript_called_it(played):
    inner, inner_shared, _ = played.function("inner")
    cxx(played)
    played.frame(STACK + 0x40, STACK + 0xC0, IN_FILE + played.layout.entry, inner)
    played.entry(STACK + 0xC0, outer=STACK + 0x100)
    status, frames, _ = played.walk(STACK + 0x40, IN_CODE)
    assert status == wire.WALKED
    marks = [one[2] & v8.KIND_MASK for one in frames]
    assert marks == [v8.COMPILED, v8.ENTRY, v8.COMPILED, v8.ENTRY]
    assert frames[0][0] == inner_shared


def test_a_cycle_of_frames_and_a_long_stack_end(played):
    function, _, _ = played.function("endless")
    played.frame(STACK + 0x100, STACK + 0x100, IN_CODE, function)
    assert played.walk(STACK + 0x100, IN_CODE)[0] == wire.FAULT
    for row in range(200):
        at = STACK + 0x100 + 0x40 * row
        played.frame(at, at + 0x40, IN_CODE, function)
    status, frames, _ = played.walk(STACK + 0x100, IN_CODE)
    assert (status, len(frames)) == (wire.TRUNCATED, wire.MOST_FRAMES)


def test_functions_that_are_gone_leave_the_others(played):
    function, shared, _ = played.function("there")
    played.frame(STACK + 0x100, STACK + 0x200, IN_CODE, 0x12345)
    played.frame(STACK + 0x200, STACK + 0x300, IN_CODE, function)
    played.entry(STACK + 0x300)
    status, frames, _ = played.walk(STACK + 0x100, IN_CODE)
    assert status == wire.WALKED
    assert [one[0] for one in frames] == [shared, IN_CODE]


def test_any_memory_and_registers_end_a_walk(played):
    chance = random.Random(7)
    words = [STACK + 8 * n for n in range(64)] + [2, 4, EXIT, CONTEXT, IN_CODE, IN_LIBRARY, 0]
    for _ in range(300):
        for row in range(256):
            played.heap.put(STACK + 8 * row, chance.choice(words))
        for name in ("entered", "called", "outermost"):
            played.put_isolate(**{name: chance.choice(words)})
        at = chance.choice([IN_CODE, IN_LIBRARY, played.builtins, chance.getrandbits(64)])
        root = chance.choice([None, chance.getrandbits(64)])
        frame = chance.choice([*words, chance.getrandbits(64)])
        status, frames, _ = played.walk(frame, at, size=chance.randrange(2048), r13=root)
        assert status in range(wire.FAULT + 1)
        assert len(frames) <= wire.MOST_FRAMES


class Records:
    """Answers instead of the process's memory."""

    def __init__(self):
        self.asked = []

    def of(self, _pid, _image, _words, met):
        self.asked += met
        return len(met), tuple(b"name" for _ in met), ()


def test_names_are_read_once(played, monkeypatch):
    records = Records()
    monkeypatch.setattr(sampled_stacks, "FunctionRecords", lambda: records)
    function, shared, signed = played.function("runs")
    played.frame(STACK + 0x100, STACK + 0x300, 0, function)
    played.entry(STACK + 0x300)
    reader, sampled = SampleReader(), played.sampled(STACK + 0x100, IN_CODE)
    first = reader.read(played.walker, TID, sampled)
    assert first[:3] == [played.walker.description, b"name", b"name"]
    assert records.asked == [(shared, signed, 0), (shared, signed, IN_CODE)]
    assert len(reader.read(played.walker, TID, sampled)) == 1
    reader.forget()
    assert len(reader.read(played.walker, TID, sampled)) == 4


# On samples.

KINDS = (
    abi.PERF_SAMPLE_IDENTIFIER
    | abi.PERF_SAMPLE_TID
    | abi.PERF_SAMPLE_CALLCHAIN
    | abi.PERF_SAMPLE_REGS_USER
    | abi.PERF_SAMPLE_STACK_USER
)
REGISTERS = 0xFF0FFF
ATTR = EventAttr(sample_type=KINDS, sample_regs_user=REGISTERS, sample_stack_user=32)


def sample(stack=b"s" * 16 + b"-" * 16, filled=16, chain=(1, 2), kind=abi.PERF_SAMPLE_REGS_ABI_64):
    numbers = [number for number in range(64) if REGISTERS >> number & 1]
    words = [9, 5, len(chain), *chain, kind, *(1000 + number for number in numbers), len(stack)]
    return bytes(8) + struct.pack(f"<{len(words)}Q", *words) + stack + struct.pack("<Q", filled)


def test_a_sample_has_registers_and_its_stack():
    find = copies_of(ATTR)
    assert find is not None
    expected = Sampled(1006, 1007, 1008, 1017, 1020, 1021, b"s" * 16)
    assert find(b"before.." + sample(), 8) == expected
    assert find(sample(chain=()), 0) == expected
    assert find(sample(kind=abi.PERF_SAMPLE_REGS_ABI_32), 0) is None
    assert find(sample()[:200], 0) is None
    assert find(sample(filled=1 << 40), 0).stack == b"s" * 16 + b"-" * 16


@pytest.mark.parametrize(
    "change",
    [
        {"sample_type": KINDS & ~abi.PERF_SAMPLE_STACK_USER},
        {"sample_type": KINDS | abi.PERF_SAMPLE_RAW},
        {"sample_regs_user": 1 << 6},
    ],
)
def test_events_without_copies(change):
    assert copies_of(ATTR._replace(**change)) is None
    assert SampleReader().copied(ATTR._replace(**change), sample(), 0) is None


def test_memory_that_may_not_be_read_is_said(played, monkeypatch):
    cxx(played)

    def refuse(_):
        raise UnreadableError(1, "no")

    monkeypatch.setattr(played.heap, "read_pieces", refuse)
    monkeypatch.setattr(played.heap, "read", lambda *_: refuse(0))
    with pytest.raises(UnreadableError):
        played.walk(0x1234, IN_LIBRARY)
